"""How far groups are in the queues of this broker, and how far behind."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sprocket.base.clock import Clock
from sprocket.base.disk import gather
from sprocket.rocketmq.broker.groups.client_manager import ClientManager
from sprocket.rocketmq.broker.groups.groups import Groups
from sprocket.rocketmq.broker.groups.offsets import ConsumerOffsets
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.progress import ConsumeStats, ConsumeTimeSpan, QueueProgress
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.slices import Sliced

QUEUES_A_CALL = 128
"""Queues that are looked at in one piece of the work: some 0.7 ms."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Holds what groups have committed against the queues.

    A group whose members are connected follows only what they are subscribed to.
    """

    _store: Store
    _topics: Topics
    _groups: Groups
    _members: ClientManager
    _offsets: ConsumerOffsets
    _stats: Stats
    _clock: Clock
    _broker_name: str
    _popped_to: Callable[[str, str, int], int] = lambda _topic, _group, _queue_id: 0
    """Says up to where a group has popped from a queue, if some of that is in flight."""

    def of_group(
        self, group: str, topic: str = "", topics: Iterable[str] = ()
    ) -> Sliced[ConsumeStats]:
        """Return how far a group is, in all topics it has committed to or in those named.

        Args:
            group: The group.
            topic: One topic; the group must consume it, as far as its members say.
            topics: Topics that it need not consume.
        Source: RocketMQ `AdminBrokerProcessor.getConsumeStats`.
        """
        named = list(topics)
        queues: dict[MessageQueue, QueueProgress] = {}
        tps = 0.0
        for name in named or ([topic] if topic else self._offsets.topics_of(group)):
            config = self._topics.find(name)
            if config is not None and (named or self._members.consumers(group).may_follow(name)):
                queues |= yield from self._queues(group, config)
                tps += self._stats.group_get_tps(name, group)
        return ConsumeStats(queues=queues, consume_tps=tps)

    def groups(self) -> list[str]:
        """Return the names of all groups."""
        return [one.name for one in self._groups.all()]

    def by_topic(self, group: str, *, ordered_only: bool) -> Sliced[list[ConsumeStats]]:
        """Return how far a group is, topic by topic; only topics with an order if asked."""
        found = []
        for config in (yield partial(self._topics_of, group, ordered_only)):
            queues = yield from self._queues(group, config)
            tps = self._stats.group_get_tps(config.name, group)
            found.append(ConsumeStats(queues=queues, consume_tps=tps))
        return found

    def _topics_of(self, group: str, ordered_only: bool) -> list[TopicConfig]:
        """Return the topics in which a group has committed and that it consumes."""
        found = []
        for topic in self._offsets.topics_of(group):
            config = self._topics.find(topic)
            if config is None or (ordered_only and not config.order):
                continue
            if self._members.consumers(group).may_follow(topic):
                found.append(config)
        return found

    def time_spans(self, group: str, topic: TopicConfig) -> list[ConsumeTimeSpan]:
        """Return from when to when each queue has messages, and up to when they are consumed."""
        committed = self._offsets.of(group, topic.name)
        return gather(
            partial(self._time_span, MessageQueue(topic.name, self._broker_name, number), committed)
            for number in range(topic.write_queues)
        )

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that are subscribed to a topic now, and those that committed in it."""
        found = {*self._members.groups_subscribed_to(topic), *self._offsets.groups_of(topic)}
        return sorted(found)

    def _queues(self, group: str, topic: TopicConfig) -> Sliced[dict[MessageQueue, QueueProgress]]:
        found: dict[MessageQueue, QueueProgress] = {}
        for first in range(0, topic.read_queues, QUEUES_A_CALL):
            numbers = range(first, min(first + QUEUES_A_CALL, topic.read_queues))
            found |= yield partial(self._some, group, topic.name, numbers)
        return found

    def _some(
        self, group: str, topic: str, numbers: Iterable[int]
    ) -> dict[MessageQueue, QueueProgress]:
        committed = self._offsets.of(group, topic)
        return dict(
            gather(
                partial(self._queue, group, topic, number, max(0, committed.get(number, 0)))
                for number in numbers
            )
        )

    def _queue(
        self, group: str, topic: str, number: int, offset: int
    ) -> tuple[MessageQueue, QueueProgress]:
        consumed_at_ms = 0
        if offset > 0:
            consumed_at_ms = max(0, self._store.stored_at_ms(topic, number, offset - 1))
        return MessageQueue(topic, self._broker_name, number), QueueProgress(
            broker_offset=self._store.queue_range(topic, number).max,
            consumer_offset=offset,
            pull_offset=max(
                offset,
                self._stats.pull_offset(topic, group, number),
                self._popped_to(topic, group, number),
            ),
            last_consumed_at_ms=consumed_at_ms,
        )

    def _time_span(self, queue: MessageQueue, committed: Mapping[int, int]) -> ConsumeTimeSpan:
        topic, number = queue.topic, queue.queue_id
        span = self._store.queue_range(topic, number)
        offset = max(committed.get(number, 0), span.min)
        first_at_ms = self._store.stored_at_ms(topic, number, span.min)
        delay_ms = 0
        if offset < span.max:
            delay_ms = max(
                0, self._clock.now_ms() - self._store.stored_at_ms(topic, number, offset)
            )
        return ConsumeTimeSpan(
            queue=queue,
            min_at_ms=first_at_ms,
            max_at_ms=self._store.stored_at_ms(topic, number, span.max - 1),
            consumed_at_ms=self._store.stored_at_ms(topic, number, offset - 1)
            if offset > span.min
            else first_at_ms,
            delay_ms=delay_ms,
        )
