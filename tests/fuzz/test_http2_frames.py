"""Any bytes at the server's side of a connection of HTTP/2 and gRPC.

Invariant: whatever arrives, events come out and nothing is raised; what breaks the rules ends its
stream or its connection with a code of the protocol, and nothing is read after that; a call has
one beginning and at most one end; what is said is whole frames, of which each stream has one end at
most; and what is kept is bounded by the limits.

A failure names its seed and the number of the conversation. SPROCKET_HTTP2_FRAMES sets how many
frames are read (`make fuzz-http2`: 50 million).
"""

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from tests import repetition
from tests.fuzz.http2_frames import REQUEST, Conversations
from tests.fuzz.http2_said import check_said, goodbye
from tests.own_memory import own_bytes
from tests.unit.runtime.http2.http2_client import frame

from sprocket.base.units import MIB
from sprocket.runtime.grpc import (
    CallBegun,
    CallLeft,
    Event,
    GrpcCall,
    GrpcConnection,
    MessageReceived,
    MessagesEnded,
    RpcMethod,
    StatusCode,
)
from sprocket.runtime.http2 import ConnectionFailed, ErrorCode, Limits, Octets, frames

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20261130"))
GROWTH_BYTES_MAX = 32 * MIB
"""What the process may have more after the last nine tenths: the allocator's, not ours."""
Buffer = bytes | bytearray | memoryview
RARE_FROM: Final = 1_000_000
"""Frames among which even the rarest way to fail is seen; one in 100,000 breaks a window."""
LOOKED_AT: Final = 16
"""One of so many conversations has all that is said read."""
ONE, MANY = RpcMethod("/service/One"), RpcMethod("/service/Many", takes_stream=True)
METHODS: Final = {method.path: method for method in (ONE, MANY)}
CALLS: Final = [(path, REQUEST) for path in (ONE.path, MANY.path, "/service/None")]
LIMITS: Final = Limits(
    streams=6, stream_window_bytes=4_000, window_bytes=70_000, waiting_bytes=300_000
)
MESSAGE_BYTES_MAX: Final = 1_000
OPENING: Final = frames.PREFACE + frame(4, 0, 0)
ANSWER_BYTES_MAX: Final = 20_000
ANSWERS: Final = (b"", b"answer", bytes(ANSWER_BYTES_MAX))


