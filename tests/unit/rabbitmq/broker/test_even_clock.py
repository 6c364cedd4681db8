"""The clock that no step of the wall clock moves."""

import pytest

from sprocket.rabbitmq.broker.even_clock import EvenClock
from sprocket.testing.clock import FakeClock

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def test_it_shows_the_wall_time_and_goes_on_evenly() -> None:
    """Whatever the wall clock is set to."""
    wall = FakeClock(WALL_MS)
    clock = EvenClock(wall)
    assert clock.now_us() == 1000 * WALL_MS
    for step_ms in (HOUR_MS, -3 * HOUR_MS):
        wall.step_wall(step_ms)
        wall.advance(5)
    assert clock.now_ms() == WALL_MS + 10
    assert clock.monotonic() == wall.monotonic()


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_a_step_is_noticed_once(step_ms: int) -> None:
    """With how far the wall clock is behind then; the next clock goes on where this one is."""
    wall = FakeClock(WALL_MS)
    clock = EvenClock(wall)
    wall.step_wall(40)
    assert not clock.poll()
    wall.step_wall(step_ms)
    assert clock.poll()
    assert not clock.poll()
    assert clock.ahead_us == -1000 * (step_ms + 40)
    last_us = clock.now_us()
    wall.advance(700)  # nothing runs
    assert EvenClock(wall, clock.ahead_us, last_us).now_us() == last_us + 700_000


def test_it_begins_no_earlier_than_the_one_before_was() -> None:
    """Where the wall clock was set back while nothing ran."""
    wall = FakeClock(WALL_MS)
    last_us = EvenClock(wall).now_us()
    wall.step_wall(-HOUR_MS)
    clock = EvenClock(wall, 0, last_us)
    assert (clock.now_us(), clock.ahead_us) == (last_us, 1000 * HOUR_MS)
