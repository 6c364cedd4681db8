"""How far groups are in queues; members are named as RocketMQ's JSON does."""

from collections.abc import Mapping

from msgspec import Struct, field

from sprocket.rocketmq.model.route import MessageQueue


class QueueProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in one queue.

    Attributes:
        broker_offset: Where the queue's next message goes.
        consumer_offset: Where the group goes on.
        pull_offset: Where its last pull ended, or its last pop if something of it is in flight; 0
            if there was none.
        last_consumed_at_ms: Store time of the last message before `consumer_offset`; 0 for none.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    last_consumed_at_ms: int = field(name="lastTimestamp", default=0)

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        """Messages that were pulled or popped and are not consumed."""
        return self.pull_offset - self.consumer_offset


class ConsumeStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in the queues of some topics."""

    queues: Mapping[MessageQueue, QueueProgress] = field(name="offsetTable", default_factory=dict)
    consume_tps: float = 0.0

    @property
    def lag(self) -> int:
        """Messages that are not consumed, of all queues."""
        return sum(one.lag for one in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not consumed, of all queues."""
        return sum(one.in_flight for one in self.queues.values())


class ConsumeTimeSpan(Struct, frozen=True, kw_only=True, rename="camel"):
    """From when to when a queue has messages, and up to when a group has consumed them.

    Times are in ms since 1970.

    Attributes:
        queue: The queue.
        min_at_ms: When its oldest message was stored.
        max_at_ms: When its newest one was.
        consumed_at_ms: When the last message that the group consumed was.
        delay_ms: How long the group's next message has waited; 0 if there is none.
    """

    queue: MessageQueue = field(name="messageQueue")
    min_at_ms: int = field(name="minTimeStamp")
    max_at_ms: int = field(name="maxTimeStamp")
    consumed_at_ms: int = field(name="consumeTimeStamp")
    delay_ms: int = field(name="delayTime")
