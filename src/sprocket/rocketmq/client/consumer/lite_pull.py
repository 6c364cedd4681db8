"""Receiving messages by polling: users decide when they read, and may go back."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Self, Unpack

from sprocket.base import log
from sprocket.base.errors import ClientError, InvalidMessage
from sprocket.rocketmq.client.consumer.core import ConsumerCore
from sprocket.rocketmq.client.consumer.plan import ConsumerOptions, ConsumerPlan
from sprocket.rocketmq.client.consumer.queues import ProcessQueue
from sprocket.rocketmq.client.consumer.subscriptions import read_subscription
from sprocket.rocketmq.client.network import BrokerCalls, Where
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.filters import ALL, Sql
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue

OnTopicChange = Callable[[Sequence[MessageQueue]], None]
"""Called with all queues of a topic that can be read, after they have changed."""

_POLL_MS = 5_000

_log = log.get_logger(__name__)


class LitePullConsumer:
    """Reads messages at its user's pace, from where its user wants.

        async with LitePullConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders", "new || changed")
            while messages := await consumer.poll():
                ...

    or, one by one, `async for message in consumer`. Messages are done, and committed soon after,
    when the next ones are asked for; with `auto_commit=False`, when `commit` is called. Closing
    commits what was given, unless an error ends the `async with`: then the last messages given
    come again.

    Either `subscribe`, and the group shares out the queues, or `assign` queues by hand.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Name of the consumer group.
        start: Where a group begins that has committed nothing: "first", "last", a datetime or
            milliseconds since 1970.
        auto_commit: Commit every `commit_ms` what is done.
        strategy: How the group shares out queues, one of `client.rebalance` or a function.
        on_rebalance: Called with the queues that this consumer reads, whenever they change.
        settings: Sizes, limits and pauses of pulls; those of listeners do not matter here.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        auto_commit: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        plan = ConsumerPlan(group=group, is_auto_commit=auto_commit)
        self._core = ConsumerCore(plan, where, options)
        self._is_assigned: bool | None = None
        """Whether queues are assigned by hand; None while neither that nor a subscription was
        asked for."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(is_done=kind is None)

    async def start(self) -> None:
        """Begin; topics that were subscribed to already are read from now on.

        Raises:
            InvalidMessage: `start` may not be that.
            ClientError: The client that is shared has a consumer of this group.
        """
        await self._core.start()

    async def close(self, *, is_done: bool = True) -> None:
        """Commit what is done, if that is automatic, and take leave of the group.

        May be called again; a second call waits for the first.

        Args:
            is_done: Whether what was given last is done as well.
        """
        if is_done and self._core.is_open:
            self._core.opened.polling.acknowledge()
        await self._core.close()

    async def subscribe(self, topic: str, expression: str | Sql = ALL) -> None:
        """Read the queues of a topic that fall to this member of the group.

        Args:
            topic: Its name; one that does not exist yet is read once it does.
            expression: Tags with `||` between them, or `*` for all, or `Sql`.

        Raises:
            InvalidMessage: The topic's name is illegal, or the expression cannot be read.
            ClientError: Queues were assigned by hand.
            BrokerRefused: As of `PushConsumer.subscribe`.
        """
        self._choose(is_assigned=False)
        await self._core.subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Read nothing more of a topic."""
        await self._core.unsubscribe(topic)

    async def assign(self, queues: Collection[MessageQueue], expression: str | Sql = ALL) -> None:
        """Read exactly these queues, whoever else of the group reads them.

        Args:
            queues: From `topic_queues`, in place of those assigned before.
            expression: Tags with `||` between them, or `*` for all, or `Sql`.

        Raises:
            ClientError: There are subscriptions, the consumer is not open, or a broker did not
                say where to begin.
            InvalidMessage, BrokerRefused: As of `PushConsumer.subscribe`.
        """
        assignment = self._core.opened.assignment
        for topic in sorted({queue.topic for queue in queues}):
            await self._core.opened.member.check(read_subscription(topic, expression))
        self._choose(is_assigned=True)
        instance = self._core.lease.instance
        topics = {queue.topic for queue in queues}
        for topic in set(self._core.subscriptions) - topics:
            await self.unsubscribe(topic)
        for topic in sorted(topics):
            self._core.subscriptions.add(topic, expression, instance.clock)
            await instance.routes.find(topic)
        await instance.heartbeat_all()
        for topic in sorted(topics):
            wanted = sorted(queue for queue in queues if queue.topic == topic)
            if not await assignment.change(topic, wanted, wanted):
                raise ClientError(f"queues of {topic} could not be read yet; assign them again")

    def _choose(self, *, is_assigned: bool) -> None:
        if self._is_assigned is not None and self._is_assigned != is_assigned:
            raise ClientError("a consumer either subscribes or assigns queues; make a second one")
        self._is_assigned = is_assigned

    async def poll(self, timeout_ms: int = _POLL_MS) -> list[ReceivedMessage]:
        """Return the next messages of one queue, in its order; none if none come in time.

        What the last call returned is done by this one.

        Args:
            timeout_ms: How long to wait for the first message; 0 does not wait.

        Raises:
            ClientError: The consumer is not open.
        """
        return await self._core.opened.polling.poll(timeout_ms / 1000)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Give the messages one by one, for ever; each is done when the next is asked for."""
        while True:
            yield await self._core.opened.polling.next()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on reading a queue at an offset; what was given of others is done no sooner.

        Raises:
            ClientError: This consumer does not read the queue, or a broker did not answer.
            InvalidMessage: The queue has no such offset.
        """
        self._held(queue)
        first, last = await self.min_offset(queue), await self.max_offset(queue)
        if not first <= offset <= last:
            raise InvalidMessage(f"offset {offset} of {queue}: expected {first} to {last}")
        await self._core.opened.assignment.move(queue, QueueOffset(offset))

    async def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on at the oldest message of these queues, or of all."""
        for queue in queues or self.queues:
            self._held(queue)
            await self._core.opened.assignment.move(queue, await self.min_offset(queue))

    async def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on after the newest message of these queues, or of all."""
        for queue in queues or self.queues:
            self._held(queue)
            await self._core.opened.assignment.move(queue, await self.max_offset(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Give nothing more of these queues, or of any, until `resume`."""
        for queue in queues or self.queues:
            self._held(queue).pause()

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues, or with all."""
        for queue in queues or self.queues:
            self._held(queue).resume()
        self._core.opened.polling.wake()

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store how far the group is; everything that was given is done by this.

        Args:
            offsets: By queue, the offset of the first message that is not done; by default
                behind the last messages that were given of each queue.

        Raises:
            ClientError: A broker did not take them; they are tried again at the next commit.
        """
        parts = self._core.opened
        if offsets is None:
            parts.polling.acknowledge()
            parts.assignment.note_positions()
        else:
            for queue, offset in offsets.items():
                parts.offsets.overwrite(queue, QueueOffset(offset))
        if not await parts.offsets.store():
            raise ClientError("not all offsets could be stored; commit again, or see the log")

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """Return what the group has committed for a queue, None if nothing."""
        return await self._core.opened.offsets.read(queue)

    def position(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset from which on messages of a queue will be given next.

        Raises:
            ClientError: This consumer does not read the queue.
        """
        return self._core.opened.polling.position(self._held(queue))

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return await self._brokers.min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return await self._brokers.max_offset(queue)

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        return await self._brokers.offset_by_time(queue, at_ms)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._core.queues

    async def topic_queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read.

        Raises:
            NoRoute: No NameServer answered, or none knows the topic.
        """
        routes = self._core.opened.instance.routes
        await routes.refresh(topic)
        return routes.subscribe_queues(topic)

    async def watch_topic(self, topic: str, changed: OnTopicChange) -> list[MessageQueue]:
        """Have `changed` called whenever the queues of a topic have changed, from now on.

        Returns:
            The queues as they are now. News comes within `route_refresh_ms` of the client.

        Raises:
            NoRoute: No NameServer answered, or none knows the topic.
        """
        now = known = await self.topic_queues(topic)
        routes = self._core.opened.instance.routes

        def changed_route(which: str) -> None:
            nonlocal known
            queues = routes.subscribe_queues(topic)
            if which == topic and queues != known:
                known = queues
                try:
                    changed(queues)
                except BaseException:  # a user's code; routes are kept up to date anyway
                    _log.exception("the watcher of a topic failed", topic=topic)

        self._core.lease.watch(routes.on_change, changed_route)
        return now

    @property
    def _brokers(self) -> BrokerCalls:
        return self._core.opened.instance.brokers

    def _held(self, queue: MessageQueue) -> ProcessQueue:
        held = self._core.opened.assignment.held(queue)
        if held is None:
            raise ClientError(f"{queue} is not read by this consumer; it reads `queues`")
        return held
