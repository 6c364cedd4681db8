"""Keeping each queue filled: one long poll after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from sprocket.base import log
from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    NotConnected,
    RequestTimeout,
    WireError,
)
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues.offsets import Offsets
from sprocket.rocketmq.client.consumer.queues.process_queue import Chunk, ProcessQueue
from sprocket.rocketmq.client.network import BrokerCalls, Pull, PullResult, PullStatus
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MASTER_ID

_ROUND_S = 0.05
"""Least time for a pull that finds nothing: some brokers do not hold it, and none does without
`hold_ms`."""

_COUNT_MIN = 32
"""Asked for at least, as RocketMQ's clients do, by who has still room for less: answers of a few
messages cost their broker as much each."""

_SLOWED_S = 0.02
"""Before the next pull, after a broker's FLOW_CONTROL, as RocketMQ's clients make it."""

_SLAVE_ROUND_S = 0.5
"""Least time for a pull to which a slave has nothing: slaves hold none."""

_log = log.get_logger(__name__)


class Consumption(Protocol):
    """One way to hand out what was pulled."""

    def pulled(self, held: ProcessQueue, chunks: Sequence[Chunk]) -> None:
        """Take chunks that were put into `held`."""


class QueuePuller:
    """Pulls for one consumer, whose subscriptions may change meanwhile.

    Each pull tells the broker how far the group is, unless members broadcast, or the user says it.
    """

    def __init__(
        self,
        plan: ConsumerPlan,
        brokers: BrokerCalls,
        subscriptions: Mapping[str, Subscription],
        consumption: Consumption,
        offsets: Offsets,
    ) -> None:
        self._plan = plan
        self._brokers = brokers
        self._subscriptions = subscriptions
        self._consumption = consumption
        self._offsets = offsets
        self._commits = not plan.is_broadcast and not plan.is_polled

    async def run(
        self, held: ProcessQueue, moved: Callable[[ProcessQueue, QueueOffset], Awaitable[object]]
    ) -> None:
        """Pull one queue until it is dropped.

        If it does not have the offset wanted, `moved` gets where to go on, and this ends.
        """
        loop = asyncio.get_running_loop()
        is_failing = False
        while not held.is_dropped:
            await held.going()
            await held.room()
            subscription = self._subscriptions.get(held.queue.topic)
            if subscription is None:
                return
            asked_at = held.pulled_at = loop.time()
            try:
                result = await self._pull(held, subscription)
                is_master_next = held.broker_id != result.broker_id
                held.broker_id = result.broker_id
                if held.is_dropped:
                    return
                if held.is_paused:
                    continue  # what came is pulled again
                if _has_moved(held, result):
                    next_offset = result.next_offset
                    if await self._is_made_anew(held, result):
                        next_offset = result.min_offset
                    _log.warning(
                        "queue does not have the offset wanted; going on elsewhere",
                        queue=str(held.queue),
                        wanted=held.pulled_to,
                        next=next_offset,
                        lowest=result.min_offset,
                        end=result.max_offset,
                    )
                    await moved(held, next_offset)
                    return
                has_advanced = result.next_offset > held.pulled_to
                self.take(held, subscription, result)
                if result.status is PullStatus.FOUND:
                    held.counts.pulls += 1
                    held.counts.pull_s += loop.time() - asked_at
                elif result.status is PullStatus.NO_NEW_MESSAGE:
                    await asyncio.sleep(max(0.0, asked_at + _ROUND_S - loop.time()))
                elif not has_advanced and not is_master_next:
                    await asyncio.sleep(max(0.0, asked_at + _SLAVE_ROUND_S - loop.time()))
            except (ClientError, WireError) as error:
                if not is_failing:
                    is_failing = True
                    _log.warning("pull failed; trying on", queue=str(held.queue), error=str(error))
                held.broker_id = await self._replica_after(held, error)
                await asyncio.sleep(self._pause_s(error))
            else:
                is_failing = False

    async def _is_made_anew(self, held: ProcessQueue, result: PullResult) -> bool:
        """Say whether a queue that ends before the offset wanted is another one than was read.

        Its topic was deleted and made again then, and brokers of others send us to its end. All of
        it is younger than what came last of the old one; a queue that has lost its end begins with
        what it had.
        """
        if not held.stored_at_ms or not 0 < result.max_offset < held.pulled_to:
            return False
        try:
            first_at_ms = await self._brokers.earliest_at_ms(held.queue)
        except BrokerRefused:
            return False
        return first_at_ms is not None and first_at_ms > held.stored_at_ms

    async def _pull(self, held: ProcessQueue, subscription: Subscription) -> PullResult:
        settings = self._plan.settings
        pull = Pull(
            group=self._plan.group,
            queue=held.queue,
            offset=held.pulled_to,
            count_max=min(settings.pull_messages_max, max(held.free_messages, _COUNT_MIN)),
            expression=subscription.expression,
            version=subscription.version,
            kind=subscription.type,
            hold_ms=settings.hold_ms,
            commit=self._offsets.get(held.queue) if self._commits else None,
            is_lite=self._plan.is_polled,
            broker_id=held.broker_id,
        )
        return await self._brokers.pull(pull)

    async def _replica_after(self, held: ProcessQueue, error: ClientError | WireError) -> int:
        """Return which replica is asked after one has failed: another, if it was not there."""
        if isinstance(error, NotConnected | RequestTimeout):
            return await self._brokers.replica_after(held.queue.broker_name, held.broker_id)
        return MASTER_ID

    def _pause_s(self, error: ClientError | WireError) -> float:
        """Return how long to wait after a pull that failed."""
        if isinstance(error, BrokerRefused) and error.code == ResponseCode.FLOW_CONTROL:
            return _SLOWED_S
        return self._plan.settings.pull_retry_ms / 1000

    def take(self, held: ProcessQueue, subscription: Subscription, result: PullResult) -> None:
        """Put what came into the queue and hand it on.

        Raises:
            WireError: The body holds a damaged record; nothing of it is used.
        """
        messages = []
        if result.status is PullStatus.FOUND:
            wanted = subscription.filter
            queue, asked = held.queue, held.pulled_to
            messages = [
                ReceivedMessage(stored, queue)
                for stored in batch.decode_messages(result.body)
                if (wanted is None or wanted.by_properties(stored.properties))
                and stored.queue_offset >= asked  # a batch comes whole, whatever was asked for
            ]
            held.counts.pulled += len(messages)
            if messages:
                held.stored_at_ms = messages[-1].stored.stored_at_ms
        chunks = held.put(messages, result.next_offset, self._plan.call_messages_max)
        if chunks:
            self._consumption.pulled(held, chunks)
        elif held.head is None and not self._plan.is_polled:
            self._offsets.note(held.queue, result.next_offset)


def _has_moved(held: ProcessQueue, result: PullResult) -> bool:
    """Say whether the queue does not go on where we wanted to."""
    return result.status is PullStatus.OFFSET_MOVED or result.next_offset < held.pulled_to
