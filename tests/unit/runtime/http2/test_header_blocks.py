"""Header blocks are read as the `hpack` package reads them, whoever wrote them."""

from collections.abc import Sequence
from contextlib import suppress

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sprocket.runtime.http2 import RequestHead
from sprocket.runtime.http2.header_blocks import (
    FORMS_MAX,
    HeaderDecoder,
    MalformedHeaders,
    UnreadableBlock,
)

NAMES = st.sampled_from((":path", ":authority", "te", "content-type", "x-mq-client-id", "x" * 40))
VALUES = st.sampled_from(("", "/", "POST", "trailers", "5.1.2")) | st.text(
    st.characters(min_codepoint=32, max_codepoint=126), max_size=300
)
KINDS = st.sampled_from((0x40, 0x00, 0x10))
"""Kept in the table, not kept, never to be kept."""
FIELDS = st.lists(st.tuples(NAMES, VALUES, KINDS, st.booleans()), max_size=12)

OF_HTTP_1 = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
TABLE_BYTES = 4096


class Pair:
    """Both readers of one connection."""

    def __init__(self) -> None:
        self.ours = HeaderDecoder(TABLE_BYTES)
        self.theirs = hpack.Decoder(max_header_list_size=16_384)

    def check(self, block: bytes) -> bool:
        """Have both read a block: the same fields, or none; tell which."""
        try:
            found = self.theirs.decode(block, raw=True)
            expected = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found]
        except (hpack.HPACKError, IndexError, ValueError):
            with pytest.raises(UnreadableBlock):
                self.ours.read(block)
            return False
        try:
            assert [*self.ours.read(block)] == expected
        except MalformedHeaders:
            assert [one for one in expected if is_malformed(*one)]
        else:
            assert not [one for one in expected if is_malformed(*one)]
        return True


def is_malformed(name: str, value: str) -> bool:
    """Tell whether a field may not be sent over HTTP/2 (RFC 9113, 8.2)."""
    has_wrong = not name or any(not "!" <= char <= "~" or "A" <= char <= "Z" for char in name)
    is_wrong = bool({*value} & {*"\0\r\n"}) or (name == "te" and value != "trailers")
    return has_wrong or is_wrong or name in OF_HTTP_1


