"""Offsets of queues, and what groups have committed there."""

from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import BrokerCalls
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue


class OffsetAdmin:
    """What can be asked of single queues; `admin.offset`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def max(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return await (await self._brokers_of(queue)).max_offset(queue)

    async def min(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return await (await self._brokers_of(queue)).min_offset(queue)

    async def by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        return await (await self._brokers_of(queue)).offset_by_time(queue, at_ms)

    async def earliest_at_ms(self, queue: MessageQueue) -> int | None:
        """Return when the oldest message of a queue was stored, in ms since 1970; None if empty."""
        return await (await self._brokers_of(queue)).earliest_at_ms(queue)

    async def committed(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """Return where a group goes on in a queue, or None if it has not committed there."""
        return await (await self._brokers_of(queue)).committed_offset(group, queue)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let a group go on at an offset; members that are connected may overwrite it.

        They learn of what `admin.group.reset_offsets` does.
        """
        await (await self._brokers_of(queue)).commit_offset(group, queue, QueueOffset(offset))

    async def _brokers_of(self, queue: MessageQueue) -> BrokerCalls:
        """Return what asks brokers, once it is known which of them have the queue's topic."""
        await self._reach.known(queue.topic)
        return self._reach.instance.brokers
