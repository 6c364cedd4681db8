"""Time enters here and nowhere else.

The wall clock may be set, by an administrator or after a machine has slept. The monotonic clock
runs evenly, but its values mean nothing to the next process. Waits are measured on the monotonic
clock. What is written down is wall time; a `LogClock` makes it even where something depends on
that.
"""

import time
from bisect import bisect_right
from typing import NamedTuple, Protocol

NEAR_MS = 50
"""A wall clock that is off by up to this was not set; waits are not more precise than this."""

PARTS_MAX = 64
"""Steps of the wall clock that a `LogClock` remembers; a message waits for hours, not for years."""

_SLOW = 2
"""Milliseconds that pass for each millisecond of a `LogClock` that is ahead of the wall clock."""


class Clock(Protocol):
    """What the rest of Sprocket may know about time; `testing.clock.FakeClock` stands in for it."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; deadlines live on it."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)


def since_boot() -> float:
    """Return seconds since the machine was booted, those included in which it slept.

    The monotonic clock stands still meanwhile; without another one it is taken.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class _Part(NamedTuple):
    """An interval in which log time passes evenly: its start, and what a millisecond takes."""

    log_ms: int
    monotonic_ms: float
    pace: int


class LogClock:
    """Wall time that never goes down, and that can tell how long ago one of its times was.

    It shows the wall time. When the wall clock is set forward it follows at once; when that is set
    back, it continues at half speed until the wall has caught up, so that each moment keeps a time
    of its own. It remembers these steps: `elapsed_ms` gives what has really passed, whatever the
    difference of two times says.

    Args:
        clock: The machine's.
        last_ms: The last time that was written down, by an earlier process; it begins no earlier.

    Threads: one at a time.
    """

    def __init__(self, clock: Clock, last_ms: int = 0) -> None:
        self._clock = clock
        now_ms = clock.now_ms()
        self._last_ms = max(now_ms, last_ms)
        self._is_ahead = last_ms > now_ms
        pace = _SLOW if self._is_ahead else 1
        self._parts = [_Part(self._last_ms, self._monotonic_ms(), pace)]

    def now_ms(self) -> int:
        """Return the time, at least what it was the last time; milliseconds since 1970."""
        now_ms = self._clock.now_ms()
        if 0 <= now_ms - self._last_ms <= NEAR_MS and not self._is_ahead:
            self._last_ms = now_ms
        else:
            self._check_wall(now_ms)
        return self._last_ms

    def elapsed_ms(self, since_ms: int) -> int:
        """Return how many milliseconds have passed since this clock showed a time.

        Times from before the first step that is remembered, an earlier process's for example, are
        taken as they are.
        """
        self.now_ms()
        number = bisect_right(self._parts, since_ms, key=lambda part: part.log_ms) - 1
        part = self._parts[max(number, 0)]
        pace = part.pace if number >= 0 else 1
        passed_at = part.monotonic_ms + (since_ms - part.log_ms) * pace
        if number + 1 < len(self._parts):
            passed_at = min(passed_at, self._parts[number + 1].monotonic_ms)
        return round(self._monotonic_ms() - passed_at)

    def furthest_ms(self) -> int:
        """Return the latest time that something may wait for and that has come.

        That is later than now if the wall clock was set back: what is to happen so long after a
        time from before that is due before this clock shows its time.
        """
        self.now_ms()
        monotonic_ms = self._monotonic_ms()
        return round(max(one.log_ms + monotonic_ms - one.monotonic_ms for one in self._parts))

    def _check_wall(self, now_ms: int) -> None:
        """Check whether the wall clock was set, and note it if so."""
        part = self._parts[-1]
        monotonic_ms = self._monotonic_ms()
        even_ms = part.log_ms + (monotonic_ms - part.monotonic_ms) / part.pace
        if self._is_ahead and now_ms < even_ms:
            self._last_ms = max(self._last_ms, int(even_ms))
        elif abs(now_ms - even_ms) <= NEAR_MS and not self._is_ahead:
            self._last_ms = max(self._last_ms, now_ms)
        else:
            self._is_ahead = now_ms < even_ms
            self._last_ms = max(self._last_ms, now_ms, int(even_ms))
            pace = _SLOW if self._is_ahead else 1
            self._parts.append(_Part(self._last_ms, monotonic_ms, pace))
            del self._parts[:-PARTS_MAX]

    def _monotonic_ms(self) -> float:
        return 1000 * self._clock.monotonic()
