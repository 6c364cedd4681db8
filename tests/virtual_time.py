"""An event loop whose time passes at once, for tests of code that pauses, times out and repeats.

Whenever nothing is left to do now, the clock jumps to the next timer. A minute of waiting takes no
time, and every run goes the same way. Sockets work, but nobody waits for them: use
`tests.pipe`.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_STARTED_AT_MS = 1_700_000_000_000


class Stuck(RuntimeError):
    """Nothing is scheduled and nothing can arrive, so the test would wait for ever."""


class _Selector(selectors.SelectSelector):
    """Lets time pass instead of waiting."""

    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise Stuck("nothing is scheduled; what is awaited will never come")
        self.loop.now += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its `time()` is `now`, in seconds from 0."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.now


class LoopClock:
    """A `base.clock.Clock` that shows the running loop's time."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds; it began late in 2023."""
        return _STARTED_AT_MS + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        """Return the loop's time in seconds."""
        return asyncio.get_running_loop().time()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in a loop of its own.

    Raises:
        Stuck: It waits for something that cannot come.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
