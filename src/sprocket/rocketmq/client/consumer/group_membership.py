"""Being a member of a group: who else is there, and which queues are ours."""

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, InvalidMessage
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues import Assignment
from sprocket.rocketmq.client.consumer.rebalance import allocate
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ClientCheck
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.group import TAG, Subscription
from sprocket.rocketmq.model.internal import RETRY_PREFIX, TEMPLATE_TOPIC
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.tasks import is_set_within

_UNBALANCED_S = 1.0
"""Pause before a round is repeated that could not do all it should."""
_CHANGES_S = 0.05
"""Pause after a wake-up, in which others come too: several members that start together."""

_log = log.get_logger(__name__)


class GroupMember:
    """Shares out queues, in rounds: at wake-ups, and every `rebalance_ms`.

    A round changes nothing of a topic about which it cannot learn everything: the route, and a
    list of members that has us in it. Where members broadcast, each has every queue.
    """

    def __init__(
        self,
        plan: ConsumerPlan,
        lease: Lease,
        subscriptions: Mapping[str, Subscription],
        assignment: Assignment,
    ) -> None:
        self._plan = plan
        self._lease = lease
        self._instance = lease.instance
        self._subscriptions = subscriptions
        self._assignment = assignment
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Stop the rounds; the queues stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def wake(self) -> None:
        """Ask for a round soon."""
        self._woken.set()

    async def check(self, subscription: Subscription) -> None:
        """Ask the brokers of a topic whether they choose messages by a condition, if it is one.

        Those that cannot be reached, or do not know the question, are not heard.

        Raises:
            BrokerRefused: One does not: it is told not to, or cannot read the condition.
        """
        if subscription.type == TAG:
            return
        instance = self._instance
        with contextlib.suppress(ClientError):  # `announce` tells it
            await instance.routes.find(subscription.topic)
        queues = instance.routes.subscribe_queues(subscription.topic)
        client_id = instance.client_id
        asked = ClientCheck(client_id=client_id, group=self._plan.group, subscription=subscription)
        for name in sorted({queue.broker_name for queue in queues}):
            try:
                address = instance.routes.require_master(name)
                body = bodies.encode(asked)
                await instance.connections.call(address, RequestCode.CHECK_CLIENT_CONFIG, body=body)
            except BrokerRefused as refused:
                if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
            except ClientError as error:
                _log.debug("a condition was not checked", broker=name, error=str(error))

    async def announce(self, topic: str) -> None:
        """Tell the brokers of a topic that was subscribed to, then share out its queues.

        The rounds begin with the first topic.
        """
        if self._task is None:
            self._lease.watch(self._instance.on_broker_open, self.wake)
            self._lease.watch(self._instance.routes.on_change, self._route_changed)
            self._task = self._lease.tasks.spawn(self._rounds(), "rebalance")
        try:
            await self._instance.routes.find(topic)
        except ClientError as error:
            if isinstance(error, NoSuchTopic):
                self._assignment.expect(topic)
                # the template's route names brokers: they and administrators learn of the group
                # before its topic exists
                with contextlib.suppress(ClientError):  # where topics are not made by themselves
                    await self._instance.routes.find(TEMPLATE_TOPIC)
            if not topic.startswith(RETRY_PREFIX):
                _log.warning("topic cannot be read yet; trying on", topic=topic, error=str(error))
        await self._instance.heartbeat_all()
        self.wake()

    def _route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._woken.set()

    async def _rounds(self) -> None:
        usual_s = wait_s = self._plan.settings.rebalance_ms / 1000
        while True:
            if await is_set_within(wait_s, self._woken):
                await asyncio.sleep(_CHANGES_S)
            self._woken.clear()
            is_balanced = await self.round()
            wait_s = usual_s if is_balanced else _UNBALANCED_S

    async def round(self) -> bool:
        """Share out the queues of every topic; say whether all are as they should be."""
        before = self._assignment.queues()
        is_balanced = True
        for topic in list(self._subscriptions):
            try:
                is_balanced &= await self._share_out(topic)
            except InvalidMessage as error:  # a strategy is a user's code; its queues stay
                is_balanced = False
                group = self._plan.group
                _log.error("the strategy failed", topic=topic, group=group, exc_info=error)
            except ClientError as error:
                is_balanced = False
                _log.debug("queues not shared out", topic=topic, error=str(error))
        for queue in self._assignment.queues():
            if queue.topic not in self._subscriptions:  # not any more, while it was being taken
                self._assignment.give_up(queue)
        after = self._assignment.queues()
        if after != before:
            self._tell(after)
            await self._instance.heartbeat_all()
        return is_balanced

    def _tell(self, queues: Sequence[MessageQueue]) -> None:
        if self._plan.on_rebalance is None:
            return
        try:
            self._plan.on_rebalance(queues)
        except BaseException:  # a user's code; the queues are shared out anyway
            _log.exception("on_rebalance failed", group=self._plan.group)

    async def _share_out(self, topic: str) -> bool:
        routes = self._instance.routes
        queues = routes.subscribe_queues(topic)
        if not queues:
            try:
                await routes.refresh(topic)
            except NoRoute:
                return topic.startswith(RETRY_PREFIX)
            queues = routes.subscribe_queues(topic)
            await self._instance.heartbeat_all()
        if not queues:
            return False
        wanted = queues
        if not self._plan.is_broadcast:
            members = await self._members(queues)
            if self._instance.client_id not in members:
                return False
            wanted = allocate(self._plan.strategy, queues, members, self._instance.client_id)
        return await self._assignment.change(topic, wanted, queues)

    async def _members(self, queues: list[MessageQueue]) -> list[str]:
        """Return the group's members as a broker of the topic knows them, us among them."""
        broker_name = random.choice(queues).broker_name  # noqa: S311 - balance, no secret
        members = await self._instance.brokers.members(self._plan.group, broker_name)
        if self._instance.client_id in members:
            return members
        await self._instance.heartbeat_all()
        return await self._instance.brokers.members(self._plan.group, broker_name)
