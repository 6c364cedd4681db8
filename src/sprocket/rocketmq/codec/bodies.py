"""JSON bodies of requests and answers, both ways.

RocketMQ writes them with fastjson, whose maps may have integers and objects as keys, without
quotes. We write what each reader needs (remoting spec §15): routes compact, because the Go client
scans their text, with broker ids in quotes for who asked for standard JSON; statistics with objects
as keys, as every Java client expects; everything else as plain JSON. We read whatever a client or
an older broker may write: see `codec.fastjson` and `codec.values`.

What is also in the broker's own files, topics and groups, is told in `codec.tables`; its names are
offered here too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec import fastjson, values
from sprocket.rocketmq.codec.tables import (
    DataVersion,
    RegisterBrokerBody,
    decode_register_broker,
    decode_topic,
    encode_register_broker,
    encode_topic,
    group_from_json,
    group_to_json,
    topic_from_json,
    topic_to_json,
)
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    CONSUME_POP,
    TAG,
    Subscription,
)
from sprocket.rocketmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute

__all__ = [
    "CONSUME_FROM",
    "CONSUME_TYPES",
    "MESSAGE_MODELS",
    "ClientCheck",
    "ClusterInfo",
    "ConsumerData",
    "DataVersion",
    "HeartbeatData",
    "LockBatch",
    "QueueStats",
    "RegisterBrokerBody",
    "TopicStats",
    "decode_client_check",
    "decode_cluster_info",
    "decode_consumer_list",
    "decode_heartbeat",
    "decode_key_values",
    "decode_lock",
    "decode_locked",
    "decode_register_broker",
    "decode_route",
    "decode_topic",
    "decode_topic_list",
    "encode_cluster_info",
    "encode_consumer_list",
    "encode_heartbeat",
    "encode_key_values",
    "encode_lock",
    "encode_locked",
    "encode_register_broker",
    "encode_route",
    "encode_topic",
    "encode_topic_list",
    "encode_topic_stats",
    "group_from_json",
    "group_to_json",
    "topic_from_json",
    "topic_to_json",
]

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

TOLERANT_BYTES_MAX = 512 * KIB
"""Largest body of a client that is read if it is not strict JSON; that takes 0.2 s."""

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """Every broker by its name, and the names of brokers by cluster."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, Sequence[str]]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """What GET_TOPIC_STATS_INFO 202 says of one queue; the time is 0 for an empty one."""

    min_offset: int
    max_offset: int
    last_update_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """The answer of GET_TOPIC_STATS_INFO 202."""

    queues: Mapping[MessageQueue, QueueStats] = field(default_factory=dict)
    put_tps: float = 0.0


def encode_route(route: TopicRoute, *, standard: bool) -> bytes:
    """Write a route.

    Args:
        route: What to write.
        standard: Broker ids in quotes, as JSON demands; clients before 4.9.4 got them without.
            All known clients read both.
    """
    body: dict[str, Any] = {
        "brokerDatas": [_broker_json(broker, standard=standard) for broker in route.brokers],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": queue.broker_name,
                "perm": queue.perm,
                "readQueueNums": queue.read_queues,
                "topicSysFlag": queue.sys_flag,
                "writeQueueNums": queue.write_queues,
            }
            for queue in route.queues
        ],
    }
    if route.order_conf is not None:
        body["orderTopicConf"] = route.order_conf
    return _encode(body)


def decode_route(data: bytes) -> TopicRoute:
    """Read a route. Raises WireError."""
    body = _object(data, "a route")
    order_conf = body.get("orderTopicConf")
    return TopicRoute(
        queues=[_queue(one) for one in values.sequence(body.get("queueDatas"), "queueDatas")],
        brokers=[_broker(one) for one in values.sequence(body.get("brokerDatas"), "brokerDatas")],
        order_conf=None if order_conf is None else values.text(order_conf),
    )


def encode_cluster_info(info: ClusterInfo, *, standard: bool) -> bytes:
    """Write the answer of GET_BROKER_CLUSTER_INFO 106; `standard` as for routes."""
    return _encode(
        {
            "brokerAddrTable": {
                name: _broker_json(broker, standard=standard)
                for name, broker in info.brokers.items()
            },
            "clusterAddrTable": info.clusters,
        }
    )


def decode_cluster_info(data: bytes) -> ClusterInfo:
    """Read the answer of GET_BROKER_CLUSTER_INFO 106. Raises WireError."""
    body = _object(data, "cluster info")
    brokers = values.mapping(body.get("brokerAddrTable"), "brokerAddrTable")
    clusters = values.mapping(body.get("clusterAddrTable"), "clusterAddrTable")
    return ClusterInfo(
        brokers={values.text(name): _broker(one) for name, one in brokers.items()},
        clusters={
            values.text(name): _texts(names, "a cluster") for name, names in clusters.items()
        },
    )


def encode_topic_list(topics: Iterable[str]) -> bytes:
    """Write a list of topics, the answer of 206."""
    return _encode({"topicList": list(topics)})


def decode_topic_list(data: bytes) -> list[str]:
    """Read a list of topics. Raises WireError."""
    return _texts(_object(data, "a topic list").get("topicList"), "topicList")


def encode_consumer_list(client_ids: Iterable[str]) -> bytes:
    """Write the members of a group, the answer of GET_CONSUMER_LIST_BY_GROUP 38."""
    return _encode({"consumerIdList": list(client_ids)})


def decode_consumer_list(data: bytes) -> list[str]:
    """Read the members of a group. Raises WireError."""
    return _texts(_object(data, "a consumer list").get("consumerIdList"), "consumerIdList")


def encode_key_values(table: Mapping[str, str]) -> bytes:
    """Write a table of texts (`KVTable`), the answer of 28 and 103."""
    return _encode({"table": table})


def decode_key_values(data: bytes) -> dict[str, str]:
    """Read a table of texts. Raises WireError."""
    table = values.mapping(_object(data, "a table").get("table"), "table")
    return {values.text(name): values.text(value) for name, value in table.items()}


def encode_heartbeat(heartbeat: HeartbeatData) -> bytes:
    """Write the body of HEART_BEAT 34."""
    return _encode(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": consumer.consume_from_where,
                    "consumeType": consumer.consume_type,
                    "groupName": consumer.group,
                    "messageModel": consumer.message_model,
                    "subscriptionDataSet": [_subscription_json(s) for s in consumer.subscriptions],
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
    body = _object(data, "a heartbeat")
    producers = values.sequence(body.get("producerDataSet"), "producerDataSet")
    consumers = values.sequence(body.get("consumerDataSet"), "consumerDataSet")
    return HeartbeatData(
        client_id=values.text(body.get("clientID")),
        producers=[
            values.text(values.mapping(one, "a producer").get("groupName")) for one in producers
        ],
        consumers=[_consumer(values.mapping(one, "a consumer")) for one in consumers],
        fingerprint=values.member(body, "heartbeatFingerprint", 0),
        without_sub=values.boolean(body.get("withoutSub"), default=False),
    )


def decode_client_check(data: bytes) -> ClientCheck:
    """Read the body of CHECK_CLIENT_CONFIG 46. Raises WireError."""
    body = _object(data, "a client check")
    return ClientCheck(
        client_id=values.text(body.get("clientId")),
        group=values.text(body.get("group")),
        subscription=_subscription(
            values.mapping(body.get("subscriptionData"), "subscriptionData")
        ),
    )


def encode_lock(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    """Write the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""
    return _encode(
        {
            "clientId": client_id,
            "consumerGroup": group,
            "mqSet": [_message_queue_json(queue) for queue in queues],
            "onlyThisBroker": False,
        }
    )


