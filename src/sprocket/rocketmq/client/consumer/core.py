"""What push and lite pull have in common: a member of a group, before it is open and while it is.

Messages go to a listener, or wait to be polled; the rest is the same for both.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from functools import partial
from typing import cast

from msgspec.structs import replace

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import RealDisk
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.delivery import (
    ConcurrentConsumption,
    ConsumeSpans,
    ConsumeTraces,
    ListenerCalls,
    OrderlyConsumption,
    PollBuffer,
    SendBack,
)
from sprocket.rocketmq.client.consumer.directives import Directives
from sprocket.rocketmq.client.consumer.group_membership import GroupMember
from sprocket.rocketmq.client.consumer.plan import (
    ConsumerOptions,
    ConsumerPlan,
    Listener,
)
from sprocket.rocketmq.client.consumer.queues import (
    Assignment,
    BrokerLedger,
    Consumption,
    FileLedger,
    Ledger,
    Offsets,
    QueuePuller,
)
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions, read_subscription
from sprocket.rocketmq.client.network import ClientOptions, JoinedGroup, Lease, Where
from sprocket.rocketmq.client.producer import begin_traces, check_group, check_topic
from sprocket.rocketmq.client.tracing import tracer_if_used
from sprocket.rocketmq.codec.record import UniqueIds, ids
from sprocket.rocketmq.model.filters import ALL, Sql
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.tasks import is_set_within

_RELOCK_MS = 3_000
"""How often a lock is tried for that somebody else has, as RocketMQ does it."""
_TIMEOUT_ROUNDS = 10
"""How many times within `consume_timeout_ms` to look for messages that took too long."""

_OF_PLAN = ConsumerOptions.__annotations__.keys() - ClientOptions.__annotations__.keys()
"""Options that a plan takes as they are."""

_log = log.get_logger(__name__)


class ConsumerCore:
    """One consumer, from before it is open until it is closed.

    The options are those that the plan takes, and those of a client that is not shared.

    Raises:
        InvalidMessage: The name of the group, or of the topic for traces, is illegal.
    """

    def __init__(self, plan: ConsumerPlan, where: Where, options: ConsumerOptions) -> None:
        check_group(plan.group)
        of_client = {name: one for name, one in options.items() if name not in _OF_PLAN}
        given = {name: one for name, one in options.items() if name in _OF_PLAN}
        self._plan = replace(plan, **{name: one for name, one in given.items() if one is not None})
        check_topic(self._plan.settings.trace_topic)
        self.lease = Lease("consumer", where, cast("ClientOptions", of_client))
        self.subscriptions = Subscriptions()
        self._open: OpenConsumer | None = None
        self._closing = asyncio.Lock()

    async def start(self) -> None:
        """Join the group, and read what was subscribed to; errors as of `PushConsumer.start`."""
        self._plan.check()
        self.lease.begin()
        try:
            self._open = OpenConsumer(self._plan, self.lease, self.subscriptions)
            await self._open.begin()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let the listener return, store the offsets, leave the group; a second call waits."""
        async with self._closing:
            opened, self._open = self._open, None
            if opened is not None:
                await opened.end()
            await self.lease.end()

    @property
    def opened(self) -> "OpenConsumer":
        """What there is while it is open. Raises ClientError while it is not."""
        if self._open is None:
            raise ClientError("the consumer is not open; use `async with` or `await start()`")
        return self._open

    @property
    def is_open(self) -> bool:
        """Whether it was started and not closed."""
        return self._open is not None

    async def subscribe(self, topic: str, expression: str | Sql) -> None:
        """Read a topic, at once if the consumer is open; errors as of `PushConsumer.subscribe`."""
        if self._open is not None:
            await self._open.member.check(read_subscription(topic, expression))
        clock: Clock | None = None if self._open is None else self.lease.instance.clock
        self.subscriptions.add(topic, expression, clock)
        if self._open is not None:
            await self._open.member.announce(topic)

    async def unsubscribe(self, topic: str) -> None:
        """Read nothing more of a topic."""
        self.subscriptions.remove(topic)
        if self._open is not None:
            for queue in self._open.assignment.queues(topic):
                self._open.assignment.give_up(queue)
            await self.lease.instance.heartbeat_all()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that it reads at the moment."""
        return [] if self._open is None else self._open.assignment.queues()


class OpenConsumer:
    """Wires the parts of a consumer, and runs what they need to have done now and then.

    Raises:
        ClientError: There is no place for the offsets of a consumer that broadcasts.
    """

    def __init__(self, plan: ConsumerPlan, lease: Lease, subscriptions: Subscriptions) -> None:
        self._plan = plan
        self._lease = lease
        self._subscriptions = subscriptions
        self._at_end = AsyncExitStack()
        self.instance = instance = lease.instance
        self.polling = PollBuffer()
        """Used where there is no listener."""
        self.offsets = Offsets(plan.group, self._ledger())
        self._calls: ListenerCalls | None = None
        self._consumption = self.polling if plan.listener is None else self._consume(plan.listener)
        pulling = QueuePuller(
            plan, instance.brokers, subscriptions, self._consumption, self.offsets
        )
        self.assignment = Assignment(plan, lease, self.offsets, pulling)
        self.member = GroupMember(plan, lease, subscriptions, self.assignment)

    def _ledger(self) -> Ledger:
        """Return where offsets are written down."""
        if not self._plan.is_broadcast:
            return BrokerLedger(self._plan.group, self.instance.brokers)
        root = os.path.expanduser(self._plan.settings.broadcast_folder)
        owner = f"{self.instance.ip}@DEFAULT"
        unit = self.instance.settings.unit_name
        ledger = FileLedger(RealDisk(), root, owner, self._plan.group, unit=unit)
        self._at_end.push_async_callback(ledger.close)
        return ledger

    def _consume(self, listener: Listener) -> Consumption:
        instance = self.instance
        kind = OrderlyConsumption if self._plan.is_orderly else ConcurrentConsumption
        tracer = tracer_if_used() if self._plan.settings.telemetry else None
        if tracer is not None:
            group, model = self._plan.group, self._plan.message_model
            listener = ConsumeSpans(tracer, instance.client_id, group, model).following(listener)
        self._calls = ListenerCalls(listener, instance.clock)
        return kind(
            self._plan,
            self._calls,
            self.offsets,
            SendBack(self._plan, instance.connections, instance.routes, instance.clock),
            self._lease.tasks,
        )

    async def begin(self) -> None:
        """Join the group, and read what was subscribed to. Raises ClientError if it is there."""
        plan, tasks = self._plan, self._lease.tasks
        if plan.settings.trace:
            traced = self.polling if self._calls is None else self._calls
            traced.traces = await self._begin_traces()
        if not plan.is_polled and not plan.is_broadcast:
            self._subscriptions.add(RETRY_PREFIX + plan.group, ALL, self.instance.clock)
        directives = Directives(
            plan,
            self._lease,
            self.member.wake,
            self.assignment,
            self.offsets,
            self._subscriptions,
        )
        heartbeat = partial(self._subscriptions.heartbeat, plan)
        self._lease.join_as_consumer(plan.group, JoinedGroup(heartbeat, directives.requested))
        if not plan.is_polled or plan.is_auto_commit:
            tasks.spawn(self._store_offsets(), "store offsets")
        tasks.spawn(self.assignment.counts.run(), "sample")
        if plan.needs_locks:
            tasks.spawn(self._renew_locks(), "renew locks")
        if isinstance(self._consumption, ConcurrentConsumption) and not plan.is_broadcast:
            tasks.spawn(self._give_back_late(self._consumption), "give back late messages")
        for subscription in list(self._subscriptions.values()):
            await self.member.check(subscription)
        for topic in list(self._subscriptions):
            await self.member.announce(topic)

    async def _begin_traces(self) -> ConsumeTraces:
        """Return what notes what the listener, or who polls, is given."""
        group, instance = self._plan.group, self.instance
        topic = self._plan.settings.trace_topic
        writer = await begin_traces(self._lease.client, group, "CONSUME", topic)
        self._at_end.push_async_callback(writer.close)
        numbers = UniqueIds(instance.clock, ids.host_bytes(instance.ip, 0)[:-4])
        return ConsumeTraces(group, writer, numbers, instance.clock)

    async def end(self) -> None:
        """Let the listener return, store the offsets, release the queues."""
        close_wait_ms = self._plan.settings.close_wait_ms
        await self.member.end()
        if self._plan.is_polled and self._plan.is_auto_commit:
            self.assignment.note_positions()
        try:
            async with asyncio.timeout(close_wait_ms / 1000):
                await self.assignment.stop()
        except TimeoutError:
            _log.warning(
                "listener still at work; its messages will be delivered again",
                group=self._plan.group,
                close_wait_ms=close_wait_ms,
            )
        await self.assignment.leave_all()
        await self._at_end.aclose()

    async def _store_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._plan.settings.commit_ms / 1000)
            if self._plan.is_polled:
                self.assignment.note_positions()
            await self.offsets.store()

    async def _give_back_late(self, consumption: ConcurrentConsumption) -> None:
        """Give back what the listener does not end with."""
        while True:
            await asyncio.sleep(self._plan.settings.consume_timeout_ms / 1000 / _TIMEOUT_ROUNDS)
            await consumption.give_back_late(self.assignment.all_held())

    async def _renew_locks(self) -> None:
        """Renew locks in time, at once with a broker that has come back, and lost ones soon."""
        renew = asyncio.Event()
        self._lease.watch(self.instance.on_broker_open, renew.set)
        lock_ms = wait_ms = self._plan.settings.lock_ms
        while True:
            await is_set_within(wait_ms / 1000, renew)
            renew.clear()
            is_all_locked = await self.assignment.renew_locks()
            wait_ms = lock_ms if is_all_locked else min(lock_ms, _RELOCK_MS)
