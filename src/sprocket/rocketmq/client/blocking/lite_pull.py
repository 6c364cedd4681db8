"""Receiving messages when asked for, from programs without an event loop."""

from collections.abc import Iterator
from typing import Unpack

from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling, doing, early
from sprocket.rocketmq.client.consumer import ConsumerOptions, LitePullConsumer
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.route import MessageQueue


class BlockingLitePullConsumer(OpenedTwin[LitePullConsumer]):
    """Reads messages at its user's pace; see `client.LitePullConsumer`.

    `strategy`, `on_rebalance` and what watches a topic run in the loop's thread and must not block.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        auto_commit: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            "consumer",
            where,
            lambda at: LitePullConsumer(at, group=group, auto_commit=auto_commit, **options),
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

    subscribe = early(LitePullConsumer.subscribe)
    unsubscribe = early(LitePullConsumer.unsubscribe)
    assign = calling(LitePullConsumer.assign)
    poll = calling(LitePullConsumer.poll)
    seek = calling(LitePullConsumer.seek)
    seek_to_begin = calling(LitePullConsumer.seek_to_begin)
    seek_to_end = calling(LitePullConsumer.seek_to_end)
    pause = doing(LitePullConsumer.pause)
    resume = doing(LitePullConsumer.resume)
    commit = calling(LitePullConsumer.commit)
    committed = calling(LitePullConsumer.committed)
    position = doing(LitePullConsumer.position)
    min_offset = calling(LitePullConsumer.min_offset)
    max_offset = calling(LitePullConsumer.max_offset)
    offset_by_time = calling(LitePullConsumer.offset_by_time)
    topic_queues = calling(LitePullConsumer.topic_queues)
    watch_topic = calling(LitePullConsumer.watch_topic)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one, for ever; each is done when the next is asked for."""
        return self._run.iterate(self._awaited.__aiter__)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.look(lambda: self._awaited.queues)
