"""What is asked of the offsets from which groups go on: by clients, and by administrators.

The broker keeps a reset; nothing is pushed to consumers. Each consumer learns of it at its next
pull of the queue, and until then its commits for that queue are ignored. A pull that waits is
answered at once, so that it need not wait for a message.

Source: RocketMQ `ConsumerManageProcessor` and `AdminBrokerProcessor`. Unlike there, a clone without
a topic clones all topics, and the pull that learns of a reset does not overwrite it with what it
would commit itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from sprocket.base.disk import gather
from sprocket.rocketmq.broker.delivery.pull_hold import PullHold
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.offset_reset import OffsetReset
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store


class CommitOutcome(Enum):
    """What became of a commit."""

    KEPT = auto()
    OF_DELETED_TOPIC = auto()
    """It is ignored: a group that has begun anew would be sent past the end."""
    RESET_BEFORE = auto()
    """It is ignored: the group does not know yet where it was sent."""


@dataclass(frozen=True, slots=True)
class OffsetService:
    """Tells, notes and moves where groups go on."""

    _store: Store
    _topics: Topics
    _groups: Groups
    _members: ClientManager
    _offsets: ConsumerOffsets
    _hold: PullHold

    def query(self, group: str, topic: str, queue_id: int, *, may_begin: bool) -> int:
        """Return where a group goes on; no group is made, and none has to be there.

        Args:
            group: The group.
            topic: The topic.
            queue_id: Its queue.
            may_begin: A group that never committed here may be sent to 0, while that is cheap.

        Raises:
            Refused: NOT_FOUND.
        """
        offset = self._offsets.get(group, topic, queue_id)
        if offset is not None and offset >= 0:
            return offset
        remark = "Not found, do not set to zero, maybe this group boot first"
        if may_begin:
            first = self._store.get_messages(topic, queue_id, QueueOffset(0), max_count=1)
            if first.status is GetStatus.FOUND and not first.suggest_slave:  # near the log's end
                return 0
            remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        raise Refused(Refusal.NOT_FOUND, remark)

    def commit(
        self, group: str, topic: str, queue_id: int | None, offset: int | None
    ) -> CommitOutcome:
        """Note where a group is; on return it outlives the process.

        Raises:
            Refused: Group or topic is not there, or a number is None.
            DiskFull, DiskFailed: As `ConsumerOffsets.commit`.
        """
        self._groups.existing(group, "Group {} not exist!")
        self._topics.existing(topic, "Topic {} not exist!")
        if queue_id is None:
            raise Refused(Refusal.INVALID_ARGUMENT, "QueueId is null, topic is " + topic)
        if offset is None:
            raise Refused(Refusal.INVALID_ARGUMENT, "Offset is null, topic is " + topic)
        if self._store.is_made_anew(topic) and offset > self._store.queue_end(topic, queue_id):
            return CommitOutcome.OF_DELETED_TOPIC
        is_kept = self._offsets.commit(group, topic, queue_id, offset)
        return CommitOutcome.KEPT if is_kept else CommitOutcome.RESET_BEFORE

    def reset(self, asked: OffsetReset) -> dict[int, int]:
        """Send a group to a time, to the end, or in one queue to an offset.

        Returns:
            Where it goes on, by queue.

        Raises:
            Refused: Group, topic or queues are not there, or the offset lies outside of the queue.
            DiskFull, DiskFailed: As `ConsumerOffsets.reset`; some queues may be reset.
        """
        topic = self._topics.existing(asked.topic, "Topic {} does not exist")
        self._groups.existing(asked.group, "Group {} does not exist")
        queues = [asked.queue_id] if asked.queue_id >= 0 else range(topic.read_queues)
        found = gather(partial(self._target, asked, queue_id) for queue_id in queues)
        if not found:
            raise Refused(Refusal.OTHER, f"Topic {topic.name} has no queues to reset")
        targets = dict(zip(queues, found, strict=True))
        for queue_id, offset in targets.items():
            self._offsets.reset(asked.group, topic.name, queue_id, offset)
            self._hold.wake(topic.name, queue_id)
        return targets

    def smallest(self, topic: str, without: Iterable[str]) -> dict[int, int]:
        """Return by queue the smallest offset of any group that still has a message.

        Args:
            topic: The topic.
            without: Groups whose offsets are forgotten first, in every topic.

        Raises:
            DiskFull, DiskFailed: As `ConsumerOffsets.forget`.
        """
        for group in without:
            self._offsets.forget(group)
        found: dict[int, int] = {}
        for queue_id, offsets in sorted(self._offsets.by_queue(topic).items()):
            low = self._store.queue_range(topic, queue_id).min
            if there := [offset for offset in offsets if offset >= low]:
                found[queue_id] = min(there)
        return found

    def clone(self, source: str, target: str, topic: str | None, *, is_offline: bool) -> None:
        """Give one group the offsets of another.

        Args:
            source: Whose.
            target: For whom.
            topic: In which topic; None or empty: in all that the source has committed in.
            is_offline: Also in topics to which the target is not subscribed.

        Raises:
            DiskFull, DiskFailed: As `ConsumerOffsets.clone`.
        """
        members = self._members.consumers(target)
        for name in [topic] if topic else self._offsets.topics_of(source):
            may_take_over = is_offline or members.may_follow(name)
            if may_take_over and self._topics.get(name) is not None:
                self._offsets.clone(source, target, name)

    def _target(self, asked: OffsetReset, queue_id: int) -> int:
        """Return where one queue is reset to; raises Refused."""
        offset = asked.offset
        if asked.queue_id >= 0 and offset is not None and offset != -1:
            low, high = self._store.queue_range(asked.topic, queue_id)
            if not low <= offset <= high + 1:
                remark = f"Target offset {offset} not in consume queue range [{low}-{high}]"
                raise Refused(Refusal.OTHER, remark)
            return offset
        if asked.timestamp < 0:
            return self._store.queue_range(asked.topic, queue_id).max
        return self._store.offset_by_time(asked.topic, queue_id, asked.timestamp, Boundary.LOWER)
