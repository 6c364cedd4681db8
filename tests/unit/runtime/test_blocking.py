"""A loop in a thread, for callers that block."""

import asyncio
import threading

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import NotConnected
from sprocket.runtime.blocking import Portal, ThreadFuture, for_threads


def threads_of(name: str) -> list[threading.Thread]:
    """Return the threads of a name that are alive."""
    return [one for one in threading.enumerate() if one.name == name]


async def add(left: int, right: int = 1) -> int:
    """Return a sum, later."""
    await asyncio.sleep(0)
    return left + right


def test_calls_run_in_the_loop_and_give_what_they_return() -> None:
    """Arguments by place and by name; many threads at once."""
    with Portal() as portal:
        found = []

        def work() -> None:
            found.append(portal.call(add, 1, right=2))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [3] * 8


def test_the_loop_can_be_another_one() -> None:
    """Made by the caller's function, in this thread."""
    made: list[asyncio.AbstractEventLoop] = []

    def make() -> asyncio.AbstractEventLoop:
        made.append(asyncio.SelectorEventLoop())
        return made[0]

    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with Portal(make_loop=make) as portal:
        assert [portal.call(running)] == made


def test_what_a_function_raises_is_raised_here() -> None:
    """With its own type."""

    async def fail() -> None:
        raise KeyError("x")

    with Portal() as portal, pytest.raises(KeyError):
        portal.call(fail)


def test_closing_frees_who_waits_and_ends_the_thread() -> None:
    """A waiting call ends with an error; later ones do not start; tasks clean up."""
    portal = Portal()
    waiting, cleaned = threading.Event(), threading.Event()
    errors: list[Exception] = []

    async def forever() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    def work() -> None:
        try:
            portal.call(forever)
        except NotConnected as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    waiting.wait(LONG_SECONDS)
    portal.close()
    portal.close()
    thread.join(LONG_SECONDS)
    assert len(errors) == 1
    assert cleaned.is_set()
    assert threads_of("sprocket-loop") == []
    with pytest.raises(NotConnected, match="closed"):
        portal.call(add, 1)


def test_who_closes_second_waits_for_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread has ended when any of the closings returns."""
    portal = Portal()
    (loops_thread,) = threads_of("sprocket-loop")
    joining = threading.Semaphore(0)
    cleaning, release = threading.Event(), threading.Event()
    join = loops_thread.join

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            release.wait(LONG_SECONDS)

    def told_join() -> None:
        joining.release()
        join()

    async def begin() -> asyncio.Task[None]:
        return asyncio.ensure_future(forever())

    task = portal.call(begin)  # a loop alone would not keep it
    portal.call(add, 1)
    alive: list[bool] = []

    def close() -> None:
        portal.close()
        alive.append(loops_thread.is_alive())
        joining.release()

    monkeypatch.setattr(loops_thread, "join", told_join)
    closers = [threading.Thread(target=close) for _ in "ab"]
    for closer in closers:
        closer.start()
        assert joining.acquire(timeout=LONG_SECONDS)
    assert cleaning.wait(LONG_SECONDS)
    release.set()
    for closer in closers:
        closer.join(LONG_SECONDS)
    assert alive == [False, False]
    assert task.cancelled()


def test_the_loop_does_not_wait_for_itself() -> None:
    """Neither for a call nor for its end."""
    with Portal() as portal:

        async def close() -> None:
            portal.close()

        with pytest.raises(AssertionError, match="wait for itself"):
            portal.call(close)
        assert portal.call(add, 1) == 2


def test_an_interrupt_cancels_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it waits ends the work in the loop too."""
    cancelled = threading.Event()
    started = threading.Event()

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(*_: object) -> None:
        started.wait(LONG_SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with Portal() as portal:
        with pytest.raises(KeyboardInterrupt):
            portal.call(forever)
        assert cancelled.wait(LONG_SECONDS)


@pytest.mark.parametrize("outcome", [7, ValueError("no"), None])
def test_a_future_of_the_loop_can_be_waited_for_in_a_thread(outcome: object) -> None:
    """Its result, its error, or that it was cancelled."""
    with Portal() as portal:

        async def begin() -> ThreadFuture[object]:
            awaited: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            shown = for_threads(awaited)
            dropped = for_threads(awaited)
            assert dropped.cancel()
            if outcome is None:
                awaited.cancel()
            elif isinstance(outcome, Exception):
                awaited.set_exception(outcome)
            else:
                awaited.set_result(outcome)
            return shown

        waiting = portal.call(begin)
        if outcome == 7:
            assert waiting.result(LONG_SECONDS) == 7
        else:
            expected = ValueError if outcome else NotConnected
            with pytest.raises(expected):
                waiting.result(LONG_SECONDS)
