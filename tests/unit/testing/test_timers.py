"""Calls are made when their turn or time has come, in order, and not when cancelled."""

from tests.timers import FakeTimers

from sprocket.testing.clock import FakeClock


def test_a_turn_makes_the_calls_that_were_due_when_it_began() -> None:
    """What a call schedules waits for the next turn."""
    timers = FakeTimers(FakeClock())
    made: list[int] = []

    def first() -> None:
        made.append(1)
        timers.call_soon(lambda: made.append(2))

    timers.call_soon(first)
    timers.turn()
    assert made == [1]
    timers.turn()
    assert made == [1, 2]


def test_calls_are_made_when_the_clock_reaches_them_in_order() -> None:
    """Timed calls come by time, and a cancelled one never."""
    timers = FakeTimers(FakeClock())
    made: list[str] = []
    timers.call_later(0.2, lambda: made.append("late"))
    timers.call_later(0.1, lambda: made.append("early"))
    timers.call_later(0.1, lambda: made.append("never")).cancel()
    assert timers.pending_count == 2
    timers.advance(99)
    assert made == []
    timers.advance(101)
    assert made == ["early", "late"]
    assert timers.pending_count == 0
