"""Scanning the log from file to file, and past damage.

A scan gives an `Entry` for each record, or many records at a time as columns (`batches`). Where no
record begins it looks for the next one that is intact and names its own place; what lies between is
damage. If there is none, the log ends there.

The log is read by calls that can fail. What the disk cannot read is treated as damage and reported
as unreadable. Nobody knows what it holds, so the log does not end there but behind that file, and
the bytes are left for a day when they can be read.

A record that begins where the one before it ends, is intact in itself and is followed as it should
be, is accepted although it names another place: that field was damaged, and its right value is
certain. So is its place in its queue where the record fits its checksum with that alone.

Columns are the fast way for records that are in order: a batch ends before the first record that is
not, and there the plain way decides. Iterating over a scan goes the plain way only; both find the
same.

Files may be missing in between, as a check finds them: that is damage, too.

Old bytes may lie behind the end, since RocketMQ does not erase what it truncates. Two signs
distinguish them from the log's own: a store time before that of the last record, and a queue offset
that is taken already. Directly behind a record both signs together end the log, since a clock may
have been set back and a topic may have been deleted and made again. Behind damage, one of them is
enough.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct

from sprocket.base.disk import Segment, SegmentReader, Unreadable
from sprocket.base.errors import WireError
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, ScanStop, record, record_scan
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    FIXED_BYTES,
    HEAD,
    HOST_V6_EXTRA,
    I32,
    I64,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGICS,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN,
    claims_to_fit,
)
from sprocket.rocketmq.model.offsets import ANYWHERE

BATCH = 8192
"""Records at a time: a few MiB of a log, which stay in a core's cache between the checks."""
PIECE_BYTES = 4 * MIB
"""Read at once by a scan: a batch or two."""
PROBE_BYTES = 16 * KIB
"""Read at once to look at one record."""
_REST_BYTES_MIN = 64 * KIB
"""With less of a piece left, a scan in batches reads the next one: short batches are dear."""
READ_AHEAD_BYTES = 64 * MIB
"""What the system is asked to read beside a scan in batches, half of it at a time: by itself it
reads little ahead, and the scan would wait for the disk as long as it works."""
BATCH_MIN = 32
"""After something odd; much damage would make many records be looked at again and again."""
_HEAD_BYTES_MAX = FIXED_BYTES + 2 * HOST_V6_EXTRA
_SEAM_BYTES = MAGIC_AT + 3
"""Where one piece ends and the next begins, so much is looked at twice: what a magic may span."""
_T = TypeVar("_T")

_MAGICS = re.compile(b"|".join(re.escape(m.to_bytes(4, "big")) for m in MAGICS), re.DOTALL)


_TORN = {ScanStop.TORN, ScanStop.BAD_SIZE, ScanStop.BAD_OFFSET, ScanStop.BAD_CRC}
"""What a record of the log's own life that lost bytes looks like; other bytes may be older."""


class Damage(Struct, frozen=True):
    """A range of one file that holds no intact record, with intact ones behind it.

    Attributes:
        start: Its first byte.
        end: Where the next intact record, or the next file, begins.
        why: What was found at `start`.
        before_at_ms: Store time of the record before it, 0 if that was not looked at.
        is_unreadable: The disk did not give some of it, which may be intact.
    """

    start: int
    end: int
    why: str
    before_at_ms: int
    is_unreadable: bool = False


class Misplaced(Struct, frozen=True):
    """A record that is intact except for the place that it names, in the log or in its queue.

    Attributes:
        place: Where it lies.
        named: Where it says it does.
        queue_offset: Its place in its queue, if that is what it named wrongly; else −1.
    """

    place: int
    named: int
    queue_offset: int = -1


