"""Sends per second and per CPU second: Sprocket and the real RocketMQ 5.3.3, side by side.

`make bench-rocketmq`. Both brokers run on this machine with sync flush, each on a new store on the
same disk; the same load process speaks to one of them at a time while the other is stopped
(SIGSTOP), so that its timers cost nothing. Both are warmed with 100,000 sends. Then, for each row,
they take turns, three rounds; the figures are medians.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.load import Load, Row
from tests.interop import link, peers

ROWS = (Row(connections=16, outstanding=1), Row(connections=4, outstanding=32))
TOPIC = "Bench"
QUEUES = 4
WARM_MESSAGES = 100_000
CPU_RATIO_MAX = 0.40
RATE_RATIO_MIN = 1.5
REST_SECONDS = 0.3
"""Between load and reading the CPU: work put off (index, queue files) belongs to the messages."""

OURS, THEIRS = "sprocket", "rocketmq"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

THEIR_JVM_HEAP = "2g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run of one row against one broker gave; medians of such have the same shape."""

    messages_per_s: float
    cpu_us_per_message: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is written as JSON."""

    machine: Mapping[str, object]
    options: Mapping[str, object]
    medians: Sequence[Mapping[str, object]]
    runs: Sequence[Mapping[str, object]]
    memory: Mapping[str, Mapping[str, float]]
    goals: Sequence["Goal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One ratio that must hold."""

    row: str
    what: str
    ratio: float
    limit: float
    is_met: bool

    def __str__(self) -> str:
        """Say it in a line."""
        sign = "≤" if self.what == "CPU" else "≥"
        word = "met" if self.is_met else "MISSED"
        return f"{self.row:8} {self.what:12} {self.ratio:5.2f} {sign} {self.limit:.2f}  {word}"


def main() -> int:
    """Run the bench and return the exit code."""
    options = _options()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))  # on the disk, never in memory
    try:
        report = _bench(folder, options)
    except (peers.PeerMissing, RuntimeError, TimeoutError) as error:
        print(f"bench-rocketmq could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(text + "\n")
    print(f"\nas JSON: {options.json}")
    return 0 if all(goal.is_met for goal in report.goals) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rocketmq", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of load, each time")
    parser.add_argument("--warm", type=int, default=WARM_MESSAGES, help="sends before the first")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="no comparison, no goals")
    parser.add_argument("--flush", choices=["sync", "async"], default="sync")
    parser.add_argument("--json", type=Path, default=peers.ROOT / "build/bench-rocketmq.json")
    return parser.parse_args()


def _bench(folder: Path, options: argparse.Namespace) -> Report:
    names = [options.only] if options.only else [OURS, THEIRS]
    runs: dict[tuple[str, str], list[Figures]] = {}
    memory: dict[str, Mapping[str, float]] = {}
    with ExitStack() as stack:
        brokers = {
            name: stack.enter_context(_started(name, folder / name, options.flush))
            for name in names
        }
        for name, broker in brokers.items():
            with _alone(broker, brokers.values()):
                print(f"warming {name} with {options.warm:,} sends", flush=True)
                _warm(broker, options.warm)
        for turn in range(options.rounds):
            for row in ROWS:
                for name in names if turn % 2 == 0 else reversed(names):
                    with _alone(brokers[name], brokers.values()):
                        figures = _measure(brokers[name], row, options.seconds)
                    runs.setdefault((row.name, name), []).append(figures)
                    print(f"round {turn + 1}  {row.name:8} {name:9} {_line(figures)}", flush=True)
        for name, broker in brokers.items():
            memory[name] = _memory(broker.pid)
    medians = {key: _median(figures) for key, figures in runs.items()}
    goals = [] if options.only else _goals(medians)
    _print(medians, memory, goals, options)
    return Report(
        machine=_machine(),
        options={"rounds": options.rounds, "seconds": options.seconds, "flush": options.flush},
        medians=[_named(key, figures) for key, figures in medians.items()],
        runs=[_named(key, figures) for key, many in runs.items() for figures in many],
        memory=memory,
        goals=goals,
    )


def _named(key: tuple[str, str], figures: Figures) -> Mapping[str, object]:
    row, name = key
    return {"row": row, "broker": name, **asdict(figures)}


@contextmanager
def _started(name: str, folder: Path, flush: str) -> Iterator[peers.Broker]:
    """Run the broker on a new store, as its makers ship it, but for the flush mode."""
    if name == OURS:
        with peers.Sprocket(folder, folder / "store", ["--flush", flush]) as ours:
            yield ours
    else:
        settings = {"flushDiskType": f"{flush.upper()}_FLUSH"}
        with peers.RocketMQ(
            jars=peers.library(),
            folder=folder,
            store=folder / "store",
            settings=settings,
            heap=THEIR_JVM_HEAP,
        ) as theirs:
            yield theirs


