"""What can be asked of a broker about queues, offsets and groups: a method for each request."""

from collections.abc import Sequence
from enum import Enum

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
from sprocket.rocketmq.model.route import MessageQueue

_ANSWER_MARGIN_MS = 15_000
"""A held pull may be answered this much after its hold; the broker looks every 5 s."""


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
    """

    status: PullStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    body: bytes


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

    def header(self) -> PullMessage:
        """Return the header of its request."""
        sys_flag = SUBSCRIPTION
        if self.hold_ms:
            sys_flag |= SUSPEND
        if self.commit is not None:
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

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET)

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end."""
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms, boundary_type="LOWER"
        )
        command = await self._connections.call(
            self._routes.read_address(queue.broker_name),
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

    async def _offset(self, queue: MessageQueue, code: RequestCode) -> QueueOffset:
        header = TopicQueue(topic=queue.topic, queue_id=queue.queue_id)
        address = self._routes.require_master(queue.broker_name)
        return _offset(await self._connections.call(address, code, header))

    async def committed_offset(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """Return what a group has committed for a queue, or None if it has not committed."""
        header = QueryConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        address = self._routes.require_master(queue.broker_name)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        command = await self._connections.request(address, code, header)
        if not granted(address, code, command, (ResponseCode.QUERY_NOT_FOUND,)):
            return None
        offset = _offset(command)
        return offset if offset >= 0 else None

    async def commit_offset(self, group: str, queue: MessageQueue, offset: QueueOffset) -> None:
        """Store the offset up to which, exclusive, a group is done with a queue."""
        header = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
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
        address = self._routes.read_address(pull.queue.broker_name)
        timeout_ms = pull.hold_ms + _ANSWER_MARGIN_MS if pull.hold_ms else None
        code = RequestCode.PULL_MESSAGE
        if pull.is_lite and address not in self._without_lite:
            code = RequestCode.LITE_PULL_MESSAGE
        header = pull.header()
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
        )


def _offset(command: Command) -> QueueOffset:
    return QueueOffset(read("the broker", lambda: command.header(OffsetAnswer)).offset)


_PULL_STATUS = {int(status.value): status for status in PullStatus}
