"""Signatures of requests: what is signed, and the clients that sign less than they send."""

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.codec import signature
from sprocket.rocketmq.codec.signature import SigningKey

KEY = SigningKey("12345678")
SENT = {
    "Signature": "what was there before",
    "m": "false",
    "a": "PG",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01ABC\x02",
    "j": "0",
    "k": "false",
    "AccessKey": "RocketMQ",
}
"""The ext fields of a send, in no order."""
RIGHT = "DU2Y0nXA0+24r/oJFUQRAVfIHGc="
"""Its signature with the body `hello`, as RocketMQ's `AclSigner` makes it."""


def test_the_signature_is_that_of_rocketmq() -> None:
    """Values in the order of their names, capitals first, then the body; two known signatures."""
    assert KEY.sign(SENT, b"hello") == RIGHT
    short = {"topic": "T", "group": "G", "AccessKey": "ak"}
    assert SigningKey("sk").sign(short, b"") == "KvXPaAYDq988oRBN0BuceHdSJRU="


def test_a_right_signature_is_right() -> None:
    """Whatever kind of buffer the body is."""
    assert KEY.is_right(RIGHT, SENT, b"hello")
    assert KEY.is_right(RIGHT, SENT, memoryview(b"hello"))


@pytest.mark.parametrize(
    ("given_signature", "changed", "body"),
    [
        (None, {}, b"hello"),
        ("", {}, b"hello"),
        (RIGHT[:-1], {}, b"hello"),
        ("ä" + RIGHT[1:], {}, b"hello"),
        ("\ud800", {}, b"hello"),
        (RIGHT, {"b": "TopicTesu"}, b"hello"),
        (RIGHT, {"z": "1"}, b"hello"),
        (RIGHT, {"__ZONE_NAME_": "1"}, b"hello"),
        (RIGHT, {}, b"hellp"),
        (RIGHT, {}, b""),
    ],
)
def test_a_wrong_signature_is_wrong(
    given_signature: str | None, changed: dict[str, str], body: bytes
) -> None:
    """One that is missing, cut, of other letters, or of another request."""
    assert not KEY.is_right(given_signature, SENT | changed, body)


def test_another_secret_is_wrong() -> None:
    """Nobody signs for others."""
    assert not SigningKey("12345679").is_right(RIGHT, SENT, b"hello")


@pytest.mark.parametrize(("version", "expected"), [(0, True), (399, True), (400, False)])
def test_old_clients_do_not_sign_that_they_query_by_key(version: int, expected: bool) -> None:
    """Up to 4.9.3 the field is added after the signature; later clients sign it."""
    ext = SENT | {"_UNIQUE_KEY_QUERY": "true"}
    assert KEY.is_right(RIGHT, ext, b"hello", version) is expected
    assert KEY.is_right(KEY.sign(ext, b"hello"), ext, b"hello", version) is not expected


def test_zone_fields_may_be_signed_or_not() -> None:
    """Java's client adds them after the signature, though RocketMQ's broker counts them."""
    ext = SENT | {"__ZONE_NAME": "z", "__ZONE_MODE": "true"}
    assert KEY.is_right(RIGHT, ext, b"hello")
    assert KEY.is_right(KEY.sign(ext, b"hello"), ext, b"hello")
    assert not KEY.is_right(RIGHT, ext, b"hellp")


def test_the_channel_of_cpp_is_signed() -> None:
    """The C++ client sends a field more, and signs it."""
    ext = SENT | {"OnsChannel": "ALIYUN"}
    assert not KEY.is_right(RIGHT, ext, b"hello")
    assert KEY.is_right(KEY.sign(ext, b"hello"), ext, b"hello")


@given(
    secret=st.text(max_size=200),
    ext=st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=12),
    body=st.binary(max_size=200),
)
def test_it_is_the_hmac_of_the_standard_library(
    secret: str, ext: dict[str, str], body: bytes
) -> None:
    """Half of an HMAC is kept with the key, for keys of any length and any text."""
    names = sorted(name for name in ext if name != signature.SIGNATURE)
    text = "".join(ext[name] for name in names).encode() + body
    expected = base64.b64encode(hmac.digest(secret.encode(), text, "sha1")).decode()
    assert SigningKey(secret).sign(ext, body) == expected


def test_a_text_that_is_not_unicode_is_signed_as_java_does() -> None:
    """Half of a character of UTF-16 becomes a question mark."""
    assert KEY.sign({"a": "\ud800"}, b"") == KEY.sign({"a": "?"}, b"")


def test_a_key_does_not_show_its_secret() -> None:
    """Neither does a traceback that prints it."""
    assert "12345678" not in repr(KEY)
