"""One batch queue: units of 46 bytes, each for a record that may hold many messages.

A unit is `i64 physical offset, i32 record size, i64 tags code, i64 store time, i64 first queue
offset, i16 count, i32 −1, i32 0`. Units follow each other in the address space that the files cut
up; their queue offsets say nothing about their places, so a message is found by halving. Only the
topics whose attribute `queue.type` is `BatchCQ` have such queues, and only these may take inner
batches. See `docs/formats/batch-queue.md`.

Invariants

1. First offsets grow from unit to unit, each by at least the count before it; so do physical
   offsets. What breaks this, or is absent, ends the queue when it is loaded.
2. What lies behind the end of the queue is zero.

Unlike a queue of single messages it needs no fillers: an offset whose message is lost has no unit.

Source: RocketMQ `BatchConsumeQueue`. Of its answers to a search by time only those for a time at
which a message was stored are right, and only these are ours.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set

from sprocket.base.disk import Steps
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import BATCH_UNIT_BYTES
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.queue.extension import ExtendedUnit
from sprocket.rocketmq.store.queue.queue import LastUnit, UnitRead
from sprocket.rocketmq.store.queue.queue_files import QueueFiles
from sprocket.rocketmq.store.queue.runs import Q, Run

BATCH_UNIT = struct.Struct(">qiqqqhii")
"""Physical offset, record size, tags code, store time, first offset, count, −1, 0."""
UNIT_BYTES = BATCH_UNIT.size
assert UNIT_BYTES == BATCH_UNIT_BYTES
_NOT_COMPACTED = -1

_SCAN_UNITS = 64 * KIB // UNIT_BYTES
_RECOVER_FILES = 3
"""A queue's end is looked for from this many files before its last, as RocketMQ does."""

_Unit = tuple[int, int, int, int, int, int, int, int]


