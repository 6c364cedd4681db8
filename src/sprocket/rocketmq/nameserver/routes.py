"""What a NameServer holds in memory: brokers, their processes, their topics; and how it changes.

Brokers register again and again; the NameServer asks nobody and writes nothing of this down. A
broker is removed when it says so, when its connection closes, or when it has been silent for longer
than it promised.

Only the master of a broker name changes the topics of that name. While there is none, the slave
with the smallest id does; if it may act as a master, its queues cannot be written to.

Source: RocketMQ `RouteInfoManager`. Static topics are not built: what a registration says of them
is ignored. Nobody is told of a new smallest id.

Invariants

1. Every address in `brokers` has a live entry, and every broker of a cluster an address.
2. A topic has an entry for a broker only while the broker is in `brokers`; a topic without entries
   is not there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.live_settings import LiveSettings
from sprocket.rocketmq.model.route import MASTER_ID, BrokerData, QueueData
from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig

_log = log.get_limited_logger(__name__)


class BrokerLink(Protocol):
    """The connection over which a process of a broker registered."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """What a process of a broker says of itself.

    Attributes:
        name: The broker that it belongs to.
        cluster: The cluster of that.
        broker_id: Its number there; 0 is the master's.
        address: Where clients reach it, `host:port`.
        ha_server_addr: Where slaves reach it.
        version: Of its table of topics.
        topics: All of them, or one that has just changed.
        timeout_ms: How long it may be silent; the setting decides if it does not say.
        enable_acting_master: Whether a slave may act as the master; None if it is older than 5.
        zone: Where it stands.
        filter_servers: Those that it knows.
    """

    name: str
    cluster: str
    broker_id: int
    address: str
    ha_server_addr: str
    version: DataVersion
    topics: Sequence[TopicConfig]
    timeout_ms: int | None = None
    enable_acting_master: bool | None = None
    zone: str | None = None
    filter_servers: Sequence[str] = ()


@dataclass(slots=True)
class LiveEntry:
    """One process of a broker, as of its last registration."""

    broker: str
    broker_id: int
    timeout_ms: int
    deadline: float
    """On the monotonic clock."""
    version: DataVersion
    link: BrokerLink
    """The connection that it registered over."""
    ha_server_addr: str
    filter_servers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """What a registration is answered with: a slave learns where its master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a broker's table of topics is another than the one known, and which that is."""

    has_changed: bool
    known: DataVersion | None


