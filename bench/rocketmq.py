"""Sends and pulls per second and per CPU second: Sprocket and the real RocketMQ 5.3.3.

`make bench-rocketmq`. Both brokers run on this machine in both flush modes, each on a new store on
the same disk; the same load process speaks to one of the four at a time while the others are
stopped (SIGSTOP), so that their timers cost nothing. Each is warmed with 100,000 sends. Then, for
each row, they take turns, three rounds; the figures are medians.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.goals import ASYNC, LONG_PULL, OURS, PULL, SYNC, THEIRS, Figures, Goal, Key
from bench.load import Load, Row, Run
from bench.pull_load import MESSAGES_PER_PULL, PullLoad
from bench.row_names import WORDS_HELP, is_wanted
from tests.interop import link, peers

from bench import goals, processes

TOPIC, BACKLOG = "Bench", "Backlog"
QUEUES = 4
WARM_MESSAGES = 100_000
SETTLE_LOOKS = 10
QUEUED_SECONDS_MAX = 5.0
"""How long to wait for what was sent to be in the queues."""
BACKLOG_MESSAGES = 200_000
WARM_ROW = Row(connections=4, outstanding=32)
FILL_ROW = Row(connections=4, outstanding=4, batch=32)
ASKED = {PULL: MESSAGES_PER_PULL, LONG_PULL: 1024}
"""How many messages each pull of a row asks for."""
GIB_MESSAGES = 790_000
"""Of 1 KiB with their properties: a little more than 1 GiB of log."""

THEIR_JVM_HEAP = "2g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is written as JSON."""

    machine: Mapping[str, object]
    options: Mapping[str, object]
    medians: Sequence[Mapping[str, object]]
    runs: Sequence[Mapping[str, object]]
    memory: Mapping[str, Mapping[str, float]]
    ready_seconds: Mapping[str, float]
    goals: Sequence[Goal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The brokers that run, by flush mode and whose they are."""

    brokers: Mapping[tuple[str, str], peers.Broker]
    seconds: float

    @contextmanager
    def alone(self, flush: str, name: str) -> Iterator[peers.Broker]:
        """Have the machine for one of them."""
        broker = self.brokers[flush, name]
        with processes.alone(broker.pid, [one.pid for one in self.brokers.values()]):
            yield broker

    def prepare(self, warm_messages: int) -> None:
        """Create the topics, fill the backlog, warm each broker."""
        for flush, name in self.brokers:
            print(f"warming {name} {flush} with {warm_messages:,} sends", flush=True)
            with self.alone(flush, name) as broker:
                with link.Link(broker.address) as connection:
                    for topic in (TOPIC, BACKLOG):
                        link.create_topic(connection, topic, QUEUES)
                _send(broker, TOPIC, WARM_ROW, warm_messages)
                if flush == ASYNC:
                    _send(broker, BACKLOG, FILL_ROW, BACKLOG_MESSAGES)

    def sends(self, flush: str, name: str, row: Row) -> Figures:
        """Measure one row of sends against one broker."""
        with (
            self.alone(flush, name) as broker,
            Load(broker.address, TOPIC, row, queues=QUEUES) as load,
        ):
            load.run(messages=row.connections * row.outstanding * row.batch * 4)  # they are warm
            return _measured(broker, lambda: _run(broker, load, self.seconds, name))

    def pulls(self, flush: str, name: str, row: str) -> Figures:
        """Measure the reading of a backlog from one broker."""
        with (
            self.alone(flush, name) as broker,
            PullLoad(broker.address, BACKLOG, queues=QUEUES, asked=ASKED[row]) as load,
        ):
            load.run(seconds=0.5)
            return _measured(broker, lambda: load.run(seconds=self.seconds))


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
    parser.add_argument("--seconds", type=float, default=3.0, help="of load, each time")
    parser.add_argument("--warm", type=int, default=WARM_MESSAGES, help="sends before the first")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="no comparison, no goals")
    parser.add_argument("--flush", choices=[SYNC, ASYNC], help="one mode only")
    parser.add_argument("--rows", nargs="*", help=WORDS_HELP)
    parser.add_argument("--json", type=Path, default=peers.ROOT / "build/bench-rocketmq.json")
    return parser.parse_args()


def _bench(folder: Path, options: argparse.Namespace) -> Report:
    names = [options.only] if options.only else [OURS, THEIRS]
    modes = [options.flush] if options.flush else [SYNC, ASYNC]
    brokers: dict[tuple[str, str], peers.Broker] = {}
    ready: dict[str, float] = {}
    with ExitStack() as stack:
        for flush in modes:
            for name in names:
                began = time.perf_counter()
                started = _started(name, folder / f"{name}-{flush}", flush)
                brokers[flush, name] = stack.enter_context(started)
                ready[f"{name} {flush}, empty"] = time.perf_counter() - began
        bench = Bench(brokers=brokers, seconds=options.seconds)
        bench.prepare(options.warm)
        runs = in_rounds(bench, options.rounds, options.rows)
        memory = {
            f"{name} {flush}": processes.memory(broker.pid)
            for (flush, name), broker in brokers.items()
        }
    medians = {key: _median(figures) for key, figures in runs.items()}
    found = goals.compare(medians) + goals.commits(medians)
    if OURS in names:
        for flush in modes:
            found.append(goals.anonymous_memory(flush, memory[f"{OURS} {flush}"]["anonymous_mib"]))
        killed = ready[f"{OURS}, killed"] = _killed_ready(folder / "killed")
        empty = max(ready[f"{OURS} {flush}, empty"] for flush in modes)
        found += goals.ready(empty_seconds=empty, killed_seconds=killed)
    _print(medians, memory, ready, found, options.rounds)
    return Report(
        machine=processes.machine(),
        options={"rounds": options.rounds, "seconds": options.seconds},
        medians=[{**asdict(key), **asdict(figures)} for key, figures in medians.items()],
        runs=[{**asdict(key), **asdict(one)} for key, many in runs.items() for one in many],
        memory=memory,
        ready_seconds=ready,
        goals=found,
    )


def in_rounds(bench: Bench, rounds: int, words: Sequence[str] | None) -> dict[Key, list[Figures]]:
    """Measure the rows that are wanted, or every row; see `bench.row_names`.

    The brokers take turns, each round the other way.
    """
    runs: dict[Key, list[Figures]] = {}
    rows = [row for row in (*goals.SENDS, *goals.COMMITS) if is_wanted(row.name, words)]
    for turn in range(rounds):
        order = list(bench.brokers)[:: 1 if turn % 2 == 0 else -1]
        for row in rows:
            for flush, name in order:
                _note(runs, turn, row.name, flush, name, bench.sends(flush, name, row))
        for row_name in goals.PULLS:
            for flush, name in order:
                if flush == ASYNC and is_wanted(row_name, words):
                    _note(runs, turn, row_name, flush, name, bench.pulls(flush, name, row_name))
    return runs


def _note(
    runs: dict[Key, list[Figures]], turn: int, row: str, flush: str, name: str, figures: Figures
) -> None:
    runs.setdefault(Key(row=row, flush=flush, broker=name), []).append(figures)
    print(
        f"round {turn + 1}  {row:16} {flush:5} {name:9} {figures.messages_per_s:9,.0f}/s"
        f" {figures.cpu_us_per_message:7.1f} µs CPU  p50 {figures.p50_ms:.2f} ms"
        f"  p99 {figures.p99_ms:.2f} ms",
        flush=True,
    )


@contextmanager
def _started(name: str, folder: Path, flush: str) -> Iterator[peers.Broker]:
    """Run the broker on a new store, as its makers ship it, except for the flush mode."""
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


def _killed_ready(folder: Path) -> float:
    """Return how long our broker takes to be ready after 1 GiB was written and it was killed."""
    ours = peers.Sprocket(folder, folder / "store")
    with ours:
        with link.Link(ours.address) as connection:
            link.create_topic(connection, TOPIC, QUEUES)
        _send(ours, TOPIC, FILL_ROW, GIB_MESSAGES)
        ours.kill()
        began = time.perf_counter()
        ours.start()
        return time.perf_counter() - began


def _send(broker: peers.Broker, topic: str, row: Row, messages: int) -> None:
    with Load(broker.address, topic, row, queues=QUEUES) as load:
        load.run(messages=messages)


def _measured(broker: peers.Broker, load: Callable[[], Run]) -> Figures:
    before = processes.cpu_seconds(broker.pid)
    run = load()
    time.sleep(processes.REST_SECONDS)
    spent = processes.cpu_seconds(broker.pid) - before
    _settle(broker)
    return Figures(
        messages_per_s=run.messages / run.seconds,
        cpu_us_per_message=spent / run.messages * 1e6,
        p50_ms=run.percentile(0.50) * 1e3,
        p99_ms=run.percentile(0.99) * 1e3,
    )


def _run(broker: peers.Broker, load: Load, seconds: float, name: str) -> Run:
    """Run a load, and wait until all that it sent is in the queues: then it is done.

    A commit is not answered. RocketMQ drops those that have waited for 3 s, and asks producers
    later; such messages do not count. Ours drops none.
    """
    before, last = _queued(broker), -1
    while before != last:  # of the warming
        time.sleep(processes.REST_SECONDS)
        before, last = _queued(broker), before
    began = time.perf_counter()
    run = load.run(seconds=seconds)
    queued = _queued(broker) - before
    while queued < run.messages and time.perf_counter() - began < run.seconds + QUEUED_SECONDS_MAX:
        time.sleep(0.01)
        queued = _queued(broker) - before
    if queued != run.messages:
        said = f"{run.messages} messages were sent, {queued} are in the queues"
        if name == OURS or queued > run.messages:
            raise RuntimeError(said)
        print(f"{name}: {said}", flush=True)
    return replace(run, messages=queued, seconds=time.perf_counter() - began)


def _queued(broker: peers.Broker) -> int:
    """Return how many messages consumers have been able to read so far."""
    with link.Link(broker.address) as connection:
        return sum(link.queue_end(connection, TOPIC, queue) for queue in range(QUEUES))


def _settle(broker: peers.Broker) -> None:
    """Wait until all that was stored is in queues and index, as what comes later is not counted.

    RocketMQ writes op messages for seconds after a transaction has ended, so that the first look
    may see one that came just now.
    """
    with link.Link(broker.address) as connection:
        for _ in range(SETTLE_LOOKS):
            behind = link.runtime_info(connection)["dispatchBehindBytes"]
            if behind == "0":
                return
            time.sleep(processes.REST_SECONDS)
    raise RuntimeError(f"{behind} bytes are in no queue and no index yet, {broker.address}")


def _median(runs: Sequence[Figures]) -> Figures:
    return Figures(
        **{
            name: statistics.median(getattr(figures, name) for figures in runs)
            for name in Figures.__slots__
        }
    )


def _print(
    medians: Mapping[Key, Figures],
    memory: Mapping[str, Mapping[str, float]],
    ready: Mapping[str, float],
    found: Iterable[Goal],
    rounds: int,
) -> None:
    print(f"\n1 KiB messages, medians of {rounds} rounds, Python {platform.python_version()}\n")
    print(
        "| connections × outstanding (× batch) | flush | broker | messages/s | CPU µs/message"
        " | p50 ms | p99 ms |"
    )
    print("|---|---|---|---:|---:|---:|---:|")
    for key, figures in medians.items():
        print(
            f"| {key.row} | {key.flush} | {key.broker} | {figures.messages_per_s:,.0f}"
            f" | {figures.cpu_us_per_message:.1f} | {figures.p50_ms:.2f} | {figures.p99_ms:.2f} |"
        )
    print()
    for key, ratio in goals.commit_ratios(medians).items():
        print(f"{key.row}, {key.flush}, {key.broker}: {ratio:.2f} times the CPU of plain messages")
    for name, said in memory.items():
        peak, anonymous = said["peak_rss_mib"], said["anonymous_mib"]
        print(f"{name:16} peak RSS {peak:,.0f} MiB, of it not of files now {anonymous:,.0f} MiB")
    for what, seconds in ready.items():
        print(f"{what:24} ready in {seconds:.2f} s")
    print("\nGoals, ratios are Sprocket ÷ RocketMQ")
    for goal in found:
        print(goal)


if __name__ == "__main__":
    sys.exit(main())
