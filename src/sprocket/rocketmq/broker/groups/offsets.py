"""How far each consumer group is in each queue, so that it continues there after a stop or a crash.

Two files hold it, both in `config/`:

* `consumerOffset.json`, RocketMQ's own, the snapshot: replaced as a whole every few seconds
  (`flush_ms`) and at stop, piece by piece while commits go on.
* `sprocket.offsets`, a journal of the commits since then: one line is written for each commit,
  before the commit is answered. A process that dies, by `kill -9` too, leaves what it has written
  to the system, so no answered commit is lost with the process. The journal is not synced: a power
  loss may take the commits of the last interval, and consumers then see some messages again.

A pull may contain a commit. If its line cannot be written the pull does not fail: the commit is
kept in memory only (`commit_aside`), as all of RocketMQ's are, until a line or a file has it.

A reset by an administrator is a commit that wins: until the group has pulled from the queue, and
so learned of it, its own commits there are ignored.

Invariants

1. File + journal = the table except for what `_unkept` has: at any moment reading both gives what
   was answered last.
2. `_topics` and `_groups` hold the two halves of every key of the table, and nothing else.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypedDict

from sprocket.base import log
from sprocket.base.disk import Steps
from sprocket.base.errors import DiskFailed, DiskFull, WireError
from sprocket.base.place import Place
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.store import committed_offsets, config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.light_offsets import LightOffsets
from sprocket.rocketmq.store.store import Store

_log = log.get_limited_logger(__name__)

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
"""A journal of this size asks for a flush at once; about 80,000 commits."""

VERSION_STEP = 500
"""Commits for each step of the data version, RocketMQ's `consumerOffsetUpdateVersionStep`."""

_NOTHING: Mapping[int, int] = {}

_INT64_MAX = (1 << 63) - 1


class _File(TypedDict, total=False):
    """The members of `consumerOffset.json` that are read; groupTopicMap follows from the table."""

    dataVersion: object
    offsetTable: dict[str, dict[int, int] | None] | None
    sprocketSequence: int | None


