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

from sprocket.base import log
from sprocket.base.disk import Disk, OpenFiles, Segment, SegmentWindow
from sprocket.base.errors import DiskFailed, OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.codec.record_layout import PLACE, RECORD_BYTES_MIN
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.compaction.compacted_file import (
    UNIT_BYTES,
    CompactedFile,
    units_of,
)
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.compaction.swap import PendingSwap
from sprocket.rocketmq.store.queue import BATCH_UNIT, ExtendedUnit, QueueKey, UnitRead

MADE_FILES_MAX = 4
"""Files of a queue whose units are in memory because they are damaged; 10 MB each at most."""

_log = log.get_logger(__name__)


class _Seen(NamedTuple):
    """Units that were read last: of which file, from which one on, and what they are."""

    start: int
    number: int
    units: list[UnitRead]


_NOTHING_SEEN = _Seen(-1, 0, [])


def _next_offset(unit: UnitRead) -> int:
    return unit[0] + unit[4]


def _are_in_order(units: Sequence[UnitRead], file: CompactedFile) -> bool:
    """Say whether units may be those of records that follow each other in a file."""
    place, offset = file.start, file.first
    for first, at, size, _, messages in units:
        if at < place or size < RECORD_BYTES_MIN or first < offset or messages < 1:
            return False
        place, offset = at + size, first + messages
    return place <= file.end and offset <= file.next_offset


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
        makes_at_once: Readers rebuild damaged units, as no upkeep runs.

    Attributes:
        files: What it has.
        followed_to: So far the queue was looked at for what is to be copied.
        position: Up to which queue offset it is compacted, −1 at first.
        wants_file: The next record goes into a new file, that there may be room for a round.
        pending: A swap that has begun and is to be finished before anything else.
        is_dropped: Its topic is deleted.
        refusal: Why no more is copied; None as long as it can be.
        unreadable: Why the files cannot be used; reads fail with this text.
        damaged: Files whose units are to be made again.
        unread: The queue offset of a message that the disk did not read, and how often; −1 and 0
            if there was none.
    """

    unit_bytes = UNIT_BYTES
    warm_from = ANYWHERE
    is_plain = False

    def __init__(
        self,
        disk: Disk,
        key: QueueKey,
        folders: QueueFolders,
        open_files: OpenFiles,
        *,
        makes_at_once: bool,
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
        self._made: dict[int, bytes] = {}
        self._makes_at_once = makes_at_once
        self.damaged: set[int] = set()
        self.unread = -1, 0

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

        Where units of a file contradict each other, or the records that they lead to, all of them
        are to be made again from its records, in memory; the next round writes them anew.

        Raises:
            OffsetTooLarge: None is kept there or behind.
            DiskFailed: They are damaged, and not made again yet.
        """
        number = bisect_right(self.files, offset, key=_next_of)
        if number == len(self.files):
            raise OffsetTooLarge(offset, self.max_offset)
        file = self.files[number]
        found = self._units_at(file, offset, count)
        if found is None:
            self._want_units(file)
            found = self._units_at(file, offset, count)
        return found or self.units(file.next_offset, count)

    def _units_at(self, file: CompactedFile, offset: int, count: int) -> list[UnitRead] | None:
        """Return units of a file as they are; None if they cannot be right."""
        index, is_near = self._index(file, offset)
        count = min(count, self._count(file) - index)
        data = self._read_units(file, index, max(count, 0))
        found = self._decoded(data)
        if file.start not in self._made:
            if not found or not _are_in_order(found, file):
                return None
            nearby = found[:1]
            if index and not is_near:
                nearby += self._decoded(self._read_units(file, index - 1, 1))
            if not is_near and not all(self._agrees(unit) for unit in nearby):
                return None
        if found:
            self._seen = _Seen(file.start, index, found)
        return found

    def _index(self, file: CompactedFile, offset: int) -> tuple[int, bool]:
        """Return the index of the first unit of a file that ends behind an offset.

        Also whether it is known from the units that were read last.
        """
        start, index, last = self._seen
        if start == file.start and _next_offset(last[0]) <= offset <= _next_offset(last[-1]):
            return index + bisect_right(last, offset, key=_next_offset), True

        def next_offset(index: int) -> int:
            *_, first, count, _, _ = BATCH_UNIT.unpack(self._read_units(file, index, 1))
            return int(first + count)

        count = self._count(file)
        found = bisect_right(range(count), offset, key=next_offset)
        return (found if file.start in self._made else min(found, count - 1)), False

    def _count(self, file: CompactedFile) -> int:
        made = self._made.get(file.start)
        return file.count if made is None else len(made) // UNIT_BYTES

    def _read_units(self, file: CompactedFile, index: int, count: int) -> bytes:
        at, size = index * UNIT_BYTES, count * UNIT_BYTES
        made = self._made.get(file.start)
        if made is not None:
            return made[at : at + size]
        return self._segment(file, units=True).file.read(at, size).ljust(size, b"\0")

    @staticmethod
    def _decoded(data: bytes) -> list[UnitRead]:
        return [
            (first, place, size, code, messages)
            for place, size, code, _at_ms, first, messages, _, _ in BATCH_UNIT.iter_unpack(data)
        ]

    def _agrees(self, unit: UnitRead) -> bool:
        """Say whether a record is where a unit says, as that says it."""
        first, place, size, _, _ = unit
        try:
            head = self.slice(place, PLACE.size)
        except (OffsetTooSmall, OffsetTooLarge):
            return False
        own_size, _magic, queue_id, own_first, own_place = PLACE.unpack(head)
        return (own_size, queue_id, own_first, own_place) == (size, self.queue_id, first, place)

    def _want_units(self, file: CompactedFile) -> None:
        """Have the units of a file made again.

        Raises:
            DiskFailed: They will be, by who keeps the store; not if it is only read.
        """
        path = self.folders.units_path(file.start)
        if file.start not in self.damaged:
            _log.error("units of a compacted queue are damaged", path=path)
            self.damaged.add(file.start)
        if not self._makes_at_once:
            raise DiskFailed(
                f"{path}: units are damaged, and will be made from their records", path
            )
        self.take_units(file, units_of(self._disk, self.folders, self.key, file))

    def take_units(self, file: CompactedFile, units: bytes) -> None:
        """Take up the units of a file that were made again."""
        self.damaged.discard(file.start)
        self._made[file.start] = units
        while len(self._made) > MADE_FILES_MAX:
            del self._made[next(iter(self._made))]
        self._seen = _NOTHING_SEEN

    def make_units_passed(self, offset: int, next_offset: int, count: int) -> bool:
        """Make units again if a read has passed over messages that they lead to.

        Args:
            offset: Where the read began.
            next_offset: Where it ended.
            count: How many messages it gave.

        Returns:
            Whether it is to be repeated.

        Raises:
            DiskFailed: As `units`.
        """
        start, _, last = self._seen
        known = [unit for unit in last if offset < _next_offset(unit) <= next_offset]
        if start < 0 or sum(unit[4] for unit in known) == count:
            return False
        file = self.files[bisect_right(self.files, start, key=_start_of) - 1]
        if file.start != start or start in self._made:
            return False
        self._want_units(file)
        return True

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

        index = max(bisect_left(range(self._count(file)), offset, key=first) - 1, 0)
        found = self._decoded(self._read_units(file, index, 1))
        return found[0] if found else None

    def first_of(self, offset: int) -> QueueOffset:
        """Return the queue offset of the first unit from an offset on; as `units`."""
        return QueueOffset(self.units(offset, 1)[0][0])

    def stored_at_ms(self, offset: int) -> int:
        """Return the store time of the first message that is kept from an offset on; as `units`."""
        number = bisect_right(self.files, offset, key=_next_of)
        if number == len(self.files):
            raise OffsetTooLarge(offset, self.max_offset)
        file = self.files[number]
        index, _ = self._index(file, offset)
        index = min(index, self._count(file) - 1)
        return int(BATCH_UNIT.unpack(self._read_units(file, index, 1))[3]) if index >= 0 else -1

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
            self._made.pop(file.start, None)
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