def number(value: int, bits: int, first: int) -> bytes:
    """Return a number behind the bits of `first`."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    found, value = bytearray((first | most,)), value - most
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def text(value: str, *, is_packed: bool) -> bytes:
    """Return a text as it is, or packed."""
    data = value.encode()
    if is_packed:
        data = hpack.Encoder().huffman_coder.encode(data)
    return number(len(data), 7, 0x80 if is_packed else 0) + data


@given(st.lists(FIELDS, max_size=6))
def test_literals_are_read_whatever_their_kind(
    blocks: list[list[tuple[str, str, int, bool]]],
) -> None:
    """Packed or not, kept or not; the blocks of a connection, one after the other."""
    pair = Pair()
    for fields in blocks:
        pair.check(
            b"".join(
                bytes((kind,)) + text(name, is_packed=packed) + text(value, is_packed=packed)
                for name, value, kind, packed in fields
            )
        )


@given(st.lists(FIELDS, min_size=1, max_size=8))
def test_what_an_encoder_makes_is_read(blocks: list[list[tuple[str, str, int, bool]]]) -> None:
    """With what it keeps in its table, until that is full, and changes of its size."""
    pair, encoder = Pair(), hpack.Encoder()
    for place, fields in enumerate(blocks):
        if place % 3 == 2:
            encoder.header_table_size = 4096 if encoder.header_table_size < 4096 else 200
        pair.check(encoder.encode([(name, value) for name, value, _, _ in fields]))


@given(st.lists(st.binary(max_size=60), max_size=4))
@example([b"\xb9"])  # transfer-encoding
def test_any_bytes_are_fields_or_none(blocks: list[bytes]) -> None:
    """After others that were read; and no other error is raised."""
    pair = Pair()
    for block in (b"\x83\x86", *blocks):
        with suppress(MalformedHeaders, UnreadableBlock):
            HeaderDecoder(TABLE_BYTES).request(block)
        if not pair.check(block):
            return


class WithoutForms(HeaderDecoder):
    """Reads every field of every block."""

    def alike(self, block: bytes) -> RequestHead | None:
        """Know no form."""


def both(readers: Sequence[HeaderDecoder], block: bytes) -> RequestHead | None:
    """Have readers read a block and compare what they say; return that, None if it is an error."""
    told: list[object] = []
    for reader in readers:
        try:
            head = reader.request(block)
            told.append((head.method, head.path, head.authority, head.fields, head.content_length))
        except (MalformedHeaders, UnreadableBlock) as error:
            told.append((type(error), str(error)))
            head = None
    assert told[0] == told[1]
    return head


OF_CALLS = st.tuples(
    st.sampled_from(
        (
            *("x-mq-request-id", "x-mq-date-time", "authorization", "grpc-timeout"),
            *(":path", "content-length", "host", "te", "x-a"),
        )
    ),
    st.sampled_from((0x00, 0x10, 0x00, 0x40)),
    st.booleans() | st.just(value=False),
)
SAME_SIZE = st.sampled_from(
    (b"abcdefgh", b"abcdefgi", b"12345678", b"trailers", b"\xe9bcdefgh", b"a\tcdefgh", b"a\ncdefgh")
)


@given(
    st.lists(OF_CALLS, min_size=1, max_size=5),
    st.lists(
        st.tuples(
            st.lists(SAME_SIZE, min_size=5, max_size=5),
            st.none() | st.tuples(st.integers(0, 90), st.integers(0, 255)),
        ),
        min_size=3,
        max_size=10,
    ),
)
def test_a_block_of_a_known_form_says_what_its_fields_do(
    layout: list[tuple[str, int, bool]], calls: list[tuple[list[bytes], tuple[int, int] | None]]
) -> None:
    """Whatever values change, of whatever kind, and whatever a byte of it becomes; tables too."""
    readers = HeaderDecoder(TABLE_BYTES), WithoutForms(TABLE_BYTES)
    for values, changed in calls:
        block = b"\x83\x86\x84" + b"".join(
            bytes((kind,))
            + text(name, is_packed=packed)
            + text(value.decode("latin-1"), is_packed=packed)
            for (name, kind, packed), value in zip(layout, values, strict=False)
        )
        if changed is not None and changed[0] < len(block):
            at, byte = changed
            block = block[:at] + bytes((byte,)) + block[at + 1 :]
        both(readers, block)
        both(readers, b"\x83\x86\x84\xbe")  # the field that came last into the table


def block_of(**fields: str) -> bytes:
    """Return the block of a request with some fields as they are."""
    return b"\x83\x86\x84" + b"".join(
        b"\0" + text(name.replace("_", "-"), is_packed=False) + text(value, is_packed=False)
        for name, value in fields.items()
    )


def test_fields_that_change_make_a_form() -> None:
    """From the second block on that says something else in them; what others say is the same."""
    readers = HeaderDecoder(TABLE_BYTES), WithoutForms(TABLE_BYTES)
    first, *others = [
        block_of(x_date=date, x_client="c", authorization=f"of {number}", x_id=f"{number:08}")
        for number, date in enumerate(("1", "1", "1", "2", "2", "1"))
    ]
    both(readers, first)
    known = []
    for block in others:
        known.append(readers[0].alike(block) is not None)
        head = both(readers, block)
        assert head is not None
    assert known == [False, True, False, True, True]
    assert readers[0].alike(block_of(x_date="3", x_client="c", authorization="of 9", x_id="7" * 8))
    for other in ("x_client", "x_id"):
        said = {"x_date": "3", "x_client": "c", "authorization": "of 9", "x_id": "7" * 8}
        wrong = "d" if other == "x_client" else "7777\n777"
        assert readers[0].alike(block_of(**said | {other: wrong})) is None


@pytest.mark.parametrize("name", ["grpc_timeout", "content_type", "host", "te", "traceparent"])
def test_other_fields_make_none_when_they_change(name: str) -> None:
    """What is made of a head depends on them."""
    reader = HeaderDecoder(TABLE_BYTES)
    for number in range(4):
        block = block_of(x_id="1", **{name: "trailers" if name == "te" else str(number)})
        assert (reader.alike(block) is None) == (name != "te" or number < 2)
        reader.request(block)


def test_forms_are_forgotten_when_the_table_changes() -> None:
    """What is indexed means something else then; and there are not too many of them."""
    reader = HeaderDecoder(TABLE_BYTES)
    for value in "123":
        reader.request(block_of(x_id=value))
    assert reader.alike(block_of(x_id="4"))
    reader.request(b"\x83\x86\x84\x40\x01a\x01b")
    assert reader.alike(block_of(x_id="4")) is None
    for size in range(100):
        for value in "123":
            reader.request(block_of(x_id=value * size))
    known = [size for size in range(100) if reader.alike(block_of(x_id="4" * size))]
    assert 0 < len(known) <= FORMS_MAX


@pytest.mark.parametrize(
    "block",
    [
        bytes.fromhex("ff8080808001"),  # an index that is far too large
        bytes.fromhex("ff80808080808001"),
        bytes.fromhex("80"),  # index 0
        bytes.fromhex("8320"),  # a size behind a field
        bytes.fromhex("3fe2ff03"),  # a table that is too large
        bytes.fromhex("0081ff"),  # a name of nothing but padding
        bytes.fromhex("0003616263"),  # no value
    ],
)
def test_what_cannot_be_read_is_told(block: bytes) -> None:
    """By the same error."""
    with pytest.raises(UnreadableBlock):
        HeaderDecoder(TABLE_BYTES).skip(block)