class ConsumerOffsets:
    """The table of committed offsets, by `topic@group` and queue.

    Args:
        place: Where the store lies; its clock is part of the version.
        light_queues: Whether RocketMQ would have a file of its own for them here.

    Attributes:
        table: File, journal and version.

    Threads: event loop only.
    Durability: see the head of the module.
    """

    def __init__(self, place: Place, *, light_queues: bool = False) -> None:
        self._offsets: dict[str, dict[int, int]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        self._resets: dict[tuple[str, int], int] = {}
        self._unkept: dict[tuple[str, int], int] = {}
        """Which commits have no line, by the number of the change."""
        self._changes = 0
        self.table = ConfigTable(config_table.OFFSETS, place, self._snapshot)
        for _, key, queue_id, offset in self.table.load(_File, self._read):
            if offset is None:
                self._drop(key)
            else:
                self._queues(key)[queue_id] = offset
        self._light = LightOffsets(place.disk, StoreLayout(place.folder)) if light_queues else None
        is_foreign = self._light is not None and self._take_light(self._light)
        if self.table.is_void or is_foreign:
            self.table.journal.is_behind = True
            self.table.flush()  # from now on the journal counts

    def _take_light(self, light: LightOffsets) -> bool:
        """Take the offsets that RocketMQ had with its light queues, if it was the last here."""
        found = light.foreign()
        if found is None:
            return False
        self._read({"offsetTable": {**found.table}})
        return True

    def set_back(self, store: Store) -> None:
        """Set offsets back that lie behind the ends of their queues, as the log has lost messages.

        That is so after a power cut under async flush, and where somebody has removed the log or
        put another one in its place. Each group that is concerned is told, and the recovery report
        has all of it.

        Args:
            store: The open store, just recovered.
        """
        found: dict[str, dict[int, int]] = {}
        for one in [*committed_offsets.beyond_ends(self._offsets, store.queue_end)]:
            found.setdefault(f"{one.topic}@{one.group}", {})[one.queue_id] = one.offset
            self.commit_aside(one.group, one.topic, one.queue_id, one.end)
        for key, queues in found.items():
            topic, _, group = key.partition("@")
            _log.warning(
                "committed offsets lay behind the ends of their queues, and are set back to these",
                group=group,
                topic=topic,
                offsets=queues,
            )
        if found:
            store.tell_offsets_set_back(found)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset the group goes on from, None when it never committed one."""
        queues = self._offsets.get(f"{topic}@{group}")
        return None if queues is None else queues.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the offsets of a group in a topic by queue."""
        return self._offsets.get(f"{topic}@{group}", _NOTHING)

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
            self._set(key, queue_id, offset)
            self._unkept[key, queue_id] = self._changes

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
        for topic in self.topics_of(group):
            self._forget(f"{topic}@{group}")

    def forget_topic(self, topic: str) -> None:
        """Forget everything that any group has committed in a topic.

        Raises:
            DiskFull, DiskFailed: Some may be forgotten.
        Durability: on the disk when this returns.
        """
        for group in self.groups_of(topic):
            self._forget(f"{topic}@{group}")
        self.table.journal.sync()

    def by_queue(self, topic: str) -> dict[int, list[int]]:
        """Return by queue the offsets that groups have committed in the topic."""
        found: dict[int, list[int]] = {}
        for group in self.groups_of(topic):
            for queue_id, offset in self.of(group, topic).items():
                found.setdefault(queue_id, []).append(offset)
        return found

    @property
    def wants_flush(self) -> bool:
        """Tell whether the journal has grown so long that it should not wait for its time."""
        return self.table.journal.bytes_since_roll >= JOURNAL_BYTES_MAX

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that committed an offset in the topic."""
        return list(self._groups.get(topic, ()))

    @property
    def are_lost(self) -> bool:
        """Whether the file was lost, and no group has an offset."""
        return self.table.is_lost and not self._offsets

    def groups(self) -> set[str]:
        """Return every group that committed an offset."""
        return {group.partition("@")[0] for group in self._topics}

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which a group has committed an offset."""
        return list(self._topics.get(group, ()))

    def all(self) -> Mapping[str, Mapping[int, int]]:
        """Return every offset by `topic@group` and queue."""
        return self._offsets

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            members={"groupTopicMap": self._group_entries(), "offsetTable": self._offset_entries()},
            beside=self._beside,
            written=partial(self._kept, self._changes),
        )

    def _beside(self, sequence: int) -> Steps:
        """Write the file of RocketMQ with light queues, too, where there are such."""
        if self._light is not None:
            yield from self._light.replace_steps(self.table.version, self._offsets, sequence)

    def _kept(self, changes: int) -> None:
        """Note that a file has what was committed up to a change."""
        self._unkept = {at: number for at, number in self._unkept.items() if number > changes}

    def _group_entries(self) -> Iterator[str]:
        for group in list(self._topics):
            topics = self._topics.get(group)
            if topics:
                yield fastjson.entry(group, list(topics))

    def _offset_entries(self) -> Iterator[str]:
        """Give the offsets as they are when they are asked for: later lines have the rest."""
        for key in list(self._offsets):
            queues = self._offsets.get(key)
            if queues is not None:
                yield fastjson.int_map_entry(key, queues)

    def _commit(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._offsets.get(key, _NOTHING)
        if queues.get(queue_id) == offset and (key, queue_id) not in self._unkept:
            return
        self.table.journal.append(key, queue_id, offset)
        self._unkept.pop((key, queue_id), None)
        self._set(key, queue_id, offset)

    def _set(self, key: str, queue_id: int, offset: int) -> None:
        self._queues(key)[queue_id] = offset
        self.table.journal.is_behind = True
        self._changes = self.table.count_change(VERSION_STEP)

    def _queues(self, key: str) -> dict[int, int]:
        """Return what a group has in a topic, to be changed; it may be new."""
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
            topic, _, group = key.partition("@")
            self._topics.setdefault(group, {})[topic] = None
            self._groups.setdefault(topic, {})[group] = None
        return queues

    def _drop(self, key: str) -> None:
        if self._offsets.pop(key, None) is None:
            return
        topic, _, group = key.partition("@")
        for index, one, other in ((self._topics, group, topic), (self._groups, topic, group)):
            del index[one][other]
            if not index[one]:
                del index[one]

    def _forget(self, key: str) -> None:
        if key in self._offsets:
            self.table.journal.append(key, 0, None)
            self._drop(key)
            self.table.journal.is_behind = True
            self._changes = self.table.count_change(VERSION_STEP)
        self._resets = {at: to for at, to in self._resets.items() if at[0] != key}
        self._unkept = {at: number for at, number in self._unkept.items() if at[0] != key}

    def _read(self, content: "_File") -> None:
        """Take in what the file says."""
        self._offsets, self._topics, self._groups = {}, {}, {}
        for key, queues in (content.get("offsetTable") or {}).items():
            self._queues(key).update(queues or {})
            for number in (*self._offsets[key], *self._offsets[key].values()):
                if not -_INT64_MAX <= number <= _INT64_MAX:
                    raise WireError(f"{number} of the offsets of {key} is not a number of 64 bits")
