"""Partitions of a store directory: exact ranges of records, found without reading most of them.

How a cut is found, and why it can be trusted

* A sealed file is cut at the first place after the wished one where a record's magic stands and
  the record says that it lies there. A body can fake that. So every reader must *land*: its chain
  of records ends exactly where its range does, or the query fails and names the place
  (`splitMode=chain` finds cuts by walking instead).
* No cut is made in the last bytes of a sealed file: after its blank record lie remains of what
  was there before, self-offsets and all.
* The newest file is walked to the first break, by the very checks that readers make: from a record
  that belongs to the log for certain (see `settled`), or else from the file's start. After an
  unclean stop, or while a broker runs, its last part is compared with its checksums as well, since
  a record may be there in part.
* After the end of the newest file may lie whole records from before the broker was last started,
  in their own place. One that is older than that start, after one that is younger, is none.
* Others that lie there may be the log's own, after damage (see `beyond_end`). Then the damage is a
  span as well, so that no query skips it silently.
* The end of the log is fixed here once; what comes later is for the next query.
* What the log lacks is a span, too: a file between others, and its end (see `lost_end`).
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from contextlib import closing
from functools import cache, partial

import numpy as np

from sprocket.base import log
from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, MAGIC_AT
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, ReadableFile, read_on
from sprocket.spark.rocketmq.folder.beyond_end import (
    IsTaken,
    RecordsBehind,
    TakenBefore,
    TakenByQueues,
    records_behind,
)
from sprocket.spark.rocketmq.folder.lost_end import closed_log, durable_at_ms
from sprocket.spark.rocketmq.folder.settled import settled_place
from sprocket.spark.rocketmq.folder.slices import MAGICS, SLICE_BYTES, resync, slices
from sprocket.spark.rocketmq.rows.damage import DamagedRange

_log = log.get_logger(__name__)

PARTITION_BYTES_MAX = 256 * MIB
PARTITION_BYTES_MIN = 64 * MIB
"""Tasks of 16 MiB took three times as long as tasks of 1 GiB."""
NO_CUT_BYTES = 8 * MIB
"""At the end of a sealed file: the largest record (4 MiB and 64 KiB by default), and slack."""
DOUBTED_BYTES = 32 * MIB
"""At the end of a log that was not closed: what may be there in part after a loss of power."""
NEAR_BYTES = 256 * KIB
"""How much is read at once to find the end of the log, where little is left of it."""

_NAME_DIGITS = 20
_DLEDGER_HEADER_BYTES = 48


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Records of one file: physical offsets from `start` up to `end`.

    Args:
        path: The file.
        base: Physical offset of its first byte.
        start: Where a record begins.
        end: Where the last one ends, or the end of the file.
        may_pad: The file's blank record may come before `end`.
        why: Why there is no record of the log in it, if that is known already.
        lost: How many bytes the log had after `end`, where it has lost its end; an empty span.
    """

    path: str
    base: int
    start: int
    end: int
    may_pad: bool
    why: str = ""
    lost: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether it stands for an end that the log has lost."""
        return bool(self.why) and self.start == self.end

    @property
    def damage(self) -> DamagedRange:
        """What is shown of a span in which there is no record."""
        return DamagedRange(self.path, self.start, self.end - self.start + self.lost, self.why)


@dataclasses.dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log and the physical offsets it covers."""

    path: str
    start: int
    end: int