class LogScanner:
    """A scan; iterate over it or over `batches`, then read the attributes.

    Args:
        segments: The log's files, in order.
        start: Where a record begins.
        check_crc: Compare checksums; without, only places and lengths.
        next_offsets: The next free offset of queues, as far as known. The scan keeps it up to date
            with what it sees.
        until: Where to stop; records that begin there or later are not given.
        piece_bytes: How much is read at once.
        past_damage: Look for records behind damage; without, the log ends there.

    Attributes:
        start: Where it began.
        position: The first byte behind the last entry given.
        end: Where the log ends; valid when the iteration is over.
        ends_in_blank: What was found there is a blank, and no file follows it.
        is_torn: What was found there is a record that lost bytes.
        why: What was found there.
        damage: What was stepped over.
        misplaced: Records that were given although they name another place.
        records: How many entries were given.
        last_start: Where the last of them begins; −1 without any.
        last_stored_at_ms: Its store time.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        start: int,
        *,
        check_crc: bool,
        next_offsets: dict[tuple[str, int], int] | None = None,
        until: int = ANYWHERE,
        piece_bytes: int = PIECE_BYTES,
        past_damage: bool = True,
    ) -> None:
        self.start = start
        self.position = start
        self.end = start
        self.why = "there are no files"
        self.damage: list[Damage] = []
        self.misplaced: list[Misplaced] = []
        self.records = 0
        self.last_start = -1
        self.ends_in_blank = False
        self.is_torn = False
        self.last_stored_at_ms = 0
        self._segments = segments
        self._check_crc = check_crc
        self._next_offsets = {} if next_offsets is None else next_offsets
        self._until = until
        self._batch_count = BATCH
        self._asked_to = 0
        self._piece_bytes = piece_bytes
        self._past_damage = past_damage
        self._reader: SegmentReader | None = None
        self._unreadable: list[Unreadable] = []
        self._record = memoryview(b"")  # the last one that was looked at by itself

    def __iter__(self) -> Iterator[Entry]:
        """Give the entry of each record, in the order of the log."""
        return self._files(self._run)

    def batches(self) -> Iterator[RecordBatch]:
        """Give the same many records at a time, which follow each other in one file.

        Nothing is damaged between those of a batch; the attributes are those behind it.
        """
        return self._files(self._batches)

    def _files(self, run: Callable[[Segment], Iterator[_T]]) -> Iterator[_T]:
        """Give what `run` finds in each file, from the position on."""
        segments = [s for s in self._segments if s.end > self.position]
        for index, segment in enumerate(segments):
            if self.position >= segment.end:
                continue  # damage reaches beyond this file
            yield from self._file(segment, run)
            later = segments[index + 1 :]
            is_whole = self.ends_in_blank
            if self.position >= self._until or (is_whole and not later):
                break
            if is_whole:
                self.position = segment.end
                self.ends_in_blank = False
            elif not self._past_damage:
                break
            if later and later[0].start > segment.end:
                if self.position == segment.end:
                    self.why = "files are missing"
                self._step_over(later[0].start)
            elif not is_whole and not self._skip_to_later(segment, later):
                self._leave_unreadable(segments[index:])
                break
        self.is_torn &= self.position < self._until  # else it was stepped over
        self.end = self.position

    def _file(self, segment: Segment, run: Callable[[Segment], Iterator[_T]]) -> Iterator[_T]:
        """Scan one file, past the damage inside it."""
        self.ends_in_blank = False
        while self.position < self._until:
            yield from run(segment)
            if self.ends_in_blank or self.position >= self._until or not self._past_damage:
                return
            found = self._find(segment, self.position - segment.start + 1)
            if found is None:
                return
            self._step_over(found)

    def _read_ahead(self, segment: Segment, limit: int) -> None:
        """Have the system read what comes next of a file, up to a place in the log."""
        start = max(self.position, self._asked_to)
        end = min(self.position + READ_AHEAD_BYTES, limit)
        if start < end and start - self.position < READ_AHEAD_BYTES // 2:
            segment.file.start_reading(start - segment.start, end - start)
            self._asked_to = end

    def _batches(self, segment: Segment) -> Iterator[RecordBatch]:
        """Give what `_run` does, as columns as far as all is in order."""
        limit = min(self._until, segment.start + segment.file.data_end())
        while True:
            self._read_ahead(segment, limit)
            batch = self._columns(segment)
            if batch is None:
                entry = next(self._run(segment), None)
                if entry is None:
                    return
                batch = RecordBatch.of_one(self._record, entry)
            yield batch

    def _read(self, segment: Segment, size: int) -> tuple[SegmentReader, int]:
        """Have the record at the position in hand, whole if it can be read; see `_bring_record`.

        Returns:
            The reader that has it, and where in its data.
        """
        reader = self._reader
        if reader is None or reader.segment is not segment:
            reader = self._reader = SegmentReader(segment, self._piece_bytes)
        return reader, _bring_record(reader, self.position - segment.start, size)

    def _columns(self, segment: Segment) -> RecordBatch | None:
        """Take the records from the position on that are in order; None if the first is not."""
        reader, start = self._read(segment, min(_REST_BYTES_MIN, self._piece_bytes))
        view, base = reader.data, segment.start + reader.start
        stop = self._until - base
        found = columns.scan(view, start, len(view), self._batch_count)
        positions = found.positions[: np.searchsorted(found.positions, stop)]
        batch = None
        if len(positions):
            records = columns.records(view, found.positions, found.stopped_at, base)
            records = records.part(0, min(len(records), len(positions)))
            if self._check_crc:
                records = records.part(0, _leading(~records.wrong_sums()))
            batch = RecordBatch(records)
            fresh = _leading(~self._are_stale(batch))
            batch = batch if fresh == len(batch) else RecordBatch(records.part(0, fresh))
        if not batch:
            self._batch_count = BATCH_MIN
            return None
        self._batch_count = min(4 * self._batch_count, BATCH)
        self.records += len(batch)
        self.position = batch.end
        self.last_start = int(batch.physical_offset[-1])
        self.last_stored_at_ms = int(batch.stored_at_ms[-1])
        for run in batch.runs:
            following = batch.next_offset(int(run.rows[-1]))
            self._next_offsets[run.topic, run.queue_id] = following
        return batch

    def _are_stale(self, batch: RecordBatch) -> columns.Mask:
        """Say what `_is_stale` does, for each record of a batch that is next."""
        times = np.append(self.last_stored_at_ms, batch.stored_at_ms)
        stale: columns.Mask = (times[1:] < times[:-1]) & batch.queueable
        if stale.any():
            for topic, queue_id, rows in batch.runs:
                offsets = batch.queue_offset[rows]
                stale[rows[1:]] &= offsets[1:] <= offsets[:-1]
                expected = self._next_offsets.get((topic, queue_id))
                stale[rows[0]] &= expected is not None and int(offsets[0]) < expected
        return stale

    def _run(self, segment: Segment) -> Iterator[Entry]:
        """Give the records that lie one after the other from the position on."""
        check = self._check_crc
        self.is_torn = False
        while True:
            reader, start = self._read(segment, BLANK_BYTES)
            view, base = reader.data, segment.start + reader.start
            scan = record_scan.Scan(view, base, start, len(view), check_crc=check, check_tail=check)
            for position, size in scan:
                if base + position >= self._until:
                    return
                try:
                    entry = record.entry(view, position)
                except WireError:
                    self.why = _defect(view[position : position + size], base + position)
                    return
                if not self._is_next(entry):
                    return
                self._take(entry, view[position : position + size])
                yield entry
            if scan.position > start:
                continue  # it may only be the end of what is in hand
            repair = _REPAIRED_BY.get(scan.stop)
            if repair is not None and base + start < self._until:
                repaired, misplaced = repair(self, reader, start)
                if misplaced is not None:
                    if not self._is_next(misplaced):
                        return
                    self._take(misplaced, repaired)
                    yield misplaced
                    continue
            break
        self.why = _stopped(scan, reader)
        is_blank = scan.stop is ScanStop.BLANK
        self.is_torn = scan.stop in _TORN
        self.ends_in_blank = is_blank and base + scan.position + scan.blank_size == segment.end
        if reader.unreadable is not None and _is_cut(view, start):
            self.why = reader.unreadable.why
            self._note_unreadable(segment, reader.unreadable)

    def _is_next(self, entry: Entry) -> bool:
        """Say whether a record directly behind another one is of the log's own life."""
        if self._is_stale(entry):
            self.why = f"the record at {entry.physical_offset} is of an earlier life"
            return False
        return True

    def _misplaced(self, reader: SegmentReader, at: int) -> tuple[memoryview, Entry | None]:
        """Return a record that names another place as it should be, and what it says.

        The latter is None if more than that is out of order.

        Args:
            reader: Has it in hand.
            at: Where in its data.
        """
        place = reader.segment.start + reader.start + at
        (size,) = I32.unpack_from(reader.data, at)
        (named,) = I64.unpack_from(reader.data, at + PHYSICAL_OFFSET_AT)
        repaired = bytearray(reader.data[at : at + size])
        I64.pack_into(repaired, PHYSICAL_OFFSET_AT, place)
        view = memoryview(repaired)
        scan = record_scan.Scan(view, place, 0, size, check_crc=True, check_tail=True)
        if list(scan) != [(0, size)] or not _is_followed(reader.segment, reader.start + at + size):
            return view, None
        try:
            entry = record.entry(view, 0)
        except WireError:
            return view, None
        self.misplaced.append(Misplaced(place, named))
        return view, entry

    def _misnumbered(self, reader: SegmentReader, at: int) -> tuple[memoryview, Entry | None]:
        """Do as `_misplaced` for a record that would fit its checksum with its place in its queue.

        A record without a checksum over all of it never gets here by that field alone.
        """
        (size,) = I32.unpack_from(reader.data, at)
        (named,) = I64.unpack_from(reader.data, at + QUEUE_OFFSET_AT)
        repaired = bytearray(reader.data[at : at + size])
        view = memoryview(repaired)
        place = reader.segment.start + reader.start + at
        try:
            found = record.entry(view, 0)
            expected = self._next_offsets.get((found.topic, found.queue_id), 0)
            I64.pack_into(repaired, QUEUE_OFFSET_AT, expected)
            scan = record_scan.Scan(view, place, 0, size, check_crc=True, check_tail=True)
            if not found.queueable or list(scan) != [(0, size)]:
                return view, None
            entry = record.entry(view, 0)
        except WireError:
            return view, None
        self.misplaced.append(Misplaced(place, named, expected))
        return view, entry

    def _skip_to_later(self, segment: Segment, later: Sequence[Segment]) -> bool:
        """Go on in a later file if one holds an intact record; say whether there is one."""
        for index, following in enumerate(later):
            found = self._find(following, 0)
            if found is not None:
                for damaged in (segment, *later[:index]):
                    self._step_over(damaged.end)
                if found > self.position:
                    self._step_over(found)
                return True
        return False

    def _step_over(self, end: int) -> None:
        start, why = self.position, self.why
        unread = [u for u in self._unreadable if u.start < end and start < u.end]
        if unread:
            why = unread[0].why
        damage = Damage(start, end, why, self.last_stored_at_ms, is_unreadable=bool(unread))
        self.damage.append(damage)
        self.position = end

    def _note_unreadable(self, segment: Segment, found: Unreadable) -> None:
        start, end, why = found
        self._unreadable.append(Unreadable(segment.start + start, segment.start + end, why))

    def _leave_unreadable(self, segments: Sequence[Segment]) -> None:
        """Step over whole files at the end of the log, up to the last that cannot all be read."""
        positions = [unreadable.start for unreadable in self._unreadable]
        last = max(positions, default=-1)
        for segment in segments:
            if max(segment.start, self.position) <= last:
                self._step_over(segment.end)
                self.is_torn = False
                self.why = "the file before cannot be read to its end"

    def _take(self, entry: Entry, stored: memoryview) -> None:
        self._record = stored
        self.records += 1
        self.last_start = entry.physical_offset
        self.position = entry.physical_offset + entry.size
        self.last_stored_at_ms = entry.stored_at_ms
        if entry.queueable:
            self._next_offsets[entry.topic, entry.queue_id] = entry.next_offset

    def _is_stale(self, entry: Entry) -> bool:
        """Say whether a record directly behind another one is of an earlier life."""
        if entry.stored_at_ms >= self.last_stored_at_ms or not entry.queueable:
            return False
        expected = self._next_offsets.get((entry.topic, entry.queue_id))
        return expected is not None and entry.queue_offset < expected

    def _find(self, segment: Segment, first: int) -> int | None:
        """Return where in the log the first intact record of a file lies, from a position on."""
        at = first
        while at + MAGIC_AT < segment.size:
            extent = segment.file.next_data(at)
            at, end = max(at, extent.start - MAGIC_AT), min(extent.end, segment.size)
            if at >= end:
                return None
            piece = segment.readable(at, min(PIECE_BYTES, end - at))
            for match in _MAGICS.finditer(piece.data, MAGIC_AT):
                position = at + match.start() - MAGIC_AT
                if self._is_intact(segment, position):
                    return segment.start + position
            if piece.unreadable is not None:
                self._note_unreadable(segment, piece.unreadable)
                at = piece.unreadable.end
            else:
                at += max(1, len(piece.data) - _SEAM_BYTES)
        return None

    def _is_intact(self, segment: Segment, position: int) -> bool:
        """Say whether a record behind damage may be trusted."""
        reader = SegmentReader(segment, PROBE_BYTES)
        found = _first_record(reader, position)
        if found is None:
            return False
        try:
            entry = record.entry(reader.data, found)
        except WireError:
            return False
        if entry.stored_at_ms < self.last_stored_at_ms:
            return False
        expected = self._next_offsets.get((entry.topic, entry.queue_id), 0)
        return not entry.queueable or entry.queue_offset >= expected


