"""Metrics as text that Prometheus scrapes: families in groups, as sums and as series.

A group's families are read from the same objects. Everything is computed when it is asked for, some
objects at a time, between which the loop serves others. A sum must not fall when an object goes, so
a group with counters adds what was counted by those that are gone (`past`). It takes these, and the
list of the others, in the same turn of the loop: what goes while the list is read is in it.

Source: the text format of Prometheus, 0.0.4.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from sprocket.runtime.http.connection import HttpResponse
from sprocket.runtime.slices import Sliced, Slicer

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_COUNTER = "_total"
_PIECE_ENTRIES: Final = 32
"""What is read at once; an object takes half a microsecond for each of its families."""
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

S = TypeVar("S")
T = TypeVar("T")


class Family(NamedTuple, Generic[T]):
    """One name."""

    name: str
    """Without what stands before all of them, such as `node_`; a counter ends with `_total`."""
    help: str
    value: Callable[[T], float | None]
    """None if it is not known of this object, which has no series then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group(Generic[S, T]):
    """See the head of the module; `S` is what is scraped, `T` an object in it.

    Threads: event loop only.
    """

    name: str
    objects: Callable[[S], Iterable[T]]
    """Takes a list of them at once, and gives what is read of each when that is asked for."""
    families: tuple[Family[T], ...]
    labels: Callable[[T], str] = lambda _: ""
    """Of the series of one object; different for each."""
    past: Callable[[S], Sequence[T]] = lambda _: ()
    """What is in sums beside the objects."""
    sum_labels: Callable[[T], str] = lambda _: ""
    """Of the sum that an object is in."""
    sums: Sequence[str] = ("",)
    """The labels of sums that are shown even if there is no object."""
    part_of: str = ""
    """A group that has all of its families as well."""

    async def write_sums(self, text: "MetricsText[S]", prefix: str) -> None:
        """Write each family with its sums; `prefix` stands before their names."""
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
        past, objects = self.past(text.scope), self.objects(text.scope)
        add(past)
        await text.slicer.run(_pieces(objects, add))
        for at, (name, help_text, _) in enumerate(self.families):
            lines = [_line(prefix + name, labels, values[at]) for labels, values in sums.items()]
            text.add(prefix + name, help_text, lines)

    async def write_series(self, text: "MetricsText[S]", prefix: str) -> None:
        """Write each family with a series for each object; `prefix` stands before their names."""
        found: list[list[str]] = [[] for _ in self.families]

        def write(some: Sequence[T]) -> None:
            labels = [self.labels(one) for one in some]
            for into, (name, _, value) in zip(found, self.families, strict=True):
                told = [(of, value(one)) for of, one in zip(labels, some, strict=True)]
                lines = [_line(prefix + name, of, one) for of, one in told if one is not None]
                into.append("".join(lines))

        await text.slicer.run(_pieces(self.objects(text.scope), write))
        for lines, (name, help_text, _) in zip(found, self.families, strict=True):
            text.add(prefix + name, help_text, lines)


class MetricsText(Generic[S]):
    """A scrape that is being written.

    Args:
        scope: What is scraped.
        slicer: Does the work.
    """

    def __init__(self, scope: S, slicer: Slicer) -> None:
        self.scope = scope
        self.slicer = slicer
        self._pieces: list[bytes] = []

    def response(self) -> HttpResponse:
        """Return what was written so far."""
        return HttpResponse(status=200, headers={"content-type": CONTENT_TYPE}, body=self._pieces)

    def add(self, name: str, help_text: str, lines: Iterable[str]) -> None:
        """Add one family; one without a line is left out."""
        text = "".join(lines)
        if text:
            kind = "counter" if name.endswith(_COUNTER) else "gauge"
            head = f"# TYPE {name} {kind}\n# HELP {name} {help_text}\n"
            self._pieces.append((head + text).encode("utf-8", "replace"))

    def add_one(self, name: str, help_text: str, value: float, **labels: str) -> None:
        """Add a family that has one line."""
        self.add(name, help_text, [_line(name, labelled(**labels), value)])


def labelled(**labels: str) -> str:
    """Return labels as they are written."""
    return ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels.items()])


def _line(name: str, labels: str, value: float) -> str:
    text = repr(value) if isinstance(value, float) and not value.is_integer() else f"{int(value)}"
    return f"{name}{{{labels}}} {text}\n" if labels else f"{name} {text}\n"


def _pieces(items: Iterable[T], do: Callable[[Sequence[T]], None]) -> Sliced[None]:
    """Do something with some items at a time."""
    source = iter(items)
    while some := list(islice(source, _PIECE_ENTRIES)):
        yield partial(do, some)
