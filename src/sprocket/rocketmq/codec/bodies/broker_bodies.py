"""Bodies of what NameServers and brokers say of brokers and topics.

Routes are structs of `model.route`, topics and groups, which are in the broker's own files too, of
`model.topic` and `model.group`. Routes and clusters are compact, because the Go client scans their
text; their broker ids are in quotes if the client asked for standard JSON. All known clients read
both.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from sprocket.rocketmq.model.route import BrokerData


class ClusterInfo(Struct, frozen=True, kw_only=True):
    """The answer of GET_BROKER_CLUSTER_INFO 106: brokers by name, their names by cluster."""

    brokers: Mapping[str, BrokerData] = field(name="brokerAddrTable")
    clusters: Mapping[str, Sequence[str]] = field(name="clusterAddrTable")


class MemberGroup(Struct, frozen=True, kw_only=True):
    """The processes of one broker by their numbers; cluster and name as they were asked for."""

    addresses: Mapping[int, str] = field(name="brokerAddrs")
    name: str | None = field(name="brokerName")
    cluster: str | None


class MemberGroups(Struct, frozen=True):
    """The answer of GET_BROKER_MEMBER_GROUP 901."""

    group: MemberGroup = field(name="brokerMemberGroup")


class TopicNames(Struct, frozen=True, kw_only=True):
    """The answer of 206 and 343, and of 304 with a broker that knows others."""

    broker_address: str | None = field(name="brokerAddr", default=None)
    topics: Sequence[str] = field(name="topicList")


class KeyValueTable(Struct, frozen=True):
    """A table of texts (`KVTable`), the answer of 28 and 103."""

    table: Mapping[str, str]
