"""Any bytes before the first frame give a header, none, or a WireError, however they are split."""

import itertools
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.runtime.driver.proxy_header import (
    BINARY_START,
    TEXT_BYTES_MAX,
    ConnectionOpening,
    ProxiedClient,
    ProxyHeaderReader,
)

CLIENT = ProxiedClient("203.0.113.7", 4711)
CLIENT_6 = ProxiedClient("2001:db8::7", 4711)
PORTS = struct.pack(">HH", 4711, 10911)
FOUR = socket.inet_aton(CLIENT.host) + socket.inet_aton("10.0.0.1") + PORTS
SIX = b"".join(socket.inet_pton(socket.AF_INET6, one) for one in (CLIENT_6.host, "::1")) + PORTS
PATHS = b"/x".ljust(108, b"\0") * 2


def binary(content: bytes, *, command: int = 0x21, family: int = 0x11) -> bytes:
    """Return a header in binary form."""
    return BINARY_START + struct.pack(">BBH", command, family, len(content)) + content


HEADERS = (
    (b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 10911\r\n", CLIENT),
    (b"PROXY TCP6 2001:db8::7 ::1 4711 10911\r\n", CLIENT_6),
    (
        b"PROXY TCP6 " + b"f" * 4 + b":ffff" * 7 + b" ::1 65535 0\r\n",
        ProxiedClient("ffff" + 7 * ":ffff", 65535),
    ),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN x  y 1\r\n", None),
    (binary(FOUR), CLIENT),
    (binary(FOUR + b"\x01\x00\x02hi"), CLIENT),
    (binary(FOUR + bytes(65_000)), CLIENT),
    (binary(SIX, family=0x21), CLIENT_6),
    (binary(FOUR, family=0x12), CLIENT),
    (binary(PATHS, family=0x31), None),
    (binary(b"abc", family=0), None),
    (binary(b"", command=0x20), None),
    (binary(FOUR, command=0x20), None),
)
BROKEN = (
    b"PROXY TCP4 300.0.113.7 10.0.0.1 4711 10911\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 99999 10911\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 +1 10911\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 4711\r\n",
    b"PROXY TCP4 2001:db8::7 ::1 4711 10911\r\n",
    b"PROXY TCP4 \xff 10.0.0.1 4711 10911\r\n",
    b"PROXY tcp4 203.0.113.7 10.0.0.1 4711 10911\r\n",
    b"PROXY UNKNOWN" + b"1" * TEXT_BYTES_MAX,
    binary(FOUR[:11]),
    binary(FOUR, command=0x31),
    binary(FOUR, command=0x22),
    binary(FOUR, family=0x77),
    binary(FOUR, family=0x13),
)
FRAMES = (b"", b"\0\0\0\x10frame", b"\x16\x03\x01", b"PROXY TCP4 once more\r\n")


@pytest.mark.parametrize("rest", FRAMES)
@pytest.mark.parametrize(("header", "origin"), HEADERS)
def test_a_header_names_the_client(
    header: bytes, origin: ProxiedClient | None, rest: bytes
) -> None:
    """Whole or byte by byte, and what follows it is not lost."""
    expected = ConnectionOpening(has_header=True, origin=origin, rest=rest)
    assert ProxyHeaderReader().receive(header + rest) == expected
    reader = ProxyHeaderReader()
    for at in range(min(len(header), 300) - 1):
        assert reader.receive(header[at : at + 1]) is None
    assert reader.receive(header[min(len(header), 300) - 1 :] + rest) == expected


@pytest.mark.parametrize(
    "data", [*FRAMES[1:3], b"PROXY\0", b"proxy TCP4", b"\r\n\r\n\0\r\nQUID", b"PX"]
)
def test_anything_else_is_left_as_it_is(data: bytes) -> None:
    """Frames and handshakes pass at once, what only looks like a header as soon as it is none."""
    opening = ConnectionOpening(has_header=False, origin=None, rest=data)
    assert ProxyHeaderReader().receive(data) == opening
    reader = ProxyHeaderReader()
    found = [reader.receive(data[at : at + 1]) for at in range(len(data))]
    first = next(one for one in found if one is not None)
    assert first.rest == data[: found.index(first) + 1]
    assert not first.has_header


@pytest.mark.parametrize("data", BROKEN)
def test_what_begins_like_a_header_and_is_none_ends_the_connection(data: bytes) -> None:
    """As the real broker does; a line that never ends too."""
    with pytest.raises(WireError, match="PROXY header"):
        ProxyHeaderReader().receive(data)


def test_a_line_end_counts_up_to_the_last_byte() -> None:
    """At the limit it is one, a byte later it is not."""
    fill = TEXT_BYTES_MAX - len(b"PROXY UNKNOWN\r\n")
    reader = ProxyHeaderReader()
    assert reader.receive(b"PROXY UNKNOWN" + b" " * fill + b"\r") is None
    found = reader.receive(b"\n")
    assert found is not None
    assert found.has_header
    with pytest.raises(WireError):
        ProxyHeaderReader().receive(b"PROXY UNKNOWN" + b" " * (fill + 1) + b"\r\n")


PIECES = st.one_of(
    st.sampled_from([header for header, _ in HEADERS] + list(BROKEN)),
    st.binary(max_size=40),
    st.sampled_from([b"PROXY ", BINARY_START, b"\r\n", b"TCP4 ", b"\x21\x11\x00\x0c", b" 1"]),
)


@given(st.lists(PIECES, max_size=6), st.lists(st.integers(0, 300), max_size=6))
def test_any_bytes_in_any_split_end_alike(pieces: list[bytes], cuts: list[int]) -> None:
    """The same opening or the same error; bytes after the end of the header are all there."""
    data = b"".join(pieces)[:70_000]

    def outcome(parts: list[bytes]) -> object:
        reader = ProxyHeaderReader()
        for at, part in enumerate(parts):
            try:
                found = reader.receive(part)
            except WireError:
                return "broken"
            if found is not None:
                rest = found.rest + b"".join(parts[at + 1 :])
                assert data.endswith(rest)
                return found.has_header, found.origin, rest
        return "open"

    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert outcome(parts) == outcome([data])
