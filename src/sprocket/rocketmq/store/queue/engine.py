"""What a store asks of its queues, whichever engine keeps them.

Two engines do: `file_queues` (20-byte units in files) and `rocks_queues` (keys of a RocksDB); both
pass one suite, `tests/contract/test_queues.py`. Queues are derived from the log: a crash may lose
what was put since the last `flush`, and the owner puts the rest of the log again.

A unit is what a queue has for one message: `i64 physical offset, i32 record size, i64 tags code`,
big-endian. A *filler* is a unit with `FILLER_SIZE` that stands where a message was lost.

Invariants of both

1. From `min_offset` to `max_offset` there is a unit for each offset; a gap is an error, never a
   shifted unit.
2. Physical offsets grow from unit to unit, fillers left out.
3. Putting what is there already changes nothing.
"""

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from sprocket.base.disk import Steps
from sprocket.base.errors import OffsetTooSmall
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import QUEUE_UNIT_BYTES
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.queue.extension import ExtendedUnit

if TYPE_CHECKING:
    from sprocket.rocketmq.store.queue.runs import UnitBatch

QUEUE_UNIT = struct.Struct(">qiq")
"""Physical offset, record size, tags code."""
UNIT_BYTES = QUEUE_UNIT.size
assert UNIT_BYTES == QUEUE_UNIT_BYTES
UNIT_TYPE = [("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")]
"""The same for numpy."""
FILLER_SIZE = 0x7FFF_FFFF
FILLER = QUEUE_UNIT.pack(0, FILLER_SIZE, 0)
"""Stands where a message was before the queue's first file began, or where one was lost."""

_LOOK_UNITS = 2048
"""Units that are looked at together."""

QUEUES_PER_STEP = 16
"""Queues that one step looks at, of those of `Queues`; syncs of the log wait for it."""

QueueKey = tuple[str, int]
"""Topic and queue id."""

UnitRead = tuple[int, int, int, int, int]
"""Queue offset, physical offset, record size, tags code, and how many messages the record has."""


T = TypeVar("T")


def in_steps(queues: Iterable[T]) -> Iterator[list[T]]:
    """Give queues that there are now, as many at a time as one step looks at."""
    left = iter([*queues])
    while part := [*islice(left, QUEUES_PER_STEP)]:
        yield part


class UnitPlaces(NamedTuple):
    """Physical offsets and sizes of records."""

    offsets: Sequence[int]
    sizes: Sequence[int]


@lru_cache(maxsize=64)
def _row(count: int) -> struct.Struct:
    """Return the layout of some units without their codes."""
    return struct.Struct(">" + "qi8x" * count)


