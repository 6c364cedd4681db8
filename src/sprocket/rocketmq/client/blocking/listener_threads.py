"""Threads for what a user gives that may block: listeners, and checks of transactions."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar, cast

from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.runtime.offload import DiskThread

A = TypeVar("A")
T = TypeVar("T")

Listener = Callable[[list[ReceivedMessage]], None]
"""What a user gives; it runs in a thread of the consumer and may block."""


class ListenerThreads(Generic[A, T]):
    """Runs a listener that may block, in as many threads as calls overlap.

    Args:
        listener: What to run.
        threads_max: How many there may be, counting those whose call was given up and does not
            return.
    """

    def __init__(self, listener: Callable[[A], T], threads_max: int | None = None) -> None:
        self._listener = listener
        self._threads_max = threads_max
        self._idle: list[DiskThread] = []
        self._all: list[DiskThread] = []

    async def call(self, given: A) -> T:
        """Run one call of the listener and wait for it; what it raises is raised here.

        Context variables have the values that they have here.

        Raises:
            RuntimeError: It raised StopIteration, which no future and no coroutine can carry; or
                every thread is busy with a call that does not return.
        """
        if self._idle:
            thread = self._idle.pop()
        elif len(self._all) == self._threads_max:
            raise RuntimeError(f"all {self._threads_max} threads wait for calls that do not return")
        else:
            thread = DiskThread(f"sprocket-listener-{len(self._all)}")
            self._all.append(thread)
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T | None, error: BaseException | None) -> None:
            self._idle.append(thread)
            if ended.done():
                return
            if error is None:
                ended.set_result(cast("T", result))
            elif isinstance(error, StopIteration):
                failure = RuntimeError("the listener raised StopIteration")
                failure.__cause__ = error
                ended.set_exception(failure)
            else:
                ended.set_exception(error)

        context = copy_context()
        thread.submit(lambda: context.run(self._listener, given), done)
        return await ended

    async def close(self) -> None:
        """End the threads that have nothing to do; a listener that hangs keeps its own."""
        for thread in self._idle:
            await thread.stop()
