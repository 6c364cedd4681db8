"""The terms of messages that rows of an index name: from the index itself, or from the stores.

Messages that lie near each other in a file are read together.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, DiskFailed, FileMissing
from sprocket.base.units import GIB, KIB, MIB
from sprocket.rabbitmq.codec import checksums, index
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.columns import Ints, Octets, StoreEntries, store_entries
from sprocket.rabbitmq.codec.index import MessagePlace
from sprocket.rabbitmq.codec.store import entries
from sprocket.rabbitmq.model.message import ID_BYTES
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import MessageStoreLayout, VhostLayout
from sprocket.rabbitmq.store.reading import EMBEDDED, FaultyReads, IndexRows
from sprocket.rabbitmq.store.write_ahead import read_log
from sprocket.spark.arrow import cut, numbers

RUN_BYTES_MAX = 16 * MIB
"""Read at once at most, if it is more than one message."""
GAP_BYTES_MAX = 64 * KIB
"""This much that is not wanted is read along; a request of its own would take longer."""
_BUFFER_BYTES_MAX = GIB
"""Arrow's offsets have 32 bits."""


@dataclass(slots=True)
class FoundTerms:
    """Terms of messages, one for each row asked for.

    Attributes:
        terms: A binary array; empty where there is no term.
        faults: Why there is none, by row.
    """

    terms: Any
    faults: dict[int, str]


@dataclass(slots=True)
class _Pieces:
    """Terms that were found, with the rows that they are of."""

    rows: list[Ints] = field(default_factory=list)
    terms: list[Any] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, rows: Ints, terms: Any) -> None:
        self.rows.append(rows)
        self.terms.append(terms)

    def fail(self, rows: Ints, why: str | Callable[[int], str]) -> None:
        for row in rows.tolist():
            self.faults[row] = why if isinstance(why, str) else why(row)

    def joined(self, count: int) -> FoundTerms:
        order = np.full(count, sum(map(len, self.rows)), np.int64)
        at = 0
        for rows in self.rows:
            order[rows] = np.arange(at, at + len(rows))
            at += len(rows)
        every = pa.concat_arrays([*self.terms, pa.array([b""], pa.binary())])
        return FoundTerms(every.take(numbers(order, pa.int64())), self.faults)


