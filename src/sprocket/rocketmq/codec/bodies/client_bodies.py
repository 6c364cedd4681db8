"""Bodies that clients send of themselves: heartbeats, checks, members of a group, locks.

Reads whatever a client of any language may write: see `codec.fastjson` and `codec.values`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import values
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData:
    """One consumer group in a heartbeat."""

    group: str
    subscriptions: Sequence[Subscription] = ()
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = CONSUME_FROM[0]
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData:
    """Who a client is: its groups and subscriptions.

    `fingerprint` is 0 for clients of the old kind; `without_sub` says that the subscriptions were
    left out because they have not changed.
    """

    client_id: str
    producers: Sequence[str] = ()
    consumers: Sequence[ConsumerData] = ()
    fingerprint: int = 0
    without_sub: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCheck:
    """The body of CHECK_CLIENT_CONFIG 46: a subscription to be tried."""

    client_id: str
    group: str
    subscription: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBatch:
    """The body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""

    group: str
    client_id: str
    queues: Sequence[MessageQueue]
    only_this_broker: bool = False


def encode_heartbeat(heartbeat: HeartbeatData) -> bytes:
    """Write the body of HEART_BEAT 34."""
    return body_parts.encode(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": consumer.consume_from_where,
                    "consumeType": consumer.consume_type,
                    "groupName": consumer.group,
                    "messageModel": consumer.message_model,
                    "subscriptionDataSet": [
                        body_parts.subscription_json(s) for s in consumer.subscriptions
                    ],
                    "unitMode": consumer.unit_mode,
                }
                for consumer in heartbeat.consumers
            ],
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": name} for name in heartbeat.producers],
            "withoutSub": heartbeat.without_sub,
        }
    )


def decode_heartbeat(data: bytes) -> HeartbeatData:
    """Read the body of HEART_BEAT 34, with ordinals for names as the C++ client sends them.

    Raises:
        WireError: It is no JSON object, or a part of it cannot be read.
    """
    body = body_parts.read_object(data, "a heartbeat")
    producers = values.sequence(body.get("producerDataSet"), "producerDataSet")
    consumers = values.sequence(body.get("consumerDataSet"), "consumerDataSet")
    if producers:
        body_parts.required(body, "clientID", "a heartbeat of producers")
    return HeartbeatData(
        client_id=values.text(body.get("clientID")),
        producers=[
            values.text(
                body_parts.required(values.mapping(one, "a producer"), "groupName", "a producer")
            )
            for one in producers
        ],
        consumers=[_consumer(values.mapping(one, "a consumer")) for one in consumers],
        fingerprint=values.member(body, "heartbeatFingerprint", 0),
        without_sub=values.boolean(body.get("withoutSub"), default=False),
    )


def decode_client_check(data: bytes) -> ClientCheck:
    """Read the body of CHECK_CLIENT_CONFIG 46. Raises WireError."""
    body = body_parts.read_object(data, "a client check")
    return ClientCheck(
        client_id=values.text(body.get("clientId")),
        group=values.text(body.get("group")),
        subscription=body_parts.subscription(
            values.mapping(body.get("subscriptionData"), "subscriptionData")
        ),
    )


def encode_consumer_list(client_ids: Iterable[str]) -> bytes:
    """Write the members of a group, the answer of GET_CONSUMER_LIST_BY_GROUP 38."""
    return body_parts.encode({"consumerIdList": list(client_ids)})


def decode_consumer_list(data: bytes) -> list[str]:
    """Read the members of a group. Raises WireError."""
    return body_parts.texts(
        body_parts.read_answer(data, "a consumer list").get("consumerIdList"), "consumerIdList"
    )


def encode_lock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    """Write the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""
    return body_parts.encode(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": [body_parts.message_queue_json(queue) for queue in queues],
            "onlyThisBroker": False,
        }
    )


def decode_lock(data: bytes, *, is_group_needed: bool = False) -> LockBatch:
    """Read the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.

    Args:
        data: The body.
        is_group_needed: Whether it must name a group even if it names no queues.

    Raises:
        WireError: It cannot be read, `mqSet` is null, or there are queues and no group.
    """
    what = "a lock request"
    body = body_parts.read_object(data, what)
    queues = body_parts.required({"mqSet": []} | body, "mqSet", what)
    if queues or is_group_needed:
        body_parts.required(body, "consumerGroup", what)
    return LockBatch(
        group=values.text(body.get("consumerGroup")),
        client_id=values.text(body.get("clientId")),
        queues=body_parts.message_queues(queues, "mqSet"),
        only_this_broker=values.boolean(body.get("onlyThisBroker"), default=False),
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write the answer of LOCK_BATCH_MQ 41: the queues that the client has now."""
    return body_parts.encode(
        {"lockOKMQSet": [body_parts.message_queue_json(queue) for queue in queues]}
    )


def decode_locked(data: bytes) -> list[MessageQueue]:
    """Read the answer of LOCK_BATCH_MQ 41. Raises WireError."""
    return body_parts.message_queues(
        body_parts.read_answer(data, "a lock answer").get("lockOKMQSet"), "lockOKMQSet"
    )


def _consumer(members: Mapping[Any, Any]) -> ConsumerData:
    what = "a consumer"
    subscriptions = [
        values.mapping(one, "a subscription")
        for one in values.sequence(
            body_parts.required(members, "subscriptionDataSet", what), "subscriptionDataSet"
        )
    ]
    for one in subscriptions:
        body_parts.required(one, "topic", "a subscription")
    return ConsumerData(
        group=values.text(body_parts.required(members, "groupName", what)),
        subscriptions=[body_parts.subscription(one) for one in subscriptions],
        consume_type=_name(members, "consumeType", CONSUME_TYPES, CONSUME_PASSIVELY),
        message_model=_name(members, "messageModel", MESSAGE_MODELS, CLUSTERING),
        consume_from_where=_name(members, "consumeFromWhere", CONSUME_FROM, CONSUME_FROM[0]),
        unit_mode=values.boolean(members.get("unitMode"), default=False),
    )


def _name(members: Mapping[Any, Any], name: str, names: Sequence[str], default: str) -> str:
    """Read one of `names`, or its ordinal; a name that is none of them counts as absent."""
    value = members.get(name)
    if value is None:
        return default
    if isinstance(value, str) and not value.isdecimal():
        return value if value in names else default
    ordinal = values.integer(value, name)
    if not 0 <= ordinal < len(names):
        raise WireError(f"{name} is {ordinal}, expected 0 to {len(names) - 1}")
    return names[ordinal]
