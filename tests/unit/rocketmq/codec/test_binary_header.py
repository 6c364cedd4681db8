"""The binary form of a header."""

import struct

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import binary_header
from sprocket.rocketmq.codec.binary_header import BinaryHeader

# Vector 2 of the protocol's description: GET_ROUTEINFO_BY_TOPIC for topic T, opaque 7, from Java.
ROUTE_HEADER = bytes.fromhex(
    "0069 00 01df 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54"
)


def test_a_header_of_the_java_client_is_read() -> None:
    """Every field comes out; an empty remark is none."""
    expected = BinaryHeader(105, "JAVA", 479, 7, 0, None, {"topic": "T"})
    assert expected == binary_header.decode(ROUTE_HEADER)


def test_what_is_written_is_read_back() -> None:
    """Negative numbers and texts beyond ASCII survive; empty texts count as absent."""
    written = binary_header.encode(-5, -1, 3, "grüße", {"k": "v ü", "empty": "", "": "nameless"})
    expected = BinaryHeader(-5, "PYTHON", 479, -1, 3, "grüße", {"k": "v ü"})
    assert expected == binary_header.decode(written)


def test_entries_without_name_or_value_are_absent() -> None:
    """A size of 0 is Java's null, for names and values alike."""
    entries = b"\0\0" + b"\0\0\0\1a" + b"\0\1k" + b"\0\0\0\0" + b"\0\1x" + b"\0\0\0\1y"
    header = ROUTE_HEADER[:17] + struct.pack(">i", len(entries)) + entries
    assert binary_header.decode(header).ext == {"x": "y"}


def test_an_unknown_language_is_other() -> None:
    """New clients may have numbers that we do not know."""
    header = ROUTE_HEADER[:2] + b"\xc8" + ROUTE_HEADER[3:]
    assert binary_header.decode(header).language == "OTHER"


def test_broken_utf8_is_replaced() -> None:
    """A text that is not UTF-8 is not a reason to lose the connection."""
    assert binary_header.decode(ROUTE_HEADER[:-1] + b"\xff").ext == {"topic": "\ufffd"}


@pytest.mark.parametrize("size", range(len(ROUTE_HEADER)))
def test_a_header_cut_short_is_refused(size: int) -> None:
    """At whatever byte it ends, it is a WireError."""
    with pytest.raises(WireError):
        binary_header.decode(ROUTE_HEADER[:size])


@pytest.mark.parametrize(
    ("position", "size"), [(13, -1), (13, -8), (13, -(1 << 31)), (13, 1000), (17, 1000)]
)
def test_a_size_that_cannot_be_is_refused(position: int, size: int) -> None:
    """Remark: negative, or more than there is; ext: more than there is."""
    header = ROUTE_HEADER[:position] + struct.pack(">i", size) + ROUTE_HEADER[position + 4 :]
    with pytest.raises(WireError):
        binary_header.decode(header)


@pytest.mark.parametrize("size", [-1, -(1 << 31)])
def test_an_ext_map_of_negative_size_is_none(size: int) -> None:
    """As RocketMQ reads it."""
    header = ROUTE_HEADER[:17] + struct.pack(">i", size)
    assert binary_header.decode(header).ext is None


def test_the_last_entry_may_go_beyond_the_ext_map() -> None:
    """As RocketMQ reads it, as long as the header goes on."""
    header = ROUTE_HEADER[:17] + struct.pack(">i", 3) + ROUTE_HEADER[21:]
    assert binary_header.decode(header).ext == {"topic": "T"}


@pytest.mark.parametrize(
    "entry", [b"\xff\xff", b"\xff\xfe", b"\0\1k\xff\xff\xff\xff", b"\0\1k\0\0\0\x7fv"]
)
def test_an_entry_with_a_size_that_cannot_be_is_refused(entry: bytes) -> None:
    """A text must end inside the header; one of −2 bytes would be read again and again."""
    header = ROUTE_HEADER[:17] + struct.pack(">i", len(entry)) + entry + b"more to come"
    with pytest.raises(WireError):
        binary_header.decode(header)
