"""Expressions are compiled once, remembered up to a limit, and charged."""

import pytest
from tests.timers import FakeTimers

from sprocket.rocketmq.broker.filters import FilterTurns, SqlFilters, TurnSpent, sql_filters
from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import LENGTH_MAX
from sprocket.testing.clock import FakeClock


def filters() -> tuple[FakeTimers, SqlFilters]:
    """Return a loop and the expressions that are compiled in its turns."""
    timers = FakeTimers(FakeClock())
    return timers, SqlFilters(FilterTurns(timers))


def test_an_expression_is_compiled_once() -> None:
    """While it is one of those that were asked for last."""
    timers, found = filters()
    first = found.compile("a = 1")
    for number in range(sql_filters.KEPT_MAX - 1):
        found.compile(f"b = {number}")
        timers.turn()
    assert found.compile("a = 1") is first
    for number in range(sql_filters.KEPT_MAX):
        found.compile(f"c = {number}")
        timers.turn()
    assert found.compile("a = 1") is not first


def test_what_cannot_be_compiled_is_told_each_time() -> None:
    """Its error is remembered, without where it was raised before."""
    _, found = filters()
    depths = set()
    for _ in range(3):
        with pytest.raises(ExpressionIllegal) as illegal:
            found.compile("a >")
        depths.add(len(illegal.traceback))
    assert len(depths) == 1 or max(depths) - min(depths) <= 2


def test_long_expressions_wait_for_their_turn() -> None:
    """Who sends one after the other takes a part of each turn only."""
    timers, found = filters()
    longest = [f"a = 1 OR{' ' * (LENGTH_MAX - 20)}b = {number}" for number in range(2)]
    found.compile(longest[0])
    with pytest.raises(TurnSpent):
        found.compile(longest[1])
    found.compile(longest[0])  # is known
    timers.turn()
    found.compile(longest[1])


def test_what_is_too_long_is_not_remembered() -> None:
    """It is refused at once, whatever its length."""
    timers, found = filters()
    for _ in range(2):
        with pytest.raises(ExpressionIllegal, match="longer than"):
            found.compile("a" * (LENGTH_MAX + 1))
        timers.turn()
