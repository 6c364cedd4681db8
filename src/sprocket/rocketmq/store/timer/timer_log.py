"""The timer log: a record of 52 bytes for each message that waits.

It leads to the one before it in the same slot of the wheel. The files lie in one address space, as
those of the commit log do. A record that does not leave room for an end mark goes into the next
file, and the mark is written before it. See docs/formats/timer-files.md. Source: RocketMQ
`TimerLog`.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, Segment, SegmentFiles, Steps, StepsTo, read_written, steps
from sprocket.base.errors import CorruptRecord
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.columns import Ints
from sprocket.rocketmq.codec.record_layout import MAGIC_BLANK
from sprocket.rocketmq.store.timer.timer_checkpoint import SUMS_MAX, TimerSums

RECORD = struct.Struct(">iqiqiqiiq")
RECORD_BYTES = RECORD.size
END_MARK = struct.Struct(">iqI")
END_MARK_BYTES = END_MARK.size
FILE_BYTES = 104_857_600
"""RocketMQ's mappedFileSizeTimerLog: 2,016,492 records and the end mark."""

DEFAULT, ROLL, DELETE = 1, 2, 4
"""Bits of a record's magic: every record has the first; one is put into the wheel topic again when
its time comes; one takes another message back."""
_MAGICS = range(1, 16)

ROWS = np.dtype(
    [
        *(("size", ">i4"), ("previous", ">i8"), ("magic", ">i4"), ("enqueued_at_ms", ">i8")),
        *(("delay_ms", ">i4"), ("place", ">i8"), ("bytes", ">i4"), ("topic_hash", ">i4")),
        ("unused", ">i8"),
    ]
)
"""Records as rows of numpy."""

_BLOCK_BYTES = 64 * KIB
"""What is read at once of a chain: its records may lie side by side."""
_SCAN_RECORDS = 20_000
"""Records of a scan in one piece: 1 MB."""


class TimerRecord(Struct, frozen=True, gc=False):
    """What the timer log says of a message.

    Attributes:
        previous: Where the record before it in its slot lies, −1 if it is the first.
        magic: Bits `DEFAULT`, `ROLL`, `DELETE`.
        enqueued_at_ms: The time of the wheel when it was put there, ms since 1970.
        delay_ms: How long after that it is due.
        place: Where the message lies in the commit log.
        size: Its bytes.
        topic_hash: Java's hash of the topic where it wants to go.
    """

    previous: int
    magic: int
    enqueued_at_ms: int
    delay_ms: int
    place: int
    size: int
    topic_hash: int

    @property
    def due_at_ms(self) -> int:
        """When it is due, by the clock at the time of its enqueueing."""
        return self.enqueued_at_ms + self.delay_ms


def encode(record: TimerRecord) -> bytes:
    """Return the 52 bytes of a record."""
    return RECORD.pack(
        RECORD_BYTES,
        record.previous,
        record.magic,
        record.enqueued_at_ms,
        record.delay_ms,
        record.place,
        record.size,
        record.topic_hash,
        0,
    )


