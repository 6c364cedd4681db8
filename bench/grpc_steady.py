"""A client that sends at a steady rate, to see what it notices of what happens beside it.

A call is timed from the moment at which it was due, so that a server that stands still counts for
all calls that were due meanwhile.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.grpc_frames import PATH, data, headers, opening, request
from bench.grpc_load import OK, sent

from bench import processes
from sprocket.runtime.http2 import frames
from sprocket.runtime.http2.frames import ACK, END_STREAM, FrameType

TOPIC: Final = "Beside"
BODY_BYTES: Final = 1_024
PER_SECOND: Final = 100
LOOK_SECONDS: Final = 0.02
"""How often the server's memory is looked at."""
END_SECONDS: Final = 60.0
"""How long the last answers may take."""


class Steady(asyncio.Protocol):
    """The client.

    Attributes:
        failure: Why it can send no more; empty while it can.
        waits_ms: How long calls took since they were due; cleared by whoever has seen them.
    """

    def __init__(self) -> None:
        self.failure = ""
        self.waits_ms: list[float] = []
        self._stream = 1
        self._due: dict[int, float] = {}
        self._data = b""
        self._block = request(f"{PATH}SendMessage", "steady")
        self._body = bytes(BODY_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(opening())

    @property
    def open_count(self) -> int:
        """How many calls are under way."""
        return len(self._due)

    def send(self, due: float) -> None:
        """Send a message that was due at some time."""
        number = self._stream
        self._stream += 2
        self._due[number] = due
        asked = data(number, sent(TOPIC, self._body, number), END_STREAM)
        self._transport.write(headers(number, self._block) + asked)

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        data = self._data + data
        at = 0
        while len(data) - at >= frames.HEAD_BYTES:
            size, kind, flags, number = frames.read_head(data, at)
            start = at + frames.HEAD_BYTES
            if len(data) - start < size:
                break
            at = start + size
            if kind == FrameType.SETTINGS and not flags & ACK:
                self._transport.write(frames.SETTINGS_ACK)
            elif kind == FrameType.DATA and OK not in data[start:at]:
                self._fail(f"a call was answered {data[start:at]!r}")
            elif kind in (FrameType.GOAWAY, FrameType.RST_STREAM):
                self._fail(f"a call was ended by {data[start:at]!r}")
            elif flags & END_STREAM and number in self._due:
                self.waits_ms.append((time.monotonic() - self._due.pop(number)) * 1e3)
        self._data = data[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so."""
        self._fail(f"the connection is lost: {exc}")

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen in some seconds.

    Attributes:
        p99_ms: Of the calls of the steady client.
        longest_ms: The longest of them.
        peak_mib: The most memory that the server had.
    """

    p99_ms: float
    longest_ms: float
    peak_mib: float


class Watch:
    """Has the steady client send, and looks at the server meanwhile.

    Args:
        steady: The client.
        pid: The server's.
    """

    def __init__(self, steady: Steady, pid: int) -> None:
        self._steady = steady
        self._pid = pid

    def memory_mib(self) -> float:
        """Return what the server has to itself."""
        return processes.memory(self._pid)["anonymous_mib"]

    async def look(self, seconds: float) -> Seen:
        """Send for some seconds, wait for the last answer, and return what was seen.

        Raises:
            RuntimeError: A call has failed, or was not answered.
        """
        steady = self._steady
        steady.waits_ms.clear()
        begun = time.monotonic()
        due, looked, peak = begun, 0.0, 0.0
        while due < begun + seconds and not steady.failure:
            now = time.monotonic()
            if now - looked >= LOOK_SECONDS:
                looked, peak = now, max(peak, self.memory_mib())
            while due <= now:
                steady.send(due)
                due += 1 / PER_SECOND
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
        given_up = time.monotonic() + END_SECONDS
        while steady.open_count and not steady.failure:
            if time.monotonic() > given_up:
                raise RuntimeError(f"{steady.open_count} calls were not answered")
            await asyncio.sleep(LOOK_SECONDS)
            peak = max(peak, self.memory_mib())
        if steady.failure:
            raise RuntimeError(f"the other client: {steady.failure}")
        waits = steady.waits_ms
        return Seen(p99_ms=p99(waits), longest_ms=max(waits), peak_mib=peak)


def p99(waits: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(waits)[math.ceil(len(waits) * 0.99) - 1]


async def watch(address: str, pid: int) -> Watch:
    """Connect the client to a server, and let it warm up."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    _, steady = await loop.create_connection(Steady, host, int(port))
    found = Watch(steady, pid)
    await found.look(3.0)
    return found
