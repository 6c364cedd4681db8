"""Ranges of queues: units that are put at their places in any order, and joined afterwards.

A large log is made into queues by many at once, each of whom has a part of it. The unit of queue
offset n lies at byte n * 20, so nobody needs to know what others write.

Theory of operation

1. A `RangeWriter` puts the units of one part of the log at their places, and tells which
   ranges of which queues these are.
2. A `JoinedQueue` joins the ranges of one queue in the order of the log. It says which of them
   the queue consists of: where offsets begin anew at 0 the topic was deleted and made again, and
   what was before does not count; an offset that is there already does not count either. Then
   units have been written over each other, and the queue has to be put again, into an empty
   folder, by writers that keep to its ranges.
3. `complete` writes fillers where no range is, gives the files their length, and compares what
   they hold with the sums that the writers told: on a disk that machines share each has seen its
   own writes only.

The result is what `recovery.rebuild` makes of a whole log, in order. Only queues of plain units can
be made in this way, see `Queue.is_plain`.

Invariants

1. What a writer writes depends only on its part of the log and on the ranges that are kept. So it
   may be written twice, and by two at once.
2. Nothing is written to a file beside units and fillers at their places.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sprocket.base.disk import Disk, File, segment_name
from sprocket.base.errors import CorruptRecord, DiskFailed
from sprocket.rocketmq.codec.columns import Ints, Mask
from sprocket.rocketmq.store.layout import check_topic
from sprocket.rocketmq.store.queue.queue import (
    FILLER,
    FILLER_SIZE,
    UNIT_BYTES,
    UNIT_TYPE,
    QueueKey,
)
from sprocket.rocketmq.store.queue.runs import UnitBatch, UnitColumns

PENDING_MAX = 1 << 19
"""Units that are written at once, 20 MB of them: some for each of very many queues."""
RANGES_MAX = 100_000
"""Of one queue in one part of a log. No broker leaves so many gaps."""
FILLERS_MAX = 1 << 24
"""In one gap of a queue, 335 MB of them. In a larger one the offset of a record is wrong."""
CHUNK_UNITS = 1 << 16

_CHECK_MASK = (1 << 63) - 1
_FACTORS = (
    np.uint64(0x9E37_79B9_7F4A_7C15),
    np.uint64(0xC2B2_AE3D_27D4_EB4F),
    np.uint64(0x1656_67B1_9E37_79F9),
)
"""Odd numbers whose bits look random, so that no two wrong fields make up for each other."""


class UnitRange(NamedTuple):
    """Units of one queue whose offsets follow each other.

    Attributes:
        first: Queue offset of the first.
        next_offset: That behind the last.
        start: Where the record of the first lies.
        end: Where the record of the last ends.
        check: A sum of all units, of 63 bits; those of ranges add up.
    """

    first: int
    next_offset: int
    start: int
    end: int
    check: int

    def joined(self, following: "UnitRange") -> "UnitRange":
        """Return this range and the one that follows it as one."""
        assert following.first == self.next_offset
        check = (self.check + following.check) & _CHECK_MASK
        return UnitRange(self.first, following.next_offset, self.start, following.end, check)


class JoinedQueue:
    """What one queue consists of, told by its ranges in the order of the log.

    Attributes:
        ranges: Those that count, in order. From where one's first record lies up to where its
            last one ends, the log has no other record of the queue.
        is_settled: No unit was written over another one.
    """

    __slots__ = ("_ends_here", "is_settled", "ranges")

    def __init__(self, ranges: Sequence[UnitRange] = ()) -> None:
        self.ranges = list(ranges)
        self.is_settled = True
        self._ends_here = False  # what comes does not belong to the last range

    def add(self, span: UnitRange) -> None:
        """Add the next range of the log."""
        reached = self.next_offset
        if self.ranges and not span.first:  # its topic was made again
            self.ranges, self.is_settled, self._ends_here = [], False, False
        elif span.first < reached:
            self.is_settled, self._ends_here = False, True
            if span.next_offset <= reached:
                return
            span = span._replace(first=reached)
        if self.ranges and span.first == reached and not self._ends_here:
            self.ranges[-1] = self.ranges[-1].joined(span)
        else:
            self.ranges.append(span)
            self._ends_here = False

    @property
    def first(self) -> int:
        """Queue offset of the first unit."""
        return self.ranges[0].first

    @property
    def next_offset(self) -> int:
        """Queue offset behind the last one, 0 without any."""
        return self.ranges[-1].next_offset if self.ranges else 0

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """The offsets between ranges: each gap's first, and the one behind its last."""
        return [(one.next_offset, other.first) for one, other in pairwise(self.ranges)]

    def keeps(self, units: UnitColumns) -> Mask:
        """Tell which of some units count."""
        keep: Mask = np.zeros(len(units.size), np.bool_)
        place, offset = units.physical_offset, units.queue_offset
        for one in self.ranges:
            in_log = (one.start <= place) & (place < one.end)
            keep |= in_log & (one.first <= offset) & (offset < one.next_offset)
        return keep