@contextmanager
def _alone(broker: peers.Broker, brokers: Iterable[peers.Broker]) -> Iterator[None]:
    """Stop every other broker meanwhile."""
    others = [other.pid for other in brokers if other is not broker]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        time.sleep(REST_SECONDS)  # what they put off while stopped is not the next one's


def _warm(broker: peers.Broker, messages: int) -> None:
    with link.Link(broker.address) as connection:
        link.create_topic(connection, TOPIC, QUEUES)
    with Load(broker.address, TOPIC, ROWS[-1], queues=QUEUES) as load:
        load.run(messages=messages)


def _measure(broker: peers.Broker, row: Row, seconds: float) -> Figures:
    with Load(broker.address, TOPIC, row, queues=QUEUES) as load:
        load.run(messages=row.connections * row.outstanding * 4)  # the connections are warm too
        before = cpu_seconds(broker.pid)
        run = load.run(seconds=seconds)
        time.sleep(REST_SECONDS)
        spent = cpu_seconds(broker.pid) - before
    return Figures(
        messages_per_s=run.messages / run.seconds,
        cpu_us_per_message=spent / run.messages * 1e6,
        p50_ms=run.percentile(0.50) * 1e3,
        p99_ms=run.percentile(0.99) * 1e3,
    )


def cpu_seconds(pid: int) -> float:
    """Return user and system time of the whole process, all its threads, to 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def _memory(pid: int) -> Mapping[str, float]:
    """Return MiB: the peak of what was resident, and of what is now the part not of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = {line.partition(":")[0]: line.split()[1] for line in lines if "kB" in line}
    return {
        "peak_rss_mib": int(said["VmHWM"]) / 1024,
        "anonymous_rss_mib": int(said["RssAnon"]) / 1024,
    }


def _median(runs: Sequence[Figures]) -> Figures:
    return Figures(
        **{
            name: statistics.median(getattr(figures, name) for figures in runs)
            for name in Figures.__slots__
        }
    )


def _goals(medians: Mapping[tuple[str, str], Figures]) -> list[Goal]:
    goals = []
    for row in ROWS:
        ours, theirs = medians[row.name, OURS], medians[row.name, THEIRS]
        cpu = ours.cpu_us_per_message / theirs.cpu_us_per_message
        rate = ours.messages_per_s / theirs.messages_per_s
        goals += [
            Goal(
                row=row.name,
                what="CPU",
                ratio=cpu,
                limit=CPU_RATIO_MAX,
                is_met=cpu <= CPU_RATIO_MAX,
            ),
            Goal(
                row=row.name,
                what="messages/s",
                ratio=rate,
                limit=RATE_RATIO_MIN,
                is_met=rate >= RATE_RATIO_MIN,
            ),
        ]
    return goals


def _print(
    medians: Mapping[tuple[str, str], Figures],
    memory: Mapping[str, Mapping[str, float]],
    goals: Sequence[Goal],
    options: argparse.Namespace,
) -> None:
    print(f"\n1 KiB sends, {options.flush} flush, medians of {options.rounds} rounds\n")
    print("| connections × outstanding | broker | messages/s | CPU µs/message | p50 ms | p99 ms |")
    print("|---|---|---:|---:|---:|---:|")
    for (row, name), figures in medians.items():
        print(
            f"| {row} | {name} | {figures.messages_per_s:,.0f} | {figures.cpu_us_per_message:.1f}"
            f" | {figures.p50_ms:.2f} | {figures.p99_ms:.2f} |"
        )
    print()
    for name, said in memory.items():
        peak, anonymous = said["peak_rss_mib"], said["anonymous_rss_mib"]
        print(f"{name:9} peak RSS {peak:,.0f} MiB, of it not of files now {anonymous:,.0f} MiB")
    if goals:
        print("\nSprocket ÷ RocketMQ")
        for goal in goals:
            print(goal)


def _line(figures: Figures) -> str:
    return (
        f"{figures.messages_per_s:9,.0f}/s {figures.cpu_us_per_message:7.1f} µs CPU  "
        f"p50 {figures.p50_ms:.2f} ms  p99 {figures.p99_ms:.2f} ms"
    )


def _machine() -> dict[str, object]:
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": (java.stderr.splitlines() or ["none"])[0],
    }


if __name__ == "__main__":
    sys.exit(main())
