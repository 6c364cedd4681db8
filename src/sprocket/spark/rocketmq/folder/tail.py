"""A log that grows while a stream reads it: where it ends, and whether it is still the same log.

A place in the log is one physical offset on a boundary: a record begins there, or the padding of a
file, or damage that reading steps over, or the log ends there.

How a log is known to be the same

* A log that was truncated and written again may be longer than before, and the place where a
  stream continues then lies within some record. So the records before that place are checked: a
  chain of records that begins at a trusted place must end exactly there. In the newest file the
  trusted place is the file's first byte, since whole old records may lie after the end of a log. In
  the files before it any record will do, as these files are full.
* That may read a whole file, so it is done when a stream begins. From then on the record before
  each place is remembered; checking that it is still there, with its times and offsets, takes one
  small read.
* A store that was created again may have a boundary at that place, and so may a log whose new
  records are as long as the old ones. So a stream may name a record that it has read before the
  place: if the record there has another store time, or none begins there, the log is another one.
  If retention has deleted that record, or it is damaged, this check is left out.
* If the place is lost, the log continues at the first record that is younger than the one that was
  read; if none is known, at the next boundary, or it ends before.
"""

import dataclasses
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import Ints, Stop
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    FIXED_BYTES,
    MAGIC_AT,
    stored_at_ms,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, ReadableFile
from sprocket.spark.rocketmq.folder.lost_end import closed_log
from sprocket.spark.rocketmq.folder.plan import LogFile, log_files, newest
from sprocket.spark.rocketmq.folder.slices import (
    FIRST_BYTES,
    MAGICS,
    resync,
    slices,
    time_of_record,
)
from sprocket.spark.rocketmq.rows.damage import DamagedRange

_WINDOW_BYTES = 8 * MIB
"""How far before a place in a full file the chain begins that must land on it."""
_MARKS_MAX = 4
"""Places whose record before them is remembered: a batch's two, and the end of the log."""


@dataclasses.dataclass(frozen=True, slots=True)
class LogExtent:
    """The log as it is found at one moment: physical offsets.

    Args:
        files: Those that hold something, in order.
        start: Where the oldest file begins.
        end: Where the last whole record ends.
    """

    files: Sequence[LogFile]
    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class LogPlace:
    """Where to go on.

    Args:
        at: Physical offset.
        is_sound: Whether it is the place asked for, with the same record before it.
    """

    at: int
    is_sound: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LastRecord:
    """A record that was read.

    Args:
        start: Physical offset where it begins.
        stored_at_ms: When its broker stored it, milliseconds since 1970.
    """

    start: int
    stored_at_ms: int


@dataclasses.dataclass(frozen=True, slots=True)
class LogStretch:
    """How far some records go: up to the physical offset `end`, and how many they are."""

    end: int
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Mark:
    """The record before a place: where it begins, and its first bytes."""

    start: int
    head: bytes


