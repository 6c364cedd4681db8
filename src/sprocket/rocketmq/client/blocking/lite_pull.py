"""Receiving messages when asked for, from programs without an event loop."""

from collections.abc import Iterator
from typing import Unpack

from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling, doing, early
from sprocket.rocketmq.client.consumer import OnRebalance, Start, Strategy, averagely
from sprocket.rocketmq.client.consumer import lite_pull as _lite_pull
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.model.route import MessageQueue


class BlockingLitePullConsumer(OpenedTwin[_lite_pull.LitePullConsumer]):
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
        super().__init__(
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_done=kind is None)

    def close(self, *, is_done: bool = True) -> None:
        """Commit what is done, if that is automatic, and take leave of the group.

        May be called again.

        Args:
            is_done: Whether what was given last is done as well.
        """
        self._run.close(lambda: self._awaited.close(is_done=is_done))

    subscribe = early(_lite_pull.LitePullConsumer.subscribe)
    unsubscribe = early(_lite_pull.LitePullConsumer.unsubscribe)
    assign = calling(_lite_pull.LitePullConsumer.assign)
    poll = calling(_lite_pull.LitePullConsumer.poll)
    seek = calling(_lite_pull.LitePullConsumer.seek)
    seek_to_begin = calling(_lite_pull.LitePullConsumer.seek_to_begin)
    seek_to_end = calling(_lite_pull.LitePullConsumer.seek_to_end)
    pause = doing(_lite_pull.LitePullConsumer.pause)
    resume = doing(_lite_pull.LitePullConsumer.resume)
    commit = calling(_lite_pull.LitePullConsumer.commit)
    committed = calling(_lite_pull.LitePullConsumer.committed)
    position = doing(_lite_pull.LitePullConsumer.position)
    min_offset = calling(_lite_pull.LitePullConsumer.min_offset)
    max_offset = calling(_lite_pull.LitePullConsumer.max_offset)
    offset_by_time = calling(_lite_pull.LitePullConsumer.offset_by_time)
    topic_queues = calling(_lite_pull.LitePullConsumer.topic_queues)
    watch_topic = calling(_lite_pull.LitePullConsumer.watch_topic)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one, for ever; each is done when the next is asked for."""
        return self._run.iterate(self._awaited.__aiter__)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.look(lambda: self._awaited.queues)
