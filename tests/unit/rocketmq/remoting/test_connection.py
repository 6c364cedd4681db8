"""Bytes in, commands out."""

import itertools
import tracemalloc

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.frame import FRAME_BYTES_MAX
from sprocket.rocketmq.remoting import Connection


def request(opaque: int, body: bytes = b"") -> bytes:
    """Return the bytes of some request."""
    return b"".join(command.request(10, opaque, body=body))


FIRST, SECOND, THIRD = request(1, b"one"), request(2), request(3, b"x" * 3000)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 100, 1 << 20])
def test_any_size_of_pieces_gives_the_same_commands(size: int) -> None:
    """Byte by byte, whole, and anything between."""
    stream = FIRST + SECOND + THIRD
    connection = Connection()
    found = []
    for start in range(0, len(stream), size):
        found += connection.receive(stream[start : start + size])
    assert [(c.opaque, c.body) for c in found] == [(1, b"one"), (2, b""), (3, b"x" * 3000)]


@pytest.mark.parametrize("sizes", [(4095,), (4096,), (1, 9000, 1, 1), (5000, 4096, 3)])
def test_a_body_in_large_and_small_pieces_is_put_together(sizes: tuple[int, ...]) -> None:
    """The next frame may begin in the piece that has its end."""
    body = bytes(range(256)) * 200
    stream = request(1, body) + FIRST + request(2, body[::-1]) + SECOND
    places = itertools.takewhile(
        lambda at: at < len(stream), itertools.accumulate(itertools.cycle(sizes), initial=0)
    )
    connection = Connection()
    found, held = [], 0
    for start, stop in itertools.pairwise([*places, len(stream)]):
        found += connection.receive(stream[start:stop])
        held = max(held, connection.pending_bytes)
    assert [(c.opaque, c.body) for c in found] == [
        (1, body), (1, b"one"), (2, body[::-1]), (2, b"")
    ]  # fmt: skip
    assert connection.pending_bytes == 0
    assert len(body) - max(sizes) <= held < len(request(1, body))


@pytest.mark.parametrize(("size", "bytes_max"), [(1 << 16, 9 << 20), (1, 3 << 16)])
def test_a_large_body_in_pieces_is_copied_once(size: int, bytes_max: int) -> None:
    """Memory taken beside that of the pieces: the body itself, or two of it if they are tiny."""
    whole = request(1, b"x" * (8 << 20 if size > 1 else 1 << 16))
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    connection = Connection()
    tracemalloc.start()
    try:
        found = [one for piece in pieces for one in connection.receive(piece)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(one.body) for one in found] == [8 << 20 if size > 1 else 1 << 16]
    assert peak < bytes_max


def test_frames_that_came_together_come_out_together() -> None:
    """All of them at once, and the one that is not whole later."""
    connection = Connection()
    assert len(connection.receive(FIRST + SECOND + THIRD[:-1])) == 2
    assert len(connection.receive(THIRD[-1:] + FIRST)) == 2


def test_buffers_that_change_later_do_not_change_commands() -> None:
    """Whoever reads into a bytearray may use it again."""
    buffer = bytearray(FIRST)
    (found,) = Connection().receive(buffer)
    buffer[:] = bytes(len(buffer))
    assert found.body == b"one"


def test_a_new_connection_waits_for_twelve_bytes() -> None:
    """Before that nothing is looked at, not even a length that cannot be."""
    connection = Connection()
    assert connection.receive(b"\0\0\0\4" + b"\0" * 7) == []
    with pytest.raises(WireError):
        connection.receive(b"\0")


@pytest.mark.parametrize("is_used", [False, True])
def test_the_shortest_header_is_read(is_used: bool) -> None:
    """A frame of 10 bytes, which a new connection holds until two more bytes have come."""
    connection = Connection()
    short = b"\0\0\0\6\0\0\0\2{}"
    before = connection.receive(FIRST) if is_used else []
    found = [*before, *connection.receive(short)]
    assert len(found) == 2 * is_used
    assert len(found + connection.receive(SECOND)) == 2 + is_used


@pytest.mark.parametrize("split", range(5))
def test_a_used_connection_breaks_with_the_length(split: int) -> None:
    """Four bytes are enough to see that no frame can follow, however they come."""
    connection = Connection()
    bad = b"\0\0\0\3"
    connection.receive(FIRST + bad[:split])
    if split < 4:
        with pytest.raises(WireError):
            connection.receive(bad[split:])
    assert connection.broken is not None


def test_commands_before_the_break_are_not_lost() -> None:
    """They come out first; after that every call says why nothing more does."""
    connection = Connection()
    assert [c.opaque for c in connection.receive(FIRST + SECOND + b"\xff" * 12)] == [1, 2]
    assert connection.broken is not None
    for _ in range(2):
        with pytest.raises(WireError):
            connection.receive(FIRST)


@pytest.mark.parametrize(
    "prefix",
    [
        "ffffffff 00000000",  # −1
        "80000000 00000000",
        "00000007 00000000",
        "00fffffd 00000000",  # one more than 16 MiB with its length
        "00000010 0000000d",  # the header is longer than the frame
        "00000010 02000004",  # serialize type 2
        "16030100 f4010000",  # TLS
        "50524f58 59205443",  # PROXY TC
        "47455420 2f204854",  # GET / HT
    ],
)
def test_a_prefix_that_cannot_be_breaks_the_connection(prefix: str) -> None:
    """Too short, negative, too long, a header beyond the frame, another protocol."""
    with pytest.raises(WireError):
        Connection().receive(bytes.fromhex(prefix) + b" " * 16)


def test_a_header_may_not_reach_into_the_next_frame() -> None:
    """Even if what it finds there would make it whole."""
    header = b'{"code":1,"opaque":5}'
    prefix = (4 + len(header) - 1).to_bytes(4, "big") + len(header).to_bytes(4, "big")
    with pytest.raises(WireError):
        Connection().receive(prefix + header + FIRST)


def test_the_largest_frame_is_accepted_and_no_larger() -> None:
    """16 MiB with the length field."""
    whole = request(1, b"x" * (FRAME_BYTES_MAX - len(request(1))))
    assert len(whole) == FRAME_BYTES_MAX
    assert len(Connection().receive(whole)) == 1
    with pytest.raises(WireError):
        Connection(frame_bytes_max=FRAME_BYTES_MAX - 1).receive(whole[:12])


def test_opaques_count_and_wrap() -> None:
    """They are 32 bits with sign on the wire and never negative."""
    connection = Connection()
    assert [connection.next_opaque() for _ in range(3)] == [0, 1, 2]
    assert Connection(opaque=0x7FFFFFFF - 1).next_opaque() == 0x7FFFFFFF
    assert Connection(opaque=0x7FFFFFFF).next_opaque() == 0


def test_a_request_without_opaque_gets_one_of_ours() -> None:
    """As with RocketMQ; the answer carries what we took."""
    header = b'{"code":10}   '
    data = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    connection = Connection()
    connection.next_opaque()
    assert [c.opaque for c in connection.receive(data)] == [1]
