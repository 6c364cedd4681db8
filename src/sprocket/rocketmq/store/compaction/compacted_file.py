"""One file of a compacted queue: records back to back, and beside it a unit for each.

Both files have the name of the address of the first record. A file that is full ends in a blank
record, and its units in one that says so. See `docs/formats/compaction-files.md`.

Invariants

1. Records lie back to back from the start of the file; each names its place, and their queue
   offsets grow. So a unit that is damaged can be made again from its record.
2. Units are written when their records are on the disk: what a unit says of is there.

Source: RocketMQ `CompactionLog`, `SparseConsumeQueue`.
"""

import operator
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from sprocket.base.disk import Disk, File, read_written
from sprocket.base.errors import FileMissing, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.record import Entry, keyed
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    HEAD,
    MAGIC_BLANK,
    PLACE,
    RECORD_BYTES_MIN,
)
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.queue import BATCH_UNIT, QueueKey

UNIT_BYTES = BATCH_UNIT.size
END_UNIT = BATCH_UNIT.pack(-1, 0, 0, 0, 0, 0, -1, 0)
"""Says that the file is full."""
PIECE_BYTES = MIB
"""Read at once of records that follow each other."""
WRONG_BYTES_MAX = 2
"""Bytes of a unit that may be wrong for it to be taken for the one that was written: one that was
torn lacks more."""
LOOK_UNITS = 64
"""Behind records that cannot be read so many units are looked at for one that can."""

_ROW = np.dtype(
    [
        *(("place", ">i8"), ("size", ">i4"), ("code", ">i8"), ("at_ms", ">i8")),
        *(("first", ">i8"), ("count", ">i2"), ("compacted", ">i4"), ("unused", ">i4")),
    ]
)
assert _ROW.itemsize == UNIT_BYTES


class CompactedFile(Struct, frozen=True):
    """The state of one file.

    Attributes:
        start: Address of its first byte.
        bytes: Of its records.
        count: How many there are.
        first: Queue offset of the first one.
        next_offset: The queue offset behind the last one.
        is_closed: No more come.
    """

    start: int
    bytes: int = 0
    count: int = 0
    first: int = 0
    next_offset: int = 0
    is_closed: bool = False

    @property
    def end(self) -> int:
        """The address behind the last record."""
        return self.start + self.bytes

    def with_entry(self, entry: Entry) -> "CompactedFile":
        """Return the file with one more record."""
        return replace(
            self,
            bytes=self.bytes + entry.size,
            count=self.count + 1,
            first=self.first if self.count else entry.queue_offset,
            next_offset=entry.next_offset,
        )


def unit_of(entry: Entry, place: int) -> bytes:
    """Return the unit of a record that lies at an address."""
    return BATCH_UNIT.pack(
        place,
        entry.size,
        entry.tags_code,
        entry.stored_at_ms,
        entry.queue_offset,
        entry.next_offset - entry.queue_offset,
        -1,
        0,
    )


class FoundFile(Struct, frozen=True):
    """A file as it is on the disk.

    Attributes:
        file: Its state.
        lacking: Units that were made again from records, and are to be written, by their index.
        rest: Bytes of units behind the last one that are not zero and do not say "full".
    """

    file: CompactedFile
    lacking: dict[int, bytes] = {}
    rest: bool = False


