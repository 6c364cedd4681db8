"""What the index of one queue says, as columns: version 1, version 2, or both.

Both are there when a conversion from one to the other was cut short; then version 2 is right about
the messages that it has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.base.checksum import crc32
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import IndexRecords, IndexStop, MessagePlace, MessageStates
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import QueueLayout
from sprocket.rabbitmq.store.reading.faults import FaultyReads
from sprocket.rabbitmq.store.write_ahead import QueueTail

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

EMBEDDED = 3
"""The place of a message that is in the index itself; the others are those of `MessagePlace`."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """A file of an index that was read."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Some messages of a queue. Arrays hold one element for each.

    Attributes:
        seq_ids: Sequence ids, ascending.
        is_persistent: As published.
        is_delivered: There is a deliver record; since RabbitMQ 3.10 one is written at once.
        is_acked: It is no longer in the queue.
        message_ids: 16 bytes each, as rows; zeros where the index does not tell them.
        expiry_us: Microseconds since 1970, 0 for never.
        body_sizes: Bytes of each body.
        places: Where each message is: a `MessagePlace`, or EMBEDDED.
        files: What was read.
        sources: Which of them tells of each.
        records: Where it does: bytes into the file.
        positions: Where an embedded message begins in that file; one of version 2 in its N.qs.
        sizes: Bytes of its term.
    """

    seq_ids: Ints
    is_persistent: Mask
    is_delivered: Mask
    is_acked: Mask
    message_ids: npt.NDArray[np.uint8]
    expiry_us: npt.NDArray[np.uint64]
    body_sizes: Ints
    places: npt.NDArray[np.uint8]
    files: tuple[RowSource, ...]
    sources: npt.NDArray[np.uint8]
    records: Ints
    positions: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.seq_ids)


def has_v2(names: list[str]) -> bool:
    """Say whether a queue with files of those names has an index of version 2."""
    return bool(layout.numbers(names, layout.SEGMENT_V2))


@dataclass(frozen=True, slots=True)
class WrittenAhead:
    """What our write-ahead log has of a queue, whose own files it completes.

    Attributes:
        tail: Its records; None if it has none.
        is_journal_void: Without a tail its journal.jif does not count.
    """

    tail: QueueTail | None
    is_journal_void: bool

    def journal(self, data: bytes) -> bytes:
        """Return the records of a journal.jif that count, and those of the log behind them."""
        if self.tail is not None:
            return b"".join((data[: self.tail.journal_bytes], *self.tail.records))
        return b"" if self.is_journal_void else data

    def segment(self, number: int, data: bytes) -> bytes:
        """Return what counts of a segment: not what a flush was cut short in appending."""
        for one in self.tail.appends if self.tail is not None else ():
            end = one.position + one.size
            if one.number == number and (
                end > len(data) or crc32(memoryview(data)[one.position : end]) != one.crc
            ):
                return data[: one.position]
        return data


NOTHING_AHEAD = WrittenAhead(None, is_journal_void=False)
"""What there is of a RabbitMQ's queue, and of ours after a clean stop."""


def read_rows(
    reads: FaultyReads, queue: QueueLayout, entry_count: int, ahead: WrittenAhead = NOTHING_AHEAD
) -> Iterator[IndexRows]:
    """Give what an index says, a segment at a time, in the order of the queue.

    Args:
        reads: Keeps what is wrong.
        queue: Whose index it is.
        entry_count: Entries of each segment of version 1.
        ahead: What the write-ahead log has of the queue.
    """
    is_gone = ahead.tail is not None and ahead.tail.is_gone
    names = [] if is_gone else reads.disk.list(queue.root)
    newer = [
        rows
        for number in layout.numbers(names, layout.SEGMENT_V2)
        if (rows := _v2(reads, queue.segment_v2(number), queue.store_v2(number))) is not None
    ]
    older = _v1(reads, queue, layout.numbers(names, layout.SEGMENT), entry_count, ahead)
    if not newer:
        yield from older
        return
    known = np.concatenate([rows.seq_ids for rows in newer])
    rest = [chosen(rows, ~np.isin(rows.seq_ids, known)) for rows in older]
    yield from sorted(
        (rows for rows in newer + rest if len(rows)), key=lambda rows: rows.seq_ids[0]
    )


def chosen(rows: IndexRows, which: Mask | Ints) -> IndexRows:
    """Return some of the rows."""
    return IndexRows(
        rows.seq_ids[which],
        rows.is_persistent[which],
        rows.is_delivered[which],
        rows.is_acked[which],
        rows.message_ids[which],
        rows.expiry_us[which],
        rows.body_sizes[which],
        rows.places[which],
        rows.files,
        rows.sources[which],
        rows.records[which],
        rows.positions[which],
        rows.sizes[which],
    )


