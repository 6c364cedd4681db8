"""Opening what a product keeps: it shows its progress, and ends early if it is no longer wanted.

After a kill it may take long, depending on how much must be recovered. It runs on a thread of its
own, so that the loop can handle signals meanwhile; nothing else uses what is opened before then.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from sprocket.base.clock import Clock
from sprocket.base.errors import OpeningEnded
from sprocket.base.progress import Step
from sprocket.runtime.offload import DiskThread

SILENT_SECONDS = 1.0
"""How long nothing is said, first and between two lines: mostly opening takes less."""

Say = Callable[[str], None]
"""Takes a line for people."""


class Closable(Protocol):
    """What can be opened."""

    def close(self) -> None:
        """Give it up."""


C = TypeVar("C", bound=Closable)


class OpeningWatch:
    """Watches one opening; `step` is what the store calls.

    Args:
        say: Takes a line for people, on the thread that opens; None: nobody reads it.
        clock: Says when there is something to say.
    """

    def __init__(self, say: Say | None, clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._said_at = clock.monotonic()
        self._is_unwanted = False

    def end(self) -> None:
        """Make the next step end the opening. Threads: any."""
        self._is_unwanted = True

    def step(self, what: str, done: int, total: int = 0) -> None:
        """See `base.progress.Step`.

        Raises:
            OpeningEnded: `end` was called.
        """
        if self._is_unwanted:
            raise OpeningEnded("told to stop while the store was opened; the next start goes on")
        now = self._clock.monotonic()
        if self._say is not None and now - self._said_at >= SILENT_SECONDS:
            self._said_at = now
            of = f" of {total:,}" if total else ""
            self._say(f"opening the store: {done:,}{of} {what}")


async def on_a_thread(opening: OpeningWatch, do: Callable[[Step], C]) -> C:
    """Open something by `do` on a thread; if this is cancelled, end that first.

    Raises:
        StoreError: What `do` raises.
    """
    thread = DiskThread("sprocket-opening")
    opened: asyncio.Future[C] = asyncio.get_running_loop().create_future()

    def done(found: C | None, error: BaseException | None) -> None:
        if opened.cancelled():
            if found is not None:
                found.close()
        elif error is not None:
            opened.set_exception(error)
        elif found is not None:
            opened.set_result(found)

    thread.submit(lambda: do(opening.step), done)
    try:
        return await opened
    finally:
        opening.end()  # which matters only if nobody waits for it any more
        await thread.stop()
