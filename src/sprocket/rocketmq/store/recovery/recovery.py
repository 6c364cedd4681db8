"""Recovery: from what the last process left of a store to one that can be opened.

The log is the truth; queues and index are made to agree with it. In this order:

1. *Mark.* `abort` is written before anything changes, so that a crash from here on is known. It
   says that the store is ours only if it was: until the last pass the checkpoint may be RocketMQ's.
2. *Start.* A log file that is too short gets its length, zeros standing for what it lacks; then
   nothing is trusted. Choose from where the log is looked at. After a clean stop that is its end,
   as the queues or our own note tell it; after a crash the first record that is younger than the
   checkpoint (in a store that RocketMQ left: the file it begins in), or where queues or index end
   if that is earlier.
3. *Load.* Queues and index are taken up as far as they are certain: after a crash nothing that they
   hold from the start on is. What they have there stays on the disk until the last pass, as mostly
   the same is put again, which then need not be written. After a failed sync it must be, for the
   disk may lack what the system gives back: so it is wiped at once. Queues of deleted topics go
   (`deletions`).
4. *Scan.* Records are checked with all checksums, and put into queues and index again. Damage that
   is followed by intact records is passed over.
5. *Cut* (`log_repair`). Behind the last record the log is zeroed, later files are deleted. What was
   stepped over becomes a padding record (or a blank at the end of a file), so that the log is whole
   again for us and for RocketMQ; that costs its first 88 bytes and its last few. Before that it is
   noted what was found, for nobody could find it again.
6. *Rebuild.* A queue that misses units from before the start, or does not agree with the last
   records there (`range_check`), is made again from the whole log; the index too.
7. *Seal.* What lies behind the ends of queues is zeroed. All is synced, then the checkpoint is
   written, `abort` says that it is ours, then the report.

Queues and index never stop a start: if the disk cannot read one of their files, that file is
deleted, and everything begins again without it.

Each pass can be interrupted by another crash and repeated: the checkpoint moves last, and until
then each pass does the same again with what the one before left. What a recovery that was cut off
had repaired stands in the report of the one that is not.

Source: RocketMQ `DefaultMessageStore.load`, `CommitLog.recoverNormally/recoverAbnormally`; unlike
those it loses nothing behind a damaged record, and no queue or key that the log still has.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from sprocket.base.clock import Clock
from sprocket.base.disk import (
    Disk,
    Segment,
    SegmentFiles,
    SegmentReader,
    ShortFile,
    fill_up,
    read_file,
    remove_if_there,
    replace_file,
    short_files,
)
from sprocket.base.errors import (
    DiskFailed,
    FileMissing,
    OffsetTooLarge,
    OffsetTooSmall,
    StoreError,
)
from sprocket.base.folder_report import FolderReport
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import clean_note
from sprocket.rocketmq.store.clean_note import CleanNote
from sprocket.rocketmq.store.compaction import Compactions, LastEnd
from sprocket.rocketmq.store.consistency import range_check
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import (
    Damage,
    LogScanner,
    Misplaced,
    glance,
    intact_entry,
    log_repair,
)
from sprocket.rocketmq.store.queue import LastUnit, QueueKey, Queues, UnitAssigner
from sprocket.rocketmq.store.recovery import checkpoint as checkpoints
from sprocket.rocketmq.store.recovery.checkpoint import Checkpoint
from sprocket.rocketmq.store.recovery.deletions import Deletions
from sprocket.rocketmq.store.recovery.rebuild import Rebuild, reached

_SKIP_BYTES = 256 * KIB
"""Read at once where only the heads of records are looked at."""
_ABORT_MARK = b" sprocket\n"
_DOUBT_MARK = b"a sync failed\n"


class RecoveryReport(FolderReport, frozen=True, kw_only=True):
    """What recovery found and did; kept as `config/recovery.json`.

    Attributes:
        clean: The store had been closed, and no file of its log was too short.
        at_ms: When, wall time.
        seconds: How long it took.
        start: Physical offset from where the log was looked at.
        end: Where it ends now.
        records: How many intact records lie between the two.
        bytes_scanned: Bytes between the two.
        bytes_cut: Bytes behind the end up to the last one that was not zero; they are zero now.
        why: What was found at the end.
        filled_up: Files of the log that were too short, with the bytes they had; zeros stand for
            the rest now.
        made_again: Files of queues and index that could not be read and were thrown away.
        damage: What was stepped over.
        misplaced: Records that named another place than their own; they name their own now.
        units_rebuilt: Queue units that were put (again).
        units_lost: Queue offsets whose record is damaged; consumers pass over them.
        index_entries_rebuilt: Records whose keys were put into the index (again).
        queues_rebuilt: Queues that were made again from the whole log, as `topic/queue id`.
        last_record: Where the last record begins, −1 without one.
        last_stored_at_ms: Its store time.
        offsets_set_back: Committed offsets that lay behind the ends of their queues, by
            `topic@group` and queue; they are where these end now.
    """

    TABLES = (
        ("filled_up", "too short, filled up with zeros"),
        ("damage", "stepped over"),
        ("misplaced", "named another place, put right"),
    )

    clean: bool
    at_ms: int
    seconds: float
    start: int
    end: int
    records: int
    bytes_scanned: int
    bytes_cut: int
    why: str
    filled_up: list[ShortFile]
    made_again: list[str]
    damage: list[Damage]
    misplaced: list[Misplaced]
    units_rebuilt: int
    units_lost: int
    index_entries_rebuilt: int
    queues_rebuilt: list[str]
    last_record: int
    last_stored_at_ms: int
    offsets_set_back: dict[str, dict[int, int]] = msgspec.field(default_factory=dict)


class Repaired(msgspec.Struct):
    """What recovery changed that cannot be found again; kept until a report tells it.

    Attributes:
        filled_up: As in `RecoveryReport`.
        made_again: The same.
        damage: The same.
        misplaced: The same.
    """

    filled_up: list[ShortFile] = []
    made_again: list[str] = []
    damage: list[Damage] = []
    misplaced: list[Misplaced] = []

    def add(self, damage: Sequence[Damage], misplaced: Sequence[Misplaced]) -> None:
        """Take up what a scan found, of which some may be known already."""
        starts = {damaged.start for damaged in self.damage}
        self.damage += [damaged for damaged in damage if damaged.start not in starts]
        places = {found.place for found in self.misplaced}
        self.misplaced += [found for found in misplaced if found.place not in places]

    def keep(self, disk: Disk, layout: StoreLayout) -> None:
        """Write it down, durably; what is repaired afterwards is reported whatever happens."""
        replace_file(disk, layout.repaired, msgspec.json.encode(self))


QueueTable = dict[str, dict[int, int]]
"""By topic and queue id: an offset that the queue had reached, durably."""


def queue_table(queues: Queues, *, closing: bool) -> QueueTable:
    """Return the table of all queues; how far they go is only certain when closing."""
    table: QueueTable = {}
    for queue in queues.by_key.values():
        reached = queue.max_offset if closing else min(queue.max_offset, 1)
        table.setdefault(queue.topic, {})[queue.queue_id] = reached
    return table


def save_queue_table(disk: Disk, layout: StoreLayout, table: QueueTable) -> None:
    """Keep which queues there are, so that one whose folder disappears is missed."""
    replace_file(disk, layout.queue_table, msgspec.json.encode(table))


def _load_queue_table(disk: Disk, layout: StoreLayout) -> QueueTable:
    try:
        return msgspec.json.decode(read_file(disk, layout.queue_table), type=QueueTable)
    except (FileMissing, msgspec.DecodeError, UnicodeDecodeError):
        return {}


@dataclass(slots=True)
class StoreParts:
    """The parts of a store that recovery brings into agreement.

    Attributes:
        is_geometry_certain: The length of log files is known, and not told from one of them.
        follows: The log is to be a beginning of another one, which has the rest: it ends at damage,
            and nothing is repaired that the other one has as it was.
        is_cut: The log was cut since the store was open: what came off keeps no place in queues.
    """

    disk: Disk
    layout: StoreLayout
    settings: StoreSettings
    files: SegmentFiles
    queues: Queues
    index: Indexes | None
    deletions: Deletions
    compactions: Compactions
    is_geometry_certain: bool = True
    follows: bool = False
    is_cut: bool = False
    units: UnitAssigner = field(default_factory=UnitAssigner)
    step: Step = unwatched

    def close(self) -> None:
        """Close every handle; nothing is flushed."""
        self.queues.close()
        if self.index is not None:
            self.index.close_handles()
        self.compactions.close()
        self.files.close()


def mark_open(
    disk: Disk, layout: StoreLayout, process_id: int, *, ours: bool = True, doubtful: bool = False
) -> None:
    """Write `abort`, durable; RocketMQ keeps its process id there, and so do we.

    Args:
        disk: Where the store lies.
        layout: Its paths.
        process_id: That of this process.
        ours: The checkpoint is, so it is never ahead of what is durable; our mark says so.
        doubtful: A sync failed, see `mark_doubtful`.
    """
    mark = _ABORT_MARK if ours else b"\n"
    doubt = _DOUBT_MARK if doubtful else b""
    replace_file(disk, layout.abort, b"%d%s%s" % (process_id, mark, doubt))


def mark_interrupted(disk: Disk, layout: StoreLayout, process_id: int) -> None:
    """Have the next opening recover as after a crash, whoever left the store. Durable on return."""
    life = _last_life(disk, layout)
    mark_open(disk, layout, process_id, ours=life.ours, doubtful=life.doubtful)


def mark_doubtful(disk: Disk, layout: StoreLayout) -> None:
    """Note in `abort` that a sync of log, queues or index failed.

    The file system then calls pages clean that the disk does not have, and serves them until they
    leave the cache; another sync would not write them. Recovery that finds the note writes them
    again. The note needs no sync: if the power goes, the cache goes with it.
    """
    file = disk.open(layout.abort, write=True)
    try:
        file.write([_DOUBT_MARK], file.size())
    finally:
        file.close()


def mark_closed(disk: Disk, layout: StoreLayout, note: CleanNote) -> None:
    """Leave the note for the next start, then remove `abort`; all else must be durable before."""
    replace_file(disk, layout.clean, clean_note.encode(note))
    disk.remove(layout.abort)
    disk.sync_folder(layout.root)


@dataclass(frozen=True, slots=True)
class _LastLife:
    """How the store was left.

    Attributes:
        clean: There was no `abort`.
        ours: It was Sprocket that left it, so the checkpoint is never ahead of what is durable.
        note: What a clean stop of ours said, if its file is there.
        checkpoint: Up to when things are durable.
        doubtful: A sync failed: what is read may not be on the disk.
    """

    clean: bool
    ours: bool
    doubtful: bool
    note: CleanNote | None
    checkpoint: Checkpoint


def _last_life(disk: Disk, layout: StoreLayout) -> _LastLife:
    try:
        abort = read_file(disk, layout.abort)
    except FileMissing:
        abort = None
    note = None
    if abort is None:
        try:
            note = clean_note.decode(read_file(disk, layout.clean))
        except FileMissing:
            note = None
    return _LastLife(
        clean=abort is None,
        ours=note is not None or (abort is not None and _ABORT_MARK in abort),
        doubtful=abort is not None and _DOUBT_MARK in abort,
        note=note,
        checkpoint=checkpoints.load(disk, layout.checkpoint),
    )


def last_end(disk: Disk, layout: StoreLayout) -> LastEnd:
    """Return how the store was left, as those parts need to know that are not made from the log."""
    life = _last_life(disk, layout)
    return LastEnd(life.clean, life.doubtful)


@dataclass(frozen=True, slots=True)
class _Start:
    """From where the log is looked at.

    Attributes:
        scan_from: Where checking begins; what queues and index hold from there on is not trusted.
        last_record: The record before `scan_from`, −1 if unknown.
        last_stored_at_ms: Its store time, 0 if unknown.
    """

    scan_from: int
    last_record: int = -1
    last_stored_at_ms: int = 0


def recover(parts: StoreParts, clock: Clock, process_id: int) -> RecoveryReport:
    """Bring a store into agreement with its log, as the head of this module tells.

    Returns:
        The report, which is also kept in the store.

    Raises:
        ForeignStore: A file does not fit the geometry.
        DiskFull, DiskFailed: Nothing is lost; recovery can be tried again.
    Durability: on return all that it found is on the disk.
    """
    began = clock.monotonic()
    life = _last_life(parts.disk, parts.layout)
    mark_open(parts.disk, parts.layout, process_id, ours=life.ours, doubtful=life.doubtful)
    repaired = _repaired(parts.disk, parts.layout)
    if _fill_up(parts, repaired):
        life = replace(life, clean=False, note=None, checkpoint=Checkpoint())
    thrown_away: list[str] = []
    while True:
        try:
            scan, rebuild, bytes_cut = _recover(parts, life, process_id, repaired)
            break
        except DiskFailed as error:
            _throw_away(parts, error, thrown_away, repaired)
    report = RecoveryReport(
        clean=life.clean,
        at_ms=clock.now_ms(),
        seconds=round(clock.monotonic() - began, 6),
        start=scan.start,
        end=scan.end,
        records=scan.records,
        bytes_scanned=scan.end - scan.start,
        bytes_cut=bytes_cut,
        why=scan.why,
        filled_up=repaired.filled_up,
        made_again=repaired.made_again,
        damage=repaired.damage,
        misplaced=repaired.misplaced,
        units_rebuilt=rebuild.units,
        units_lost=rebuild.lost,
        index_entries_rebuilt=rebuild.indexed,
        queues_rebuilt=[f"{topic}/{queue_id}" for topic, queue_id in sorted(rebuild.missing)],
        last_record=scan.last_start,
        last_stored_at_ms=scan.last_stored_at_ms,
    )
    keep_report(parts.disk, parts.layout, report)
    remove_if_there(parts.disk, parts.layout.repaired)
    return report


def keep_report(disk: Disk, layout: StoreLayout, report: RecoveryReport) -> None:
    """Write the report into the store."""
    content = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    replace_file(disk, layout.recovery, content)


def _repaired(disk: Disk, layout: StoreLayout) -> Repaired:
    """Return what recoveries repaired that were cut off before their report."""
    try:
        return msgspec.json.decode(read_file(disk, layout.repaired), type=Repaired)
    except (DiskFailed, msgspec.DecodeError, UnicodeDecodeError):
        return Repaired()


def _recover(
    parts: StoreParts, life: _LastLife, process_id: int, repaired: Repaired
) -> tuple[LogScanner, Rebuild, int]:
    """Go through the passes; `repaired` gets what is changed that cannot be found again.

    Returns:
        The scan from the start on, what was rebuilt, and how many bytes were cut.
    """
    parts.files.load()
    if life.clean:
        start, lasts = _after_stop(parts, life)
    else:
        start = _start_by_time(parts.files, life, parts.step)
        lasts = parts.queues.load(certain=start.scan_from, step=parts.step)
        if life.doubtful:
            parts.queues.wipe_behind_ends(parts.step)  # or what is there would not be written again
        parts.deletions.finish_queues(parts.queues, PhysicalOffset(parts.files.first))
    _load_index(parts, life, start)
    scan, rebuild, damage, misplaced = _scan(parts, life, start)
    repaired.add(damage, misplaced)
    if not parts.is_cut:
        rebuild.keep_places(lasts, repaired.damage)
    rebuild.finish()
    cut = log_repair.cut(parts.files, scan)
    if damage or misplaced:
        repaired.keep(parts.disk, parts.layout)
    if damage:
        _flush_queues(parts)  # what is padded tells nobody again whose place is to be kept
    log_repair.pad(parts.files, damage)
    log_repair.name_places(parts.files, misplaced)
    parts.deletions.cut(PhysicalOffset(scan.end))
    again = (_queue_of(parts, path) for path in repaired.made_again)
    rebuild.missing |= {key for key in again if key is not None}
    is_table_old = _rebuild(parts, life, scan, rebuild)
    if rebuild.misplaced:
        repaired.add([], rebuild.misplaced)
        repaired.keep(parts.disk, parts.layout)
        log_repair.name_places(parts.files, rebuild.misplaced)
    _seal(parts, life, scan, process_id, is_table_old=is_table_old)
    return scan, rebuild, cut


def _fill_up(parts: StoreParts, repaired: Repaired) -> bool:
    """Give files of the log that are too short their length.

    What they lack is told from what was never written by a scan of the whole log only. So nothing
    is trusted from here on, should the process die before that is done.

    Returns:
        Whether there were any.
    """
    disk, files = parts.disk, parts.files
    short = short_files(disk, files.folder, files.segment_bytes)
    if not short or not parts.is_geometry_certain:
        return False  # `load` refuses those
    paths = {known.path for known in repaired.filled_up}
    repaired.filled_up += [found for found in short if found.path not in paths]
    repaired.keep(disk, parts.layout)
    checkpoints.save(disk, parts.layout.checkpoint, Checkpoint())
    fill_up(disk, short, files.segment_bytes)
    return True


def _throw_away(
    parts: StoreParts, error: DiskFailed, thrown_away: list[str], repaired: Repaired
) -> None:
    """Delete a file of queues or index that cannot be read, to be made again from the log.

    Raises:
        DiskFailed: It is not such a file, or one that was `thrown_away`: the error is another one.
    """
    path, layout = error.path, parts.layout
    is_derived = path.startswith(f"{layout.index}/") or _queue_of(parts, path) is not None
    if path in thrown_away or not is_derived or isinstance(error, FileMissing):
        raise error
    thrown_away.append(path)
    if path not in repaired.made_again:
        repaired.made_again.append(path)
    repaired.keep(parts.disk, layout)
    parts.queues.close()
    if parts.index is not None:
        parts.index.close_handles()
    remove_if_there(parts.disk, path)
    parts.disk.sync_folder(os.path.dirname(path))


def _queue_of(parts: StoreParts, path: str) -> QueueKey | None:
    """Return the queue that a file belongs to, None if it belongs to no queue."""
    for folder in (parts.layout.consumequeue, parts.layout.batch_queues, parts.layout.extension):
        if path.startswith(f"{folder}/"):
            topic, _, rest = path[len(folder) + 1 :].partition("/")
            queue_id, _, name = rest.partition("/")
            if queue_id.isdigit() and name.isdigit():
                return topic, int(queue_id)
    return None


def find_end(parts: StoreParts) -> LogScanner:
    """Find the end of a log without changing anything, for those who only read."""
    life = _last_life(parts.disk, parts.layout)
    parts.files.load()
    load_to_read(parts.queues, parts.deletions, parts.files.first, parts.step)
    if parts.index is not None:
        parts.index.load()
    by_time = _start_by_time(parts.files, life, parts.step) if not life.clean else None
    start = by_time or _start_at_end(parts, life)
    scan = LogScanner(parts.files.segments, start.scan_from, check_crc=True)
    scan.last_start, scan.last_stored_at_ms = start.last_record, start.last_stored_at_ms
    for _found in scan.batches():
        _tell(parts, scan)
    return scan


def load_to_read(
    queues: Queues, deletions: Deletions, log_first: int, step: Step = unwatched
) -> None:
    """Take up queues with the bounds that a broker would give them, and change nothing.

    Args:
        queues: Not loaded yet.
        deletions: Says which topics were deleted.
        log_first: Where the log begins.
        step: Told how far it is.
    """
    queues.load(clean=True, step=step)
    deletions.hide_queues(queues)
    queues.correct_min(PhysicalOffset(log_first), step)


# Passes 2 and 3: start and load.


def _after_stop(parts: StoreParts, life: _LastLife) -> tuple[_Start, dict[QueueKey, LastUnit]]:
    """Take up queues that were stopped, and start where they say that the log ends.

    If they led to no record that is the last one, what they hold from the start on is taken away.

    Returns:
        The start; the last unit that each queue had, of those that were cut.
    """
    parts.queues.load(clean=True, step=parts.step)
    parts.deletions.finish_queues(parts.queues, PhysicalOffset(parts.files.first))
    start = _start_at_end(parts, life)
    if start.last_record >= 0:
        return start, {}
    return start, parts.queues.truncate(PhysicalOffset(start.scan_from), parts.step)


def _start_at_end(parts: StoreParts, life: _LastLife) -> _Start:
    """Start where the log ended at a clean stop, as the note or the queues tell."""
    if life.note is not None:
        start = _start_behind(parts.files, life.note.last_record, life.note.log_end)
        if start is not None:
            return start
    last = parts.queues.last
    if last is not None:
        physical_offset, size, _tags_code = last
        start = _start_behind(parts.files, physical_offset, physical_offset + size)
        if start is not None:
            return start
    newest = (s.start for s in parts.files.segments if s.start <= parts.queues.end)
    return _Start(max(newest, default=parts.files.first))


def _start_behind(files: SegmentFiles, last_record: int, end: int) -> _Start | None:
    """Start at `end` if the record that is said to lie before it is intact."""
    if not files.first <= last_record < files.end_of_files:
        return None
    segment = files.segment(last_record)
    entry = intact_entry(segment, last_record - segment.start)
    if entry is None or last_record + entry.size > end or end > files.end_of_files:
        return None
    return _Start(last_record + entry.size, last_record, entry.stored_at_ms)


def _start_by_time(files: SegmentFiles, life: _LastLife, step: Step) -> _Start:
    """Start at the first record that is younger than what the checkpoint calls safe.

    A record that was torn inside its store time, one of the last, seems older than it is. So the
    one that is passed over last must be intact.
    """
    safe_at_ms = life.checkpoint.safe_at_ms()
    for segment in reversed(files.segments) if safe_at_ms else ():
        start = _skip_safe(segment, safe_at_ms, step)
        if start.last_record < 0:
            continue  # its first record is too young, or there is none
        if intact_entry(segment, start.last_record - segment.start) is not None:
            return start if life.ours else _Start(segment.start)
        if start.last_record > segment.start:
            return _Start(segment.start)
    return _Start(files.first)


def _skip_safe(segment: Segment, safe_at_ms: int, step: Step) -> _Start:
    """Start behind the records of a file that are not younger than a time, by lengths alone."""
    position, last, last_at_ms = 0, -1, 0
    reader = SegmentReader(segment, _SKIP_BYTES)
    while True:
        seen = glance(reader, position)
        if seen is None or seen.stored_at_ms > safe_at_ms:
            return _Start(segment.start + position, last, last_at_ms)
        last, last_at_ms = segment.start + position, seen.stored_at_ms
        position += seen.size
        step("bytes of a log file that need no check", position, segment.size)


def _load_index(parts: StoreParts, life: _LastLife, start: _Start) -> None:
    """Take up the index as far as it is certain.

    Ours never counts what is not on the disk, but its slots are there only after a clean stop of
    which there is a note. RocketMQ's is only certain as far as the checkpoint says, which is up to
    its last full file.
    """
    if parts.index is None:
        return
    parts.index.load()
    if life.note is not None:
        return
    certain = ANYWHERE if life.clean else start.scan_from
    if not life.clean and not life.ours:
        for header in parts.index.headers:
            if header.end_at_ms > life.checkpoint.index_at_ms:
                certain = min(certain, header.begin_offset)
    parts.index.recover(PhysicalOffset(certain))


# Pass 4: scan.


def _scan(
    parts: StoreParts, life: _LastLife, start: _Start
) -> tuple[LogScanner, Rebuild, list[Damage], list[Misplaced]]:
    """Check the records from the start on and put them into queues and index.

    What queues or index lack from before the start is scanned first.

    Returns:
        The scan from the start on, what was rebuilt, all damage, and all that named a wrong place.
    """
    first = parts.files.first
    begin = min(_queues_start(parts, start.scan_from), _index_start(parts, life, start.scan_from))
    if parts.follows and begin < start.scan_from:
        start = _Start(begin)
    known = reached(parts.queues)
    index_end = None if parts.index is None else parts.index.end
    is_as_noted = life.note is not None and life.note.index_end == index_end
    rebuild = Rebuild(
        parts.queues,
        parts.index,
        from_first=begin == first,
        put_last_again=not is_as_noted,
        knows_deletions=life.ours and not parts.follows,
        units_of=parts.units,
        record_at=partial(_record_at, parts.files),
        step=parts.step,
    )
    before = LogScanner(parts.files.segments, begin, check_crc=True, until=start.scan_from)
    for found in before.batches():
        _tell(parts, before)
        rebuild.add_all(found, after_damage=bool(before.damage))
    scan = LogScanner(
        parts.files.segments,
        start.scan_from,
        check_crc=True,
        next_offsets=known,
        past_damage=not parts.follows,
    )
    scan.last_start, scan.last_stored_at_ms = start.last_record, start.last_stored_at_ms
    for found in scan.batches():
        _tell(parts, scan)
        rebuild.add_all(found, after_damage=bool(scan.damage or before.damage))
    damage = [d for d in before.damage if d.end <= start.scan_from] + scan.damage
    return scan, rebuild, damage, before.misplaced + scan.misplaced


def _record_at(files: SegmentFiles, place: int) -> Entry | None:
    """Return the record of the log that begins at a place, None if no intact one does."""
    try:
        segment = files.segment(place)
    except (OffsetTooSmall, OffsetTooLarge):
        return None
    return intact_entry(segment, place - segment.start)


def _tell(parts: StoreParts, scan: LogScanner) -> None:
    """Say how far a scan is."""
    done = scan.position - parts.files.first
    parts.step("bytes of log checked", done, parts.files.end_of_files - parts.files.first)


def _queues_start(parts: StoreParts, scan_from: int) -> int:
    """Return where the queues go on: behind the last record that they have, if there is one.

    A unit may be damaged. What it then leads to is not a record, and would be taken for damage of
    the log; so the file of that place is scanned from where it begins.
    """
    end = parts.queues.end
    if end >= scan_from:
        return scan_from
    last = parts.queues.last
    found = None if last is None else _start_behind(parts.files, last[0], end)
    if found is not None and found.scan_from == end:
        return end
    newest = (segment.start for segment in parts.files.segments if segment.start <= end)
    return max(newest, default=parts.files.first)


def _index_start(parts: StoreParts, life: _LastLife, scan_from: int) -> int:
    """Return where the index goes on; it need not know records that have no key."""
    if parts.index is None:
        return scan_from
    end = parts.index.end
    if life.note is not None and life.note.index_end == end:
        return scan_from
    if end >= scan_from or not parts.files.first <= end < parts.files.end_of_files:
        return scan_from if end >= scan_from else parts.files.first
    segment = parts.files.segment(end)
    if intact_entry(segment, end - segment.start) is None:
        return parts.files.first
    return end


# Pass 6: rebuild.


def _rebuild(parts: StoreParts, life: _LastLife, scan: LogScanner, rebuild: Rebuild) -> bool:
    """Cut queues and index to the log, and make again what is missing from before the start.

    Returns:
        Whether the table of queues is to be written again.
    """
    end = PhysicalOffset(scan.end)
    parts.queues.truncate(end, parts.step)
    if parts.is_cut:
        for key, queue in [*parts.queues.by_key.items()]:
            if not queue.max_offset:
                parts.queues.remove(*key)  # its first message came off
    # An index for a log that is gone: entries before the end may be wrong as well.
    index_too = parts.index is not None and parts.index.end >= end
    if life.ours and not parts.is_cut:  # or RocketMQ may have deleted queues since it was written
        for topic, queues in _load_queue_table(parts.disk, parts.layout).items():
            for queue_id, max_offset in queues.items():
                found = parts.queues.by_key.get((topic, queue_id))
                if max_offset > (0 if found is None else found.max_offset):
                    rebuild.missing.add((topic, queue_id))
    is_table_old = not life.ours or parts.is_cut or bool(rebuild.missing)
    compared = range_check.COMPARED_BYTES[life.clean, life.ours]
    begin, until = max(parts.files.first, scan.start - compared), scan.start + compared
    part = range_check.Part(begin, min(until, end))
    rebuild.missing |= range_check.wrong_queues(
        parts.files,
        parts.queues,
        part,
        parts.units,
        absent_too=not life.ours,
        put_from=scan.start,
        step=parts.step,
    )
    if parts.index is not None and not index_too:
        index_too = range_check.index_is_wrong(parts.files, parts.index, part, parts.step)
    if parts.index is not None and index_too:
        parts.index.reset()
    rebuild.from_whole_log(parts.files.segments, index_too=index_too)
    parts.queues.correct_min(PhysicalOffset(parts.files.first), parts.step)
    return is_table_old


# Pass 7: seal.


def _seal(
    parts: StoreParts, life: _LastLife, scan: LogScanner, process_id: int, *, is_table_old: bool
) -> None:
    """Sync everything, then say so in the checkpoint.

    The table of queues is old if a store of RocketMQ's has none yet, or if it says more than the
    log has, of a topic that was deleted since and made again.
    """
    if not life.clean:
        parts.queues.wipe_behind_ends(parts.step)
        for segment in parts.files.segments:
            if segment.end > scan.start:
                if life.doubtful:
                    log_repair.write_again(segment, scan.start, scan.end)
                segment.file.sync()
    if life.doubtful:
        mark_open(parts.disk, parts.layout, process_id, ours=life.ours)
    parts.disk.sync_folder(parts.layout.commitlog)
    _flush_queues(parts)
    if parts.index is not None:
        with _noting_doubt(parts):
            parts.index.flush()
    if is_table_old:
        table = queue_table(parts.queues, closing=False)
        save_queue_table(parts.disk, parts.layout, table)
    at_ms = scan.last_stored_at_ms
    old = life.checkpoint
    new = Checkpoint(
        log_at_ms=max(at_ms, old.log_at_ms) if life.clean else at_ms,
        queues_at_ms=max(at_ms, old.queues_at_ms) if life.clean else at_ms,
        index_at_ms=old.index_at_ms if parts.index is None else parts.index.flushed_full_at_ms,
        master_flushed_offset=old.master_flushed_offset,
        confirmed_offset=max(0, scan.last_start),
    )
    checkpoints.save(parts.disk, parts.layout.checkpoint, new)
    if not life.ours:
        mark_open(parts.disk, parts.layout, process_id)
    if parts.disk.exists(parts.layout.clean):
        parts.disk.remove(parts.layout.clean)


def _flush_queues(parts: StoreParts) -> None:
    """Make queues durable, or leave a note that they may not be."""
    parts.step("queues made durable", 0, len(parts.queues.by_key))  # by one call, if after a crash
    with _noting_doubt(parts):
        parts.queues.flush()


@contextlib.contextmanager
def _noting_doubt(parts: StoreParts) -> Iterator[None]:
    """Leave a note, see `mark_doubtful`, if what is synced here may not be on the disk."""
    try:
        yield
    except StoreError:
        with contextlib.suppress(StoreError):
            mark_doubtful(parts.disk, parts.layout)
        raise
