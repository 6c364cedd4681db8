"""When the log was written up to where, lately: how long a slave has lacked what it lacks."""

from collections import deque
from typing import Final

STEP_SECONDS: Final = 0.05
"""So exact are the times, and so often is one noted at most."""
COUNT_MAX: Final = 12_000
"""Ten minutes of writing without a pause; who lacks more lacks it for at least so long."""


class WrittenTimes:
    """See the head of the module.

    Args:
        end: Where the log ends.
        now: On the monotonic clock.
    """

    def __init__(self, end: int, now: float) -> None:
        self._noted: deque[tuple[int, float]] = deque([(end, now)], maxlen=COUNT_MAX)

    def note(self, end: int, now: float) -> None:
        """Note that the log was written up to a place."""
        if now - self._noted[-1][1] >= STEP_SECONDS:
            self._noted.append((end, now))

    def lag_seconds(self, reached: int, now: float) -> float:
        """Return for how long somebody who has the log up to a place lacks what comes next."""
        noted = self._noted
        at = noted[-1][1]
        for end, when in reversed(noted):
            if end <= reached:
                break
            at = when
        return max(0.0, now - at)
