"""Salvage: every intact record of a damaged store, in a new store of its own.

Each record has the same place in the new log as in the old one, and keeps its offset in its queue.
So message ids, committed offsets, and links between messages stay valid. Damage is replaced by
padding records, which no consumer gets (`log_repair`), and by blank records at the ends of files; a
missing file becomes one with nothing but a blank. In the queues fillers take the offsets of
messages that are gone. What compaction has kept is copied as it is.

The recovery of the new store makes queues and index again from the log; of the old ones only the
ends of the queues are used. The old store is only read, and may be open.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import msgspec

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Segment, SegmentFiles, copying, read_file, replace_file
from sprocket.base.errors import DiskFailed, FileMissing, WireError
from sprocket.base.folder_report import FolderReport
from sprocket.base.progress import Step, unwatched
from sprocket.base.tables import journal
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, RECORD_BYTES_MIN
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.compaction import copy_kept
from sprocket.rocketmq.store.consistency import LogCheck
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import Damage, log_repair
from sprocket.rocketmq.store.queue import QueueKey, engines
from sprocket.rocketmq.store.read import OffsetRange
from sprocket.rocketmq.store.repair.store_files import StoreFiles
from sprocket.rocketmq.store.store import Store

PADDING_BYTES_MAX = MIB
"""Length of one padding record; RocketMQ reads each into memory when it recovers."""
COPY_BYTES = 4 * MIB


class Left(msgspec.Struct, frozen=True):
    """A range of the old log that was not copied: its first byte, the one behind it, and why."""

    start: int
    end: int
    why: str


class SalvageReport(FolderReport, frozen=True, kw_only=True):
    """What was copied and what was left behind.

    Attributes:
        records: Records that were copied.
        bytes: Their bytes.
        left: What was not, in the order of the log.
        lost: By queue, as `topic/queue id`: messages that it had and has no more, as far as its
            offsets tell.
        tables: Tables of the configuration that were copied.
        tables_left: Those that could not be read, nor their backups.
        unread: What the disk said of files of queues and tables that it did not give. Places of
            messages that only they knew may be given to others.
    """

    TABLES = (("left", "left behind"), ("lost", "lost"))

    records: int
    bytes: int
    left: list[Left]
    lost: dict[str, int]
    tables: list[str]
    tables_left: list[str]
    unread: list[str]


def salvage(
    disk: Disk,
    source: str,
    target: str,
    clock: Clock,
    geometry: Geometry | None = None,
    *,
    step: Step = unwatched,
) -> SalvageReport:
    """Copy what is intact of a store into a new one.

    Args:
        disk: Where both lie.
        source: The folder of the damaged store.
        target: The folder of the new one, missing or empty.
        clock: Names index files.
        geometry: Sizes of the files of both; None takes those of the old one.
        step: Is told how many bytes of the old log of how many are done.

    Raises:
        ForeignStore: `source` holds no store, or `target` holds something.
        DiskFull, DiskFailed: The new store is not whole; remove it and begin again.
    Durability: on return the new store is closed, and on the disk.
    """
    with closing(StoreFiles(disk, source, geometry)) as store:
        copying.require_empty(disk, target)
        copying.require_outside(target, source, "the store ")
        return _salvage(store, StoreLayout(target), clock, step)


def _salvage(store: StoreFiles, new: StoreLayout, clock: Clock, step: Step) -> SalvageReport:
    disk, old, resolved = store.disk, store.layout, store.geometry
    log = LogCheck(store.segments, step=step, what="copying")
    for path in (new.config, *_kinds(disk, old, new)):
        disk.make_folder(path)
    geometries.keep(disk, new, resolved)
    unread: list[str] = []
    kept = _queue_ranges(disk, old, resolved, PhysicalOffset(log.log.first), unread)
    files = SegmentFiles(disk, new.commitlog, resolved.log.segment_bytes)
    with closing(files):
        copy = _Copy(log, store.segments, files)
        copy.run(kept)
    tables, tables_left = _copy_tables(disk, old, new, unread)
    try:
        copy_kept(disk, old, new)
    except DiskFailed as error:
        unread.append(str(error))
    Store.open(disk, new.root, StoreSettings(fill_ahead_bytes=0), clock).close()
    _keep_places(disk, new, resolved, copy, kept)
    return SalvageReport(
        records=copy.records,
        bytes=copy.bytes,
        left=[Left(damage.start, damage.end, damage.why) for damage in copy.left],
        lost={f"{topic}/{queue_id}": n for (topic, queue_id), n in sorted(copy.lost.items()) if n},
        tables=tables,
        tables_left=tables_left,
        unread=unread,
    )


def _kinds(disk: Disk, old: StoreLayout, new: StoreLayout) -> Iterator[str]:
    """Give the folders by which a store knows which of its queues are not plain ones."""
    if disk.is_folder(old.extension):
        yield new.extension
    for topic in disk.list(old.batch_queues):
        yield f"{new.batch_queues}/{topic}"


class _Copy:
    """Copies the records of a log to where they lay.

    Attributes:
        left: What was not copied.
        first_offsets: By topic and queue id, the queue offset of the first record.
        next_offsets: By topic and queue id, the queue offset after the last record.
        lost: By topic and queue id, queue offsets that were passed over.
    """

    def __init__(self, log: LogCheck, segments: Sequence[Segment], files: SegmentFiles) -> None:
        self.records = 0
        self.bytes = 0
        self.left: list[Damage] = []
        self.first_offsets: dict[tuple[str, int], int] = {}
        self.next_offsets: dict[tuple[str, int], int] = {}
        self.lost: dict[tuple[str, int], int] = {}
        self._log = log
        self._segments = {segment.start: segment for segment in segments}
        self._files = files
        self._end = log.log.first
        self._at_ms = 0

    def run(self, kept: Mapping[QueueKey, OffsetRange]) -> None:
        """Copy everything; the new log is on the disk then.

        Args:
            kept: The queues of the old store. Where one has messages behind its last record, the
                end of the log is lost, and a record stands for it if nothing else does.
        """
        for found in self._log.rounds():
            start = self._end
            for entry in found.entries():
                if entry.physical_offset != self._end:
                    self._copy(start, self._end)
                    self._pass_over(entry.physical_offset)
                    start = entry.physical_offset
                self._end = entry.physical_offset + entry.size
                self._count(entry)
            self._copy(start, self._end)
        lost_from = -1
        for damage in self._log.log.damage:
            end = damage.end
            if damage.start >= self._end:  # behind the last record
                lost_from = damage.start
                end = self._written_end(damage.start)
            self.left.append(Damage(damage.start, end, damage.why, 0))
        if lost_from < 0 and any(one.max > self.reached(key, one) for key, one in kept.items()):
            lost_from = self._end
        if lost_from >= 0:
            self._pass_over(self._padded_to(lost_from))
        log_repair.name_places(self._files, self._log.misplaced)
        for segment in self._files.segments:
            segment.file.sync()

    def reached(self, key: QueueKey, kept: OffsetRange) -> int:
        """Return the offset behind the last record of a queue."""
        return self.next_offsets.get(key, kept.min)

    def _count(self, entry: Entry) -> None:
        self.records += 1
        self.bytes += entry.size
        self._at_ms = entry.stored_at_ms
        if entry.queueable:
            key = entry.topic, entry.queue_id
            expected = self.next_offsets.get(key)
            if expected is None:
                self.first_offsets[key] = entry.queue_offset
            elif entry.queue_offset > expected:
                self.lost[key] = self.lost.get(key, 0) + entry.queue_offset - expected
            self.next_offsets[key] = entry.next_offset

    def _padded_to(self, start: int) -> int:
        """Return how far padding goes that stands for the end of the log, from a place on.

        To the end of a file goes a blank, which stands for nothing; then a record follows it.
        """
        size = self._files.segment_bytes
        end = max(self._written_end(start), start + 2 * RECORD_BYTES_MIN)
        file_end = -(-end // size) * size
        return end if end <= file_end - BLANK_BYTES else file_end + 2 * RECORD_BYTES_MIN

    def _written_end(self, start: int) -> int:
        """Return where the bytes end that were written to the old log, from a place on."""
        ends = (segment.start + segment.file.data_end() for segment in self._segments.values())
        return max(start, *ends)

    def _copy(self, start: int, end: int) -> None:
        """Copy whole records that lie one after the other in one file."""
        size = self._files.segment_bytes
        while start < end:
            source = self._segments[start // size * size]
            count = min(end - start, source.end - start, COPY_BYTES)
            part = source.readable(start - source.start, count)
            if part.unreadable is not None:  # it was read before
                raise DiskFailed(part.unreadable.why)
            target = self._target(source.start)
            target.file.write([part.data], start - source.start)
            start += count

    def _target(self, start: int) -> Segment:
        """Return the new file that begins at `start`, made with those before it."""
        files = self._files
        while not len(files) or files.end_of_files <= start:
            files.add(files.end_of_files if len(files) else start)
        return files.segment(start)

    def _pass_over(self, end: int) -> None:
        """Fill what lies before the next record with padding and blanks."""
        for piece in self._pieces(self._end, end):
            self._target(piece.start // self._files.segment_bytes * self._files.segment_bytes)
            log_repair.pad(self._files, [piece])

    def _pieces(self, start: int, end: int) -> Iterator[Damage]:
        """Cut a range into what one blank, or one padding record, can stand for."""
        size = self._files.segment_bytes
        while start < end:
            file_end = start // size * size + size
            stop = file_end if end > file_end - BLANK_BYTES else end
            if stop < file_end and stop - start > PADDING_BYTES_MAX:
                left = stop - start - PADDING_BYTES_MAX
                stop = start + PADDING_BYTES_MAX
                if left <= RECORD_BYTES_MIN:
                    stop -= 2 * RECORD_BYTES_MIN
            yield Damage(start, stop, "", self._at_ms)
            start = stop


def _copy_tables(
    disk: Disk, old: StoreLayout, new: StoreLayout, unread: list[str]
) -> tuple[list[str], list[str]]:
    """Copy the tables of the configuration that can be read; from its backup if one cannot."""
    copied, left = [], []
    names = {name.removesuffix(".bak") for name in disk.list(old.config)}
    for name in sorted(names):
        path = f"{old.config}/{name}"
        if not name.endswith(".json") or path in old.notes or disk.is_folder(path):
            continue
        for path in (f"{old.config}/{name}", f"{old.config}/{name}.bak"):
            data = _content(disk, path, unread)
            if data is not None and _is_table(data):
                replace_file(disk, f"{new.config}/{name}", data)
                copied.append(name)
                break
        else:
            left.append(name)
    for path in (
        *(old.topic_journal, old.group_journal, old.offset_journal),
        *(old.pop_journal, old.order_journal),
    ):
        for segment in journal.segment_paths(disk, path):
            data = _content(disk, segment, unread)
            if data is not None:
                replace_file(disk, f"{new.config}/{os.path.basename(segment)}", data)
    return copied, left


def _content(disk: Disk, path: str, unread: list[str]) -> bytes | None:
    """Return what a file holds; None if it is not there, or the disk does not give it."""
    try:
        return read_file(disk, path)
    except FileMissing:
        return None
    except DiskFailed as error:
        unread.append(str(error))
        return None


def _is_table(data: bytes) -> bool:
    try:
        return bool(data) and isinstance(fastjson.read_large(data), dict)
    except WireError:
        return False


def _queue_ranges(
    disk: Disk, old: StoreLayout, geometry: Geometry, first: PhysicalOffset, unread: list[str]
) -> dict[QueueKey, OffsetRange]:
    """Return which messages the queues of the old store have; none if the disk does not say it."""
    queues = engines.make(disk, old, geometry.queue, write=False)
    try:
        queues.load(clean=True)
        queues.correct_min(first)
        found = queues.by_key.items()
        return {key: OffsetRange(one.min_offset, one.max_offset) for key, one in found}
    except DiskFailed as error:
        unread.append(str(error))
        return {}
    finally:
        queues.close()


def _keep_places(
    disk: Disk,
    new: StoreLayout,
    geometry: Geometry,
    copy: _Copy,
    kept: Mapping[QueueKey, OffsetRange],
) -> None:
    """Put fillers for the last messages of queues that are lost: nobody gets their place."""
    queues = engines.make(disk, new, geometry.queue, write=True)
    try:
        queues.load(clean=True)
        for key, old in kept.items():
            reached = copy.reached(key, old)
            missing = max(old.max - reached, 0)
            missing += max(copy.first_offsets.get(key, old.min) - old.min, 0)
            copy.lost[key] = copy.lost.get(key, 0) + missing
            if queues.by_key.get(key) is None:
                queues.begin(*key, old.max)
            elif old.max > reached:
                queues.fill_to(*key, old.max)
        queues.seal()
    finally:
        queues.close()
