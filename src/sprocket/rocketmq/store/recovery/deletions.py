"""Topics that were deleted: their queues are gone, their records stay until the log is cleaned.

`config/deletedTopics.json` says for each such topic where the log ended when it was deleted.
Records of the topic before that place get no queue unit any more, neither from dispatch nor from
recovery nor in `check`. So a topic that is made again begins at queue offset 0, and a crash brings
nothing back. An entry is removed when the log begins behind its place. The log need not be on disk
up to a place: recovery reduces places to the end that it finds, before anything is appended.

The order of a deletion: the place is written down; the queues are removed, and what compaction has
kept of them; what the owner has of the topic is removed (`then`); the entry is marked as finished.
The next opening finishes what a crash leaves unfinished: the queues here, the rest by the owner,
who asks for `pending`.

The table is written whole, twice for each deletion, here and now. That is 0.6 ms of CPU for 10,000
topics (560 KB), beside two times two syncs, which are some 20 ms however short it is: a journal
would save neither much of the one nor any of the other. A table of 100,000 topics, of which all are
deleted while the log has records of them, would be the sign that it wants one.

    {"ends":{"topic":4711},"pending":[]}
"""

from collections.abc import Callable
from functools import partial

import msgspec

from sprocket.base.disk import Disk, Steps, replace_file, steps
from sprocket.base.errors import ForeignStore, StoreFailed
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store import deleted_topics
from sprocket.rocketmq.store.compaction import Compactions
from sprocket.rocketmq.store.deleted_topics import DeletedTopics
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import Appender, CommitLog
from sprocket.rocketmq.store.queue import Queue, Queues

WAITS_MAX = 1000
"""Turns of the loop to wait for one in which nothing waits to be written."""


class Deletions:
    """The table of deleted topics.

    Attributes:
        ends: Where the log ended when a topic was deleted. Others read it, only this changes it.
    """

    def __init__(self, disk: Disk, layout: StoreLayout, *, write: bool) -> None:
        """Read the table.

        Args:
            disk: Where it lies.
            layout: Of the store.
            write: Whether the store is to change. If not, a table that cannot be read counts as
                empty: who looks at a damaged store sees deleted topics, too.

        Raises:
            ForeignStore: It cannot be read, and deleted topics would come back.
        """
        self._disk = disk
        self._path = layout.deleted_topics
        try:
            table = deleted_topics.read(disk, layout)
        except ForeignStore:
            if write:
                raise
            table = DeletedTopics({}, [])
        self.ends = table.ends
        self._pending = table.pending

    @property
    def pending(self) -> tuple[str, ...]:
        """Topics whose deletion is not finished."""
        return tuple(self._pending)

    def begin(self, topic: str, end: PhysicalOffset) -> None:
        """Note a deletion. Durable on return."""
        self._save({**self.ends, topic: end}, [*self._others(topic), topic])

    def finish(self, topic: str) -> None:
        """Note that a deletion is complete. Durable on return."""
        if topic in self._pending:
            self._save(dict(self.ends), self._others(topic))

    def prune_steps(self, first: PhysicalOffset) -> Steps:
        """Forget topics of which the log, which begins at `first`, can have no such record.

        Wanted whenever the log was cleaned, or the table would grow for ever. Not to be begun while
        a deletion is under way.

        Raises:
            DiskFull, DiskFailed: The table is as before.
        """
        kept = {
            topic: end for topic, end in self.ends.items() if end > first or topic in self._pending
        }
        if len(kept) < len(self.ends):
            content = msgspec.json.encode(DeletedTopics(kept, self._pending))
            yield partial(replace_file, self._disk, self._path, content)
            self._take(kept)

    def cut(self, log_end: PhysicalOffset) -> None:
        """Take back places behind the end of the log, which a crash has made shorter.

        A record that is appended there is newer than the deletion. Durable on return.
        """
        if any(end > log_end for end in self.ends.values()):
            cut = {topic: min(end, log_end) for topic, end in self.ends.items()}
            self._save(cut, self._pending)

    def finish_queues(self, queues: Queues, first: PhysicalOffset) -> None:
        """Delete the queues of deleted topics that a crash has left, or brought back.

        Args:
            queues: As they were loaded.
            first: Where the log begins.
        """
        steps.run(self.prune_steps(first))
        for topic in self._left_in(queues):
            remove_files = queues.delete_topic(topic)
            if remove_files is not None:
                remove_files()

    def hide_queues(self, queues: Queues) -> None:
        """Do as `finish_queues` in memory, for those who only read: the disk is left as it is."""
        for topic in self._left_in(queues):
            queues.hide_topic(topic)

    def _left_in(self, queues: Queues) -> list[str]:
        """Return deleted topics that have queues, all of them from before."""
        old, new = set[str](), set[str]()
        for queue in queues.by_key.values() if self.ends else ():
            if queue.topic in self.ends:
                is_old = _is_before(queue, self.ends[queue.topic])
                (old if is_old else new).add(queue.topic)
        return sorted(old - new)

    def _others(self, topic: str) -> list[str]:
        return [one for one in self._pending if one != topic]

    def _save(self, ends: dict[str, int], pending: list[str]) -> None:
        content = msgspec.json.encode(DeletedTopics(ends, pending))
        replace_file(self._disk, self._path, content)
        self._take(ends)
        self._pending = pending

    def _take(self, ends: dict[str, int]) -> None:
        self.ends.clear()  # the dictionary itself is shared
        self.ends.update(ends)


class Deleter:
    """Deletes topics of a store that is open."""

    def __init__(
        self,
        deletions: Deletions,
        log: CommitLog,
        appender: Appender,
        queues: Queues,
        compactions: Compactions,
    ) -> None:
        self._deletions = deletions
        self._log = log
        self._appender = appender
        self._queues = queues
        self._compactions = compactions

    def steps(self, topic: str, then: Callable[[], None]) -> Steps:
        """Delete a topic; all but the deletion of its files is done without a pause.

        Args:
            topic: What to delete; nothing need be there.
            then: Deletes what the caller has of it.

        Raises:
            StoreFailed: The log was never at rest.
            DiskFull, DiskFailed: It is not deleted, or not all of it; it may be deleted again.
        """
        # A record that is not written yet could lose its place to another one.
        for _ in range(WAITS_MAX):
            if not self._appender.has_unwritten:
                break
            yield _nothing
        else:
            raise StoreFailed(f"topic {topic} could not be deleted: the log is never at rest")
        self._deletions.begin(topic, self._log.end)
        self._appender.forget(topic)
        removals = [self._compactions.delete_topic(topic), self._queues.delete_topic(topic)]
        try:
            then()
        finally:
            self._deletions.finish(topic)
        for remove_files in removals:
            if remove_files is not None:
                yield remove_files


def _nothing() -> None:
    """Let a turn of the loop pass."""


def _is_before(queue: Queue, end: int) -> bool:
    """Say whether a queue's last message lies before a place of the log."""
    if queue.max_offset <= queue.min_offset:
        return True
    last = queue.last_unit()
    return last is None or last[0] < end
