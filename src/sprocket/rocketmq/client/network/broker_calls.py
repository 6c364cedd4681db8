"""What can be asked of a broker about queues, offsets and groups: a method for each request."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from math import inf

from msgspec import Struct

from sprocket.rocketmq.client.network.answers import granted, read, refused
from sprocket.rocketmq.client.network.connections import Connections
from sprocket.rocketmq.client.network.routes import Routes
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerIds, LockBatch, LockedQueues
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import (
    ConsumerGroupOnly,
    OffsetAnswer,
    PullMessage,
    PullMessageAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    TopicQueue,
    UpdateConsumerOffset,
)
from sprocket.rocketmq.model.group import TAG
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.pull import COMMIT, LITE, SUBSCRIPTION, SUSPEND
from sprocket.rocketmq.model.route import MASTER_ID, MessageQueue

_ANSWER_MARGIN_MS = 15_000
"""A held pull may be answered this much after its hold; the broker looks every 5 s."""


_REFRESH_S = 0.5
"""A route is not asked for again within this time, however many queues are in it."""


class PullStatus(Enum):
    """What a pull brought."""

    FOUND = ResponseCode.SUCCESS
    """Messages."""
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    """The offset is the end of the queue."""
    NO_MATCH = ResponseCode.PULL_RETRY_IMMEDIATELY
    """None of those looked at has a wanted tag; go on from `next_offset`."""
    OFFSET_MOVED = ResponseCode.PULL_OFFSET_MOVED
    """The offset is outside the queue; `next_offset` is the nearest that is inside."""


class PullResult(Struct, frozen=True):
    """The answer to one pull.

    Attributes:
        status: What it brought.
        next_offset: Where the next pull of this queue begins.
        min_offset: The first offset the queue still has.
        max_offset: The offset its next message will get.
        body: Records as the broker's log holds them, one after the other; `codec.record` reads
            them.
        broker_id: The replica that the broker suggests for the next pull: the master, or a slave
            if the messages are no longer in the master's memory.
    """

    status: PullStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    body: bytes
    broker_id: int = MASTER_ID


class Pull(Struct, frozen=True, kw_only=True):
    """What is asked for by one pull.

    Attributes:
        group: Consumer group; the broker creates one it does not know.
        queue: Where to read.
        offset: First message wanted.
        count_max: Most messages; the broker may give fewer.
        expression: Tags, `A || B`, or `*`, of which the broker compares hashes only; or SQL92.
        kind: TAG or SQL92.
        version: Of the subscription, in milliseconds since 1970; newer ones win.
        hold_ms: How long the broker may wait for a message if there is none.
        commit: Stored as the group's offset along the way.
        is_lite: Say that this consumer pulls when its user asks; brokers limit those separately.
        broker_id: Which of the broker's replicas is asked, if it is there.
    """

    group: str
    queue: MessageQueue
    offset: QueueOffset
    count_max: int
    expression: str
    version: int
    kind: str = TAG
    hold_ms: int = 0
    commit: QueueOffset | None = None
    is_lite: bool = False
    broker_id: int = MASTER_ID

    def header(self, *, to_master: bool = True) -> PullMessage:
        """Return the header of its request; slaves are not told what to store."""
        sys_flag = SUBSCRIPTION
        if self.hold_ms:
            sys_flag |= SUSPEND
        if self.commit is not None and to_master:
            sys_flag |= COMMIT
        if self.is_lite:
            sys_flag |= LITE
        return PullMessage(
            consumer_group=self.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.offset,
            max_msg_nums=self.count_max,
            sys_flag=sys_flag,
            commit_offset=self.commit or 0,
            suspend_timeout_millis=self.hold_ms,
            subscription=self.expression,
            sub_version=self.version,
            expression_type=self.kind,
        )


class BrokerCalls:
    """Typed calls to the brokers that own a queue."""

    def __init__(self, connections: Connections, routes: Routes) -> None:
        self._connections = connections
        self._routes = routes
        self._without_lite: set[str] = set()
        """Addresses that know only the older request to pull."""
        self._asking = asyncio.Lock()
        self._asked_at: dict[str, float] = {}
        """When routes were asked for anew, by the broker that had not answered, in loop time."""

    async def replica_after(self, broker_name: str, broker_id: int) -> int:
        """Return which replica of a broker to ask when one of them has not answered.

        The route is asked for anew: a broker that is gone is no longer in it.
        """
        await self._refresh(broker_name)
        ids = self._routes.replicas(broker_name)
        return next((one for one in ids if one > broker_id), ids[0] if ids else MASTER_ID)

    async def _refresh(self, broker_name: str) -> None:
        """Ask for the route to a broker anew, once for all of its queues."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if loop.time() - self._asked_at.get(broker_name, -inf) >= _REFRESH_S:
                await self._routes.refresh_broker(broker_name)
                self._asked_at[broker_name] = loop.time()

    async def max_offset(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> QueueOffset:
        """Return the offset that the next message of a queue will get, as a replica knows it."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, broker_id)

    async def min_offset(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> QueueOffset:
        """Return the lowest offset that a queue still has, as a replica knows it."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, broker_id)

    async def offset_by_time(
        self, queue: MessageQueue, at_ms: int, broker_id: int = MASTER_ID
    ) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end."""
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms, boundary_type="LOWER"
        )
        command = await self._connections.call(
            self._routes.read_address(queue.broker_name, broker_id),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            header,
        )
        return _offset(command)

    async def earliest_at_ms(self, queue: MessageQueue) -> int | None:
        """Return when the oldest message of a queue was stored, in ms since 1970; None if empty."""
        header = TopicQueue(topic=queue.topic, queue_id=queue.queue_id)
        address = self._routes.require_master(queue.broker_name)
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        command = await self._connections.call(address, code, header)
        at_ms = read(address, lambda: command.header(TimestampAnswer)).timestamp
        return None if at_ms < 0 else at_ms

    async def _offset(self, queue: MessageQueue, code: RequestCode, broker_id: int) -> QueueOffset:
        header = TopicQueue(topic=queue.topic, queue_id=queue.queue_id)
        address = self._routes.read_address(queue.broker_name, broker_id)
        return _offset(await self._connections.call(address, code, header))

    async def committed_offset(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """Return what a group has committed for a queue, or None if it has not committed.

        If the broker has no master now a slave says what it knows, which is up to a minute old.
        """
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        address = self._routes.read_address(queue.broker_name)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        command = await self._connections.request(address, code, header)
        if not granted(address, code, command, (ResponseCode.QUERY_NOT_FOUND,)):
            return None
        offset = _offset(command)
        return offset if offset >= 0 else None

    async def commit_offset(self, group: str, queue: MessageQueue, offset: QueueOffset) -> None:
        """Store the offset up to which, exclusive, a group is done with a queue.

        Raises:
            NoRoute: The broker has no master now.
        """
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        if self._routes.master_address(queue.broker_name) is None:
            await self._refresh(queue.broker_name)
        address = self._routes.require_master(queue.broker_name)
        await self._connections.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def members(self, group: str, broker_name: str) -> list[str]:
        """Return the client ids of a group that a broker knows; none of an unknown group."""
        address = self._routes.read_address(broker_name)
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        command = await self._connections.request(
            address, code, ConsumerGroupOnly(consumer_group=group)
        )
        if not granted(address, code, command, (ResponseCode.SYSTEM_ERROR,)):
            return []
        return read(address, lambda: bodies.decode(ConsumerIds, command.body).client_ids)

    async def lock(
        self, group: str, client_id: str, broker_name: str, queues: Sequence[MessageQueue]
    ) -> set[MessageQueue]:
        """Lock queues of one broker for this client, or renew the locks; return those it has."""
        body = bodies.encode(LockBatch(group=group, client_id=client_id, queues=queues))
        address = self._routes.require_master(broker_name)
        command = await self._connections.call(address, RequestCode.LOCK_BATCH_MQ, None, body)
        return set(read(address, lambda: bodies.decode(LockedQueues, command.body).queues))

    async def unlock(
        self, group: str, client_id: str, broker_name: str, queues: Sequence[MessageQueue]
    ) -> None:
        """Give up locks, so that another client need not wait until they expire."""
        body = bodies.encode(LockBatch(group=group, client_id=client_id, queues=queues))
        address = self._routes.require_master(broker_name)
        await self._connections.call(address, RequestCode.UNLOCK_BATCH_MQ, None, body)

    async def pull(self, pull: Pull) -> PullResult:
        """Ask for messages of a queue. Raises BrokerRefused with any code but a `PullStatus`."""
        name = pull.queue.broker_name
        address = self._routes.read_address(name, pull.broker_id)
        timeout_ms = pull.hold_ms + _ANSWER_MARGIN_MS if pull.hold_ms else None
        code = RequestCode.PULL_MESSAGE
        if pull.is_lite and address not in self._without_lite:
            code = RequestCode.LITE_PULL_MESSAGE
        header = pull.header(to_master=address == self._routes.master_address(name))
        command = await self._connections.request(address, code, header, timeout_ms=timeout_ms)
        status = _PULL_STATUS.get(command.code)
        if status is None:
            if pull.is_lite and command.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._without_lite.add(address)
            raise refused(address, code, command)
        answer = read(address, lambda: command.header(PullMessageAnswer))
        return PullResult(
            status,
            QueueOffset(answer.next_begin_offset),
            QueueOffset(answer.min_offset),
            QueueOffset(answer.max_offset),
            command.body,
            answer.suggest_which_broker_id,
        )


def _offset(command: Command) -> QueueOffset:
    return QueueOffset(read("the broker", lambda: command.header(OffsetAnswer)).offset)


_PULL_STATUS = {int(status.value): status for status in PullStatus}
