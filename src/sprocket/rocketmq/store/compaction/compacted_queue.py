"""One queue of a compaction topic: what is kept of it, and where it was copied from.

To readers it is a queue whose offsets have gaps, and a log of its own: its units lead to addresses
in its files. Between these may be gaps, too: where a new file begins, room is left for what a round
will make of the older ones, so that no file ever takes the name of another.

Invariants

1. Files are in the order of their addresses and of their queue offsets. Each has a record.
2. What is counted here is on the disk. So it stays after any crash.
3. Only the last file is appended to, and only by copying (`following`); a round (`rounds`) replaces
   the others, all at once.

Threads: one; what others do they do with values that they are given.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from operator import attrgetter
from typing import NamedTuple

from sprocket.base.disk import Disk, OpenFiles, Segment, SegmentWindow
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.compaction.compacted_file import UNIT_BYTES, CompactedFile
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.compaction.swap import PendingSwap
from sprocket.rocketmq.store.queue import BATCH_UNIT, ExtendedUnit, QueueKey, UnitRead


class _Seen(NamedTuple):
    """Units that were read last: of which file, from which one on, and the offset behind each."""

    start: int
    number: int
    nexts: list[int]


_NOTHING_SEEN = _Seen(-1, 0, [])
_next_of = attrgetter("next_offset")
_first_of = attrgetter("first")
_start_of = attrgetter("start")


class CompactedQueue:
    """See the head of the module. It is read as a `queue.Queue` and as a `LogReader`.

    Args:
        disk: Where it lies.
        key: Topic and queue id.
        folders: Where its files are.
        open_files: What all such queues have open together.

    Attributes:
        files: What it has.
        followed_to: So far the queue was looked at for what is to be copied.
        position: Up to which queue offset it is compacted, −1 at first.
        wants_file: The next record goes into a new file, that there may be room for a round.
        pending: A swap that has begun and is to be finished before anything else.
        is_dropped: Its topic is deleted.
        refusal: Why no more is copied; None as long as it can be.
        unreadable: Why nobody knows what is kept; reads say so.
    """

    unit_bytes = UNIT_BYTES
    warm_from = ANYWHERE
    is_plain = False

    def __init__(
        self, disk: Disk, key: QueueKey, folders: QueueFolders, open_files: OpenFiles
    ) -> None:
        self.topic, self.queue_id = key
        self.folders = folders
        self.files: list[CompactedFile] = []
        self.followed_to = 0
        self.position = -1
        self.wants_file = False
        self.pending: PendingSwap | None = None
        self.is_dropped = False
        self.refusal: str | None = None
        self.unreadable: str | None = None
        self._disk = disk
        self._open_files = open_files
        self._segments: dict[tuple[bool, int], Segment] = {}
        self._seen = _NOTHING_SEEN

    @property
    def key(self) -> QueueKey:
        """Topic and queue id."""
        return self.topic, self.queue_id

    # As a queue.

    @property
    def min_offset(self) -> QueueOffset:
        """The first offset that is kept; the next one if none is."""
        return QueueOffset(self.files[0].first if self.files else self.followed_to)

    @property
    def max_offset(self) -> QueueOffset:
        """The offset behind the last one that is kept."""
        return QueueOffset(self.files[-1].next_offset if self.files else 0)

    @property
    def end(self) -> PhysicalOffset:
        """The address behind the last record."""
        return PhysicalOffset(self.files[-1].end if self.files else 0)

    @property
    def is_blank(self) -> bool:
        """Whether nothing is kept."""
        return not self.files

    def units(self, offset: int, count: int) -> list[UnitRead]:
        """Return up to `count` units of one file, from the first one on that is kept at `offset`.

        Raises:
            OffsetTooLarge: None is kept there or behind.
        """
        number = bisect_right(self.files, offset, key=_next_of)
        if number == len(self.files):
            raise OffsetTooLarge(offset, self.max_offset)
        file = self.files[number]
        index = self._index(file, offset)
        data = self._read_units(file, index, min(count, file.count - index))
        found = [
            (first, place, size, code, messages)
            for place, size, code, _at_ms, first, messages, _, _ in BATCH_UNIT.iter_unpack(data)
        ]
        self._seen = _Seen(file.start, index, [unit[0] + unit[4] for unit in found])
        return found

    def _index(self, file: CompactedFile, offset: int) -> int:
        """Return the index of the first unit of a file that ends behind an offset."""
        start, index, nexts = self._seen
        if start == file.start and nexts and nexts[0] <= offset <= nexts[-1]:
            return min(index + bisect_right(nexts, offset), file.count - 1)

        def next_offset(index: int) -> int:
            *_, first, count, _, _ = BATCH_UNIT.unpack(self._read_units(file, index, 1))
            return int(first + count)

        found = bisect_right(range(file.count), offset, key=next_offset)
        return min(found, file.count - 1)

    def _read_units(self, file: CompactedFile, index: int, count: int) -> bytes:
        data = self._segment(file, units=True).file.read(index * UNIT_BYTES, count * UNIT_BYTES)
        return data.ljust(count * UNIT_BYTES, b"\0")

    def places(self, _offset: int, _count: int) -> None:
        """Return None: offsets are missing."""

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return address, size and code of the first unit from an offset on; as `units`."""
        _, place, size, code, _ = self.units(offset, 1)[0]
        return PhysicalOffset(place), size, code

    def last_unit(self) -> tuple[PhysicalOffset, int, int] | None:
        """Return the last unit, None if there is none."""
        return self.unit(self.max_offset - 1) if self.files else None

    def last_unit_before(self, offset: int) -> UnitRead | None:
        """Return the last unit that begins before an offset, None if there is none."""
        number = bisect_left(self.files, offset, key=_first_of) - 1
        if number < 0:
            return None
        file = self.files[number]

        def first(index: int) -> int:
            return int(BATCH_UNIT.unpack(self._read_units(file, index, 1))[4])

        index = max(bisect_left(range(file.count), offset, key=first) - 1, 0)
        data = self._read_units(file, index, 1)
        place, size, code, _at_ms, found, messages, _, _ = BATCH_UNIT.unpack(data)
        return found, place, size, code, messages

    def first_of(self, offset: int) -> QueueOffset:
        """Return the queue offset of the first unit from an offset on; as `units`."""
        return QueueOffset(self.units(offset, 1)[0][0])

    def stored_at_ms(self, offset: int) -> int:
        """Return the store time of the first message that is kept from an offset on; as `units`."""
        number = bisect_right(self.files, offset, key=_next_of)
        if number == len(self.files):
            raise OffsetTooLarge(offset, self.max_offset)
        file = self.files[number]
        unit = BATCH_UNIT.unpack(self._read_units(file, self._index(file, offset), 1))
        return int(unit[3])

    def extended(self, _code: int) -> ExtendedUnit | None:
        """Return None: its units are not extended."""

    def rejected(self, _codes: Sequence[int], _bits: OwnedBits) -> Set[int]:
        """Return nothing, for the same reason."""
        return frozenset()

    def after_unreadable(self, offset: int) -> QueueOffset:
        """Return where a reader goes on if the unit at `offset` cannot be read."""
        return QueueOffset(min(offset + 1, self.max_offset))

    # As a log.

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return a part of the records from an address on, in one file.

        Raises:
            OffsetTooSmall, OffsetTooLarge: There is no record.
            DiskFailed: It cannot be read.
        """
        number = bisect_right(self.files, offset, key=_start_of) - 1
        if number < 0:
            raise OffsetTooSmall(offset, self.files[0].start if self.files else 0)
        file = self.files[number]
        size = min(size, file.end - offset)
        if size <= 0:
            raise OffsetTooLarge(offset, self.end)
        data = self._segment(file, units=False).file.read_view(offset - file.start, size)
        if len(data) < size:
            data = memoryview(bytes(data).ljust(size, b"\0"))
        return SegmentWindow(data, offset, offset + size)

    def slice(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes of records from an address on; errors as `window`."""
        view = self.window(offset, size).view
        if len(view) < size:
            raise OffsetTooLarge(offset + size, offset + len(view))
        return view

    def _segment(self, file: CompactedFile, *, units: bool) -> Segment:
        segment = self._segments.get((units, file.start))
        if segment is None:
            folders = self.folders
            folder, size = folders.log, folders.log_bytes
            if units:
                folder, size = folders.units, folders.units_bytes
            segment = Segment(
                self._disk, folder, file.start, size, write=False, open_files=self._open_files
            )
            self._segments[units, file.start] = segment
        return segment

    # Changes.

    def take_copied(self, files: Sequence[CompactedFile], followed_to: int) -> None:
        """Take up what was copied, and is on the disk.

        Args:
            files: The last file as it is now, and those that were made behind it.
            followed_to: So far the queue was looked at.
        """
        last = self.files[-1].start if self.files else -1
        if files and files[0].start == last:
            self.files.pop()
        if files and files[-1].start != last:
            self.wants_file = False
        self.files += files
        self.followed_to = max(followed_to, self.max_offset)

    def take_swapped(self, old: Sequence[CompactedFile], made: Sequence[CompactedFile]) -> None:
        """Have files that a round made in place of the first ones."""
        assert self.files[: len(old)] == list(old), "only the last file is appended to"
        self.files[: len(old)] = made
        self._seen = _NOTHING_SEEN
        for file in old:
            for units in (True, False):
                segment = self._segments.pop((units, file.start), None)
                if segment is not None:
                    segment.release()

    def free_starts(self) -> list[int]:
        """Return the addresses at which files may begin that a round makes."""
        if len(self.files) < 2:
            return []
        size = self.folders.log_bytes
        return list(range(self.files[-2].start + size, self.files[-1].start, size))

    def close(self) -> None:
        """Close the files."""
        for segment in self._segments.values():
            segment.release()
