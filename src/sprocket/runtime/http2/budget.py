"""How much of what costs a client next to nothing is taken from it."""

from collections.abc import Callable
from typing import Final

BURST: Final = 1_000
"""How much at once; a client that opens a thousand streams and cancels all is not a flood."""
PER_SECOND: Final = 100
"""How much all the time."""


class Budget:
    """Counts what a client may do without being served anything for it.

    Args:
        monotonic: Seconds.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        burst: int = BURST,
        per_second: float = PER_SECOND,
    ) -> None:
        self._monotonic = monotonic
        self._burst = burst
        self._per_second = per_second
        self._left = float(burst)
        self._at = monotonic()

    def spend(self) -> bool:
        """Count one thing more; tell whether there was enough left for it."""
        self._left -= 1
        if self._left < 0:
            now = self._monotonic()
            earned = max(0.0, now - self._at) * self._per_second
            self._left = min(float(self._burst), self._left + earned)
            self._at = now
        return self._left >= 0
