"""Wall time that no step of the wall clock moves: for what is to happen after a time.

It shows the wall time of the moment in which it was made, and continues with the monotonic clock.
So when the wall clock is set, nothing becomes due early or late. How far it is ahead of the wall is
kept, and given to the next one: what is written down in its times keeps its meaning. A step that
happens while no process runs cannot be told from time that passes.
"""

from typing import Final

from sprocket.base.clock import NEAR_MS, Clock

_NEAR_US: Final = 1000 * NEAR_MS


class EvenClock:
    """See the head of the module; a `base.clock.Clock`.

    Args:
        clock: The machine's.
        ahead_us: How far the one before was ahead of the wall clock.
        last_us: The latest time that is known of that one: this one begins no earlier.

    Attributes:
        ahead_us: How far it was ahead at the last `poll` that found the wall clock set.
    Threads: one at a time.
    """

    def __init__(self, clock: Clock, ahead_us: int = 0, last_us: int = 0) -> None:
        wall_us = 1000 * clock.now_ms()
        begun_us = max(wall_us + ahead_us, last_us)
        self.monotonic = clock.monotonic
        self.ahead_us = begun_us - wall_us
        self._clock = clock
        self._zero_us = begun_us - round(1e6 * clock.monotonic())

    def now_us(self) -> int:
        """Return the time in microseconds since 1970; it never goes back."""
        return self._zero_us + round(1e6 * self.monotonic())

    def now_ms(self) -> int:
        """Return the same in milliseconds."""
        return self.now_us() // 1000

    def poll(self) -> bool:
        """Return whether the wall clock was set since the last call."""
        ahead_us = self.now_us() - 1000 * self._clock.now_ms()
        if abs(ahead_us - self.ahead_us) <= _NEAR_US:
            return False
        self.ahead_us = ahead_us
        return True
