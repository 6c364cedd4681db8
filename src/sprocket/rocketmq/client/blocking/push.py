"""Receiving messages, from programs without an event loop."""

from collections.abc import Iterator
from typing import Unpack

from sprocket.rocketmq.client.blocking.listener_threads import Listener, ListenerThreads
from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, doing, early
from sprocket.rocketmq.client.consumer import PushConsumer, PushOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.route import MessageQueue


class BlockingPushConsumer(OpenedTwin[PushConsumer]):
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
        **options: Unpack[PushOptions],
    ) -> None:
        self._threads = threads = None if listener is None else ListenerThreads(listener)
        super().__init__(
            "consumer",
            where,
            lambda at: PushConsumer(
                at,
                group=group,
                listener=None if threads is None else threads.call,
                **options,
            ),
        )

    def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        self._run.close(self._end)

    async def _end(self) -> None:
        await self._awaited.close()
        if self._threads is not None:
            await self._threads.close()

    subscribe = early(PushConsumer.subscribe)
    unsubscribe = early(PushConsumer.unsubscribe)
    suspend = doing(PushConsumer.suspend)
    resume = doing(PushConsumer.resume)
    done = doing(PushConsumer.done)
    later = doing(PushConsumer.later)
    dead_letter = doing(PushConsumer.dead_letter)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one; each is done when the next is asked for."""
        return self._run.iterate(self._awaited.__aiter__)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.look(lambda: self._awaited.queues)
