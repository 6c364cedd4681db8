"""Reading queues at offsets that the caller keeps, from programs without an event loop."""

from typing import Self, Unpack

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.consumer import puller as _puller
from sprocket.rocketmq.client.network import ClientOptions, PullResult
from sprocket.rocketmq.client.settings import PULL_MESSAGES
from sprocket.rocketmq.model.route import MessageQueue


class BlockingPuller:
    """Pulls from single queues; see `client.Puller`."""

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._run = Runner(
            "puller",
            where,
            lambda at: _puller.Puller(at, group=group, patience_ms=patience_ms, **options),
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
        """End as the awaited client does; may be called again."""
        self._run.close()

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        return self._run.call(self._run.client.queues, topic)

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._run.call(self._run.client.min_offset, queue))

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._run.call(self._run.client.max_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._run.call(self._run.client.offset_by_time, queue, at_ms))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = PULL_MESSAGES,
        *,
        tags: str = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Return messages of a queue from an offset on; see `client.Puller.pull`."""
        return self._run.call(
            self._run.client.pull, queue, offset, count_max, tags=tags, hold_ms=hold_ms
        )
