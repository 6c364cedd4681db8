"""What the comparisons with RocketMQ must show, as one table, and how figures are held against it.

Each row compares Sprocket with RocketMQ under the same flush mode in the same run. Beside the rows:
Sprocket with sync flush against RocketMQ with async flush, memory, and the time to ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.load import Row

OURS, THEIRS = "sprocket", "rocketmq"
SYNC, ASYNC = "sync", "async"
PULL, LONG_PULL = "pull", "pull 1024"
"""Pulls that ask for 32 messages, as RocketMQ's clients do, and for 1,024, as ours do; RocketMQ
gives 32 to both."""

P99_RATIO_MAX = 1.0
ANONYMOUS_MIB_MAX = 150.0
EMPTY_READY_SECONDS_MAX = 1.0
KILLED_READY_SECONDS_MAX = 3.0

COMMIT_CPU_RATIO_MAX = 2.2

CLIENT_P50_RATIO_MAX = 1.3
CLIENT_SEND_CPU_US_MAX = 25.0
CLIENT_SEND_RATE_MIN = 25_000.0
CLIENT_PUSH_CPU_US_MAX = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run of one row against one broker gave; medians of such have the same shape."""

    messages_per_s: float
    cpu_us_per_message: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Ratios to RocketMQ: CPU a message at most, messages/s at least, p99 at most if it counts."""

    cpu: float
    rate: float
    p99: float | None = P99_RATIO_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Which figures: the row's name, the flush mode, and whose they are."""

    row: str
    flush: str
    broker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One figure and its limit."""

    what: str
    figure: float
    limit: float
    is_at_most: bool

    @property
    def is_met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.figure <= self.limit if self.is_at_most else self.figure >= self.limit

    def __str__(self) -> str:
        """Say it in a line."""
        sign = "≤" if self.is_at_most else "≥"
        word = "met" if self.is_met else "MISSED"
        return f"{self.what:44} {self.figure:8.2f} {sign} {self.limit:.2f}  {word}"


SENDS: Mapping[Row, Mapping[str, Limits]] = {
    Row(connections=1, outstanding=1): {
        ASYNC: Limits(cpu=0.70, rate=1.1),
        SYNC: Limits(cpu=0.40, rate=1.8),
    },
    Row(connections=16, outstanding=1): {
        ASYNC: Limits(cpu=0.36, rate=2.0),
        SYNC: Limits(cpu=0.30, rate=2.0),
    },
    Row(connections=64, outstanding=1): {
        ASYNC: Limits(cpu=0.45, rate=1.7),
        SYNC: Limits(cpu=0.35, rate=1.9),
    },
    Row(connections=4, outstanding=32): {
        ASYNC: Limits(cpu=0.50, rate=1.4),
        SYNC: Limits(cpu=0.35, rate=1.7),
    },
    Row(connections=4, outstanding=4, batch=32): {
        ASYNC: Limits(cpu=0.60, rate=1.0),
        SYNC: Limits(cpu=0.50, rate=1.2),
    },
}
COMMITS = (
    Row(connections=16, outstanding=1, commits=True),
    Row(connections=4, outstanding=32, commits=True),
)
"""A half message and its commit, held against the plain send of the same row."""
PULLS: Mapping[str, Limits] = {
    PULL: Limits(cpu=0.50, rate=1.0),
    LONG_PULL: Limits(cpu=0.35, rate=1.5, p99=None),
}
"""Of a backlog in four queues; flushing has no part in it, so it is measured in async mode only.
One of our long answers has up to 26 times as many messages as RocketMQ's, and takes its time."""

SYNC_AGAINST_ASYNC = {"16 × 1": 1.0, "64 × 1": 1.0, "4 × 32": 1.0}
"""Messages/s of Sprocket with sync flush over those of RocketMQ with async flush, at least."""


