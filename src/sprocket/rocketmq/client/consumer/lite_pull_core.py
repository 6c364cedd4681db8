"""A lite consumer while it is open: what it is made of."""

import asyncio

from msgspec import Struct

from sprocket import __version__
from sprocket.rocketmq.client.consumer.assignment import Assignment, Start, StartOffsets
from sprocket.rocketmq.client.consumer.directives import Directives
from sprocket.rocketmq.client.consumer.group_membership import GroupMember, OnRebalance
from sprocket.rocketmq.client.consumer.held_queue import HeldQueue
from sprocket.rocketmq.client.consumer.offsets import BrokerLedger, Offsets
from sprocket.rocketmq.client.consumer.poll_buffer import PollBuffer
from sprocket.rocketmq.client.consumer.queue_puller import QueuePuller
from sprocket.rocketmq.client.consumer.rebalance import Strategy
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions
from sprocket.rocketmq.client.network import JoinedGroup, Lease
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.model.group import CLUSTERING, CONSUME_ACTIVELY


class LitePlan(Struct, frozen=True, kw_only=True):
    """What the user of a lite consumer wants; see `LitePullConsumer`."""

    group: str
    start: Start
    is_auto_commit: bool
    strategy: Strategy
    on_rebalance: OnRebalance | None
    settings: ConsumerSettings


class LitePullCore:
    """Wires the parts of one consumer, and commits now and then.

    Args:
        plan: What is wanted.
        lease: Its hold on connections, and its tasks.
        subscriptions: By topic; may change.

    Raises:
        InvalidMessage: The plan's `start` is none of what it may be.
    """

    def __init__(self, plan: LitePlan, lease: Lease, subscriptions: Subscriptions) -> None:
        self._plan = plan
        self._lease = lease
        self._subscriptions = subscriptions
        self._is_sharing = False
        instance, settings = lease.instance, plan.settings
        self.offsets = Offsets(plan.group, BrokerLedger(plan.group, instance.brokers))
        self.polling = PollBuffer()
        pulling = QueuePuller(
            plan.group,
            instance.brokers,
            subscriptions,
            self.polling,
            self.offsets,
            settings,
            commits=False,
            is_lite=True,
        )
        self.assignment = Assignment(
            self.offsets,
            StartOffsets(self.offsets, instance.brokers, plan.start),
            None,
            pulling,
            lease.tasks,
            instance.clock,
            settings,
            notes_moves=False,
        )
        self.member = GroupMember(
            plan.group,
            lease,
            subscriptions,
            self.assignment,
            settings,
            strategy=plan.strategy,
            on_rebalance=plan.on_rebalance,
        )

    def begin(self) -> None:
        """Join the group.

        Raises:
            ClientError: The client that is shared has a consumer of this group.
        """
        instance = self._lease.instance
        directives = Directives(
            self._lease,
            self.member.wake,
            self.assignment,
            self.offsets,
            self._subscriptions,
            {
                "PROP_CLIENT_VERSION": f"SPROCKET_{__version__}",
                "PROP_CONSUMER_START_TIMESTAMP": str(instance.clock.now_ms()),
                "PROP_CONSUME_TYPE": CONSUME_ACTIVELY,
                "PROP_NAMESERVER_ADDR": ";".join(instance.names.addresses),
            },
            None,
        )
        group = JoinedGroup(self._heartbeat, directives.requested)
        self._lease.join_as_consumer(self._plan.group, group)
        if self._plan.is_auto_commit:
            self.assignment.on_leave = self._note
            self._lease.tasks.spawn(self._commit(), "commit")

    async def share_out(self, topic: str) -> None:
        """Read the queues of a topic that fall to this member, from now on."""
        if not self._is_sharing:
            self._is_sharing = True
            self.member.begin()
        await self.member.announce(topic)

    async def end(self) -> None:
        """Commit what is done, if that is automatic, and let go of the queues."""
        await self.member.end()
        if self._plan.is_auto_commit:
            self.note_positions()
        await self.assignment.stop()
        await self.assignment.leave_all()

    def note_positions(self) -> None:
        """Take as the group's offsets what is done of each queue."""
        for held in self.assignment.all_held():
            self._note(held)

    def _note(self, held: HeldQueue) -> None:
        self.offsets.overwrite(held.queue, held.cache.commit_offset)

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(self._plan.settings.commit_ms / 1000)
            self.note_positions()
            await self.offsets.store_all()

    def _heartbeat(self) -> ConsumerData:
        return self._subscriptions.heartbeat(
            self._plan.group,
            self._plan.start,
            consume_type=CONSUME_ACTIVELY,
            message_model=CLUSTERING,
        )
