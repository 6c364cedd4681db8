"""Bodies that clients send of themselves: heartbeats, checks, members of a group, locks."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Struct, field

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies.body_parts import SUBSCRIPTION, TopicSubscription
from sprocket.rocketmq.codec.config import REQUIRED, As, OneOf, declared
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    CONSUME_POP,
    Subscription,
)
from sprocket.rocketmq.model.route import MessageQueue

CONSUME_TYPES = (CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP)
MESSAGE_MODELS = (BROADCASTING, CLUSTERING)
CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
"""Names by their ordinals, which the C++ client sends in their place."""


class ConsumerData(Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group in a heartbeat."""

    what: ClassVar = "a consumer"
    group: Annotated[str, REQUIRED] = field(name="groupName")
    subscriptions: Annotated[Sequence[TopicSubscription], REQUIRED] = field(
        name="subscriptionDataSet", default=()
    )
    consume_type: Annotated[str, OneOf(CONSUME_TYPES)] = CONSUME_PASSIVELY
    message_model: Annotated[str, OneOf(MESSAGE_MODELS)] = CLUSTERING
    consume_from_where: Annotated[str, OneOf(CONSUME_FROM)] = CONSUME_FROM[0]
    unit_mode: bool = False


class _Producer(Struct, frozen=True):
    what: ClassVar = "a producer"
    group: Annotated[str, REQUIRED] = field(name="groupName")


class HeartbeatData(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who a client is: its groups and subscriptions. The body of HEART_BEAT 34.

    `fingerprint` is 0 for clients of the old kind; `without_sub` says that the subscriptions were
    left out because they have not changed.
    """

    client_id: str = field(name="clientID")
    producers: Annotated[
        Sequence[str],
        As(
            Sequence[_Producer],
            lambda names: [_Producer(name) for name in names],
            lambda found: [one.group for one in found],
        ),
    ] = field(name="producerDataSet", default=())
    consumers: Sequence[ConsumerData] = field(name="consumerDataSet", default=())
    fingerprint: int = field(name="heartbeatFingerprint", default=0)
    without_sub: bool = False


class ClientCheck(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of CHECK_CLIENT_CONFIG 46: a subscription to be tried."""

    client_id: str
    group: str
    subscription: Annotated[Subscription, SUBSCRIPTION] = field(name="subscriptionData")


class ConsumerIds(Struct, frozen=True):
    """The members of a group, the answer of GET_CONSUMER_LIST_BY_GROUP 38."""

    client_ids: list[str] = field(name="consumerIdList")


class LockBatch(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""

    group: str = field(name="consumerGroup")
    client_id: str
    queues: Sequence[MessageQueue] = field(name="mqSet")
    only_this_broker: bool = False


class LockedQueues(Struct, frozen=True):
    """The answer of LOCK_BATCH_MQ 41: the queues that the client has now."""

    queues: Sequence[MessageQueue] = field(name="lockOKMQSet")


def decode_heartbeat(data: bytes) -> HeartbeatData:
    """Read the body of HEART_BEAT 34, with ordinals for names as the C++ client sends them.

    Raises:
        WireError: It is no JSON object, or a part of it cannot be read, or is absent.
    """
    body = declared.read_request(data, "a heartbeat")
    found = declared.read(HeartbeatData, body, "a heartbeat")
    if found.producers and body.get("clientID") is None:
        raise WireError("a heartbeat of producers without clientID")
    return found


def decode_lock(data: bytes, *, is_group_needed: bool = False) -> LockBatch:
    """Read the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.

    Args:
        data: The body.
        is_group_needed: Whether it must name a group even if it names no queues.

    Raises:
        WireError: It cannot be read, `mqSet` is null, or there are queues and no group.
    """
    body = {"mqSet": []} | declared.read_request(data, "a lock request")
    found = declared.read(LockBatch, body, "a lock request")
    needed = ("mqSet", "consumerGroup") if found.queues or is_group_needed else ("mqSet",)
    for name in needed:
        if body.get(name) is None:
            raise WireError(f"a lock request without {name}")
    return found