class StoredTerms:
    """Finds the messages of one virtual host.

    Args:
        disk: Where it is.
        paths: Of the virtual host.
        compares_sums: Messages are compared with their checksums, where they have any.
    """

    def __init__(self, disk: Disk, paths: VhostLayout, *, compares_sums: bool = True) -> None:
        self._disk = disk
        self._paths = paths
        self._compares_sums = compares_sums

    def read(self, rows: IndexRows, which: Ints) -> FoundTerms:
        """Return the terms of some rows of an index."""
        found = _Pieces()
        places = rows.places[which]
        own = np.arange(len(which), dtype=np.int64)
        starts, sizes = rows.positions[which], rows.sizes[which]
        for number in np.unique(rows.sources[which]).tolist():
            of_it = own[(places == EMBEDDED) & (rows.sources[which] == number)]
            if len(of_it):
                file = rows.files[number]
                _cut_all(file.data, of_it, starts[of_it], starts[of_it] + sizes[of_it], found)
        near = own[places == MessagePlace.QUEUE_STORE]
        if len(near):
            self._read_near(rows.files[1].path, near, starts[near], sizes[near], found)
        shared = own[places == MessagePlace.SHARED_STORE]
        if len(shared):
            ids = np.ascontiguousarray(rows.message_ids[which])
            self._read_shared(shared, ids, rows.is_persistent[which], found)
        known = (EMBEDDED, MessagePlace.QUEUE_STORE, MessagePlace.SHARED_STORE)
        found.fail(own[~np.isin(places, known)], "the message was in memory only")
        return found.joined(len(which))

    def _read_shared(self, rows: Ints, ids: Octets, is_persistent: Any, found: _Pieces) -> None:
        persistent, transient = self._paths.persistent, self._paths.transient
        lasting, others = rows[is_persistent[rows]], rows[~is_persistent[rows]]
        self._fail_missing(
            self._from_store(persistent, lasting, ids, found), persistent, ids, found
        )
        others = self._from_store(transient, others, ids, found)
        others = self._from_store(persistent, others, ids, found)
        self._fail_missing(others, persistent, ids, found)

    def _fail_missing(
        self, rows: Ints, store: MessageStoreLayout, ids: Octets, found: _Pieces
    ) -> None:
        found.fail(rows, lambda row: f"{store.root} has no message {ids[row].tobytes().hex()}")

    def _from_store(
        self, store: MessageStoreLayout, rows: Ints, ids: Octets, found: _Pieces
    ) -> Ints:
        """Fetch what a store has of some messages; return the rows of the others."""
        if not len(rows):
            return rows
        known = _known_places(self._disk, store)
        at = known.find(ids[rows])
        is_there = at >= 0
        at, here = at[is_there], rows[is_there]
        for number in np.unique(known.files[at]).tolist():
            of_file = known.files[at] == number
            chosen = at[of_file]
            pieces = _Pieces()
            self._read_runs(
                known.paths[number],
                here[of_file],
                known.positions[chosen] + entries.HEAD.size,
                known.sizes[chosen] - entries.OVERHEAD_BYTES,
                pieces,
            )
            found.faults.update(pieces.faults)
            for some, terms in zip(pieces.rows, pieces.terms, strict=True):
                self._compare_sums(known.paths[number], some, terms, ids, found)
        return rows[~is_there]

    def _compare_sums(self, path: str, rows: Ints, terms: Any, ids: Octets, found: _Pieces) -> None:
        """Take messages but for those that have another checksum than was noted of them."""
        is_same = np.ones(len(rows), np.bool_)
        if self._sums:
            for number, row in enumerate(rows.tolist()):
                known = self._sums.get(ids[row].tobytes())
                term = memoryview(terms[number].as_buffer())
                if known is not None and known != TermSum(len(term), crc32(term)):
                    found.faults[row] = f"{path}: the message has another checksum"
                    is_same[number] = False
        if is_same.all():
            found.add(rows, terms)
        else:
            found.add(rows[is_same], terms.filter(pa.array(is_same)))

    @cached_property
    def _sums(self) -> dict[bytes, TermSum]:
        """The checksums of messages in the store: those that are ours have some."""
        found: dict[bytes, TermSum] = {}
        if not self._compares_sums:
            return found
        store, reads = self._paths.persistent, FaultyReads(self._disk)
        for number in layout.numbers(self._disk.list(store.root), layout.SUMS):
            found |= checksums.decode(reads.read(store.sums(number)) or b"")
        try:
            log = read_log(self._disk, self._paths.root)
        except DiskFailed:  # the reader of the index reports it
            return found
        return found | checksums.decode(log.store_sums)

    def _read_near(self, path: str, rows: Ints, starts: Ints, sizes: Ints, found: _Pieces) -> None:
        """Fetch messages of an N.qs; their checksums are compared one by one."""
        is_head = starts < index.HEADER_BYTES
        for row, start in zip(rows[is_head].tolist(), starts[is_head].tolist(), strict=True):
            found.faults[row] = f"no message begins at {start} of {path}"
        rows, starts, sizes = rows[~is_head], starts[~is_head], sizes[~is_head]
        pieces = _Pieces()
        self._read_runs(path, rows, starts, sizes + index.STORED_HEAD.size, pieces)
        found.faults.update(pieces.faults)
        size_of = dict(zip(rows.tolist(), sizes.tolist(), strict=True))
        for some, terms in zip(pieces.rows, pieces.terms, strict=True):
            good: list[int] = []
            kept: list[bytes] = []
            for row, data in zip(some.tolist(), terms.to_pylist(), strict=True):
                try:
                    term = index.stored_term(data, size_of[row], check_crc=self._compares_sums)
                    kept.append(term)
                    good.append(row)
                except CorruptRecord as error:
                    found.faults[row] = str(error)
            found.add(np.array(good, np.int64), pa.array(kept, pa.binary()))

    def _read_runs(self, path: str, rows: Ints, starts: Ints, sizes: Ints, found: _Pieces) -> None:
        """Fetch ranges of a file, fewer bytes at its end; those that are near in one go."""
        try:
            file = self._disk.open(path)
        except FileMissing:
            found.fail(rows, f"{path} is missing")
            return
        except DiskFailed as error:
            found.fail(rows, str(error))
            return
        with closing(file):
            order = np.argsort(starts, kind="stable")
            rows, starts = rows[order], starts[order]
            ends = np.minimum(starts + sizes[order], file.size())
            ends = np.maximum(starts, ends)
            for first, stop in _runs(starts, ends):
                begin, end = int(starts[first]), int(ends[first:stop].max())
                try:
                    data = file.read(begin, end - begin)
                except DiskFailed as error:
                    found.fail(rows[first:stop], str(error))
                    continue
                some = slice(first, stop)
                last = np.minimum(ends[some] - begin, len(data))
                _cut_all(data, rows[some], starts[some] - begin, last, found)


