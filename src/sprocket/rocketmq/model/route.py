"""Where a topic lies: its queues by broker, and the brokers' addresses.

The structs name their members as RocketMQ's JSON does.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

MASTER_ID = 0
"""The broker id of a master; any other is a slave's."""
FIRST_SLAVE_ID = 1
"""The one that RocketMQ has clients read, if they are to read a slave."""

Replica: TypeAlias = Literal["master", "prefer"]
"""What of a broker is read: its master, or a slave wherever there is one."""


class MessageQueue(Struct, frozen=True, order=True, gc=False, rename="camel"):
    """One queue of a topic on one broker; ordered as clients agree on when they share queues out.

    A struct, because it is a key in tables that are asked for each message.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class QueueSlice(Struct, frozen=True, gc=False):
    """Messages of one queue: from offset `start` up to `end`."""

    queue: MessageQueue
    start: int
    end: int


class QueueData(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many queues of a topic one broker has, and what may be done with them."""

    broker_name: str
    read_queues: int = field(name="readQueueNums")
    write_queues: int = field(name="writeQueueNums")
    perm: int
    sys_flag: int = field(name="topicSysFlag", default=0)


class BrokerData(Struct, frozen=True, kw_only=True, rename="camel"):
    """The processes that share one broker name: broker id → `host:port`."""

    cluster: str
    name: str = field(name="brokerName")
    addresses: Mapping[int, str] = field(name="brokerAddrs")
    zone: str | None = field(name="zoneName", default=None)
    enable_acting_master: bool = False


class ClusterInfo(Struct, frozen=True, kw_only=True):
    """What a NameServer says of all brokers: brokers by name, their names by cluster."""

    brokers: Mapping[str, BrokerData] = field(name="brokerAddrTable")
    clusters: Mapping[str, Sequence[str]] = field(name="clusterAddrTable")


class TopicRoute(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a NameServer says of one topic."""

    queues: Sequence[QueueData] = field(name="queueDatas")
    brokers: Sequence[BrokerData] = field(name="brokerDatas")
    order_conf: str | None = field(name="orderTopicConf", default=None)
    """`broker:count;…` for topics whose order is global; replaces the queues for producers."""
    filter_servers: Mapping[str, Sequence[str]] = field(
        name="filterServerTable", default_factory=dict
    )
    """Broker address → its filter servers, which brokers before 5 may have."""
