"""Sprocket's gRPC beside RocketMQ's proxy 5.3.3 in local mode: `make bench-grpc`.

Raw sends of 1 KiB, both with async flush, ours with sync in a row of its own; what idle clients
take. The servers take turns: each row is measured at all of them before the next one.

    python -m bench.grpc_rates [--calls N] [--sprocket-alone]
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.grpc_load import Shape
from tests.grpc_client import GrpcClient, producer_settings
from tests.interop.sdk_runs import ProxyServed, Served, SprocketServed

from bench import grpc_load, processes
from sprocket.rocketmq.client import blocking

SHAPES: Final = (
    Shape(connections=1, depth=1),
    Shape(connections=16, depth=1),
    Shape(connections=64, depth=1),
    Shape(connections=4, depth=32),
    Shape(connections=4, depth=32, has_ids=True),
)
TOPIC: Final = "Bench"
GROUP: Final = "bench"
BODY_BYTES: Final = 1_024
ROUNDS: Final = 3
WARM_CALLS: Final = 100_000
"""Before anything is measured: the first seconds of a JVM would flatter us."""
STREAMS: Final = 1_000
CPU_RATIO_MAX: Final = 0.4
CONSUME_RATIO_MAX: Final = 0.5
RATE_RATIO_MIN: Final = 1.5
STREAM_KB_MAX: Final = 20.0
IDLE_MIB_MAX: Final = 15.0
IDLE_SECONDS: Final = 3.0
"""From the start until what a process takes that does nothing is looked at."""


def measure(served: Served, shape: Shape, calls: int) -> tuple[float, float]:
    """Return calls a second, and microseconds of the server's CPU for each."""
    port = int(served.grpc.rpartition(":")[2])
    before = processes.cpu_seconds(served.pid)
    seconds = grpc_load.send(port, shape, TOPIC, count=calls, body_bytes=BODY_BYTES)
    time.sleep(processes.REST_SECONDS)
    spent = processes.cpu_seconds(served.pid) - before
    return calls / seconds, spent / calls * 1e6


def consume(served: Served, count: int) -> tuple[float, float]:
    """Return the same of messages that are received and acknowledged."""
    port = int(served.grpc.rpartition(":")[2])
    shape = Shape(connections=4, depth=4)
    before = processes.cpu_seconds(served.pid)
    seconds = grpc_load.receive_and_acknowledge(port, shape, TOPIC, GROUP, count=count)
    time.sleep(processes.REST_SECONDS)
    spent = processes.cpu_seconds(served.pid) - before
    return count / seconds, spent / count * 1e6


async def _open_streams(address: str, count: int, look: Callable[[], None]) -> None:
    clients = [GrpcClient(address, f"bench-{number}") for number in range(count)]
    streams = [client.telemetry(producer_settings(TOPIC)) for client in clients]
    for stream in streams:
        await stream.__aenter__()
    look()
    for stream in streams:
        await stream.__aexit__(None, None, None)
    for client in clients:
        await client.close()


def stream_kb(served: Served) -> float:
    """Return what an idle client takes, in KB."""
    found: list[float] = []
    before = processes.memory(served.pid)["anonymous_mib"]
    asyncio.run(
        _open_streams(
            served.grpc,
            STREAMS,
            lambda: found.append(processes.memory(served.pid)["anonymous_mib"]),
        )
    )
    return (found[0] - before) * 1024 / STREAMS


def idle(folder: Path) -> tuple[float, float]:
    """Return what gRPC takes while nothing is asked.

    Returns:
        How many MiB more a process takes that serves it than one that does not, and how many KB
        each client; both of a process that has done nothing, whose memory has no room left over.
    """
    found, each_kb = [], 0.0
    for name, port in (("without", ["--grpc-port", "off"]), ("with", [])):
        served = SprocketServed(folder / name, port)
        served.start()
        try:
            time.sleep(IDLE_SECONDS)
            found.append(processes.memory(served.pid)["rss_mib"])
            if not port:
                each_kb = stream_kb(served)
        finally:
            served.stop()
    return found[1] - found[0], each_kb


def main() -> int:
    """Measure, print a table, and fail if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--sprocket-alone", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sprocket-bench-grpc-"))
    servers: dict[str, Served] = {
        "sprocket": SprocketServed(folder / "async", ["--flush", "async"]),
        "sprocket, sync": SprocketServed(folder / "sync"),
    }
    if not asked.sprocket_alone:
        servers["proxy"] = ProxyServed(folder / "proxy")
    try:
        mib, each_kb = idle(folder)
        missed = mib > IDLE_MIB_MAX or each_kb > STREAM_KB_MAX
        print(f"idle, gRPC takes {mib:.1f} MiB, {IDLE_MIB_MAX} may be")
        print(f"an idle client with its stream takes {each_kb:.1f} KB, {STREAM_KB_MAX} may be")
        for served in servers.values():
            served.start()
            with blocking.Admin(served.nameserver) as admin:
                admin.topic.create(TOPIC, 8, attributes={"+message.type": "NORMAL"})
                admin.group.create(GROUP)
            port = int(served.grpc.rpartition(":")[2])
            grpc_load.send(port, SHAPES[3], TOPIC, count=WARM_CALLS, body_bytes=BODY_BYTES)
            grpc_load.join(port, TOPIC, GROUP)
        return max(int(missed), _report(servers, asked.calls))
    finally:
        for served in servers.values():
            served.stop()
        shutil.rmtree(folder)


def _report(servers: Mapping[str, Served], calls: int) -> int:
    missed = 0
    for shape in SHAPES:
        count = calls // 4 if shape.connections * shape.depth == 1 else calls
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
        for number in range(ROUNDS + 1):
            for name, served in servers.items():
                with processes.alone(served.pid, [one.pid for one in servers.values()]):
                    found = measure(served, shape, count)
                if number:  # the first warms up
                    figures[name].append(found)
        middle = {name: _median(found) for name, found in figures.items()}
        for name, (rate, cpu) in middle.items():
            print(
                f"send {shape.name:11} {name:15} {rate:9,.0f} calls/s {cpu:8.1f} µs CPU", flush=True
            )
        if "proxy" in middle:
            rate, cpu = (
                ours / other
                for ours, other in zip(middle["sprocket"], middle["proxy"], strict=True)
            )
            is_met = cpu <= CPU_RATIO_MAX and rate >= RATE_RATIO_MIN
            verdict = "met" if is_met else "MISSED"
            if shape.has_ids:
                verdict = "no goal"
            missed += verdict == "MISSED"
            print(f"  CPU {cpu:.2f} of the proxy's, rate {rate:.2f}: {verdict}", flush=True)
    consumed: dict[str, float] = {}
    for name, served in servers.items():
        with processes.alone(served.pid, [one.pid for one in servers.values()]):
            consume(served, calls)
            rate, consumed[name] = consume(served, calls)
        print(f"receive + ack {name:15} {rate:9,.0f} messages/s {consumed[name]:8.1f} µs CPU")
    if "proxy" in consumed:
        ratio = consumed["sprocket"] / consumed["proxy"]
        missed += ratio > CONSUME_RATIO_MAX
        print(f"  CPU {ratio:.2f} of the proxy's, {CONSUME_RATIO_MAX} may be")
    return 1 if missed else 0


def _median(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    rates, cpus = zip(*found, strict=True)
    return statistics.median(rates), statistics.median(cpus)


if __name__ == "__main__":
    sys.exit(main())
