"""The disk thread."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sprocket.runtime import driver, offload
from sprocket.runtime.offload import DiskThread


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
        assert not thread._thread.is_alive()
        with pytest.raises(RuntimeError, match="stopped"):
            thread.submit(_constant(0), lambda *_: None)

    driver.run(main())


def test_too_many_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody runs away; the queue does not grow without bound."""
    monkeypatch.setattr(offload, "JOBS_MAX", 2)

    async def main() -> None:
        thread = DiskThread()
        free = threading.Event()
        for _ in range(2):
            thread.submit(free.wait, lambda *_: None)
        with pytest.raises(RuntimeError, match="2 jobs wait"):
            thread.submit(free.wait, lambda *_: None)
        free.set()
        await thread.stop()

    asyncio.run(main())


def test_a_job_that_outlives_its_loop_ends_the_thread() -> None:
    """There is nobody to tell; the thread does not hang around."""
    free = threading.Event()
    threads = []

    async def main() -> None:
        thread = DiskThread()
        threads.append(thread._thread)
        thread.submit(free.wait, lambda *_: None)

    asyncio.run(main())
    free.set()
    threads[0].join(5)
    assert not threads[0].is_alive()


def _constant(number: int) -> Callable[[], int]:
    return lambda: number
