"""POP: messages that are given to whoever asks, and come again unless they are acknowledged.

A *pop* is what one request got of one queue; for some time nobody else of the group gets that. A
handle names one message of a pop; who consumed it gives the handle back.

Source: RocketMQ `ExtraInfoUtil`, `KeyBuilder`.
"""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from sprocket.rocketmq.model.integers import Int32, Int64
from sprocket.rocketmq.model.internal import RETRY_PREFIX

REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
"""Before a cluster's name: the topic on which RocketMQ keeps pops."""
REVIVE_QUEUES = 8
"""Of that topic; handles name one of them."""
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
"""Whose progress in that topic says which checkpoints are done."""
ORDERED_REVIVE_QUEUE = 999
"""Stands for a revive queue in handles of messages that are consumed in order."""


class PopTopic(IntEnum):
    """Which topic of a group a message was popped from, as handles say it."""

    NORMAL = 0
    RETRY_V1 = 1
    """`%RETRY%group_topic`."""
    RETRY_V2 = 2
    """`%RETRY%group+topic`."""


def revive_topic(cluster: str) -> str:
    """Return the topic on which the brokers of a cluster keep pops."""
    return REVIVE_TOPIC_PREFIX + cluster


def retry_topic_v1(topic: str, group: str) -> str:
    """Return where messages of a topic wait that a group is to get again, by the older name."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topic_v2(topic: str, group: str) -> str:
    """Return the same by the newer name, which can be taken apart."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def kind_of(topic: str) -> PopTopic:
    """Return which topic of a group one is, by its name."""
    if not topic.startswith(RETRY_PREFIX):
        return PopTopic.NORMAL
    return PopTopic.RETRY_V2 if "+" in topic else PopTopic.RETRY_V1


class PopQuery(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """What a consumer asks for that pops.

    Attributes:
        consumer_group: Who pops.
        topic: What.
        queue_id: Its queue; -1 for all.
        max_msg_nums: How many at most.
        invisible_time: For how many ms nobody else gets them.
        poll_time: For how many ms it may wait for a message, from `born_time` on.
        born_time: When it was sent, wall time; 0 for now.
        init_mode: Where a new group begins: 0 at the first message, 1 at the last.
        exp_type: Of what kind `exp` is; None for TAG.
        exp: Which messages are wanted; None for all.
        order: Whether the next ones come only when these are settled.
        attempt_id: Names the attempt, so that the same one gets the same messages again.
    """

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopHandle(Struct, frozen=True, gc=False):
    """One popped message, as whoever got it names it.

    Attributes:
        start: Queue offset of the first message of its pop.
        popped_at_ms: When it was popped, wall time.
        invisible_ms: For how long nobody else gets it.
        revive_queue: Where RocketMQ keeps what it notes of the pop.
        topic: Which topic of the group it is from.
        broker: The broker's name.
        queue_id: Its queue in that topic.
        queue_offset: Its own offset there; None if the handle is of the whole pop.
    """

    start: int
    popped_at_ms: int
    invisible_ms: int
    revive_queue: int
    topic: PopTopic
    broker: str
    queue_id: int
    queue_offset: int | None = None

    @property
    def due_at_ms(self) -> int:
        """When somebody else may get it, wall time."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def is_ordered(self) -> bool:
        """Whether the message is consumed in order."""
        return self.revive_queue == ORDERED_REVIVE_QUEUE


class PopCheckpoint(Struct, frozen=True):
    """What one pop got of one queue, and what of it was acknowledged when this was written.

    Attributes:
        start: Queue offset where the pop begins.
        popped_at_ms: When it was, wall time.
        invisible_ms: For how long nobody else gets its messages.
        count: How many these are.
        topic: The topic popped from, that of a retry included.
        group: By whom.
        queue_id: The queue.
        broker: The broker's name.
        acked: Bit `i` stands for the message `i` of the pop.
        differences: How far each message is from `start`; none: they follow each other.
        revive_offset: Where it lies in its revive queue, as RocketMQ notes it; 0 elsewhere.
        put_again: How often it was written again because it could not be given again.
    """

    start: int
    popped_at_ms: int
    invisible_ms: int
    count: int
    topic: str
    group: str
    queue_id: int
    broker: str
    acked: int = 0
    differences: Sequence[int] = ()
    revive_offset: int = 0
    put_again: int = 0

    @property
    def due_at_ms(self) -> int:
        """When what was not acknowledged may come again."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def distances(self) -> Sequence[int]:
        """How far each of its messages is from `start`."""
        return self.differences or range(self.count)


class PopAck(Struct, frozen=True):
    """That messages of a pop were acknowledged.

    Attributes:
        start: Queue offset where the pop begins.
        popped_at_ms: When it was, wall time.
        topic: The topic popped from, that of a retry included.
        group: By whom.
        queue_id: The queue.
        broker: The broker's name.
        offsets: The queue offsets of the messages.
    """

    start: int
    popped_at_ms: int
    topic: str
    group: str
    queue_id: int
    broker: str
    offsets: Sequence[int]
