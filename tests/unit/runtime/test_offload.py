"""The disk thread."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed, StoreError
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread


def threads_of(name: str) -> list[threading.Thread]:
    """Return the threads of a name that are alive."""
    return [one for one in threading.enumerate() if one.name == name]


def test_jobs_run_in_order_in_one_other_thread_and_come_back_on_the_loop() -> None:
    """With what they returned or raised."""

    async def main() -> None:
        thread = DiskThread()
        found: list[Any] = []
        all_done = asyncio.Event()
        here = threading.current_thread()

        def note(result: Any, error: BaseException | None) -> None:
            assert threading.current_thread() is here
            found.append((result, type(error)))
            if len(found) == 3:
                all_done.set()

        def fail() -> None:
            raise OSError("no disk")

        thread.submit(threading.current_thread, note)
        thread.submit(fail, note)
        thread.submit(threading.current_thread, note)
        assert thread.waiting_count == 3
        await all_done.wait()
        first, second, third = found
        assert first == third
        assert first[0] is not here
        assert second == (None, OSError)
        assert thread.waiting_count == 0
        await thread.stop()

    driver.run(main())


def test_stopping_finishes_what_was_given() -> None:
    """Then the thread is gone, and nothing more is taken."""

    async def main() -> None:
        thread = DiskThread()
        found: list[int | None] = []
        for number in range(10):
            thread.submit(_constant(number), lambda result, _: found.append(result))
        await thread.stop()
        await thread.stop()
        assert found == list(range(10))
        assert threads_of("sprocket-disk") == []
        with pytest.raises(RuntimeError, match="stopped"):
            thread.submit(_constant(0), lambda *_: None)

    driver.run(main())


def test_too_many_jobs_are_refused() -> None:
    """Somebody runs away; the queue does not grow without bound."""

    async def main() -> None:
        thread = DiskThread(jobs_max=2)
        free = threading.Event()
        for _ in range(2):
            assert thread.has_room
            thread.submit(free.wait, lambda *_: None)
        assert not thread.has_room
        with pytest.raises(RuntimeError, match="2 jobs wait"):
            thread.submit(free.wait, lambda *_: None)
        free.set()
        await thread.stop()

    asyncio.run(main())


def test_a_job_that_outlives_its_loop_ends_the_thread() -> None:
    """There is nobody to tell; the thread does not hang around."""
    free = threading.Event()
    threads: list[threading.Thread] = []
    before = threads_of("sprocket-disk")

    async def main() -> None:
        thread = DiskThread()
        threads.extend(one for one in threads_of("sprocket-disk") if one not in before)
        thread.submit(free.wait, lambda *_: None)

    asyncio.run(main())
    free.set()
    threads[0].join(LONG_SECONDS)
    assert not threads[0].is_alive()


def test_a_quick_job_is_waited_for() -> None:
    """What it returned or raised is handed back before the call returns."""

    async def main() -> None:
        thread = DiskThread()
        found: list[Any] = []

        def note(result: Any, error: BaseException | None) -> None:
            found.append((result, type(error)))

        def fail() -> None:
            raise OSError("no disk")

        thread.run_within(60, _constant(1), note)
        assert found == [(1, type(None))]
        thread.run_within(60, fail, note)
        assert found[1:] == [(None, OSError)]
        assert thread.waiting_count == 0
        await thread.stop()
        assert len(found) == 2

    driver.run(main())


def test_something_is_done_beside_a_job_that_is_waited_for() -> None:
    """Once the job has begun, and before it is handed back, though that work fails."""

    async def main() -> None:
        thread = DiskThread()
        log: list[str] = []
        begun, free = threading.Event(), threading.Event()

        def job() -> None:
            begun.set()
            assert free.wait(LONG_SECONDS)
            log.append("job")

        def beside() -> None:
            assert begun.wait(LONG_SECONDS)
            log.append("beside")
            free.set()

        thread.run_within(60, job, lambda *_: log.append("done"), beside)
        assert log == ["beside", "job", "done"]

        def fail() -> None:
            raise ValueError("ours")

        with pytest.raises(ValueError, match="ours"):
            thread.run_within(60, _constant(1), lambda *_: log.append("done"), fail)
        await thread.stop()
        assert log[3:] == ["done"]
        assert thread.waiting_count == 0

    driver.run(main())


def test_both_have_ended_when_work_beside_returns() -> None:
    """What the job returns or raises is the caller's; what fails beside it is told to the loop."""

    async def main() -> None:
        thread = DiskThread()
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: told.append(repr(what["exception"])))
        met = threading.Barrier(2, timeout=LONG_SECONDS)  # only if both are at work
        log: list[str] = []

        def job() -> int:
            met.wait()
            log.append("job")
            return 7

        def refuse() -> None:
            raise DiskFailed("ours")

        assert thread.is_idle
        assert thread.run_beside(job, lambda: log.append(f"beside {met.wait() >= 0}")) == 7
        assert sorted(log) == ["beside True", "job"]
        with pytest.raises(DiskFailed, match="ours"):
            thread.run_beside(refuse, lambda: log.append("beside"))
        assert log[2:] == ["beside"]
        assert thread.run_beside(_constant(1), lambda: 1 // 0) == 1  # type: ignore[arg-type]
        assert told == ["ZeroDivisionError('integer division or modulo by zero')"]
        thread.submit(_constant(2), lambda *_: None)
        assert not thread.is_idle
        await thread.stop()
        assert not thread.is_idle

    driver.run(main())


class Pending:
    """A sync that the system runs by itself, as long as the test says.

    Attributes:
        is_over: It has ended.
        error: How.
        waits: Who has waited for it: so long, and whether on the loop's thread.
    """

    def __init__(self, *, is_over: bool = True, error: StoreError | None = None) -> None:
        self.is_over = is_over
        self.error = error
        self.waits: list[tuple[float | None, bool]] = []

    def wait(self, seconds: float | None = None) -> bool:
        """Note it."""
        self.waits.append((seconds, threading.current_thread() is threading.main_thread()))
        if self.error is not None:
            raise self.error
        return self.is_over or seconds is None


def _never() -> None:
    raise AssertionError("the system has begun it")


def test_what_the_system_does_by_itself_needs_no_thread() -> None:
    """It is waited for after what is done beside it; how it ended is handed back at once."""

    async def main() -> None:
        thread = DiskThread()
        log: list[object] = []
        pending = Pending()
        thread.run_within(
            60,
            _never,
            lambda *how: log.append(how),
            lambda: log.append(len(pending.waits)),
            lambda: pending,
        )
        assert log == [0, (None, None)]
        failed = Pending(error=DiskFailed("no"))
        thread.run_within(60, _never, lambda *how: log.append(how), None, lambda: failed)
        assert log[2:] == [(None, failed.error)]
        assert pending.waits == failed.waits == [(60, True)]
        await thread.stop()
        assert len(log) == 3

    driver.run(main())


@pytest.mark.parametrize("error", [None, DiskFailed("no")])
def test_what_the_system_takes_long_for_is_waited_for_by_the_thread(
    error: StoreError | None,
) -> None:
    """The loop goes on meanwhile, and is told once."""

    async def main() -> None:
        thread = DiskThread()
        log: list[object] = []
        over = asyncio.Event()
        pending = Pending(is_over=False)

        def done(*how: object) -> None:
            log.append(how)
            over.set()

        thread.run_within(0.001, _never, done, None, lambda: pending)
        pending.error = error
        assert log == []
        await over.wait()
        await thread.stop()
        assert log == [(None, error)]
        assert pending.waits == [(0.001, True), (None, False)]

    driver.run(main())


def test_work_beside_that_fails_does_not_lose_what_the_system_does() -> None:
    """Its end is handed back, then the error goes on."""

    async def main() -> None:
        thread = DiskThread()
        log: list[object] = []

        def fail() -> None:
            raise ValueError("ours")

        with pytest.raises(ValueError, match="ours"):
            thread.run_within(60, _never, lambda *how: log.append(how), fail, Pending)
        assert log == [(None, None)]
        await thread.stop()

    driver.run(main())


def test_a_job_that_stalls_is_left_and_handed_back_later() -> None:
    """The loop goes on meanwhile; it comes back once, in a turn of the loop."""

    async def main() -> None:
        thread = DiskThread()
        found: list[bool] = []
        free, over = threading.Event(), asyncio.Event()

        def done(result: bool | None, _: BaseException | None) -> None:
            found.append(bool(result))
            over.set()

        thread.run_within(0.001, free.wait, done)
        assert found == []
        assert thread.waiting_count == 1
        await asyncio.sleep(0)
        free.set()
        await over.wait()
        await thread.stop()
        assert found == [True]
        assert thread.waiting_count == 0

    driver.run(main())


def test_a_job_that_ends_as_the_loop_leaves_it_is_handed_back_once() -> None:
    """However the two meet."""

    async def main() -> None:
        thread = DiskThread()
        found: list[int | None] = []
        for number in range(2000):
            thread.run_within(0.00002, _constant(number), lambda result, _: found.append(result))
        await thread.stop()
        assert sorted(one for one in found if one is not None) == list(range(2000))

    driver.run(main())


def test_several_threads_do_not_wait_for_each_other() -> None:
    """A job that stalls holds up one of them; the end waits for all."""

    async def main() -> None:
        thread = DiskThread(threads=2)
        found: list[int | None] = []
        free, over = threading.Event(), asyncio.Event()

        def second(result: int | None, _: BaseException | None) -> None:
            found.append(result)
            over.set()

        thread.submit(free.wait, lambda *_: found.append(1))
        thread.submit(_constant(2), second)
        await over.wait()
        assert found == [2]
        free.set()
        await thread.stop()
        assert found == [2, 1]

    driver.run(main())


def _constant(number: int) -> Callable[[], int]:
    return lambda: number


def test_a_thread_that_is_ended_does_its_jobs_first() -> None:
    """Nobody need wait for it; more jobs are refused."""

    async def main() -> None:
        others = threads_of("sprocket-disk")
        thread = DiskThread()
        done: list[object] = []
        thread.submit(lambda: 1, lambda result, _: done.append(result))
        thread.end()
        with pytest.raises(RuntimeError, match="stopped"):
            thread.submit(lambda: 2, lambda result, _: done.append(result))
        while not done:
            await asyncio.sleep(0)
        for one in threads_of("sprocket-disk"):
            if one not in others:  # which a test that failed may have left
                one.join()
        assert done == [1]

    asyncio.run(main())
