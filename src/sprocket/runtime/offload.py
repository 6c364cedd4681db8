"""The one thread for work that waits for the disk: slow syncs, filling ahead, recovery.

Jobs run one after the other in the order in which they were given. What a job gives back is handed
over on the event loop. A `queue.SimpleQueue` carries the jobs: a semaphore between loop and thread
costs several times as much (DESIGN D4).
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from sprocket.base import log

T = TypeVar("T")
Done = Callable[[T | None, BaseException | None], None]
"""Takes what a job returned and None, or None and what it raised."""

JOBS_MAX = 1000
"""Jobs that may wait. Callers have a few in flight each; more means that one of them runs away."""

_log = log.get_logger(__name__)


class DiskThread:
    """A thread that runs jobs for the event loop that made it.

    Args:
        name: The thread's name, for debuggers.

    Threads: event loop only, but for what a job does.
    """

    def __init__(self, name: str = "sprocket-disk") -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done[Any]] | None] = SimpleQueue()
        self._waiting_count = 0
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting_count(self) -> int:
        """Jobs that were given and not handed back yet."""
        return self._waiting_count

    @property
    def is_stopped(self) -> bool:
        """Whether it takes no more jobs."""
        return self._is_stopped

    def submit(self, job: Callable[[], T], done: Done[T]) -> None:
        """Run `job` in the thread, then `done` on the loop.

        Args:
            job: Must not touch what the loop owns.
            done: Called exactly once, with the result or the error, unless the loop has ended.

        Raises:
            RuntimeError: The thread was stopped, or too many jobs wait.
        """
        if self._is_stopped:
            raise RuntimeError("the disk thread is stopped")
        if self._waiting_count >= JOBS_MAX:
            raise RuntimeError(f"{JOBS_MAX} jobs wait for the disk thread already")
        self._waiting_count += 1
        self._jobs.put((job, done))

    async def stop(self) -> None:
        """Let the jobs that were given run to their end, hand them back, and end the thread."""
        if self._is_stopped:
            return
        self._is_stopped = True
        ended: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put((lambda: None, lambda _result, _error: ended.set_result(None)))
        self._waiting_count += 1
        self._jobs.put(None)
        await ended
        self._thread.join()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            result: Any = None
            error: BaseException | None = None
            try:
                result = job()
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._hand_back, done, result, error)
            except RuntimeError:  # the loop was closed; nobody is left to be told
                _log.warning("a disk job ended after its loop", job=repr(job))
                return

    def _hand_back(self, done: Done[Any], result: Any, error: BaseException | None) -> None:
        self._waiting_count -= 1
        done(result, error)
