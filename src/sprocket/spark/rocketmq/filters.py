"""Spark's filters, as far as a reader makes use of them: a superset of the rows they let pass.

Spark applies every filter again, so what is not understood here costs reading and nothing else.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

LEAST, MOST = -(1 << 63), (1 << 63) - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RANGED = {
    name.lower(): name for name in ("queueId", "queueOffset", "physicalOffset", "storeTimestamp")
}


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included."""

    least: int = LEAST
    most: int = MOST

    def within(self, other: "Range") -> "Range":
        """Return what both have."""
        return Range(max(self.least, other.least), min(self.most, other.most))


@dataclasses.dataclass(frozen=True, slots=True)
class Narrowed:
    """What filters leave of a table.

    Args:
        topics: Names of topics, None for all.
        ranges: By column: queueId, queueOffset, physicalOffset, storeTimestamp in ms.
    """

    topics: frozenset[str] | None = None
    ranges: Mapping[str, Range] = dataclasses.field(default_factory=dict)

    def range(self, column: str) -> Range:
        """Return the range of a column, everything if no filter is on it."""
        return self.ranges.get(column, Range())


def narrowed(filters: Iterable[Any]) -> Narrowed:
    """Return what is left by filters of `pyspark.sql.datasource`, all of which must hold."""
    from pyspark.sql.datasource import EqualTo, In

    topics: frozenset[str] | None = None
    ranges: dict[str, Range] = {}
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        name = path[0].lower() if len(path) == 1 else ""
        if name == "topic" and isinstance(one, EqualTo | In):
            values = [one.value] if isinstance(one, EqualTo) else list(one.value)
            named = frozenset(value for value in values if isinstance(value, str))
            topics = named if topics is None else topics & named
        elif name in _RANGED:
            found = _range(one)
            if found is not None:
                column = _RANGED[name]
                ranges[column] = ranges.get(column, Range()).within(found)
    return Narrowed(topics, ranges)


def _range(one: Any) -> Range | None:
    """Return the numbers that may pass a filter, None for all."""
    from pyspark.sql import datasource

    value = getattr(one, "value", None)
    if isinstance(one, datasource.In):
        pairs = [_around(each) for each in value or ()]
        known = [pair for pair in pairs if pair is not None]
        if not known or len(known) < len(pairs):
            return None
        return Range(min(low for low, _ in known), max(high for _, high in known))
    pair = _around(value)
    if pair is None:
        return None
    low, high = pair
    match one:
        case datasource.EqualTo():
            return Range(low, high)
        case datasource.GreaterThan() | datasource.GreaterThanOrEqual():
            return Range(least=low)
        case datasource.LessThan() | datasource.LessThanOrEqual():
            return Range(most=high)
    return None


def _around(value: Any) -> tuple[int, int] | None:
    """Return the whole numbers next to a value, times as ms; None for what is no number."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return None
        low, rest = divmod(value - _EPOCH, _MILLISECOND)
        return low, low + bool(rest)
    if type(value) is int:
        return value, value
    return None