class GrowingLog:
    """The log of one folder, looked at again and again.

    Args:
        disk: Where.
        folder: The store's root.

    Every method raises FileMissing if a file was cleaned away since the log was looked at.

    Threads: one at a time.
    """

    def __init__(self, disk: Files, folder: str) -> None:
        self._disk = disk
        self._layout = StoreLayout(folder.rstrip("/") or "/")
        self._marks: dict[int, _Mark] = {}
        self._counted: tuple[int, LogStretch] | None = None

    def look(self) -> LogExtent:
        """Return what is there now.

        Raises:
            ForeignStore: The folder is not a store, or one of a kind that is not read.
            CorruptRecord: A file of the log is missing between others.
        """
        files = log_files(self._disk, self._layout)
        if not files:
            names = self._disk.list(self._layout.commitlog)
            first = min((int(name) for name in names if name.isdecimal()), default=0)
            return LogExtent([], first, first)
        last = files[-1]
        with closing(self._disk.open(last.path)) as opened:
            known = [at for at in self._marks if self._is_marked(opened, last, at)]
            trusted = max(known, default=last.start)
            if not _begins(opened, trusted - last.start):
                return LogExtent(files, files[0].start, trusted)
        end, cuts = newest(self._disk, self._layout, last, trusted)
        if end > trusted:
            near = max((cut for cut in cuts if cut < end), default=trusted)
            with closing(self._disk.open(last.path)) as opened:
                for ends in _runs(opened, last, near, end):
                    near = self._mark(opened, last, near, ends)
        return LogExtent(files, files[0].start, end)

    def lost_end(self) -> DamagedRange | None:
        """Return what the log has lost of its end since it was closed, None if nothing is known."""
        closed = closed_log(self._disk, self._layout)
        if closed is None:
            return None
        found = self.look()
        path = found.files[-1].path if found.files else self._layout.commitlog
        return closed.lost(self._disk, path, found.end, lambda: self._stored_at_ms(found))

    def _stored_at_ms(self, log: LogExtent) -> int:
        """Return the store time of the last record, 0 if it is not known."""
        mark = self._marks.get(log.end)
        if mark is None or not log.files:
            return 0
        last = log.files[-1]
        with closing(self._disk.open(last.path)) as opened:
            piece = next(slices(opened, last.start, mark.start - last.start, log.end - last.start))
        return int(piece.records.stored_at_ms[0]) if len(piece.records) else 0

    def place(self, log: LogExtent, at: int, last: LastRecord | None = None) -> LogPlace:
        """Return a place if the log still has it, else where the log continues or ends.

        That is the oldest file's start, the first record that is younger than the last one that was
        read, or if none is known the next boundary, or the end of the log.

        Args:
            log: What is there.
            at: Physical offset.
            last: A record that was read before it.
        """
        if at <= log.start or not log.files:
            return LogPlace(log.start, at == log.start)
        if at > log.end:
            return self._after(log, last, log.end)
        file = next((file for file in log.files if at < file.end), log.files[-1])
        if at == file.start:
            return LogPlace(at, True) if self._has(log, at, last) else self._after(log, last, at)
        with closing(self._disk.open(file.path)) as opened:
            was_marked = at in self._marks
            is_known = was_marked and self._is_marked(opened, file, at)
            found = at
            if not is_known:
                end = min(file.end, log.end)
                found = self._landed(opened, file, at, end, is_full=file is not log.files[-1])
        # The end of a log is marked when it is found, whatever was there before.
        is_sound = is_known or (found == at and not was_marked)
        if is_sound and self._has(log, at, last):
            return LogPlace(at, True)
        return self._after(log, last, found)

    def record_before(self, at: int) -> LastRecord | None:
        """Return the record before a place that was just looked at; None if it is not known."""
        mark = self._marks.get(at)
        if mark is None or mark.head[MAGIC_AT : MAGIC_AT + 4] not in MAGICS:
            return None
        return LastRecord(mark.start, stored_at_ms(mark.head))

    def _has(self, log: LogExtent, at: int, last: LastRecord | None) -> bool:
        """Tell whether a record before a place is where it was; also if that cannot be known."""
        if last is None or last.start < log.start:
            return True
        before = self.record_before(at)
        if before is not None and before.start == last.start:
            return before == last
        file = next((file for file in log.files if last.start < file.end), None)
        if file is None:
            return False
        with closing(self._disk.open(file.path)) as opened:
            first, end = last.start - file.start, min(file.end, log.end) - file.start
            found = time_of_record(opened, file.start, first, end)
        if found is not None:
            return found == last.stored_at_ms
        # A damaged record has its place in the log; none of another log need begin here.
        return self.place(log, last.start).is_sound

    def _after(self, log: LogExtent, last: LastRecord | None, boundary: int) -> LogPlace:
        """Return where a log that lost a place continues, with the boundary after that place."""
        if last is None:
            return LogPlace(boundary, False)
        younger = self.place_by_time(log, last.stored_at_ms + 1)
        return LogPlace(min(younger, boundary), False)

    def place_by_time(self, log: LogExtent, at_ms: int) -> int:
        """Return where the first record begins that was stored then or later, else the end.

        Store times are taken to rise from file to file.

        Args:
            log: What is there.
            at_ms: Milliseconds since 1970.
        """
        # All files before the last one that begins earlier have nothing but older records.
        number = bisect_left(log.files, at_ms, key=self._began_at_ms)
        for file in log.files[max(number - 1, 0) :]:
            with closing(self._disk.open(file.path)) as opened:
                last = min(file.end, log.end) - file.start
                for piece in slices(opened, file.start, 0, last):
                    is_late = piece.records.stored_at_ms >= at_ms
                    if is_late.any():
                        return file.start + piece.start + int(piece.records.start[is_late][0])
        return log.end

    def _began_at_ms(self, file: LogFile) -> int:
        """Return when the first record of a file was stored; 0 if that cannot be read."""
        with closing(self._disk.open(file.path)) as opened:
            size = file.end - file.start
            piece = next(slices(opened, file.start, 0, size, min(FIRST_BYTES, size)))
        return int(piece.records.stored_at_ms[0]) if len(piece.records) else 0

    def reach(
        self, log: LogExtent, start: int, end: int, *, bytes_max: int = 0, count_max: int = 0
    ) -> LogStretch:
        """Return how far a batch goes from a place on.

        Args:
            log: What is there.
            start: Where the batch begins.
            end: Where it ends at the latest.
            bytes_max: Bytes at most, but one record at least; 0 for no limit.
            count_max: Records at most, 0 for no limit; a stretch of damage counts as one.
        """
        at, count = start, 0
        bound = start + bytes_max if bytes_max else end
        for file in log.files:
            first, last = max(start, file.start), min(end, file.end)
            if first >= last:
                continue
            with closing(self._disk.open(file.path)) as opened:
                for ends in _runs(opened, file, first, last):
                    fit = int(np.searchsorted(ends, bound, side="right"))
                    if count_max:
                        fit = min(fit, count_max - count)
                    if fit < len(ends):
                        fit = max(fit, 0 if count else 1)
                        return LogStretch(int(ends[fit - 1]) if fit else at, count + fit)
                    at, count = int(ends[-1]), count + len(ends)
            at = last  # what is left of a full file is padding
        return LogStretch(at, count)

    def count(self, log: LogExtent, start: int, end: int, count_max: int) -> int:
        """Return how many records lie between two places, but `count_max` at most.

        Asked again for the same start, it looks only at what is new.
        """
        known = LogStretch(start, 0)
        if self._counted is not None and self._counted[0] == start and self._counted[1].end <= end:
            known = self._counted[1]
        if known.end < end and known.count < count_max:
            more = self.reach(log, known.end, end, count_max=count_max - known.count)
            known = LogStretch(more.end, known.count + more.count)
            self._counted = start, known
        return known.count

    def _landed(
        self, opened: ReadableFile, file: LogFile, at: int, end: int, *, is_full: bool
    ) -> int:
        """Return `at` if a chain of records lands there, else the next boundary after it."""
        starts = [file.start]
        if is_full:
            first = max(at - file.start - _WINDOW_BYTES, 0)
            found = resync(opened, file.start, first, at - file.start)
            starts = [file.start + found, file.start] if found > 0 else starts
        behind = file.end
        for start in starts:
            before = start
            for ends in _runs(opened, file, start, end):
                number = int(np.searchsorted(ends, at))
                if number == len(ends):
                    before = int(ends[-1])
                    continue
                if ends[number] == at:
                    self._mark(opened, file, before, ends[: number + 1])
                    return at
                behind = int(ends[number])
                break
        return behind

    def _mark(self, opened: ReadableFile, file: LogFile, before: int, ends: Ints) -> int:
        """Remember the last of some records; return where it ends. The first begins at `before`."""
        start, end = int(ends[-2]) if len(ends) > 1 else before, int(ends[-1])
        self._marks.pop(end, None)
        self._marks[end] = _Mark(start, opened.read(start - file.start, FIXED_BYTES))
        while len(self._marks) > _MARKS_MAX:
            del self._marks[next(iter(self._marks))]
        return end

    def _is_marked(self, opened: ReadableFile, file: LogFile, at: int) -> bool:
        """Tell whether the record before a place is in this file, and as it was."""
        mark = self._marks[at]
        if not file.start < at <= file.end:
            return False
        return opened.read(mark.start - file.start, FIXED_BYTES) == mark.head


def _begins(opened: ReadableFile, position: int) -> bool:
    """Tell whether something stands at a position of a file that may be a record."""
    return opened.read(position, BLANK_BYTES)[MAGIC_AT : MAGIC_AT + 4] in MAGICS


def _runs(opened: ReadableFile, file: LogFile, start: int, end: int) -> Iterator[Ints]:
    """Give where records end, many at a time, from one boundary to another; physical offsets.

    A stretch of damage counts as a record. Padding ends a file.
    """
    at, bound = start - file.start, end - file.start
    while at < bound:
        stop = None
        for piece in slices(opened, file.start, at, bound):
            at, stop = piece.end, piece.stop
            if len(piece.records):
                yield file.start + piece.start + piece.records.end
        if stop is not Stop.BROKEN:
            return
        found = resync(opened, file.start, at + 1, bound)
        at = found if found >= 0 else bound
        yield np.array([file.start + at])
