"""Results and errors of the calls come back at the yield, whoever makes the calls."""

from collections.abc import Callable

import pytest

from sprocket.base.disk import Steps, StepsTo, steps


def _fails() -> None:
    raise ValueError("no")


def test_results_come_back_at_the_yield() -> None:
    """In the order of the calls."""
    seen = []

    def work() -> Steps:
        seen.append((yield lambda: 1))
        seen.append((yield lambda: 2))

    steps.run(work())
    assert seen == [1, 2]


def test_an_error_comes_back_at_the_yield() -> None:
    """Caught there, the work goes on; else it is the caller's."""
    seen = []

    def work() -> Steps:
        try:
            yield _fails
        except ValueError as error:
            seen.append(str(error))
        seen.append((yield lambda: "after"))
        yield _fails

    with pytest.raises(ValueError, match="no"):
        steps.run(work())
    assert seen == ["no", "after"]


def test_work_without_a_call_is_done_at_once() -> None:
    """What stands before the first yield runs when it is driven, not before."""
    seen: list[int] = []

    def work(call: Callable[[], None] | None) -> Steps:
        seen.append(1)
        if call is not None:
            yield call

    undriven = work(None)
    assert not seen
    assert steps.advance(undriven) is None
    assert seen == [1]


def test_what_the_work_returns_is_returned() -> None:
    """After an error that it caught, too."""

    def work() -> StepsTo[list[int]]:
        found = [(yield lambda: 1)]
        try:
            yield _fails
        except ValueError:
            found.append((yield lambda: 2))
        return found

    assert steps.run(work()) == [1, 2]