_REPAIRED_BY: Mapping[
    ScanStop, Callable[[LogScanner, SegmentReader, int], tuple[memoryview, Entry | None]]
] = {
    ScanStop.BAD_OFFSET: LogScanner._misplaced,
    ScanStop.BAD_CRC: LogScanner._misnumbered,
}
"""What may still be read where a scan stopped, as one field is certain."""


def _bring_record(reader: SegmentReader, position: int, size: int) -> int:
    """Have the record at a position of a file in hand, whole if it can be read.

    A size that its body's does not bear out is not followed: it might be that of the whole file.

    Args:
        reader: Reads the file.
        position: Where the record begins.
        size: How much to have in hand at least.

    Returns:
        Where in the reader's data it is.
    """
    at = reader.bring(position, max(size, _HEAD_BYTES_MAX))
    if len(reader.data) - at >= RECORD_BYTES_MIN:
        whole, magic = HEAD.unpack_from(reader.data, at)
        if magic in MAGICS and claims_to_fit(reader.data, at):
            at = reader.bring(position, whole)
    return at


def _first_record(reader: SegmentReader, position: int) -> int | None:
    """Return where in a reader's data the record at a position is, None if none is intact there."""
    at = _bring_record(reader, position, BLANK_BYTES)
    base, data = reader.segment.start + reader.start, reader.data
    scan = record_scan.Scan(data, base, at, len(data), check_crc=True, check_tail=True)
    return at if next(iter(scan), None) is not None else None


