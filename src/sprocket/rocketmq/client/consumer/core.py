"""What push and lite pull have in common: a member of a group, before it is open and while it is.

Messages go to a listener, or wait to be polled; the rest is the same for both.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import cast

from msgspec import Struct

from sprocket import __version__
from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import RealDisk
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.delivery import (
    RETRIES_MAX,
    ConcurrentConsumption,
    Listener,
    ListenerCalls,
    OrderlyConsumption,
    PollBuffer,
    SendBack,
)
from sprocket.rocketmq.client.consumer.directives import Directives
from sprocket.rocketmq.client.consumer.group_membership import GroupMember, OnRebalance
from sprocket.rocketmq.client.consumer.queues import (
    SAMPLE_S,
    Assignment,
    BrokerLedger,
    Consumption,
    FileLedger,
    Ledger,
    Locks,
    Offsets,
    ProcessQueue,
    QueuePuller,
    Start,
    StartOffsets,
)
from sprocket.rocketmq.client.consumer.rebalance import Strategy
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions
from sprocket.rocketmq.client.network import ClientOptions, JoinedGroup, Lease, Where
from sprocket.rocketmq.client.producer import check_group
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.model.group import (
    ALL,
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
)
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.tasks import is_set_within

_RELOCK_MS = 3_000
"""How often a lock is tried for that somebody else has, as RocketMQ does it."""
_TIMEOUT_ROUNDS = 10
"""How many times within `consume_timeout_ms` to look for messages that took too long."""

_log = log.get_logger(__name__)


class ConsumerOptions(ClientOptions, total=False):
    """Arguments that every consumer of a group takes; `PushConsumer` says what they mean."""

    start: Start
    strategy: Strategy
    on_rebalance: OnRebalance | None
    settings: ConsumerSettings | None


class PushOptions(ConsumerOptions, total=False):
    """And those of a consumer to which messages are handed."""

    orderly: bool
    broadcast: bool


_OF_CONSUMER = PushOptions.__annotations__.keys() - ClientOptions.__annotations__.keys()


class ConsumerPlan(Struct, frozen=True, kw_only=True):
    """What the user of a consumer wants; see `PushConsumer` and `LitePullConsumer`."""

    group: str
    start: Start
    strategy: Strategy
    on_rebalance: OnRebalance | None
    settings: ConsumerSettings
    listener: Listener | None = None
    """Without one, messages wait to be polled."""
    is_loop: bool = False
    """Whether the listener only hands messages to a loop of the user's."""
    is_orderly: bool = False
    is_broadcast: bool = False
    is_auto_commit: bool = True
    """Whether what was polled is committed by itself."""

    @property
    def message_model(self) -> str:
        """What brokers call it."""
        return BROADCASTING if self.is_broadcast else CLUSTERING

    @property
    def consume_type(self) -> str:
        """What brokers call it."""
        return CONSUME_ACTIVELY if self.listener is None else CONSUME_PASSIVELY

    @property
    def retries_max(self) -> int:
        """How often the broker is to deliver a message again."""
        found = self.settings.retries_max
        return RETRIES_MAX if found is None else found


