"""What plain functions need of the event loop: a later turn, and a later time."""

from collections.abc import Callable
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
