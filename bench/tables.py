"""Tables that have grown: `python -m bench.tables`. What each figure stands for: `bench/README.md`.

The broker runs in a process of its own, on asyncio's event loop, of which every callback is timed:
how long any of them held the loop is printed after each turn. A load of sends continues while
somebody else makes topics, groups and queues; what counts is how late its answers are. Then
administrators ask for all that there is.

Each is done in several turns, whose median counts. A virtual machine is stopped by its host for
some 10 ms now and then, and takes that for CPU time of whoever ran: seen in a loop that does
nothing but read the clock, once in 10 s. What a broker does by itself it does in each turn.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from bench.goals import Goal
from bench.load import Load, LoadError, Row
from tests.interop import link

from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk
from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.config import fastjson, tables
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import (
    BrokerSettings,
    GroupSettings,
    ServerSettings,
    Settings,
    TopicSettings,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.runtime import collector

TOPICS, GROUPS, QUEUES = 10_000, 10_000, 8
OFFSETS = 160_000

READ_SECONDS_MAX = 0.5
"""For 10 MB of the table of committed offsets."""
LATE_MS_MAX = 10.0
"""How much later the answers of others are, at p99, while something is made."""
HOLD_MS_MAX = 10.0
"""The longest that any callback may keep the event loop busy."""

QUESTIONS: tuple[tuple[str, int, dict[str, object]], ...] = (
    ("all topics", 21, {}),
    ("all groups", 201, {}),
    ("all offsets", 43, {}),
    ("progress of all groups", 317, {"isOrder": "false"}),
    ("progress of all groups in order", 317, {"isOrder": "true"}),
    ("progress of a group", 208, {"consumerGroup": "group-00001"}),
    ("system topics", 305, {}),
    ("runtime", 28, {}),
    ("unused topics", 316, {}),
    ("all topics of a NameServer", 206, {}),
    ("no writes to a broker", 205, {"brokerName": "broker-a"}),
    ("writes to a broker", 327, {"brokerName": "broker-a"}),
    ("topics of a cluster", 224, {"cluster": "DefaultCluster"}),
)
"""What they are about, code and fields."""
OF_NAMES = frozenset({205, 206, 224, 327})
"""Those that a NameServer answers; it serves on the same loop here."""
REFUSED = frozenset({317})
"""Its answer is longer than a frame may be; the work is done up to there."""

SECONDS = 2.0
TURNS = 3
MADE_MAX = 10_000
"""Names that are put aside for one turn."""
PAUSE_SECONDS = 0.002
"""Between two requests of the creating client: 200 to 400 of them a second."""
READ_ROUNDS = 3
ANSWER_SECONDS = 60.0


def main() -> int:
    """Measure, print, and return the exit code."""
    folder = tempfile.mkdtemp(prefix="bench-tables-", dir=_build())
    try:
        goals = [*_reading(f"{folder}/read"), *_making(f"{folder}/store")]
    except (StoreError, LoadError, OSError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _build() -> str:
    path = Path("build")
    path.mkdir(exist_ok=True)
    return str(path)


# Reading a table of offsets that is far beyond what a frame may have.


def _reading(folder: str) -> Iterator[Goal]:
    """Read a table of some 40 MB, with and without quotes around its integer keys."""
    disk = RealDisk()
    layout = StoreLayout(folder)
    disk.make_folder(layout.config)
    table = {
        f"topic-{n % 10:05d}@a-group-of-consumers-{n // 10:07d}": dict.fromkeys(
            range(QUEUES), 1_000_000_000 + n
        )
        for n in range(300_000)
    }
    content = {"offsetTable": table, tables.SEQUENCE: 0}  # so that nothing is written at once
    for text, name in (
        (fastjson.write(content), "as RocketMQ writes it"),
        (msgspec.json.format(msgspec.json.encode(content), indent=1), "strict JSON"),
    ):
        Path(layout.consumer_offsets).write_bytes(text)
        took = []
        for _ in range(READ_ROUNDS):
            began = time.process_time()
            ConsumerOffsets(Place(disk, folder, SystemClock()))
            took.append(time.process_time() - began)
        what = f"offsets, {name}: CPU s for 10 MB"
        yield _at_most(what, min(took) / len(text) * 10_000_000, READ_SECONDS_MAX)


def _at_most(what: str, figure: float, limit: float) -> Goal:
    return Goal(what=what, figure=figure, limit=limit, is_at_most=True)


# Making topics, groups and queues where there are many.


def _making(folder: str) -> Iterator[Goal]:
    """Hold the answers of a load while things are made against those while nothing is."""
    command = [sys.executable, "-m", "bench.tables", "--broker", folder]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdin is not None
        assert broker.stdout is not None
        address, _, names_address = broker.stdout.readline().strip().partition(" ")
        if not address:
            raise LoadError("the broker did not start")
        watched = _Watched(broker.stdin, broker.stdout)
        for what, make in (("topics", _topic), ("groups", _group), ("queues", _queue)):
            late_ms = []
            for turn in range(TURNS):  # a machine that is busy with something else is so for both
                quiet_ms = _p99_ms(address, lambda _connection, _number: None)
                late_ms.append(_p99_ms(address, make, turn * MADE_MAX) - quiet_ms)
                watched.end_turn(what)
            later = max(0.0, statistics.median(late_ms))
            yield _at_most(f"p99 of sends, later while {what} are made, ms", later, LATE_MS_MAX)
        for turn in range(TURNS):
            _p99_ms(address, _commit, turn * MADE_MAX)
            watched.end_turn("commits")
        yield watched.goal("longest hold of the loop, ms")
        for what, code, ext in QUESTIONS:
            _ask(names_address if code in OF_NAMES else address, code, ext)
            watched.end_turn("")
            for _ in range(TURNS):
                _ask(names_address if code in OF_NAMES else address, code, ext)
                watched.end_turn(what)
        yield watched.goal("longest hold by a question about all, ms")


class _Held(NamedTuple):
    """The longest that a callback held the loop in a turn."""

    ms: float
    by: str


class _Watched:
    """What the broker says of its loop, turn by turn."""

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions = questions
        self._answers = answers
        self._turns: dict[str, list[_Held]] = {}

    def end_turn(self, what: str) -> None:
        """Note what held the loop longest since the last turn, in which something was done."""
        self._questions.write("\n")
        self._questions.flush()
        held = _Held(*json.loads(self._answers.readline()))
        self._turns.setdefault(what, []).append(held)

    def goal(self, name: str) -> Goal:
        """Return the longest hold of what was done so far, each by the median of its turns."""
        self._turns.pop("", None)
        medians = {what: sorted(turns)[len(turns) // 2] for what, turns in self._turns.items()}
        what, held = max(medians.items(), key=lambda one: one[1])
        self._turns.clear()
        return _at_most(f"{name} ({what}: {held.by})", held.ms, HOLD_MS_MAX)


class _Connection:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), ANSWER_SECONDS)
        self._opaque = 0

    def call(self, code: int, ext: dict[str, object], body: bytes = b"") -> None:
        """Send a request and wait until it is answered with success."""
        self._opaque += 1
        texts = {name: str(value) for name, value in ext.items()}
        self.socket.sendall(link.encode(code, self._opaque, texts, body))
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            more = self.socket.recv(1 << 16)
            if not more:
                raise LoadError("the broker closed the connection")
            data += more
        if b'"code":0,' not in data:
            raise LoadError(f"request {code} was refused: {data[:300]!r}")


def _topic(connection: _Connection, number: int) -> None:
    ext = {
        "topic": f"new-{number}",
        "defaultTopic": "TBW102",
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    connection.call(17, ext)


def _group(connection: _Connection, number: int) -> None:
    connection.call(200, {}, json.dumps({"groupName": f"new-{number}"}).encode())


def _queue(connection: _Connection, number: int) -> None:
    topic, queue_id = f"topic-{1 + number // QUEUES:05d}", number % QUEUES
    properties = f"UNIQ_KEY\x017F000001000100000000{number:012d}\x02"
    ext = link.send_ext(topic, queue_id, properties, n="broker-a")
    connection.call(link.SEND_MESSAGE_V2, ext, b"x" * 100)


def _commit(connection: _Connection, number: int) -> None:
    ext = {
        "consumerGroup": f"group-{number % GROUPS:05d}",
        "topic": f"topic-{number % TOPICS:05d}",
        "queueId": number % QUEUES,
        "commitOffset": number,
    }
    connection.call(15, ext)


def _ask(address: str, code: int, ext: dict[str, object]) -> None:
    """Ask one question on a connection of its own."""
    connection = _Connection(address)
    try:
        connection.call(code, ext)
    except LoadError:
        if code not in REFUSED:
            raise
    finally:
        connection.socket.close()


def _p99_ms(address: str, make: Callable[[_Connection, int], None], first: int = 0) -> float:
    """Return the 99th percentile of a load's answers while something is made."""
    row = Row(connections=4, outstanding=1)
    with Load(address, "topic-00000", row, queues=4) as load, _maker(address, make, first):
        load.run(seconds=0.5)
        return 1000 * load.run(seconds=SECONDS).percentile(0.99)


