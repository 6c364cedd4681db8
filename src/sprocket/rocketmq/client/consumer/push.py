"""Receiving messages: the members of a group divide the queues of its topics."""

from collections.abc import AsyncIterator
from typing import Self, Unpack

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.core import ConsumerCore
from sprocket.rocketmq.client.consumer.delivery import DeadLetter, DeliverLater, Handover
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan, Listener, PushOptions
from sprocket.rocketmq.client.network import Where
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.filters import ALL, Sql
from sprocket.rocketmq.model.route import MessageQueue


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
    later: see `DeliverLater` and `DeadLetter` for how. A plain listener runs on the event loop and
    must not block it.

    Without a listener a loop gets the messages one by one. A message is done when the loop asks
    for the next one:

        async with PushConsumer("127.0.0.1:9876", group="g") as consumer:
            await consumer.subscribe("orders")
            async for message in consumer:
                print(message.body)

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Name of the consumer group. All its members must subscribe to the same.
        listener: Called with 1 to `batch_messages_max` messages of one queue, in its order.
        orderly: Hand out the messages of each queue one call after the other, and after a failure
            the same ones again before any later ones. Without it calls overlap.
        broadcast: Receive all messages, as every other member of the group does. Offsets are kept
            on this machine, and what an unordered listener fails with is dropped.
        start: Where a group begins that has committed nothing: "first" at the oldest message,
            "last" after the newest, a datetime or milliseconds since 1970 at that time.
        strategy: How the group shares out queues, one of `client.rebalance` or a function; all
            members need the same.
        on_rebalance: Called with the queues that this consumer reads, whenever they change.
        settings: Sizes, limits, pauses.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        listener: Listener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        self._handover: Handover | None = None
        if listener is None:
            self._handover = Handover(self._is_held)
            listener = self._handover.listener
        plan = ConsumerPlan(
            group=group,
            listener=listener,
            is_loop=self._handover is not None,
            is_orderly=options.pop("orderly", False),
            is_broadcast=options.pop("broadcast", False),
        )
        self._core = ConsumerCore(plan, where, options)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin; topics that were subscribed to already are read from now on.

        Raises:
            InvalidMessage: `start` may not be that.
            ClientError: The client that is shared has a consumer of this group, or there is no
                place for the offsets of one that broadcasts.
        """
        await self._core.start()

    async def close(self) -> None:
        """Let the listener return, store the offsets, and leave the group.

        A listener, or a loop with a message in hand, is waited for `close_wait_ms` at most. May
        be called again; a second call waits for the first.
        """
        if self._handover is not None:
            self._handover.close()
        await self._core.close()

    async def subscribe(self, topic: str, expression: str | Sql = ALL) -> None:
        """Receive the messages of a topic; a topic that does not exist yet is read once it does.

        Args:
            topic: Its name.
            expression: Tags with `||` between them, such as `new || changed`, or `*` for all, or a
                condition on properties, such as `Sql("amount > 100")`. All members of a group must
                give the same.

        Raises:
            InvalidMessage: The topic's name is illegal, or the expression cannot be read.
            BrokerRefused: A broker of the topic evaluates no conditions, or not this one. Before
                the consumer is open, `start` raises it.
        """
        await self._core.subscribe(topic, expression)

    async def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        await self._core.unsubscribe(topic)

    def suspend(self) -> None:
        """Pull nothing more, until `resume`; what was pulled is still handed out.

        Raises:
            ClientError: The consumer is not open.
        """
        self._core.opened.assignment.suspend()

    def resume(self) -> None:
        """Pull again after `suspend`.

        Raises:
            ClientError: The consumer is not open.
        """
        self._core.opened.assignment.resume()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Return the messages one by one; they end when the consumer is closed.

        Raises:
            ClientError: This consumer has a listener.
        """
        return self._loops().messages()

    def done(self, message: ReceivedMessage) -> None:
        """Say of the message that a loop has in hand that it is done.

        Needed only before a loop is left by `break`: asking for the next message says it too.

        Raises:
            ClientError: No loop has the message in hand.
        """
        self._loops().done(message)

    def later(self, message: ReceivedMessage, reason: str = "", *, level: int = 0) -> None:
        """Say of the message that a loop has in hand that it is to be delivered again.

        Args:
            message: The one in hand.
            reason: For the log.
            level: As in `DeliverLater`.

        Raises:
            ClientError: No loop has the message in hand.
        """
        self._loops().later(message, DeliverLater(reason, level=level))

    def dead_letter(self, message: ReceivedMessage, reason: str = "") -> None:
        """Say of the message that a loop has in hand that it belongs to the dead letters.

        Raises:
            ClientError: No loop has the message in hand.
        """
        self._loops().later(message, DeadLetter(reason))

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._core.queues

    def _loops(self) -> Handover:
        if self._handover is None:
            raise ClientError("this consumer has a listener; give none to loop over its messages")
        return self._handover

    def _is_held(self, queue: MessageQueue) -> bool:
        return self._core.is_open and self._core.opened.assignment.held(queue) is not None
