"""How far the delivery of each delay level is, so that it continues there after a stop or a crash.

`config/delayOffset.json` is RocketMQ's own file: by level the queue offset, in the level's waiting
queue, of the first message that was not delivered. It is replaced every few seconds and at stop.
`config/sprocket.delays` is the journal of what came since, a line for each batch that was
delivered: `sequence, level, offset, end of the log`; see `store.config_table`.

A batch counts as delivered when its copies are stored as the flush mode says. The progress that is
written down must never be ahead of the copies, or a waiting message would be lost:

* a kill leaves both with the operating system, the copies first;
* after a power loss the log may end before the copies of a batch (async flush, or a journal that
  the disk got earlier than the log). Then the batch's line, which says where the log ended behind
  its copies, does not count, and the batch is delivered again. Neither does any line when recovery
  found the log damaged: the disk may have had what lies behind the copies, but not them;
* the file, which is synced, takes over only what the synced part of the log covers.

Source: RocketMQ `ScheduleMessageService`, `DelayOffsetSerializeWrapper`.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sprocket.base.disk import steps
from sprocket.base.place import Place
from sprocket.rocketmq.codec.config import JsonObject, fastjson, values
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Members, Snapshot

VERSION_STEP = 200
"""Changes for each step of the data version, RocketMQ's `delayOffsetUpdateVersionStep`."""


class LogProgress(Protocol):
    """The part of the store that says how far the log has come; `store.Store` is it."""

    @property
    def written(self) -> int:
        """Up to where the file system has the log."""

    @property
    def synced(self) -> int:
        """Up to where the disk has the log."""


class _Noted(NamedTuple):
    log_end: int
    sequence: int
    level: int
    offset: int


class DelayProgress:
    """The table of offsets by level.

    Args:
        place: The store's.
        store: The open store, just recovered.
        is_whole: Recovery found no damage in the log.

    Attributes:
        table: File, journal and version; the journal has what is not safe yet, too.

    Threads: event loop only.
    Durability: see the head of the module.
    """

    def __init__(self, place: Place, store: LogProgress, *, is_whole: bool = True) -> None:
        self._store = store
        self._offsets: dict[int, int] = {}
        self.table = ConfigTable(config_table.DELAYS, place, self._snapshot)
        journal = self.table.journal
        has_void = False
        for _, level, offset, log_end in self.table.load(fastjson.Members, self._read):
            if is_whole and log_end <= store.written:
                self._offsets[level] = offset
            else:
                has_void = True
        self._safe = dict(self._offsets)
        """What the synced part of the log covers, up to line `_covered`."""
        self._covered = journal.sequence
        self._unsafe: deque[_Noted] = deque()
        self.table.flush()
        if has_void:  # they must not come to count when the log has grown, for the backup either
            steps.run(journal.retire_steps(self._covered))

    def get(self, level: int) -> int:
        """Return the offset of the level's first message that was not delivered."""
        return self._offsets.get(level, 0)

    def all(self) -> Mapping[int, int]:
        """Return the offset by level, of levels that have delivered something."""
        return self._offsets

    def note(self, level: int, offset: int) -> None:
        """Note that everything before `offset` was delivered, and is stored.

        Raises:
            DiskFull, DiskFailed: The journal could not be written. A kill would have the messages
                delivered again; the file takes the offset over anyway.
        Durability: with the operating system when this returns.
        """
        log_end = self._store.written
        self._offsets[level] = offset
        self.table.count_change(VERSION_STEP)
        journal = self.table.journal
        try:
            journal.append(level, offset, log_end)
        finally:
            self._unsafe.append(_Noted(log_end, journal.sequence, level, offset))

    def _snapshot(self) -> Snapshot:
        """Return what is safe by now."""
        synced = self._store.synced
        while self._unsafe and self._unsafe[0].log_end <= synced:
            noted = self._unsafe.popleft()
            self._safe[noted.level] = noted.offset
            self._covered = noted.sequence
            self.table.journal.is_behind = True
        members: Members = {"offsetTable": dict(sorted(self._safe.items()))}
        return Snapshot(members=members, covered=self._covered)

    def _read(self, content: JsonObject) -> None:
        """Take in what the file says."""
        found = values.mapping(content.get("offsetTable"), "offsetTable")
        self._offsets = {
            values.integer(level, "a delay level"): values.integer(offset, "an offset")
            for level, offset in found.items()
        }
