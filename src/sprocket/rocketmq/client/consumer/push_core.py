"""A push consumer while it is open: what it is made of, and what it does from time to time."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from msgspec import Struct

from sprocket import __version__
from sprocket.base import log
from sprocket.base.disk import RealDisk
from sprocket.rocketmq.client.consumer.assignment import Assignment, Locks, Start, StartOffsets
from sprocket.rocketmq.client.consumer.consume import (
    ConcurrentConsumption,
    ListenerCalls,
    OrderlyConsumption,
)
from sprocket.rocketmq.client.consumer.consume_counts import SAMPLE_S
from sprocket.rocketmq.client.consumer.directives import Directives
from sprocket.rocketmq.client.consumer.group_membership import GroupMember, OnRebalance
from sprocket.rocketmq.client.consumer.listener import Listener
from sprocket.rocketmq.client.consumer.offset_file import FileLedger
from sprocket.rocketmq.client.consumer.offsets import BrokerLedger, Ledger, Offsets
from sprocket.rocketmq.client.consumer.queue_puller import QueuePuller
from sprocket.rocketmq.client.consumer.rebalance import Strategy
from sprocket.rocketmq.client.consumer.send_back import RETRIES_MAX, SendBack
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions
from sprocket.rocketmq.client.network import JoinedGroup, Lease
from sprocket.rocketmq.client.received import RETRY_PREFIX, ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.model.group import ALL, BROADCASTING, CLUSTERING, CONSUME_PASSIVELY
from sprocket.runtime.tasks import is_set_within

_RELOCK_MS = 3_000
"""How often a lock is tried for that somebody else has, as RocketMQ does it."""
_TIMEOUT_ROUNDS = 10
"""How many times within `consume_timeout_ms` to look for messages that took too long."""

_log = log.get_logger(__name__)


class PushPlan(Struct, frozen=True, kw_only=True):
    """What the user of a push consumer wants; see `PushConsumer`."""

    group: str
    listener: Listener
    is_loop: bool
    """Whether the listener only hands messages to a loop of the user's."""
    is_orderly: bool
    is_broadcast: bool
    start: Start
    strategy: Strategy
    on_rebalance: OnRebalance | None
    settings: ConsumerSettings

    @property
    def message_model(self) -> str:
        """What brokers call it."""
        return BROADCASTING if self.is_broadcast else CLUSTERING

    @property
    def retries_max(self) -> int:
        """How often the broker is to deliver a message again."""
        found = self.settings.retries_max
        return RETRIES_MAX if found is None else found


