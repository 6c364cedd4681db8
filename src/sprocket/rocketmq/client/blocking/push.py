"""Receiving messages, from programs without an event loop."""

from typing import Self, Unpack

from sprocket.rocketmq.client import push as _push
from sprocket.rocketmq.client.assignment import Start
from sprocket.rocketmq.client.blocking.listener_threads import Listener, ListenerThreads
from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.lease import Options
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.model.route import MessageQueue


class PushConsumer:
    """Receives messages; see `client.PushConsumer`.

    The listener is a plain function. It runs in one of `settings.call_count_max` threads, so calls
    overlap unless the consumer is orderly, and it may block.
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
        self._threads = ListenerThreads(listener)
        self._run = Runner(
            "consumer",
            where,
            lambda at: _push.PushConsumer(
                at,
                group=group,
                listener=self._threads.call,
                orderly=orderly,
                start=start,
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
        if self._run.is_open:
            try:
                self._run.call(self._run.client.close)
                self._run.call(self._threads.close)
            finally:
                self._run.close()

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive the messages of a topic; see `client.PushConsumer.subscribe`."""
        self._run.call(self._run.client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._run.call(self._run.client.unsubscribe, topic)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.client.queues
