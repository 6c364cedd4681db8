"""What the filters of a query say of single columns, and how a source gets it.

A source that knows it leaves out rows that the query would leave out itself. So what is said may be
less than what the filters say, and never more. The source gets it by the option `filters`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Values: TypeAlias = tuple[Any, ...]
"""Of a column of texts or numbers, those that are wanted; of times, the first and the last, in ms
since 1970, None for no bound."""
Limits: TypeAlias = dict[str, Values]
"""By column. A column that is missing has none."""


@dataclass(frozen=True, slots=True)
class FilteredColumns:
    """Columns of a source by which it can leave out rows.

    Attributes:
        listed: Those of which values are listed, and the type of these.
        times: Those of which there is a first and a last.
    """

    OPTION = "filters"

    listed: Mapping[str, type]
    times: frozenset[str] = frozenset()

    @staticmethod
    def text(limits: Limits) -> str:
        """Return the value of the option."""
        return json.dumps(limits, sort_keys=True)

    def read(self, text: str) -> Limits:
        """Read the value of the option.

        Raises:
            ValueError: With what was expected.
        """
        expected = f'must be JSON such as {{"{next(iter(self.listed))}":["…"]}}'
        try:
            found = json.loads(text)
            pairs = [(name, tuple(values)) for name, values in found.items()]
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(expected) from error
        for name, values in pairs:
            if name in self.times:
                is_right = len(values) == 2 and all(
                    type(one) in (int, type(None)) for one in values
                )
            else:
                is_right = name in self.listed and all(
                    type(one) is self.listed[name] for one in values
                )
            if not is_right:
                raise ValueError(expected)
        return dict(pairs)


ROCKETMQ = FilteredColumns({"topic": str, "queueId": int}, frozenset({"storeTimestamp"}))
RABBITMQ = FilteredColumns({"queue": str, "vhost": str})
FILTERS = {"rocketmq": ROCKETMQ, "rabbitmq": RABBITMQ}
"""By the name of the format."""
FEW_VALUES = {
    "rocketmq": frozenset({"topic", "queueId", "reconsumeTimes", "sysFlag", "transactionState"}),
}
"""By formats that have the column `ROW_COUNT`, those columns that are alike in many rows."""
ROW_COUNT = "rowCount"


def limits_of(filters: Iterable[Any], columns: FilteredColumns) -> Limits:
    """Return what filters of Spark's Java API, all of which hold, say of some columns."""
    found: Limits = {}
    for one in filters:
        found = both(found, _limits(one, columns), columns)
    return found


def both(one: Limits, other: Limits, columns: FilteredColumns) -> Limits:
    """Return what holds for rows of which both hold."""
    found = one | other
    for name in one.keys() & other.keys():
        if name in columns.times:
            (first, last), (later, earlier) = one[name], other[name]
            found[name] = (_bound(max, first, later), _bound(min, last, earlier))
        else:
            found[name] = tuple(value for value in one[name] if value in other[name])
    return found


def either(one: Limits, other: Limits) -> Limits:
    """Return what holds for rows of which this holds, or that."""
    found = {
        name: _union(one[name], other[name], name in _TIMES) for name in one.keys() & other.keys()
    }
    return {name: values for name, values in found.items() if values != _NO_BOUNDS}


_TIMES = frozenset[str]().union(*(one.times for one in FILTERS.values()))
_NO_BOUNDS = (None, None)


def _union(one: Values, other: Values, is_time: bool) -> Values:
    if not is_time:
        return tuple(dict.fromkeys((*one, *other)))
    return tuple(
        None if None in (mine, theirs) else choose(mine, theirs)
        for choose, mine, theirs in zip((min, max), one, other, strict=True)
    )


def _bound(choose: Any, one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _limits(one: Any, columns: FilteredColumns) -> Limits:
    kind = one.getClass().getSimpleName()
    if kind == "And":
        return both(_limits(one.left(), columns), _limits(one.right(), columns), columns)
    if kind == "Or":
        return either(_limits(one.left(), columns), _limits(one.right(), columns))
    if kind not in _VALUES:
        return {}
    by_lower = {name.lower(): name for name in (*columns.listed, *columns.times)}
    name = by_lower.get(one.attribute().lower())
    if name is None:
        return {}
    values = [value for value in _VALUES[kind](one) if value is not None]  # null equals nothing,
    if not values and kind == "EqualNullSafe":  # but for this one
        return {}
    if name in columns.times:
        at_ms = [_ms(value) for value in values]
        first = min(at_ms, default=0) if kind in _FROM else None
        last = max(at_ms, default=-1) if kind in _TO else None
        return {name: (first, last)}
    if kind not in _EQUAL or any(type(value) is not columns.listed[name] for value in values):
        return {}
    return {name: tuple(values)}


def _one(found: Any) -> Sequence[Any]:
    return [found.value()]


_EQUAL = frozenset({"EqualTo", "EqualNullSafe", "In"})
_FROM = _EQUAL | {"GreaterThan", "GreaterThanOrEqual"}
_TO = _EQUAL | {"LessThan", "LessThanOrEqual"}
_VALUES = dict.fromkeys(_FROM | _TO, _one) | {"In": lambda found: list(found.values())}
"""How the values of a filter are had, by its name."""


def _ms(value: Any) -> int:
    """Return a time of Java's in ms since 1970, rounded down: records have no parts of them."""
    is_instant = value.getClass().getSimpleName() == "Instant"
    found: int = value.toEpochMilli() if is_instant else value.getTime()
    return found
