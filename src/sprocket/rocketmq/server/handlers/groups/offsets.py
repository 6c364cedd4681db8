"""Requests about offsets: 14, 15 and 29 to 32."""

from dataclasses import dataclass

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import (
    NoFields,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    TopicQueue,
    UpdateConsumerOffset,
)
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.remoting import Answer, Request, Row, row
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class OffsetHandlers:
    """Where groups are, and where queues begin and end."""

    _store: Store
    _topics: Topics
    _groups: Groups
    _offsets: ConsumerOffsets

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset, self.query, reads),
            row(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffset, self.update),
            row(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset, self.search, reads),
            row(RequestCode.GET_MAX_OFFSET, TopicQueue, self.get_max),
            row(RequestCode.GET_MIN_OFFSET, TopicQueue, self.get_min),
            row(RequestCode.GET_EARLIEST_MSG_STORETIME, TopicQueue, self.get_earliest, reads),
        ]

    def query(self, _: Request, header: QueryConsumerOffset) -> Answer:
        """Answer where a group goes on; a new one may be sent to 0 while that is cheap.

        No group is made, and none has to be there.
        """
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None or offset < 0:
            if not header.set_zero_if_not_found:
                raise RequestRefused(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, do not set to zero, maybe this group boot first",
                )
            if not self._starts_in_memory(header.topic, header.queue_id):
                raise RequestRefused(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            offset = 0
        return Answer(header=OffsetAnswer(offset=offset))

    def update(self, _: Request, header: UpdateConsumerOffset) -> Answer:
        """Note where a group is; on return it outlives the process."""
        if not header.consumer_group.strip() or self._groups.get(header.consumer_group) is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {header.consumer_group} not exist!",
            )
        if self._topics.get(header.topic) is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} not exist!")
        if header.queue_id is None:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, "QueueId is null, topic is " + header.topic
            )
        if header.commit_offset is None:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, "Offset is null, topic is " + header.topic
            )
        is_taken = self._offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )
        return Answer(
            header=NoFields(), remark=None if is_taken else "Offset has been previously reset"
        )

    def search(self, _: Request, header: SearchOffset) -> Answer:
        """Answer the offset for a point in time."""
        offset = self._store.offset_by_time(
            header.topic,
            header.queue_id,
            header.timestamp,
            Boundary.UPPER if header.is_upper else Boundary.LOWER,
        )
        return Answer(header=OffsetAnswer(offset=offset))

    def get_max(self, _: Request, header: TopicQueue) -> Answer:
        """Answer where the queue's next message goes."""
        offset = self._store.queue_range(header.topic, header.queue_id).max
        return Answer(header=OffsetAnswer(offset=offset))

    def get_min(self, _: Request, header: TopicQueue) -> Answer:
        """Answer where the queue's first message is; the remark is empty, as RocketMQ has it."""
        offset = self._store.queue_range(header.topic, header.queue_id).min
        return Answer(header=OffsetAnswer(offset=offset), remark="")

    def get_earliest(self, _: Request, header: TopicQueue) -> Answer:
        """Answer when the queue's first message was stored; −1 for an empty one."""
        first = self._store.queue_range(header.topic, header.queue_id).min
        at_ms = self._store.stored_at_ms(header.topic, header.queue_id, first)
        return Answer(header=TimestampAnswer(timestamp=at_ms))

    def _starts_in_memory(self, topic: str, queue_id: int) -> bool:
        """Tell whether the queue's message 0 is there and near the end of the log."""
        first = self._store.get_messages(topic, queue_id, QueueOffset(0), max_count=1)
        return first.status is GetStatus.FOUND and not first.suggest_slave
