"""How far each consumer group is in each queue, so that it goes on from there after any end.

Two files hold it, both in `config/`:

* `consumerOffset.json`, RocketMQ's own, replaced as a whole every few seconds (`flush_ms`) and at
  stop: a crash leaves the old one or the new one.
* `sprocket.offsets`, a journal of the commits since then: one line is written for each commit,
  before the commit is answered. A process that dies, by `kill -9` too, leaves what it has written
  to the system, so no answered commit is lost with the process. The journal is not synced: a power
  loss may take the commits of the last interval, and consumers then see some messages again.

Lines of the journal hold `sequence, "topic@group", queue, offset`, or null for the offset where all
of a group in a topic was forgotten; `broker.journal` has the rest. A file that RocketMQ has written
since lacks our member `sprocketSequence`: then the journal is older than it and is dropped.

A commit that a pull carries is not what the pull is about: where its line cannot be written it
counts in memory only (`commit_aside`), as all of RocketMQ's do, until a line or a file has it.

A reset by an administrator is a commit that wins: until the group has pulled from the queue, and
so learned of it, its own commits there are ignored.

Invariants

1. File + journal = the table but for what `_unkept` has: at any moment reading both gives what was
   answered last.
2. A line leaves the journal only after a file that covers it is durable.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import DiskFailed, DiskFull, StoreError
from sprocket.rocketmq.broker import journal
from sprocket.rocketmq.broker.config_file import ConfigFile
from sprocket.rocketmq.broker.journal import SEQUENCE, FlushJob, Journal
from sprocket.rocketmq.codec import values
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_logger(__name__)

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
"""A journal of this size asks for a flush at once; about 80,000 commits."""

Commit: TypeAlias = tuple[int, str, int, int | None]
"""Sequence, `topic@group`, queue, offset; without an offset the key is forgotten."""

VERSION_STEP = 500
"""Commits for each step of the data version, RocketMQ's `consumerOffsetUpdateVersionStep`."""

_decode: Callable[[bytes], Commit] = msgspec.json.Decoder(Commit).decode

_NOTHING: Mapping[int, int] = {}


