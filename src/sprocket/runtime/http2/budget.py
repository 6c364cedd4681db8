"""How much of what costs a client next to nothing is taken from it.

A client that is served sends more of it: it opens windows for what it was sent, and some measure
each answer by a ping. So an answer earns what a client may reasonably say about it.
"""

from collections.abc import Callable
from typing import Final

BURST: Final = 1_000
"""How much at once; a client that opens a thousand streams and cancels all is not a flood."""
PER_SECOND: Final = 100
"""How much all the time."""
PER_ANSWER: Final = 4
"""How much for each frame of data that it was sent, and for each answer."""


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
        self._burst = float(burst)
        self._per_second = per_second
        self._left = self._burst
        self._at = monotonic()

    def earn(self, count: int = 1) -> None:
        """Note that the client was sent something that it asked for, or several such things."""
        left, burst = self._left + count * PER_ANSWER, self._burst
        self._left = left if left < burst else burst

    def spend(self, count: int = 1) -> bool:
        """Count so many things more; tell whether there was enough left for them."""
        self._left -= count
        if self._left < 0:
            now = self._monotonic()
            earned = max(0.0, now - self._at) * self._per_second
            self._left = min(self._burst, self._left + earned)
            self._at = now
        return self._left >= 0
