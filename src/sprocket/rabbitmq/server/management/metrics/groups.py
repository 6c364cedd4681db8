"""A group of metrics: families that are read from the same objects, as sums and as series.

A sum must not fall when an object goes, so a group with counters adds what was counted by those
that are gone (`past`). It takes these, and the list of the others, in the same turn of the loop:
what goes while the list is read is in it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.server.management.figures import NodeFigures
from sprocket.rabbitmq.server.management.requests import in_turns
from sprocket.rabbitmq.server.management.served import Served

COUNTER: Final = "counter"
GAUGE: Final = "gauge"

T = TypeVar("T")


class Logins(NamedTuple):
    """How often somebody tried to log in."""

    protocol: str
    succeeded: int
    failed: int


class Scope(NamedTuple):
    """What is scraped."""

    served: Served
    node: NodeFigures
    logins: Sequence[Logins]
    vhosts: Sequence[VhostBroker]
    """The virtual hosts whose queues are shown."""


class Family(NamedTuple, Generic[T]):
    """One name."""

    name: str
    """Without what stands before all of them, such as `rabbitmq_`."""
    kind: Literal["counter", "gauge"]
    help: str
    value: Callable[[T], float | None]
    """None if it is not known of this object, which has no series then."""


class Told(NamedTuple):
    """A family, as it is written."""

    name: str
    kind: str
    help: str
    lines: Iterable[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group(Generic[T]):
    """See the head of the module.

    Threads: event loop only.
    """

    name: str
    """What `family=` in the query of `/metrics/detailed` calls it."""
    objects: Callable[[Scope], Iterable[T]]
    """Takes a list of them at once, and gives what is read of each when that is asked for."""
    labels: Callable[[T], str]
    """Of the series of one object; different for each."""
    families: tuple[Family[T], ...]
    past: Callable[[Served], Sequence[T]] = lambda _: ()
    """What is in sums beside the objects."""
    sum_labels: Callable[[T], str] = lambda _: ""
    """Of the sum that an object is in."""
    sums: Sequence[str] = ("",)
    """The labels of sums that are shown even if there is no object."""
    part_of: str = ""
    """A group that has all of its families as well."""

    async def summed(self, scope: Scope, prefix: str) -> Sequence[Told]:
        """Return each family with its sums; `prefix` stands before their names."""
        read = [family.value for family in self.families]
        sums: dict[str, list[float]] = {labels: [0] * len(read) for labels in self.sums}

        def add(some: Sequence[T]) -> None:
            by_labels: dict[str, list[T]] = {}
            for one in some:
                by_labels.setdefault(self.sum_labels(one), []).append(one)
            for labels, its in by_labels.items():
                into = sums.setdefault(labels, [0] * len(read))
                for at, value in enumerate(read):
                    into[at] += sum(filter(None, map(value, its)))

        # In the same turn: see the head of the module.
        past, objects = self.past(scope.served), self.objects(scope)
        add(past)
        await in_turns(objects, add, scope.served.clock)
        lines = [
            [line(f"{prefix}{family.name}", labels, values[at]) for labels, values in sums.items()]
            for at, family in enumerate(self.families)
        ]
        return self._told(prefix, lines)

    async def series(self, scope: Scope, prefix: str) -> Sequence[Told]:
        """Return each family with a series for each object; `prefix` stands before their names."""
        found: list[list[str]] = [[] for _ in self.families]

        def write(some: Sequence[T]) -> None:
            labels = [self.labels(one) for one in some]
            for into, family in zip(found, self.families, strict=True):
                name, value = f"{prefix}{family.name}", family.value
                told = [(of, value(one)) for of, one in zip(labels, some, strict=True)]
                into.append("".join([line(name, of, one) for of, one in told if one is not None]))

        await in_turns(self.objects(scope), write, scope.served.clock)
        return self._told(prefix, found)

    def _told(self, prefix: str, lines: Iterable[Iterable[str]]) -> Sequence[Told]:
        return [
            Told(f"{prefix}{family.name}", family.kind, family.help, its)
            for family, its in zip(self.families, lines, strict=True)
        ]


def line(name: str, labels: str, value: float) -> str:
    """Return a line of a scrape."""
    text = repr(value) if isinstance(value, float) and not value.is_integer() else f"{int(value)}"
    return f"{name}{{{labels}}} {text}\n" if labels else f"{name} {text}\n"


def labelled(**labels: str) -> str:
    """Return labels as they are written."""
    return ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()])


_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
