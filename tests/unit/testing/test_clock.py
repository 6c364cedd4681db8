"""`FakeClock` moves only when told."""

from sprocket.testing.clock import FakeClock


def test_time_passes_when_told() -> None:
    """Both clocks advance; a step of the wall clock leaves the other alone."""
    clock = FakeClock(1000)
    clock.advance(500)
    assert (clock.now_ms(), clock.monotonic()) == (1500, 0.5)
    clock.step_wall(-1000)
    assert (clock.now_ms(), clock.monotonic()) == (500, 0.5)
