"""What clients of gRPC cost a broker that do nothing: part of `make bench-grpc`.

Ten thousand clients, half producers and half consumers of fifty groups, each with a connection and
its telemetry stream; then a thousand receives that wait for messages, on connections of their own.
Of both: the memory of each, the CPU of the process while nothing happens, and how long another
client that sends meanwhile waits at most, which tells of ticks that hold the loop.

    python -m bench.grpc_idle [--streams N] [--receives N]
"""

import argparse
import asyncio
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.grpc_frames import PATH, data, headers, opening, request
from bench.grpc_steady import TOPIC, Watch, watch
from tests.grpc_client import consumer_settings, producer_settings
from tests.interop.sdk_runs import SprocketServed

from bench import processes
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.messages import Resource, TelemetryCommand
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.runtime.http2 import frames
from sprocket.runtime.http2.frames import ACK, END_STREAM, FrameType

STREAMS, RECEIVES = 10_000, 1_000
GROUPS: Final = 50
QUIET_TOPIC: Final = "Quiet"
ALONE_SECONDS: Final = 10.0
STREAM_SECONDS: Final = 45.0
"""Twice what a client is registered anew after, and a little."""
POLL_MS: Final = 20_000
RECEIVE_SECONDS: Final = 15.0
"""Less than a receive waits for."""
AT_ONCE: Final = 100
"""Connections that are opened at once."""
STREAM_KB_MAX: Final = 20.0
RECEIVE_KB_MAX: Final = 20.0
LONGEST_MS_MAX: Final = 60.0
"""What a call may wait more than without those clients: for what is done about all at once."""
CPU_MAX: Final = 0.1
"""Of a core, for what nobody asks for."""


class Idle(asyncio.Protocol):
    """A client that says something once, and takes what it is told.

    Attributes:
        heard: Done once anything but settings has come.
    """

    def __init__(self, said: bytes) -> None:
        self._said = said
        self._data = b""
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._said)

    def data_received(self, data: bytes) -> None:
        """Take frames."""
        data = self._data + data
        at = 0
        while len(data) - at >= frames.HEAD_BYTES:
            size, kind, flags, _ = frames.read_head(data, at)
            if len(data) - at < frames.HEAD_BYTES + size:
                break
            at += frames.HEAD_BYTES + size
            if kind == FrameType.SETTINGS and not flags & ACK:
                self.transport.write(frames.SETTINGS_ACK)
            elif kind == FrameType.DATA and not self.heard.done():
                self.heard.set_result(None)
        self._data = data[at:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so, if it was not to end."""
        if not self.heard.done():
            self.heard.set_exception(ConnectionError(f"the server ended a client: {exc}"))


def telemetry(number: int) -> bytes:
    """Return what a client with a stream says."""
    if number % 2:
        settings = producer_settings(TOPIC)
    else:
        settings = consumer_settings(f"group-{number % GROUPS}", TOPIC)
    said = TelemetryCommand(settings=settings).SerializeToString()
    block = request(f"{PATH}Telemetry", f"idle-{number}", ("x-mq-client-version", "5.1.2"))
    return opening() + headers(1, block) + data(1, said)


def waiting_receive(number: int) -> bytes:
    """Return what a consumer says that waits for messages, which do not come."""
    asked = messages.ReceiveMessageRequest(
        group=Resource(name=f"quiet-{number % GROUPS}"),
        message_queue=messages.MessageQueue(topic=Resource(name=QUIET_TOPIC)),
        batch_size=32,
        invisible_duration=duration(60_000),
        long_polling_timeout=duration(POLL_MS),
    ).SerializeToString()
    block = request(f"{PATH}ReceiveMessage", f"waits-{number}", ("grpc-timeout", "60S"))
    return opening() + headers(1, block) + data(1, asked, END_STREAM)


async def open_all(address: str, said: Iterable[bytes], *, hears: bool) -> list[Idle]:
    """Open connections, some at once."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    found: list[Idle] = []
    texts = [*said]
    for start in range(0, len(texts), AT_ONCE):
        made = await asyncio.gather(
            *[
                loop.create_connection(partial(Idle, one), host, int(port))
                for one in texts[start : start + AT_ONCE]
            ]
        )
        clients = [client for _, client in made]
        if hears:
            await asyncio.gather(*[client.heard for client in clients])
        found += clients
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What idle clients cost.

    Attributes:
        kb: Memory of each.
        cpu: Seconds of CPU in a second.
        longest_ms: How long a call of the other client took at most.
    """

    kb: float
    cpu: float
    longest_ms: float


async def cost(look: Watch, pid: int, before_mib: float, count: int, seconds: float) -> Cost:
    """Return what clients cost that are there now: half of the time alone, half beside sends."""
    await asyncio.sleep(1.0)
    kb = (look.memory_mib() - before_mib) * 1024 / count
    begun = processes.cpu_seconds(pid)
    await asyncio.sleep(seconds / 2)
    cpu = (processes.cpu_seconds(pid) - begun) / (seconds / 2)
    seen = await look.look(seconds / 2)
    return Cost(kb=kb, cpu=cpu, longest_ms=seen.longest_ms)


async def measure(served: SprocketServed, streams: int, receives: int) -> int:
    """Measure all, print it, and return how many goals are missed."""
    look = await watch(served.grpc, served.pid)
    alone = await look.look(ALONE_SECONDS)
    print(f"without idle clients a call takes {alone.longest_ms:.1f} ms at most", flush=True)
    before = look.memory_mib()
    clients = await open_all(served.grpc, map(telemetry, range(streams)), hears=True)
    found = await cost(look, served.pid, before, streams, STREAM_SECONDS)
    limit_ms = alone.longest_ms + LONGEST_MS_MAX
    missed = report(f"{streams:,} telemetry streams", found, STREAM_KB_MAX, limit_ms)
    before = look.memory_mib()
    clients += await open_all(served.grpc, map(waiting_receive, range(receives)), hears=False)
    found = await cost(look, served.pid, before, receives, RECEIVE_SECONDS)
    missed += report(f"{receives:,} receives beside them", found, RECEIVE_KB_MAX, limit_ms)
    for client in clients:
        client.heard.cancel()  # what comes now is not an answer
        client.transport.abort()
    return missed


def report(what: str, found: Cost, kb_max: float, longest_ms_max: float) -> int:
    """Print what clients cost, and return whether a goal is missed."""
    is_met = found.kb <= kb_max and found.longest_ms <= longest_ms_max and found.cpu <= CPU_MAX
    print(
        f"{what}: {found.kb:.1f} KB each (goal {kb_max:.0f}), {found.cpu:.3f} s of CPU a second "
        f"(goal {CPU_MAX}), a call takes {found.longest_ms:.1f} ms at most "
        f"(goal {longest_ms_max:.0f}): {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return 0 if is_met else 1


def main() -> int:
    """Start a broker, measure, and return the exit code: 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--receives", type=int, default=RECEIVES)
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = Path(tempfile.mkdtemp(prefix="sprocket-grpc-idle-"))
    served = SprocketServed(folder, ["--flush", "async"])
    try:
        served.start()
        with blocking.Admin(served.nameserver) as admin:
            for topic in (TOPIC, QUIET_TOPIC):
                admin.topic.create(topic, 8)
        return 1 if asyncio.run(measure(served, asked.streams, asked.receives)) else 0
    finally:
        served.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
