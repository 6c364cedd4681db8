"""Timers of something that ends before its event loop does."""

from tests.timers import FakeTimers

from sprocket.runtime.timers import EndingTimers
from sprocket.testing.clock import FakeClock


def test_nothing_is_called_after_the_end() -> None:
    """Neither what was due in the next turn nor later; before, everything is."""
    inner = FakeTimers(FakeClock(0))
    timers = EndingTimers(inner)
    called: list[str] = []
    timers.call_soon(lambda: called.append("soon"))
    inner.turn()
    timers.call_soon(lambda: called.append("too late"))
    timers.call_later(1.0, lambda: called.append("much too late"))
    timers.end()
    inner.turn()
    inner.advance(2000)
    assert called == ["soon"]


def test_a_call_can_be_taken_back() -> None:
    """As with any timer."""
    inner = FakeTimers(FakeClock(0))
    called: list[str] = []
    EndingTimers(inner).call_later(1.0, lambda: called.append("never")).cancel()
    inner.advance(2000)
    assert called == []
