"""One consume queue in files: a row of units of 20 bytes that say where its messages lie.

The unit (`engine`) of queue offset n is at byte n * 20 of the queue's address space, which is
divided into files of one size. `file_queues`, which keeps all queues of a store, says in its
docstring what a queue promises. See `docs/formats/consume-queue.md`.
"""

from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import NamedTuple

from sprocket.base.disk import Steps
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.base.units import KIB
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.queue.extension import ExtendedUnit, Extension, is_address
from sprocket.rocketmq.store.queue.queue import (
    FILLER,
    FILLER_SIZE,
    QUEUE_UNIT,
    UNIT_BYTES,
    LastUnit,
    UnitPlaces,
    UnitRead,
    behind_fillers,
    places_of,
)
from sprocket.rocketmq.store.queue.queue_files import QueueFiles
from sprocket.rocketmq.store.queue.runs import Q, Run

_AHEAD_UNITS = 256
"""So many are read at once: eight times what a consumer asks for mostly. They are kept for each of
the files that are open, 5 KiB, and to read them takes no longer than to read a few."""
_SCAN_BYTES = 64 * KIB // UNIT_BYTES * UNIT_BYTES
LAST_BYTES = -(-4 * KIB // UNIT_BYTES) * UNIT_BYTES
"""What is looked at of a queue after a crash: mostly the only page that its file has."""


class Ends(NamedTuple):
    """Where a queue begins and ends: starts of its files in bytes, and what `FileQueue` has."""

    first_file: int
    last_file: int
    min_offset: int
    max_offset: int
    end: int
    corrected_to: int


class FileQueue:
    """One queue. Offsets are queue offsets (units) unless they are called physical.

    Attributes:
        files: Where its units lie.
        min_offset: First offset that may be read.
        max_offset: Offset of the next message; `min_offset` of a queue that was never written.
        end: Physical end of the last message, -1 without one.
    """

    __slots__ = (
        "_corrected_to",
        "_extension",
        "_rest_end",
        "_units_per_file",
        "end",
        "files",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    unit_bytes = UNIT_BYTES

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: QueueFiles,
        units_per_file: int,
        extension: Extension | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self.end = PhysicalOffset(-1)
        self.files = files
        self._units_per_file = units_per_file
        self._extension = extension
        self._rest_end = 0
        self._corrected_to = -1

    @property
    def all_files(self) -> tuple[QueueFiles, ...]:
        """All that it has on the disk, in the order in which it is to be synced."""
        return (self.files,) if self._extension is None else (self._extension.files, self.files)

    @property
    def is_plain(self) -> bool:
        """Whether a record's unit holds no more than place, size and tags code."""
        return self._extension is None

    @property
    def is_blank(self) -> bool:
        """Whether it holds no unit at all, not even a filler, so that it may begin anywhere."""
        # Only the first offset of a file can be it; asking for the file takes longer.
        return self.max_offset % self._units_per_file == 0 and self.max_offset == self.first_kept

    @property
    def first_kept(self) -> QueueOffset:
        """The offset at which the oldest file begins; units from here on can be looked at."""
        return QueueOffset(self.files.first // UNIT_BYTES)

    def read(self, offset: int, count: int) -> memoryview:
        """Return up to `count` units from `offset` on, as they lie in one file.

        Args:
            offset: First unit wanted.
            count: Most units wanted, at least 1.

        Returns:
            Whole units; fewer than `count` at the end of the queue or of a file. Where a file was
            cut short they are absent, which is all zeros.

        Raises:
            OffsetTooSmall: The file that held `offset` is gone.
            OffsetTooLarge: `offset` is at the end or behind it.
        """
        position = offset * UNIT_BYTES
        size = min(min(count, self._left(offset)) * UNIT_BYTES, self.files.left(position))
        return memoryview(_whole(self.files.read(position, size), size))

    def _left(self, offset: int) -> int:
        """Return how many units there are from `offset` on; errors as `read`."""
        left = self.max_offset - offset
        if left <= 0:
            raise OffsetTooLarge(offset, self.max_offset)
        if offset < self.min_offset and offset < self.first_kept:  # mostly the first says no
            raise OffsetTooSmall(offset, self.first_kept)
        return left

    def units(self, offset: int, count: int) -> list[UnitRead]:
        """Return up to `count` units from `offset` on; see `queue.Queue`."""
        units = QUEUE_UNIT.iter_unpack(self.read(offset, count))
        return [(n, place, size, code, 1) for n, (place, size, code) in enumerate(units, offset)]

    def places(self, offset: int, count: int) -> UnitPlaces:
        """Return where the records of up to `count` units lie; see `queue.Queue`."""
        left = self.max_offset - offset
        if left < count or offset < self.min_offset:
            left = self._left(offset)
            count = min(count, left)
        ahead = min(_AHEAD_UNITS, left) * UNIT_BYTES
        position, size = offset * UNIT_BYTES, count * UNIT_BYTES
        units = self.files.read_on(position, size, ahead)
        if len(units) < size:
            return places_of(_whole(units, min(size, self.files.left(position))))
        return places_of(units)

    def first_of(self, offset: int) -> QueueOffset:
        """Return `offset`: each message has its own unit."""
        return QueueOffset(offset)

    def stored_at_ms(self, offset: int) -> int | None:
        """Return None: the log knows."""

    def extended(self, code: int) -> ExtendedUnit | None:
        """Return what a unit's code leads to, if it is the address of an extended one."""
        return self._extension.get(code) if self._extension is not None else None

    def rejected(self, codes: Sequence[int], bits: OwnedBits) -> Set[int]:
        """Return the codes whose bit maps reject their messages; see `queue.Queue`."""
        return frozenset() if self._extension is None else self._extension.rejected(codes, bits)

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return physical offset, record size and tags code of one unit; errors as `read`."""
        physical_offset, size, tags_code = QUEUE_UNIT.unpack(self.read(offset, 1))
        return PhysicalOffset(physical_offset), size, tags_code

    def last_unit(self) -> tuple[PhysicalOffset, int, int] | None:
        """Return the last unit that is not a filler, None if there is none."""
        units = map(self.unit, range(self.max_offset - 1, self.first_kept - 1, -1))
        return next((unit for unit in units if unit[1] != FILLER_SIZE), None)

    def after_unreadable(self, offset: int) -> QueueOffset:
        """Return the first offset of the file after the one that `offset` belongs to."""
        return QueueOffset(offset + self._units_per_file - offset % self._units_per_file)

    # Writing.

    def append(self, run: Run[Q]) -> int:
        """Write units at the end of the queue, one write a file; return how many they are.

        Raises:
            DiskFull, DiskFailed: None of them counts; they may be put again.
        """
        if self.is_blank:
            self.begin(run.first)
        assert run.first == self.max_offset, "a unit never stands elsewhere"
        if self._extension is None:
            units = run.units()
        else:
            self._extension.go_to(self._last_address())
            entries = run.entries
            codes = self._extension.put(entries)
            pairs = zip(entries, codes, strict=True)
            units = b"".join(
                [QUEUE_UNIT.pack(e.physical_offset, e.size, code) for e, code in pairs]
            )
        self._write(units)
        self.end = PhysicalOffset(run.end)
        return len(units) // UNIT_BYTES

    def fill_to(self, offset: int) -> int:
        """Put fillers for messages that are lost, so that the next one may be `offset`.

        Returns:
            How many were put.
        """
        missing = offset - self.max_offset
        if missing <= 0:
            return 0
        if self.is_blank:
            self.begin(offset)
        else:
            self._write(FILLER * missing)
        return missing

    def begin(self, offset: int) -> None:
        """Let a blank queue go on at `offset`: what its first file holds before was never here."""
        start = offset - offset % self._units_per_file
        if self.files.segments and start != self.first_kept:
            self.files.drop_from(0)
        if not self.files.segments:
            self.files.add(start * UNIT_BYTES)
        self.max_offset = QueueOffset(start)
        self._write(FILLER * (offset - start))
        self.min_offset = QueueOffset(offset)
        self._corrected_to = PhysicalOffset(0)  # it has nothing from before

    def _write(self, units: bytes) -> None:
        """Write units at the end, but not those that are there since before a crash.

        These are synced with all else of that time by the next `FileQueues.flush`.
        """
        position = self.max_offset * UNIT_BYTES
        if units and (position >= self._rest_end or not self.files.has(position, units)):
            self.files.write(position, units)
        self.max_offset = QueueOffset(self.max_offset + len(units) // UNIT_BYTES)

    # Recovery and cleaning.

    def ends(self) -> Ends:
        """Return what `resume` wants to know."""
        return Ends(
            self.files.first,
            self.files.last,
            self.min_offset,
            self.max_offset,
            self.end,
            self._corrected_to,
        )

    def resume(self, ends: Ends) -> None:
        """Take up files that are as they were when `ends` told of them, without a look at them."""
        self.files.adopt(ends.first_file, ends.last_file)
        self.min_offset = QueueOffset(ends.min_offset)
        self.max_offset = QueueOffset(ends.max_offset)
        self.end = PhysicalOffset(ends.end)
        self._corrected_to = ends.corrected_to
        self._load_extension()

    def _load_extension(self) -> None:
        if self._extension is not None and self._extension.files.load():
            self._extension.go_to(self._last_address())
            self._extension.files.close()

    def load(self, *, clean: bool, certain: int = ANYWHERE) -> LastUnit | None:
        """Take up the files and find the end of the queue.

        It lies in the last file whose forerunner is full, at the first unit that is absent or does
        not lie behind the one before it; whatever follows is not part of the queue. After a clean
        stop that file is looked through. After a crash only the end of what was ever written of it
        is, or what a search by halves finds if that is empty: units from before the crash are
        certain, and of those that are not none is taken up. They stay on the disk, where mostly
        the same are put again, until `wipe_behind_end`.

        Args:
            clean: The last stop was clean.
            certain: Where in the log units stop being certain.

        Returns:
            As `truncate`.
        """
        self.end = PhysicalOffset(-1)
        self._rest_end = 0
        last = None
        has_files = self.files.load()
        self.min_offset = self.max_offset = self.first_kept
        if has_files:
            start = self._last_file()
            stop = self.files.hold_end(start, UNIT_BYTES, LAST_BYTES)
            first = start if clean else self._last_page(start, stop)
            place = self._scan(first, stop)
            if self.end < 0:
                self._find_end()
            if self.end > certain:
                last = self._cut(certain)
            if last is not None:
                self._rest_end = max(self._rest_end, last.max_offset * UNIT_BYTES)
            if first > self.files.first or place is None or last is not None:
                self.min_offset = self._after_fillers(self.min_offset)
                place = 0 if self.min_offset == self.max_offset else self.unit(self.min_offset)[0]
            self._corrected_to = place
            if clean:
                self._rest_end = 0  # nothing of it is used, and nothing wiped
        self._load_extension()
        if self._rest_end:
            self.files.close_but_hold(self.max_offset * UNIT_BYTES)
        else:
            self.files.close()
        return last

    def _last_file(self) -> int:
        """Return where the file begins in which the queue ends: the one before it is full."""
        last = self.files.last
        while last > self.files.first and not self._is_present(last // UNIT_BYTES - 1):
            last -= self._units_per_file * UNIT_BYTES
            self._rest_end = self.files.end
        return last

    def _last_page(self, start: int, stop: int) -> int:
        """Return a position from which on to look for the end of a file's units."""
        page = stop - LAST_BYTES
        if page <= start:
            return start
        first, page = start // UNIT_BYTES, page // UNIT_BYTES
        if not self._is_present(page):
            absent = bisect_left(range(page), True, lo=first, key=lambda n: not self._is_present(n))
            page = max(first, absent - 1)
        return page * UNIT_BYTES

    def _is_present(self, offset: int) -> bool:
        """Say whether there is a unit in the file, in or behind the queue."""
        return _present(self.files.read(offset * UNIT_BYTES, UNIT_BYTES), -1)[0] > 0

    def _scan(self, position: int, stop: int) -> int | None:
        """Move `max_offset` and `end` over the units that are there.

        Returns:
            Where the message of the first one lies; None if that is a filler, or there is none.
        """
        first, rest = position, b""
        place: int | None = None
        while position < stop and not rest:
            data = self.files.read(position, min(_SCAN_BYTES, stop - position))
            present, end = _present(data, self.end)
            self.end = PhysicalOffset(end)
            if position == first and present:
                place, size, _ = QUEUE_UNIT.unpack_from(data)
                place = None if size == FILLER_SIZE else place
            position += present * UNIT_BYTES
            rest = data[present * UNIT_BYTES :]
        self.max_offset = QueueOffset(position // UNIT_BYTES)
        if position + len(rest) < stop or rest != bytes(len(rest)):
            self._rest_end = self.files.end
        return place

    def _find_end(self) -> None:
        """Set `end` from the last unit that is not a filler."""
        last = self.last_unit()
        self.end = PhysicalOffset(-1 if last is None else last[0] + last[1])

    def _last_address(self) -> int | None:
        """Return the address that the last extended unit has, None if no unit is one.

        Looks at one unit, but at all of a queue that was never extended.
        """
        codes = (self.unit(n)[2] for n in range(self.max_offset - 1, self.first_kept - 1, -1))
        return next(filter(is_address, codes), None)

    def _after_fillers(self, offset: int) -> QueueOffset:
        """Return the first offset from `offset` on whose unit is not a filler."""
        count = 1  # nearly always it is the first
        while offset < self.max_offset:
            units = self.read(offset, count)
            count = _SCAN_BYTES // UNIT_BYTES
            for _, size, _ in QUEUE_UNIT.iter_unpack(units):
                if size != FILLER_SIZE:
                    return QueueOffset(offset)
                offset += 1
        return QueueOffset(offset)

    def correct_min(self, min_physical: PhysicalOffset) -> None:
        """Raise `min_offset` to the first message that the log still has.

        A queue whose messages are all gone is empty but keeps its offset: min equals max. Unlike
        RocketMQ this looks through all files, not only the first one.
        """
        if min_physical <= self._corrected_to:
            return
        self._corrected_to = min_physical
        if self.min_offset >= self.max_offset:
            return
        first = max(self.min_offset, self.first_kept)
        self.min_offset = self._first_at(min_physical, first)

    def _first_at(self, physical_offset: int, first: int) -> QueueOffset:
        """Return the first offset from `first` on whose message lies at `physical_offset` or later.

        A filler counts as the next real unit does, one that is absent as if it lay far behind:
        after a crash only such units are absent as belong to messages that are not certain yet.
        """
        stop = int(self.max_offset)
        while stop - first > LAST_BYTES // UNIT_BYTES:
            middle = (first + stop) // 2
            at = self._after_fillers(middle)
            place, size, _ = (0, 0, 0) if at >= self.max_offset else self.unit(at)
            if size > 0 and place < physical_offset:
                first = middle + 1
            else:
                stop = middle
        while first < stop:
            for place, size, _ in QUEUE_UNIT.iter_unpack(self.read(first, stop - first)):
                if size != FILLER_SIZE and (size <= 0 or place >= physical_offset):
                    return QueueOffset(first)
                first += 1
        return self._after_fillers(first)

    def truncate(self, physical_offset: int) -> LastUnit | None:
        """Take away the units of messages that lie at `physical_offset` or later.

        Bytes are zeroed and files that are left without a unit deleted, except for one that says
        where the queue goes on. Fillers before the cut stay: what they stand for is gone.

        Returns:
            The last unit that the queue had; None if it lost none.
        """
        if self.end <= physical_offset:
            return None
        old = self.max_offset
        last = self._cut(physical_offset)
        self.files.cut(self.max_offset * UNIT_BYTES, old * UNIT_BYTES)
        if self._extension is not None:
            self._extension.cut(self._last_address())
        return last

    def _cut(self, physical_offset: int) -> LastUnit | None:
        """Do as `truncate`, but leave the bytes where they are."""
        old = self.max_offset
        keep = self._first_at(physical_offset, self.first_kept)
        last = None
        if keep < old:
            last = LastUnit(old, self.unit(old - 1)[0], behind_fillers(self.read, keep, old))
        self.max_offset = keep
        self.min_offset = min(self.min_offset, keep)
        self._find_end()
        return last

    def copy(self) -> "FileQueue":
        """Return the same queue with handles of its own, to be read on another thread."""
        same = FileQueue(self.topic, self.queue_id, self.files.copy(), self._units_per_file)
        same.min_offset, same.max_offset, same.end = self.min_offset, self.max_offset, self.end
        same._corrected_to = self._corrected_to
        return same

    def clean_steps(self, min_offset: QueueOffset) -> Steps:
        """Raise the minimum, and delete the files that lie before it; the newest one stays."""
        self.min_offset = max(self.min_offset, min_offset)
        yield from self.files.drop_before_steps(self.min_offset * UNIT_BYTES)
        if self._extension is not None and self.min_offset < self.max_offset:
            yield from self._extension.clean_steps(self.unit(self.min_offset)[2])

    def wipe_behind_end(self) -> bool:
        """Zero what follows the end, for RocketMQ's recovery takes it for units.

        Needed once after a load that followed a crash; costs nothing if that saw only zeros there,
        or units of which all were put again, else a read of what was written behind the end.

        Returns:
            Whether there was something to look at.
        """
        position = self.max_offset * UNIT_BYTES
        has_rest = position < self._rest_end
        if has_rest:
            self.files.cut(position, self._rest_end)
        self.files.let_go()
        self._rest_end = 0
        if self._extension is not None:
            self._extension.wipe_behind_end()
        return has_rest or self._extension is not None


def _whole(units: bytes | memoryview, size: int) -> bytes | memoryview:
    """Return `size` bytes of units; those that a short file does not hold whole are absent."""
    if len(units) >= size:
        return units
    return bytes(units[: len(units) - len(units) % UNIT_BYTES]).ljust(size, b"\0")


def _present(data: bytes, end: int) -> tuple[int, int]:
    """Return how many units from the start of `data` on are there, and the new physical end."""
    count = 0
    for physical_offset, size, _ in QUEUE_UNIT.iter_unpack(data):
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
