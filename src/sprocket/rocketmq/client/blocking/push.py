"""Receiving messages, from programs without an event loop."""

from collections.abc import Sequence

from sprocket.rocketmq.client import push as _push
from sprocket.rocketmq.client.assignment import Start
from sprocket.rocketmq.client.blocking.listener_threads import Listener, ListenerThreads
from sprocket.rocketmq.client.blocking.portal import Blocking
from sprocket.rocketmq.client.settings import ClientSettings, ConsumerSettings
from sprocket.rocketmq.model.route import MessageQueue


class PushConsumer(Blocking):
    """Receives messages; see `client.PushConsumer`.

    The listener is a plain function. It runs in one of `settings.call_count_max` threads, so calls
    overlap unless the consumer is orderly, and it may block.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        group: str,
        listener: Listener,
        orderly: bool = False,
        start: Start = "last",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
    ) -> None:
        super().__init__()
        self._threads = ListenerThreads(listener)
        self._client: _push.PushConsumer = _push.PushConsumer(
            nameservers,
            group=group,
            listener=self._threads.call,
            orderly=orderly,
            start=start,
            settings=settings,
            client=client,
        )

    def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        if self._portal is not None:
            try:
                self._call(self._client.close)
                self._call(self._threads.close)
            finally:
                super().close()

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive the messages of a topic; see `client.PushConsumer.subscribe`."""
        self._call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._call(self._client.unsubscribe, topic)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._client.queues
