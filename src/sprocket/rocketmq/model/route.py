"""Where a topic lies: its queues by broker, and the brokers' addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

MASTER_ID = 0
"""The broker id of a master; any other is a slave's."""


class MessageQueue(Struct, frozen=True, order=True, gc=False):
    """One queue of a topic on one broker; ordered as clients agree on when they share queues out.

    A struct, because it is a key in tables that are asked for each message.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData:
    """How many queues of a topic one broker has, and what may be done with them."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData:
    """The processes that share one broker name: broker id → `host:port`."""

    cluster: str
    name: str
    addresses: Mapping[int, str]
    zone: str | None = None
    enable_acting_master: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """What a NameServer says of one topic."""

    queues: Sequence[QueueData]
    brokers: Sequence[BrokerData]
    order_conf: str | None = None
    """`broker:count;…` for topics whose order is global; replaces the queues for producers."""
    filter_servers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Broker address → its filter servers, which brokers before 5 may have."""
