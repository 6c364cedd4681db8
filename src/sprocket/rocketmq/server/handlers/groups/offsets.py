"""Requests about offsets: 14, 15 and 29 to 32; those by which they are moved: 222, 308 and 314."""

from dataclasses import dataclass

from sprocket.rocketmq.broker.delivery import CommitOutcome, OffsetService
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import Corrections, QueueOffsets
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.ext import FieldUnreadable
from sprocket.rocketmq.codec.headers import (
    CloneOffsets,
    CorrectionOffsets,
    NoFields,
    OffsetAnswer,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    TimestampAnswer,
    TopicQueue,
    UpdateConsumerOffset,
)
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.read import Boundary
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads

_REMARKS = {
    CommitOutcome.KEPT: None,
    CommitOutcome.OF_DELETED_TOPIC: "Offset is of a topic that was deleted",
    CommitOutcome.RESET_BEFORE: "Offset has been previously reset",
}


@dataclass(frozen=True, slots=True)
class OffsetHandlers:
    """Where groups are and where they go on, and where queues begin and end."""

    _store: Store
    _offsets: OffsetService
    _broker_name: str

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffset, self.query, reads),
            row(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffset, self.update),
            row(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffset, self.search, reads),
            row(RequestCode.GET_MAX_OFFSET, TopicQueue, self.get_max),
            row(RequestCode.GET_MIN_OFFSET, TopicQueue, self.get_min),
            row(RequestCode.GET_EARLIEST_MSG_STORETIME, TopicQueue, self.get_earliest, reads),
            row(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset, self.reset, reads),
            row(RequestCode.QUERY_CORRECTION_OFFSET, CorrectionOffsets, self.corrections),
            row(RequestCode.CLONE_GROUP_OFFSET, CloneOffsets, self.clone),
        ]

    def query(self, _: Request, header: QueryConsumerOffset) -> Answer:
        """Answer where a group goes on."""
        offset = self._offsets.query(
            header.consumer_group,
            header.topic,
            header.queue_id,
            may_begin=header.set_zero_if_not_found,
        )
        return Answer(header=OffsetAnswer(offset=offset))

    def update(self, _: Request, header: UpdateConsumerOffset) -> Answer:
        """Note where a group is; on return it outlives the process."""
        outcome = self._offsets.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )
        return Answer(header=NoFields(), remark=_REMARKS[outcome])

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

    def reset(self, _: Request, header: ResetOffset) -> Answer:
        """Send a group to a time, to the end, or in one queue to an offset."""
        moved = {
            MessageQueue(header.topic, self._broker_name, queue_id): offset
            for queue_id, offset in self._offsets.reset(header).items()
        }
        return Answer(body=(bodies.encode(QueueOffsets(moved)),))

    def corrections(self, _: Request, header: CorrectionOffsets) -> Answer:
        """Answer the smallest offset of any group by queue, some groups forgotten first."""
        names = (header.filter_groups or "").split(",")
        smallest = self._offsets.smallest(header.topic, filter(None, map(str.strip, names)))
        return Answer(body=(bodies.encode(Corrections(smallest)),))

    def clone(self, _: Request, header: CloneOffsets) -> Answer:
        """Give one group the offsets of another; nothing happens if either is not named."""
        source, target = header.src_group, header.dest_group
        if source is None and not header.topic:
            raise FieldUnreadable("neither a group nor a topic is named to be cloned")
        if source and target:
            self._offsets.clone(source, target, header.topic, is_offline=header.offline)
        return Answer()
