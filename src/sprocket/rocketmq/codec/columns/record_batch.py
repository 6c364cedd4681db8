"""What queues and index need of many records at once: columns in place of `record.Entry` objects.

Needs numpy, as a store does; a client does without.

A batch is made of `columns.Records`. Tag codes and hashes of keys are computed from the stored
bytes: properties are split at every 0x02 of the batch in one search, or only once if all have the
same layout. Texts are hashed together by length, since there are few lengths. Rare things are done
record by record with `record.entry`: texts that are not ASCII, and topics of delayed messages.

Invariant: `entries` and the columns have the same content; a test compares them.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.rocketmq.codec.columns import columns
from sprocket.rocketmq.codec.columns.columns import Buffer, Ints, Mask, Records, gather
from sprocket.rocketmq.codec.record import Entry, extra, properties, record
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)

_TAGS, _KEYS, _UNIQUE = b"TAGS\x01", b"KEYS\x01", b"UNIQ_KEY\x01"
_LIGHT = properties.INNER_MULTI_DISPATCH.encode()
_WORD_BYTES = 8
_INT_BITS = 63
_PADDING_BYTES = 16
"""Behind the last property string, so that a word can be read wherever one begins."""
_KINDS_RECORDS_MIN = 256
"""From so many records on it pays to part them by the lengths of their properties."""
_KINDS_MAX = 8
"""So many lengths are parted one by one; each costs as much as some 50 records."""
_WASTE_MAX = 4
"""Property strings are copied as rows of one width unless that takes so many times their bytes."""


class QueueRun(NamedTuple):
    """The records of a batch that get a unit in one queue, by their numbers in the batch."""

    topic: str
    queue_id: int
    rows: Ints


class ByQueue(NamedTuple):
    """The records of a batch that get a unit, by their numbers, those of each queue together.

    Attributes:
        rows: Their numbers; those of a queue in order.
        first: Where in `rows` each queue begins.
    """

    rows: Ints
    first: Ints


class Keys(NamedTuple):
    """All keys of a batch, in the order in which they are put.

    Attributes:
        row: Number of the record.
        hash: `hash32` of the key alone, as u32.
        units: UTF-16 units of the key.
    """

    row: Ints
    hash: npt.NDArray[np.uint32]
    units: Ints


class RecordBatch:
    """Some records of one file of the log, in its order; arrays hold one element a record.

    Args:
        records: They have been checked, their places included.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self.physical_offset = records.number("physical_offset")
        self.size: Ints = records.end - records.start
        self.queue_id = records.number("queue_id")
        self.queue_offset = records.number("queue_offset")
        self.stored_at_ms = records.stored_at_ms
        self.topic_number = records.topic_number
        self.topic_names = records.topic_names
        self.sys_flag = records.number("sys_flag")
        transaction = self.sys_flag & TRANSACTION_MASK
        self.queueable: Mask = (transaction == 0) | (transaction == TRANSACTION_COMMIT)
        self.indexable: Mask = transaction != TRANSACTION_ROLLBACK

    @classmethod
    def of_one(cls, stored: Buffer, entry: Entry) -> "RecordBatch":
        """Return a batch of one record, given it as stored and what it says."""
        return cls(columns.records(stored, np.zeros(1, np.int64), entry.size))

    def __len__(self) -> int:
        return len(self.size)

    @property
    def start(self) -> int:
        """Physical offset of the first record."""
        return int(self.physical_offset[0])

    @property
    def end(self) -> int:
        """Physical offset behind the last record."""
        return int(self.physical_offset[-1]) + int(self.size[-1])

    def entries(self, first: int = 0) -> list[Entry]:
        """Return the same record by record, from number `first` on."""
        data = self.records.data
        return [record.entry(data, start) for start in self.records.start[first:].tolist()]

    @cached_property
    def by_queue(self) -> "ByQueue":
        """The records that get a unit, queue by queue."""
        rows = np.flatnonzero(self.queueable)
        if not len(rows):
            return ByQueue(rows, rows)
        queue = (self.topic_number[rows] << 32) + self.queue_id[rows]
        if (queue == queue[0]).all():
            return ByQueue(rows, np.zeros(1, np.int64))
        # The row in the low bits keeps the order, and numbers sort faster than an argsort.
        low = len(rows).bit_length()
        if 32 + len(self.topic_names).bit_length() + low >= _INT_BITS:
            _, queue = np.unique(queue, return_inverse=True)
        merged = np.sort((queue << low) + np.arange(len(rows)))
        rows = rows[merged & ((1 << low) - 1)]
        return ByQueue(rows, np.append(0, np.flatnonzero(np.diff(merged >> low)) + 1))

    @cached_property
    def runs(self) -> list[QueueRun]:
        """The records of each queue, in order."""
        rows, first = self.by_queue
        topics = self.topic_number[rows[first]].tolist()
        queue_ids = self.queue_id[rows[first]].tolist()
        bounds = pairwise([*first.tolist(), len(rows)])
        return [
            QueueRun(self.topic_names[topic], queue_id, rows[start:stop])
            for topic, queue_id, (start, stop) in zip(topics, queue_ids, bounds, strict=True)
        ]

    @cached_property
    def pieces(self) -> "_Parted":
        """The properties of all records, parted; those of one layout are parted once."""
        records = self.records
        start = records.properties_start - 1  # the byte before them is made a 0x02, too
        widths = records.end - start
        width = int(widths[0])
        if (widths == width).all():
            alike = _Alike.of(records.data, records.end, width)
            if alike is not None:
                return alike
        elif len(self) >= _KINDS_RECORDS_MIN:
            kinds = _Kinds.of(records, widths)
            if kinds is not None:
                return kinds
        return _Pieces(records, start, widths)

    @cached_property
    def is_plain(self) -> bool:
        """Whether no record has anything `extra`, which columns do not tell."""
        return not self.may_be_special.any()

    @cached_property
    def may_be_special(self) -> Mask:
        """Which records may have something `extra`: delayed ones; all if one is of another kind.

        So all records of a queue are, or none.
        """
        special: Mask = np.zeros(len(self), np.bool_)
        data = self.pieces.data.tobytes()
        if (self.sys_flag & INNER_BATCH).any() or (extra.MARK in data and _LIGHT in data):
            special[:] = True
        elif SCHEDULE_TOPIC in self.topic_names:
            special = self.topic_number == self.topic_names.index(SCHEDULE_TOPIC)
        return special

    def keep(self, mask: Mask) -> "RecordBatch":
        """Return some of the records, which then need not follow each other."""
        return RecordBatch(self.records.keep(mask))

    def part(self, first: int, stop: int) -> "RecordBatch":
        """Return the records from number `first` up to `stop`."""
        return RecordBatch(self.records.part(first, stop))

    def next_offset(self, number: int) -> int:
        """Return the queue offset behind one record."""
        if self.sys_flag[number] & INNER_BATCH:
            return self.entry(number).next_offset
        return int(self.queue_offset[number]) + 1

    @cached_property
    def tags_code(self) -> Ints:
        """The hash of the tag, 0 without one."""
        codes = np.zeros(len(self), np.int64)
        row, start, end = self.pieces.values(_TAGS)
        hashes, is_ascii = _hashes(self.pieces.data, start, end)
        codes[row] = hashes.view(np.int32)
        for number in row[~is_ascii].tolist():
            codes[number] = self.entry(number).tags_code
        return codes

    @cached_property
    def keys(self) -> Keys:
        """The unique key of each record, then each word of its KEYS."""
        pieces = self.pieces
        unique = self._hashed(*pieces.values(_UNIQUE))
        words = self._hashed(*_words(pieces.data, *pieces.values(_KEYS)))
        pairs: list[tuple[Any, Any]] = list(zip(unique, words, strict=True))
        if pieces.is_in_order and np.array_equal(unique.row, words.row):  # one of each
            return Keys(*[np.stack(pair, axis=1).ravel() for pair in pairs])
        order = np.argsort(np.concatenate(pairs[0]), kind="stable")
        return Keys(*[np.concatenate(pair)[order] for pair in pairs])

    def _hashed(self, row: Ints, start: Ints, end: Ints) -> Keys:
        """Return keys that lie in the bytes of `pieces`."""
        data = self.pieces.data
        hashes, is_ascii = _hashes(data, start, end)
        units = end - start
        if not is_ascii.all():
            for number in np.flatnonzero(~is_ascii).tolist():
                text = bytes(data[start[number] : end[number]]).decode("utf-8", "replace")
                hashes[number] = hash32(text) & 0xFFFF_FFFF
                units[number] = len(text.encode("utf-16-le")) // 2
        return Keys(row, hashes, units)

    def entry(self, number: int) -> Entry:
        """Return the entry of one record."""
        return record.entry(self.records.data, int(self.records.start[number]))


