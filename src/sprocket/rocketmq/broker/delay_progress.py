"""How far the delivery of each delay level is, so that it goes on from there after any end.

`config/delayOffset.json` is RocketMQ's own file: by level the queue offset, in the level's waiting
queue, of the first message that was not delivered. It is replaced every few seconds and at stop.
`config/sprocket.delays` is the journal of what came since, a line for each batch that was
delivered: `sequence, level, offset, end of the log`; see `broker.journal`.

A batch counts as delivered when its copies are stored as the flush mode says. What is noted may
never be ahead of the copies, or a message that waited would be lost:

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
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker import journal
from sprocket.rocketmq.broker.config_file import ConfigFile
from sprocket.rocketmq.broker.journal import SEQUENCE, FlushJob, Journal
from sprocket.rocketmq.codec import values
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_logger(__name__)

Line: TypeAlias = tuple[int, int, int, int]
"""Sequence, level, queue offset, physical offset where the log ended behind the copies."""

_decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode

VERSION_STEP = 200
"""Changes for each step of the data version, RocketMQ's `delayOffsetUpdateVersionStep`."""


class Log(Protocol):
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
    journal_end: int
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

    Threads: event loop only, but for `FlushJob.run`.
    Durability: see the head of the module.
    """

    def __init__(
        self, disk: Disk, folder: str, clock: Clock, store: Log, *, is_whole: bool = True
    ) -> None:
        layout = StoreLayout(folder)
        self._file = ConfigFile(disk, layout.delay_offsets)
        self._clock = clock
        self._store = store
        self._version = DataVersion.new(clock.now_ms())
        self._changes = 0
        self._table: dict[int, int] = {}
        covered = self._file.load(self._interpret)
        self._journal = Journal(disk, layout.delay_journal, _decode)
        for _, level, offset, log_end in self._journal.replay(covered):
            if is_whole and log_end <= store.written:
                self._table[level] = offset
        self._safe = dict(self._table)
        """What the synced part of the log covers, up to `_covered`."""
        self._covered = _Noted(0, self._journal.sequence, self._journal.end, 0, 0)
        self._unsafe: deque[_Noted] = deque()
        self._is_changed = covered is None or self._journal.end > 0
        self.flush()  # lines that did not count must not come to count when the log has grown

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
                delivered again; the file takes the offset over all the same.
        Durability: with the operating system when this returns.
        """
        log_end = self._store.written
        self._table[level] = offset
        self._changes += 1
        if self._changes % VERSION_STEP == 0:
            self._version = self._version.next(self._clock.now_ms())
        try:
            self._journal.append(level, offset, log_end)
        finally:
            at = self._journal
            self._unsafe.append(_Noted(log_end, at.sequence, at.end, level, offset))

    def begin_flush(self) -> FlushJob | None:
        """Return what must be written, None when nothing new is safe since the last time."""
        synced = self._store.synced
        while self._unsafe and self._unsafe[0].log_end <= synced:
            self._covered = self._unsafe.popleft()
            self._safe[self._covered.level] = self._covered.offset
            self._is_changed = True
        if not self._is_changed:
            return None
        self._is_changed = False
        content = self._file.encode(
            {
                "dataVersion": self._version.to_json(),
                "offsetTable": dict(sorted(self._safe.items())),
                SEQUENCE: self._covered.sequence,
            }
        )
        return FlushJob(
            run=lambda: self._file.replace(content), journal_end=self._covered.journal_end
        )

    def finish_flush(self, job: FlushJob, error: StoreError | None) -> None:
        """Cut from the journal what the file now holds; after an error nothing is cut."""
        if error is not None:
            self._is_changed = True
            _log.error("delay offsets could not be written; trying again", why=str(error))
            return
        self._journal.cut(job.journal_end)
        self._covered = self._moved(self._covered, job.journal_end)
        self._unsafe = deque([self._moved(noted, job.journal_end) for noted in self._unsafe])

    def flush(self) -> None:
        """Write what changed and is safe, here and now: used when starting, stopping, by tests."""
        journal.flush_now(self)

    def close(self) -> None:
        """Flush and give the journal up. The log should be synced before."""
        try:
            self.flush()
        finally:
            self._journal.close()

    @staticmethod
    def _moved(noted: _Noted, cut_bytes: int) -> _Noted:
        """Return where a line lies after the journal was cut."""
        return noted._replace(journal_end=max(0, noted.journal_end - cut_bytes))

    def _interpret(self, content: dict[str, Any]) -> int | None:
        """Take in what the file says; return up to where it covers the journal."""
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        found = values.mapping(content.get("offsetTable"), "offsetTable")
        self._table = {
            values.integer(level, "a delay level"): values.integer(offset, "an offset")
            for level, offset in found.items()
        }
        self._version = version
        return journal.covered_by(content)