class RangeWriter:
    """Puts the units of one part of a log at their places.

    Args:
        disk: Where.
        folder: The folder of all queues, in which every writer writes.
        units_per_file: As `QueueGeometry` has it.
        kept: Only what these keep is put; None puts everything.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        units_per_file: int,
        kept: Mapping[QueueKey, JoinedQueue] | None = None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._units_per_file = units_per_file
        self._kept = kept
        self._pending: list[UnitBatch] = []
        self._ranges: dict[QueueKey, list[UnitRange]] = {}

    def put(self, units: UnitBatch) -> None:
        """Take up the next units of this part of the log.

        Raises:
            CorruptRecord: A record has a queue offset that none can have.
            DiskFull, DiskFailed: The part is to be put again, by a new writer.
        """
        self._pending.append(units)
        if sum(map(len, self._pending)) >= PENDING_MAX:
            self._write()

    def close(self) -> Iterator[tuple[QueueKey, UnitRange]]:
        """Write what is left; give the ranges, those of a queue in the order of the log.

        Durability: none before `complete`.
        """
        self._write()
        for key, ranges in self._ranges.items():
            for span in ranges:
                yield key, span

    def _write(self) -> None:
        if not self._pending:
            return
        joined = UnitBatch.joined(self._pending)
        self._pending = []
        for key, units in joined.by_queue():
            if self._kept is None:
                self._put(key, units)
            elif key in self._kept:
                keep = self._kept[key].keeps(units)
                self._put(key, UnitColumns(*(column[keep] for column in units)))

    def _put(self, key: QueueKey, units: UnitColumns) -> None:
        """Write the units of one queue; they follow each other in the log."""
        known = self._ranges.setdefault(key, [])
        ends = np.flatnonzero(np.diff(units.queue_offset) != 1) + 1
        bounds = [0, *ends.tolist(), len(units.size)]
        if len(known) + len(bounds) > RANGES_MAX:
            raise CorruptRecord(
                f"queue {key[0]}/{key[1]}: more than {RANGES_MAX:,} gaps before the record at"
                f" {units.physical_offset[-1]}"
            )
        for start, stop in pairwise(bounds):
            if start == stop:
                continue
            part = units.part(start, stop)
            span = self._placed(key, part)
            if known and known[-1].next_offset == span.first:
                known[-1] = known[-1].joined(span)
            else:
                known.append(span)

    def _placed(self, key: QueueKey, units: UnitColumns) -> UnitRange:
        """Write units whose offsets follow each other."""
        first, place = int(units.queue_offset[0]), int(units.physical_offset[0])
        next_offset = first + len(units.size)
        if first < 0 or (next_offset + self._units_per_file) * UNIT_BYTES >> 63:
            raise CorruptRecord(
                f"queue {key[0]}/{key[1]}: the record at {place} cannot have queue offset {first}"
            )
        folder = f"{self._folder}/{check_topic(key[0])}/{key[1]}"
        self._disk.make_folder(folder, durable=False)
        data = memoryview(_packed(units))
        for start, position, count in _in_files(first, next_offset, self._units_per_file):
            file = _opened(self._disk, folder, start, self._units_per_file)
            try:
                file.write([data[: count * UNIT_BYTES]], position)
            finally:
                file.close()
            data = data[count * UNIT_BYTES :]
        end = int(units.physical_offset[-1] + units.size[-1])
        check = _check(units.queue_offset, units.physical_offset, units.size, units.tags_code)
        return UnitRange(first, next_offset, place, end, check)


def complete(
    disk: Disk, folder: str, units_per_file: int, key: QueueKey, queue: JoinedQueue
) -> int:
    """Make one queue whole, of which every unit was put by some writer, and compare it.

    Args:
        disk: Where.
        folder: The folder of all queues.
        units_per_file: As `QueueGeometry` has it.
        key: The queue.
        queue: It is settled.

    Returns:
        How many fillers stand for messages that are lost.

    Raises:
        CorruptRecord: A gap is larger than any that damage leaves.
        DiskFailed: The files do not hold what was written to them.
        DiskFull: There is no space for them.
    Durability: the files are on the disk; their names after a `sync_tree` of the folder.
    """
    assert queue.is_settled
    name = f"{key[0]}/{key[1]}"
    own = f"{folder}/{check_topic(key[0])}/{key[1]}"
    lost = 0
    for (start, stop), after in zip(queue.gaps, queue.ranges[1:], strict=True):
        if stop - start > FILLERS_MAX:
            raise CorruptRecord(
                f"queue {name} ends at {start}, and the record at {after.start} says that it is"
                f" number {stop}: one of the two is damaged"
            )
        lost += stop - start
    begin = queue.first - queue.first % units_per_file
    for start, stop in [(begin, queue.first), *queue.gaps]:
        _fill(disk, own, units_per_file, start, stop)
    check = fillers = 0
    for start, position, count in _in_files(begin, queue.next_offset, units_per_file):
        assert not position, "a queue begins with a file"
        file = _opened(disk, own, start, units_per_file)
        try:
            if file.size() != units_per_file * UNIT_BYTES:  # its maker died
                file.resize(units_per_file * UNIT_BYTES)
            found = _found(file, start, count)
            file.sync()
        finally:
            file.close()
        check, fillers = (check + found[0]) & _CHECK_MASK, fillers + found[1]
    expected = sum(one.check for one in queue.ranges) & _CHECK_MASK
    if (check, fillers) != (expected, lost + queue.first - begin):
        raise DiskFailed(
            f"{own}: the units from {queue.first} to {queue.next_offset} are not those that were"
            " written; does every machine see the same folder?",
            own,
        )
    return lost


def fill(
    disk: Disk, folder: str, units_per_file: int, key: QueueKey, start: int, stop: int
) -> None:
    """Put fillers at the end of a queue that is complete, in place of its offsets from `start` on.

    Raises:
        DiskFull, DiskFailed: They may be put again.
    Durability: as `complete`.
    """
    _fill(disk, f"{folder}/{check_topic(key[0])}/{key[1]}", units_per_file, start, stop, sync=True)


def _fill(
    disk: Disk, folder: str, units_per_file: int, first: int, stop: int, *, sync: bool = False
) -> None:
    """Write fillers from one queue offset up to another."""
    for start, position, count in _in_files(first, stop, units_per_file):
        file = _opened(disk, folder, start, units_per_file)
        try:
            for done in range(0, count, CHUNK_UNITS):
                part = FILLER * min(CHUNK_UNITS, count - done)
                file.write([part], position + done * UNIT_BYTES)
            if sync:
                file.sync()
        finally:
            file.close()


def _in_files(first: int, stop: int, units_per_file: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range of offsets by files: offset of the file, position in it, count of units."""
    while first < stop:
        start = first - first % units_per_file
        count = min(start + units_per_file, stop) - first
        yield start, (first - start) * UNIT_BYTES, count
        first += count