class ConsumerCore:
    """One consumer, from before it is open until it is closed.

    Args:
        plan: What is wanted.
        where: NameServers, or a client to share.
        options: As the consumer got them; those of `ClientOptions` are for a client of its own.

    Raises:
        InvalidMessage: The group's name is illegal.
    """

    def __init__(self, plan: ConsumerPlan, where: Where, options: ClientOptions) -> None:
        check_group(plan.group)
        self._plan = plan
        of_client = {name: one for name, one in options.items() if name not in _OF_CONSUMER}
        self.lease = Lease("consumer", where, cast("ClientOptions", of_client))
        self.subscriptions = Subscriptions()
        self._open: OpenConsumer | None = None
        self._closing = asyncio.Lock()

    async def start(self) -> None:
        """Join the group, and read what was subscribed to.

        Raises:
            InvalidMessage: `start` is none of what it may be.
            ClientError: The client that is shared has a consumer of this group, or there is no
                place for the offsets of one that broadcasts.
        """
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

    async def subscribe(self, topic: str, expression: str) -> None:
        """Read a topic, at once if the consumer is open. Raises InvalidMessage."""
        clock: Clock | None = None if self._open is None else self.lease.instance.clock
        self.subscriptions.add(topic, expression, clock)
        if self._open is not None:
            await self._open.share_out(topic)

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

    Args:
        plan: What is wanted.
        lease: Its hold on connections, and its tasks.
        subscriptions: By topic; may change.

    Raises:
        InvalidMessage: The plan's `start` is none of what it may be.
        ClientError: There is no place for the offsets of a consumer that broadcasts.
    """

    def __init__(self, plan: ConsumerPlan, lease: Lease, subscriptions: Subscriptions) -> None:
        self._plan = plan
        self._lease = lease
        self._subscriptions = subscriptions
        self._is_sharing = False
        self._at_end = AsyncExitStack()
        self.instance = instance = lease.instance
        is_polled = plan.listener is None
        self.polling = PollBuffer()
        """Used where there is no listener."""
        self.offsets = Offsets(plan.group, self._ledger())
        self._consumption = self.polling if plan.listener is None else self._consume(plan.listener)
        self._locks = None
        if plan.is_orderly and not plan.is_broadcast:
            self._locks = Locks(plan.group, instance.client_id, instance.brokers)
        pulling = QueuePuller(
            plan.group,
            instance.brokers,
            subscriptions,
            self._consumption,
            self.offsets,
            plan.settings,
            commits=not plan.is_broadcast and not is_polled,
            is_lite=is_polled,
        )
        self.assignment = Assignment(
            self.offsets,
            StartOffsets(self.offsets, instance.brokers, plan.start),
            self._locks,
            pulling,
            lease,
            plan.settings,
            notes_moves=not is_polled,
            on_leave=self._note if is_polled and plan.is_auto_commit else None,
        )
        self._member = GroupMember(
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
            return BrokerLedger(self._plan.group, self.instance.brokers)
        root = os.path.expanduser(self._plan.settings.broadcast_folder)
        owner = f"{self.instance.ip}@DEFAULT"
        unit = self.instance.settings.unit_name
        ledger = FileLedger(RealDisk(), root, owner, self._plan.group, unit=unit)
        self._at_end.push_async_callback(ledger.close)
        return ledger

    def _consume(self, listener: Listener) -> Consumption:
        plan, instance, tasks = self._plan, self.instance, self._lease.tasks
        calls = ListenerCalls(listener, instance.clock)
        back = SendBack(
            plan.group, instance.connections, instance.routes, instance.clock, plan.retries_max
        )
        if plan.is_orderly:
            return OrderlyConsumption(
                calls,
                self.offsets,
                _dropped if plan.is_broadcast else back.send_all,
                tasks,
                plan.settings,
                needs_locks=not plan.is_broadcast,
            )
        give_back = _dropped if plan.is_broadcast else back
        return ConcurrentConsumption(calls, self.offsets, give_back, tasks, plan.settings)

    async def begin(self) -> None:
        """Join the group, and read what was subscribed to.

        Raises:
            ClientError: The client that is shared has a consumer of this group.
        """
        plan, tasks = self._plan, self._lease.tasks
        is_polled = plan.listener is None
        if not is_polled and not plan.is_broadcast:
            self._subscriptions.add(RETRY_PREFIX + plan.group, ALL, self.instance.clock)
        directives = self._directives()
        self._lease.join_as_consumer(plan.group, JoinedGroup(self._heartbeat, directives.requested))
        if not is_polled or plan.is_auto_commit:
            tasks.spawn(self._store_offsets(), "store offsets")
        tasks.spawn(self._sample(), "sample")
        if self._locks is not None:
            tasks.spawn(self._renew_locks(), "renew locks")
        if isinstance(self._consumption, ConcurrentConsumption) and not plan.is_broadcast:
            tasks.spawn(self._give_back_late(self._consumption), "give back late messages")
        for topic in list(self._subscriptions):
            await self.share_out(topic)

    async def share_out(self, topic: str) -> None:
        """Read the queues of a topic that fall to this member, from now on."""
        if not self._is_sharing:
            self._is_sharing = True
            self._member.begin()
        await self._member.announce(topic)

    def _directives(self) -> Directives:
        plan, instance = self._plan, self.instance
        properties = {
            "PROP_CLIENT_VERSION": f"SPROCKET_{__version__}",
            "PROP_CONSUMER_START_TIMESTAMP": str(instance.clock.now_ms()),
            "PROP_CONSUME_TYPE": plan.consume_type,
            "PROP_NAMESERVER_ADDR": ";".join(instance.names.addresses),
        }
        if plan.listener is not None:
            properties |= {
                "PROP_CONSUMEORDERLY": "true" if plan.is_orderly else "false",
                "PROP_THREADPOOL_CORE_SIZE": str(plan.settings.call_count_max),
                "messageModel": plan.message_model,
            }
        return Directives(
            self._lease,
            self._member.wake,
            self.assignment,
            self.offsets,
            self._subscriptions,
            properties,
            None if plan.is_loop else plan.listener,
        )

    async def end(self) -> None:
        """Let the listener return, store the offsets, release the queues."""
        close_wait_ms = self._plan.settings.close_wait_ms
        await self._member.end()
        if self._plan.listener is None and self._plan.is_auto_commit:
            self.note_positions()
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

    def note_positions(self) -> None:
        """Take as the group's offsets what is done of each queue."""
        for held in self.assignment.all_held():
            self._note(held)

    def _note(self, held: ProcessQueue) -> None:
        self.offsets.overwrite(held.queue, held.commit_offset)

    def _heartbeat(self) -> ConsumerData:
        plan = self._plan
        return self._subscriptions.heartbeat(
            plan.group,
            plan.start,
            consume_type=plan.consume_type,
            message_model=plan.message_model,
        )

    async def _store_offsets(self) -> None:
        while True:
            await asyncio.sleep(self._plan.settings.commit_ms / 1000)
            if self._plan.listener is None:
                self.note_positions()
            await self.offsets.store_all()

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
        self._lease.watch(self.instance.on_broker_open, renew.set)
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