def _defect(stored: memoryview, place: int) -> str:
    """Say why a record has no entry, in words that do not depend on what was read with it."""
    try:
        record.entry(stored)
    except WireError as error:
        return f"the record at {place}: {error}"
    return f"the record at {place} has no entry"


def _stopped(scan: record_scan.Scan, reader: SegmentReader) -> str:
    """Say why a scan went no further, in words that do not depend on what was read with it."""
    at, data, segment = scan.position, reader.data, reader.segment
    if scan.stop is ScanStop.TORN and len(data) - at >= BLANK_BYTES:
        (size,) = I32.unpack_from(data, at)
        place = segment.start + reader.start + at
        left = segment.end - place
        if size <= left:
            return f"{ScanStop.BAD_SIZE.value}: a record of {size} bytes at {place}"
        return f"{scan.stop.value}: a record of {size} bytes at {place}, {left} are there"
    return f"{scan.stop.value}: {scan.why}"


def _is_cut(data: memoryview, at: int) -> bool:
    """Say whether what begins in some bytes goes on behind them."""
    if len(data) - at < BLANK_BYTES:
        return True
    size, magic = HEAD.unpack_from(data, at)
    return magic in MAGICS and at + size > len(data)


def _is_followed(segment: Segment, position: int) -> bool:
    """Say whether at a position of a file lies what may follow a record: another, or an end."""
    reader = SegmentReader(segment, PROBE_BYTES)
    if _first_record(reader, position) is not None:
        return True
    at = reader.bring(position, BLANK_BYTES)
    if len(reader.data) - at < BLANK_BYTES:
        return False
    size, magic = HEAD.unpack_from(reader.data, at)
    is_blank = magic == MAGIC_BLANK and position + size == segment.size
    return is_blank or (size, magic) == (0, 0)