class _Alike:
    """Property strings that are all parted alike, as those of one producer mostly are.

    Codes and keys of 512 records then take 0.3 µs each, with `_Pieces` 0.9.

    Attributes:
        data: One behind the other, as bytes.
        is_in_order: Values come in the order of the records.
    """

    is_in_order = True

    def __init__(self, rows: npt.NDArray[np.uint8], pieces: dict[bytes, tuple[int, int]]) -> None:
        self.data = rows.ravel()
        self._first = np.arange(len(rows)) * rows.shape[1]
        self._row = np.arange(len(rows))
        self._pieces = pieces

    @classmethod
    def of(cls, data: Buffer, end: Ints, width: int) -> "_Alike | None":
        """Part strings of one length that end at `end`; None if they are not parted alike.

        `width` is their length and one byte more, which is before them.
        """
        whole = -(-width // _WORD_BYTES) * _WORD_BYTES
        if width < _PADDING_BYTES or end[0] < whole:
            return None
        words = gather(data, f"V{whole}", end - whole).view(np.uint64).reshape(-1, whole // 8)
        rows = words.view(np.uint8)
        before = whole - width
        rows[:, :before] = 0
        rows[:, before] = 2
        text = rows[0].tobytes()
        starts = (np.flatnonzero(rows[0] == 2) + 1).tolist()
        fixed = np.zeros(whole, np.uint8)  # the bytes that are to be the same in all
        pieces: dict[bytes, tuple[int, int]] = {}
        for start, stop in pairwise([*starts, whole + 1]):
            name_end = text.find(b"\1", start, stop - 1) + 1 or stop - 1  # all of it without one
            fixed[start - 1 : name_end] = 0xFF
            if name_end < stop - 1:
                pieces[text[start:name_end]] = name_end, stop - 1
        if ((words ^ words[0]) & fixed.view(np.uint64)).any():
            return None
        if np.count_nonzero(rows == 2) > len(starts) * len(rows):
            return None
        return cls(rows, pieces)

    def values(self, name: bytes) -> tuple[Ints, Ints, Ints]:
        """Do as `_Pieces.values`."""
        found = self._pieces.get(name)
        if found is None:
            return self._row[:0], self._row[:0], self._row[:0]
        return self._row, self._first + found[0], self._first + found[1]


class _Kinds:
    """Property strings of a few lengths, those of each parted alike.

    So are half messages, what is committed of them, and op messages. Records of three kinds take
    as long as those of one, and a third of what `_Pieces` takes.

    Attributes:
        data: Those of each length, one behind the other, as bytes.
        is_in_order: Values come in the order of the records, only among those of each length.
    """

    is_in_order = False

    def __init__(self, kinds: Sequence[tuple[Ints, _Alike]]) -> None:
        sizes = [len(alike.data) for _, alike in kinds]
        self._kinds = kinds
        self._first = np.cumsum([0, *sizes])
        self.data = np.concatenate([alike.data for _, alike in kinds])

    @classmethod
    def of(cls, records: Records, widths: Ints) -> "_Kinds | None":
        """Part the strings; None if they have too many lengths, or some are not parted alike.

        Args:
            records: The records.
            widths: The length of each string and one byte more, which is before it.
        """
        lengths = np.flatnonzero(np.bincount(widths))
        if len(lengths) > _KINDS_MAX:
            return None
        kinds: list[tuple[Ints, _Alike]] = []
        for width in lengths.tolist():
            rows = np.flatnonzero(widths == width)
            alike = _Alike.of(records.data, records.end[rows], width)
            if alike is None:
                return None
            kinds.append((rows, alike))
        return cls(kinds)

    def values(self, name: bytes) -> tuple[Ints, Ints, Ints]:
        """Do as `_Pieces.values`, but for the order."""
        found = []
        for (rows, alike), first in zip(self._kinds, self._first.tolist(), strict=False):
            row, start, end = alike.values(name)
            found.append((rows[row], start + first, end + first))
        row, start, end = (np.concatenate(part) for part in zip(*found, strict=True))
        return row, start, end


class _Pieces:
    """The property strings of some records in one buffer, parted at each 0x02.

    Args:
        records: The records.
        start: The byte before each property string, which is made a 0x02 as well.
        widths: Bytes from there to the end of each record.

    Attributes:
        data: The buffer, as bytes.
        is_in_order: Values come in the order of the records.
    """

    is_in_order = True

    def __init__(self, records: Records, start: Ints, widths: Ints) -> None:
        count = len(records)
        width = max(int(widths.max()), _PADDING_BYTES)
        if (records.end >= width).all() and width * count <= _WASTE_MAX * int(widths.sum()):
            # Rows that end where the records do, and a last one for padding.
            rows = gather(
                records.data, f"V{width}", np.append(records.end, records.end[-1]) - width
            )
            self.data: npt.NDArray[np.uint8] = rows.view(np.uint8)
            stop = np.arange(1, count + 1) * width
        else:
            view = memoryview(records.data)
            bounds = zip(start.tolist(), records.end.tolist(), strict=True)
            joined = b"".join([*(view[a:b] for a, b in bounds), bytes(_PADDING_BYTES)])
            self.data = np.frombuffer(bytearray(joined), np.uint8)
            stop = np.cumsum(widths)
        first = stop - widths
        self.data[first] = 2
        marks = np.flatnonzero(self.data == 2)
        positions = np.searchsorted(marks, stop)
        self._row = np.repeat(np.arange(count), np.diff(positions, prepend=0))
        marks = np.append(marks[: len(self._row)], stop[-1])
        self._start = marks[:-1] + 1
        self._end = np.minimum(marks[1:], stop[self._row])
        self._is_own: Mask = marks[:-1] >= first[self._row]
        self._word = gather(self.data, "<u8", np.minimum(self._start, len(self.data) - _WORD_BYTES))

    def values(self, name: bytes) -> tuple[Ints, Ints, Ints]:
        """Return where the values of a name lie: numbers of the records, and bytes into `data`.

        Of equal names the last one counts that has a value.

        Args:
            name: The name and its 0x01.
        """
        if len(name) <= _WORD_BYTES:
            found = self._word & ((1 << 8 * len(name)) - 1) == int.from_bytes(name, "little")
        else:
            found = self._word == int.from_bytes(name[:_WORD_BYTES], "little")
            assert len(name) == _WORD_BYTES + 1
        where = np.flatnonzero(found & self._is_own & (self._end > self._start + len(name)))
        if len(name) > _WORD_BYTES:
            where = where[self.data[self._start[where] + _WORD_BYTES] == name[_WORD_BYTES]]
        row = self._row[where]
        if len(row) > 1 and (row[1:] == row[:-1]).any():
            where = where[np.append(row[1:] != row[:-1], True)]
            row = self._row[where]
        return row, self._start[where] + len(name), self._end[where]


_Parted: TypeAlias = _Alike | _Kinds | _Pieces
"""The property strings of a batch; one `values` for all that have a name."""


def _words(data: Any, row: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Part texts at single blanks; return the words that are not empty as `_Pieces.values` does."""
    if not len(row):
        return row, start, end
    blanks = np.flatnonzero(data == ord(" "))
    if not len(blanks):
        return row, start, end
    owner = np.searchsorted(start, blanks, side="right") - 1
    inside = (owner >= 0) & (blanks < end[owner])
    if not inside.any():
        return row, start, end
    blanks = blanks[inside]
    start_of_words = np.sort(np.concatenate((start, blanks + 1)))
    end_of_words = np.sort(np.concatenate((end, blanks)))
    filled = end_of_words > start_of_words
    start_of_words, end_of_words = start_of_words[filled], end_of_words[filled]
    owner = np.searchsorted(start, start_of_words, side="right") - 1
    return row[owner], start_of_words, end_of_words


def _hashes(data: Any, start: Ints, end: Ints) -> tuple[npt.NDArray[np.uint32], Mask]:
    """Return `hash32` of `data[start[i]:end[i]]` as u32 for every i, valid where that is ASCII.

    Returns:
        The hashes, and which texts are ASCII.
    """
    sizes = end - start
    is_ascii: Mask = np.ones(len(sizes), np.bool_)
    if len(sizes) and (sizes == sizes[0]).all():
        texts = _texts(data, start, int(sizes[0]))
        if texts.max() >= 0x80:
            is_ascii[:] = (texts < 0x80).all(axis=1)
        return texts.astype(np.uint32) @ _powers(texts.shape[1]), is_ascii
    hashes = np.zeros(len(sizes), np.uint32)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        where = np.flatnonzero(sizes == size)
        texts = _texts(data, start[where], size)
        hashes[where] = texts.astype(np.uint32) @ _powers(size)
        if texts.max() >= 0x80:
            is_ascii[where] = (texts < 0x80).all(axis=1)
    return hashes, is_ascii


def _texts(data: Any, start: Ints, size: int) -> npt.NDArray[np.uint8]:
    """Return texts of one size, not 0, as rows."""
    rows: npt.NDArray[np.uint8] = gather(data, f"V{size}", start).view(np.uint8)
    return rows.reshape(-1, size)


@lru_cache(maxsize=256)
def _powers(count: int) -> npt.NDArray[np.uint32]:
    """Return the powers of 31 that a hash of so many units takes, the highest first."""
    return np.array([pow(31, n, 1 << 32) for n in reversed(range(count))], np.uint32)
