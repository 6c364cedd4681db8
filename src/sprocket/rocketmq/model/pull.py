"""What a consumer asks for that pulls from a queue."""

from msgspec import Struct

from sprocket.rocketmq.model.integers import Int32, Int64

COMMIT = 1
SUSPEND = 2
SUBSCRIPTION = 4
LITE = 16
"""Bits of `PullQuery.sys_flag`: an offset is to be committed; the pull may wait for a message; it
says which messages are wanted; its user asks, not a consumer that runs by itself."""


class PullQuery(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Messages of one queue from an offset on.

    Attributes:
        consumer_group: Who pulls.
        topic: What.
        queue_id: Its queue.
        queue_offset: The first message wanted.
        max_msg_nums: How many at most.
        sys_flag: The bits above; 8 class filter.
        commit_offset: Where the group goes on, if that bit is set.
        suspend_timeout_millis: How long it may wait, if that bit is set.
        subscription: What is wanted, if that bit is set.
        sub_version: The version of that, or what the group must have at least.
        expression_type: What kind of expression that is; None for TAG.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
