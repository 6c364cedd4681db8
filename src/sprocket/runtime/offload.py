"""Threads for work that waits for the disk: syncs, cold reads, filling ahead, upkeep.

Jobs begin in the order in which they were given; a thread has one at a time. What a job gives back
is handed over on the event loop. A `queue.SimpleQueue` carries the jobs: a semaphore between loop
and thread costs several times as much.

The loop may wait for a job, but only for a limited time (`run_within`). A disk usually answers
within a fraction of a millisecond, which costs less than doing something else and being called
back. When it takes longer, for whatever reason, the loop continues without it.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

from sprocket.base import log
from sprocket.base.disk import PendingSync, Steps, advance
from sprocket.base.errors import StoreError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Done = Callable[[T | None, BaseException | None], None]
"""Takes what a job returned and None, or None and what it raised."""

JOBS_MAX = 1000
"""Jobs that may wait. Callers have a few in flight each; more means that one of them runs away."""

_log = log.get_logger(__name__)


def yield_core() -> None:
    """Let somebody else have this core if one waits for it; if not, it takes half a µs."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


class _Job(Generic[T_co]):
    """A job, and how it went; any is a `_Job[object]`, since nobody gives it another `run`.

    While `is_awaited` the loop stands still until `ended` is released; it is changed under `lock`.
    """

    __slots__ = ("done", "ended", "error", "is_awaited", "is_over", "lock", "result", "run")

    def __init__(self, run: Callable[[], T_co], done: Done[T_co], *, is_awaited: bool) -> None:
        self.run = run
        self.done = done
        self.result: T_co | None = None
        self.error: BaseException | None = None
        self.is_awaited, self.is_over = is_awaited, False
        if is_awaited:
            self.lock, self.ended = threading.Lock(), threading.Lock()
            self.ended.acquire()


def _noting_its_start(one: _Job[T]) -> threading.Lock:
    """Have a job release a lock when it begins.

    It would not begin while the loop works: only one thread at a time runs Python, and that one has
    to let go first.
    """
    begun, run = threading.Lock(), one.run
    begun.acquire()

    def noted() -> T:
        begun.release()
        return run()

    one.run = noted
    return begun


