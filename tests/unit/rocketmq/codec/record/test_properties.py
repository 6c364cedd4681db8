"""The property string: what it carries, what it cannot, and what readers make of odd ones."""

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.codec.record import properties


def test_encoding_is_name_and_value_with_two_separators() -> None:
    """Pairs keep their order; text is UTF-8; a lone surrogate becomes a question mark."""
    encoded = properties.encode({"a": "1", "größe": "日本\ud800", "e": ""})
    assert encoded == "a\x011\x02größe\x01日本?\x02e\x01\x02".encode()
    assert properties.encode({}) == b""


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"a": "x\x02y"}, "value of property 'a'"),
        ({"a\x01": "x"}, "name of property"),
        ({"a\x02": "x"}, "name of property"),
        ({"": "x"}, "empty name"),
    ],
)
def test_what_cannot_be_carried_is_refused(pairs: dict[str, str], words: str) -> None:
    """Rather than corrupt the pairs that follow."""
    with pytest.raises(InvalidMessage, match=words):
        properties.encode(pairs)


def test_a_value_may_hold_the_first_separator() -> None:
    """Only the first 0x01 of a pair separates."""
    assert properties.decode(properties.encode({"a": "x\x01y"})) == {"a": "x\x01y"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a\x011", {"a": "1"}),
        ("a\x011\x02b\x012\x02", {"a": "1", "b": "2"}),
        ("a\x01\x02b\x012\x02", {"b": "2"}),
        ("\x011\x02b\x012\x02", {"b": "2"}),
        ("abc\x02\x02b\x012\x02", {"b": "2"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
        ("a\x011\x02a\x01\x02", {"a": "1"}),
    ],
)
def test_reading_odd_strings(text: str, expected: dict[str, str]) -> None:
    """As RocketMQ's MessageDecoder; finding one pair agrees with it."""
    assert expected == properties.decode(text)
    assert expected == properties.decode(text.encode())
    for name in ("a", "b", "abc"):
        assert expected.get(name) == properties.find(text.encode(), name)


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """A foreign store stays readable."""
    assert properties.decode(b"a\x01\xff\x02") == {"a": "\ufffd"}
    assert properties.find(b"a\x01\xff\x02", "a") == "\ufffd"


def test_appending_closes_what_is_open() -> None:
    """A client may leave the last separator out."""
    assert properties.append(b"", "b", "2") == b"b\x012\x02"
    assert properties.append(b"a\x011", "b", "2") == b"a\x011\x02b\x012\x02"
    assert properties.append(b"a\x011\x02", "b", "2") == b"a\x011\x02b\x012\x02"
    assert properties.join(b"a\x011", b"") == b"a\x011"


def test_removing_takes_every_pair_of_the_name() -> None:
    """And none whose name only ends like it."""
    encoded = b"xa\x011\x02a\x012\x02b\x013\x02a\x014"
    assert properties.remove(encoded, "a") == b"xa\x011\x02b\x013"
    assert properties.remove(encoded, "c") is encoded


def test_index_keys_are_the_unique_key_and_the_words() -> None:
    """Split at single blanks; empty words are none; doubles stay."""
    assert properties.index_keys("U", "a  b a ") == ("U", "a", "b", "a")
    assert properties.index_keys(None, "a") == ("a",)
    assert properties.index_keys("", "") == properties.index_keys(None, None) == ()
    assert properties.index_keys("U", None) == ("U",)
