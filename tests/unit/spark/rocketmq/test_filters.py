"""What filters leave: never less than what they let pass."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource

from sprocket.spark.rocketmq.filters import LEAST, MOST, Narrowed, Range, narrowed

COLUMN = ("queueOffset",)
KINDS = {
    datasource.EqualTo: lambda a, b: a == b,
    datasource.GreaterThan: lambda a, b: a > b,
    datasource.GreaterThanOrEqual: lambda a, b: a >= b,
    datasource.LessThan: lambda a, b: a < b,
    datasource.LessThanOrEqual: lambda a, b: a <= b,
}
NUMBERS = st.integers(-3, 3) | st.sampled_from([LEAST, MOST])


@given(st.lists(st.tuples(st.sampled_from(list(KINDS)), NUMBERS), max_size=4), NUMBERS)
def test_a_number_that_passes_is_left(filters: list[tuple[Any, int]], number: int) -> None:
    """All filters hold at once; what passes all of them is inside the range."""
    left = narrowed([kind(COLUMN, bound) for kind, bound in filters]).range("queueOffset")
    if all(KINDS[kind](number, bound) for kind, bound in filters):
        assert left.least <= number <= left.most


def test_ranges_are_not_wider_than_need_be() -> None:
    """Equality is one number, a list its span, two bounds what is between."""
    filters = [datasource.GreaterThanOrEqual(COLUMN, 3), datasource.LessThanOrEqual(COLUMN, 9)]
    assert narrowed(filters).range("queueOffset") == Range(3, 9)
    assert narrowed([datasource.EqualTo(COLUMN, 4)]).range("queueOffset") == Range(4, 4)
    assert narrowed([datasource.In(("QUEUEID",), (7, 2, 5))]).range("queueId") == Range(2, 7)


def test_times_are_ms_around_their_microseconds() -> None:
    """Stored times are whole ms, so a bound between two leaves both."""
    at = datetime(1970, 1, 1, 1, 0, 1, 2_500, timezone(timedelta(hours=1)))
    left = narrowed([datasource.EqualTo(("storeTimestamp",), at)]).range("storeTimestamp")
    assert left == Range(1002, 1003)
    whole = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    left = narrowed([datasource.EqualTo(("storeTimestamp",), whole)]).range("storeTimestamp")
    assert left == Range(1000, 1000)


def test_topics() -> None:
    """Several filters on it leave what all name."""
    both = [datasource.In(("topic",), ("a", "b")), datasource.EqualTo(("topic",), "b")]
    assert narrowed(both).topics == frozenset({"b"})
    assert narrowed([]).topics is None


@pytest.mark.parametrize(
    "one",
    [
        datasource.Not(datasource.EqualTo(COLUMN, 3)),
        datasource.IsNotNull(COLUMN),
        datasource.IsNull(COLUMN),
        datasource.EqualNullSafe(COLUMN, 3),
        datasource.StringContains(("topic",), "a"),
        datasource.EqualTo(("queueOffset", "inner"), 3),
        datasource.EqualTo(("size",), 3),
        datasource.EqualTo(COLUMN, True),
        datasource.EqualTo(COLUMN, 2.5),
        datasource.EqualTo(("storeTimestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - no zone
        datasource.In(COLUMN, ()),
        datasource.In(COLUMN, (1, None)),
    ],
)
def test_what_is_not_understood_leaves_all(one: Any) -> None:
    """Spark applies it by itself."""
    assert narrowed([one]) == Narrowed()