class TimerLog:
    """The files of the log.

    Args:
        disk: Where they lie.
        folder: Their folder.
        file_bytes: Their length, where there are none yet.

    Attributes:
        end: Where the next record goes, unless the file is full.

    Raises:
        ForeignStore: The files do not fit together.
    Threads: one at a time.
    """

    def __init__(self, disk: Disk, folder: str, file_bytes: int = FILE_BYTES) -> None:
        sizes = [size for size in disk.sizes(folder).values() if size]
        self._files = SegmentFiles(disk, folder, max(sizes, default=file_bytes))
        self._files.load(derived=True)
        self._disk = disk
        self._dirty: list[Segment] = []
        self._has_new_names = False
        self._sums: dict[int, int] = {}
        """Checksums of files by where they begin; of the last one up to `_summed_to`."""
        self._summed_to = self._files.first
        self.end = self._files.first

    @property
    def first(self) -> int:
        """Where the oldest record lies."""
        return self._files.first

    @property
    def _file_bytes(self) -> int:
        return self._files.segment_bytes

    def is_place(self, position: int) -> bool:
        """Tell whether a record may begin at a position, or the log end there."""
        if not self._files.first <= position <= self._files.end_of_files:
            return False
        return position % self._file_bytes % RECORD_BYTES == 0

    def next_position(self, position: int) -> int:
        """Return where a record goes when the log ends at a position."""
        left = self._file_bytes - position % self._file_bytes
        return position if left >= RECORD_BYTES + END_MARK_BYTES else position + left

    def append(self, records: Sequence[TimerRecord]) -> int:
        """Write records behind the end; return where the log ends with them.

        `end` stays as it is: what is written counts when the owner says so.

        Raises:
            DiskFull, DiskFailed: Any part may have been written, and counts for nothing.
        Durability: after `sync_steps`.
        """
        at, start = self.end, 0
        while start < len(records):
            position = self.next_position(at)
            if position != at:
                self._write(at, END_MARK.pack(position - at, 0, MAGIC_BLANK))
            room = (self._file_bytes - position % self._file_bytes - END_MARK_BYTES) // RECORD_BYTES
            part = records[start : start + room]
            self._write(position, b"".join([encode(record) for record in part]))
            at, start = position + len(part) * RECORD_BYTES, start + len(part)
        return at

    def _write(self, position: int, data: bytes) -> None:
        while position >= self._files.end_of_files:
            self._files.add(self._files.end_of_files)
            self._has_new_names = True
        segment = self._files.segment(position)
        if segment not in self._dirty:
            self._dirty.append(segment)
        segment.write(position - segment.start, data)

    def read(self, position: int) -> TimerRecord:
        """Return a record.

        Raises:
            OffsetTooSmall, OffsetTooLarge: It was deleted, or never there.
            CorruptRecord: There is none.
        """
        segment = self._files.segment(position)
        return _decoded(segment.read(position - segment.start, RECORD_BYTES), 0, position)

    def chain(
        self, position: int, until: int, count: int
    ) -> tuple[list[tuple[int, TimerRecord]], int]:
        """Follow a chain back from a position to the record at `until`, which is not given.

        Args:
            position: Of its last record.
            until: Where to stop; −1 for its beginning.
            count: Records to return at the most.

        Returns:
            Positions and records, and the position of the next one, `until` if there is none.

        Raises:
            OffsetTooSmall, OffsetTooLarge, CorruptRecord: As `read`; or the chain leads forward.
        """
        found: list[tuple[int, TimerRecord]] = []
        block, start = b"", position
        while position != until and position >= 0 and len(found) < count:
            segment = self._files.segment(position)
            in_file = position - segment.start
            if not start <= position < start + len(block):
                first = max(0, in_file + RECORD_BYTES - (_BLOCK_BYTES if block else RECORD_BYTES))
                first += -first % RECORD_BYTES
                block = segment.read(first, in_file + RECORD_BYTES - first)
                start = segment.start + first
            record = _decoded(block, position - start, position)
            if record.previous >= position or record.previous < until:
                raise CorruptRecord(f"timer log: {position} is said to follow {record.previous}")
            found.append((position, record))
            position = record.previous
        return found, position

    def rows(self) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Give all records as rows of `ROWS`, in pieces, each with the position of its first."""
        for segment in self._files.segments:
            size = (self._file_bytes - END_MARK_BYTES) // RECORD_BYTES * RECORD_BYTES
            size = max(0, min(size, self.end - segment.start))
            for at in range(0, size, _SCAN_RECORDS * RECORD_BYTES):
                data = segment.read(at, min(_SCAN_RECORDS * RECORD_BYTES, size - at))
                yield segment.start + at, np.frombuffer(data, ROWS)

    def resize(self, places: Ints, sizes: Ints) -> int:
        """Have records say how long their messages are now.

        Args:
            places: Where these messages lie in the commit log, ascending.
            sizes: Their bytes.

        Returns:
            How many records were changed: a message that was rolled has one for each time.

        Durability: after a sync of the files by the caller.
        """
        changed = 0
        for position, rows in self.rows():
            found = np.flatnonzero(np.isin(rows["place"], places))
            if len(found):
                new = rows.copy()
                new["bytes"][found] = sizes[np.searchsorted(places, rows["place"][found])]
                self._write(position, new.tobytes())
                changed += len(found)
        return changed

    def last(self) -> TimerRecord | None:
        """Return the last record; None if there is none.

        Raises:
            CorruptRecord: There is no record at the end.
        """
        if self.end <= self._files.first:
            return None
        position = self.end - RECORD_BYTES
        if self.end % self._file_bytes == 0:  # RocketMQ's, where the end mark was just written
            room = (self._file_bytes - END_MARK_BYTES) // RECORD_BYTES
            position = self.end - self._file_bytes + (room - 1) * RECORD_BYTES
        return self.read(position)

    def goes_on(self) -> bool:
        """Tell whether something lies behind the end."""
        if self.end >= self._files.end_of_files:
            return False
        segment = self._files.segment(self.end)
        if segment.end < self._files.end_of_files:
            return True
        at = self.end - segment.start
        return any(segment.read(at, min(RECORD_BYTES, self._file_bytes - at)))

    def cut(self, end: int) -> None:
        """Have the log end at a position: what lies behind it is deleted, or made zeros.

        Durability: on the disk when this returns.
        """
        self._files.drop_from(-(-end // self._file_bytes) * self._file_bytes, durable=True)
        self.end = end
        if self._summed_to > end:
            self._summed_to = max(self._files.first, end - end % self._file_bytes)
            self._sums = {one: crc for one, crc in self._sums.items() if one < self._summed_to}
        if end < self._files.end_of_files:
            segment = self._files.segment(end)
            at = end - segment.start
            rest = segment.file.next_data(at)
            while rest.start < rest.end:
                data = read_written(segment.file, rest.start, rest.end - rest.start)
                if any(data):
                    segment.write(rest.start, bytes(len(data)))
                rest = segment.file.next_data(rest.end)
            segment.file.sync()

    def sync_steps(self) -> Steps:
        """Make durable what was appended, and the names of the files that it needed."""
        dirty, self._dirty = self._dirty, []
        has_new_names, self._has_new_names = self._has_new_names, False
        try:
            for segment in dirty:
                yield segment.file.sync
            if has_new_names:
                yield partial(self._disk.sync_folder, self._files.folder)
                yield partial(self._disk.sync_folder, os.path.dirname(self._files.folder))
        except BaseException:
            self._dirty = dirty + [one for one in self._dirty if one not in dirty]
            self._has_new_names |= has_new_names
            raise

    def sum_steps(self, end: int) -> StepsTo[TimerSums]:
        """Return checksums of everything before a position; only what was added since is read.

        Costs 20 ms for a million records that are new.
        """
        end = min(end, self._files.end_of_files)
        while self._summed_to < end:
            segment = self._files.segment(self._summed_to)
            at = self._summed_to - segment.start
            size = min(end - self._summed_to, self._file_bytes - at, MIB)
            before = self._sums.get(segment.start, 0)
            self._sums[segment.start] = yield partial(_checksum, segment, at, size, before)
            self._summed_to += size
        kept = sorted(one for one in self._sums if one >= self._files.first)[-SUMS_MAX:]
        self._sums = {one: self._sums[one] for one in kept}
        start = kept[0] if kept else end
        return TimerSums(start, end, tuple(self._sums.values()))

    def agrees(self, sums: TimerSums) -> bool:
        """Tell whether the files are as they were when checksums of them were made.

        Files that were deleted since then, from the oldest on, are not missed.
        """
        starts = [sums.start + number * self._file_bytes for number in range(len(sums.files))]
        known = {
            start: crc
            for start, crc in zip(starts, sums.files, strict=True)
            if start >= self._files.first
        }
        if known and sums.end > self._files.end_of_files:
            return False
        self._sums, self._summed_to = {}, min(known, default=self._files.first)
        steps.run(self.sum_steps(sums.end))
        return self._sums == known

    def clean_steps(self, first_place: int) -> Steps:
        """Delete files whose last message is not in the commit log any more, as RocketMQ does.

        Args:
            first_place: Where the commit log begins.
        """
        segments = self._files.segments
        room = (self._file_bytes - END_MARK_BYTES) // RECORD_BYTES
        for segment in segments[:-1]:
            try:
                last = self.read(segment.start + (room - 1) * RECORD_BYTES)
            except CorruptRecord:
                break
            if last.place >= first_place:
                break
            yield from self._files.drop_before_steps(segment.end)

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def _checksum(segment: Segment, at: int, size: int, before: int) -> int:
    return crc32(segment.read(at, size), before)


def _decoded(data: bytes | memoryview, at: int, position: int) -> TimerRecord:
    size, previous, magic, enqueued, delay, place, bytes_, topic, _ = RECORD.unpack_from(data, at)
    if size != RECORD_BYTES or magic not in _MAGICS:
        raise CorruptRecord(f"timer log: there is no record at {position}")
    return TimerRecord(previous, magic, enqueued, delay, place, bytes_, topic)