def look(
    disk: Disk,
    folders: QueueFolders,
    key: QueueKey,
    start: int,
    *,
    is_certain: bool,
    make_units: bool = True,
) -> FoundFile:
    """Find out what a file has.

    The ends are looked at, if it is certain that the units were written to their end; if not, or if
    the ends do not agree with the records, each unit, and records behind them.

    Args:
        disk: Where it lies.
        folders: Of its queue.
        key: The queue.
        start: The address that names it.
        is_certain: No crash may have torn the end of the file.
        make_units: Make units again that are damaged or missing; if not, the file ends there.

    Raises:
        DiskFailed: It cannot be read.
    """
    with closing(disk.open(folders.log_path(start))) as log:
        try:
            units = disk.open(folders.units_path(start))
        except FileMissing:
            return _walked(log, b"", folders, key, start, is_certain, make_units=make_units)
        with closing(units):
            if is_certain:
                found = _by_ends(log, units, folders, key, start)
                if found is not None:
                    return FoundFile(found)
            # Whole units: the last one ends in zeros, which may be none of the data.
            size = -(-units.data_end() // UNIT_BYTES) * UNIT_BYTES
            data = read_written(units, 0, min(size, folders.units_bytes))
            return _walked(log, data, folders, key, start, is_certain, make_units=make_units)


def _by_ends(
    log: File, units: File, folders: QueueFolders, key: QueueKey, start: int
) -> CompactedFile | None:
    """Return what a file has if its first and last units agree with its records, and end there."""

    def unit(index: int) -> tuple[int, ...]:
        data = units.read(index * UNIT_BYTES, UNIT_BYTES)
        return BATCH_UNIT.unpack(data.ljust(UNIT_BYTES, b"\0"))

    def is_absent(index: int) -> bool:
        place, size, _, _, first, count, _, _ = unit(index)
        return place < start or size < RECORD_BYTES_MIN or first < 0 or count < 1

    count = bisect_left(range(folders.count_max + 1), True, key=is_absent)
    file = CompactedFile(start)
    if count:
        first, last = unit(0), unit(count - 1)
        if first[0] != start or not all(_agrees(log, one, key, start) for one in (first, last)):
            return None
        end = last[0] + last[1] - start
        file = CompactedFile(start, end, count, first[4], last[4] + last[5])
    if file.bytes + BLANK_BYTES > folders.log_bytes:
        return None
    behind = log.read(file.bytes, BLANK_BYTES).ljust(BLANK_BYTES, b"\0")
    is_full = HEAD.unpack(behind)[1] == MAGIC_BLANK
    if any(behind) and not is_full:
        return None
    is_full = is_full or count >= folders.count_max or unit(count)[0] == -1
    return replace(file, is_closed=is_full)


def _agrees(log: File, unit: tuple[int, ...], key: QueueKey, start: int) -> bool:
    """Say whether a record is where a unit says, and is all that it says."""
    place, size, *_ = unit
    try:
        entry = keyed.read(log.read(place - start, size)).entry
    except WireError:
        return False
    is_own = (entry.topic, entry.queue_id, entry.physical_offset) == (*key, place)
    return is_own and is_unit_of(unit, entry)


def is_unit_of(unit: tuple[int, ...], entry: Entry) -> bool:
    """Say whether a unit is that of a record. RocketMQ's count one message of an inner batch."""
    expected = BATCH_UNIT.unpack(unit_of(entry, entry.physical_offset))
    *before, _count, compacted, unused = expected
    return unit in (expected, (*before, 1, compacted, unused))


def _walked(
    log: File,
    units: bytes,
    folders: QueueFolders,
    key: QueueKey,
    start: int,
    is_certain: bool,
    *,
    make_units: bool,
) -> FoundFile:
    """Return what a file has: units that follow each other, then records that are intact."""
    rows = np.frombuffer(units[: len(units) - len(units) % UNIT_BYTES], _ROW)
    count = _in_order(rows, start)
    if count and not _agrees(
        log, BATCH_UNIT.unpack_from(units, (count - 1) * UNIT_BYTES), key, start
    ):
        count -= 1  # nothing follows that it could contradict
    file = CompactedFile(start)
    if count:
        last = rows[count - 1]
        end = int(last["place"]) + int(last["size"]) - start
        next_offset = int(last["first"]) + int(last["count"])
        file = CompactedFile(start, end, count, int(rows[0]["first"]), next_offset)
        if file.bytes + BLANK_BYTES > folders.log_bytes:
            file, count = CompactedFile(start), 0
    lacking: dict[int, bytes] = {}
    while make_units and file.count < folders.count_max:
        entry = _next_record(log, units, file, folders, key, is_certain=is_certain)
        if entry is None:
            break
        place = entry.physical_offset
        lacking[file.count] = unit_of(entry, place)
        file = replace(file, bytes=place - start).with_entry(entry)
    behind = log.read(file.bytes, BLANK_BYTES).ljust(BLANK_BYTES, b"\0")
    rest = units[file.count * UNIT_BYTES :].rstrip(b"\0")
    is_full = HEAD.unpack(behind)[1] == MAGIC_BLANK or file.count >= folders.count_max
    is_marked = rest == END_UNIT.rstrip(b"\0")
    return FoundFile(
        replace(file, is_closed=is_full or is_marked), lacking, rest=bool(rest) and not is_marked
    )


def _in_order(rows: "np.ndarray[tuple[int], np.dtype[np.void]]", start: int) -> int:
    """Return how many units from the first on say of records that follow each other."""
    if not len(rows):
        return 0
    place, size, first, count = (
        rows[name].astype(np.int64) for name in ("place", "size", "first", "count")
    )
    wrong = (size < RECORD_BYTES_MIN) | (first < 0) | (count < 1)
    wrong |= (rows["compacted"] != -1) | (rows["unused"] != 0)
    wrong[0] |= place[0] != start
    wrong[1:] |= place[1:] != place[:-1] + size[:-1]
    wrong[1:] |= first[1:] < first[:-1] + count[:-1]
    return int(np.argmax(wrong)) if wrong.any() else len(rows)


def _next_record(
    log: File,
    units: bytes,
    file: CompactedFile,
    folders: QueueFolders,
    key: QueueKey,
    *,
    is_certain: bool,
) -> Entry | None:
    """Return the record that follows in a file, or the next one that units know behind it."""
    for index in range(file.count, file.count + LOOK_UNITS):
        unit = units[index * UNIT_BYTES : (index + 1) * UNIT_BYTES]
        place = file.end
        if index > file.count:
            if len(unit) < UNIT_BYTES:
                return None
            place = BATCH_UNIT.unpack(unit)[0]
            if not file.end < place < file.start + folders.log_bytes:
                continue
        stored = _record_at(log, place, file, folders, key)
        if stored is None:
            continue
        entry = keyed.read(stored).entry
        wrong = sum(map(operator.ne, unit, unit_of(entry, place)))
        has_unit = len(unit) == UNIT_BYTES and wrong <= WRONG_BYTES_MAX
        if is_certain or has_unit or keyed.has_right_tail(stored):
            return entry
    return None


def _record_at(
    log: File, place: int, file: CompactedFile, folders: QueueFolders, key: QueueKey
) -> bytes | None:
    """Return the record at an address if it is one of the queue that may follow in a file.

    After a crash it may be a torn one all the same. It is whole if it has a tail that fits, or if
    its unit is there but for a few bits.
    """
    at = place - file.start
    head = log.read(at, PLACE.size)
    if len(head) < PLACE.size:
        return None
    size, _magic, queue_id, offset, own_place = PLACE.unpack(head)
    fits = RECORD_BYTES_MIN <= size <= folders.log_bytes - BLANK_BYTES - at
    follows = not file.count or offset >= file.next_offset
    if not fits or not follows or queue_id != key[1] or own_place != place:
        return None
    stored = log.read(at, size)
    try:
        entry = keyed.read(stored, check_crc=True).entry
    except WireError:
        return None
    return stored if entry.topic == key[0] else None


class StoredRecord(Struct, frozen=True, gc=False):
    """A record of a file: what compaction needs to know of it, and its bytes."""

    known: keyed.KeyedRecord
    stored: memoryview


class RecordPiece(Struct, frozen=True):
    """Records that follow each other.

    Attributes:
        records: What they are.
        next_place: The address where to go on; that of the end of the file if they are the last.
        damaged: How many times something was passed over that is not a record.
    """

    records: list[StoredRecord]
    next_place: int
    damaged: int = 0


def read_piece(
    disk: Disk, folders: QueueFolders, key: QueueKey, file: CompactedFile, place: int
) -> RecordPiece:
    """Read records of a file from an address on.

    Where one is damaged its unit, or the next one that leads to a record, says where to go on.

    Args:
        disk: Where it lies.
        folders: Of its queue.
        key: The queue.
        file: The file.
        place: Where a record begins.

    Raises:
        DiskFailed: It cannot be read.
    Threads: any.
    """
    with closing(disk.open(folders.log_path(file.start))) as log:
        at, end = place - file.start, file.bytes
        data = memoryview(log.read(at, min(PIECE_BYTES, end - at)))
        found = list(_records(data, place, key))
        done = sum(len(one.stored) for one in found)
        if found:
            return RecordPiece(found, place + done)
        (size,) = (int.from_bytes(data[:4], "big", signed=True),)
        if len(data) < size <= end - at:  # it is larger than a piece
            whole = memoryview(log.read(at, size))
            found = list(_records(whole, place, key))
            if found:
                return RecordPiece(found, place + size)
        with closing(disk.open(folders.units_path(file.start))) as units:
            return RecordPiece([], _place_behind(units, file, place), damaged=1)


def _records(data: memoryview, place: int, key: QueueKey) -> Iterator[StoredRecord]:
    """Give whole records from the start of some bytes on, as far as they are the queue's."""
    at = 0
    while at <= len(data) - RECORD_BYTES_MIN:
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not RECORD_BYTES_MIN <= size <= len(data) - at:
            return
        stored = data[at : at + size]
        try:
            known = keyed.read(stored)
        except WireError:
            return
        entry = known.entry
        if (entry.topic, entry.queue_id, entry.physical_offset) != (*key, place + at):
            return
        yield StoredRecord(known, stored)
        at += size


def _place_behind(units: File, file: CompactedFile, place: int) -> int:
    """Return the address of the first record behind one, as units say it, or the file's end."""
    data = read_written(units, 0, file.count * UNIT_BYTES)
    places = np.frombuffer(data, _ROW)["place"].astype(np.int64)
    behind = places[(places > place) & (places < file.end)]
    return int(behind.min()) if len(behind) else file.end


def units_of(disk: Disk, folders: QueueFolders, key: QueueKey, file: CompactedFile) -> bytes:
    """Return the units that the records of a file should have; for arguments see `read_piece`.

    Raises:
        DiskFailed: They cannot be read.
    Threads: any.
    """
    units: list[bytes] = []
    place = file.start
    while place < file.end:
        piece = read_piece(disk, folders, key, file, place)
        entries = [one.known.entry for one in piece.records]
        units += [unit_of(entry, entry.physical_offset) for entry in entries]
        place = piece.next_place
    return b"".join(units)
