"""The Python client beside the official Java client 5.3.3, both against one `sprocket up`.

The second half of `make bench-rocketmq`. The broker flushes before it answers. In each of three
rounds a Java process and a Python process (`client_load`), both warm, take turns with a few hundred
sends each, one after the other, so that whatever else the machine and its disk do meets both; then
Python processes send a stream and consume a backlog. The figures are medians.

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
from typing import Self

import msgspec
from bench.client_load import BODY, Stream
from bench.goals import SYNC, Goal
from bench.load import BODY_BYTES, Load, Row
from tests.interop import link, peers

from bench import goals, processes

TOPIC, BACKLOG = "Bench", "Backlog"
QUEUES = 4
FILL_ROW = Row(connections=4, outstanding=4, batch=32)
SYNC_WARM_MESSAGES = 10_000
"""This many calls of a method, and more, make a JVM compile it permanently."""
STREAM_WARM_MESSAGES = 2_000
TURNS = 10
"""Of each client in a round."""
RUN_SECONDS_MAX = 300.0

PYTHON = [sys.executable, "-m", "bench.client_load"]

_P50 = re.compile(r"p50_us ([0-9.]+)\n")


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


class Sender:
    """A process that sends, one message after the other, when it is its turn."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=_environment(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._child.kill()
        self._child.communicate(timeout=RUN_SECONDS_MAX)

    def p50_us(self, count: int) -> float:
        """Have it send so many; return the median that it prints, among whatever else it says.

        Raises:
            ClientFailed: It ended instead; it gives up by itself when no answer comes.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(f"{count}\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, as the reading will find
        for line in self._child.stdout:
            if found := _P50.fullmatch(line):
                return float(found[1])
        raise ClientFailed(f"it ended in its turn: {self._errors.read_text()[-4000:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The broker that runs, how many messages its backlog has, and the two that take turns."""

    nameserver: str
    backlog: int
    java: Sender
    python: Sender
    options: argparse.Namespace

    def round(self, number: int) -> Round:
        """Let each client do each thing."""
        java, python = [], []
        count = self.options.sync // TURNS
        for _ in range(TURNS):
            java.append(self.java.p50_us(count))
            python.append(self.python.p50_us(count))
        warm = f"--warm={STREAM_WARM_MESSAGES}"
        sent = self._stream("soon", TOPIC, self.options.stream, warm)
        got = self._stream("push", BACKLOG, self.backlog, f"--group=bench-{number}")
        return Round(
            java_p50_us=statistics.median(java),
            p50_us=statistics.median(python),
            send_cpu_us=sent.cpu_us_per_message,
            send_rate=sent.messages_per_s,
            push_cpu_us=got.cpu_us_per_message,
            push_rate=got.messages_per_s,
        )

    def _stream(self, kind: str, topic: str, count: int, more: str) -> Stream:
        command = [*PYTHON, kind, self.nameserver, topic, f"--messages={count}", more]
        return msgspec.json.decode(run(command), type=Stream)


def run(command: Sequence[str]) -> str:
    """Run a client to its end and return what it printed.

    Raises:
        ClientFailed: It ended with another code than 0.
    """
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
        env=_environment(),
    )
    if done.returncode != 0:
        raise ClientFailed(f"code {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{peers.ROOT / 'src'}{os.pathsep}{peers.ROOT}"}


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
    java = [*peers.java(peers.library(), home=folder, classes=classes), "SyncSend"]
    with peers.Sprocket(folder, folder / "store", ["--flush", SYNC]) as broker:
        with link.Link(broker.address) as connection:
            for topic in (TOPIC, BACKLOG):
                link.create_topic(connection, topic, QUEUES)
        with Load(broker.address, BACKLOG, FILL_ROW, queues=QUEUES) as load:
            backlog = load.run(messages=options.backlog).messages
        where = [broker.nameserver, TOPIC]
        with (
            Sender([*java, *where], folder / "java.log") as java_sender,
            Sender([*PYTHON, "sync", *where], folder / "python.log") as python_sender,
        ):
            for sender in (java_sender, python_sender):
                sender.p50_us(SYNC_WARM_MESSAGES)
            bench = Bench(
                nameserver=broker.nameserver,
                backlog=backlog,
                java=java_sender,
                python=python_sender,
                options=options,
            )
            return [_told(number, bench.round(number)) for number in range(options.rounds)]


def _told(number: int, found: Round) -> Round:
    print(
        f"round {number + 1}  sync p50 {found.p50_us:.0f} µs, Java {found.java_p50_us:.0f}"
        f"; stream {found.send_rate:,.0f}/s {found.send_cpu_us:.1f} µs CPU"
        f"; push {found.push_rate:,.0f}/s {found.push_cpu_us:.1f} µs CPU",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
