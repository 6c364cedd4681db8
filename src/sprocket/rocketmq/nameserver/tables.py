"""What a NameServer holds in memory: brokers, their processes, their topics.

Invariants

1. Every address in `brokers` has a live entry, and every broker of a cluster an address.
2. A topic has an entry for a broker only while the broker is in `brokers`; a topic without entries
   is not there.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.model.route import MASTER_ID, BrokerData, QueueData


@dataclass(slots=True)
class BrokerEntry:
    """The processes that share one broker name."""

    cluster: str
    zone: str | None = None
    enable_acting_master: bool = False
    addresses: dict[int, str] = field(default_factory=dict)
    """Broker id → `host:port`."""

    @property
    def has_master(self) -> bool:
        """Whether one of the processes takes messages."""
        return MASTER_ID in self.addresses


@dataclass(slots=True)
class LiveEntry:
    """One process of a broker, as of its last registration."""

    broker: str
    broker_id: int
    timeout_ms: int
    deadline: float
    """On the monotonic clock."""
    version: DataVersion
    link: Hashable
    """The connection that it registered over."""
    ha_server_addr: str
    filter_servers: Sequence[str] = ()


class Tables:
    """Topics, brokers and their processes.

    Threads: event loop only.
    """

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        """Topic → broker name → its queues there."""
        self.brokers: dict[str, BrokerEntry] = {}
        self.live: dict[tuple[str, str], LiveEntry] = {}
        """Cluster and address → the process."""

    def broker_data(self, name: str) -> BrokerData:
        """Return a broker as routes tell it."""
        broker = self.brokers[name]
        return BrokerData(
            cluster=broker.cluster,
            name=name,
            addresses=dict(broker.addresses),
            zone=broker.zone,
            enable_acting_master=broker.enable_acting_master,
        )

    def clusters(self) -> dict[str, list[str]]:
        """Return the names of brokers by cluster."""
        found: dict[str, list[str]] = {}
        for name, broker in self.brokers.items():
            found.setdefault(broker.cluster, []).append(name)
        return found

    def forget_queues(self, topic: str, broker: str) -> None:
        """Remove a broker's queues of a topic, and the topic if they were its last."""
        queues = self.topics.get(topic)
        if queues is not None and queues.pop(broker, None) is not None and not queues:
            del self.topics[topic]