def _v2(reads: FaultyReads, path: str, store_path: str) -> IndexRows | None:
    data = reads.read(path)
    if data is None:
        return None
    try:
        segment = index.read_segment_v2(data)
    except CorruptRecord as error:
        reads.tell(path, 0, str(error))
        return None
    for finding in segment.findings:
        reads.tell(path, finding.position, finding.what)
    count = len(segment)
    is_near = segment.places == MessagePlace.QUEUE_STORE
    return IndexRows(
        segment.seq_ids,
        segment.is_persistent,
        is_delivered=np.zeros(count, np.bool_),
        is_acked=np.zeros(count, np.bool_),
        message_ids=np.where(is_near[:, None], 0, segment.message_ids).astype(np.uint8),
        expiry_us=segment.expiry_us,
        body_sizes=segment.body_sizes,
        places=segment.places,
        files=(RowSource(path, b""), RowSource(store_path, b"")),
        sources=np.zeros(count, np.uint8),
        records=segment.starts,
        positions=segment.positions,
        sizes=segment.sizes,
    )


@dataclass(frozen=True, slots=True)
class _Half:
    """What one file of version 1 says."""

    path: str
    records: IndexRecords
    states: MessageStates

    def part(self, first: int, end: int, shift: int) -> "_Half":
        """Return what it says of the ids from `first` to before `end`, moved by `shift`."""
        start, stop = np.searchsorted(self.states.ids, (first, end)).tolist()
        kept = self.states
        states = MessageStates(
            kept.ids[start:stop] + shift,
            kept.published_at[start:stop],
            kept.is_delivered[start:stop],
            kept.is_acked[start:stop],
            (),
        )
        return _Half(self.path, self.records, states)


def _v1(
    reads: FaultyReads,
    queue: QueueLayout,
    numbers: list[int],
    entry_count: int,
    ahead: WrittenAhead,
) -> Iterator[IndexRows]:
    written = reads.read(queue.journal)
    data = ahead.journal(written or b"")
    journal = _half(reads, queue.journal, data, entry_count)
    touched = set((journal.states.ids // entry_count).tolist())
    for number in sorted(touched.union(numbers)):
        first = number * entry_count
        halves = []
        if number in numbers:
            path = queue.segment(number)
            data = ahead.segment(number, reads.read(path) or b"")
            segment = _half(reads, path, data, entry_count, is_segment=True)
            halves.append(segment.part(0, entry_count, first))
        halves.append(journal.part(first, first + entry_count, 0))
        rows = _joined(reads, halves)
        if len(rows):
            yield rows


def _half(
    reads: FaultyReads, path: str, data: bytes, entry_count: int, *, is_segment: bool = False
) -> _Half:
    records = index.read_segment(data) if is_segment else index.read_journal(data)
    if records.stop is not IndexStop.END:
        rest = len(data) - records.stopped_at
        reads.tell(path, records.stopped_at, f"{records.stop.value}; {rest} bytes are not read")
    states = index.states(records, entry_count)
    for finding in states.findings:
        reads.tell(path, finding.position, finding.what)
    return _Half(path, records, states)


def _joined(reads: FaultyReads, halves: list[_Half]) -> IndexRows:
    """Add up what a segment and the journal say of the same messages."""
    ids = np.unique(np.concatenate([half.states.ids for half in halves]))
    count = len(ids)
    sources = np.full(count, len(halves), np.uint8)
    records = np.full(count, -1, np.int64)
    is_delivered = np.zeros(count, np.bool_)
    is_acked = np.zeros(count, np.bool_)
    is_bare = np.zeros(count, np.bool_)
    for number, half in enumerate(halves):
        rows = np.searchsorted(ids, half.states.ids)
        is_delivered[rows] |= half.states.is_delivered
        is_acked[rows] |= half.states.is_acked
        is_bare[rows] |= half.states.is_delivered & ~half.states.is_acked
        is_first = (half.states.published_at >= 0) & (records[rows] < 0)
        sources[rows[is_first]] = number
        records[rows[is_first]] = half.states.published_at[is_first]
    for row in np.flatnonzero((records < 0) & is_bare).tolist():
        what = f"message {ids[row]} is said to be delivered, but nothing has it: passed over"
        reads.tell(halves[-1].path, 0, what)
    kept = np.flatnonzero(records >= 0)
    ids, sources, records = ids[kept], sources[kept], records[kept]
    count = len(ids)
    message_ids = np.zeros((count, 16), np.uint8)
    expiry_us = np.zeros(count, np.uint64)
    body_sizes = np.zeros(count, np.int64)
    positions = np.zeros(count, np.int64)
    sizes = np.zeros(count, np.int64)
    is_persistent = np.zeros(count, np.bool_)
    for number, half in enumerate(halves):
        of_it = np.flatnonzero(sources == number)
        if len(of_it):
            told = index.messages(half.records, records[of_it])
            message_ids[of_it] = told.message_ids
            expiry_us[of_it] = told.expiry_us
            body_sizes[of_it] = told.body_sizes
            positions[of_it] = told.term_starts
            sizes[of_it] = told.term_sizes
            is_persistent[of_it] = told.is_persistent
    return IndexRows(
        ids,
        is_persistent,
        is_delivered[kept],
        is_acked[kept],
        message_ids,
        expiry_us,
        body_sizes,
        places=np.where(sizes > 0, EMBEDDED, MessagePlace.SHARED_STORE).astype(np.uint8),
        files=tuple(RowSource(half.path, bytes(half.records.data)) for half in halves),
        sources=sources,
        records=records,
        positions=positions,
        sizes=sizes,
    )
