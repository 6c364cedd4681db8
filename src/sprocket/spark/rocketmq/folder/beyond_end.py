"""What lies after the end of a log: remains of what was there before, or records after damage.

A chain of records ends in the newest file where no record begins. If something in it is damaged,
intact records follow. So may records of an earlier life of the log, since RocketMQ does not erase
what it cuts off. As in recovery, a record after damage belongs to the log if it is not older than
the last one before it, and its queue offset is not taken yet.
"""

import dataclasses
from collections.abc import Callable
from contextlib import closing

import numpy as np

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.columns import Mask, RecordBatch, Records
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, ReadableFile, read_on
from sprocket.spark.rocketmq.folder.queue_files import QueueBounds, QueueFilesRead, queue_files
from sprocket.spark.rocketmq.folder.slices import resync, slices


@dataclasses.dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record after damage, of which it is asked whether it belongs to the log.

    Args:
        topic: Its topic.
        queue_id: Its queue.
        offset: Its queue offset.
        place: Its physical offset.
        stored_at_ms: Its store time.
    """

    topic: str
    queue_id: int
    offset: int
    place: int
    stored_at_ms: int


IsTaken = Callable[[FoundRecord], bool]
"""Tells whether another message has the queue offset of a record, or the log never had this one."""


@dataclasses.dataclass(frozen=True, slots=True)
class RecordsBehind:
    """Intact records that follow each other.

    Args:
        start: Physical offset where the first begins.
        end: Physical offset after the last.
        stored_at_ms: Store time of the last.
    """

    start: int
    end: int
    stored_at_ms: int


def records_behind(
    files: Files, path: str, base: int, end: int, stored_at_ms: int, is_taken: IsTaken
) -> list[RecordsBehind]:
    """Return the records of a log that lie after the place where it seems to end.

    Args:
        files: Where.
        path: The newest file of the log.
        base: Physical offset of its first byte.
        end: Physical offset at which no record begins.
        stored_at_ms: Store time of the last record before that.
        is_taken: See there.

    Returns:
        Them, in their order; the first may begin at `end`, if it was written just now.
    """
    found: list[RecordsBehind] = []
    size = _written_bytes(files, path)
    with closing(read_on(files, files.open(path), size)) as file:
        at = end - base
        while (at := resync(file, base, at, size)) >= 0:
            chain = _own_records(file, base, at, size, stored_at_ms, is_taken)
            if chain.records is not None:
                found.append(chain.records)
            stored_at_ms = chain.stored_at_ms
            at = max(chain.stopped_at, at + 1)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Chain:
    """What a chain of records came to: its own ones, the last one's store time, where to go on."""

    records: RecordsBehind | None
    stored_at_ms: int
    stopped_at: int


def _own_records(
    file: ReadableFile, base: int, at: int, size: int, stored_at_ms: int, is_taken: IsTaken
) -> _Chain:
    """Return the first records of the log's own life that follow each other in a chain."""
    first, last = -1, stored_at_ms
    for piece in slices(file, base, at, size):
        found = piece.records
        if not len(found):
            break
        begin = 0
        if first < 0:
            begin = _first_fresh(found, last, is_taken)
            if begin == len(found):
                at = piece.end
                continue
            first = base + piece.start + int(found.start[begin])
        own = found.part(begin, len(found))
        fresh = _are_fresh(own, last, is_taken, is_first=piece.start + own.start[0] + base == first)
        count = len(fresh) if fresh.all() else int(np.argmin(fresh))
        if count:
            at = piece.start + int(own.end[count - 1])
            last = int(own.stored_at_ms[count - 1])
        if count < len(fresh):
            break
    if first < 0:
        return _Chain(None, stored_at_ms, at)
    return _Chain(RecordsBehind(first, base + at, last), last, at)


