"""One consume queue in files: a row of units of 20 bytes that say where its messages lie.

A unit is `i64 physical offset, i32 record size, i64 tags code`; the one of queue offset n lies at
byte n * 20 of the queue's address space, which is cut into files of one size. What a queue promises
is told at the head of `files`, which keeps all queues of a store. See
`docs/formats/consume-queue.md`.
"""

import struct
from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from sprocket.base.disk import Disk, sync_file
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall
from sprocket.base.segments import Segment, SegmentFiles
from sprocket.base.steps import Steps
from sprocket.base.units import KIB, PhysicalOffset, QueueOffset

UNIT = struct.Struct(">qiq")
"""Physical offset, record size, tags code."""
UNIT_BYTES = UNIT.size
FILLER_SIZE = 0x7FFF_FFFF
FILLER = UNIT.pack(0, FILLER_SIZE, 0)
"""Stands where a message was before the queue's first file began, or where one was lost."""

OPEN_FILES_MAX = 256
"""Handles that the queues of a store hold together; a broker with more busy queues reopens some."""

_SCAN_BYTES = 64 * KIB // UNIT_BYTES * UNIT_BYTES
_RECOVER_FILES = 3
"""A queue's end is looked for from this many files before its last, as RocketMQ does."""


class Unsynced(NamedTuple):
    """Files with units, and the folder if it has names, that the disk may lack."""

    segments: set[Segment]
    folder: str | None

    def sync(self, disk: Disk) -> None:
        """Sync it with handles of its own; on any thread."""
        for segment in self.segments:
            sync_file(disk, segment.path)
        if self.folder is not None:
            disk.sync_folder(self.folder)


class Handles:
    """Closes the oldest handle when too many are open."""

    def __init__(self) -> None:
        self._open: deque[Segment] = deque()

    def opening(self, segment: Segment) -> None:
        """Make room for a segment that is about to be opened."""
        while len(self._open) >= OPEN_FILES_MAX:
            self._open.popleft().release()
        self._open.append(segment)


