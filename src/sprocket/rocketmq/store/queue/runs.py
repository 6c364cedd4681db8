"""Runs: what records bring to each queue, parted by queue in one way for every engine.

A few records come as entries (`put`), very many as columns (`UnitBatch`). Of both a queue gets a
run: the units that it lacks, which go on where it ends. A record is there already if it ends at or
before the queue's `end`, or if its queue offset is below the queue's next one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sprocket.base.errors import CorruptRecord
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import Ints, RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED
from sprocket.rocketmq.store.queue.queue import QUEUE_UNIT, UNIT_BYTES, UNIT_TYPE, Queue, QueueKey
from sprocket.rocketmq.store.queue.rocks_database import Batch
from sprocket.rocketmq.store.queue.rocks_keys import I64, VALUE, VALUE_TYPE

Q = TypeVar("Q", bound=Queue)


class EntryRun(Generic[Q]):
    """A run of entries.

    Attributes:
        queue: The queue that it goes on.
        first: Queue offset of the first unit.
        next_offset: The queue's next offset behind it.
        end: Physical end of the last record.
        entries: Those of the records, in order.
    """

    __slots__ = ("end", "entries", "first", "next_offset", "queue")

    def __init__(self, queue: Q) -> None:
        self.queue = queue
        self.first: int = queue.max_offset
        self.next_offset: int = queue.max_offset
        self.end: int = queue.end
        self.entries: list[Entry] = []

    @property
    def places(self) -> tuple[int, int]:
        """Physical offsets of the first and the last record."""
        return self.entries[0].physical_offset, self.entries[-1].physical_offset

    def units(self) -> bytes:
        """Return the units of a plain queue."""
        pack = QUEUE_UNIT.pack
        return b"".join([pack(e.physical_offset, e.size, e.tags_code) for e in self.entries])

    def to_rocks(self, batch: Batch, prefix: bytes) -> None:
        """Put the units into a batch of a RocksDB, under keys with a prefix."""
        put, key, pack = batch.put, I64.pack, VALUE.pack
        for e in self.entries:
            value = pack(e.physical_offset, e.size, e.tags_code, e.stored_at_ms)
            put(prefix + key(e.queue_offset), value)


def put(
    entries: Iterable[Entry],
    queue_of: Callable[[QueueKey], Q],
    write: "Callable[[Iterable[Run[Q]]], int]",
) -> int:
    """Write what records bring to queues; return what `write` says.

    Args:
        entries: Follow each other in the log. Those of prepared messages get no unit.
        queue_of: Returns a queue, a new one if it is not there.
        write: Writes the runs of some queues.

    Raises:
        CorruptRecord: A message is missing before one of the records; those before it are written.
    """
    found: dict[QueueKey, EntryRun[Q]] = {}
    for entry in entries:
        if entry.sys_flag & TRANSACTION_PREPARED:  # in rolled back ones as well
            continue
        key = entry.topic, entry.queue_id
        run = found.get(key)
        if run is None:
            run = found[key] = EntryRun(queue_of(key))
        end = entry.physical_offset + entry.size
        if end <= run.end:
            continue
        offset = entry.queue_offset
        if offset != run.next_offset:
            if not run.entries and run.queue.is_blank:
                run.first = offset
            elif offset < run.next_offset:
                continue
            else:
                write([run for run in found.values() if run.entries])
                raise _missing(key, run.next_offset, offset, end)
        run.entries.append(entry)
        run.next_offset = offset + 1
        if entry.extra is not None and not run.queue.is_plain:
            run.next_offset = entry.next_offset
        run.end = end
    return write([run for run in found.values() if run.entries])


def _missing(key: QueueKey, expected: int, offset: int, end: int) -> CorruptRecord:
    """Return what is wrong if a queue does not go on with the next record."""
    topic, queue_id = key
    return CorruptRecord(
        f"queue {topic}/{queue_id} ends at {expected}, "
        f"the log has its message {offset} before {end}"
    )


class UnitColumns(NamedTuple):
    """What units say, an element for each; the order of the columns is that of an `Entry`."""

    queue_offset: Ints
    physical_offset: Ints
    size: Ints
    tags_code: Ints
    stored_at_ms: Ints

    def part(self, start: int, stop: int) -> "UnitColumns":
        """Return some of the units."""
        return UnitColumns(*(column[start:stop] for column in self))


class UnitBatch:
    """Units of very many records as columns, those of a queue together; needs numpy.

    A walk over the log comes to each queue again and again, with very many queues mostly for one
    message at a time, and a put costs about as much as opening a file, however many units it has:
    so batches can be `joined`, and each queue is written once. A unit takes 40 bytes.

    Attributes:
        keys: The queues.
        first: The number of the first unit of each queue.
        columns: The units, those of the first queue first.
    """

    __slots__ = ("columns", "first", "keys")

    def __init__(self, keys: list[QueueKey], first: Ints, columns: UnitColumns) -> None:
        self.keys = keys
        self.first = first
        self.columns = columns

    @classmethod
    def of(cls, batch: RecordBatch) -> "UnitBatch":
        """Return the units of records that are their own, see `UnitAssigner.are_records`."""
        rows, first = batch.by_queue
        columns = (getattr(batch, name)[rows] for name in UnitColumns._fields)
        keys = [(run.topic, run.queue_id) for run in batch.runs]
        return cls(keys, first, UnitColumns(*columns))

    @classmethod
    def of_entries(cls, entries: Sequence[Entry]) -> "UnitBatch":
        """Return the same of units as `UnitAssigner.each` gives them."""
        numbers: dict[QueueKey, int] = {}
        own = [numbers.setdefault((e.topic, e.queue_id), len(numbers)) for e in entries]
        rows = [tuple([getattr(e, name) for name in UnitColumns._fields]) for e in entries]
        queue = np.array(own, np.int64)
        order = np.argsort(queue, kind="stable")
        table = np.array(rows, np.int64).reshape(len(rows), len(UnitColumns._fields))
        columns = UnitColumns(*(np.ascontiguousarray(column) for column in table[order].T))
        return cls(list(numbers), np.searchsorted(queue[order], np.arange(len(numbers))), columns)

    @classmethod
    def joined(cls, batches: "Sequence[UnitBatch]") -> "UnitBatch":
        """Return the units of batches that follow each other in the log."""
        nothing = np.zeros(0, np.int64)
        numbers: dict[QueueKey, int] = {}
        queues = [nothing]
        for batch in batches:
            own = [numbers.setdefault(key, len(numbers)) for key in batch.keys]
            queues.append(np.repeat(own, np.diff(batch.first, append=len(batch))))
        queue = np.concatenate(queues)
        order = np.argsort(queue, kind="stable")
        parts = zip(
            [nothing] * len(UnitColumns._fields), *(b.columns for b in batches), strict=True
        )
        columns = UnitColumns(*(np.concatenate(part)[order] for part in parts))
        return cls(list(numbers), np.searchsorted(queue[order], np.arange(len(numbers))), columns)

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.columns.size)

    def by_queue(self) -> Iterator[tuple[QueueKey, UnitColumns]]:
        """Give the units of each queue."""
        bounds = pairwise([*self.first.tolist(), len(self)])
        for key, (start, stop) in zip(self.keys, bounds, strict=True):
            yield key, self.columns.part(start, stop)

    def runs(
        self, queue_of: Callable[[QueueKey], Q], step: Step = unwatched
    ) -> "Iterator[ColumnRun[Q]]":
        """Give what the units bring to each queue; the offsets of those it lacks have no gap.

        Args:
            queue_of: As for `put`.
            step: Told how far it is.

        Raises:
            CorruptRecord: A message is missing before those of the next queue.
        """
        if not len(self):
            return
        offset, place, size, _, _ = self.columns
        packed, first, ends = _Packed(self.columns), self.first, place + size
        stop = np.append(first[1:], len(self))
        has_gap = offset[stop - 1] - offset[first] != stop - first - 1
        bounds = first, stop, offset[first], place[first], ends[stop - 1], has_gap
        for number, (key, start, end, at, begin, reaches, gap) in enumerate(
            zip(self.keys, *(column.tolist() for column in bounds), strict=True)
        ):
            step("queues written", number, len(stop))
            queue = queue_of(key)
            is_blank = queue.is_blank
            if not (is_blank or at == queue.max_offset) or begin < queue.end:
                fresh = ends[start:end] > queue.end
                if not is_blank:
                    fresh &= offset[start:end] >= queue.max_offset
                if not fresh.any():
                    continue
                start += int(fresh.argmax())
                at = int(offset[start])
                gap = gap and int(offset[end - 1]) - at != end - start - 1
            assert not gap, "a queue has a gap"
            if not is_blank and at != queue.max_offset:
                raise _missing(key, queue.max_offset, at, reaches)
            yield ColumnRun(queue, packed, at, start, end, reaches)


class _Packed:
    """The units of columns as they are written, made at once for all queues when asked for."""

    def __init__(self, columns: UnitColumns) -> None:
        self.columns = columns

    @cached_property
    def units(self) -> bytes:
        """The units of plain queues, one behind the other."""
        return self._as_written().tobytes()

    @cached_property
    def keys(self) -> list[bytes]:
        """The queue offset of each unit, with which its key in RocksDB ends."""
        keys: list[bytes] = self.columns.queue_offset.astype(">i8").view(f"V{I64.size}").tolist()
        return keys

    @cached_property
    def values(self) -> list[bytes]:
        """The value of each unit in RocksDB."""
        made = np.empty(len(self.columns.size), VALUE_TYPE)
        made["unit"] = self._as_written().view(f"V{UNIT_BYTES}")
        made["stored_at_ms"] = self.columns.stored_at_ms
        values: list[bytes] = made.view(f"V{VALUE.size}").tolist()
        return values

    def _as_written(self) -> "npt.NDArray[np.void]":
        made = np.empty(len(self.columns.size), UNIT_TYPE)
        for name, _ in UNIT_TYPE:
            made[name] = getattr(self.columns, name)
        return made


class ColumnRun(NamedTuple, Generic[Q]):
    """A run of columns; what it tells is what `EntryRun` tells.

    Attributes:
        queue: The queue that it goes on.
        packed: The units of all queues.
        first: Queue offset of the first unit.
        start: The number of the first unit among all.
        stop: The number behind the last one.
        end: Physical end of the last record.
    """

    queue: Q
    packed: _Packed
    first: int
    start: int
    stop: int
    end: int

    @property
    def next_offset(self) -> int:
        """The queue's next offset behind it."""
        return self.first + self.stop - self.start

    @property
    def places(self) -> tuple[int, int]:
        """Physical offsets of the first and the last record."""
        place = self.packed.columns.physical_offset
        return int(place[self.start]), int(place[self.stop - 1])

    @property
    def entries(self) -> list[Entry]:
        """An entry for each record; of its keys it has none."""
        columns = self.packed.columns.part(self.start, self.stop)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Entry(self.queue.topic, self.queue.queue_id, *row) for row in rows]

    def units(self) -> bytes:
        """Return the units of a plain queue."""
        return self.packed.units[self.start * UNIT_BYTES : self.stop * UNIT_BYTES]

    def to_rocks(self, batch: Batch, prefix: bytes) -> None:
        """Put the units into a batch of a RocksDB, under keys with a prefix."""
        own = slice(self.start, self.stop)
        keys = map(prefix.__add__, self.packed.keys[own])
        deque(map(batch.put, keys, self.packed.values[own]), maxlen=0)


Run: TypeAlias = EntryRun[Q] | ColumnRun[Q]
"""What goes on where a queue ends."""
