"""What filters may take of a turn of the event loop, and what waits for the next one."""

import pytest
from tests.timers import FakeTimers

from sprocket.base.errors import DiskBusy, SprocketError
from sprocket.rocketmq.broker.filters import FilterTurns, TurnSpent, filter_turns
from sprocket.testing.clock import FakeClock


class Harness:
    """Turns of a loop, and what was done in them."""

    def __init__(self) -> None:
        self.timers = FakeTimers(FakeClock())
        self.turns = FilterTurns(self.timers)
        self.done: list[int] = []
        self.failed: list[Exception] = []

    def work(self, number: int, cost: int) -> None:
        """Do some work as soon as it may be done."""

        def work() -> None:
            self.turns.check()
            self.turns.charge(cost)
            self.done.append(number)

        self.turns.run(work, self.failed.append)


def test_work_waits_for_a_turn_that_has_time() -> None:
    """In its order; a turn ends with the work that spends its share."""
    harness = Harness()
    for number in range(7):
        harness.work(number, filter_turns.COST_PER_TURN // 2)
    counts = [len(harness.done)]
    while counts[-1] < 7:
        harness.timers.turn()
        counts.append(len(harness.done))
    assert counts == [2, 4, 6, 7]
    assert harness.done == list(range(7))
    harness.timers.drain()  # nothing comes back for ever
    assert not harness.failed


def test_dear_work_is_done_nevertheless() -> None:
    """It is not known before what it costs; it has a turn for itself."""
    harness = Harness()
    for number in range(3):
        harness.work(number, 10 * filter_turns.COST_PER_TURN)
    counts = [len(harness.done)]
    for _ in range(2):
        harness.timers.turn()
        counts.append(len(harness.done))
    assert counts == [1, 2, 3]


def test_work_that_fails_is_told() -> None:
    """Now or in a later turn."""
    harness = Harness()

    def fail() -> None:
        raise SprocketError("why")

    harness.turns.run(fail, harness.failed.append)
    assert [str(error) for error in harness.failed] == ["why"]


def test_waiting_work_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much is refused, and told so."""
    monkeypatch.setattr(filter_turns, "WAITING_MAX", 2)
    harness = Harness()
    harness.turns.charge(filter_turns.COST_PER_TURN)
    for number in range(3):
        harness.work(number, 1)
    assert [type(error) for error in harness.failed] == [DiskBusy]
    harness.timers.drain()
    assert harness.done == [0, 1]
    harness.turns.charge(filter_turns.COST_PER_TURN)
    with pytest.raises(TurnSpent):
        harness.turns.check()
