"""Time enters here and nowhere else."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the rest of Sprocket may know about time; `testing.clock.FakeClock` stands in for it."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, as RocketMQ stores it."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; deadlines live on it."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on the machine's monotonic clock."""
        return time.monotonic()
