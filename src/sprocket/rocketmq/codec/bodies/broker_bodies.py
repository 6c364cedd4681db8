"""JSON bodies of what NameServers and brokers say of brokers and topics, both ways.

RocketMQ writes them with fastjson, whose maps may have integers and objects as keys, without
quotes. We write what each reader needs. Routes are compact, because the Go client scans their text;
their broker ids are in quotes if the client asked for standard JSON. Everything else is plain JSON.
We read whatever a client or an older broker may write: see `codec.fastjson` and `codec.values`.

Topics and groups, which are in the broker's own files too, are in `codec.tables`; its names can be
imported from here as well. What clients say about themselves is in `client_bodies`, statistics are
in `admin_bodies`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import (
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
    values,
)
from sprocket.rocketmq.model.route import BrokerData, QueueData, TopicRoute

__all__ = [
    "ClusterInfo",
    "DataVersion",
    "RegisterBrokerBody",
    "decode_cluster_info",
    "decode_key_values",
    "decode_register_broker",
    "decode_route",
    "decode_topic",
    "decode_topic_list",
    "decode_version",
    "encode_cluster_info",
    "encode_key_values",
    "encode_members",
    "encode_register_broker",
    "encode_route",
    "encode_topic",
    "encode_topic_list",
    "encode_version",
    "group_from_json",
    "group_to_json",
    "topic_from_json",
    "topic_to_json",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """Every broker by its name, and the names of brokers by cluster."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, Sequence[str]]


def encode_route(route: TopicRoute, *, standard: bool) -> bytes:
    """Write a route.

    Args:
        route: What to write.
        standard: Broker ids in quotes, as JSON demands; clients before 4.9.4 got them without.
            All known clients read both.
    """
    body: dict[str, Any] = {
        "brokerDatas": [_broker_json(broker, standard=standard) for broker in route.brokers],
        "filterServerTable": route.filter_servers,
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
    return body_parts.encode(body)


def decode_route(data: bytes) -> TopicRoute:
    """Read a route. Raises WireError."""
    body = body_parts.read_answer(data, "a route")
    order_conf = body.get("orderTopicConf")
    return TopicRoute(
        queues=[_queue(one) for one in values.sequence(body.get("queueDatas"), "queueDatas")],
        brokers=[_broker(one) for one in values.sequence(body.get("brokerDatas"), "brokerDatas")],
        order_conf=None if order_conf is None else values.text(order_conf),
    )


def encode_cluster_info(info: ClusterInfo, *, standard: bool) -> bytes:
    """Write the answer of GET_BROKER_CLUSTER_INFO 106; `standard` as for routes."""
    return body_parts.encode(
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
    body = body_parts.read_answer(data, "cluster info")
    brokers = values.mapping(body.get("brokerAddrTable"), "brokerAddrTable")
    clusters = values.mapping(body.get("clusterAddrTable"), "clusterAddrTable")
    return ClusterInfo(
        brokers={values.text(name): _broker(one) for name, one in brokers.items()},
        clusters={
            values.text(name): body_parts.texts(names, "a cluster")
            for name, names in clusters.items()
        },
    )


def encode_members(
    addresses: Mapping[int, str], cluster: str | None, name: str | None, *, standard: bool
) -> bytes:
    """Write the answer of GET_BROKER_MEMBER_GROUP 901.

    Args:
        addresses: Of the processes, by their numbers.
        cluster: As it was asked for.
        name: The same.
        standard: As for routes.
    """
    group: dict[str, object] = {"brokerAddrs": _addresses_json(addresses, standard=standard)}
    if name is not None:
        group["brokerName"] = name
    if cluster is not None:
        group["cluster"] = cluster
    return body_parts.encode({"brokerMemberGroup": group})


def encode_version(version: DataVersion) -> bytes:
    """Write the answer of QUERY_DATA_VERSION 322."""
    return body_parts.encode(version.to_json())


def decode_version(data: bytes) -> DataVersion:
    """Read the body of QUERY_DATA_VERSION 322. Raises WireError."""
    return DataVersion.from_json(body_parts.read_object(data, "a version"), 0)


def encode_topic_list(topics: Iterable[str], broker_addr: str | None = None) -> bytes:
    """Write a list of topics, the answer of 206; of 304 with a broker that knows others."""
    named = {} if broker_addr is None else {"brokerAddr": broker_addr}
    return body_parts.encode(named | {"topicList": list(topics)})


def decode_topic_list(data: bytes) -> list[str]:
    """Read a list of topics. Raises WireError."""
    return body_parts.texts(
        body_parts.read_answer(data, "a topic list").get("topicList"), "topicList"
    )


def encode_key_values(table: Mapping[str, str]) -> bytes:
    """Write a table of texts (`KVTable`), the answer of 28 and 103."""
    return body_parts.encode({"table": table})


def decode_key_values(data: bytes) -> dict[str, str]:
    """Read a table of texts. Raises WireError."""
    table = values.mapping(body_parts.read_answer(data, "a table").get("table"), "table")
    return {values.text(name): values.text(value) for name, value in table.items()}


def _addresses_json(addresses: Mapping[int, str], *, standard: bool) -> msgspec.Raw:
    quote = '"' if standard else ""
    entries = (
        f"{quote}{broker_id}{quote}:".encode() + body_parts.encode(address)
        for broker_id, address in sorted(addresses.items())
    )
    return body_parts.raw_object(entries)


def _broker_json(broker: BrokerData, *, standard: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "brokerAddrs": _addresses_json(broker.addresses, standard=standard),
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
