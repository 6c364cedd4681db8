"""One queue of a store, and its units.

A unit is what a queue has for one message: `i64 physical offset, i32 record size, i64 tags code`,
big-endian. A *filler* is a unit with `FILLER_SIZE` that stands where a message was lost.

Invariants, whichever engine keeps the queue

1. From `min_offset` to `max_offset` there is a unit for each offset; a gap is an error, never a
   shifted unit.
2. Physical offsets grow from unit to unit, fillers left out.
3. Putting what is there already changes nothing.
"""

import struct
from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import NamedTuple, Protocol

from sprocket.base.errors import OffsetTooSmall
from sprocket.rocketmq.geometry import QUEUE_UNIT_BYTES
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.queue.extension import ExtendedUnit

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

QueueKey = tuple[str, int]
"""Topic and queue id."""

UnitRead = tuple[int, int, int, int, int]
"""Queue offset, physical offset, record size, tags code, and how many messages the record has."""


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

    def rejected(self, codes: Sequence[int], bits: OwnedBits) -> Set[int]:
        """Return which codes are addresses of extended units whose messages bits rule out."""

    def unit(self, offset: int) -> tuple[PhysicalOffset, int, int]:
        """Return physical offset, record size and tags code of one unit; errors as `read`."""

    def last_unit(self) -> tuple[PhysicalOffset, int, int] | None:
        """Return the last unit that is not a filler, None if there is none."""

    def first_of(self, offset: int) -> QueueOffset:
        """Return the first offset of the unit that holds a message; errors as `units`."""

    def stored_at_ms(self, offset: int) -> int | None:
        """Return the store time of a message, None if the queue does not keep it.

        Raises:
            OffsetTooSmall, OffsetTooLarge: As `units`.
        """

    def after_unreadable(self, offset: int) -> QueueOffset:
        """Return where a reader goes on if the unit at `offset` is not there."""
