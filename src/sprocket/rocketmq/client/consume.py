"""Handing messages to the listener, and what its success or failure means for their queue."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq.client.held import Held
from sprocket.rocketmq.client.offsets import Offsets
from sprocket.rocketmq.client.process_queue import Chunk
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.runtime.tasks import Tasks

Listener = Callable[[list[ReceivedMessage]], Awaitable[None] | None]
"""What a user gives: plain or `async`. Returning means done; raising means deliver again."""

GiveBack = Callable[[Held, Sequence[ReceivedMessage]], Awaitable[list[ReceivedMessage]]]
"""Gives messages back to the broker for a later delivery; returns those it did not take."""

_log = log.get_logger(__name__)


class Consumption(Protocol):
    """One way to hand out what was pulled."""

    def began(self, held: Held) -> None:
        """Take notice of a queue that is held from now on."""

    def pulled(self, held: Held, chunks: Sequence[Chunk]) -> None:
        """Take chunks that were put into the cache of `held`."""


async def call(listener: Listener, held: Held, chunk: Chunk) -> bool:
    """Call the listener once; say whether it returned.

    An exception of the listener is logged, with the place of the messages, and means failure.
    """
    held.call_begins()
    try:
        result = listener(list(chunk.messages))
        if inspect.isawaitable(result):
            await result
    except Exception:  # whatever a user's code raises: the messages are delivered again
        first = chunk.messages[0]
        _log.exception(
            "listener failed; its messages will be delivered again",
            queue=str(held.queue),
            offset=first.queue_offset,
            messages=len(chunk.messages),
            message_id=first.message_id,
            reconsume_times=first.reconsume_times,
        )
        return False
    finally:
        held.call_ends()
    return True


class ConcurrentConsumption:
    """Hands out chunks of all queues as they come, several at once if the listener is `async`.

    What fails goes back to the broker, or, where that does not take it, is handed out again after
    `redeliver_ms`; meanwhile other messages of its queue go on, but not the committed offset.

    Args:
        listener: The user's.
        offsets: Where progress is noted.
        send_back: Gives failed messages back.
        tasks: Own the workers.
        settings: Sizes and pauses.
    """

    def __init__(
        self,
        listener: Listener,
        offsets: Offsets,
        send_back: GiveBack,
        tasks: Tasks,
        settings: ConsumerSettings,
    ) -> None:
        self._listener = listener
        self._offsets = offsets
        self._send_back = send_back
        self._settings = settings
        self._ready: asyncio.Queue[tuple[Held, Chunk]] = asyncio.Queue()
        for number in range(settings.call_count_max):
            tasks.spawn(self._work(), f"listener {number}")

    def began(self, held: Held) -> None:
        """Do nothing; workers are shared by all queues."""

    def pulled(self, held: Held, chunks: Sequence[Chunk]) -> None:
        """Queue chunks for the next free worker."""
        for chunk in chunks:
            self._ready.put_nowait((held, chunk))

    async def _work(self) -> None:
        while True:
            held, chunk = await self._ready.get()
            if held.is_dropped or held.is_stopping:
                continue
            if await call(self._listener, held, chunk):
                self._done(held, chunk)
            else:
                await self._failed(held, chunk)
            await asyncio.sleep(0)

    def _done(self, held: Held, chunk: Chunk) -> None:
        if not held.is_dropped:
            held.cache.done(chunk)
            self._offsets.note(held.queue, held.cache.commit_offset)

    async def _failed(self, held: Held, chunk: Chunk) -> None:
        if held.is_dropped:
            return
        rest = await self._send_back(held, chunk.messages)
        if not rest:
            self._done(held, chunk)
            return
        for message in rest:
            message.redeliveries += 1
        held.cache.keep(chunk, rest)
        asyncio.get_running_loop().call_later(
            self._settings.redeliver_ms / 1000, self._ready.put_nowait, (held, chunk)
        )


class OrderlyConsumption:
    """Hands out the chunks of each queue one after the other, while its lock is held.

    A chunk that fails is handed out again after `suspend_ms`, and nothing of its queue passes it.

    Args:
        listener: The user's.
        offsets: Where progress is noted.
        clock: Tells whether a lock is still good.
        tasks: Own one worker for each queue.
        settings: Pauses.
    """

    def __init__(
        self,
        listener: Listener,
        offsets: Offsets,
        clock: Clock,
        tasks: Tasks,
        settings: ConsumerSettings,
    ) -> None:
        self._listener = listener
        self._offsets = offsets
        self._clock = clock
        self._tasks = tasks
        self._suspend_s = settings.suspend_ms / 1000

    def began(self, held: Held) -> None:
        """Give the queue a worker of its own."""
        held.listener_task = self._tasks.spawn(self._work(held), f"listener {held.queue}")

    def pulled(self, held: Held, chunks: Sequence[Chunk]) -> None:
        """Do nothing; the queue's worker waits for its cache."""

    async def _work(self, held: Held) -> None:
        while True:
            await held.cache.arrival()
            chunk = held.cache.head
            assert chunk is not None, "a chunk has arrived"
            if held.is_dropped or held.is_stopping:
                return
            if not held.is_locked(self._clock.monotonic()):
                await asyncio.sleep(self._suspend_s)
                continue
            is_done = await call(self._listener, held, chunk)
            if held.is_dropped:
                return
            if is_done:
                held.cache.done(chunk)
                self._offsets.note(held.queue, held.cache.commit_offset)
                await asyncio.sleep(0)
            else:
                for message in chunk.messages:
                    message.redeliveries += 1
                await asyncio.sleep(self._suspend_s)
