"""Where an administrator sends a group."""

from msgspec import Struct

from sprocket.rocketmq.model.integers import Int32, Int64


class OffsetReset(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Where a group is to go on in a topic.

    Attributes:
        topic: The topic.
        group: The group.
        timestamp: From messages of this time on, ms since 1970; negative: after the last message.
        is_force: Also forwards, past messages that were never consumed, as RocketMQ 4 asks;
            our broker moves a group either way.
        queue_id: In this queue; negative: in all queues.
        offset: At this offset, if it is one queue; None or −1: by time.
    """

    topic: str
    group: str = ""
    timestamp: Int64 = 0
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None