class DiskThread:
    """Threads that run jobs for the event loop that made them; mostly one.

    So many jobs run at once as there are threads; others wait, up to `jobs_max`.

    Threads: event loop only, except for what a job does.
    """

    def __init__(
        self, name: str = "sprocket-disk", *, threads: int = 1, jobs_max: int = JOBS_MAX
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job[object] | Callable[[], None]] = SimpleQueue()
        self._jobs_max = jobs_max
        self.waiting_count = 0
        """Jobs that were given and not handed back yet."""
        self.is_stopped = False
        """Whether it takes no more jobs."""
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def has_room(self) -> bool:
        """Whether another job may be given."""
        return self.waiting_count < self._jobs_max and not self.is_stopped

    @property
    def is_idle(self) -> bool:
        """Whether a job that is given now begins at once."""
        return not self.waiting_count and not self.is_stopped

    def submit(self, job: Callable[[], T], done: Done[T]) -> None:
        """Run `job` in the thread, then `done` on the loop.

        Args:
            job: Must not touch what the loop owns.
            done: Called exactly once, with the result or the error, unless the loop has ended.

        Raises:
            RuntimeError: The thread was stopped, or too many jobs wait.
        """
        one = _Job(job, done, is_awaited=False)
        self._give(one)

    async def run(self, job: Callable[[], T]) -> T:
        """Run `job` in the thread, and wait for it.

        Raises:
            RuntimeError: As `submit`.
            Exception: What the job raises.
        """
        ended: asyncio.Future[T] = self._loop.create_future()

        def done(result: T | None, error: BaseException | None) -> None:
            if ended.done():
                return  # whoever waited has gone
            if error is not None:
                ended.set_exception(error)
            else:
                ended.set_result(cast("T", result))

        self.submit(job, done)
        return await ended

    def run_within(
        self,
        seconds: float,
        job: Callable[[], T],
        done: Done[T],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """Do what `submit` does, but wait for the job, which calls `done` before this returns.

        If it takes longer than `seconds`, this returns, and `done` is called in a later turn.

        `beside` is called here once the job has begun, before it is waited for; its own time does
        not count. That costs another switch of threads, some 10 µs. `start` has the system do the
        job by itself, without any thread of ours; `done` is given no result then. Where it returns
        None, `job` is run.
        """
        pending = start()
        if pending is not None:
            self._stand_by(pending, seconds, done, beside)
            return
        one = _Job(job, done, is_awaited=True)
        begun = None if beside is None else _noting_its_start(one)
        self._give(one)
        try:
            if beside is not None and begun is not None:
                begun.acquire(timeout=seconds)
                beside()
        finally:
            self._wait(one, seconds)

    def run_beside(self, job: Callable[[], T], beside: Callable[[], None]) -> T:
        """Run `job` in the thread and `beside` here; return what the job does when both have ended.

        For as long as that takes; so nobody may have given the thread another job (`is_idle`). What
        `beside` raises is told to the loop, as if it had called it.

        Raises:
            RuntimeError: The thread was stopped.
            Exception: What the job raises.
        """
        ended: list[tuple[T | None, BaseException | None]] = []
        one = _Job(job, lambda *how: ended.append(how), is_awaited=True)
        self._give(one)
        try:
            beside()
        except Exception as raised:
            told = {"message": "work beside a disk job failed", "exception": raised}
            self._loop.call_exception_handler(told)
        finally:
            one.ended.acquire()
            self._hand_back(one)
        ((result, error),) = ended
        if error is not None:
            raise error
        return cast("T", result)

    def _stand_by(
        self,
        pending: PendingSync,
        seconds: float,
        done: Done[T],
        beside: Callable[[], None] | None,
    ) -> None:
        """Wait for what the system does by itself; the thread does so if it takes longer."""

        def wait() -> None:
            pending.wait()

        try:
            if beside is not None:
                yield_core()  # to the system's own thread: otherwise it begins when we wait for it
                beside()
        finally:
            try:
                has_ended = pending.wait(seconds)
            except StoreError as error:
                done(None, error)
            else:
                if has_ended:
                    done(None, None)
                else:
                    self.submit(wait, done)

    def _wait(self, one: _Job[object], seconds: float) -> None:
        """Wait for a job and hand it back; one that takes longer is handed back by the thread."""
        if not one.ended.acquire(timeout=seconds):
            with one.lock:
                one.is_awaited = False
                if not one.is_over:
                    return
        self._hand_back(one)

    def _give(self, one: _Job[object]) -> None:
        if self.is_stopped:
            raise RuntimeError("the disk thread is stopped")
        if self.waiting_count >= self._jobs_max:
            raise RuntimeError(f"{self._jobs_max} jobs wait for the disk thread already")
        self.waiting_count += 1
        self._jobs.put(one)

    def end(self) -> None:
        """Take no more jobs; the threads end by themselves after those that were given."""
        self.is_stopped = True
        for _ in self._threads:
            self._jobs.put(lambda: None)

    def drive(self, work: Steps, done: Callable[[BaseException | None], None]) -> None:
        """Do work in steps: its calls in the thread, what is between them on the loop.

        Args:
            work: When the thread is stopped meanwhile, it is closed.
            done: Called exactly once on the loop, with what the work raised, if it did; not if it
                was closed.
        """

        def go_on(result: object, error: BaseException | None) -> None:
            if self.is_stopped:
                work.close()
                return
            try:
                call = advance(work, result, error)
            except BaseException as raised:
                done(raised)
                return
            if call is None:
                done(None)
            else:
                self.submit(call, go_on)

        go_on(None, None)

    async def stop(self) -> None:
        """Let the jobs that were given run to their end, hand them back, and end the threads."""
        if self.is_stopped:
            return
        self.is_stopped = True
        all_ended: asyncio.Future[None] = self._loop.create_future()
        running = len(self._threads)

        def ended() -> None:
            nonlocal running
            running -= 1
            if not running:
                all_ended.set_result(None)

        for _ in self._threads:
            self._jobs.put(ended)
        await all_ended
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while isinstance(one := self._jobs.get(), _Job):
            try:
                one.result = one.run()
            except BaseException as raised:
                one.error = raised
            if one.is_awaited:
                with one.lock:
                    one.is_over = True
                    if one.is_awaited:
                        one.ended.release()
                        continue
            try:
                self._loop.call_soon_threadsafe(self._hand_back, one)
            except RuntimeError:  # the loop was closed; nobody is left to be told
                _log.warning("a disk job ended after its loop", job=repr(one.run))
                return
        self._loop.call_soon_threadsafe(one)

    def _hand_back(self, one: _Job[object]) -> None:
        self.waiting_count -= 1
        one.done(one.result, one.error)
