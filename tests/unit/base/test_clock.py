"""The machine's clocks."""

import time

from sprocket.base.clock import SystemClock, since_boot


def test_now_is_wall_time_in_milliseconds() -> None:
    """It lies between two looks at the machine's own clock."""
    before = time.time_ns() // 1_000_000
    now = SystemClock().now_ms()
    assert before <= now <= time.time_ns() // 1_000_000


def test_monotonic_never_goes_back() -> None:
    """A later look gives no smaller number."""
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_time_since_boot_goes_on() -> None:
    """And is no less than what the monotonic clock counts: that stands still in sleep."""
    before = since_boot()
    assert before <= since_boot()
    assert since_boot() >= time.monotonic() - 1