class RouteTables:
    """Topics, brokers and their processes.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock, settings: LiveSettings) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        """Topic → broker name → its queues there."""
        self.brokers: dict[str, BrokerData] = {}
        """As routes tell them: what was told does not change with them."""
        self.live: dict[tuple[str, str], LiveEntry] = {}
        """Cluster and address → the process."""
        self._clock = clock
        self._settings = settings

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

    def register(self, link: BrokerLink, process: BrokerRegistration) -> Registered:
        """Take in what a broker says of itself: all its topics, or one that has just changed.

        Raises:
            Refused: A name or the address is empty, or a broker that is not known yet sent one
                topic only (this NameServer was restarted: it must send all).
        """
        _check(process)
        name, broker_id, address = process.name, process.broker_id, process.address
        old = self.brokers.get(name)
        addresses = {} if old is None else dict(old.addresses)
        known_addr = addresses.get(broker_id)
        if known_addr is not None and known_addr != address:
            rival = self.live.get((process.cluster, known_addr))
            if rival is not None and rival.version.state_version > process.version.state_version:
                _log.warning("a newer broker has this id", broker=name, id=broker_id)
                return Registered()
        if known_addr is None and len(process.topics) == 1:
            raise Refused(
                Refusal.OTHER,
                "register broker failed: a broker that is new here must send all its topics",
            )
        for other, known in list(addresses.items()):
            if known == address and other != broker_id:
                del addresses[other]
        addresses[broker_id] = address
        broker = self.brokers[name] = BrokerData(
            cluster=process.cluster,
            name=name,
            addresses=addresses,
            zone=process.zone,
            enable_acting_master=bool(process.enable_acting_master),
        )
        self._take_topics(process, broker, is_first=known_addr is None)
        if known_addr is None:
            _log.info("a broker registered", broker=name, id=broker_id, addr=address)
        self._keep_alive(link, process)
        return self._master_of(process, broker)

    def refresh(self, cluster: str, address: str) -> None:
        """Believe in a process of a broker for longer; nothing happens if it is unknown."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.deadline = self._clock.monotonic() + live.timeout_ms / 1000

    def compare(self, cluster: str, address: str, version: DataVersion | None) -> Freshness:
        """Say whether a broker must register to make a change known; it counts as alive.

        One that does not tell its version must, and so must one whose name has another process
        now, or had: no route leads to it.
        """
        self.refresh(cluster, address)
        live = self.live.get((cluster, address))
        known = live.version if live is not None and self._is_in_routes(address, live) else None
        return Freshness(has_changed=known is None or known != version, known=known)

    def unregister(self, broker: str, cluster: str, address: str) -> None:
        """Forget one process of a broker; nothing happens if it is unknown."""
        live = self.live.get((cluster, address))
        if live is not None and live.broker == broker:
            self._remove(cluster, address)

    def drop(self, link: BrokerLink) -> None:
        """Forget what registered over a connection that closed."""
        for (cluster, address), live in list(self.live.items()):
            if live.link == link:
                _log.warning("a broker's connection closed", broker=live.broker, addr=address)
                self._remove(cluster, address)

    def expire(self) -> None:
        """Forget brokers that were silent for too long, and close their connections."""
        now = self._clock.monotonic()
        for (cluster, address), live in list(self.live.items()):
            if live.deadline < now:
                _log.warning("a broker has been silent too long", broker=live.broker, addr=address)
                self._remove(cluster, address)
                live.link.close()

    def wipe_write_permission(self, broker: str) -> int:
        """Stop producers from choosing a broker; return how many topics it has.

        It lasts until the broker registers with a changed table.
        """
        return self._set_permission(broker, lambda perm: perm & ~WRITE)

    def add_write_permission(self, broker: str) -> int:
        """Let producers choose a broker again; return how many topics it has."""
        return self._set_permission(broker, lambda _: READ | WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only the brokers of one cluster for it."""
        for broker in list(self.topics.get(topic, ())):
            if not cluster or self.brokers[broker].cluster == cluster:
                self.forget_queues(topic, broker)

    def put_queues(self, topic: str, queues: Sequence[QueueData]) -> None:
        """Take in queues of one topic, up to the first of a broker that is not known."""
        for queue in queues:
            if queue.broker_name not in self.brokers:
                _log.warning("a topic of an unknown broker", topic=topic, broker=queue.broker_name)
                return
            self.topics.setdefault(topic, {})[queue.broker_name] = queue

    def _take_topics(
        self, process: BrokerRegistration, broker: BrokerData, *, is_first: bool
    ) -> None:
        """Put what a master says of its topics into the table, or a slave in its place."""
        is_master = process.broker_id == MASTER_ID
        is_prime_slave = (
            not is_master
            and process.enable_acting_master is not None
            and process.broker_id == min(broker.addresses)
        )
        if not is_master and not is_prime_slave:
            return
        name = process.name
        is_writable = is_master or not broker.enable_acting_master
        before = self.live.get((process.cluster, process.address))
        is_changed = is_first or before is None or before.version != process.version
        if (
            is_changed
            and self._settings.now.nameserver.forget_missing_topics
            and len(process.topics) > 1
        ):
            kept = {topic.name for topic in process.topics}
            for topic in [one for one in self.topics if one not in kept]:
                self.forget_queues(topic, name)
        for one in process.topics:
            queues = self.topics.setdefault(one.name, {})
            if is_changed or name not in queues:
                queues[name] = _queues(one, name, writable=is_writable)

    def _keep_alive(self, link: BrokerLink, process: BrokerRegistration) -> None:
        timeout_ms = process.timeout_ms or self._settings.now.nameserver.broker_expiry_ms
        self.live[process.cluster, process.address] = LiveEntry(
            broker=process.name,
            broker_id=process.broker_id,
            timeout_ms=timeout_ms,
            deadline=self._clock.monotonic() + timeout_ms / 1000,
            version=process.version,
            link=link,
            ha_server_addr=process.ha_server_addr,
            filter_servers=tuple(process.filter_servers),
        )

    def _master_of(self, process: BrokerRegistration, broker: BrokerData) -> Registered:
        if process.broker_id == MASTER_ID:
            return Registered()
        address = broker.addresses.get(MASTER_ID)
        master = None if address is None else self.live.get((broker.cluster, address))
        if master is None:
            return Registered()
        return Registered(ha_server_addr=master.ha_server_addr, master_addr=address)

    def _is_in_routes(self, address: str, live: LiveEntry) -> bool:
        broker = self.brokers.get(live.broker)
        return broker is not None and broker.addresses.get(live.broker_id) == address

    def _remove(self, cluster: str, address: str) -> None:
        """Forget a process, its name if it was the last, and what its name can do no more."""
        live = self.live.pop((cluster, address))
        if not self._is_in_routes(address, live):
            return
        broker = self.brokers[live.broker]
        left = {number: one for number, one in broker.addresses.items() if number != live.broker_id}
        if not left:
            for topic in list(self.topics):
                self.forget_queues(topic, live.broker)
            del self.brokers[live.broker]
            return
        self.brokers[live.broker] = structs.replace(broker, addresses=left)
        if broker.enable_acting_master and MASTER_ID not in left:
            self.wipe_write_permission(live.broker)

    def _set_permission(self, broker: str, perm_of: Callable[[int], int]) -> int:
        count = 0
        changed: dict[tuple[int, int, int, int], QueueData] = {}
        for queues in self.topics.values():
            queue = queues.get(broker)
            if queue is not None:
                # Most topics have equal ones, and to make one takes 1 µs.
                key = queue.read_queues, queue.write_queues, queue.perm, queue.sys_flag
                new = changed.get(key)
                if new is None:
                    new = changed[key] = structs.replace(queue, perm=perm_of(queue.perm))
                queues[broker] = new
                count += 1
        return count


def _queues(topic: TopicConfig, broker: str, *, writable: bool) -> QueueData:
    return QueueData(
        broker_name=broker,
        read_queues=topic.read_queues,
        write_queues=topic.write_queues,
        perm=topic.perm if writable else topic.perm & ~WRITE,
        sys_flag=topic.sys_flag,
    )


def _check(process: BrokerRegistration) -> None:
    for what, value in (
        ("brokerName", process.name),
        ("brokerAddr", process.address),
        ("clusterName", process.cluster),
    ):
        if not value:
            raise Refused(Refusal.OTHER, f"register broker failed: no {what}")
