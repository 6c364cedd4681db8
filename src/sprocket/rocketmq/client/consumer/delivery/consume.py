"""Hands messages to the listener; its success or failure decides what happens in their queue."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sprocket.base.clock import Clock
from sprocket.rocketmq.client.consumer.delivery.consume_traces import ConsumeTraces
from sprocket.rocketmq.client.consumer.delivery.listener import (
    DEAD_LETTER_LEVEL,
    Failure,
    call,
    report,
)
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan, Listener
from sprocket.rocketmq.client.consumer.queues import Chunk, Offsets, ProcessQueue
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.runtime.tasks import Tasks

GiveBack = Callable[[Sequence[ReceivedMessage], int], Awaitable[list[ReceivedMessage]]]
"""Gives messages back to the broker for a later delivery, with a delay level (0: the broker
chooses); returns those it did not take."""

TIMEOUT_LEVEL = 3
"""The delay level of messages that a listener did not end with in time."""
_SUSPEND_MS_MIN = 10
_SUSPEND_MS_MAX = 30_000


class ListenerCalls:
    """Calls of the listener, counted and timed, and noted in traces if that is wanted."""

    def __init__(self, listener: Listener, clock: Clock) -> None:
        self._listener = listener
        self.clock = clock
        self.traces: ConsumeTraces | None = None

    async def call(self, held: ProcessQueue, chunk: Chunk) -> Failure | None:
        """Hand out one chunk; return what of it is not done, None if everything is."""
        began = chunk.begun_at = self.clock.monotonic()
        count = len(chunk.messages)
        messages, traces = chunk.messages, self.traces
        request_id = "" if traces is None else traces.began(messages)
        held.call_begins()
        try:
            failure = await call(self._listener, messages)
        finally:
            held.call_ends()
        ended = held.consumed_at = self.clock.monotonic()
        if traces is not None:
            traces.ended(request_id, messages, failure, int((ended - began) * 1000))
        counts = held.counts
        counts.calls += 1
        counts.consume_s += ended - began
        if failure is None:
            counts.consumed += count
        elif not failure.is_withdrawn:
            report(failure)
            counts.failed += len(failure.rest)
            counts.consumed += count - len(failure.rest)
        return failure


class ConcurrentConsumption:
    """Hands out chunks of all queues as they come, several at once if the listener is `async`.

    What fails goes back to the broker, or, where that does not take it, is handed out again after
    `redeliver_ms`; meanwhile other messages of its queue go on, but not the committed offset.
    """

    def __init__(
        self,
        plan: ConsumerPlan,
        calls: ListenerCalls,
        offsets: Offsets,
        give_back: GiveBack,
        tasks: Tasks,
    ) -> None:
        self._calls = calls
        self._offsets = offsets
        self._give_back = give_back
        self._settings = plan.settings
        self._ready: asyncio.Queue[tuple[ProcessQueue, Chunk]] = asyncio.Queue()
        for number in range(plan.settings.call_count_max):
            tasks.spawn(self._work(), f"listener {number}")

    def pulled(self, held: ProcessQueue, chunks: Sequence[Chunk]) -> None:
        """Queue chunks for the next free worker."""
        for chunk in chunks:
            self._ready.put_nowait((held, chunk))

    async def _work(self) -> None:
        while True:
            held, chunk = await self._ready.get()
            if held.is_dropped or held.is_stopping or chunk.is_done:
                continue
            failure = await self._calls.call(held, chunk)
            if chunk.is_done or held.is_dropped:
                continue  # too late: it was given back meanwhile, or somebody else has the queue
            if failure is None:
                self._done(held, chunk)
            elif not failure.is_withdrawn:
                await self._failed(held, chunk, failure)
            await asyncio.sleep(0)

    def _done(self, held: ProcessQueue, chunk: Chunk) -> None:
        held.done(chunk)
        self._offsets.note(held.queue, held.commit_offset)

    async def _failed(self, held: ProcessQueue, chunk: Chunk, failure: Failure) -> None:
        held.keep(chunk, list(failure.rest))
        await self._return(held, chunk, failure.level)
        if chunk.is_done or held.is_dropped:
            return
        for message in chunk.messages:
            message.redeliveries += 1
        asyncio.get_running_loop().call_later(
            self._settings.redeliver_ms / 1000, self._ready.put_nowait, (held, chunk)
        )

    async def _return(self, held: ProcessQueue, chunk: Chunk, level: int) -> None:
        """Give the messages of a chunk back, and keep those that the broker did not take."""
        chunk.begun_at = None
        held.call_begins()
        try:
            rest = await self._give_back(chunk.messages, level)
        finally:
            held.call_ends()
        if chunk.is_done or held.is_dropped:
            return
        if rest:
            held.keep(chunk, rest)
        else:
            self._done(held, chunk)

    async def give_back_late(self, helds: Iterable[ProcessQueue]) -> None:
        """Give back what a listener has had for longer than `consume_timeout_ms`.

        What the broker does not take stays with the listener.
        """
        latest = self._calls.clock.monotonic() - self._settings.consume_timeout_ms / 1000
        for held in helds:
            for chunk in held.begun_before(latest):
                await self._return(held, chunk, TIMEOUT_LEVEL)


class OrderlyConsumption:
    """Hands out the chunks of each queue one after the other, while its lock is held.

    A chunk that fails is handed out again after `suspend_ms`, and nothing of its queue passes it.
    A message that has failed too often is given back, and only then the queue goes on.
    """

    def __init__(
        self,
        plan: ConsumerPlan,
        calls: ListenerCalls,
        offsets: Offsets,
        give_back: GiveBack,
        tasks: Tasks,
    ) -> None:
        self._calls = calls
        self._offsets = offsets
        self._give_back = give_back
        self._tasks = tasks
        self._settings = plan.settings
        self._needs_locks = plan.needs_locks

    def pulled(self, held: ProcessQueue, _: Sequence[Chunk]) -> None:
        """Leave chunks to the queue's own worker, which begins with the first of them."""
        if held.listener_task is None:
            held.listener_task = self._tasks.spawn(self._work(held), f"listener {held.queue}")

    async def _work(self, held: ProcessQueue) -> None:
        while True:
            await held.arrival()
            chunk = held.head
            assert chunk is not None, "a chunk has arrived"
            if held.is_dropped or held.is_stopping:
                return
            if self._needs_locks and not held.is_locked(self._calls.clock.monotonic()):
                await asyncio.sleep(self._settings.suspend_ms / 1000)
                continue
            failure = await self._calls.call(held, chunk)
            if held.is_dropped:
                return
            if failure is None:
                self._done(held, chunk)
                await asyncio.sleep(0)
            elif failure.is_withdrawn:
                return
            else:
                await self._failed(held, chunk, failure)

    def _done(self, held: ProcessQueue, chunk: Chunk) -> None:
        held.done(chunk)
        self._offsets.overwrite(held.queue, held.commit_offset)

    async def _failed(self, held: ProcessQueue, chunk: Chunk, failure: Failure) -> None:
        held.keep(chunk, list(failure.rest))
        self._offsets.overwrite(held.queue, held.commit_offset)
        held.call_begins()
        try:
            rest = await self._give_up(failure)
        finally:
            held.call_ends()
        if held.is_dropped:
            return
        if not rest:
            self._done(held, chunk)
            return
        held.keep(chunk, rest)
        for message in rest:
            message.redeliveries += 1
        pause_ms = failure.pause_ms
        if pause_ms is None:
            pause_ms = self._settings.suspend_ms
        pause_ms = min(max(pause_ms, _SUSPEND_MS_MIN), _SUSPEND_MS_MAX)
        await asyncio.sleep(pause_ms / 1000)

    async def _give_up(self, failure: Failure) -> list[ReceivedMessage]:
        """Give up the messages that have failed too often; return the others."""
        limit = self._settings.retries_max
        is_dead = failure.level == DEAD_LETTER_LEVEL
        hopeless = [
            message
            for message in failure.rest
            if is_dead or (limit is not None and message.reconsume_times >= limit)
        ]
        if not hopeless:
            return list(failure.rest)
        kept = await self._give_back(hopeless, DEAD_LETTER_LEVEL)
        return [one for one in failure.rest if one not in hopeless or one in kept]
