"""Tasks that have an owner: named groups, awaited where they were started."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from sprocket.base import log
from sprocket.base.errors import StoreError

T = TypeVar("T")

_log = log.get_logger(__name__)


async def is_set_within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event, at most this long; say whether it came."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


class NotEnded(Exception):
    """Work that was cancelled goes on anyway."""


async def unless(event: asyncio.Event, work: Awaitable[T], end_seconds: float) -> T | None:
    """Do some work, but cancel it when an event comes before it is done.

    Returns:
        What the work returned; None if it was cancelled.

    Raises:
        NotEnded: It was cancelled and continues after `end_seconds`.
        Exception: What the work raises.
    """
    working = asyncio.ensure_future(work)
    coming = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((working, coming), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,), timeout=end_seconds)
            if not working.done():
                raise NotEnded
        return None if working.cancelled() else working.result()
    finally:
        coming.cancel()
        working.cancel()


def is_end_of(task: "asyncio.Task[object] | None", error: BaseException) -> bool:
    """Say whether an error ends a task from outside, and was not raised by the code it runs.

    To a caller that runs a user's code, a cancellation and the closing of a coroutine look like
    something that this code raised. They end `task`, the one that ran it, only if somebody asked
    for that; None stands for code that no task ran.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    return isinstance(error, GeneratorExit) and _running_task() is not task


class Tasks:
    """A group of tasks that live as long as their owner, which it is named after in the log.

    A task that fails unexpectedly is logged, with its name and the group's; the others go on.

    Threads: event loop only.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[object, None, T], name: str) -> asyncio.Task[T]:
        """Start `work`; it is cancelled when the group closes.

        Raises:
            RuntimeError: The group is closed.
        """
        if self._is_closed:
            work.close()
            raise RuntimeError(f"the task group {self.name} is closed, {name} cannot start")
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def repeat(self, seconds: float, work: Callable[[], None], name: str) -> None:
        """Call `work` every so many seconds; a round that fails is logged, and others follow."""
        self.spawn(_rounds(seconds, work, name), name)

    async def close(self) -> None:
        """Cancel every task and wait until all have ended; may be called again."""
        self._is_closed = True
        current = asyncio.current_task()
        others = [task for task in self._tasks if task is not current]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task failed", task=task.get_name(), exc_info=error)


async def _rounds(seconds: float, work: Callable[[], None], name: str) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            work()
        except StoreError as error:  # a disk that is full today may not be tomorrow
            _log.error("a round of the broker failed; trying again", round=name, why=str(error))
        except Exception:  # the rounds after it are needed all the same
            _log.exception("a round of the broker failed; trying again", round=name)


def _running_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: what is left of it is being closed
        return None
