"""The Python client beside the official Java client 5.3.3, both against one `sprocket up`.

The second half of `make bench-rocketmq`. The broker flushes before it answers. In each of three
rounds a Java process and a Python process (`client_load`) send one message after the other, then
Python processes send a stream and consume a backlog. Each has the broker to itself and warms up
before it measures; the figures are medians.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from bench.client_load import BODY, OneByOne, Stream
from bench.goals import SYNC, Goal
from bench.load import BODY_BYTES, Load, Row
from tests.interop import link, peers

from bench import goals, processes

TOPIC, BACKLOG = "Bench", "Backlog"
QUEUES = 4
FILL_ROW = Row(connections=4, outstanding=4, batch=32)
JAVA_WARM_MESSAGES = 10_000
"""So many calls of a method, and more, make a JVM compile it for good."""
PYTHON_WARM_MESSAGES = 2_000
RUN_SECONDS_MAX = 300.0

T = TypeVar("T")

_JAVA_P50 = re.compile(r"^p50_us ([0-9.]+)$", re.MULTILINE)


class ClientFailed(Exception):
    """A process with a client ended badly; the text is the end of what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round gave."""

    java_p50_us: float
    p50_us: float
    send_cpu_us: float
    send_rate: float
    push_cpu_us: float
    push_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is written as JSON."""

    machine: Mapping[str, object]
    options: Mapping[str, object]
    medians: Round
    rounds: Sequence[Round]
    goals: Sequence[Goal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The broker that runs, how many messages its backlog has, and the Java program, compiled."""

    nameserver: str
    folder: Path
    classes: Path
    backlog: int
    options: argparse.Namespace

    def round(self, number: int) -> Round:
        """Let each client do each thing once; who sends first changes from round to round."""
        if number % 2:
            p50_us, java_p50_us = self._python_p50_us(), self._java_p50_us()
        else:
            java_p50_us, p50_us = self._java_p50_us(), self._python_p50_us()
        warm = f"--warm={PYTHON_WARM_MESSAGES}"
        sent = self._python("soon", TOPIC, self.options.stream, Stream, warm)
        group = f"--group=bench-{number}"
        got = self._python("push", BACKLOG, self.backlog, Stream, group)
        return Round(
            java_p50_us=java_p50_us,
            p50_us=p50_us,
            send_cpu_us=sent.cpu_us_per_message,
            send_rate=sent.messages_per_s,
            push_cpu_us=got.cpu_us_per_message,
            push_rate=got.messages_per_s,
        )

    def _java_p50_us(self) -> float:
        warm, count = JAVA_WARM_MESSAGES, self.options.sync
        java = peers.java(peers.library(), home=self.folder, classes=self.classes)
        said = run([*java, "SyncSend", self.nameserver, TOPIC, str(warm), str(count)])
        return java_p50_us(said)

    def _python_p50_us(self) -> float:
        warm = f"--warm={PYTHON_WARM_MESSAGES}"
        return self._python("sync", TOPIC, self.options.sync, OneByOne, warm).p50_us

    def _python(self, kind: str, topic: str, count: int, of: type[T], *more: str) -> T:
        command = [sys.executable, "-m", "bench.client_load", kind, self.nameserver, topic]
        return msgspec.json.decode(run([*command, f"--messages={count}", *more]), type=of)


def run(command: Sequence[str]) -> str:
    """Run a client to its end and return what it printed.

    Raises:
        ClientFailed: It ended with another code than 0.
    """
    paths = f"{peers.ROOT / 'src'}{os.pathsep}{peers.ROOT}"
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )
    if done.returncode != 0:
        raise ClientFailed(f"code {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def java_p50_us(said: str) -> float:
    """Return the figure that `SyncSend` printed, among whatever its logger says.

    Raises:
        ClientFailed: It printed none.
    """
    found = _JAVA_P50.search(said)
    if found is None:
        raise ClientFailed(f"SyncSend printed no p50: {said[-4000:]}")
    return float(found[1])


def medians(rounds: Sequence[Round]) -> Round:
    """Return the median of each figure by itself."""
    return Round(
        **{
            name: statistics.median(getattr(one, name) for one in rounds)
            for name in Round.__slots__
        }
    )


def compare(found: Round) -> list[Goal]:
    """Hold the figures against the goals."""
    return goals.clients(
        p50_us=found.p50_us,
        java_p50_us=found.java_p50_us,
        send_cpu_us=found.send_cpu_us,
        send_rate=found.send_rate,
        push_cpu_us=found.push_cpu_us,
    )


def main() -> int:
    """Run the bench and return the exit code."""
    options = _options()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))  # on the disk, never in memory
    try:
        rounds = _rounds(folder, options)
    except (
        peers.PeerMissing,
        ClientFailed,
        RuntimeError,
        TimeoutError,
        subprocess.TimeoutExpired,
    ) as error:
        print(f"bench.clients could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report = Report(
        machine=processes.machine(),
        options={name: value for name, value in vars(options).items() if name != "json"},
        medians=medians(rounds),
        rounds=rounds,
        goals=compare(medians(rounds)),
    )
    print(f"\nThe Python client, medians of {len(rounds)} rounds")
    for goal in report.goals:
        print(goal)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n")
    print(f"\nas JSON: {options.json}")
    return 0 if all(goal.is_met for goal in report.goals) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sync", type=int, default=5_000, help="sends one by one, each time")
    parser.add_argument("--stream", type=int, default=100_000, help="sends in a stream, each time")
    parser.add_argument("--backlog", type=int, default=200_000, help="messages to consume")
    parser.add_argument("--json", type=Path, default=peers.ROOT / "build/bench-clients.json")
    return parser.parse_args()


def _rounds(folder: Path, options: argparse.Namespace) -> list[Round]:
    assert len(BODY) == BODY_BYTES, "every load has bodies of one size"
    program = peers.ROOT / "bench/java/SyncSend.java"
    classes = peers.compile_java(peers.library(), folder / "classes", [program])
    rounds = []
    with peers.Sprocket(folder, folder / "store", ["--flush", SYNC]) as broker:
        with link.Link(broker.address) as connection:
            for topic in (TOPIC, BACKLOG):
                link.create_topic(connection, topic, QUEUES)
        with Load(broker.address, BACKLOG, FILL_ROW, queues=QUEUES) as load:
            backlog = load.run(messages=options.backlog).messages
        bench = Bench(
            nameserver=broker.nameserver,
            folder=folder,
            classes=classes,
            backlog=backlog,
            options=options,
        )
        for number in range(options.rounds):
            found = bench.round(number)
            rounds.append(found)
            print(
                f"round {number + 1}  sync p50 {found.p50_us:.0f} µs, Java {found.java_p50_us:.0f}"
                f"; stream {found.send_rate:,.0f}/s {found.send_cpu_us:.1f} µs CPU"
                f"; push {found.push_rate:,.0f}/s {found.push_cpu_us:.1f} µs CPU",
                flush=True,
            )
    return rounds


if __name__ == "__main__":
    sys.exit(main())
