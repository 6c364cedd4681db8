"""What plain functions need of the event loop: a later turn, and a later time."""

from collections.abc import Callable
from functools import partial
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; does nothing once it was made."""


class Timers(Protocol):
    """The part of an event loop that they use; asyncio's and uvloop's loops have it."""

    def call_soon(self, callback: Callable[[], None], /) -> Timer:
        """Make the call in the next turn of the loop, after what is ready now."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Make the call `seconds` from now."""


class EndingTimers:
    """The timers of something that ends before its event loop does: nothing is called after that.

    Args:
        timers: The event loop's.

    Threads: event loop only.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._is_ended = False

    def call_soon(self, callback: Callable[[], None], /) -> Timer:
        """See `Timers`."""
        return self._timers.call_soon(partial(self._call, callback))

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """See `Timers`."""
        return self._timers.call_later(seconds, partial(self._call, callback))

    def end(self) -> None:
        """Make no more calls."""
        self._is_ended = True

    def _call(self, callback: Callable[[], None]) -> None:
        if not self._is_ended:
            callback()
