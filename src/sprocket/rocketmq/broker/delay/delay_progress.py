"""How far the delivery of each delay level is, so that it continues there after a stop or a crash.

`config/delayOffset.json` is RocketMQ's own file: by level the queue offset, in the level's waiting
queue, of the first message that was not delivered. It is replaced every few seconds and at stop.
`config/sprocket.delays` is the journal of what came since, a line for each batch that was
delivered: `sequence, level, offset, end of the log`; see `base.journal` and `config_file`.

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
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.tables import Journal
from sprocket.rocketmq.codec.config import DataVersion, JsonObject, declared, tables, values
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

Line: TypeAlias = tuple[int, int, int, int]
"""Sequence, level, queue offset, physical offset where the log ended behind the copies."""

_decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode

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
        disk: Where the files lie.
        folder: The store's folder.
        clock: For the data version.
        store: The open store, just recovered.
        is_whole: Recovery found no damage in the log.

    Attributes:
        journal: What was delivered since the last snapshot was begun, and what is not safe yet.

    Threads: event loop only, except for the calls of steps.
    Durability: see the head of the module.
    """

    def __init__(
        self, disk: Disk, folder: str, clock: Clock, store: LogProgress, *, is_whole: bool = True
    ) -> None:
        layout = StoreLayout(folder)
        self._file = ConfigFile(disk, layout.delay_offsets)
        self._clock = clock
        self._store = store
        self._version = DataVersion.new(clock.now_ms())
        self._changes = 0
        self._table: dict[int, int] = {}
        covered = self._file.load(self._interpret)
        self.journal = Journal(disk, layout.delay_journal, _decode)
        lines = self.journal.replay(covered)
        has_void = False
        for _, level, offset, log_end in lines:
            if is_whole and log_end <= store.written:
                self._table[level] = offset
            else:
                has_void = True
        self._safe = dict(self._table)
        """What the synced part of the log covers, up to line `_covered`."""
        self._covered = self.journal.sequence
        self._unsafe: deque[_Noted] = deque()
        self.flush()
        if has_void:  # they must not come to count when the log has grown, for the backup either
            steps.run(self.journal.retire_steps(self._covered))

    def get(self, level: int) -> int:
        """Return the offset of the level's first message that was not delivered."""
        return self._table.get(level, 0)

    @property
    def version(self) -> DataVersion:
        """The version of the table."""
        return self._version

    def all(self) -> Mapping[int, int]:
        """Return the offset by level, of levels that have delivered something."""
        return self._table

    def note(self, level: int, offset: int) -> None:
        """Note that everything before `offset` was delivered, and is stored.

        Raises:
            DiskFull, DiskFailed: The journal could not be written. A kill would have the messages
                delivered again; the file takes the offset over anyway.
        Durability: with the operating system when this returns.
        """
        log_end = self._store.written
        self._table[level] = offset
        self._changes += 1
        if self._changes % VERSION_STEP == 0:
            self._version = self._version.next(self._clock.now_ms())
        try:
            self.journal.append(level, offset, log_end)
        finally:
            self._unsafe.append(_Noted(log_end, self.journal.sequence, level, offset))

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if anything new is safe since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """
        synced = self._store.synced
        while self._unsafe and self._unsafe[0].log_end <= synced:
            noted = self._unsafe.popleft()
            self._safe[noted.level] = noted.offset
            self._covered = noted.sequence
            self.journal.is_behind = True
        return self.journal.snapshot_steps(
            lambda covered: self._file.replace_steps(
                {
                    "dataVersion": declared.plain(self._version),
                    "offsetTable": dict(sorted(self._safe.items())),
                    tables.SEQUENCE: covered,
                }
            ),
            self._covered,
        )

    def flush(self) -> None:
        """Write what changed and is safe, here and now: used when starting, stopping, by tests."""
        steps.run(self.flush_steps())

    def close(self) -> None:
        """Flush and give the journal up. The log should be synced before."""
        try:
            self.flush()
        finally:
            self.journal.close()

    def _interpret(self, content: JsonObject) -> int | None:
        """Take in what the file says; return up to where it covers the journal."""
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        found = values.mapping(content.get("offsetTable"), "offsetTable")
        self._table = {
            values.integer(level, "a delay level"): values.integer(offset, "an offset")
            for level, offset in found.items()
        }
        self._version = version
        return tables.covered_by(content)
