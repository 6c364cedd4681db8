"""Requests about offsets: 14, 15 and 29 to 32; those by which they are moved: 222, 308 and 314.

The broker keeps a reset; nothing is pushed to consumers. Each consumer learns of it at its next
pull of the queue, and until then its commits for that queue are ignored. A pull that waits is
answered at once, so that it need not wait for a message.

Source: RocketMQ `AdminBrokerProcessor`. Unlike there, a clone without a topic clones all topics,
and the pull that learns of a reset does not overwrite it with what it would commit itself.
"""

from dataclasses import dataclass
from functools import partial

from sprocket.base.disk import gather
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
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
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class OffsetHandlers:
    """Where groups are and where they go on, and where queues begin and end."""

    _store: Store
    _topics: Topics
    _groups: Groups
    _members: ClientManager
    _offsets: ConsumerOffsets
    _hold: PullHold
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
        """Answer where a group goes on; a new one may be sent to 0 while that is cheap.

        No group is made, and none has to be there.
        """
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None or offset < 0:
            if not header.set_zero_if_not_found:
                raise Refused(
                    Refusal.NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
                )
            if not self._starts_in_memory(header.topic, header.queue_id):
                raise Refused(
                    Refusal.NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            offset = 0
        return Answer(header=OffsetAnswer(offset=offset))

    def update(self, _: Request, header: UpdateConsumerOffset) -> Answer:
        """Note where a group is; on return it outlives the process."""
        self._groups.existing(header.consumer_group, "Group {} not exist!")
        self._topics.existing(header.topic, "Topic {} not exist!")
        if header.queue_id is None:
            raise Refused(Refusal.INVALID_ARGUMENT, "QueueId is null, topic is " + header.topic)
        if header.commit_offset is None:
            raise Refused(Refusal.INVALID_ARGUMENT, "Offset is null, topic is " + header.topic)
        is_old = self._store.is_made_anew(header.topic) and (
            header.commit_offset > self._store.queue_end(header.topic, header.queue_id)
        )
        if is_old:  # a group that has begun anew would be sent past the end
            return Answer(header=NoFields(), remark="Offset is of a topic that was deleted")
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

    def reset(self, _: Request, header: ResetOffset) -> Answer:
        """Send a group to a time, to the end, or in one queue to an offset."""
        topic = self._topics.existing(header.topic, "Topic {} does not exist")
        self._groups.existing(header.group, "Group {} does not exist")
        if header.queue_id >= 0:
            targets = {header.queue_id: self._target_of_one(header)}
        else:
            queues = range(topic.read_queues)
            found = gather(partial(self._target_by_time, header, queue_id) for queue_id in queues)
            targets = dict(zip(queues, found, strict=True))
        if not targets:
            raise Refused(Refusal.OTHER, f"Topic {header.topic} has no queues to reset")
        for queue_id, offset in targets.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
            self._hold.wake(header.topic, queue_id)
        moved = {
            MessageQueue(header.topic, self._broker_name, queue_id): offset
            for queue_id, offset in targets.items()
        }
        return Answer(body=(bodies.encode(QueueOffsets(moved)),))

    def corrections(self, _: Request, header: CorrectionOffsets) -> Answer:
        """Answer the smallest offset of any group by queue, some groups forgotten first."""
        for group in (header.filter_groups or "").split(","):
            if group.strip():
                self._offsets.forget(group.strip())
        offsets = self._offsets.by_queue(header.topic)
        smallest: dict[int, int] = {}
        for queue_id in sorted(offsets):
            low = self._store.queue_range(header.topic, queue_id).min
            there = [offset for offset in offsets[queue_id] if offset >= low]
            if there:
                smallest[queue_id] = min(there)
        return Answer(body=(bodies.encode(Corrections(smallest)),))

    def clone(self, _: Request, header: CloneOffsets) -> Answer:
        """Give one group the offsets of another; nothing happens if either is not named."""
        if header.src_group is None and not header.topic:
            raise FieldUnreadable("neither a group nor a topic is named to be cloned")
        if not header.src_group or not header.dest_group:
            return Answer()
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        target = self._members.consumers(header.dest_group)
        for topic in topics:
            may_take_over = header.offline or target.may_follow(topic)
            if may_take_over and self._topics.get(topic) is not None:
                self._offsets.clone(header.src_group, header.dest_group, topic)
        return Answer()

    def _starts_in_memory(self, topic: str, queue_id: int) -> bool:
        """Tell whether the queue's message 0 is there and near the end of the log."""
        first = self._store.get_messages(topic, queue_id, QueueOffset(0), max_count=1)
        return first.status is GetStatus.FOUND and not first.suggest_slave

    def _target_of_one(self, header: ResetOffset) -> int:
        """Return where one queue is reset to.

        Raises:
            Refused: The offset lies outside of the queue.
        """
        offset = header.offset
        if offset is None or offset == -1:
            return self._target_by_time(header, header.queue_id)
        low, high = self._store.queue_range(header.topic, header.queue_id)
        if not low <= offset <= high + 1:
            raise Refused(
                Refusal.OTHER, f"Target offset {offset} not in consume queue range [{low}-{high}]"
            )
        return offset

    def _target_by_time(self, header: ResetOffset, queue_id: int) -> int:
        if header.timestamp < 0:
            return self._store.queue_range(header.topic, queue_id).max
        return self._store.offset_by_time(header.topic, queue_id, header.timestamp, Boundary.LOWER)