def decode_lock(data: bytes) -> LockBatch:
    """Read the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42. Raises WireError."""
    body = _object(data, "a lock request")
    return LockBatch(
        group=values.text(body.get("consumerGroup")),
        client_id=values.text(body.get("clientId")),
        queues=_message_queues(body.get("mqSet"), "mqSet"),
        only_this_broker=values.boolean(body.get("onlyThisBroker"), default=False),
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write the answer of LOCK_BATCH_MQ 41: the queues that the client has now."""
    return _encode({"lockOKMQSet": [_message_queue_json(queue) for queue in queues]})


def decode_locked(data: bytes) -> list[MessageQueue]:
    """Read the answer of LOCK_BATCH_MQ 41. Raises WireError."""
    return _message_queues(_object(data, "a lock answer").get("lockOKMQSet"), "lockOKMQSet")


def encode_topic_stats(stats: TopicStats) -> bytes:
    """Write the answer of GET_TOPIC_STATS_INFO 202: a map whose keys are objects."""
    entries = (
        _encode(_message_queue_json(queue))
        + b":"
        + _encode(
            {
                "lastUpdateTimestamp": one.last_update_at_ms,
                "maxOffset": one.max_offset,
                "minOffset": one.min_offset,
            }
        )
        for queue, one in stats.queues.items()
    )
    return _encode({"offsetTable": _raw_object(entries), "topicPutTps": stats.put_tps})


def _object(data: bytes, what: str) -> dict[Any, Any]:
    """Read a body that must be an object."""
    body = fastjson.read(data, bytes_max=TOLERANT_BYTES_MAX)
    if not isinstance(body, dict):
        raise WireError(f"the body of {what} is no JSON object")
    return body


def _raw_object(entries: Iterable[bytes]) -> msgspec.Raw:
    """Return an object with entries as they are, for keys that JSON does not have."""
    return msgspec.Raw(b"{" + b",".join(entries) + b"}")


def _texts(value: Any, name: str) -> list[str]:
    return [values.text(one) for one in values.sequence(value, name)]


def _broker_json(broker: BrokerData, *, standard: bool) -> dict[str, Any]:
    quote = '"' if standard else ""
    entries = (
        f"{quote}{broker_id}{quote}:".encode() + _encode(address)
        for broker_id, address in sorted(broker.addresses.items())
    )
    value: dict[str, Any] = {
        "brokerAddrs": _raw_object(entries),
        "brokerName": broker.name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    if broker.zone is not None:
        value["zoneName"] = broker.zone
    return value


def _broker(value: Any) -> BrokerData:
    members = values.mapping(value, "a broker")
    addresses = values.mapping(members.get("brokerAddrs"), "brokerAddrs")
    zone = members.get("zoneName")
    return BrokerData(
        cluster=values.text(members.get("cluster")),
        name=values.text(members.get("brokerName")),
        addresses={
            values.integer(broker_id, "a broker id"): values.text(address)
            for broker_id, address in addresses.items()
        },
        zone=None if zone is None else values.text(zone),
        enable_acting_master=values.boolean(members.get("enableActingMaster"), default=False),
    )


def _queue(value: Any) -> QueueData:
    members = values.mapping(value, "a queue")
    return QueueData(
        broker_name=values.text(members.get("brokerName")),
        read_queues=values.member(members, "readQueueNums", 0),
        write_queues=values.member(members, "writeQueueNums", 0),
        perm=values.member(members, "perm", 0),
        sys_flag=values.member(members, "topicSysFlag", 0),
    )


def _message_queue_json(queue: MessageQueue) -> dict[str, str | int]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def _message_queues(value: Any, name: str) -> list[MessageQueue]:
    return [_message_queue(one) for one in values.sequence(value, name)]


def _message_queue(value: Any) -> MessageQueue:
    members = values.mapping(value, "a message queue")
    return MessageQueue(
        values.text(members.get("topic")),
        values.text(members.get("brokerName")),
        values.member(members, "queueId", 0),
    )


def _subscription_json(subscription: Subscription) -> dict[str, Any]:
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.tags or ()),
        "expressionType": subscription.type,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": subscription.tag_names,
        "topic": subscription.topic,
    }


def _subscription(members: Mapping[Any, Any]) -> Subscription:
    """Read a subscription; tags are worked out from the text, as not every client sends them."""
    kind = members.get("expressionType")
    return Subscription.parse(
        values.text(members.get("topic")),
        values.text(members.get("subString")),
        type=values.text(kind) if kind else TAG,
        version=values.member(members, "subVersion", 0),
    )


def _consumer(members: Mapping[Any, Any]) -> ConsumerData:
    subscriptions = values.sequence(members.get("subscriptionDataSet"), "subscriptionDataSet")
    return ConsumerData(
        group=values.text(members.get("groupName")),
        subscriptions=[_subscription(values.mapping(s, "a subscription")) for s in subscriptions],
        consume_type=_name(members, "consumeType", CONSUME_TYPES, CONSUME_PASSIVELY),
        message_model=_name(members, "messageModel", MESSAGE_MODELS, CLUSTERING),
        consume_from_where=_name(members, "consumeFromWhere", CONSUME_FROM, CONSUME_FROM[0]),
        unit_mode=values.boolean(members.get("unitMode"), default=False),
    )


def _name(members: Mapping[Any, Any], name: str, names: Sequence[str], default: str) -> str:
    """Read one of `names`, or its ordinal."""
    value = members.get(name)
    if value is None:
        return default
    if value in names:
        return str(value)
    ordinal = values.integer(value, name)
    if not 0 <= ordinal < len(names):
        raise WireError(f"{name} is {ordinal}, expected 0 to {len(names) - 1}")
    return names[ordinal]
