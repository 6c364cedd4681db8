"""What the index of one queue says, as columns: version 1, version 2, or both.

Both are there when a conversion from one to the other was cut short; then version 2 is right about
the messages that it has.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import IndexStop, IndexSum, MessagePlace
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import QueueLayout
from sprocket.rabbitmq.store.queue_index import QueueIndexFile, joined
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
        message_ids: 16 bytes each, as rows; zeros where the index does not have them.
        expiry_us: Microseconds since 1970, 0 for never.
        body_sizes: Bytes of each body.
        places: Where each message is: a `MessagePlace`, or EMBEDDED.
        files: What was read.
        sources: Which of them has each.
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


def read_rows(
    reads: FaultyReads,
    queue: QueueLayout,
    entry_count: int,
    tail: QueueTail,
    *,
    are_sums_void: bool = False,
) -> Iterator[IndexRows]:
    """Give what an index says, a segment at a time, in the order of the queue.

    Args:
        reads: Keeps what is wrong.
        queue: Whose index it is.
        entry_count: Entries of each segment of version 1.
        tail: What our write-ahead log has of the queue, whose own files it completes.
        are_sums_void: Checksums that are there say nothing.
    """
    names = [] if tail.is_gone else reads.disk.list(queue.root)
    newer = [
        rows
        for number in layout.numbers(names, layout.SEGMENT_V2)
        if (rows := _v2(reads, queue.segment_v2(number), queue.store_v2(number))) is not None
    ]
    older = _v1(
        reads,
        queue,
        layout.numbers(names, layout.SEGMENT),
        entry_count,
        tail,
        are_sums_void=are_sums_void,
    )
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


def left_by_segment(rows: IndexRows, entry_count: int) -> Counter[int]:
    """Return how many of some messages are not acknowledged, by the number of their segment.

    Args:
        rows: Of one queue.
        entry_count: Entries of each segment of version 1; one of version 2 says in its name which
            it is.
    """
    is_here = ~rows.is_acked
    path = rows.files[0].path
    if path.endswith(layout.SEGMENT_V2):
        number = int(path.rpartition("/")[2].removesuffix(layout.SEGMENT_V2))
        return Counter({number: int(np.count_nonzero(is_here))})
    numbers, counts = np.unique(rows.seq_ids[is_here] // entry_count, return_counts=True)
    return Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))


def _v2(reads: FaultyReads, path: str, store_path: str) -> IndexRows | None:
    data = reads.read(path)
    if data is None:
        return None
    try:
        try:
            segment = index.read_segment_v2(data)
        except CorruptRecord:
            segment = index.read_segment_v2(data, reads.read(store_path) or b"")
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


def _v1(
    reads: FaultyReads,
    queue: QueueLayout,
    numbers: list[int],
    entry_count: int,
    tail: QueueTail,
    *,
    are_sums_void: bool,
) -> Iterator[IndexRows]:
    def sums_of(path: str, data: bytes) -> list[IndexSum] | None:
        if are_sums_void or not data:
            return None
        return index.decode_sums(reads.read(QueueLayout.sums(path)) or b"")

    written = (b"" if tail.is_gone else reads.read(queue.journal)) or b""
    known = sums_of(queue.journal, written)
    journal = QueueIndexFile.journal(queue.journal, written, known, tail)
    _tell(reads, journal)
    touched = set((journal.states.ids // entry_count).tolist())
    for number in sorted(touched.union(numbers)):
        path = queue.segment(number)
        data = (reads.read(path) if number in numbers else None) or b""
        data = data[: tail.whole_bytes(number, data)]
        segment = QueueIndexFile.segment(path, data, sums_of(path, data), entry_count)
        _tell(reads, segment)
        rows = _joined(reads, segment, journal, number, entry_count)
        if len(rows):
            yield rows


def _tell(reads: FaultyReads, file: QueueIndexFile) -> None:
    """Report what is wrong with a file; messages that are damaged say so."""
    path, records = file.path, file.records
    for finding in file.checked.findings:
        reads.tell(path, finding.position, finding.what)
    for position in file.checked.damaged:
        reads.tell(path, position, "a message has another checksum")
    if file.fault is not None:
        reads.tell(path, *file.fault)
    if records.stop is not IndexStop.END:
        rest = len(records.data) - records.stopped_at
        reads.tell(path, records.stopped_at, f"{records.stop.value}; {rest} bytes are not read")
    for finding in file.states.findings:
        reads.tell(path, finding.position, finding.what)


def _joined(
    reads: FaultyReads,
    segment: QueueIndexFile,
    journal: QueueIndexFile,
    number: int,
    entry_count: int,
) -> IndexRows:
    """Return what a segment and the journal say of the same messages."""
    said, first = joined(segment.states, journal.part(number, entry_count)), number * entry_count
    stray = ~said.is_published & said.is_delivered & ~said.is_acked
    for relative_id in said.ids[stray].tolist():
        what = f"message {first + relative_id} is said to be delivered, but nothing has it"
        reads.tell(journal.path, 0, f"{what}: passed over")
    kept = np.flatnonzero(said.is_published)
    count = len(kept)
    sources = (said.in_segment[kept] < 0).astype(np.uint8)
    records = np.where(sources, said.in_journal[kept], said.in_segment[kept])
    message_ids = np.zeros((count, 16), np.uint8)
    expiry_us = np.zeros(count, np.uint64)
    body_sizes = np.zeros(count, np.int64)
    positions = np.zeros(count, np.int64)
    sizes = np.zeros(count, np.int64)
    is_persistent = np.zeros(count, np.bool_)
    files = segment, journal
    for source, file in enumerate(files):
        of_it = np.flatnonzero(sources == source)
        if len(of_it):
            told = index.messages(file.records, records[of_it])
            message_ids[of_it] = told.message_ids
            expiry_us[of_it] = told.expiry_us
            body_sizes[of_it] = told.body_sizes
            positions[of_it] = told.term_starts
            sizes[of_it] = told.term_sizes
            is_persistent[of_it] = told.is_persistent
    return IndexRows(
        first + said.ids[kept],
        is_persistent,
        said.is_delivered[kept],
        said.is_acked[kept],
        message_ids,
        expiry_us,
        body_sizes,
        places=np.where(sizes > 0, EMBEDDED, MessagePlace.SHARED_STORE).astype(np.uint8),
        files=tuple(RowSource(file.path, bytes(file.records.data)) for file in files),
        sources=sources,
        records=records,
        positions=positions,
        sizes=sizes,
    )