def compare(medians: Mapping[Key, Figures]) -> list[Goal]:
    """Hold the rows that were measured on both sides against their limits."""
    limits = {
        (row.name, flush): one for row, modes in SENDS.items() for flush, one in modes.items()
    }
    limits |= {(row, ASYNC): one for row, one in PULLS.items()}
    goals = []
    for (row, flush), limit in limits.items():
        ours = medians.get(Key(row=row, flush=flush, broker=OURS))
        theirs = medians.get(Key(row=row, flush=flush, broker=THEIRS))
        if ours is None or theirs is None:
            continue
        name = f"{row} {flush}"
        goals += [
            at_most(f"{name}: CPU", ours.cpu_us_per_message / theirs.cpu_us_per_message, limit.cpu),
            at_least(
                f"{name}: messages/s", ours.messages_per_s / theirs.messages_per_s, limit.rate
            ),
        ]
        if limit.p99 is not None:
            goals.append(at_most(f"{name}: p99", ours.p99_ms / theirs.p99_ms, limit.p99))
    for row, ratio in SYNC_AGAINST_ASYNC.items():
        ours = medians.get(Key(row=row, flush=SYNC, broker=OURS))
        theirs = medians.get(Key(row=row, flush=ASYNC, broker=THEIRS))
        if ours is not None and theirs is not None:
            found = ours.messages_per_s / theirs.messages_per_s
            goals.append(at_least(f"{row} sync to their async: messages/s", found, ratio))
    return goals


def commit_ratios(medians: Mapping[Key, Figures]) -> dict[Key, float]:
    """Return what a committed message costs, in CPU of plain ones, where both were measured."""
    found = {}
    for row in COMMITS:
        plain = Row(connections=row.connections, outstanding=row.outstanding).name
        for key, figures in medians.items():
            beside = medians.get(Key(row=plain, flush=key.flush, broker=key.broker))
            if key.row == row.name and beside is not None:
                found[key] = figures.cpu_us_per_message / beside.cpu_us_per_message
    return found


def commits(medians: Mapping[Key, Figures]) -> list[Goal]:
    """Hold what our transactions cost against their limit."""
    return [
        at_most(f"{key.row} {key.flush}: CPU of plain ones", ratio, COMMIT_CPU_RATIO_MAX)
        for key, ratio in commit_ratios(medians).items()
        if key.broker == OURS
    ]


def anonymous_memory(flush: str, mib: float) -> Goal:
    """Hold what our broker has of memory that is not a file's against its limit."""
    return at_most(f"{flush}: anonymous memory, MiB", mib, ANONYMOUS_MIB_MAX)


def ready(*, empty_seconds: float, killed_seconds: float) -> list[Goal]:
    """Hold the times from the start of our process to its line `ready` against their limits."""
    return [
        at_most("ready on an empty store, s", empty_seconds, EMPTY_READY_SECONDS_MAX),
        at_most("ready after 1 GiB and a kill, s", killed_seconds, KILLED_READY_SECONDS_MAX),
    ]


def clients(
    *, p50_us: float, java_p50_us: float, send_cpu_us: float, send_rate: float, push_cpu_us: float
) -> list[Goal]:
    """Hold the Python client against its limits, its sync sends against Java's."""
    return [
        at_most("sync send: p50, ratio to Java's", p50_us / java_p50_us, CLIENT_P50_RATIO_MAX),
        at_most("async send: client CPU, µs/message", send_cpu_us, CLIENT_SEND_CPU_US_MAX),
        at_least("async send: messages/s", send_rate, CLIENT_SEND_RATE_MIN),
        at_most("push consumer: CPU, µs/message", push_cpu_us, CLIENT_PUSH_CPU_US_MAX),
    ]


def at_most(what: str, figure: float, limit: float) -> Goal:
    """Return a figure that may have a limit at most."""
    return Goal(what=what, figure=figure, limit=limit, is_at_most=True)


def at_least(what: str, figure: float, limit: float) -> Goal:
    """Return a figure that must have a limit at least."""
    return Goal(what=what, figure=figure, limit=limit, is_at_most=False)
