"""Deleting topics and groups, with everything that is kept about them.

A topic is deleted as a whole between two rounds of the store's upkeep: its queues, its settings,
the offsets of all groups in it, its figures, and the POP retry topics that groups have for it. If a
crash interrupts this, it is finished when the broker starts.
"""

from dataclasses import dataclass
from functools import partial

from sprocket.base import log
from sprocket.base.disk import Steps
from sprocket.rocketmq.broker.admin.upkeep import Done, Upkeep
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.pop import InFlight, Orders
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.internal import LIGHT_PREFIX, RETRY_PREFIX
from sprocket.rocketmq.store.store import Store

_log = log.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Removal:
    """See the head of the module.

    Threads: event loop only.
    """

    _store: Store
    _upkeep: Upkeep
    _topics: Topics
    _groups: Groups
    _offsets: ConsumerOffsets
    _stats: Stats
    _hold: PullHold
    _in_flight: InFlight
    _orders: Orders

    def finish(self) -> None:
        """Finish deletions that a crash has cut off; called once, when the broker is made.

        A topic that has queues is another one by now.
        """
        deletions = self._store.deletions
        living = {topic for topic, _, _ in self._store.queues()} if deletions.pending else set()
        for topic in deletions.pending:
            if topic not in living:
                self._forget(topic)
                _log.warning("a deletion was finished that a crash had cut off", topic=topic)
            deletions.finish(topic)

    def delete_topic(self, topic: str, done: Done) -> None:
        """Delete a topic, or what is left of one that is not there."""
        self._delete([topic, *self._pop_retry_topics(topic)], done)

    def delete_unused(self, done: Done) -> None:
        """Delete the queues of topics that are not in the table any more."""
        found = {topic for topic, _, _ in self._store.queues()}
        self._delete(
            sorted(
                topic
                for topic in found
                if self._topics.get(topic) is None
                and not self._topics.is_system(topic)
                and not topic.startswith(LIGHT_PREFIX)
            ),
            done,
        )

    def delete_group(self, group: str, *, clean_offset: bool) -> None:
        """Delete a group's settings and figures, and if asked what it has committed.

        Raises:
            StoreError: It could not be written.
        """
        self._groups.remove(group)
        self._stats.forget_group(group)
        self._in_flight.forget_all(group=group)
        self._orders.forget_all(group=group)
        if clean_offset:
            self._offsets.forget(group)

    def _delete(self, topics: list[str], done: Done) -> None:
        self._upkeep.do(partial(self._steps, topics), done)

    def _steps(self, topics: list[str]) -> Steps:
        """Delete topics; nothing is written down of one of which nothing is left."""
        with_queues = {topic for topic, _, _ in self._store.queues()}
        for topic in topics:
            if topic not in with_queues and not self._is_known(topic):
                continue
            yield from self._store.delete_topic_steps(topic, partial(self._forget, topic))
            # Who waits on would learn too late that a topic of this name is another one.
            self._hold.wake_topic(topic)
            _log.info("a topic was deleted", topic=topic)

    def _forget(self, topic: str) -> None:
        self._topics.remove(topic)
        self._topics.table.journal.sync()
        self._in_flight.forget_all(topic=topic)
        self._orders.forget_all(topic=topic)
        self._offsets.forget_topic(topic)
        self._stats.forget_topic(topic)

    def _is_known(self, topic: str) -> bool:
        return self._topics.get(topic) is not None or bool(self._offsets.groups_of(topic))

    def _pop_retry_topics(self, topic: str) -> list[str]:
        names = [
            f"{RETRY_PREFIX}{group}{between}{topic}"
            for group in self._offsets.groups_of(topic)
            for between in ("_", "+")
        ]
        return [name for name in names if self._topics.get(name) is not None]
