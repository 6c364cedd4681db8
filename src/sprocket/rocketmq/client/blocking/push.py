"""Receiving messages, from programs without an event loop."""

from collections.abc import Iterator
from typing import Self, Unpack

from sprocket.rocketmq.client.blocking.listener_threads import Listener, ListenerThreads
from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.consumer import OnRebalance, Start, Strategy, averagely
from sprocket.rocketmq.client.consumer import push as _push
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.model.group import ALL
from sprocket.rocketmq.model.route import MessageQueue


class BlockingPushConsumer:
    """Receives messages; see `client.PushConsumer`.

    The listener is a plain function. It runs in one of `settings.call_count_max` threads, so calls
    overlap unless the consumer is orderly, and it may block. `strategy` and `on_rebalance` run in
    the loop's thread and must not. Without a listener, `for message in consumer`; the loop ends
    when another thread closes the consumer.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        listener: Listener | None = None,
        orderly: bool = False,
        broadcast: bool = False,
        start: Start = "last",
        strategy: Strategy = averagely,
        on_rebalance: OnRebalance | None = None,
        settings: ConsumerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._threads = None if listener is None else ListenerThreads(listener)
        self._run = Runner(
            "consumer",
            where,
            lambda at: _push.PushConsumer(
                at,
                group=group,
                listener=None if self._threads is None else self._threads.call,
                orderly=orderly,
                broadcast=broadcast,
                start=start,
                strategy=strategy,
                on_rebalance=on_rebalance,
                settings=settings,
                **options,
            ),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._run.start()

    def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        self._run.close(self._end)

    async def _end(self) -> None:
        await self._run.client.close()
        if self._threads is not None:
            await self._threads.close()

    def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Receive the messages of a topic; see `client.PushConsumer.subscribe`."""
        self._run.early(self._run.client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._run.early(self._run.client.unsubscribe, topic)

    def suspend(self) -> None:
        """Pull nothing more, until `resume`; what was pulled is still handed out."""
        self._run.do(self._run.client.suspend)

    def resume(self) -> None:
        """Pull again after `suspend`."""
        self._run.do(self._run.client.resume)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one; each is done when the next is asked for."""
        return self._run.iterate(self._run.client.__aiter__)

    def done(self, message: ReceivedMessage) -> None:
        """Say of the message that a loop has in hand that it is done."""
        self._run.do(self._run.client.done, message)

    def later(self, message: ReceivedMessage, reason: str = "", *, level: int = 0) -> None:
        """Say of the message that a loop has in hand that it is to be delivered again."""
        self._run.do(self._run.client.later, message, reason, level=level)

    def dead_letter(self, message: ReceivedMessage, reason: str = "") -> None:
        """Say of the message that a loop has in hand that it belongs to the dead letters."""
        self._run.do(self._run.client.dead_letter, message, reason)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.look(lambda: self._run.client.queues)
