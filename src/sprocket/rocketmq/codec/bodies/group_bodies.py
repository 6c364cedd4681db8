"""Bodies about groups: how they are set up, and who is connected in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import DataVersion, tables, values
from sprocket.rocketmq.model.group import CLUSTERING, CONSUME_PASSIVELY, Subscription
from sprocket.rocketmq.model.group import SubscriptionGroup as Group


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """The answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201.

    `forbidden` has bits by group and topic: bit 0 says that the group may not read the topic.
    """

    version: DataVersion
    groups: Sequence[Group]
    forbidden: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    """One client of a group."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnection:
    """The answer of GET_CONSUMER_CONNECTION_LIST 203."""

    connections: Sequence[ClientConnection]
    subscriptions: Sequence[Subscription] = ()
    consume_type: str = CONSUME_PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """What GET_ALL_PRODUCER_INFO 328 says of one producer; the time is that of its heartbeat."""

    client_id: str
    address: str
    language: str
    version: int
    seen_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSubscription:
    """The answer of QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str
    subscription: Subscription | None = None


def encode_group(group: Group) -> bytes:
    """Write the body of 200, which is the answer of 352 too."""
    return body_parts.encode(tables.group_to_json(group))


def decode_group(data: bytes) -> Group:
    """Read the body of 200, or the answer of 352. Raises WireError."""
    return _group(body_parts.read_object(data, "a group"))


def encode_group_list(groups: Iterable[Group]) -> bytes:
    """Write the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225."""
    return body_parts.encode({"groupConfigList": [tables.group_to_json(one) for one in groups]})


def decode_group_list(data: bytes) -> list[Group]:
    """Read the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225. Raises WireError."""
    body = body_parts.read_object(data, "a list of groups")
    found = body_parts.required(body, "groupConfigList", "a list of groups")
    return [_group(one) for one in values.sequence(found, "groupConfigList")]


def _group(value: Any) -> Group:
    """Read a group that says its name, which may be empty."""
    body_parts.required(values.mapping(value, "a group"), "groupName", "a group")
    return tables.group_from_json("", value)


def encode_group_table(table: GroupTable) -> bytes:
    """Write the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201."""
    return b"".join(group_table_pieces(table))


def group_table_pieces(table: GroupTable) -> Iterator[bytes]:
    """Write the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201 in pieces, by the order of names."""
    return body_parts.gathered(_group_table(table))


def _group_table(table: GroupTable) -> Iterator[bytes]:
    encode = body_parts.encode
    yield b'{"dataVersion":' + encode(table.version.to_json())
    yield b',"forbiddenTable":' + encode(table.forbidden)
    yield b',"subscriptionGroupTable":{'
    mark = b""
    for one in sorted(table.groups, key=lambda one: one.name):
        yield mark + encode(one.name) + b":" + encode(tables.group_to_json(one))
        mark = b","
    yield b"}}"


def decode_group_table(data: bytes) -> GroupTable:
    """Read the answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201. Raises WireError."""
    body = body_parts.read_answer(data, "a table of groups")
    found = values.mapping(body.get("subscriptionGroupTable"), "subscriptionGroupTable")
    forbidden = values.mapping(body.get("forbiddenTable"), "forbiddenTable")
    return GroupTable(
        version=DataVersion.from_json(body.get("dataVersion"), 0),
        groups=[tables.group_from_json(values.text(name), one) for name, one in found.items()],
        forbidden={
            values.text(group): {
                values.text(topic): values.integer(bits, "a set of bits")
                for topic, bits in values.mapping(topics, "forbidden topics").items()
            }
            for group, topics in forbidden.items()
        },
    )


def encode_consumer_connection(found: ConsumerConnection) -> bytes:
    """Write the answer of GET_CONSUMER_CONNECTION_LIST 203."""
    return body_parts.encode(
        {
            "connectionSet": [_connection_json(one) for one in found.connections],
            "consumeFromWhere": found.consume_from_where,
            "consumeType": found.consume_type,
            "messageModel": found.message_model,
            "subscriptionTable": {
                one.topic: body_parts.subscription_json(one) for one in found.subscriptions
            },
        }
    )


def decode_consumer_connection(data: bytes) -> ConsumerConnection:
    """Read the answer of GET_CONSUMER_CONNECTION_LIST 203. Raises WireError."""
    body = body_parts.read_answer(data, "the consumers of a group")
    table = values.mapping(body.get("subscriptionTable"), "subscriptionTable")
    return ConsumerConnection(
        connections=_connections(body.get("connectionSet")),
        subscriptions=[
            body_parts.subscription(values.mapping(one, "a subscription")) for one in table.values()
        ],
        consume_type=values.text(body.get("consumeType")),
        message_model=values.text(body.get("messageModel")),
        consume_from_where=values.text(body.get("consumeFromWhere")),
    )


def encode_producer_connection(connections: Iterable[ClientConnection]) -> bytes:
    """Write the answer of GET_PRODUCER_CONNECTION_LIST 204."""
    return body_parts.encode({"connectionSet": [_connection_json(one) for one in connections]})


def decode_producer_connection(data: bytes) -> list[ClientConnection]:
    """Read the answer of GET_PRODUCER_CONNECTION_LIST 204. Raises WireError."""
    body = body_parts.read_answer(data, "the producers of a group")
    return _connections(body.get("connectionSet"))


def encode_producers(groups: Mapping[str, Sequence[ProducerInfo]]) -> bytes:
    """Write the answer of GET_ALL_PRODUCER_INFO 328: producers by group."""
    return body_parts.encode(
        {
            "data": {
                group: [
                    {
                        "clientId": one.client_id,
                        "language": one.language,
                        "lastUpdateTimestamp": one.seen_at_ms,
                        "remoteIP": f"/{one.address}",  # as Java shows an address
                        "version": one.version,
                    }
                    for one in producers
                ]
                for group, producers in groups.items()
            }
        }
    )


def decode_producers(data: bytes) -> dict[str, list[ProducerInfo]]:
    """Read the answer of GET_ALL_PRODUCER_INFO 328. Raises WireError."""
    table = values.mapping(body_parts.read_answer(data, "all producers").get("data"), "data")
    return {
        values.text(group): [
            ProducerInfo(
                client_id=values.text(one.get("clientId")),
                address=values.text(one.get("remoteIP")).lstrip("/"),
                language=values.text(one.get("language")),
                version=values.member(one, "version", 0),
                seen_at_ms=values.member(one, "lastUpdateTimestamp", 0),
            )
            for one in (
                values.mapping(value, "a producer") for value in values.sequence(group_of, "data")
            )
        ]
        for group, group_of in table.items()
    }


def encode_group_subscription(found: GroupSubscription) -> bytes:
    """Write the answer of QUERY_SUBSCRIPTION_BY_CONSUMER 345."""
    body: dict[str, Any] = {"group": found.group, "topic": found.topic}
    if found.subscription is not None:
        body["subscriptionData"] = body_parts.subscription_json(found.subscription)
    return body_parts.encode(body)


def decode_group_subscription(data: bytes) -> GroupSubscription:
    """Read the answer of QUERY_SUBSCRIPTION_BY_CONSUMER 345. Raises WireError."""
    body = body_parts.read_answer(data, "a group's subscription")
    found = body.get("subscriptionData")
    return GroupSubscription(
        group=values.text(body.get("group")),
        topic=values.text(body.get("topic")),
        subscription=None
        if found is None
        else body_parts.subscription(values.mapping(found, "subscriptionData")),
    )


def _connection_json(one: ClientConnection) -> dict[str, str | int]:
    return {
        "clientAddr": one.address,
        "clientId": one.client_id,
        "language": one.language,
        "version": one.version,
    }


def _connections(value: Any) -> list[ClientConnection]:
    found = (values.mapping(one, "a client") for one in values.sequence(value, "connectionSet"))
    return [
        ClientConnection(
            client_id=values.text(one.get("clientId")),
            address=values.text(one.get("clientAddr")),
            language=values.text(one.get("language")),
            version=values.member(one, "version", 0),
        )
        for one in found
    ]