class Server:
    """One connection, and a service that answers at once, later, at length, or never."""

    def __init__(self, chance: random.Random, *, keeps: bool) -> None:
        self.connection = GrpcConnection(METHODS, MESSAGE_BYTES_MAX, LIMITS, lambda: 0.0)
        self.open: dict[int, GrpcCall] = {}
        """Calls that have begun and not ended, by their id."""
        self.ended: set[int] = set()
        """Those that this side has ended, and whose answers may wait for windows."""
        self.left: list[GrpcCall] = []
        self.said: list[bytes] = []
        self.failure: ConnectionFailed | None = None
        self._chance = chance
        self._keeps = keeps

    def take(self, data: bytes, seen: Counter[str]) -> None:
        """Read bytes, and do something about what they say."""
        for event in self.connection.receive(data):
            assert self.failure is None, "an event after the end"
            seen[type(event).__name__] += 1
            self._handle(event, seen)

    def _handle(self, event: Event, seen: Counter[str]) -> None:
        match event:
            case CallBegun(call, message):
                assert (message is None) == call.method.takes_stream
                assert id(call) not in self.open, "a call that begins twice"
                self.open[id(call)] = call
                self._answer(call)
            case MessageReceived(call, _):
                if call.is_open:
                    assert id(call) in self.open, "a message of a call that is over"
                    self._answer(call)
            case MessagesEnded(call):
                if call.is_open:
                    self._end(call)
            case CallLeft(call):
                self.ended.discard(id(call))
                had_begun = self.open.pop(id(call), None) is not None
                assert had_begun or not call.method.takes_stream, "a call that is left twice"
                assert not any(one is call for one in self.left), "a call that is left twice"
                self.left.append(call)
            case Octets(buffers):
                self._say(buffers)
            case ConnectionFailed(octets, _):
                self.failure = event
                self._say([octets])
                seen[goodbye(octets).name] += 1

    def _answer(self, call: GrpcCall) -> None:
        chance = self._chance.random()
        if id(call) in self.ended:
            return
        if chance < 0.5 and call.waiting_bytes <= ANSWER_BYTES_MAX:
            self._say(call.message(self._chance.choice(ANSWERS)))
        if chance < 0.3 or 0.5 <= chance < 0.6:
            self._end(call)

    def _end(self, call: GrpcCall) -> None:
        if id(call) in self.ended or not call.is_open:
            return  # the client has left it in the same read
        self._say(call.end(self._chance.choice((StatusCode.OK, StatusCode.ABORTED)), "why"))
        if call.is_open:
            self.ended.add(id(call))
        else:
            del self.open[id(call)]

    def _say(self, buffers: Sequence[Buffer]) -> None:
        if self._keeps:
            self.said.append(b"".join(buffers))

    def check(self) -> None:
        """See that what is kept is within its limits, and belongs to somebody."""
        http = self.connection.http
        assert len(http.streams) <= LIMITS.streams
        assert http.waiting_bytes == sum(one.waiting_bytes for one in http.streams.values())
        assert http.waiting_bytes <= LIMITS.waiting_bytes
        if self.failure is not None:
            assert not http.streams
            assert not self.connection.receive(OPENING)
        if self._keeps:
            check_said(b"".join(self.said))


def converse(data: list[bytes], server: Server, seen: Counter[str], cut: int) -> int:
    """Have a server read a conversation until it reads no more; return how many frames it read."""
    server.take(OPENING, seen)
    count = 0
    for one in data:
        count += 1
        if 0 < cut < len(one):
            server.take(one[:cut], seen)
            server.take(one[cut:], seen)
        else:
            server.take(one, seen)
        if server.failure is not None:
            break
    server.check()
    return count


@pytest.mark.parametrize(
    "count",
    repetition.times("SPROCKET_HTTP2_FRAMES", by_day=20_000, by_night=2_000_000),
)
@pytest.mark.timeout(7200)
def test_mutated_frames_give_events(count: int) -> None:
    """Nothing is raised and nothing is kept; every way to fail that there is has been seen."""
    conversations = Conversations(SEED, CALLS)
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    number = read_count = settled = 0
    begun = time.monotonic()
    while read_count < count:
        if not settled and read_count >= count // 10:
            settled = own_bytes()
        data = conversations.draw()
        server = Server(chance, keeps=number % LOOKED_AT == 0)
        try:
            read_count += converse(data, server, seen, cut=int(chance.random() * 40) - 20)
        except BaseException as error:
            error.add_note(f"seed {SEED}, conversation {number}: {b''.join(data)[:2_000].hex()}")
            raise
        number += 1
    seconds = time.monotonic() - begun
    print(f"{read_count:,} frames of {number:,} connections in {seconds:.0f} s; {dict(seen)}")
    assert own_bytes() - settled < GROWTH_BYTES_MAX
    expected = {kind.__name__ for kind in (CallBegun, CallLeft, MessageReceived, MessagesEnded)}
    expected |= {
        code.name
        for code in (
            ErrorCode.PROTOCOL_ERROR,
            ErrorCode.STREAM_CLOSED,
            ErrorCode.FRAME_SIZE_ERROR,
            ErrorCode.COMPRESSION_ERROR,
            ErrorCode.ENHANCE_YOUR_CALM,
        )
    }
    if count >= RARE_FROM:
        expected.add(ErrorCode.FLOW_CONTROL_ERROR.name)
    assert expected <= seen.keys()
