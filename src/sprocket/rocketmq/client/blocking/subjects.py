"""The parts of a blocking admin, a class for each subject, with a twin of every awaited method.

What arguments mean, and what is raised, stands with the awaited ones, in `client.admin`.
"""

from collections.abc import Mapping

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client import admin as _admin
from sprocket.rocketmq.client.admin import FOREVER_MS, BrokerStatus
from sprocket.rocketmq.client.blocking.portal import Runner
from sprocket.rocketmq.client.consumer import Start
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec.bodies import (
    BrokerConsumeStats,
    ClientConnection,
    ConsumerConnection,
    ConsumeStats,
    DirectOutcome,
    ProducerInfo,
    QueueUnits,
    RunningInfo,
    StatsData,
    TopicStats,
)
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig
from sprocket.rocketmq.store_settings import FOUND_MESSAGES_MAX


class BlockingTopicAdmin:
    """What can be done with topics; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.topic

    def create(
        self,
        name: str,
        queues: int = 4,
        *,
        read_queues: int | None = None,
        perm: int = READ | WRITE,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Mapping[str, str] | None = None,
        is_ordered: bool = False,
    ) -> None:
        """Create a topic, or change the one that exists, and wait for its route."""
        self._run.call(
            self._awaited.create,
            name,
            queues,
            read_queues=read_queues,
            perm=perm,
            cluster=cluster,
            broker=broker,
            attributes=attributes,
            is_ordered=is_ordered,
        )

    def set_permission(self, name: str, perm: int, *, broker: str | None = None) -> None:
        """Allow or forbid to read and write a topic."""
        self._run.call(self._awaited.set_permission, name, perm, broker=broker)

    def delete(self, name: str, *, cluster: str | None = None) -> None:
        """Delete a topic on every broker and in every NameServer; its messages are lost."""
        self._run.call(self._awaited.delete, name, cluster=cluster)

    def names(self, *, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, the brokers' own among them, sorted."""
        return self._run.call(self._awaited.names, cluster=cluster)

    def route(self, name: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic, as the NameServer sees it now."""
        return self._run.call(self._awaited.route, name)

    def queues(self, name: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read. Raises NoRoute."""
        return self._run.call(self._awaited.queues, name)

    def config(self, name: str) -> Mapping[str, TopicConfig]:
        """Return how a topic is set up, by broker name."""
        return self._run.call(self._awaited.config, name)

    def configs(self, broker: str) -> list[TopicConfig]:
        """Return how every topic of a broker is set up, the broker's own among them."""
        return self._run.call(self._awaited.configs, broker)

    def stats(self, name: str) -> TopicStats:
        """Return the offsets of every queue, and when each got its last message."""
        return self._run.call(self._awaited.stats, name)

    def groups(self, name: str) -> list[str]:
        """Return the groups that consume a topic, or have."""
        return self._run.call(self._awaited.groups, name)


class BlockingGroupAdmin:
    """What can be done with groups; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.group

    def create(
        self,
        group: SubscriptionGroup | str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Create a consumer group, or change the one that exists."""
        self._run.call(self._awaited.create, group, cluster=cluster, broker=broker)

    def delete(self, name: str, *, clean_offsets: bool = True, cluster: str | None = None) -> None:
        """Delete a consumer group; one that does not exist is no error."""
        self._run.call(self._awaited.delete, name, clean_offsets=clean_offsets, cluster=cluster)

    def names(self) -> list[str]:
        """Return the names of all consumer groups, the brokers' own among them, sorted."""
        return self._run.call(self._awaited.names)

    def get(self, name: str) -> Mapping[str, SubscriptionGroup]:
        """Return how a group is set up, by broker name; empty if no broker knows it."""
        return self._run.call(self._awaited.get, name)

    def topics(self, name: str) -> list[str]:
        """Return the topics in which a group has committed, except for its retry topic, sorted."""
        return self._run.call(self._awaited.topics, name)

    def progress(self, name: str, topic: str | None = None) -> ConsumeStats:
        """Return how far a group is in each of its queues; `.lag` is what it has before it."""
        return self._run.call(self._awaited.progress, name, topic)

    def consumers(self, name: str) -> ConsumerConnection | None:
        """Return who is connected in a consumer group, and what they read; None for nobody."""
        return self._run.call(self._awaited.consumers, name)

    def producers(self, name: str) -> list[ClientConnection]:
        """Return who is connected in a producer group, by client id."""
        return self._run.call(self._awaited.producers, name)

    def running_info(self, name: str, client_id: str, *, with_stacks: bool = False) -> RunningInfo:
        """Return what one consumer is doing, asked of itself by way of a broker."""
        return self._run.call(self._awaited.running_info, name, client_id, with_stacks=with_stacks)

    def consume_directly(
        self, name: str, client_id: str, message: ReceivedMessage
    ) -> DirectOutcome:
        """Have one consumer's listener consume a message now, whatever its offset is."""
        return self._run.call(self._awaited.consume_directly, name, client_id, message)

    def reset_offsets(
        self, name: str, topic: str, to: Start, *, is_forced: bool = True
    ) -> Mapping[MessageQueue, QueueOffset]:
        """Let a group go on from another place in a topic; return where, by queue."""
        return self._run.call(self._awaited.reset_offsets, name, topic, to, is_forced=is_forced)

    def clone_offsets(self, source: str, target: str, topic: str | None = None) -> None:
        """Let a group go on where another one is."""
        self._run.call(self._awaited.clone_offsets, source, target, topic)


class BlockingBrokerAdmin:
    """What can be done with brokers, by name; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.broker

    def status(self, broker: str) -> BrokerStatus:
        """Return what a broker is doing. Raises NoRoute if there is none of that name."""
        return self._run.call(self._awaited.status, broker)

    def config(self, broker: str) -> dict[str, str]:
        """Return a broker's settings, under RocketMQ's names."""
        return self._run.call(self._awaited.config, broker)

    def update_config(self, broker: str, settings: Mapping[str, str]) -> None:
        """Change settings of a broker while it runs, those that can be."""
        self._run.call(self._awaited.update_config, broker, settings)

    def stats(self, broker: str, name: str, key: str) -> StatsData:
        """Return how often something happened in the last minute, hour and day."""
        return self._run.call(self._awaited.stats, broker, name, key)

    def consume_stats(self, broker: str, *, is_order: bool = False) -> BrokerConsumeStats:
        """Return how far every group is in the queues of a broker."""
        return self._run.call(self._awaited.consume_stats, broker, is_order=is_order)

    def producers(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Return the producers that are connected to a broker, by group."""
        return self._run.call(self._awaited.producers, broker)

    def queue_units(
        self, queue: MessageQueue, first: int, count: int = 32, *, group: str | None = None
    ) -> QueueUnits:
        """Return what a queue says of its messages: places, sizes, codes of tags."""
        return self._run.call(self._awaited.queue_units, queue, first, count, group=group)

    def clean_expired_queues(self, broker: str) -> None:
        """Have a broker delete the parts of queues whose messages are gone."""
        self._run.call(self._awaited.clean_expired_queues, broker)

    def clean_unused_topics(self, broker: str) -> None:
        """Have a broker delete the queues of topics that do not exist any more."""
        self._run.call(self._awaited.clean_unused_topics, broker)

    def delete_expired_log(self, broker: str) -> None:
        """Have a broker delete the files of its log that are past their time, now."""
        self._run.call(self._awaited.delete_expired_log, broker)


class BlockingNameServerAdmin:
    """What can be done with NameServers; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.nameserver

    def put(self, namespace: str, key: str, value: str) -> None:
        """Keep a value under a namespace and a key."""
        self._run.call(self._awaited.put, namespace, key, value)

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None if there is none."""
        return self._run.call(self._awaited.get, namespace, key)

    def delete(self, namespace: str, key: str) -> None:
        """Drop a value; one that is not there is no error."""
        self._run.call(self._awaited.delete, namespace, key)

    def values(self, namespace: str) -> Mapping[str, str]:
        """Return all values of a namespace by key."""
        return self._run.call(self._awaited.values, namespace)

    def config(self) -> Mapping[str, Mapping[str, str]]:
        """Return the settings of each NameServer, under RocketMQ's names, by address."""
        return self._run.call(self._awaited.config)

    def update_config(self, settings: Mapping[str, str]) -> None:
        """Change settings while they run, those that can be; RocketMQ ignores unknown ones."""
        self._run.call(self._awaited.update_config, settings)

    def wipe_write_permission(self, broker: str) -> int:
        """Have producers stop sending to a broker, as before its maintenance."""
        return self._run.call(self._awaited.wipe_write_permission, broker)

    def add_write_permission(self, broker: str) -> int:
        """Have producers send to a broker again."""
        return self._run.call(self._awaited.add_write_permission, broker)


class BlockingMessageAdmin:
    """How single messages are found; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.message

    def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = FOUND_MESSAGES_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key, oldest first."""
        return self._run.call(
            self._awaited.by_key, topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

    def by_id(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None if there is none."""
        return self._run.call(self._awaited.by_id, message_id, topic)


class BlockingOffsetAdmin:
    """What can be asked of single queues; see `client.Admin`."""

    def __init__(self, run: Runner[_admin.Admin]) -> None:
        self._run = run
        self._awaited = run.client.offset

    def max(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return self._run.call(self._awaited.max, queue)

    def min(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return self._run.call(self._awaited.min, queue)

    def by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end."""
        return self._run.call(self._awaited.by_time, queue, at_ms)

    def earliest_at_ms(self, queue: MessageQueue) -> int | None:
        """Return when the oldest message of a queue was stored, in ms since 1970; None if empty."""
        return self._run.call(self._awaited.earliest_at_ms, queue)

    def committed(self, group: str, queue: MessageQueue) -> QueueOffset | None:
        """Return where a group goes on in a queue, or None if it has not committed there."""
        return self._run.call(self._awaited.committed, group, queue)

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let a group go on at an offset; members that are connected may overwrite it."""
        self._run.call(self._awaited.commit, group, queue, offset)
