"""Receiving messages when asked for, from programs without an event loop."""

from collections.abc import Collection, Iterator, Mapping
from typing import Self, Unpack

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.consumer import OnRebalance, OnTopicChange, Start, Strategy, averagely
from sprocket.rocketmq.client.consumer import lite_pull as _lite_pull
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.model.group import ALL
from sprocket.rocketmq.model.route import MessageQueue


class BlockingLitePullConsumer:
    """Reads messages at its user's pace; see `client.LitePullConsumer`.

    `strategy`, `on_rebalance` and what watches a topic run in the loop's thread and must not block.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        start: Start = "last",
        auto_commit: bool = True,
        strategy: Strategy = averagely,
        on_rebalance: OnRebalance | None = None,
        settings: ConsumerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._run = Runner(
            "consumer",
            where,
            lambda at: _lite_pull.LitePullConsumer(
                at,
                group=group,
                start=start,
                auto_commit=auto_commit,
                strategy=strategy,
                on_rebalance=on_rebalance,
                settings=settings,
                **options,
            ),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_done=kind is None)

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._run.start()

    def close(self, *, is_done: bool = True) -> None:
        """Commit what is done, if that is automatic, and take leave of the group.

        May be called again.

        Args:
            is_done: Whether what was given last is done as well.
        """
        self._run.close(lambda: self._run.client.close(is_done=is_done))

    def subscribe(self, topic: str, expression: str = ALL) -> None:
        """Read the queues of a topic that fall to this member of the group."""
        self._run.early(self._run.client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Read nothing more of a topic."""
        self._run.early(self._run.client.unsubscribe, topic)

    def assign(self, queues: Collection[MessageQueue], expression: str = ALL) -> None:
        """Read exactly these queues, whoever else of the group reads them."""
        self._run.call(self._run.client.assign, queues, expression)

    def poll(self, timeout_ms: int = 5_000) -> list[ReceivedMessage]:
        """Return the next messages of one queue; none if none come in time."""
        return self._run.call(self._run.client.poll, timeout_ms)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one, for ever; each is done when the next is asked for."""
        return self._run.iterate(self._run.client.__aiter__)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on reading a queue at an offset."""
        self._run.call(self._run.client.seek, queue, offset)

    def seek_to_begin(self, *queues: MessageQueue) -> None:
        """Go on at the oldest message of these queues, or of all."""
        self._run.call(self._run.client.seek_to_begin, *queues)

    def seek_to_end(self, *queues: MessageQueue) -> None:
        """Go on behind the newest message of these queues, or of all."""
        self._run.call(self._run.client.seek_to_end, *queues)

    def pause(self, *queues: MessageQueue) -> None:
        """Give nothing more of these queues, or of any, until `resume`."""
        self._run.do(self._run.client.pause, *queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues, or with all."""
        self._run.do(self._run.client.resume, *queues)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store how far the group is; see `client.LitePullConsumer.commit`."""
        self._run.call(self._run.client.commit, offsets)

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """Return what the group has committed for a queue, None if nothing."""
        return self._run.call(self._run.client.committed, queue)

    def position(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset from which on messages of a queue will be given next."""
        return self._run.do(self._run.client.position, queue)

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return self._run.call(self._run.client.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return self._run.call(self._run.client.max_offset, queue)

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time, else the end."""
        return self._run.call(self._run.client.offset_by_time, queue, at_ms)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.look(lambda: self._run.client.queues)

    def topic_queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read."""
        return self._run.call(self._run.client.topic_queues, topic)

    def watch_topic(self, topic: str, changed: OnTopicChange) -> list[MessageQueue]:
        """Have `changed` called whenever the queues of a topic have changed, from now on."""
        return self._run.call(self._run.client.watch_topic, topic, changed)
