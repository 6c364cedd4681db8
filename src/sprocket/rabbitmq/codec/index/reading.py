"""Whole files of a queue's index, read as columns.

The parts

* `read_journal` and `read_segment` follow the records from the beginning of a file and say where
  and why they stopped. They stop where RabbitMQ does; a segment file at whose end RabbitMQ would
  crash gives what is before it.
  `journal_rows` does the same for a journal of a few records, one row each.
* `states` adds the records up: what is known of each message, one row for each. It takes an ack
  without a deliver before it for both, skips what is said of no message, and of two publishes
  of one message takes the later. Each time it does so it has an `IndexFinding`.
* `messages` reads the fields of publish records, one row for each.

Invariants

1. Any bytes give records and a reason for stopping, never an error.
2. What is read is inside the file: nothing is as large as a size field says unless it is there.
"""

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.base.disk import Buffer
from sprocket.rabbitmq.codec.index.records import (
    BODY_BYTES,
    ENTRIES_MAX,
    ID_BYTES,
    JOURNAL_HEAD_BYTES,
    JOURNAL_PREFIX_BYTES,
    RELATIVE_BITS,
    SEGMENT_HEAD_BYTES,
    SEGMENT_PREFIX_BYTES,
    SEGMENT_PUBLISH,
    SEQUENCE_BITS,
    TERM_SIZE_AT,
    RecordKind,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

_unpack_size = Struct(">I").unpack_from
_unpack_word = Struct(">Q").unpack_from
_ZEROS = bytes(JOURNAL_HEAD_BYTES)
_TRIED = 64
"""After this many records of one shape in a row, the next ones are tried with that shape, too."""
_NONE: Ints = np.empty(0, np.int64)
_NOTHING: Mask = np.empty(0, np.bool_)
_NO_KINDS: Bytes = np.empty(0, np.uint8)
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
_TRANSIENT, _DELIVER, _ACK = map(
    int, (RecordKind.PUBLISH_TRANSIENT, RecordKind.DELIVER, RecordKind.ACK)
)
"""numpy takes an integer at once, and a member of an enum by a long way."""
_FIELDS = np.dtype(
    [("message_id", "V16"), ("expiry_us", ">u8"), ("body_size", ">u4"), ("term_size", ">u4")]
)
assert _FIELDS.itemsize == BODY_BYTES
assert _FIELDS.fields is not None
assert _FIELDS.fields["term_size"][1] == TERM_SIZE_AT


class IndexStop(Enum):
    """Why there are no more records."""

    END = "the end was reached"
    PARTIAL = "the last record goes on beyond the end"
    ZEROS = "zeros follow, as in a file that a crash has lengthened"
    INVALID = "no record begins so"


@dataclass(frozen=True, slots=True)
class IndexFinding:
    """Something that RabbitMQ never writes, and what was made of it.

    Attributes:
        position: Bytes into the file.
        what: A sentence for the person who reads a report.
    """

    position: int
    what: str


@dataclass(frozen=True, slots=True)
class IndexRecords:
    """The records of one file, in order. Arrays hold one element a record.

    Attributes:
        data: The file.
        is_segment: Whether it is a segment's, else a journal's.
        starts: Where each begins, bytes into the file.
        kinds: What each says, as `RecordKind`. Of a segment the deliver and the ack of a message
            are both DELIVER here, as they look alike; `states` tells them apart.
        ids: Of which message: its sequence id, in a segment its relative id.
        stopped_at: The first byte after them.
        stop: Why there are no more.
    """

    data: Buffer
    is_segment: bool
    starts: Ints
    kinds: Bytes
    ids: Ints
    stopped_at: int
    stop: IndexStop

    def __len__(self) -> int:
        return len(self.starts)


class JournalRow(NamedTuple):
    """A record of a journal: what it says, as `RecordKind`, of which message, and its bytes."""

    kind: int
    seq_id: int
    record: bytes


class JournalRows(NamedTuple):
    """The records of a journal, in order, and why there are no more."""

    rows: list[JournalRow]
    stop: IndexStop


@dataclass(frozen=True, slots=True)
class MessageStates:
    """What the records of a file say of each message. Arrays hold one element a message.

    Attributes:
        ids: Sequence ids, in a segment relative ids, ascending.
        published_at: Where its publish record begins, bytes into the file; -1 if it has none here.
        is_delivered: There is a deliver record.
        is_acked: There is an ack record.
        findings: What RabbitMQ never writes.
    """

    ids: Ints
    published_at: Ints
    is_delivered: Mask
    is_acked: Mask
    findings: tuple[IndexFinding, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class IndexedMessages:
    """Fields of publish records. Arrays hold one element a record.

    Attributes:
        message_ids: 16 bytes each, as rows.
        expiry_us: Microseconds since 1970, 0 for never; as they are stored, without a sign.
        body_sizes: Bytes of each body.
        term_starts: Where the embedded message begins, bytes into the file.
        term_sizes: Its bytes; 0 if the message store has the message.
        is_persistent: As published.
    """

    message_ids: Bytes
    expiry_us: npt.NDArray[np.uint64]
    body_sizes: Ints
    term_starts: Ints
    term_sizes: Ints
    is_persistent: Mask


def read_journal(data: Buffer) -> IndexRecords:
    """Return the records of a journal.jif, up to where RabbitMQ stops reading it."""
    return _read(data, is_segment=False)


def read_segment(data: Buffer) -> IndexRecords:
    """Return the records of an N.idx.

    A file of zero bytes alone, which RabbitMQ removes, has none and stops with ZEROS at 0.
    """
    return _read(data, is_segment=True)


def journal_rows(data: bytes) -> JournalRows:
    """Return what `read_journal` does, record by record: of a few that takes a tenth of the time.

    Any bytes give rows and a reason for stopping.
    """
    starts, stopped_at = _journal_places(data, 0, len(data))
    rows: list[JournalRow] = []
    for start, end in zip(starts, [*starts, stopped_at][1:], strict=True):
        word = _unpack_word(data, start)[0]
        rows.append(JournalRow(word >> SEQUENCE_BITS, word & _SEQUENCE_MASK, data[start:end]))
    return JournalRows(rows, _why(data, stopped_at, is_segment=False))


def _read(data: Buffer, *, is_segment: bool) -> IndexRecords:
    if not len(data):
        return IndexRecords(data, is_segment, _NONE, _NO_KINDS, _NONE, 0, IndexStop.END)
    starts, stopped_at = _places(data, is_segment=is_segment)
    view = np.frombuffer(data, np.uint8)
    if is_segment:
        prefixes = _numbers(view, starts, SEGMENT_PREFIX_BYTES).astype(np.int64)
        transient = ~prefixes >> RELATIVE_BITS & 1
        is_publish = prefixes >= SEGMENT_PUBLISH
        kinds = np.where(is_publish, transient, _DELIVER).astype(np.uint8)
        ids = prefixes & (ENTRIES_MAX - 1)
    else:
        words = _numbers(view, starts, JOURNAL_PREFIX_BYTES)
        kinds = (words >> np.uint64(SEQUENCE_BITS)).astype(np.uint8)
        ids = (words & np.uint64(_SEQUENCE_MASK)).astype(np.int64)
    stop = _why(data, stopped_at, is_segment=is_segment)
    return IndexRecords(data, is_segment, starts, kinds, ids, stopped_at, stop)


def _numbers(view: Bytes, starts: Ints, size: int) -> npt.NDArray[np.uint64]:
    """Return the number of `size` bytes at each place."""
    rows = view[starts[:, None] + np.arange(size)]
    return np.ascontiguousarray(rows).view(f">u{size}")[:, 0].astype(np.uint64)


def _why(data: Buffer, at: int, *, is_segment: bool) -> IndexStop:
    """Say why no record was read at a place."""
    if at == len(data):
        return IndexStop.END
    rest = bytes(data[at : at + JOURNAL_HEAD_BYTES])
    if not rest.strip(b"\0"):
        return IndexStop.ZEROS
    return IndexStop.INVALID if is_segment and rest[0] < 0x40 else IndexStop.PARTIAL


def _places(data: Buffer, *, is_segment: bool) -> tuple[Ints, int]:
    """Return where records begin, and where they end.

    Messages of one size follow each other with the same distance, each with its deliver record
    after it. Where that has been so for a while, very many are looked at in one step.
    """
    find = _segment_places if is_segment else _journal_places
    parts: list[Ints] = []
    at = 0
    while True:
        found, at = find(data, at, 2 * _TRIED)
        parts.append(np.fromiter(found, np.int64, len(found)))
        if len(found) < 2 * _TRIED:
            break
        for step in (2, 1):
            run = _run(data, parts[-1], at, step, is_segment=is_segment)
            if len(run.starts):
                parts.append(run.starts)
                at = run.end
                break
    return parts[0] if len(parts) == 1 else np.concatenate(parts), at


def _journal_places(data: Buffer, at: int, count_max: int) -> tuple[list[int], int]:
    """Follow the records of a journal one by one."""
    found: list[int] = []
    end = len(data)
    while at + JOURNAL_PREFIX_BYTES <= end and len(found) < count_max:
        if data[at] >= 0x80:
            found.append(at)
            at += JOURNAL_PREFIX_BYTES
            continue
        after = at + JOURNAL_HEAD_BYTES
        if after > end:
            break
        size = _unpack_size(data, after - 4)[0]
        if after + size > end or (not size and data[at:after] == _ZEROS):
            break
        found.append(at)
        at = after + size
    return found, at


def _segment_places(data: Buffer, at: int, count_max: int) -> tuple[list[int], int]:
    """Follow the records of a segment one by one."""
    found: list[int] = []
    end = len(data)
    while at + SEGMENT_PREFIX_BYTES <= end and len(found) < count_max:
        first = data[at]
        if first < 0x80:
            if first < 0x40:
                break
            found.append(at)
            at += SEGMENT_PREFIX_BYTES
            continue
        after = at + SEGMENT_HEAD_BYTES
        if after > end:
            break
        after += _unpack_size(data, after - 4)[0]
        if after > end:
            break
        found.append(at)
        at = after
    return found, at


@dataclass(frozen=True, slots=True)
class _Run:
    """Records that follow each other at one distance."""

    starts: Ints
    end: int


def _run(data: Buffer, before: Ints, at: int, step: int, *, is_segment: bool) -> _Run:
    """Return what goes on as the last records did: `step` of them are one unit.

    A unit is a publish record and its deliver record (2), or either alone (1).
    """
    nothing = _Run(_NONE, at)
    offsets = before[-step:] - before[-step]
    stride = at - int(before[-step])
    units = before[-_TRIED:].reshape(-1, step)
    if (np.diff(units[:, 0]) != stride).any() or (units - units[:, :1] != offsets).any():
        return nothing
    count = (len(data) - at) // stride
    if count < _TRIED:
        return nothing
    good = np.ones(count, np.bool_)
    view = np.frombuffer(data, np.uint8)
    prefix = SEGMENT_PREFIX_BYTES if is_segment else JOURNAL_PREFIX_BYTES
    for number in range(step):
        first = int(before[number - step])
        offset = int(offsets[number])
        size = (stride if number == step - 1 else int(offsets[number + 1])) - offset
        bytes_here = np.ndarray((count,), np.uint8, data, at + offset, (stride,))
        if _is_mark(int(view[first]), is_segment=is_segment):
            if is_segment:
                good &= (bytes_here >= 0x40) & (bytes_here < 0x80)
            else:
                good &= bytes_here >= 0x80
            continue
        sizes = np.ndarray((count,), ">u4", data, at + offset + prefix + TERM_SIZE_AT, (stride,))
        good &= sizes == size - prefix - BODY_BYTES
        good &= bytes_here >= 0x80 if is_segment else bytes_here < 0x80
        if size == JOURNAL_HEAD_BYTES and not is_segment:
            good &= ~_all_zeros(data, at + offset, count, stride)
    if not good.all():
        count = int(np.argmin(good))
    starts = (at + stride * np.arange(count, dtype=np.int64))[:, None] + offsets
    return _Run(starts.ravel(), at + stride * count)


def _is_mark(first: int, *, is_segment: bool) -> bool:
    """Say whether a record is a deliver or an ack, by its first byte."""
    return first < 0x80 if is_segment else first >= 0x80


def _all_zeros(data: Buffer, at: int, count: int, stride: int) -> Mask:
    """Say which of the heads at one distance from each other are zeros only."""
    heads = np.ndarray((count, JOURNAL_HEAD_BYTES), np.uint8, data, at, (stride, 1))
    zeros: Mask = np.max(heads, axis=1) == 0
    return zeros


def states(records: IndexRecords, entry_count: int = ENTRIES_MAX) -> MessageStates:
    """Add up what the records say of each message.

    Args:
        records: Of a journal or a segment.
        entry_count: Entries of a segment, for one; what has a greater relative id is skipped.
    """
    findings: list[IndexFinding] = []
    ids, kinds, starts = records.ids, records.kinds, records.starts
    if records.is_segment and len(ids) and int(ids.max()) >= entry_count:
        is_good = ids < entry_count
        what = f"a relative id of {entry_count} or more: passed over"
        findings += _found(starts[~is_good], what)
        ids, kinds, starts = ids[is_good], kinds[is_good], starts[is_good]
    if not len(ids):
        return MessageStates(_NONE, _NONE, _NOTHING, _NOTHING, tuple(findings))
    names, rows = _rows(ids)
    order = np.arange(len(ids))
    is_publish = kinds <= _TRANSIENT
    last = np.full(len(names), -1, np.int64)
    last[rows[is_publish]] = order[is_publish]  # of several the last one stays
    if np.count_nonzero(is_publish) != np.count_nonzero(last >= 0):
        is_earlier = is_publish & (last[rows] != order)
        findings += _found(starts[is_earlier], "published again later: the later record counts")
    counts = order > last[rows]  # what was said of an earlier publish is void
    delivers = np.bincount(rows[counts & (kinds == _DELIVER)], minlength=len(names))
    if records.is_segment:
        is_delivered, is_acked = delivers >= 1, delivers >= 2
        if (delivers > 2).any():
            findings += _found(_firsts(names, ids, starts, delivers > 2), "acknowledged twice")
        stray = (last < 0) & (delivers > 0)
        if stray.any():
            what = "delivered or acknowledged, but never published: passed over"
            findings += _found(_firsts(names, ids, starts, stray), what)
            keep = ~stray
            names, last = names[keep], last[keep]
            is_delivered, is_acked = is_delivered[keep], is_acked[keep]
    else:
        acks = np.bincount(rows[counts & (kinds == _ACK)], minlength=len(names))
        is_acked = acks >= 1
        is_delivered = (delivers >= 1) | (is_acked & (last >= 0))
        bare = is_acked & (last >= 0) & (delivers == 0)
        if bare.any():
            what = "acknowledged without having been delivered: taken for both"
            findings += _found(_firsts(names, ids, starts, bare), what)
    known = (last >= 0) | is_delivered | is_acked
    last = last[known]
    published_at = np.where(last >= 0, starts[last], -1)
    return MessageStates(
        names[known], published_at, is_delivered[known], is_acked[known], tuple(findings)
    )


def _rows(ids: Ints) -> tuple[Ints, Ints]:
    """Return names in ascending order, all that there are and perhaps others; the row of each id.

    Mostly ids are close to each other, and their distance from the lowest is quick to have.
    """
    first = int(ids.min())
    count = int(ids.max()) - first + 1
    if count <= max(ENTRIES_MAX, 4 * len(ids)):
        return np.arange(first, first + count), ids - first
    names, rows = np.unique(ids, return_inverse=True)
    return names, rows


def _found(positions: Ints, what: str) -> list[IndexFinding]:
    return [IndexFinding(int(position), what) for position in positions]


def _firsts(names: Ints, ids: Ints, starts: Ints, wanted: Mask) -> Ints:
    """Return where the first record of each message that is wanted begins."""
    chosen = np.isin(ids, names[wanted])
    _, first = np.unique(ids[chosen], return_index=True)
    positions: Ints = starts[chosen][first]
    return positions


def messages(records: IndexRecords, published_at: Ints) -> IndexedMessages:
    """Return the fields of publish records.

    Args:
        records: The file that they are in.
        published_at: Where each begins, as `starts` or `MessageStates.published_at` has it.
    """
    prefix = SEGMENT_PREFIX_BYTES if records.is_segment else JOURNAL_PREFIX_BYTES
    view = np.frombuffer(records.data, np.uint8)
    heads = np.ascontiguousarray(view[(published_at + prefix)[:, None] + np.arange(BODY_BYTES)])
    rows = heads.view(_FIELDS)[:, 0]
    bit: Mask = view[published_at] & 0x40 != 0
    return IndexedMessages(
        message_ids=heads[:, :ID_BYTES],
        expiry_us=rows["expiry_us"].astype(np.uint64),
        body_sizes=rows["body_size"].astype(np.int64),
        term_starts=published_at + prefix + BODY_BYTES,
        term_sizes=rows["term_size"].astype(np.int64),
        is_persistent=bit if records.is_segment else ~bit,
    )