class BatchQueue:
    """One queue. Offsets are queue offsets (messages); an *index* counts units.

    Attributes:
        files: Where its units lie.
        min_offset: First offset that may be read.
        max_offset: Offset of the next message; `min_offset` of a queue that was never written.
        end: Physical end of the last record, -1 without one.
    """

    __slots__ = (
        "_doubtful",
        "_stop",
        "end",
        "files",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    unit_bytes = UNIT_BYTES

    def __init__(self, topic: str, queue_id: int, files: QueueFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self.end = PhysicalOffset(-1)
        self._stop = 0  # index behind the last unit
        self.files = files
        self._doubtful = False

    @property
    def all_files(self) -> tuple[QueueFiles, ...]:
        """All that it has on the disk."""
        return (self.files,)

    @property
    def _start(self) -> int:
        """Index of the first unit of the oldest file."""
        return self.files.first // UNIT_BYTES

    @property
    def is_plain(self) -> bool:
        """Return False: units hold more than place, size and tags code."""
        return False

    @property
    def is_blank(self) -> bool:
        """Whether it holds no unit at all and none stood there, so that it may begin anywhere."""
        return self._stop == self._start and self.max_offset == 0

    # Reading.

    def _at(self, index: int) -> _Unit:
        unit: _Unit = BATCH_UNIT.unpack(self._read(index, 1))
        return unit

    def _read(self, index: int, count: int) -> bytes:
        """Return up to `count` units from an index on, as they lie in one file."""
        size = min(count, self._stop - index) * UNIT_BYTES
        return self.files.read(index * UNIT_BYTES, size)

    def _index(self, offset: int) -> int:
        """Return the index of the unit that holds an offset, or of the last one before it."""
        if offset >= self.max_offset or self._stop == self._start:
            raise OffsetTooLarge(offset, self.max_offset)
        found = bisect_right(range(self._stop), offset, lo=self._start, key=self._first) - 1
        if found < self._start:
            raise OffsetTooSmall(offset, self._first(self._start))
        return found

    def _first(self, index: int) -> int:
        return self._at(index)[4]

    def units(self, offset: int, count: int) -> list[UnitRead]:
        """Return up to `count` units from the one that holds `offset` on; see `queue.Queue`."""
        data = self._read(self._index(offset), count)
        return [
            (first, place, size, code, messages)
            for place, size, code, _at_ms, first, messages, _, _ in BATCH_UNIT.iter_unpack(data)
        ]

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return physical offset, size and code of the unit that holds a message."""
        physical_offset, size, tags_code, *_ = self._at(self._index(offset))
        return PhysicalOffset(physical_offset), size, tags_code

    def places(self, offset: int, count: int) -> None:
        """Return None: a unit stands for many messages."""

    def first_of(self, offset: int) -> QueueOffset:
        """Return the first offset of the unit that holds a message."""
        return QueueOffset(self._first(self._index(offset)))

    def stored_at_ms(self, offset: int) -> int:
        """Return the store time of the record that holds a message."""
        return self._at(self._index(offset))[3]

    def extended(self, code: int) -> ExtendedUnit | None:
        """Return None: units of batches are not extended."""

    def rejected(self, _codes: Sequence[int], _bits: OwnedBits) -> Set[int]:
        """Return nothing, for the same reason."""
        return frozenset()

    def after_unreadable(self, offset: int) -> QueueOffset:
        """Return where a reader goes on if the unit at `offset` is not there."""
        return QueueOffset(min(offset + 1, self.max_offset))

    def last_unit(self) -> tuple[PhysicalOffset, int, int] | None:
        """Return the last unit, None if there is none."""
        return None if self._stop == self._start else self.unit(self.max_offset - 1)

    # Writing.

    def append(self, run: Run[Q]) -> int:
        """Write the units of records at the end of the queue; see `FileQueue.append`."""
        if self.is_blank:
            self.begin(run.first)
        assert run.first == self.max_offset, "a message is missing"
        entries = run.entries
        units = b"".join([_packed(entry) for entry in entries])
        self.files.write(self._stop * UNIT_BYTES, units)
        self._stop += len(entries)
        self.max_offset = QueueOffset(entries[-1].next_offset)
        self.end = PhysicalOffset(run.end)
        return len(entries)

    def begin(self, offset: int) -> None:
        """Let an empty queue go on at `offset`."""
        self.min_offset = self.max_offset = QueueOffset(offset)
        if not self.files.segments:
            self.files.add(0)

    def fill_to(self, offset: int) -> int:
        """Leave out messages that are lost; return how many. Only the next unit makes it last."""
        missing = offset - self.max_offset
        if missing <= 0 or self.is_blank:
            return 0
        self.max_offset = QueueOffset(offset)
        return missing

    # Recovery and cleaning.

    def load(self, *, clean: bool, certain: int = ANYWHERE) -> LastUnit | None:
        """Take up the files and find the end of the queue; see `FileQueue.load`."""
        self.files.load()
        newest = self.files.segments[-_RECOVER_FILES:]
        self._doubtful = not clean
        self._stop = newest[0].start // UNIT_BYTES if newest else 0
        self._scan()
        self._find_end()
        self.min_offset = QueueOffset(self._first(self._start) if self._stop > self._start else 0)
        last = None if clean else self.truncate(certain)
        self.files.close()
        return last

    def _scan(self) -> None:
        """Move the end over the units that are there."""
        end, free = -1, 0
        limit = self.files.end // UNIT_BYTES
        index, self._stop = self._stop, limit
        while index < limit:
            data = self._read(index, _SCAN_UNITS)
            for place, size, _code, _at_ms, first, count, _, _ in BATCH_UNIT.iter_unpack(data):
                if place < max(end, 0) or size <= 0 or first < free or count <= 0:
                    self._stop = index
                    return
                end, free = place + size, first + count
                index += 1

    def _find_end(self) -> None:
        """Set physical end and next offset from the last unit."""
        self.end, self.max_offset = PhysicalOffset(-1), QueueOffset(0)
        if self._stop > self._start:
            place, size, _code, _at_ms, first, count, _, _ = self._at(self._stop - 1)
            self.end = PhysicalOffset(place + size)
            self.max_offset = QueueOffset(first + count)

    def _index_at(self, physical_offset: int) -> int:
        """Return the index of the first unit whose record lies at `physical_offset` or later."""
        indexes = range(self._stop)
        return bisect_left(indexes, physical_offset, lo=self._start, key=lambda i: self._at(i)[0])

    def correct_min(self, min_physical: PhysicalOffset) -> None:
        """Raise `min_offset` to the first message that the log still has."""
        if self.min_offset < self.max_offset and self._stop > self._start:
            index = self._index_at(min_physical)
            first = self._first(index) if index < self._stop else self.max_offset
            self.min_offset = QueueOffset(max(first, self.min_offset))

    def copy(self) -> "BatchQueue":
        """Return the same queue with handles of its own, to be read on another thread."""
        same = BatchQueue(self.topic, self.queue_id, self.files.copy())
        same.min_offset, same.max_offset, same.end = self.min_offset, self.max_offset, self.end
        same._stop = self._stop
        return same

    def clean_steps(self, min_offset: QueueOffset) -> Steps:
        """Raise the minimum, and delete the files that lie before it; the newest one stays."""
        self.min_offset = max(self.min_offset, min_offset)
        index = self._stop if self.min_offset >= self.max_offset else self._index(self.min_offset)
        yield from self.files.drop_before_steps(index * UNIT_BYTES)

    def truncate(self, physical_offset: int) -> LastUnit | None:
        """Take away the units of records at `physical_offset` or later; see `FileQueue`."""
        if self.end <= physical_offset and not self._doubtful:
            return None
        self._doubtful = False
        old, keep = self._stop, self._index_at(physical_offset)
        if keep == old:
            return None
        last = LastUnit(self.max_offset, self._at(old - 1)[0])
        first = self._first(keep)
        self.files.cut(keep * UNIT_BYTES, old * UNIT_BYTES)
        self._stop = keep
        self._find_end()
        if keep == self._start:
            self.max_offset = QueueOffset(first)
        self.min_offset = min(self.min_offset, self.max_offset)
        return last

    def wipe_behind_end(self) -> bool:
        """Zero what follows the end in its file, for RocketMQ's recovery takes it for units."""
        self.files.zero(self._stop * UNIT_BYTES, self.files.end)
        return True


def _packed(entry: Entry) -> bytes:
    return BATCH_UNIT.pack(
        entry.physical_offset,
        entry.size,
        entry.tags_code,
        entry.stored_at_ms,
        entry.queue_offset,
        entry.next_offset - entry.queue_offset,
        _NOT_COMPACTED,
        0,
    )