def plan(
    disk: Files,
    folder: str,
    partition_bytes: int = 0,
    *,
    by_chain: bool = False,
    partitions_min: int = 0,
    no_cut_bytes: int = NO_CUT_BYTES,
    is_to_break: bool = False,
) -> list[list[Span]]:
    """Return the spans that each task is to read, in the order of the log.

    Args:
        disk: Where.
        folder: The store's root.
        partition_bytes: Bytes per task; 0 chooses by size of the log and number of cores.
        by_chain: Find cuts by walking every record.
        partitions_min: Tasks wanted at least; how many there are depends on where records end.
        no_cut_bytes: At the end of each sealed file; small for tests with small files.
        is_to_break: End where no record begins in the newest file, whatever follows, and
            whatever the log has lost there.

    Raises:
        ForeignStore: The folder is not a store, or one of a kind that is not read.
        CorruptRecord: Files of the log overlap.
    """
    layout = StoreLayout(folder.rstrip("/") or "/")
    closed = None if is_to_break else closed_log(disk, layout)
    files = log_files(disk, layout, with_gaps=True)
    if not files:
        lost = closed.lost(disk, layout.commitlog, 0, lambda: 0) if closed is not None else None
        return [[_lost_span(lost, 0)]] if lost is not None else []
    last = files[-1]
    settled = last.start
    if not by_chain:
        settled = settled_place(disk, layout, last.path, last.start, last.end, DOUBTED_BYTES)
    end, cuts = newest(disk, layout, last, settled)
    near = max((cut for cut in cuts if cut < end), default=settled)
    behind = []
    last_ms = cache(partial(_last_stored_at_ms, disk, last, near, end))
    if not is_to_break and end < last.end - BLANK_BYTES:
        behind = _behind(disk, layout, last, end, last_ms(), is_settled=settled > last.start)
    size = (behind[-1].end if behind else end) - files[0].start
    target = partition_bytes or task_bytes(size)
    if partitions_min:
        target = max(1, min(target, size // partitions_min))
    spans: list[Span] = []
    for file, after in itertools.pairwise(files):
        spans += _divided(disk, file, _span(file, 0, file.end), target, by_chain, no_cut_bytes)
        if file.end < after.start:
            why = f"this file is cut short, or others are missing before {after.path}"
            gap = Span(file.path, file.start, file.end, after.start, may_pad=False, why=why)
            spans.append(gap)
    if settled > last.start:
        spans += _divided(disk, last, _span(last, 0, settled), target, by_chain, no_cut_bytes)
    spans += _spans(_span(last, settled, end), cuts, target)
    for found in behind:
        if end < found.start:
            why = "no record of the log is here, but behind it there are intact ones"
            spans.append(Span(last.path, last.start, end, found.start, may_pad=False, why=why))
        spans.append(_span(last, found.start, found.end))
        end = found.end
    groups = _grouped(spans, target)
    if closed is not None:
        at_ms = (lambda: behind[-1].stored_at_ms) if behind else last_ms
        lost = closed.lost(disk, last.path, end, at_ms)
        groups += [[_lost_span(lost, last.start)]] if lost is not None else []
    return groups


def _lost_span(lost: DamagedRange, base: int) -> Span:
    """Return the span of an end that a log has lost."""
    return Span(
        lost.where, base, lost.start, lost.start, may_pad=False, why=lost.why, lost=lost.size
    )


def _behind(
    disk: Files,
    layout: StoreLayout,
    file: LogFile,
    end: int,
    stored_at_ms: int,
    *,
    is_settled: bool,
) -> list[RecordsBehind]:
    """Return the records of the log that lie after damage at `end` of its newest file.

    The last one before was stored at `stored_at_ms`; `is_settled` says that the index knows of none
    later.
    """
    is_open = disk.exists(layout.abort)
    # Elsewhere, reading what follows would read all of it, a GiB of zeros mostly.
    if is_settled and not is_open and not isinstance(disk, RealDisk):
        known_ms = durable_at_ms(disk, layout)
        if known_ms is not None and stored_at_ms >= known_ms:
            return []
    is_taken: IsTaken = TakenBefore(disk, file.path, file.start, end)
    if disk.list(layout.consumequeue):
        opened_at_ms = disk.modified_at_ms(layout.abort) if is_open else None
        is_taken = TakenByQueues(disk, layout, opened_at_ms)
    for _ in range(2):
        found = records_behind(disk, file.path, file.start, end, stored_at_ms, is_taken)
        if not found or found[0].start == end:
            return []  # what a broker wrote meanwhile is not damage, and for the next query
    return found


def _last_stored_at_ms(disk: Files, file: LogFile, start: int, end: int) -> int:
    """Return the store time of the last record of a part of a file, 0 if it has none."""
    last = 0
    with closing(read_on(disk, disk.open(file.path), end - file.start)) as opened:
        for piece in slices(opened, file.start, start - file.start, end - file.start):
            if len(piece.records):
                last = int(piece.records.stored_at_ms[-1])
    return last


def between(
    disk: Files,
    files: Sequence[LogFile],
    start: int,
    end: int,
    partition_bytes: int = 0,
    *,
    by_chain: bool = False,
    partitions_min: int = 0,
    no_cut_bytes: int = NO_CUT_BYTES,
) -> list[list[Span]]:
    """Return the spans of each task that reads a part of the log, in its order.

    Args:
        disk: Where.
        files: The files of the log; what they lack of the part is left out.
        start: Physical offset where the part begins, on a record's boundary.
        end: Where it ends, on another; nothing after it is looked at.
        partition_bytes: As for `plan`.
        by_chain: As for `plan`.
        partitions_min: As for `plan`.
        no_cut_bytes: As for `plan`.
    """
    target = partition_bytes or task_bytes(end - start)
    if partitions_min:
        target = max(1, min(target, (end - start) // partitions_min))
    spans: list[Span] = []
    for file in files:
        part = _span(file, start, end)
        if part.start < part.end:
            spans += _divided(disk, file, part, target, by_chain, no_cut_bytes)
    return _grouped(spans, target)


def task_bytes(total: int) -> int:
    """Return how much a task should read: two tasks a core, none too small, none too large."""
    share = -(-total // (2 * (os.cpu_count() or 1)))
    return max(PARTITION_BYTES_MIN, min(PARTITION_BYTES_MAX, share))


def log_files(disk: Files, layout: StoreLayout, *, with_gaps: bool = False) -> list[LogFile]:
    """Return the files of the log that hold something, in order.

    The newest may begin with damage.

    Args:
        disk: Where.
        layout: The store's.
        with_gaps: Some may be missing between others.

    Raises:
        ForeignStore: There is no log, or it is not RocketMQ's plain one.
        CorruptRecord: One is missing between others, or they overlap.
    """
    require_store(disk, layout.root)
    files = [
        LogFile(f"{layout.commitlog}/{name}", int(name), int(name) + size)
        for name, size in disk.sizes(layout.commitlog).items()
        if len(name) == _NAME_DIGITS and name.isdecimal()
    ]
    while files and not _is_written(disk, files[-1]):
        files.pop()
    for before, after in itertools.pairwise(files):
        if before.end > after.start or (before.end < after.start and not with_gaps):
            raise CorruptRecord(f"{before.path} ends at {before.end}, then comes {after.path}")
    if files:
        _refuse_foreign(disk, files[0])
    return files


def require_store(disk: Files, folder: str) -> None:
    """Check that a folder is a store with a log.

    Raises:
        ForeignStore: There is no log, or it is of another format.
    """
    layout = StoreLayout(folder)
    names = disk.list(layout.root)
    if any(name.startswith("dledger-") for name in names):
        raise ForeignStore(
            f"{layout.root} holds a log of DLedger (dledger-…), which is not read: its records are"
            " wrapped in entries"
        )
    if {"compactionLog", "compactionCq"}.intersection(names):
        raise ForeignStore(
            f"{layout.root} holds what is kept of compaction topics, which is not read; the log"
            " beside it has their messages until it is cleaned"
        )
    if not disk.is_folder(layout.commitlog):
        why = "it has no folder commitlog"
        if not disk.is_folder(layout.root):
            why = "it is a file" if disk.exists(layout.root) else "nothing has this name"
        raise ForeignStore(f"{layout.root} is not a store directory: {why}")


def _is_written(disk: Files, file: LogFile) -> bool:
    """Tell whether a file has records; files are made ahead of need, and filled with zeros.

    One that begins with zeros may have lost its first page, so all that was written to it is looked
    at. Elsewhere than on the local disk that would be to ask for a GiB of zeros: its head decides.
    """
    if any(_head(disk, file, BLANK_BYTES)):
        return True
    if not isinstance(disk, RealDisk):
        return False
    with closing(disk.open(file.path)) as opened:
        return resync(opened, file.start, 0, opened.data_end()) >= 0


def _head(disk: Files, file: LogFile, size: int) -> bytes:
    with closing(disk.open(file.path)) as opened:
        return opened.read(0, size)


def _refuse_foreign(disk: Files, file: LogFile) -> None:
    """Raise if the log's records are wrapped in entries of DLedger."""
    head = _head(disk, file, _DLEDGER_HEADER_BYTES + BLANK_BYTES)
    own, wrapped = head[MAGIC_AT : MAGIC_AT + 4], head[_DLEDGER_HEADER_BYTES + MAGIC_AT :]
    if own not in MAGICS and wrapped in MAGICS:
        raise ForeignStore(f"{file.path} is a log of DLedger, which is not read")


def likely_starts(
    disk: Files, path: str, start: int, end: int, target: int, *, is_full: bool
) -> list[int]:
    """Return places in a file of the log, a target apart, where records seem to begin.

    Args:
        disk: Where.
        path: The file.
        start: Physical offset of its first byte.
        end: Physical offset after what was written to it.
        target: Bytes.
        is_full: None is wanted in its last bytes, where old records may lie.
    """
    slack = min(NO_CUT_BYTES, target // 2) if is_full else 0
    return _resynced(disk, Span(path, start, start, end, is_full), end - slack, target)


def newest(
    disk: Files, layout: StoreLayout, file: LogFile, start: int | None = None
) -> tuple[int, list[int]]:
    """Return where the log ends, and places to cut before that.

    Args:
        disk: Where.
        layout: The store's.
        file: The newest file that holds something.
        start: Physical offset in it where a record begins or the log ends, to look from; by default
            the file's first byte.
    """
    first = file.start if start is None else start
    if not disk.exists(layout.abort):
        near = NEAR_BYTES if first > file.start else SLICE_BYTES
        return _chain(disk, file, first, file.end, slice_bytes=near)
    opened_at_ms = disk.modified_at_ms(layout.abort)
    end, cuts = _chain(disk, file, first, file.end, opened_at_ms=opened_at_ms)
    return _trusted_end(disk, file, first, end, cuts), cuts


def _chain(
    disk: Files,
    file: LogFile,
    start: int,
    end: int,
    *,
    slice_bytes: int = SLICE_BYTES,
    opened_at_ms: int | None = None,
) -> tuple[int, list[int]]:
    """Walk a part of a file; return where its records end, and places to cut.

    When the store was opened last is `opened_at_ms`, if it was not closed since.
    """
    cuts, reached, has_new = [], start - file.start, False
    opened: ReadableFile = disk.open(file.path)
    if slice_bytes == SLICE_BYTES:
        opened = read_on(disk, opened, end - file.start)
    with closing(opened):
        for piece in slices(opened, file.start, reached, end - file.start, slice_bytes):
            cuts.append(file.start + piece.start)
            reached = piece.end
            if opened_at_ms is None or not len(piece.records):
                continue
            is_new = piece.records.stored_at_ms >= opened_at_ms
            is_remains = (has_new | np.logical_or.accumulate(is_new)) & ~is_new
            if is_remains.any():
                reached = piece.start + int(piece.records.start[is_remains][0])
                _log.warning("records from before the last start", path=file.path, place=reached)
                break
            has_new |= bool(is_new.any())
    return file.start + reached, cuts[1:]


def _trusted_end(disk: Files, file: LogFile, first: int, end: int, cuts: list[int]) -> int:
    """Return where the records from `first` on end that are whole, looking at the last part."""
    start = max((cut for cut in cuts if cut <= end - DOUBTED_BYTES), default=first)
    with closing(read_on(disk, disk.open(file.path), end - file.start)) as opened:
        for piece in slices(opened, file.start, start - file.start, end - file.start):
            bad = piece.records.wrong_sums()
            if bad.any():
                return file.start + piece.start + int(piece.records.start[bad][0])
    return end


def _span(file: LogFile, start: int, end: int) -> Span:
    """Return what a file has of the physical offsets from `start` up to `end`."""
    last = min(end, file.end)
    return Span(file.path, file.start, max(start, file.start), last, last == file.end)


def _divided(
    disk: Files, file: LogFile, part: Span, target: int, by_chain: bool, no_cut_bytes: int
) -> list[Span]:
    """Divide a part of a file at places found by walking, or by what records say."""
    if by_chain:
        return _spans(part, _chain(disk, file, part.start, part.end)[1], target)
    bound = min(part.end, file.end - no_cut_bytes)
    return _spans(part, _resynced(disk, part, bound, target), target)


def _resynced(disk: Files, part: Span, bound: int, target: int) -> list[int]:
    """Return places before `bound` to cut at, a target apart, found by what records say."""
    cuts: list[int] = []
    wanted = range(part.start + target, bound, target)
    if not wanted:
        return cuts
    with closing(disk.open(part.path)) as opened:
        for wished in wanted:
            at, end = wished - part.base, bound - part.base
            found = resync(opened, part.base, at, end)
            if found >= 0 and part.base + found not in cuts:
                cuts.append(part.base + found)
    return cuts


def _spans(part: Span, places: list[int], target: int) -> list[Span]:
    """Divide a part of a file at some of `places`, so that what results is near to the target."""
    bounds = [part.start]
    wished = part.start + target
    for place in places:
        if wished <= place <= part.end - target // 2:
            bounds.append(place)
            wished += target * max(1, -(-(place + 1 - wished) // target))
    return [
        dataclasses.replace(part, start=start, end=stop, may_pad=part.may_pad and stop == part.end)
        for start, stop in zip(bounds, [*bounds[1:], part.end], strict=True)
        if start < stop
    ]


def _grouped(spans: list[Span], target: int) -> list[list[Span]]:
    """Put small spans that follow one another into one task."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span.end - groups[-1][0].start <= target:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups
