"""Threads for listeners that may block."""

import asyncio
from collections.abc import Callable

from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.runtime.offload import DiskThread

Listener = Callable[[list[ReceivedMessage]], None]
"""What a user gives; it runs in a thread of the consumer and may block."""


class ListenerThreads:
    """Runs a listener that may block, in as many threads as calls overlap."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._idle: list[DiskThread] = []
        self._all: list[DiskThread] = []

    async def call(self, messages: list[ReceivedMessage]) -> None:
        """Run one call of the listener and wait for it; what it raises is raised here.

        Raises:
            RuntimeError: It raised StopIteration, which no future and no coroutine can carry.
        """
        if self._idle:
            thread = self._idle.pop()
        else:
            thread = DiskThread(f"sprocket-listener-{len(self._all)}")
            self._all.append(thread)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: None, error: BaseException | None) -> None:
            self._idle.append(thread)
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            elif isinstance(error, StopIteration):
                failure = RuntimeError("the listener raised StopIteration")
                failure.__cause__ = error
                ended.set_exception(failure)
            else:
                ended.set_exception(error)

        thread.submit(lambda: self._listener(messages), done)
        await ended

    async def close(self) -> None:
        """End the threads that have nothing to do; a listener that hangs keeps its own."""
        for thread in self._idle:
            await thread.stop()
