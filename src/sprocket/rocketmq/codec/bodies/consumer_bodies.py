"""Bodies of what a broker asks of a consumer: new offsets, its own offsets, what it is doing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.bodies.body_parts import SUBSCRIPTION
from sprocket.rocketmq.codec.config import AS_GIVEN, As, declared
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue

DirectResult = Literal[
    "CR_SUCCESS",
    "CR_LATER",
    "CR_ROLLBACK",
    "CR_COMMIT",
    "CR_THROW_EXCEPTION",
    "CR_RETURN_NULL",
]
"""What became of a message that a listener was given directly."""


class DirectOutcome(Struct, frozen=True, kw_only=True):
    """The answer of CONSUME_MESSAGE_DIRECTLY 309."""

    written: ClassVar[Mapping[str, object]] = {"autoCommit": True}
    result: str = field(name="consumeResult")
    """One of `DirectResult`, or what a newer client says."""
    orderly: bool = field(name="order", default=False)
    spent_ms: int = field(name="spentTimeMills", default=0)
    remark: Annotated[str, As(str, lambda text: text or None, str)] = ""
    """What the listener raised."""


class QueueInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a consumer holds of one queue; wall times in ms since 1970, 0 for never."""

    written: ClassVar[Mapping[str, object]] = {
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }
    commit_offset: int
    cached_min_offset: int = field(name="cachedMsgMinOffset", default=0)
    cached_max_offset: int = field(name="cachedMsgMaxOffset", default=0)
    cached_count: int = field(name="cachedMsgCount", default=0)
    cached_bytes: Annotated[int, As(int, lambda size: size // MIB, lambda mib: mib * MIB)] = field(
        name="cachedMsgSizeInMiB", default=0
    )
    is_locked: bool = field(name="locked", default=False)
    is_dropped: bool = field(name="droped", default=False)
    pulled_at_ms: int = field(name="lastPullTimestamp", default=0)
    consumed_at_ms: int = field(name="lastConsumeTimestamp", default=0)
    locked_at_ms: int = field(name="lastLockTimestamp", default=0)


class TopicInfo(Struct, frozen=True, kw_only=True):
    """How a consumer did with one topic lately; times in ms, rates in messages a second."""

    pull_ms: float = field(name="pullRT", default=0.0)
    pull_rate: float = field(name="pullTPS", default=0.0)
    consume_ms: float = field(name="consumeRT", default=0.0)
    consume_rate: float = field(name="consumeOKTPS", default=0.0)
    failure_rate: float = field(name="consumeFailedTPS", default=0.0)
    failures: int = field(name="consumeFailedMsgs", default=0)
    """In the last hour."""


class RunningInfo(Struct, frozen=True, kw_only=True):
    """The answer of GET_CONSUMER_RUNNING_INFO 307."""

    written: ClassVar[Mapping[str, object]] = {"mqPopTable": {}, "userConsumerInfo": {}}
    properties: Annotated[Mapping[str, str], AS_GIVEN]
    subscriptions: Iterable[Annotated[Subscription, SUBSCRIPTION]] = field(
        name="subscriptionSet", default=()
    )
    queues: Mapping[MessageQueue, QueueInfo] = field(name="mqTable", default_factory=dict)
    topics: Annotated[Mapping[str, TopicInfo], AS_GIVEN] = field(
        name="statusTable", default_factory=dict
    )
    stacks: str | None = field(name="jstack", default=None)
    """What every thread is at, if that was asked for."""


class QueueOffsets(Struct, frozen=True):
    """The body of RESET_CONSUMER_CLIENT_OFFSET 220, and a Java client's file of offsets."""

    offsets: dict[MessageQueue, int] = field(name="offsetTable")


class ListedOffset(Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue with an offset, as lists have it."""

    topic: str
    broker_name: str
    queue_id: int
    offset: int


class OffsetList(Struct, frozen=True):
    """The body of 220 as C++ clients read it, and our own file of offsets."""

    offsets: Sequence[ListedOffset]

    @classmethod
    def of(cls, offsets: Mapping[MessageQueue, int]) -> "OffsetList":
        """Return the list of a table."""
        return cls(
            [
                ListedOffset(
                    topic=queue.topic,
                    broker_name=queue.broker_name,
                    queue_id=queue.queue_id,
                    offset=offset,
                )
                for queue, offset in offsets.items()
            ]
        )

    def table(self) -> dict[MessageQueue, int]:
        """Return the offsets by queue."""
        return {
            MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset
            for one in self.offsets
        }


class ConsumerStatus(Struct, frozen=True):
    """The answer of GET_CONSUMER_STATUS_FROM_CLIENT 221."""

    written: ClassVar[Mapping[str, object]] = {"consumerTable": {}}
    offsets: Mapping[MessageQueue, int] = field(name="messageQueueTable")


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the body of RESET_CONSUMER_CLIENT_OFFSET 220 in either form. Raises WireError."""
    body = declared.read_answer(data, "a reset")
    table = body.get("offsetTable")
    if isinstance(table, list):
        return declared.read(OffsetList, {"offsets": table}, "a reset").table()
    return declared.read(QueueOffsets, body, "a reset").offsets
