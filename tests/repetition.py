"""How often a test repeats what it does: once or a few times by day, more often by night."""

import os
from collections.abc import Container, Iterable

import pytest


def times(variable: str, *, by_day: int, by_night: int) -> list[object]:
    """Return parameters for `pytest.mark.parametrize`: how often the test shall repeat.

    Args:
        variable: If the environment has it, its number replaces both.
        by_day: For `make test`.
        by_night: For `make nightly`.
    """
    if given := os.environ.get(variable):
        return [pytest.param(int(given), id=f"{given} times")]
    night = pytest.param(by_night, id="by night", marks=pytest.mark.nightly)
    return [pytest.param(by_day, id="by day"), night]


def some(values: Iterable[str], by_day: Container[str]) -> list[object]:
    """Return parameters for a test that is run for some values by day, and by night for all.

    Args:
        values: All of them.
        by_day: Those that differ most from each other.
    """
    night = pytest.mark.nightly
    return [one if one in by_day else pytest.param(one, marks=night) for one in values]
