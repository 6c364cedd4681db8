"""An event loop in its own thread, so that blocking code can call coroutines."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import ParamSpec, TypeVar

from sprocket.base.errors import NotConnected
from sprocket.runtime.driver import new_event_loop

P = ParamSpec("P")
T = TypeVar("T")

ThreadFuture = Future
"""A future that threads wait for with `result(timeout)`; named here, as threads are."""

ThreadLock = threading.Lock
"""What one thread holds and others wait for, with `with`."""


class Portal:
    """A loop in a daemon thread, started at once; also a context manager that closes it.

    It does not survive a fork: the child must make its own.

    Threads: any, except for the loop's own.
    """

    def __init__(
        self,
        name: str = "sprocket-loop",
        make_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    ) -> None:
        self._loop = make_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Portal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        function: Callable[P, Coroutine[object, None, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an async function in the loop and wait for what it gives.

        An interrupt of the waiting thread (Ctrl-C) cancels the function.

        Raises:
            NotConnected: The portal is closed, or was closed meanwhile.
        """
        waiting = self.begin(function, *args, **kwargs)
        try:
            return waiting.result()
        except CancelledError:
            raise NotConnected("the client was closed while it waited") from None
        except BaseException:
            waiting.cancel()
            raise

    def begin(
        self,
        function: Callable[P, Coroutine[object, None, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> "Future[T]":
        """Begin what `call` waits for; a coroutine of another loop awaits it as it likes."""
        self.assert_elsewhere()
        with self._lock:
            if self._is_closed:
                raise NotConnected("the client is closed")
            return asyncio.run_coroutine_threadsafe(function(*args, **kwargs), self._loop)

    def assert_elsewhere(self) -> None:
        """Fail in the loop's own thread, before it waits for what the loop has to do."""
        assert not self.is_here, "the loop would wait for itself"

    @property
    def is_here(self) -> bool:
        """Whether the thread that asks is the loop's own."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Cancel what still runs, end the loop and its thread.

        May be called again, and by several threads: each returns when the loop has ended.
        """
        self.assert_elsewhere()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def for_threads(awaited: "asyncio.Future[T]") -> "Future[T]":
    """Return a future with the outcome of one of the loop's, for threads to wait for.

    Cancelling it does not reach the other.

    Threads: called on the event loop.
    """
    shown: Future[T] = Future()

    def copy(done: "asyncio.Future[T]") -> None:
        if not shown.set_running_or_notify_cancel():
            return
        if done.cancelled():
            shown.set_exception(NotConnected("it was cancelled"))
        elif (error := done.exception()) is not None:
            shown.set_exception(error)
        else:
            shown.set_result(done.result())

    awaited.add_done_callback(copy)
    return shown
