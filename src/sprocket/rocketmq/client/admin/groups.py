"""Consumer and producer groups: set up, watch, and move what they have committed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from sprocket.base.errors import ClientError, InvalidMessage
from sprocket.base.nearest import hint
from sprocket.rocketmq.client.admin.reach import TIMEOUT_MS, Reach
from sprocket.rocketmq.client.consumer import Start
from sprocket.rocketmq.client.network import granted, read
from sprocket.rocketmq.client.producer import check_group
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClientConnection,
    ConsumerConnection,
    DirectOutcome,
    GroupTable,
    ProducerConnection,
    ProducerTable,
    RunningInfo,
    TopicNames,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import (
    CloneOffsets,
    ConsumeMessageDirectly,
    ConsumerGroupOnly,
    DeleteGroup,
    GetConsumerRunningInfo,
    GetConsumeStats,
    GroupOnly,
    ProducerConnections,
    ResetOffset,
)
from sprocket.rocketmq.errors import NoSuchGroup
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, RETRY_PREFIX
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.progress import ConsumeStats
from sprocket.rocketmq.model.route import MessageQueue


class GroupAdmin:
    """What can be done with groups; `admin.group`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def create(
        self,
        group: SubscriptionGroup | str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a consumer group, or change the one that exists.

            await admin.group.create(SubscriptionGroup(name="billing", retry_times_max=3))

        Args:
            group: How it is to be; a name alone stands for the defaults.
            cluster: Only on the brokers of this cluster.
            broker: Only on this broker.
        """
        whole = SubscriptionGroup(name=group) if isinstance(group, str) else group
        check_group(whole.name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        body = bodies.encode(whole)
        masters = await self._reach.masters(cluster=cluster, broker=broker)
        await self._reach.call_all(masters, code, None, body)

    async def delete(
        self, name: str, *, clean_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group.

        Its retry topic and its dead letters stay; delete `%RETRY%name` and `%DLQ%name` as topics.

        Args:
            name: The group.
            clean_offsets: Forget what it has committed; without this a group of the same name goes
                on there.
            cluster: Only on the brokers of this cluster.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
        """
        masters = await self._reach.masters(cluster=cluster)
        await self._require(name)
        header = DeleteGroup(group_name=name, clean_offset=clean_offsets)
        await self._reach.call_all(masters, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def _require(self, name: str) -> None:
        """Return if a consumer group is there: set up, or with something committed.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
            ClientError: None of those that answered knows it, and one did not answer.
        """
        names: set[str] = set()
        failures: list[ClientError] = []
        for address in (await self._reach.masters()).values():
            try:
                names.update(one.name for one in await self._table(address))
            except ClientError as error:
                failures.append(error)
            if name in names:
                return
        if failures:
            raise failures[0]
        if not await self._committed_in(name):
            raise NoSuchGroup(f"no broker knows group {name!r}{hint(name, names)}")

    async def names(self) -> list[str]:
        """Return the names of all consumer groups, the brokers' own among them, sorted."""
        return sorted({one.name for table in (await self._tables()).values() for one in table})

    async def get(self, name: str) -> Mapping[str, SubscriptionGroup]:
        """Return how a group is set up, by broker name.

        Raises:
            NoSuchGroup: No broker has it among those set up; the text names the nearest.
        """
        tables = await self._tables()
        found = {
            broker: one for broker, table in tables.items() for one in table if one.name == name
        }
        if not found:
            names = {one.name for table in tables.values() for one in table}
            raise NoSuchGroup(f"no broker has group {name!r} set up{hint(name, names)}")
        return found

    async def _tables(self) -> dict[str, Sequence[SubscriptionGroup]]:
        """Return every group that is set up, by broker name.

        GET_SUBSCRIPTIONGROUP_CONFIG, which asks for one, would create it where it is not.
        """
        masters = await self._reach.masters()
        return {name: await self._table(address) for name, address in masters.items()}

    async def _table(self, address: str) -> Sequence[SubscriptionGroup]:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        return (await self._reach.ask(address, code, GroupTable)).groups

    async def topics(self, name: str) -> list[str]:
        """Return the topics in which a group has committed, except for its retry topic, sorted.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
        """
        found = await self._committed_in(name)
        if not found:
            await self._require(name)
        return sorted(
            topic for topic in found if not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
        )

    async def _committed_in(self, name: str) -> set[str]:
        """Return every topic in which a group has committed; of one that nobody knows none."""
        code, header = RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupOnly(group=name)
        masters = await self._reach.masters()
        answers = await self._reach.ask_all(masters, code, TopicNames, header)
        return {topic for one in answers.values() for topic in one.topics}

    async def progress(self, name: str, topic: str | None = None) -> ConsumeStats:
        """Return how far a group is in each of its queues; `.lag` is what it has before it.

        Args:
            name: The group.
            topic: Only in this topic; otherwise in all, its retry topic among them.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
            NoSuchTopic: There is no such topic; likewise.
        """
        if topic is not None:
            await self._reach.route(topic)
        header = GetConsumeStats(consumer_group=name, topic=topic or "")
        absent = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        code = RequestCode.GET_CONSUME_STATS
        parts = await self._reach.ask_masters(code, ConsumeStats, header, absent)
        queues = {queue: one for part in parts for queue, one in part.queues.items()}
        if topic is not None or not queues:  # of a topic, brokers tell every queue to any group
            await self._require(name)
        return ConsumeStats(
            queues=dict(sorted(queues.items())), consume_tps=sum(one.consume_tps for one in parts)
        )

    async def consumers(self, name: str) -> ConsumerConnection | None:
        """Return who is connected in a consumer group, and what they read; None for nobody.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
        """
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        header = ConsumerGroupOnly(consumer_group=name)
        absent = (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        for found in await self._reach.ask_masters(code, ConsumerConnection, header, absent):
            if found.connections:
                return found
        await self._require(name)
        return None

    async def producers(self, name: str) -> list[ClientConnection]:
        """Return who is connected in a producer group, by client id.

        Raises:
            NoSuchGroup: Nobody is, so there is none; the text names the nearest.
        """
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        header, absent = ProducerConnections(producer_group=name), (ResponseCode.SYSTEM_ERROR,)
        parts = await self._reach.ask_masters(code, ProducerConnection, header, absent)
        found = {one.client_id: one for part in parts for one in part.connections}
        if not found:
            meant = hint(name, await self._producer_groups())
            raise NoSuchGroup(f"no producer of group {name!r} is connected{meant}")
        return [found[client_id] for client_id in sorted(found)]

    async def _producer_groups(self) -> set[str]:
        """Return the producer groups of brokers; none of those too old to be asked for them."""
        try:
            tables = await self._reach.ask_masters(RequestCode.GET_ALL_PRODUCER_INFO, ProducerTable)
        except ClientError:
            return set()
        return {group for one in tables for group in one.groups}

    async def running_info(
        self, name: str, client_id: str, *, with_stacks: bool = False
    ) -> RunningInfo:
        """Return what one consumer is doing, asked of itself by way of a broker.

        Args:
            name: Its group.
            client_id: From `consumers`.
            with_stacks: And what each of its threads is at.

        Raises:
            BrokerRefused: No broker knows such a consumer, or it did not answer.
        """
        header = GetConsumerRunningInfo(
            consumer_group=name, client_id=client_id, jstack_enable=with_stacks
        )
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        return (await self._reach.ask_masters(code, RunningInfo, header))[0]

    async def consume_directly(
        self, name: str, client_id: str, message: ReceivedMessage
    ) -> DirectOutcome:
        """Have one consumer's listener consume a message now, whatever its offset is.

        Args:
            name: Its group.
            client_id: From `consumers`.
            message: As found by `admin.message`.

        Raises:
            BrokerRefused: The message's broker does not know such a consumer, or it did not answer.
        """
        header = ConsumeMessageDirectly(
            consumer_group=name,
            client_id=client_id,
            msg_id=message.stored.offset_message_id,
            broker_name=message.queue.broker_name,
            topic=message.stored.topic,
        )
        routes = self._reach.instance.routes
        await routes.find(message.stored.topic)
        address = routes.require_master(message.queue.broker_name)
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        return await self._reach.ask(address, code, DirectOutcome, header)

    async def reset_offsets(
        self, name: str, topic: str, to: Start, *, is_forced: bool = True
    ) -> Mapping[MessageQueue, QueueOffset]:
        """Let a group go on from another place in a topic; return where, by queue.

            await admin.group.reset_offsets("billing", "orders", datetime(2026, 5, 1, tzinfo=UTC))

        Members that are connected learn of it from their next pull of each queue (brokers of
        RocketMQ 4 send them a request), and hand out nothing more that they held before.

        Args:
            name: The group.
            topic: The topic.
            to: "first" for the oldest message, "last" for after the newest, a datetime or
                milliseconds since 1970 for the first message stored then or later.
            is_forced: Also forwards, past messages that were never consumed. Brokers of RocketMQ 4
                look at it; those of 5, and ours, always do.

        Raises:
            NoSuchGroup: No broker knows it; the text names the nearest.
            NoSuchTopic: There is no such topic; likewise.
            BrokerRefused: A broker will not.
        """
        at_ms = _at_ms(to)
        header = ResetOffset(topic=topic, group=name, timestamp=at_ms, is_force=is_forced)
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        instance = self._reach.instance
        route = await self._reach.route(topic)
        await self._require(name)
        found: dict[MessageQueue, QueueOffset] = {}
        for broker in route.brokers:
            address = instance.routes.require_master(broker.name)
            command = await instance.connections.request(
                address, code, header, timeout_ms=TIMEOUT_MS
            )
            if granted(address, code, command, (ResponseCode.CONSUMER_NOT_ONLINE,)):
                offsets = read(address, partial(bodies.decode_offsets, command.body))
                found.update((queue, QueueOffset(one)) for queue, one in offsets.items())
            else:  # brokers of 4.x
                found.update(await self._reset_in_absence(name, topic, broker.name, at_ms))
        return dict(sorted(found.items()))

    async def _reset_in_absence(
        self, name: str, topic: str, broker_name: str, at_ms: int
    ) -> Mapping[MessageQueue, QueueOffset]:
        """Commit other offsets for a group of which nobody is connected."""
        brokers = self._reach.instance.brokers
        found = {}
        for queue in self._reach.instance.routes.subscribe_queues(topic):
            if queue.broker_name != broker_name:
                continue
            if at_ms < 0:
                offset = await brokers.max_offset(queue)
            else:
                offset = await brokers.offset_by_time(queue, at_ms)
            await brokers.commit_offset(name, queue, offset)
            found[queue] = offset
        return found

    async def clone_offsets(self, source: str, target: str, topic: str | None = None) -> None:
        """Let a group go on where another one is.

        Args:
            source: Whose offsets are copied.
            target: Who gets them; nobody of it should be connected.
            topic: Only in this topic; otherwise in all in which the source has committed.

        Raises:
            NoSuchGroup: No broker knows the source, or it has committed nowhere.
            NoSuchTopic: There is no such topic.
        """
        committed = await self.topics(source)
        topics = committed if topic is None else [topic]
        if not topics:
            raise NoSuchGroup(f"group {source} has committed in no topic")
        routes = self._reach.instance.routes
        for one in topics:
            header = CloneOffsets(src_group=source, dest_group=target, topic=one, offline=True)
            for broker in (await self._reach.route(one)).brokers:
                address = routes.require_master(broker.name)
                await self._reach.call(address, RequestCode.CLONE_GROUP_OFFSET, header)


def _at_ms(to: Start) -> int:
    """Return the time that stands for a place: −1 after the newest, 0 at the oldest."""
    if isinstance(to, datetime):
        return int(to.timestamp() * 1000)
    if isinstance(to, int):
        if to < 0:
            raise InvalidMessage(f"time {to}: expected milliseconds since 1970, or 'last'")
        return to
    if to not in ("first", "last"):
        raise InvalidMessage(f"{to!r}: expected 'first', 'last', a datetime or milliseconds")
    return 0 if to == "first" else -1