class FileQueue:
    """One queue. Offsets are queue offsets (units) unless they are called physical.

    Attributes:
        min_offset: First offset that may be read.
        max_offset: Offset of the next message; `min_offset` of a queue that was never written.
        end: Physical end of the last message, -1 without one.
    """

    __slots__ = (
        "_dirty",
        "_doubtful",
        "_files",
        "_handles",
        "_new_folder",
        "_units_per_file",
        "end",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self, topic: str, queue_id: int, files: SegmentFiles, units_per_file: int, handles: Handles
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self.end = PhysicalOffset(-1)
        self._files = files
        self._units_per_file = units_per_file
        self._handles = handles
        self._dirty: set[Segment] = set()
        self._new_folder = False
        self._doubtful = False

    @property
    def is_blank(self) -> bool:
        """Whether it holds no unit at all, not even a filler, so that it may begin anywhere."""
        return self.max_offset == self.first_kept

    @property
    def first_kept(self) -> QueueOffset:
        """The offset at which the oldest file begins; units from here on can be looked at."""
        return QueueOffset(self._files.first // UNIT_BYTES)

    def read(self, offset: int, count: int) -> memoryview:
        """Return up to `count` units from `offset` on, as they lie in one file.

        Args:
            offset: First unit wanted.
            count: Most units wanted, at least 1.

        Returns:
            Whole units; fewer than `count` at the end of the queue or of a file.

        Raises:
            OffsetTooSmall: The file that held `offset` is gone.
            OffsetTooLarge: `offset` is at the end or behind it.
        """
        if offset >= self.max_offset:
            raise OffsetTooLarge(offset, self.max_offset)
        if offset < self.first_kept:
            raise OffsetTooSmall(offset, self.first_kept)
        segment = self._segment(offset)
        left = min(self.max_offset, segment.end // UNIT_BYTES) - offset
        size = min(count, left) * UNIT_BYTES
        return memoryview(segment.file.read(offset * UNIT_BYTES - segment.start, size))

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return physical offset, record size and tags code of one unit; errors as `read`."""
        physical_offset, size, tags_code = UNIT.unpack(self.read(offset, 1))
        return PhysicalOffset(physical_offset), size, tags_code

    def next_file(self, offset: int) -> QueueOffset:
        """Return the first offset of the file after the one that `offset` belongs to."""
        return QueueOffset(offset + self._units_per_file - offset % self._units_per_file)

    def is_filler(self, offset: int) -> bool:
        """Say whether the unit stands for a message that is not in the log."""
        return self.unit(offset)[1] == FILLER_SIZE

    def _segment(self, offset: int) -> Segment:
        segment = self._files.segment(offset * UNIT_BYTES)
        if not segment.is_open:
            self._handles.opening(segment)
        return segment

    # Writing.

    def append(self, offset: int, units: bytes, end: int) -> None:
        """Write units at the end of the queue; one write for each file they touch.

        Args:
            offset: Queue offset of the first; anything for a blank queue, else `max_offset`.
            units: One or more whole units in order.
            end: Physical end of the last one's message.

        Raises:
            CorruptRecord: Units are missing in between.
            DiskFull, DiskFailed: What is written so far counts; the rest may be put again.
        """
        if self.is_blank:
            self._begin(offset)
        elif offset != self.max_offset:
            raise CorruptRecord(
                f"queue {self.topic}/{self.queue_id} ends at {self.max_offset}, "
                f"the log has its message {offset} before {end}"
            )
        self._write(units)
        self.end = PhysicalOffset(end)

    def fill_to(self, offset: int) -> int:
        """Put fillers for messages that are lost, so that the next one may be `offset`.

        Returns:
            How many were put.
        """
        missing = offset - self.max_offset
        if missing > 0 and not self.is_blank:
            self._write(FILLER * missing)
            return missing
        return 0

    def _begin(self, offset: int) -> None:
        """Make the first file; what it holds before `offset` was never here."""
        start = offset - offset % self._units_per_file
        if len(self._files) and start != self.first_kept:
            self._drop_from(0)
        if not len(self._files):
            self._files.add(start * UNIT_BYTES)
            self._new_folder = True
        self.max_offset = QueueOffset(start)
        self._write(FILLER * (offset - start))
        self.min_offset = QueueOffset(offset)

    def _write(self, units: bytes) -> None:
        done = 0
        while done < len(units):
            position = self.max_offset * UNIT_BYTES
            if position == self._files.end_of_files:
                self._files.add(position)
                self._new_folder = True
            segment = self._segment(self.max_offset)
            part = units[done : done + segment.end - position]
            segment.file.write([part], position - segment.start)
            self._dirty.add(segment)
            done += len(part)
            self.max_offset = QueueOffset(self.max_offset + len(part) // UNIT_BYTES)

    def take_unsynced(self) -> "Unsynced":
        """Return what is to be synced; it counts as synced unless it is given back."""
        folder = self._files.folder if self._new_folder else None
        taken = Unsynced(self._dirty, folder)
        self._dirty, self._new_folder = set(), False
        return taken

    def give_back(self, taken: "Unsynced") -> None:
        """Take back what was not synced after all."""
        self._dirty |= taken.segments
        self._new_folder = self._new_folder or taken.folder is not None

    # Recovery and cleaning.

    def load(self, *, clean: bool) -> None:
        """Take up the files and find the end of the queue.

        The scan begins at the third file from the end and stops at the first unit that is absent
        or does not lie behind the one before it; whatever follows is not part of the queue.

        Args:
            clean: The last stop was clean. If not, the disk may not have what is read here, so
                the next `flush` syncs it.
        """
        self._files.load(derived=True)
        self.end = PhysicalOffset(-1)
        self.min_offset = self.max_offset = self.first_kept
        newest = self._files.segments[-_RECOVER_FILES:]
        self._dirty = set() if clean else set(newest)
        self._new_folder = bool(newest) and not clean
        self._doubtful = not clean
        if newest:
            self.max_offset = QueueOffset(newest[0].start // UNIT_BYTES)
            self._scan()
            self._find_end()
            self.min_offset = self._after_fillers(self.min_offset)
            self._files.close()

    def _scan(self) -> None:
        """Move `max_offset` and `end` over the units that are there."""
        for segment in self._files.segments:
            while segment.start <= self.max_offset * UNIT_BYTES < segment.end:
                position = self.max_offset * UNIT_BYTES - segment.start
                if not segment.is_open:
                    self._handles.opening(segment)
                data = segment.file.read(position, min(_SCAN_BYTES, segment.size - position))
                present, end = _present(data, self.end)
                self.max_offset = QueueOffset(self.max_offset + present)
                self.end = PhysicalOffset(end)
                if present * UNIT_BYTES < len(data) or not present:
                    return

    def _find_end(self) -> None:
        """Set `end` from the last unit that is no filler."""
        self.end = PhysicalOffset(-1)
        for offset in range(self.max_offset - 1, self.first_kept - 1, -1):
            physical_offset, size, _ = self.unit(offset)
            if size != FILLER_SIZE:
                self.end = PhysicalOffset(physical_offset + size)
                return

    def _after_fillers(self, offset: int) -> QueueOffset:
        """Return the first offset from `offset` on whose unit is no filler."""
        while offset < self.max_offset:
            units = self.read(offset, _SCAN_BYTES // UNIT_BYTES)
            for _, size, _ in UNIT.iter_unpack(units):
                if size != FILLER_SIZE:
                    return QueueOffset(offset)
                offset += 1
        return QueueOffset(offset)

    def correct_min(self, min_physical: PhysicalOffset) -> None:
        """Raise `min_offset` to the first message that the log still has.

        A queue whose messages are all gone is empty but keeps its offset: min equals max. Unlike
        RocketMQ this looks through all files, not only the first one.
        """
        if self.min_offset >= self.max_offset:
            return
        first = max(self.min_offset, self.first_kept)
        self.min_offset = self._after_fillers(self._first_at(min_physical, first))

    def _first_at(self, physical_offset: int, first: int) -> QueueOffset:
        """Return the first offset from `first` on whose message lies at `physical_offset` or later.

        A filler counts as the next real unit does, one that is absent as if it lay far behind:
        after a crash only such units are absent as belong to messages that are not certain yet.
        """

        def place(offset: int) -> int:
            at = self._after_fillers(offset)
            if at >= self.max_offset:
                return 1 << 63
            unit_at, size, _ = self.unit(at)
            return unit_at if size > 0 else 1 << 63

        return QueueOffset(
            bisect_left(range(self.max_offset), physical_offset, lo=first, key=place)
        )

    def copy(self) -> "FileQueue":
        """Return the same queue with handles of its own, to be read on another thread."""
        files = self._files.copy()
        same = FileQueue(self.topic, self.queue_id, files, self._units_per_file, Handles())
        same.min_offset, same.max_offset, same.end = self.min_offset, self.max_offset, self.end
        return same

    def clean_steps(self, min_offset: QueueOffset) -> Steps:
        """Raise the minimum, and delete the files that lie before it; the newest one stays."""
        self.min_offset = max(self.min_offset, min_offset)
        try:
            yield from self._files.drop_before_steps(self.min_offset * UNIT_BYTES)
        finally:
            self._dirty.intersection_update(self._files.segments)

    def truncate(self, physical_offset: PhysicalOffset) -> int:
        """Take away the units of messages that lie at `physical_offset` or later.

        Bytes are zeroed and files that are left without a unit deleted, except for one that says
        where the queue goes on. Fillers before the cut stay: what they stand for is gone.

        Returns:
            How many units are gone.
        """
        if self.end <= physical_offset and not self._doubtful:
            return 0
        self._doubtful = False
        old = self.max_offset
        keep = self._after_fillers(self._first_at(physical_offset, self.first_kept))
        position = keep * UNIT_BYTES
        self._drop_from(max(position, self._files.first + 1 if position else 0))
        if len(self._files) and position < self._files.end_of_files:
            segment = self._segment(keep)
            zeros = bytes(min(old * UNIT_BYTES, segment.end) - position)
            segment.file.write([zeros], position - segment.start)
            self._dirty.add(segment)
        self.max_offset = keep
        self.min_offset = min(self.min_offset, keep)
        self._find_end()
        return old - keep

    def _drop_from(self, position: int) -> None:
        """Delete the files that begin at `position` or later."""
        self._dirty.difference_update(
            [segment for segment in self._files.segments if segment.start >= position]
        )
        if self._files.drop_from(position):
            self._new_folder = True

    def wipe_behind_end(self) -> None:
        """Zero what follows the end in the last file, for RocketMQ's recovery takes it for units.

        Costs a read of the rest of the file; needed once after a load that followed a crash.
        """
        position = self.max_offset * UNIT_BYTES
        for segment in self._files.segments:
            while segment.start <= position < segment.end:
                data = self._segment(position // UNIT_BYTES).file.read(
                    position - segment.start, min(_SCAN_BYTES, segment.end - position)
                )
                if data != bytes(len(data)):
                    segment.file.write([bytes(len(data))], position - segment.start)
                    self._dirty.add(segment)
                position += len(data)

    def close(self) -> None:
        """Close the handles."""
        self._files.close()


def _present(data: bytes, end: int) -> tuple[int, int]:
    """Return how many units from the start of `data` on are there, and the new physical end."""
    count = 0
    for physical_offset, size, _ in UNIT.iter_unpack(data):
        if physical_offset < 0 or size <= 0:
            break
        if size != FILLER_SIZE:
            if physical_offset < end:
                break
            end = physical_offset + size
        elif physical_offset:
            break
        count += 1
    return count, end
