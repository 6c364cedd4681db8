"""Receiving messages: a group shares out the queues of its topics and reads each once."""

import asyncio
from typing import Self, Unpack

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import ClientError, NoRoute
from sprocket.rocketmq.client.assignment import Assignment, Locks, Start, StartOffsets
from sprocket.rocketmq.client.consume import (
    ConcurrentConsumption,
    Consumption,
    Listener,
    OrderlyConsumption,
)
from sprocket.rocketmq.client.instance import ConsumerGroup, Instance
from sprocket.rocketmq.client.lease import Lease, Options, Where
from sprocket.rocketmq.client.members import GroupMember
from sprocket.rocketmq.client.offsets import Offsets
from sprocket.rocketmq.client.outgoing import check_group, check_topic
from sprocket.rocketmq.client.pulling import Pulling
from sprocket.rocketmq.client.received import RETRY_PREFIX
from sprocket.rocketmq.client.send_back import SendBack
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.codec import client_bodies
from sprocket.rocketmq.model.group import CLUSTERING, CONSUME_PASSIVELY, Subscription
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.tasks import is_set_within

_RELOCK_MS = 3_000
"""How often a lock is tried for that somebody else has, as RocketMQ does it."""

_log = log.get_logger(__name__)


class PushConsumer:
    """Receives the messages of the topics it subscribes to.

        async def listener(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                print(message.body)

        async with PushConsumer("127.0.0.1:9876", group="g", listener=listener) as consumer:
            await consumer.subscribe("orders", "new || changed")
            await asyncio.Event().wait()

    All consumers of one group share the queues; each message goes to one of them, at least once.
    When the listener returns, its messages are done; when it raises, they are delivered again,
    later. A plain listener runs on the event loop and must not block it.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Name of the consumer group. All its members must subscribe to the same.
        listener: Called with 1 to `batch_messages_max` messages of one queue, in its order.
        orderly: Hand out the messages of each queue one call after the other, and after a failure
            the same ones again before any later ones. Without it calls overlap.
        start: Where a group begins that has committed nothing: "first" at the oldest message,
            "last" behind the newest, a datetime or milliseconds since 1970 at that time.
        settings: Sizes, limits, pauses.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        listener: Listener,
        orderly: bool = False,
        start: Start = "last",
        settings: ConsumerSettings | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._group = check_group(group)
        self._listener = listener
        self._is_orderly = orderly
        self._start = start
        self._settings = settings or ConsumerSettings()
        self._lease = Lease("consumer", where, options)
        self._subscriptions: dict[str, Subscription] = {}
        self._parts: _Parts | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin; topics that were subscribed to already are read from now on."""
        instance = self._lease.begin()
        tasks = self._lease.tasks
        offsets = Offsets(self._group, instance.brokers)
        locks = None
        consumption: Consumption
        if self._is_orderly:
            locks = Locks(self._group, instance.client_id, instance.brokers)
            consumption = OrderlyConsumption(
                self._listener, offsets, instance.clock, tasks, self._settings
            )
        else:
            consumption = ConcurrentConsumption(
                self._listener,
                offsets,
                SendBack(self._group, instance.connections, instance.routes),
                tasks,
                self._settings,
            )
        pulling = Pulling(
            self._group,
            instance.brokers,
            self._subscriptions,
            consumption,
            offsets,
            self._settings,
        )
        assignment = Assignment(
            offsets,
            StartOffsets(self._group, instance.brokers, self._start),
            locks,
            pulling,
            tasks,
            instance.clock,
            self._settings,
        )
        member = GroupMember(
            self._group, self._lease, self._subscriptions, assignment, self._settings
        )
        self._parts = _Parts(
            instance=instance, offsets=offsets, assignment=assignment, member=member
        )
        now_ms = instance.clock.now_ms()
        retry_topic = RETRY_PREFIX + self._group
        self._subscriptions[retry_topic] = Subscription.parse(retry_topic, "*", version=now_ms)
        self._lease.join_as_consumer(self._group, ConsumerGroup(self._heartbeat, member.requested))
        tasks.spawn(self._store_offsets(self._parts), "store offsets")
        if locks is not None:
            tasks.spawn(self._renew_locks(self._parts), "renew locks")
        member.begin()
        for topic in list(self._subscriptions):
            await self._announce(self._parts, topic)

    async def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        parts, self._parts = self._parts, None
        if parts is None:
            return
        await parts.member.end()
        try:
            async with asyncio.timeout(self._settings.close_wait_ms / 1000):
                await parts.assignment.stop()
        except TimeoutError:
            _log.warning(
                "listener still at work; its messages will be delivered again",
                group=self._group,
                close_wait_ms=self._settings.close_wait_ms,
            )
        await parts.assignment.leave_all()
        await self._lease.end()

    async def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive the messages of a topic; a topic that does not exist yet is read once it does.

        Args:
            topic: Its name.
            expression: Tags with `||` between them, such as `new || changed`, or `*` for all.

        Raises:
            InvalidMessage: The topic's name is illegal.
        """
        check_topic(topic)
        parts = self._parts
        version = 0 if parts is None else parts.instance.clock.now_ms()
        known = self._subscriptions.get(topic)
        if known is not None:
            version = max(version, known.version + 1)
        self._subscriptions[topic] = Subscription.parse(topic, expression, version=version)
        if parts is not None:
            await self._announce(parts, topic)

    async def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._subscriptions.pop(topic, None)
        if self._parts is not None:
            for queue in self._parts.assignment.queues(topic):
                self._parts.assignment.give_up(queue)
            await self._parts.instance.heartbeat_all()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return [] if self._parts is None else self._parts.assignment.queues()

    async def _announce(self, parts: "_Parts", topic: str) -> None:
        """Tell the brokers of a topic, then share out its queues."""
        try:
            await parts.instance.routes.find(topic)
        except ClientError as error:
            if isinstance(error, NoRoute) and error.__cause__ is None:
                parts.assignment.expect(topic)
            if not topic.startswith(RETRY_PREFIX):
                _log.warning("topic cannot be read yet; trying on", topic=topic, error=str(error))
        await parts.instance.heartbeat_all()
        parts.member.wake()

    def _heartbeat(self) -> client_bodies.ConsumerData:
        where = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET"}
        return client_bodies.ConsumerData(
            group=self._group,
            consume_type=CONSUME_PASSIVELY,
            message_model=CLUSTERING,
            consume_from_where=where.get(str(self._start), "CONSUME_FROM_TIMESTAMP"),
            subscriptions=tuple(self._subscriptions.values()),
        )

    async def _store_offsets(self, parts: "_Parts") -> None:
        while True:
            await asyncio.sleep(self._settings.commit_ms / 1000)
            await parts.offsets.store_all()

    async def _renew_locks(self, parts: "_Parts") -> None:
        """Renew locks in time, at once with a broker that has come back, and lost ones soon."""
        renew = asyncio.Event()
        self._lease.watch(parts.instance.on_broker_open, renew.set)
        lock_ms = wait_ms = self._settings.lock_ms
        while True:
            await is_set_within(wait_ms / 1000, renew)
            renew.clear()
            is_all_locked = await parts.assignment.renew_locks()
            wait_ms = lock_ms if is_all_locked else min(lock_ms, _RELOCK_MS)


class _Parts(Struct, frozen=True):
    """What a consumer has while it is open."""

    instance: Instance
    offsets: Offsets
    assignment: Assignment
    member: GroupMember