def _first_fresh(found: Records, stored_at_ms: int, is_taken: IsTaken) -> int:
    """Return the number of the first record that belongs to the log; their count if none does."""
    batch = RecordBatch(found)
    likely = ~found.wrong_sums() & (batch.stored_at_ms >= stored_at_ms)
    rows = np.flatnonzero(likely).tolist()
    own = (row for row in rows if not (batch.queueable[row] and is_taken(_of(batch, row))))
    return next(own, len(found))


def _are_fresh(found: Records, stored_at_ms: int, is_taken: IsTaken, *, is_first: bool) -> Mask:
    """Tell which records are intact and of the log's own life.

    The first after damage is known to be; of others it takes both signs that they are not.
    """
    batch = RecordBatch(found)
    fresh: Mask = ~found.wrong_sums()
    times = np.append(stored_at_ms, batch.stored_at_ms)
    doubted = times[1:] < times[:-1]
    doubted[:1] &= not is_first
    for row in np.flatnonzero(doubted).tolist():
        fresh[row] &= not (batch.queueable[row] and is_taken(_of(batch, row)))
    return fresh


def _of(batch: RecordBatch, row: int) -> FoundRecord:
    return FoundRecord(
        batch.topic_names[int(batch.topic_number[row])],
        int(batch.queue_id[row]),
        int(batch.queue_offset[row]),
        int(batch.physical_offset[row]),
        int(batch.stored_at_ms[row]),
    )


def _written_bytes(files: Files, path: str) -> int:
    """Return a position in a file after which nothing was ever written."""
    if isinstance(files, RealDisk):
        with closing(files.open(path)) as file:
            return file.data_end()
    with closing(files.open(path)) as other:
        return other.size()


class TakenByQueues:
    """Tells by the files of the queues which records after damage the log never had.

    A broker puts the unit of each message into its queue, and recovery removes the units of what it
    cuts off. So what was there when the store was opened last has its unit; what came later may
    still lack it. Where queues are not kept in files nothing is known.

    Args:
        files: Where.
        layout: The store's.
        settled_ms: Store times before this have their units; None for all.
    """

    def __init__(self, files: Files, layout: StoreLayout, settled_ms: int | None) -> None:
        self._files = files
        self._layout = layout
        self._settled_ms = settled_ms
        self._known: dict[tuple[str, int], tuple[QueueFilesRead, QueueBounds | None]] = {}

    def __call__(self, found: FoundRecord) -> bool:
        """See `IsTaken`."""
        key = found.topic, found.queue_id
        if key not in self._known:
            queue = queue_files(self._files, self._layout, *key)
            self._known[key] = queue, queue.offsets(0)
        queue, bounds = self._known[key]
        if bounds is not None and found.offset < bounds.end:
            unit = queue.unit(found.offset)
            return unit is None or unit.start != found.place
        return self._settled_ms is None or found.stored_at_ms < self._settled_ms


class TakenBefore:
    """Tells the same by the records before the damage, where there are no queues.

    Args:
        files: Where.
        path: The newest file of the log; others are not asked.
        base: Physical offset of its first byte.
        end: Physical offset up to which there are records.
    """

    def __init__(self, files: Files, path: str, base: int, end: int) -> None:
        self._files = files
        self._path = path
        self._base = base
        self._end = end
        self._next_offsets: dict[tuple[str, int], int] | None = None

    def __call__(self, found: FoundRecord) -> bool:
        """See `IsTaken`."""
        if self._next_offsets is None:
            self._next_offsets = self._read()
        return found.offset < self._next_offsets.get((found.topic, found.queue_id), 0)

    def _read(self) -> dict[tuple[str, int], int]:
        """Return the offset after the last message of each queue."""
        known: dict[tuple[str, int], int] = {}
        with closing(self._files.open(self._path)) as file:
            for piece in slices(file, self._base, 0, self._end - self._base):
                batch = RecordBatch(piece.records)
                for run in batch.runs if len(batch) else ():
                    key = run.topic, run.queue_id
                    known[key] = int(batch.queue_offset[run.rows[-1]]) + 1
        return known
