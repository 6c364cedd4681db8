"""Bodies about groups: how they are set up, and who is connected in them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Struct, field

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies.body_parts import SUBSCRIPTION
from sprocket.rocketmq.codec.config import (
    REQUIRED,
    As,
    DataVersion,
    by_name,
    declared,
    tables,
    values,
)
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.group import SubscriptionGroup as Group


class GroupTable(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201.

    `forbidden` has bits by group and topic: bit 0 says that the group may not read the topic.
    """

    version: DataVersion = field(name="dataVersion")
    groups: Annotated[Sequence[Group], by_name(Group)] = field(name="subscriptionGroupTable")
    forbidden: Mapping[str, Mapping[str, int]] = field(name="forbiddenTable", default_factory=dict)


class GroupConfigs(Struct, frozen=True):
    """The body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225."""

    what: ClassVar = "a list of groups"
    groups: Annotated[Sequence[Group], REQUIRED] = field(name="groupConfigList")


class ClientConnection(Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group."""

    client_id: str
    address: str = field(name="clientAddr")
    language: str
    version: int


class ConsumerConnection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of GET_CONSUMER_CONNECTION_LIST 203."""

    connections: Sequence[ClientConnection] = field(name="connectionSet")
    subscriptions: Annotated[
        Sequence[Subscription],
        As(
            Mapping[str, Annotated[Subscription, SUBSCRIPTION]],
            lambda found: {one.topic: one for one in found},
            lambda table: list(table.values()),
        ),
    ] = field(name="subscriptionTable")
    consume_type: str
    message_model: str
    consume_from_where: str


class ProducerConnection(Struct, frozen=True):
    """The answer of GET_PRODUCER_CONNECTION_LIST 204."""

    connections: Sequence[ClientConnection] = field(name="connectionSet")


class ProducerInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What GET_ALL_PRODUCER_INFO 328 says of one producer; the time is that of its heartbeat."""

    client_id: str
    address: Annotated[
        str,
        As(str, "/{}".format, lambda text: text.lstrip("/")),  # as Java shows an address
    ] = field(name="remoteIP")
    language: str
    version: int
    seen_at_ms: int = field(name="lastUpdateTimestamp")


class ProducerTable(Struct, frozen=True):
    """The answer of GET_ALL_PRODUCER_INFO 328: producers by group."""

    groups: dict[str, list[ProducerInfo]] = field(name="data")


class GroupSubscription(Struct, frozen=True, kw_only=True):
    """The answer of QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str
    subscription: Annotated[Subscription | None, SUBSCRIPTION] = field(
        name="subscriptionData", default=None
    )


def decode_group(data: bytes) -> Group:
    """Read the body of 200, which must name the group. Raises WireError."""
    return _group(declared.read_request(data, "a group"))


def decode_groups(data: bytes) -> list[Group]:
    """Read the body of 225, which must name each group. Raises WireError."""
    body = declared.read_request(data, "a list of groups")
    declared.read(GroupConfigs, body, "a list of groups")
    return [_group(one) for one in body["groupConfigList"]]


def _group(value: Any) -> Group:
    found = values.mapping(value, "a group")
    if found.get("groupName") is None:
        raise WireError("a group without groupName")
    return tables.group_from_json("", found)