@contextmanager
def _maker(address: str, make: Callable[[_Connection, int], None], first: int) -> Iterator[None]:
    """Make something every few milliseconds, on a thread and a connection of its own."""
    is_over = threading.Event()
    errors: list[Exception] = []

    def go() -> None:
        connection = _Connection(address)
        number = first
        try:
            while not is_over.wait(PAUSE_SECONDS):
                make(connection, number)
                number += 1
        except (LoadError, OSError) as error:
            errors.append(error)
        finally:
            connection.socket.close()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if errors:
        raise errors[0]


# The broker whose loop is watched.


def _fill(folder: str) -> None:
    """Make a store whose tables have grown."""
    disk, clock, layout = RealDisk(), SystemClock(), StoreLayout(folder)
    for path in (layout.config, layout.commitlog):
        disk.make_folder(path)
    topics = Topics(Place(disk, folder, clock), BrokerSettings(), TopicSettings())
    names = [f"topic-{number:05d}" for number in range(TOPICS)]
    topics.put_all(
        TopicConfig(name=name, read_queues=QUEUES, write_queues=QUEUES) for name in names
    )
    topics.table.close()
    groups = Groups(Place(disk, folder, clock), GroupSettings())
    groups.put([SubscriptionGroup(name=f"group-{number:05d}") for number in range(GROUPS)])
    groups.table.close()
    offsets = ConsumerOffsets(Place(disk, folder, clock))
    for number in range(OFFSETS):
        group, topic = number // QUEUES % GROUPS, number // QUEUES // 2
        offsets.commit(f"group-{group:05d}", names[topic], number % QUEUES, number)
    offsets.table.close()