def _leading(good: columns.Mask) -> int:
    """Return how many of the first are good, one after the other."""
    return len(good) if good.all() else int(np.argmin(good))


class Glance(Struct, frozen=True):
    """What a record's first bytes say, unchecked except for magic and place."""

    size: int
    stored_at_ms: int


def glance(reader: SegmentReader, position: int) -> Glance | None:
    """Return size and store time of the record at a position, None if none seems to begin there.

    Ten times as quick as a check of the record, for skipping what is known to be good.
    """
    segment = reader.segment
    if position + RECORD_BYTES_MIN > segment.size:
        return None
    at = reader.bring(position, RECORD_BYTES_MIN)
    if len(reader.data) - at < RECORD_BYTES_MIN:
        return None
    (size, magic) = HEAD.unpack_from(reader.data, at)
    (offset,) = I64.unpack_from(reader.data, at + PHYSICAL_OFFSET_AT)
    if magic not in MAGICS or offset != segment.start + position:
        return None
    if size < RECORD_BYTES_MIN or position + size > segment.size:
        return None
    return Glance(size, record_layout.stored_at_ms(reader.data, at))


def intact_entry(segment: Segment, position: int) -> Entry | None:
    """Return the entry of the record at a position of a file, None if none is intact there."""
    start = segment.start + position
    for entry in LogScanner([segment], start, check_crc=True, piece_bytes=PROBE_BYTES):
        return entry if entry.physical_offset == start else None
    return None
