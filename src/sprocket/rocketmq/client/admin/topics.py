"""Topics: create, change, delete, list, and how full they are."""

import asyncio
from collections.abc import Mapping

from sprocket.base.errors import InvalidMessage, RequestTimeout
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.producer import check_topic
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import GroupNames, TopicNames, TopicStats
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.config import TopicTable
from sprocket.rocketmq.codec.headers import (
    ClusterOnly,
    CreateTopic,
    DeleteTopicInNames,
    Key,
    KeyValue,
    TopicOnly,
)
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.internal import TEMPLATE_TOPIC
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import (
    CLEANUP_POLICY,
    COMPACTION,
    READ,
    SINGLE_TAG,
    WRITE,
    TopicConfig,
)

_POLL_S = 0.05
_ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"


class TopicAdmin:
    """What can be done with topics; `admin.topic`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def create(
        self,
        name: str,
        queues: int = 4,
        *,
        read_queues: int | None = None,
        perm: int = READ | WRITE,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Mapping[str, str] | None = None,
        compact: bool = False,
        is_ordered: bool = False,
    ) -> None:
        """Create a topic, or change the one that exists, and wait for its route.

        Args:
            name: Letters, digits and `%|_-`, at most 127.
            queues: On each broker, to write to.
            read_queues: On each broker, to read from; as many by default.
            perm: 2 write, 4 read; the sum for both.
            cluster: Only on the brokers of this cluster.
            broker: Only on this broker.
            attributes: 5.x settings, such as `{"message.type": "FIFO"}`; a name with a minus before
                it takes one away.
            compact: Keep the last message of each key, however old it is: `cleanup.policy` is
                `COMPACTION`. Only for a topic that is new.
            is_ordered: Fix the queues in the NameServers, so that senders keep to them while a
                broker is away.

        Raises:
            InvalidMessage: The name is illegal.
            NoRoute: There is no such broker.
            BrokerRefused: A broker will not have it.
            RequestTimeout: No NameServer tells of it in time.
        """
        check_topic(name)
        if queues < 1:
            raise InvalidMessage(f"topic {name} with {queues} queues; expected at least 1")
        header = CreateTopic(
            topic=name,
            default_topic=TEMPLATE_TOPIC,
            topic_filter_type=SINGLE_TAG,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues,
            perm=perm,
            order=is_ordered,
            attributes=_changes(attributes or {}, compact=compact),
        )
        masters = await self._reach.masters(cluster=cluster, broker=broker)
        await self._reach.call_all(masters, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        if is_ordered:
            value = ";".join(f"{one}:{queues}" for one in sorted(masters))
            fixed = KeyValue(namespace=_ORDER_NAMESPACE, key=name, value=value)
            await self._reach.names_each(RequestCode.PUT_KV_CONFIG, fixed)
        await self._appears(name, set(masters), queues)

    async def _appears(self, topic: str, brokers: set[str], queues: int) -> None:
        """Wait until the route of a topic has the queues that it was created with."""
        instance = self._reach.instance
        wait_ms = instance.settings.request_timeout_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while True:
                    try:
                        route = await instance.routes.refresh(topic)
                        full = {q.broker_name for q in route.queues if q.write_queues == queues}
                        if brokers <= full:
                            return
                    except NoRoute:
                        pass
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise RequestTimeout(
                f"topic {topic} was created, but no NameServer told of it within {wait_ms} ms"
            ) from None

    async def set_permission(self, name: str, perm: int, *, broker: str | None = None) -> None:
        """Allow or forbid to read and write a topic.

        Args:
            name: The topic.
            perm: 2 write, 4 read; the sum for both.
            broker: Only on this broker.

        Raises:
            NoRoute: The topic is unknown, or not on that broker.
        """
        route = await self.route(name)
        there = [one for one in route.queues if broker in (None, one.broker_name)]
        if not there:
            raise NoRoute(f"topic {name} is not on broker {broker!r}")
        for one in there:
            header = CreateTopic(
                topic=name,
                default_topic=TEMPLATE_TOPIC,
                topic_filter_type=SINGLE_TAG,
                read_queue_nums=one.read_queues,
                write_queue_nums=one.write_queues,
                perm=perm,
                topic_sys_flag=one.sys_flag,
            )
            address = self._reach.instance.routes.require_master(one.broker_name)
            await self._reach.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete(self, name: str, *, cluster: str | None = None) -> None:
        """Delete a topic on every broker and in every NameServer; its messages are lost.

        Args:
            name: The topic.
            cluster: Only on the brokers of this cluster.

        Raises:
            NoSuchTopic: It is not there; the text names the nearest.
            BrokerRefused: It belongs to the broker.
        """
        masters = await self._reach.masters(cluster=cluster)
        await self._reach.route(name)
        code = RequestCode.DELETE_TOPIC_IN_BROKER
        await self._reach.call_all(masters, code, TopicOnly(topic=name))
        gone = DeleteTopicInNames(topic=name, cluster_name=cluster)
        await self._reach.names_each(RequestCode.DELETE_TOPIC_IN_NAMESRV, gone)
        fixed = Key(namespace=_ORDER_NAMESPACE, key=name)
        await self._reach.names_each(RequestCode.DELETE_KV_CONFIG, fixed)
        self._reach.instance.routes.forget(name)

    async def names(self, *, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, the brokers' own among them, sorted.

        Args:
            cluster: Only those of this cluster.

        Raises:
            NoRoute: There is no such cluster, or no NameServer answered.
        """
        code, header = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None
        if cluster is not None:
            await self._reach.masters(cluster=cluster)
            code, header = RequestCode.GET_TOPICS_BY_CLUSTER, ClusterOnly(cluster=cluster)
        return sorted((await self._reach.ask_names(code, TopicNames, header)).topics)

    async def route(self, name: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic, as the NameServer sees it now.

        Raises:
            NoSuchTopic: None knows the topic; the text names the nearest.
            NoRoute: No NameServer answered.
        """
        return await self._reach.route(name)

    async def queues(self, name: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read. Raises NoRoute."""
        await self.route(name)
        return self._reach.instance.routes.subscribe_queues(name)

    async def config(self, name: str) -> Mapping[str, TopicConfig]:
        """Return how a topic is set up, by broker name.

        Raises:
            NoRoute: It is unknown.
        """
        masters, header = await self._masters_of(name), TopicOnly(topic=name)
        return await self._reach.ask_all(masters, RequestCode.GET_TOPIC_CONFIG, TopicConfig, header)

    async def configs(self, broker: str) -> list[TopicConfig]:
        """Return how every topic of a broker is set up, the broker's own among them."""
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        table = await self._reach.ask_broker(broker, code, TopicTable)
        return sorted(table.topics, key=lambda one: one.name)

    async def stats(self, name: str) -> TopicStats:
        """Return the offsets of every queue, and when each got its last message.

        Raises:
            NoRoute: The topic is unknown.
        """
        masters, header = await self._masters_of(name), TopicOnly(topic=name)
        code = RequestCode.GET_TOPIC_STATS_INFO
        parts = (await self._reach.ask_all(masters, code, TopicStats, header)).values()
        queues = {queue: one for part in parts for queue, one in part.queues.items()}
        return TopicStats(
            queues=dict(sorted(queues.items())), put_tps=sum(one.put_tps for one in parts)
        )

    async def groups(self, name: str) -> list[str]:
        """Return the groups that consume a topic, or have.

        Raises:
            NoRoute: The topic is unknown.
        """
        masters, header = await self._masters_of(name), TopicOnly(topic=name)
        code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
        answers = await self._reach.ask_each(
            masters.values(), code, header, bodies.decoder(GroupNames)
        )
        return sorted({group for one in answers.values() for group in one.groups})

    async def _masters_of(self, name: str) -> dict[str, str]:
        routes = self._reach.instance.routes
        route = await self._reach.route(name)
        return {one.name: routes.require_master(one.name) for one in route.brokers}


def _changes(attributes: Mapping[str, str], *, compact: bool) -> str:
    """Return changes of attributes as they are sent: `+name=value` and `-name`."""
    changes = []
    if compact:
        changes.append(f"+{CLEANUP_POLICY}={COMPACTION}")
    for name, value in attributes.items():
        if name[:1] == "-":
            changes.append(name)
        else:
            changes.append(f"+{name.removeprefix('+')}={value}")
    return ",".join(changes)