class _Watch:
    """Times every callback of asyncio's loop, by the CPU of its thread: others may have the other.

    Attributes:
        seconds: Of the longest.
        by: What it was.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.by = ""
        self._run = events.Handle._run

    def begin(self) -> None:
        """Watch from now on."""
        watch, run = self, self._run

        def timed(handle: events.Handle) -> None:
            began = time.thread_time()
            run(handle)
            took = time.thread_time() - began
            if took > watch.seconds:
                watch.seconds, watch.by = took, _name(handle)

        events.Handle._run = timed  # type: ignore[method-assign, assignment]

    def take(self) -> _Held:
        """Return the longest since this was called last."""
        held = _Held(1000 * self.seconds, self.by)
        self.seconds, self.by = 0.0, ""
        return held

    def end(self) -> None:
        """Watch no more."""
        events.Handle._run = self._run  # type: ignore[method-assign]


def _name(handle: events.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", None) or type(callback).__name__)


async def _serve(folder: str) -> None:
    """Run a node as `sprocket up` does until stdin ends; print the longest hold at each line."""
    server = ServerSettings(nameserver_port=0, broker_port=0)
    broker = BrokerSettings(register_seconds=10)
    node = await Node.start(Settings(server=server, broker=broker), folder)
    collector.keep()
    watch = _Watch()
    watch.begin()
    print(node.addresses.broker, node.addresses.nameserver, flush=True)
    while await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        print(json.dumps(watch.take()), flush=True)
    watch.end()
    await node.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broker"]:
        _fill(sys.argv[2])
        with collector.rare():
            asyncio.run(_serve(sys.argv[2]))
        sys.exit(0)
    sys.exit(main())