def _runs(starts: Ints, ends: Ints) -> list[tuple[int, int]]:
    """Return which ranges, in ascending order, to read together: first and stop of each run."""
    found: list[tuple[int, int]] = []
    first = 0
    firsts, lasts = starts.tolist(), ends.tolist()
    for number in range(1, len(firsts)):
        is_far = firsts[number] - lasts[number - 1] > GAP_BYTES_MAX
        if is_far or lasts[number] - firsts[first] > RUN_BYTES_MAX:
            found.append((first, number))
            first = number
    return [*found, (first, len(firsts))] if firsts else []


def _cut_all(data: Any, rows: Ints, starts: Ints, ends: Ints, found: _Pieces) -> None:
    """Cut ranges out of a buffer of any size."""
    first, end = int(starts.min()), int(ends.max())
    if end - first > _BUFFER_BYTES_MAX:
        if len(rows) == 1:
            found.fail(rows, f"a message of {end - first:,} bytes")
            return
        half = len(rows) // 2
        _cut_all(data, rows[:half], starts[:half], ends[:half], found)
        _cut_all(data, rows[half:], starts[half:], ends[half:], found)
        return
    view = memoryview(data)[first:end]
    found.add(rows, cut_out(view, starts - first, ends - first))


def cut_out(data: Any, starts: Ints, ends: Ints) -> Any:
    """Do as `cut` for places in any order."""
    if not (starts[1:] < starts[:-1]).any():
        return cut(data, starts, ends)
    order = np.argsort(starts, kind="stable")
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return cut(data, starts[order], ends[order]).take(numbers(back, pa.int64()))


class StorePlaces:
    """Where each message of a store is. It takes 40 bytes of memory for each message.

    Args:
        paths: Of the files, in the order in which a copy is preferred.
        found: The entries of each.
    """

    def __init__(self, paths: Sequence[str], found: Sequence[StoreEntries]) -> None:
        self.paths = tuple(paths)
        none = np.empty(0, np.int64)
        files = np.repeat(np.arange(len(found)), [len(one) for one in found])
        ids = np.concatenate([np.empty((0, ID_BYTES), np.uint8), *(one.ids for one in found)])
        high, low = _words(ids)
        order = np.lexsort((np.arange(len(files)), low, high))
        self.files = files[order]
        self.positions = np.concatenate([none, *(one.positions for one in found)])[order]
        self.sizes = np.concatenate([none, *(one.sizes for one in found)])[order]
        self._high, self._low = high[order], low[order]

    def find(self, ids: Octets) -> Ints:
        """Return the number of the first entry of each message; -1 for none.

        Args:
            ids: 16 bytes each, as rows.
        """
        high, low = _words(ids)
        at = np.searchsorted(self._high, high, "left")
        ends = np.searchsorted(self._high, high, "right")
        found = np.full(len(ids), -1, np.int64)
        rest = np.flatnonzero(at < ends)
        while len(rest):  # ids that agree in their first half are next to each other
            is_it = self._low[at[rest]] == low[rest]
            found[rest[is_it]] = at[rest[is_it]]
            rest = rest[~is_it]
            at[rest] += 1
            rest = rest[at[rest] < ends[rest]]
        return found


def _words(ids: Octets) -> tuple[Any, Any]:
    """Return both halves of ids as numbers."""
    words = np.ascontiguousarray(ids).view(">u8").astype(np.uint64)
    return words[:, 0], words[:, 1]


def _known_places(disk: Disk, store: MessageStoreLayout) -> StorePlaces:
    """Return where the messages of a store are; tasks of one worker find out once."""
    sizes = disk.sizes(store.root)
    # What a compaction wrote is a second copy, unless the crash cut its file just then.
    files = [store.file(number) for number in layout.numbers(sizes, layout.STORE_FILE)]
    files += [store.compacted_file(n) for n in layout.numbers(sizes, layout.COMPACTED_FILE)]
    changed = tuple((path, disk.modified_at_ms(path)) for path in files)
    return _scanned(_ByRoot(disk, store.root), changed, tuple(sizes.items()))


@dataclass(frozen=True)
class _ByRoot:
    """A disk, that of a folder: what is on it is the same for whoever names the same folder."""

    disk: Disk = field(compare=False)
    root: str


@lru_cache(maxsize=2)
def _scanned(
    on: _ByRoot, files: tuple[tuple[str, int], ...], _sizes: tuple[tuple[str, int], ...]
) -> StorePlaces:
    """Scan files; their times and lengths are there to tell them from what they were before."""
    reads = FaultyReads(on.disk)
    found = []
    for path, _ in files:
        with closing(on.disk.open(path)) as file:

            def read(position: int, size: int, file: Any = file) -> bytes:
                return reads.read_around(file, position, size)

            found.append(store_entries(read, file.size()))
    return StorePlaces([path for path, _ in files], found)
