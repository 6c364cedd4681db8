"""One file of the key index: a header, a table of hash slots, and units that form chains.

`40 bytes header · S slots of i32 · N units of 20 bytes`; see `docs/formats/index-file.md`. A slot
holds the number of its newest unit, a unit the number of the one before it in the same slot.

Theory of operation. Units are appended with one `pwrite` a round. The slot table of a file that is
written lies in memory, in the machine's byte order, in an anonymous mapping whose pages the
operating system gives out as they are touched. It goes to the disk when the file is full or the
index is closed. Until then it can be made again from the units, and after a crash it is.

Invariants

1. The header on the disk never counts a unit that was not synced before the header was written.
2. A header that says the file is full was written after the slots were synced. So after a crash a
   full file is good as it is, and any other one needs its slots made again.
3. A write that fails changes nothing in memory; the units it left behind are not counted.
"""

import mmap
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct, structs

from sprocket.base.disk import Disk, File, StepsTo, following, read_written
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.columns import Ints
from sprocket.rocketmq.geometry import (
    INDEX_HEADER_BYTES,
    INDEX_SLOT_BYTES,
    INDEX_UNIT_BYTES,
    IndexGeometry,
)
from sprocket.rocketmq.model.offsets import PhysicalOffset

HEADER = struct.Struct(">qqqqii")
HEADER_BYTES = HEADER.size
SLOT = struct.Struct(">i")
SLOT_BYTES = SLOT.size
INDEX_UNIT = struct.Struct(">iqii")
"""Hash, physical offset, seconds after the header's begin, number of the unit before."""
UNIT_BYTES = INDEX_UNIT.size
assert (HEADER_BYTES, SLOT_BYTES) == (INDEX_HEADER_BYTES, INDEX_SLOT_BYTES)
assert UNIT_BYTES == INDEX_UNIT_BYTES

SECONDS_MAX = 0x7FFF_FFFF
_PAGE_BYTES = 4 * KIB
_PAGE_SLOTS = _PAGE_BYTES // SLOT_BYTES
_CHUNK_SLOTS = 64 * KIB
_CHUNK_UNITS = 64 * KIB


