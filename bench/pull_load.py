"""A load of pulls over sockets: a backlog read from its start, over and over.

Each connection reads one queue with one request outstanding, as a consumer does; the next request
is made from the offset that the answer names. Frames are built from two ready parts, of answers the
header is scanned, and bodies are received into one buffer and looked at for their size only.

Invariants:
1. Every answer has code 0, the opaque of the request, and a body of at least one message.
2. Messages are counted by the offsets that the answers name, so none is counted twice in a round.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Self

from bench.load import FIRST, SILENCE_SECONDS_MAX, LoadError, Run
from tests.interop import link

MESSAGES_PER_PULL = 32
"""What RocketMQ's clients ask for, and its brokers give at most."""

RECEIVE_BYTES = 1 << 21
"""Twice what our broker gives at most."""

_PREFIX = struct.Struct(">II")


@dataclass(slots=True)
class _Lane:
    """One connection, its frame, and how far it has read."""

    socket: socket.socket
    frames: "_Frames"
    end: int
    """The queue's end; after it the lane begins again."""
    offset: int = 0
    sent_at: float = 0.0


class _Frames:
    """The request of one queue, for any offset: two parts of a header, and their length before."""

    def __init__(self, topic: str, queue_id: int, asked: int) -> None:
        ext = {**link.pull_ext(topic, queue_id, FIRST, group="bench"), "maxMsgNums": asked}
        frame = link.encode(link.PULL_MESSAGE, 1, ext)
        self._head, self._tail = frame[8:].split(b"%d" % FIRST)

    def at(self, offset: int) -> bytes:
        """Return the frame that asks for messages from `offset` on."""
        header = b"%b%d%b" % (self._head, offset, self._tail)
        return _PREFIX.pack(4 + len(header), len(header)) + header


class PullLoad:
    """Connections to one broker, each reading one queue of `topic`; the queues are not empty."""

    def __init__(
        self, address: str, topic: str, *, queues: int, asked: int = MESSAGES_PER_PULL
    ) -> None:
        """Connect; each pull asks for this many messages."""
        self._asked = asked
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._lanes = {
            lane.socket.fileno(): lane
            for lane in (_lane(address, topic, number, asked) for number in range(queues))
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._lanes.values():
            lane.socket.close()

    def run(self, *, seconds: float) -> Run:
        """Pull until `seconds` have passed, then await all answers."""
        latencies: list[float] = []
        messages = 0
        start = time.perf_counter()
        deadline = start + seconds
        with select.epoll() as poll:
            for number, lane in self._lanes.items():
                poll.register(number, select.EPOLLIN)
                _send(lane)
            waiting = len(self._lanes)
            while waiting:
                events = poll.poll(SILENCE_SECONDS_MAX)
                if not events:
                    raise LoadError(f"no answer for {SILENCE_SECONDS_MAX:.0f} s")
                for number, _ in events:
                    lane = self._lanes[number]
                    messages += self._receive(lane)
                    now = time.perf_counter()
                    latencies.append(now - lane.sent_at)
                    if now < deadline:
                        _send(lane)
                    else:
                        waiting -= 1
        end = time.perf_counter()
        return Run(messages=messages, seconds=end - start, latencies=latencies)

    def _receive(self, lane: _Lane) -> int:
        """Take one whole answer; return how many messages it brought."""
        buffer, connection = self._buffer, lane.socket
        size = 0
        while size < 4:
            size += _some(connection.recv_into(buffer[size:]))
        whole = 4 + int.from_bytes(buffer[:4], "big")
        if whole > len(buffer):
            raise LoadError(f"an answer of {whole} bytes")
        while size < whole:
            size += _some(connection.recv_into(buffer[size:whole]))
        header_size = int.from_bytes(buffer[5:8], "big")
        header = bytes(buffer[8 : 8 + header_size])
        if size != whole or b'"code":0,' not in header:
            raise LoadError(f"an answer that is none: {header!r}")
        place = header.index(b'"nextBeginOffset":"') + 19
        following = int(header[place : header.index(b'"', place)])
        count = following - lane.offset
        if not 0 < count <= self._asked or whole - 8 - header_size < count * 1024:
            raise LoadError(f"from {lane.offset} to {following} in {whole} bytes")
        lane.offset = 0 if following >= lane.end else following
        return count


def _some(count: int) -> int:
    if not count:
        raise LoadError("the broker closed the connection")
    return count


def _send(lane: _Lane) -> None:
    lane.sent_at = time.perf_counter()
    lane.socket.sendall(lane.frames.at(lane.offset))


def _lane(address: str, topic: str, queue_id: int, asked: int) -> _Lane:
    with link.Link(address) as asking:
        end = link.queue_end(asking, topic, queue_id)
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), SILENCE_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Lane(connection, _Frames(topic, queue_id, asked), end)