def _opened(disk: Disk, folder: str, start: int, units_per_file: int) -> File:
    """Open the file that begins with a queue offset, or make it."""
    path = f"{folder}/{segment_name(start * UNIT_BYTES)}"
    return disk.open(path, write=True, create=True, size=units_per_file * UNIT_BYTES)


def _packed(units: UnitColumns) -> bytes:
    made = np.empty(len(units.size), UNIT_TYPE)
    for name, _ in UNIT_TYPE:
        made[name] = getattr(units, name)
    return made.tobytes()


def _found(file: File, first: int, count: int) -> tuple[int, int]:
    """Return the sum of the units that a file holds, and how many fillers are among them.

    Args:
        file: The file.
        first: Queue offset of its first unit.
        count: Units to look at.
    """
    check = fillers = 0
    for done in range(0, count, CHUNK_UNITS):
        size = min(CHUNK_UNITS, count - done)
        units = np.frombuffer(file.read(done * UNIT_BYTES, size * UNIT_BYTES), UNIT_TYPE)
        offset = np.arange(first + done, first + done + len(units))
        own = units["size"] != FILLER_SIZE
        fillers += len(units) - int(np.count_nonzero(own))
        columns = (units[name][own].astype(np.int64) for name, _ in UNIT_TYPE)
        check += _check(offset[own], *columns)
    return check & _CHECK_MASK, fillers


def _check(offset: Ints, place: Ints, size: Ints, code: Ints) -> int:
    """Return the sum of some units."""
    words: npt.NDArray[np.uint64] = np.uint64(2) * offset.view(np.uint64) + np.uint64(1)
    mixed = np.zeros(len(words), np.uint64)
    for column, factor in zip((place, size, code), _FACTORS, strict=True):
        mixed ^= np.ascontiguousarray(column).view(np.uint64) * factor
    return int((mixed * words).sum(dtype=np.uint64)) & _CHECK_MASK
