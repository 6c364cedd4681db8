"""Offsets of queues, and what groups have committed there."""

from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import read
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import TimestampAnswer, TopicQueue
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue


class OffsetAdmin:
    """What can be asked of single queues; `admin.offset`.

    Args:
        reach: Carries the requests.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def max(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        await self._reach.known(queue.topic)
        return await self._reach.instance.brokers.max_offset(queue)

    async def min(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        await self._reach.known(queue.topic)
        return await self._reach.instance.brokers.min_offset(queue)

    async def by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        await self._reach.known(queue.topic)
        return await self._reach.instance.brokers.offset_by_time(queue, at_ms)

    async def earliest_at_ms(self, queue: MessageQueue) -> int | None:
        """Return when the oldest message of a queue was stored, in ms since 1970; None if empty."""
        routes = self._reach.instance.routes
        await self._reach.known(queue.topic)
        address = routes.require_master(queue.broker_name)
        header = TopicQueue(topic=queue.topic, queue_id=queue.queue_id)
        command = await self._reach.call(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        at_ms = read(address, lambda: command.header(TimestampAnswer)).timestamp
        return None if at_ms < 0 else at_ms

    async def committed(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """Return where a group goes on in a queue, or None if it has not committed there."""
        await self._reach.known(queue.topic)
        return await self._reach.instance.brokers.committed_offset(group, queue)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let a group go on at an offset; members that are connected may overwrite it.

        They learn of what `admin.group.reset_offsets` does.
        """
        await self._reach.known(queue.topic)
        await self._reach.instance.brokers.commit_offset(group, queue, QueueOffset(offset))
