"""What a NameServer answers from its tables: routes, clusters, lists of topics.

Source: RocketMQ `RouteInfoManager`, `ClientRequestProcessor`, `ZoneRouteRPCHook`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.live_settings import LiveSettings
from sprocket.rocketmq.model.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from sprocket.rocketmq.model.topic import UNIT, UNIT_SUBSCRIPTION, WRITE
from sprocket.rocketmq.nameserver.key_values import ORDER_NAMESPACE, KeyValues
from sprocket.rocketmq.nameserver.routes import RouteTables

NEVER_ACTED_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics by which brokers of one name keep together; no slave stands in for a master there."""


HELP = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""What the remark about an unknown topic ends with; the page is of use with our NameServer too."""


@dataclass(frozen=True, slots=True)
class SystemTopics:
    """The topics that every cluster has, and a broker that knows the others."""

    names: list[str]
    broker_addr: str | None


@dataclass(frozen=True, slots=True)
class Lookup:
    """The reading side of one NameServer's tables.

    Threads: event loop only.
    """

    _tables: RouteTables
    _key_values: KeyValues
    _settings: LiveSettings

    def route(self, topic: str, *, zone: str | None = None) -> TopicRoute:
        """Return where a topic lies; in a zone, on its brokers and on those that have no master.

        Raises:
            Refused: NO_TOPIC.
        """
        queues = self._tables.topics.get(topic)
        if not queues:
            raise Refused(
                Refusal.NO_TOPIC, f"No topic route info in name server for the topic: {topic}{HELP}"
            )
        brokers = [self._broker(topic, queue) for queue in queues.values()]
        if zone is not None:
            brokers = [one for one in brokers if _is_in_zone(one, zone)]
        names = {one.name for one in brokers}
        order_conf = None
        if self._settings.now.nameserver.order_conf:
            order_conf = self._key_values.get(ORDER_NAMESPACE, topic)
        return TopicRoute(
            queues=[queue for name, queue in queues.items() if name in names],
            brokers=brokers,
            order_conf=order_conf,
            filter_servers=self._filter_servers(brokers),
        )

    def cluster_info(self) -> ClusterInfo:
        """Return every broker and which cluster it belongs to."""
        return ClusterInfo(brokers=dict(self._tables.brokers), clusters=self._tables.clusters())

    def members(self, broker: str) -> Mapping[int, str]:
        """Return the addresses of the processes of one name by their numbers, of any cluster."""
        found = self._tables.brokers.get(broker)
        return {} if found is None else found.addresses

    def topics(self) -> list[str]:
        """Return the name of every topic."""
        return list(self._tables.topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics that a broker of a cluster has."""
        brokers = set(self._tables.clusters().get(cluster, ()))
        return [name for name, queues in self._tables.topics.items() if brokers & queues.keys()]

    def system_topics(self) -> SystemTopics:
        """Return the topics named like clusters and brokers."""
        names: dict[str, None] = {}
        for cluster, brokers in self._tables.clusters().items():
            names |= dict.fromkeys([cluster, *brokers])
        addresses = (
            address for one in self._tables.brokers.values() for address in one.addresses.values()
        )
        return SystemTopics(list(names), next(addresses, None))

    def unit_topics(self) -> list[str]:
        """Return the topics of a unit."""
        return self._flagged(UNIT)

    def unit_subscription_topics(self, *, without_units: bool = False) -> list[str]:
        """Return the topics that a unit subscribes to; perhaps only those of no unit."""
        units = set(self.unit_topics()) if without_units else set()
        return [name for name in self._flagged(UNIT_SUBSCRIPTION) if name not in units]

    def _flagged(self, flag: int) -> list[str]:
        """Return the topics that have a flag on any broker; RocketMQ asks one, no matter which."""
        return [
            name
            for name, queues in self._tables.topics.items()
            if any(queue.sys_flag & flag for queue in queues.values())
        ]

    def _broker(self, topic: str, queue: QueueData) -> BrokerData:
        """Return a broker; its first slave in the master's place where it may act as one."""
        broker = self._tables.brokers[queue.broker_name]
        may_act = (
            self._settings.now.nameserver.acting_master
            and broker.enable_acting_master
            and not queue.perm & WRITE
            and not topic.startswith(NEVER_ACTED_PREFIX)
        )
        if not may_act or MASTER_ID in broker.addresses:
            return broker
        first = min(broker.addresses)
        others = {number: addr for number, addr in broker.addresses.items() if number != first}
        return structs.replace(broker, addresses={MASTER_ID: broker.addresses[first]} | others)

    def _filter_servers(self, brokers: list[BrokerData]) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for broker in brokers:
            for address in broker.addresses.values():
                live = self._tables.live.get((broker.cluster, address))
                if live is not None and live.filter_servers:
                    found[address] = list(live.filter_servers)
        return found


def _is_in_zone(broker: BrokerData, zone: str) -> bool:
    return MASTER_ID not in broker.addresses or (broker.zone or "").lower() == zone.lower()