class PushCore:
    """Wires the parts of one consumer, and runs what they need to have done now and then.

    Args:
        plan: What is wanted.
        lease: Its hold on connections, and its tasks.
        subscriptions: By topic; may change.

    Raises:
        InvalidMessage: The plan's `start` is none of what it may be.
        ClientError: There is no place for the offsets of a consumer that broadcasts.
    """

    def __init__(self, plan: PushPlan, lease: Lease, subscriptions: Subscriptions) -> None:
        self._plan = plan
        self._lease = lease
        self._subscriptions = subscriptions
        self._at_end = AsyncExitStack()
        self._instance = instance = lease.instance
        self._offsets = offsets = Offsets(plan.group, self._ledger())
        starts = StartOffsets(offsets, instance.brokers, plan.start)
        self._consumption = self._consume()
        self._locks = None
        if plan.is_orderly and not plan.is_broadcast:
            self._locks = Locks(plan.group, instance.client_id, instance.brokers)
        pulling = QueuePuller(
            plan.group,
            instance.brokers,
            subscriptions,
            self._consumption,
            offsets,
            plan.settings,
            commits=not plan.is_broadcast,
        )
        self.assignment = Assignment(
            offsets, starts, self._locks, pulling, lease.tasks, instance.clock, plan.settings
        )
        self.member = GroupMember(
            plan.group,
            lease,
            subscriptions,
            self.assignment,
            plan.settings,
            strategy=None if plan.is_broadcast else plan.strategy,
            on_rebalance=plan.on_rebalance,
        )

    def _ledger(self) -> Ledger:
        """Return where offsets are written down."""
        if not self._plan.is_broadcast:
            return BrokerLedger(self._plan.group, self._instance.brokers)
        root = os.path.expanduser(self._plan.settings.broadcast_folder)
        owner = f"{self._instance.ip}@DEFAULT"
        unit = self._instance.settings.unit_name
        ledger = FileLedger(RealDisk(), root, owner, self._plan.group, unit=unit)
        self._at_end.push_async_callback(ledger.close)
        return ledger

    def _consume(self) -> ConcurrentConsumption | OrderlyConsumption:
        plan, instance, tasks = self._plan, self._instance, self._lease.tasks
        calls = ListenerCalls(plan.listener, instance.clock)
        back = SendBack(
            plan.group, instance.connections, instance.routes, instance.clock, plan.retries_max
        )
        if plan.is_orderly:
            return OrderlyConsumption(
                calls,
                self._offsets,
                _dropped if plan.is_broadcast else back.send_all,
                tasks,
                plan.settings,
                needs_locks=not plan.is_broadcast,
            )
        give_back = _dropped if plan.is_broadcast else back
        return ConcurrentConsumption(calls, self._offsets, give_back, tasks, plan.settings)

    async def begin(self) -> None:
        """Join the group, and read what was subscribed to.

        Raises:
            ClientError: The client that is shared has a consumer of this group.
        """
        plan, tasks = self._plan, self._lease.tasks
        if not plan.is_broadcast:
            self._subscriptions.add(RETRY_PREFIX + plan.group, ALL, self._instance.clock)
        directives = self._directives()
        self._lease.join_as_consumer(plan.group, JoinedGroup(self._heartbeat, directives.requested))
        tasks.spawn(self._store_offsets(), "store offsets")
        tasks.spawn(self._sample(), "sample")
        if self._locks is not None:
            tasks.spawn(self._renew_locks(), "renew locks")
        if isinstance(self._consumption, ConcurrentConsumption) and not plan.is_broadcast:
            tasks.spawn(self._give_back_late(self._consumption), "give back late messages")
        self.member.begin()
        for topic in list(self._subscriptions):
            await self.member.announce(topic)

    def _directives(self) -> Directives:
        plan, instance = self._plan, self._instance
        properties = {
            "PROP_CLIENT_VERSION": f"SPROCKET_{__version__}",
            "PROP_CONSUMEORDERLY": "true" if plan.is_orderly else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(instance.clock.now_ms()),
            "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
            "PROP_NAMESERVER_ADDR": ";".join(instance.names.addresses),
            "PROP_THREADPOOL_CORE_SIZE": str(plan.settings.call_count_max),
            "messageModel": plan.message_model,
        }
        return Directives(
            self._lease,
            self.member.wake,
            self.assignment,
            self._offsets,
            self._subscriptions,
            properties,
            None if plan.is_loop else plan.listener,
        )

    async def end(self) -> None:
        """Let the listener return, store the offsets, release the queues."""
        settings = self._plan.settings
        await self.member.end()
        try:
            async with asyncio.timeout(settings.close_wait_ms / 1000):
                await self.assignment.stop()
        except TimeoutError:
            _log.warning(
                "listener still at work; its messages will be delivered again",
                group=self._plan.group,
                close_wait_ms=settings.close_wait_ms,
            )
        await self.assignment.leave_all()
        await self._at_end.aclose()

    def _heartbeat(self) -> ConsumerData:
        return self._subscriptions.heartbeat(
            self._plan.group,
            self._plan.start,
            consume_type=CONSUME_PASSIVELY,
            message_model=self._plan.message_model,
        )

    async def _store_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._plan.settings.commit_ms / 1000)
            await self._offsets.store_all()

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            self.assignment.counts.sample()

    async def _give_back_late(self, consumption: ConcurrentConsumption) -> None:
        """Give back what the listener does not end with."""
        while True:
            await asyncio.sleep(self._plan.settings.consume_timeout_ms / 1000 / _TIMEOUT_ROUNDS)
            await consumption.give_back_late(self.assignment.all_held())

    async def _renew_locks(self) -> None:
        """Renew locks in time, at once with a broker that has come back, and lost ones soon."""
        renew = asyncio.Event()
        self._lease.watch(self._instance.on_broker_open, renew.set)
        lock_ms = wait_ms = self._plan.settings.lock_ms
        while True:
            await is_set_within(wait_ms / 1000, renew)
            renew.clear()
            is_all_locked = await self.assignment.renew_locks()
            wait_ms = lock_ms if is_all_locked else min(lock_ms, _RELOCK_MS)


async def _dropped(messages: Sequence[ReceivedMessage], _: int) -> list[ReceivedMessage]:
    """Give messages up: where every member gets everything, nobody delivers again."""
    _log.warning("messages dropped", messages=len(messages), first=messages[0].message_id)
    return []
