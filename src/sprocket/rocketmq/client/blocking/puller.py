"""Reading queues at offsets of one's own, from programs without an event loop."""

from collections.abc import Sequence

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client import puller as _puller
from sprocket.rocketmq.client.blocking.portal import Blocking
from sprocket.rocketmq.client.brokers import PullResult
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.model.route import MessageQueue


class Puller(Blocking):
    """Pulls from single queues; see `client.Puller`."""

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        client: ClientSettings | None = None,
    ) -> None:
        super().__init__()
        self._client: _puller.Puller = _puller.Puller(
            nameservers, group=group, patience_ms=patience_ms, client=client
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        found: list[MessageQueue] = self._call(self._client.queues, topic)
        return found

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._call(self._client.min_offset, queue))

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._call(self._client.max_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._call(self._client.offset_by_time, queue, at_ms))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = 32,
        *,
        tags: str = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Return messages of a queue from an offset on; see `client.Puller.pull`."""
        found: PullResult = self._call(
            self._client.pull, queue, offset, count_max, tags=tags, hold_ms=hold_ms
        )
        return found