class ConsumerOffsets:
    """The table of committed offsets, by `topic@group` and queue.

    Threads: event loop only, but for `FlushJob.run`.
    Durability: see the head of the module.
    """

    def __init__(self, disk: Disk, folder: str, clock: Clock) -> None:
        layout = StoreLayout(folder)
        rocksdb = partial(config_rdb.offsets_json, disk, layout)
        self._file = ConfigFile(disk, layout.consumer_offsets, rocksdb)
        self._clock = clock
        self._table: dict[str, dict[int, int]] = {}
        self._resets: dict[tuple[str, int], int] = {}
        self._unkept: dict[tuple[str, int], int] = {}
        self._flushing: dict[tuple[str, int], int] = {}
        self._version = DataVersion.new(clock.now_ms())
        self._commits = 0
        covered = self._file.load(self._interpret)
        self._journal = Journal(disk, layout.offset_journal, _decode)
        for _, key, queue_id, offset in self._journal.replay(covered):
            if offset is None:
                self._table.pop(key, None)
            else:
                self._table.setdefault(key, {})[queue_id] = offset
        self._is_changed = covered is None or self._journal.end > 0
        if covered is None:
            self.flush()  # from now on the journal counts

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset the group goes on from, None when it never committed one."""
        queues = self._table.get(f"{topic}@{group}")
        return None if queues is None else queues.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the offsets of a group in a topic by queue."""
        return self._table.get(f"{topic}@{group}", _NOTHING)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Note where the group is in a queue; forwards or backwards.

        Returns:
            False when an administrator has reset the queue and the group has not pulled since: then
            the commit is ignored.

        Raises:
            DiskFull, DiskFailed: The journal could not be written; the table is as before.
        Durability: written to the system when this returns, see the head of the module.
        """
        key = f"{topic}@{group}"
        if self._resets and (key, queue_id) in self._resets:
            return False
        self._commit(key, queue_id, offset)
        return True

    def commit_aside(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit with something else, a pull, which must not fail because no line can be written.

        Durability: as `commit`, if there is space; else none until the next flush.
        """
        try:
            self.commit(group, topic, queue_id, offset)
        except (DiskFull, DiskFailed) as error:
            if not self._unkept:
                _log.error("commits of pulls are in memory only, and lost with it", why=str(error))
            key = f"{topic}@{group}"
            self._unkept[key, queue_id] = offset
            self._set(key, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set where the group goes on, over its own commits, until `take_reset`.

        Raises:
            DiskFull, DiskFailed: As `commit`.
        Durability: as `commit`; that it wins over commits ends with the process.
        """
        key = f"{topic}@{group}"
        self._commit(key, queue_id, offset)
        self._resets[key, queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where an administrator has sent the group, once; None almost always."""
        if not self._resets:
            return None
        return self._resets.pop((f"{topic}@{group}", queue_id), None)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give one group the offsets of another in a topic, if it has any, and no others there.

        Raises:
            DiskFull, DiskFailed: As `commit`; some may be cloned.
        Durability: as `commit`.
        """
        key = f"{topic}@{target}"
        offsets = dict(self.of(source, topic))
        if not offsets:
            return
        self._forget(key)
        for queue_id, offset in offsets.items():
            self._commit(key, queue_id, offset)

    def forget(self, group: str) -> None:
        """Forget everything that a group has committed, in every topic.

        Raises:
            DiskFull, DiskFailed: As `commit`; some may be forgotten.
        Durability: as `commit`.
        """
        suffix = f"@{group}"
        for key in [key for key in self._table if key.endswith(suffix)]:
            self._forget(key)

    def forget_topic(self, topic: str) -> None:
        """Forget everything that any group has committed in a topic.

        Raises:
            DiskFull, DiskFailed: Some may be forgotten.
        Durability: on the disk when this returns.
        """
        for group in self.groups_of(topic):
            self._forget(f"{topic}@{group}")
        self._journal.sync()

    def smallest(self, topic: str) -> dict[int, int]:
        """Return by queue the smallest offset that any group has committed in the topic."""
        found: dict[int, int] = {}
        for key, queues in self._table.items():
            if key.partition("@")[0] == topic:
                for queue_id, offset in queues.items():
                    found[queue_id] = min(offset, found.get(queue_id, offset))
        return found

    @property
    def wants_flush(self) -> bool:
        """Tell whether the journal has grown so long that it should not wait for its time."""
        return self._journal.end >= JOURNAL_BYTES_MAX

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that committed an offset in the topic."""
        prefix = f"{topic}@"
        return [key[len(prefix) :] for key in self._table if key.startswith(prefix)]

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed an offset."""
        suffix = f"@{group}"
        return [key[: -len(suffix)] for key in self._table if key.endswith(suffix)]

    @property
    def version(self) -> DataVersion:
        """The version of the table."""
        return self._version

    def all(self) -> Mapping[str, Mapping[int, int]]:
        """Return every offset by `topic@group` and queue."""
        return self._table

    def begin_flush(self) -> FlushJob | None:
        """Return what must be written, None when nothing changed since the last time."""
        if not self._is_changed:
            return None
        self._is_changed = False
        self._flushing = dict(self._unkept)
        groups: dict[str, list[str]] = {}
        for key in self._table:
            topic, _, group = key.partition("@")
            topics = groups.setdefault(group, [])
            if topic not in topics:
                topics.append(topic)
        content = self._file.encode(
            {
                "dataVersion": self._version.to_json(),
                "groupTopicMap": groups,
                "offsetTable": {key: dict(queues) for key, queues in self._table.items()},
                SEQUENCE: self._journal.sequence,
            }
        )
        return FlushJob(run=lambda: self._file.replace(content), journal_end=self._journal.end)

    def finish_flush(self, job: FlushJob, error: StoreError | None) -> None:
        """Cut from the journal what the file now holds; after an error nothing is cut."""
        if error is not None:
            self._is_changed = True
            _log.error("consumer offsets could not be written; trying again", why=str(error))
            return
        for at, offset in self._flushing.items():
            if self._unkept.get(at) == offset:
                del self._unkept[at]
        self._journal.cut(job.journal_end)

    def flush(self) -> None:
        """Write what changed, here and now: used when stopping and by tests."""
        journal.flush_now(self)

    def close(self) -> None:
        """Flush and give the journal up."""
        try:
            self.flush()
        finally:
            self._journal.close()

    def _commit(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._table.get(key, _NOTHING)
        if queues.get(queue_id) == offset and (key, queue_id) not in self._unkept:
            return
        self._journal.append(key, queue_id, offset)
        self._unkept.pop((key, queue_id), None)
        self._set(key, queue_id, offset)

    def _set(self, key: str, queue_id: int, offset: int) -> None:
        self._table.setdefault(key, {})[queue_id] = offset
        self._is_changed = True
        self._commits += 1
        if self._commits % VERSION_STEP == 0:
            self._version = self._version.next(self._clock.now_ms())

    def _forget(self, key: str) -> None:
        if key in self._table:
            self._journal.append(key, 0, None)
            del self._table[key]
            self._is_changed = True
        self._resets = {at: to for at, to in self._resets.items() if at[0] != key}
        self._unkept = {at: to for at, to in self._unkept.items() if at[0] != key}

    def _interpret(self, content: dict[str, Any]) -> int | None:
        """Take in what the file says; return up to where it covers the journal."""
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        found = values.mapping(content.get("offsetTable"), "offsetTable")
        self._table = {
            str(key): {
                values.integer(queue, "a queue"): values.integer(at, "an offset")
                for queue, at in values.mapping(queues, f"offsets of {key}").items()
            }
            for key, queues in found.items()
        }
        self._version = version
        return journal.covered_by(content)