def places_of(units: bytes | memoryview) -> UnitPlaces:
    """Return where the records of units lie, given the units as stored."""
    row = _row(len(units) // UNIT_BYTES).unpack(units)
    return UnitPlaces(row[::2], row[1::2])


class LastUnit(NamedTuple):
    """The last unit that a queue had before it was cut.

    Attributes:
        max_offset: The offset behind it.
        physical_offset: Where its message lies.
        kept_to: The offset behind the last filler that was cut off, 0 without one.
    """

    max_offset: int
    physical_offset: int
    kept_to: int = 0


def behind_fillers(read: Callable[[int, int], memoryview], first: int, stop: int) -> int:
    """Return the offset behind the last filler of some units, 0 without one.

    Args:
        read: `read` of a queue.
        first: Offset of the first unit to look at.
        stop: Offset behind the last one.
    """
    found = 0
    while first < stop:
        try:
            units = read(first, min(stop - first, _LOOK_UNITS))
        except OffsetTooSmall:
            break  # an engine lost some: what lies behind them is not known to be the queue's
        sizes = places_of(units).sizes
        for offset, size in enumerate(sizes, first) if FILLER_SIZE in sizes else ():
            found = offset + 1 if size == FILLER_SIZE else found
        first += len(sizes)
    return found


class Queue(Protocol):
    """One queue. Offsets are queue offsets (units) unless they are called physical."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def queue_id(self) -> int:
        """Its number in the topic."""

    @property
    def min_offset(self) -> QueueOffset:
        """First offset that may be read; `max_offset` if no message is left."""

    @property
    def max_offset(self) -> QueueOffset:
        """Offset of the next message."""

    @property
    def end(self) -> int:
        """Records that end here in the log, or before, are in the queue already."""

    @property
    def is_blank(self) -> bool:
        """Whether it never had a message, so that it may begin anywhere."""

    @property
    def is_plain(self) -> bool:
        """Whether each message has a unit of its own that holds place, size and tags code."""

    @property
    def unit_bytes(self) -> int:
        """What a unit counts for in limits."""

    def units(self, offset: int, count: int) -> list[UnitRead]:
        """Return up to `count` units, from the one that holds `offset` on.

        Args:
            offset: First message wanted.
            count: Most units wanted, at least 1.

        Returns:
            One or more units; fewer than `count` at the end of the queue, and where the engine
            would have to begin again (a file ends).

        Raises:
            OffsetTooSmall: The unit is gone.
            OffsetTooLarge: `offset` is at the end or behind it.
        """

    def places(self, offset: int, count: int) -> UnitPlaces | None:
        """Return where the records of up to `count` units lie; None if one may be many messages.

        All else is as for `units`.
        """

    def extended(self, code: int) -> ExtendedUnit | None:
        """Return what a unit's tags code leads to, if it is the address of an extended unit."""

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return physical offset, record size and tags code of one unit; errors as `read`."""

    def last_unit(self) -> tuple[PhysicalOffset, int, int] | None:
        """Return the last unit that is no filler, None if there is none."""

    def first_of(self, offset: int) -> QueueOffset:
        """Return the first offset of the unit that holds a message; errors as `units`."""

    def stored_at_ms(self, offset: int) -> int | None:
        """Return the store time of a message, None if the queue does not keep it.

        Raises:
            OffsetTooSmall, OffsetTooLarge: As `units`.
        """

    def after_unreadable(self, offset: int) -> QueueOffset:
        """Return where a reader goes on if the unit at `offset` is not there."""


class Queues(Protocol):
    """All queues of a store.

    Threads: the one that owns the store.
    """

    def load(
        self, *, clean: bool = False, certain: int = ANYWHERE, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take up every queue that is on the disk; again, if there are some already.

        Args:
            clean: The last stop was clean. If not, the next `flush` syncs what was found here.
            certain: Units of messages that lie there in the log or later are not taken up, as if
                `truncate` followed; but they may stay on the disk until `wipe_behind_ends`.
            step: Told how far it is.

        Returns:
            As `truncate`.

        Raises:
            ForeignStore: What lies there is no queue of this engine and geometry.
        """

    @property
    def by_key(self) -> Mapping[QueueKey, Queue]:
        """Each queue that has had a message, or was made to begin somewhere, in no order."""

    @property
    def end(self) -> PhysicalOffset:
        """Physical end of what the queues have of the log; -1 without a message."""

    @property
    def last(self) -> tuple[PhysicalOffset, int, int] | None:
        """The unit of the message that lies last in the log, of those in queues."""

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put the units of records that follow each other in the log.

        Entries whose record gets no unit, and those that are there already, are passed over.
        A queue that is not there begins at its first entry's offset, whatever it is.

        Returns:
            How many units were put.

        Raises:
            CorruptRecord: A message is missing before one of these; units before it are put.
            DiskFull, DiskFailed: Some units may be put; the round may be put again.
        Durability: none before `flush`.
        """

    def put_batch(self, batch: "UnitBatch", step: Step = unwatched) -> int:
        """Put the units of a batch; what a queue has of them already is passed over.

        Args:
            batch: The offsets of each queue have no gap, but among those that it has already.
            step: Told how far it is.

        Returns:
            How many units were put.

        Raises:
            CorruptRecord: A queue does not go on with the first unit of the batch that it lacks;
                the units of other queues may be put.
            DiskFull, DiskFailed: Some units may be put; the batch may be put again, also as a part
                of a longer one.
        """

    def fill_to(self, topic: str, queue_id: int, offset: int) -> int:
        """Put fillers for messages that are lost, so that the next one may be `offset`.

        Only for recovery that found a damaged record in the log and goes on behind it. A queue
        that is not there needs none: it begins anywhere. One that has no unit begins there.

        Returns:
            How many fillers were put.
        """

    def begin(self, topic: str, queue_id: int, offset: int) -> None:
        """Make an empty queue that goes on at `offset`; do nothing if it is there."""

    def between(
        self, topics: Container[str], start: PhysicalOffset, end: PhysicalOffset
    ) -> Iterator[Callable[[], bool]]:
        """Return questions that together say whether topics have messages in a part of the log.

        Each looks at some queues, and says whether one of them has a message that begins from
        `start` on and before `end`. They may be called on any thread, one after the other, while
        nothing but `put_round` and `put_batch` changes the queues.
        """

    def correct_min(self, min_physical: PhysicalOffset, step: Step = unwatched) -> None:
        """Raise each queue's minimum to the first message that the log still has.

        Args:
            min_physical: Where the log begins.
            step: Told how far it is.
        """

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Raise the minima and give back the room of units that no message is left for.

        An engine may keep some of them for a later call.
        """

    def truncate(
        self, physical_offset: PhysicalOffset, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take away the units of messages at `physical_offset` or later.

        Fillers before the cut stay: what they stand for is gone.

        Args:
            physical_offset: The first place that is cut off.
            step: Told how far it is.

        Returns:
            Of each queue that lost units, the last one it had.
        """

    def wipe_behind_ends(self, step: Step = unwatched) -> None:
        """Wipe what lies behind the end of each queue and could be taken for a unit.

        Needed once after a load that followed a crash.
        """

    def remove(self, topic: str, queue_id: int) -> None:
        """Delete a queue, or do nothing if it is not there."""

    def delete_topic(self, topic: str) -> Callable[[], None] | None:
        """Delete all queues of a topic: they are gone at once, and can be made again.

        Not while `flush_steps` or `clean_steps` are under way.

        Returns:
            What removes their files, to be called once on any thread; None if there is nothing to
            do. If it is not called the next `load` does it.
        Durability: none before `flush`; a crash may bring back all that was flushed.
        """

    def reset(self) -> None:
        """Delete every queue, to be made again from the log."""

    def flush(self) -> None:
        """Do `flush_steps` here and now."""

    def flush_steps(self) -> Steps:
        """Make durable every unit that was put before this begins.

        Raises:
            DiskFull, DiskFailed: A sync failed; the queues are to be rebuilt from the log.
        """

    def seal(self) -> None:
        """Flush, and leave what makes the next load after this clean stop quick."""

    def close(self) -> None:
        """Close every handle; nothing is promised to be flushed. Queues can be read no more."""
