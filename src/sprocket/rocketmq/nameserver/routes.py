"""What a NameServer knows: which brokers are there, and which topics lie on them.

Brokers tell it, again and again; it asks nobody and writes nothing down. A broker leaves when it
says so, when its connection closes, or when it has been silent for longer than it promised.

Invariants

1. Every address in `brokers` has a live entry, and every broker of `clusters` an address.
2. A topic has an entry for a broker only while the broker is in `brokers`; a topic without entries
   is not there.

Source: RocketMQ `RouteInfoManager`; the spec of requests, sections 2.2 to 2.5. Acting masters and
static topics are not built: their members of a registration are not looked at.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import ClusterInfo
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.headers import RegisterBroker
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.model.route import (
    MASTER_ID,
    BrokerData,
    QueueData,
    TopicRoute,
)
from sprocket.rocketmq.model.topic import TopicConfig

_log = log.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """What a registration is answered with: a slave learns where its master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(slots=True)
class _Broker:
    """The processes that share one broker name."""

    cluster: str
    zone: str | None
    addresses: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Live:
    """One process of a broker, as of its last registration."""

    broker: str
    broker_id: int
    deadline: float
    version: DataVersion
    link: Hashable
    ha_server_addr: str


class Routes:
    """The tables of one NameServer.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock, expiry_ms: int) -> None:
        self._clock = clock
        self._expiry_ms = expiry_ms
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, _Broker] = {}
        self._live: dict[tuple[str, str], _Live] = {}

    def register(
        self,
        link: Hashable,
        header: RegisterBroker,
        version: DataVersion,
        topics: Iterable[TopicConfig],
    ) -> Registered:
        """Take in what a broker says of itself.

        Args:
            link: The broker's connection.
            header: Who it is.
            version: Of its table of topics.
            topics: All of them, or one that has just changed.

        Raises:
            RequestRefused: SYSTEM_ERROR; a name or the address is empty, or a broker that is not
                known yet sent one topic only (this NameServer was restarted: it must send all).
        """
        _check(header)
        topics = list(topics)
        key = (header.cluster_name, header.broker_addr)
        broker = self._brokers.get(header.broker_name)
        broker_id = header.broker_id
        known_addr = None if broker is None else broker.addresses.get(broker_id)
        if known_addr is not None and known_addr != header.broker_addr:
            rival = self._live.get((header.cluster_name, known_addr))
            if rival is not None and rival.version.state_version > version.state_version:
                _log.warning("a newer broker has this id", broker=header.broker_name, id=broker_id)
                return Registered()
        if known_addr is None and len(topics) == 1:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                "register broker failed: a broker that is new here must send all its topics",
            )
        if broker is None:
            broker = self._brokers[header.broker_name] = _Broker(
                header.cluster_name, header.zone_name
            )
        broker.cluster = header.cluster_name
        for other, address in list(broker.addresses.items()):
            if address == header.broker_addr and other != broker_id:
                del broker.addresses[other]
        broker.addresses[broker_id] = header.broker_addr
        if broker_id == MASTER_ID:
            before = self._live.get(key)
            is_changed = before is None or before.version != version
            self._put_topics(header.broker_name, topics, is_changed=is_changed)
        if known_addr is None:
            _log.info("a broker registered", broker=header.broker_name, addr=header.broker_addr)
        timeout_ms = header.heartbeat_timeout_millis or self._expiry_ms
        self._live[key] = _Live(
            broker=header.broker_name,
            broker_id=broker_id,
            deadline=self._clock.monotonic() + timeout_ms / 1000,
            version=version,
            link=link,
            ha_server_addr=header.ha_server_addr,
        )
        return self._master_of(header)

    def unregister(self, broker: str, cluster: str, address: str) -> None:
        """Forget one process of a broker; nothing happens if it is unknown."""
        live = self._live.pop((cluster, address), None)
        if live is not None and live.broker == broker:
            self._remove(live, address)

    def drop(self, link: Hashable) -> None:
        """Forget what registered over a connection that closed."""
        for (cluster, address), live in list(self._live.items()):
            if live.link == link:
                _log.warning("a broker's connection closed", broker=live.broker, addr=address)
                del self._live[cluster, address]
                self._remove(live, address)

    def expire(self) -> list[Hashable]:
        """Forget brokers that were silent for too long; return their connections, to be closed."""
        now = self._clock.monotonic()
        closed = []
        for (cluster, address), live in list(self._live.items()):
            if live.deadline < now:
                _log.warning("a broker has been silent too long", broker=live.broker, addr=address)
                del self._live[cluster, address]
                self._remove(live, address)
                closed.append(live.link)
        return closed

    def route(self, topic: str) -> TopicRoute:
        """Return where a topic lies.

        Raises:
            RequestRefused: TOPIC_NOT_EXIST.
        """
        queues = self._topics.get(topic)
        if not queues:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}",
            )
        return TopicRoute(
            queues=list(queues.values()), brokers=[self._broker_data(name) for name in queues]
        )

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and which cluster it belongs to."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(
            brokers={name: self._broker_data(name) for name in self._brokers}, clusters=clusters
        )

    def topics(self) -> list[str]:
        """Return the name of every topic."""
        return list(self._topics)

    def _put_topics(self, broker: str, topics: list[TopicConfig], *, is_changed: bool) -> None:
        for topic in topics:
            queues = self._topics.setdefault(topic.name, {})
            if is_changed or broker not in queues:
                queues[broker] = QueueData(
                    broker_name=broker,
                    read_queues=topic.read_queues,
                    write_queues=topic.write_queues,
                    perm=topic.perm,
                    sys_flag=topic.sys_flag,
                )

    def _master_of(self, header: RegisterBroker) -> Registered:
        if header.broker_id == MASTER_ID:
            return Registered()
        address = self._brokers[header.broker_name].addresses.get(MASTER_ID)
        master = None if address is None else self._live.get((header.cluster_name, address))
        if master is None:
            return Registered()
        return Registered(ha_server_addr=master.ha_server_addr, master_addr=address)

    def _remove(self, live: _Live, address: str) -> None:
        broker = self._brokers.get(live.broker)
        if broker is None or broker.addresses.get(live.broker_id) != address:
            return
        del broker.addresses[live.broker_id]
        if broker.addresses:
            return
        del self._brokers[live.broker]
        for topic, queues in list(self._topics.items()):
            queues.pop(live.broker, None)
            if not queues:
                del self._topics[topic]

    def _broker_data(self, name: str) -> BrokerData:
        broker = self._brokers[name]
        return BrokerData(
            cluster=broker.cluster,
            name=name,
            addresses=dict(broker.addresses),
            zone=broker.zone,
        )


def _check(header: RegisterBroker) -> None:
    for what, value in (
        ("brokerName", header.broker_name),
        ("brokerAddr", header.broker_addr),
        ("clusterName", header.cluster_name),
    ):
        if not value:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"register broker failed: no {what}")
