"""Start-up and memory of a node that serves AMQP: `sprocket up`, alone on the machine.

The second part of `make bench-rabbitmq`. A backlog of 1,000,000 persistent messages of 1 KiB in one
queue, and 10,000 queues with a message each, are made over the wire; then the process is killed, or
stopped cleanly, and started again on the same folder. The time is that from the start of the
process to its line `ready`, with the page cache warm.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.amqp_goals import (
    BACKLOG_MIB_MAX,
    CLEAN_MESSAGES_SECONDS_MAX,
    CONNECTION_KIB_MAX,
    DRAINED_MIB_MAX,
    IDLE_MIB_MAX,
    KILLED_MESSAGES_SECONDS_MAX,
    KILLED_QUEUES_SECONDS_MAX,
)
from bench.amqp_load import (
    Corpus,
    LoadError,
    Shape,
    acknowledgements,
    connect,
    consume,
    declare,
    publish,
    ready_count,
)
from bench.amqp_nodes import Node, SprocketAmqp
from bench.goals import Goal, at_most
from tests.interop import peers

from bench import processes

QUEUES = 10_000
CONNECTIONS = 10_000
SETTLE_SECONDS = 3.0
DRAINED_MESSAGES = 100_000
DRAINED_BYTES = 4000
DRAINED_SECONDS = 30.0
"""After the last message has left."""


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.amqp_opening", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    options = parser.parse_args()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    try:
        goals = [
            *_idle(folder / "idle", options.connections),
            *_messages(folder / "messages", options.messages),
            *_queues(folder / "queues", options.queues),
            *_drained(folder / "transient", is_persistent=False),
            *_drained(folder / "persistent", is_persistent=True),
        ]
    except (LoadError, RuntimeError, TimeoutError, OSError) as error:
        print(f"bench-rabbitmq could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(goal.is_met for goal in goals) else 1


def _idle(folder: Path, connections: int) -> list[Goal]:
    # A broker's other ports keep a part of what it may open (`runtime.driver`).
    connections = min(connections, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 4)
    ports = ("--nameserver-port", "0", "--broker-port", "0")
    runs = SprocketAmqp(folder, ports)
    try:
        node = runs.start()
        time.sleep(SETTLE_SECONDS)
        before = _anonymous(node)
        found = [_said(at_most("idle, both products served, MiB", before, IDLE_MIB_MAX))]
        links = [connect(node.port) for _ in range(connections)]
        grown = (_anonymous(node) - before) * 1024 / max(connections, 1)
        for link in links:
            link.socket.close()
        what = f"{connections:,} idle connections with a channel, KiB each"
        return [*found, _said(at_most(what, grown, CONNECTION_KIB_MAX))]
    finally:
        runs.kill()


def _messages(folder: Path, messages: int) -> list[Goal]:
    runs = SprocketAmqp(folder)
    shape = Shape(connections=4, unconfirmed=500, queues=1, is_persistent=True, body_bytes=1024)
    try:
        node = runs.start()
        declare(node.port, 1)
        publish(node.port, shape, Corpus(shape), messages=messages)
        time.sleep(SETTLE_SECONDS)
        what = f"{messages:,} messages"
        found = [_said(at_most(f"{what} of backlog, MiB", _anonymous(node), BACKLOG_MIB_MAX))]
        for how, end, limit in (
            ("a kill", runs.kill, KILLED_MESSAGES_SECONDS_MAX),
            ("a clean stop", runs.stop, CLEAN_MESSAGES_SECONDS_MAX),
        ):
            end()
            began = time.perf_counter()
            node = runs.start()
            seconds = time.perf_counter() - began
            assert ready_count(node.port, 1) == messages, "messages are missing"
            found.append(_said(at_most(f"ready with {what} after {how}, s", seconds, limit)))
        return found
    finally:
        runs.kill()


def _queues(folder: Path, queues: int) -> list[Goal]:
    runs = SprocketAmqp(folder)
    shape = Shape(
        connections=1, unconfirmed=500, queues=queues, is_persistent=True, body_bytes=1024
    )
    try:
        node = runs.start()
        declare(node.port, queues)
        publish(node.port, shape, Corpus(shape, queues), messages=queues)
        runs.kill()
        began = time.perf_counter()
        node = runs.start()
        seconds = time.perf_counter() - began
        assert ready_count(node.port, queues) == queues, "messages are missing"
        what = f"ready with {queues:,} queues after a kill, s"
        return [_said(at_most(what, seconds, KILLED_QUEUES_SECONDS_MAX))]
    finally:
        runs.kill()


def _drained(folder: Path, *, is_persistent: bool) -> list[Goal]:
    """Consume a backlog of 400 MB; see what is still resident."""
    runs = SprocketAmqp(folder)
    shape = Shape(
        connections=4,
        unconfirmed=500,
        queues=1,
        is_persistent=is_persistent,
        body_bytes=DRAINED_BYTES,
    )
    try:
        node = runs.start()
        declare(node.port, 1)
        time.sleep(SETTLE_SECONDS)
        before = processes.memory(node.pid)["rss_mib"]
        publish(node.port, shape, Corpus(shape), messages=DRAINED_MESSAGES)
        consume(
            node.port,
            connections=4,
            queues=1,
            messages=DRAINED_MESSAGES,
            acks=acknowledgements(DRAINED_MESSAGES),
        )
        time.sleep(DRAINED_SECONDS)
        grown = processes.memory(node.pid)["rss_mib"] - before
        kind = "persistent" if is_persistent else "transient"
        what = f"{DRAINED_SECONDS:g} s after 400 MB of {kind} messages were consumed, MiB more"
        return [_said(at_most(what, grown, DRAINED_MIB_MAX))]
    finally:
        runs.kill()


def _anonymous(node: Node) -> float:
    return processes.memory(node.pid)["anonymous_mib"]


def _said(goal: Goal) -> Goal:
    print(goal, flush=True)
    return goal


if __name__ == "__main__":
    sys.exit(main())
