"""What the comparison with RabbitMQ 3.10.8 must show, as one table, and what is ours alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.goals import Figures, Goal, at_least, at_most

OURS, THEIRS = "sprocket", "rabbitmq"

KILLED_MESSAGES_SECONDS_MAX = 5.0
CLEAN_MESSAGES_SECONDS_MAX = 1.0
KILLED_QUEUES_SECONDS_MAX = 3.0
IDLE_MIB_MAX = 80.0
BACKLOG_MIB_MAX = 300.0
DRAINED_MIB_MAX = 50.0
CONNECTION_KIB_MAX = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a client does in a row: it publishes, consumes what is there, or both at once.

    `cpu` and `rate` are the limits of ratios to RabbitMQ: CPU a message at most, messages/s at
    least, if that has one.
    """

    name: str
    is_persistent: bool
    body_bytes: int
    publishes: bool
    consumes: bool
    cpu: float
    rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A kind on so many connections (of publishers, and of consumers) and queues."""

    kind: Kind
    connections: int
    queues: int

    @property
    def name(self) -> str:
        """Return what it is called in tables."""
        return f"{self.kind.name}, {self.connections} × {self.queues}"


PERSISTENT = Kind(
    name="persistent 1 KiB",
    is_persistent=True,
    body_bytes=1024,
    publishes=True,
    consumes=False,
    cpu=0.35,
    rate=1.3,
)
TRANSIENT = Kind(
    name="transient 1 KiB",
    is_persistent=False,
    body_bytes=1024,
    publishes=True,
    consumes=False,
    cpu=0.8,
    rate=None,
)
TINY = Kind(
    name="transient 12 B",
    is_persistent=False,
    body_bytes=12,
    publishes=True,
    consumes=False,
    cpu=0.8,
    rate=None,
)
CONSUME = Kind(
    name="consume 1 KiB",
    is_persistent=True,
    body_bytes=1024,
    publishes=False,
    consumes=True,
    cpu=0.7,
    rate=1.0,
)
THROUGH = Kind(
    name="durable end to end",
    is_persistent=True,
    body_bytes=1024,
    publishes=True,
    consumes=True,
    cpu=0.4,
    rate=1.3,
)
SHAPES = ((1, 1), (1, 4), (64, 4))
"""Connections and queues."""
ROWS: Sequence[Row] = [
    Row(kind=kind, connections=connections, queues=queues)
    for kind in (PERSISTENT, TRANSIENT, TINY, CONSUME, THROUGH)
    for connections, queues in SHAPES
]


def compare(medians: Mapping[tuple[str, str], Figures]) -> list[Goal]:
    """Hold the rows that were measured on both sides against their limits, by row and broker."""
    found = []
    for row in ROWS:
        ours, theirs = medians.get((row.name, OURS)), medians.get((row.name, THEIRS))
        if ours is None or theirs is None:
            continue
        ratio = ours.cpu_us_per_message / theirs.cpu_us_per_message
        found.append(at_most(f"{row.name}: CPU", ratio, row.kind.cpu))
        if row.kind.rate is not None:
            ratio = ours.messages_per_s / theirs.messages_per_s
            found.append(at_least(f"{row.name}: messages/s", ratio, row.kind.rate))
    return found