_UNIT_TYPE = [("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("before", ">i4")]


class IndexHeader(Struct):
    """What a file says about itself, in the order of its bytes.

    Attributes:
        begin_at_ms: Store time of the first unit's message.
        end_at_ms: Store time of the message that was put last.
        begin_offset: Where the first unit's message lies in the log.
        end_offset: Where the message that was put last lies.
        slots_used: Slots that are not empty.
        next_unit: Number of the next unit; they count from 1.
    """

    begin_at_ms: int = 0
    end_at_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slots_used: int = 0
    next_unit: int = 1

    def encode(self) -> bytes:
        """Return the 40 bytes at the start of the file."""
        return HEADER.pack(*structs.astuple(self))

    @classmethod
    def decode(cls, data: bytes, units: int) -> "IndexHeader":
        """Read a header; one that makes no sense for a file of `units` counts as a blank one."""
        header = cls(*HEADER.unpack(data))
        if not 1 <= header.next_unit <= units or not 0 <= header.slots_used < header.next_unit:
            return cls()
        return header


class IndexFile:
    """One index file.

    Args:
        disk: Where it lies.
        path: The file, of the length that `geometry` says.
        geometry: How many slots and units it has.
        write: Whether it may be changed.

    Attributes:
        header: As in memory, which may be ahead of the disk.
    """

    def __init__(self, disk: Disk, path: str, geometry: IndexGeometry, *, write: bool) -> None:
        self.path = path
        self._disk = disk
        self._write = write
        self._slot_count = geometry.slots
        self._unit_count = geometry.units
        self._units_at = HEADER_BYTES + SLOT_BYTES * geometry.slots
        self._handle: File | None = None
        self._slots: memoryview | None = None
        self._dirty_pages = bytearray(-(-geometry.slots // _PAGE_SLOTS))
        self._written_header = b""
        self.header = IndexHeader()

    @property
    def _file(self) -> File:
        if self._handle is None:
            self._handle = self._disk.open(self.path, write=self._write)
        return self._handle

    def begin_behind(self, offset: int, at_ms: int) -> None:
        """Let a new file begin where the one before ends: place and store time of its last unit."""
        self.header.begin_offset = self.header.end_offset = offset
        self.header.begin_at_ms = self.header.end_at_ms = at_ms

    def load(self) -> None:
        """Read the header; slots are read by `prepare`, or when the first unit is put."""
        self.header = IndexHeader.decode(self._file.read(0, HEADER_BYTES), self._unit_count)

    def prepare(self) -> None:
        """Read the slots, if any is used."""
        if self.header.next_unit > 1:
            self._loaded_slots()

    @property
    def room(self) -> int:
        """How many units it can still take; one fewer than its units, for number 0 is not used."""
        return self._unit_count - self.header.next_unit

    @property
    def end(self) -> PhysicalOffset:
        """Where the message that was put last lies; -1 if there is none."""
        return PhysicalOffset(self.header.end_offset if self.header.next_unit > 1 else -1)

    # Putting.

    def put(self, hashes: Sequence[int], offsets: Sequence[int], times: Sequence[int]) -> int:
        """Put one unit for each key, as many as there is room for.

        Args:
            hashes: `abs_hash` of each key string.
            offsets: Where its message lies, not descending.
            times: Store time of its message in ms.

        Returns:
            How many were put.

        Raises:
            DiskFull, DiskFailed: None was put.
        """
        header, slots = self.header, self._loaded_slots()
        begin, first = header.begin_at_ms, header.next_unit
        newest: dict[int, int] = {}
        units: list[bytes] = []
        fresh_slots = 0
        for number, key_hash, offset, at_ms in zip(
            range(first, self._unit_count), hashes, offsets, times, strict=False
        ):
            slot = key_hash % self._slot_count
            before = newest.get(slot)
            if before is None:
                before = slots[slot]
                if not 0 < before < first:
                    before = 0
                    fresh_slots += 1
            seconds = min(max((at_ms - begin) // 1000, 0), SECONDS_MAX) if begin > 0 else 0
            units.append(INDEX_UNIT.pack(key_hash, offset, seconds, before))
            newest[slot] = number
            if number == 1:
                begin = at_ms
        if not units:
            return 0
        self._file.write([b"".join(units)], self._units_at + UNIT_BYTES * first)
        for slot, number in newest.items():
            slots[slot] = number
            self._dirty_pages[slot // _PAGE_SLOTS] = 1
        self._advance(offsets, times, fresh_slots, len(units))
        return len(units)

    def put_arrays(self, hashes: Ints, offsets: Ints, times: Ints) -> int:
        """Do what `put` does, with numpy: i64 arrays of one length in, the same bytes out."""
        header, slots = self.header, self._loaded_slots()
        first = header.next_unit
        count = min(len(hashes), self.room)
        if not count:
            return 0
        hashes, offsets, times = hashes[:count], offsets[:count], times[:count]
        table = np.frombuffer(slots, dtype=np.int32)
        own = hashes % self._slot_count
        numbers = np.arange(first, first + count, dtype=np.int32)
        before = table[own]
        before[(before <= 0) | (before >= first)] = 0
        # The number in the low bits keeps the order, and numbers sort faster than an argsort.
        low = count.bit_length()
        merged = np.sort((own << low) + np.arange(count))
        order, ordered = merged & ((1 << low) - 1), merged >> low
        same = ordered[1:] == ordered[:-1]
        if same.any():
            later, sooner = order[1:][same], order[:-1][same]
            fresh_slots = int(np.count_nonzero(before == 0) - np.count_nonzero(before[later] == 0))
            before[later] = numbers[sooner]
        else:
            fresh_slots = int(np.count_nonzero(before == 0))
        units = np.empty(count, dtype=_UNIT_TYPE)
        units["hash"] = hashes
        units["offset"] = offsets
        units["seconds"] = self._seconds(times)
        units["before"] = before
        self._file.write([units.tobytes()], self._units_at + UNIT_BYTES * first)
        table[own] = numbers  # of equal slots the last one stays
        np.frombuffer(self._dirty_pages, dtype=np.uint8)[own // _PAGE_SLOTS] = 1
        self._advance(offsets, times, fresh_slots, count)
        return count

    def _seconds(self, times: Ints) -> Ints:
        """Return seconds after begin; the first unit of a file still counts from the preset."""
        begin = self.header.begin_at_ms
        if self.header.next_unit > 1:
            if begin <= 0:
                return np.zeros_like(times)
            after: Ints = np.minimum(np.maximum(times - begin, 0) // 1000, SECONDS_MAX)
            return after
        seconds: Ints = np.clip((times - times[0]) // 1000, 0, SECONDS_MAX)
        if times[0] <= 0:
            seconds[:] = 0
        seconds[0] = min(max((int(times[0]) - begin) // 1000, 0), SECONDS_MAX) if begin > 0 else 0
        return seconds

    def _advance(
        self,
        offsets: "Sequence[int] | Ints",
        times: "Sequence[int] | Ints",
        fresh_slots: int,
        count: int,
    ) -> None:
        header = self.header
        if header.next_unit == 1:
            header.begin_offset, header.begin_at_ms = int(offsets[0]), int(times[0])
        header.end_offset, header.end_at_ms = int(offsets[count - 1]), int(times[count - 1])
        header.slots_used += fresh_slots
        header.next_unit += count

    # Finding.

    def catch_up(self) -> None:
        """For reading: take up, in memory, the units that neither header nor slots know yet.

        Units lie in the file as soon as they are put; header and slots follow later.
        """
        header = self.header
        low, high = header.next_unit, self._unit_count
        while low < high:
            middle = (low + high) // 2
            if any(self._unit(middle)):
                low = middle + 1
            else:
                high = middle
        if low > header.next_unit:
            if header.next_unit == 1:
                header.begin_offset = self._unit(1)[1]
            header.next_unit, header.end_offset = low, self._unit(low - 1)[1]
        self.rebuild_slots()

    def chain(self, key_hash: int) -> Iterator[tuple[PhysicalOffset, int]]:
        """Give the messages whose key has this hash, newest first.

        Gives:
            Physical offset, and store time in ms rounded down to a second after the file's begin.
        """
        slot = key_hash % self._slot_count
        if self._slots is not None:
            number = self._slots[slot]
        else:
            data = self._file.read(HEADER_BYTES + SLOT_BYTES * slot, SLOT_BYTES)
            (number,) = SLOT.unpack(data)
        above = self.header.next_unit
        file = self._file
        while 0 < number < above:
            at = self._units_at + UNIT_BYTES * number
            data = following(partial(file.read, at, UNIT_BYTES), self._unit_before)
            unit_hash, offset, seconds, before = INDEX_UNIT.unpack(data)
            if seconds < 0:
                return
            if unit_hash == key_hash:
                # The first unit's seconds count from the end of the file before this one.
                passed_ms = 1000 * seconds if number > 1 else 0
                yield PhysicalOffset(offset), self.header.begin_at_ms + passed_ms
            above, number = number, before

    def _unit_before(self, unit: bytes) -> tuple[int, int] | None:
        """Return position and size of the unit that a unit leads to, None if it is the last."""
        if len(unit) < UNIT_BYTES:
            return None
        _, _, _, before = INDEX_UNIT.unpack(unit)
        return (self._units_at + UNIT_BYTES * before, UNIT_BYTES) if before > 0 else None

    # The slot table.

    def _loaded_slots(self) -> memoryview:
        """Return the slot table in memory, read from the file at first use."""
        if self._slots is None:
            slots = self._blank_slots()
            if self.header.next_unit > 1:
                for first in range(0, self._slot_count, _CHUNK_SLOTS):
                    count = min(_CHUNK_SLOTS, self._slot_count - first)
                    data = read_written(
                        self._file, HEADER_BYTES + SLOT_BYTES * first, SLOT_BYTES * count
                    )
                    if data != bytes(len(data)):  # pages that stay untouched cost no memory
                        slots[first : first + count] = _swapped(data).cast("i")
            self._slots = slots  # only now: a read that failed leaves none
        return self._slots

    def _blank_slots(self) -> memoryview:
        return memoryview(mmap.mmap(-1, SLOT_BYTES * self._slot_count)).cast("i")

    def rebuild_slots(self) -> None:
        """Make the slot table again from the units that the header counts."""
        slots = self._slots = self._blank_slots()
        self._dirty_pages[:] = b"\1" * len(self._dirty_pages)
        for first in range(1, self.header.next_unit, _CHUNK_UNITS):
            count = min(_CHUNK_UNITS, self.header.next_unit - first)
            data = self._file.read(self._units_at + UNIT_BYTES * first, UNIT_BYTES * count)
            hashes = np.frombuffer(data, dtype=[("hash", ">i4"), ("rest", "V16")])["hash"]
            own = hashes.astype(np.int64) % self._slot_count
            # Of equal slots in one assignment the last one stays.
            np.frombuffer(slots, dtype=np.int32)[own] = np.arange(first, first + count)
        self.header.slots_used = int(np.count_nonzero(np.frombuffer(slots, dtype=np.int32)))

    def truncate(self, physical_offset: PhysicalOffset) -> int:
        """Take away the units of messages that lie at `physical_offset` or later.

        Returns:
            How many are gone.
        Durability: the header that no longer counts them is on the disk.
        """
        low, high = 1, self.header.next_unit
        while low < high:
            middle = (low + high) // 2
            if self._unit(middle)[1] >= physical_offset:
                high = middle
            else:
                low = middle + 1
        cut = self.header.next_unit - low
        if cut:
            self.header.next_unit = low
            if low > 1:
                _, offset, seconds, _ = self._unit(low - 1)
                self.header.end_offset = offset
                passed_ms = 1000 * seconds if low > 2 else 0
                self.header.end_at_ms = self.header.begin_at_ms + passed_ms
            else:
                self.header = IndexHeader()
            self.rebuild_slots()
            self._written_header = self.header.encode()
            self._file.write([self._written_header], 0)
            self._file.sync()
        return cut

    def _unit(self, number: int) -> tuple[int, int, int, int]:
        data = self._file.read(self._units_at + UNIT_BYTES * number, UNIT_BYTES)
        unit: tuple[int, int, int, int] = INDEX_UNIT.unpack(data)
        return unit

    # Flushing.

    def flush_steps(self, *, slots: bool) -> StepsTo[bool]:
        """Make durable the units that were put before this begins.

        Args:
            slots: Write the slot table as well, for a file that is full or a clean stop.

        Returns:
            Whether the header that counts all units is on the disk, too. It is written last,
            after the sync, so the next flush syncs it; with `slots`, when nothing may be put
            meanwhile, this one does.

        Raises:
            DiskFull: A write found no space; it may be tried again.
            DiskFailed: What reached the disk is unknown.
        """
        header = self.header.encode()
        file = self._file
        yield file.sync
        if slots:
            yield self._write_slots
            yield file.sync
        elif header == self._written_header:
            return header == self.header.encode()
        yield partial(file.write, [header], 0)
        self._written_header = header
        if slots:
            yield file.sync
        return slots

    def _write_slots(self) -> None:
        if self._slots is None:
            return
        page = self._dirty_pages.find(1)
        while page >= 0:
            after = self._dirty_pages.find(0, page)
            after = len(self._dirty_pages) if after < 0 else after
            part = self._slots[page * _PAGE_SLOTS : after * _PAGE_SLOTS]
            self._file.write([_swapped(part.tobytes())], HEADER_BYTES + page * _PAGE_BYTES)
            self._dirty_pages[page:after] = bytes(after - page)
            page = self._dirty_pages.find(1, after)

    def open(self) -> None:
        """Open the file, if it is not."""
        _ = self._file

    def let_go(self) -> None:
        """Forget the handle, which closes when nobody has it in hand; the next use opens anew."""
        self._handle = None

    def release(self) -> None:
        """Close the handle and give back the memory of the slots, which must be on the disk."""
        self._slots = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def _swapped(data: bytes) -> memoryview:
    """Return 32-bit numbers between the disk's byte order, big-endian, and the machine's."""
    numbers = array("i", data)
    assert numbers.itemsize == SLOT_BYTES
    if sys.byteorder == "little":
        numbers.byteswap()
    return memoryview(numbers).cast("B")
