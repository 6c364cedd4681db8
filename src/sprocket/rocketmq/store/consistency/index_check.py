"""Checking the index: each file in itself, and all of them against the log.

In itself: units are in the order in which they were put. So each unit must name the unit before it
in its slot, and each slot its last unit. Against the log: entries come in the order of the log, so
both are read side by side.

A store is checked from its first record to its last (`IndexCheck`), or a part of the log by itself
(`IndexRun`), which says no more than that all is as it should be, and which entries it has.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from sprocket.base.disk import Disk, read_written
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.model.hashes import abs_hash, hash32
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.store.consistency.finding import Finding, Rule
from sprocket.rocketmq.store.consistency.log_check import CheckedLog
from sprocket.rocketmq.store.index import (
    HEADER,
    HEADER_BYTES,
    INDEX_UNIT,
    SECONDS_MAX,
    SLOT_BYTES,
    UNIT_BYTES,
    IndexHeader,
    batch_hashes,
    key_string,
)

CHUNK_UNITS = 16_384
CHAIN_UNITS = 1_000_000
"""Of which chains are looked at together: 20 MB, and as much again to sort them."""
OUTLIERS_MAX = 8
"""So many entries that point far ahead are passed over where others lie between the right ones."""
_SECOND_MS = 1000


Units: TypeAlias = npt.NDArray[np.void]
Slots: TypeAlias = npt.NDArray[np.int32]
_UNITS = np.dtype([("hash", ">i4"), ("place", ">i8"), ("seconds", ">i4"), ("before", ">i4")])
assert _UNITS.itemsize == UNIT_BYTES


class _Unit(NamedTuple):
    """An entry of the index, with its file and its number there."""

    hash: int
    place: int
    seconds: int
    file: "_IndexFile"
    number: int


class _IndexFile:
    """One file of the index as it is."""

    def __init__(self, disk: Disk, path: str, geometry: IndexGeometry) -> None:
        self.path = path
        self._disk = disk
        self._slots = geometry.slots
        self._limit = geometry.units
        self._units_at = HEADER_BYTES + SLOT_BYTES * geometry.slots
        with closing(disk.open(path)) as file:
            self.header = IndexHeader(*HEADER.unpack(file.read(0, HEADER_BYTES)))
        self._is_blank = self.header.encode() == bytes(HEADER_BYTES)
        self.count = min(max(self.header.next_unit, 1), geometry.units)
        self.is_full = self.count == geometry.units

    def position(self, number: int) -> int:
        """Return where in the file a unit lies."""
        return self._units_at + UNIT_BYTES * number

    def chunks(self, size: int = CHUNK_UNITS, start: int = 1) -> Iterator[tuple[int, bytes]]:
        """Give the units as they lie there, many at a time, with the number of the first."""
        with closing(self._disk.open(self.path)) as file:
            for first in range(start, self.count, size):
                count = min(size, self.count - first)
                yield first, file.read(self.position(first), UNIT_BYTES * count)

    def first_from(self, place: int) -> int:
        """Return the number of the first unit of a record at a place or behind it.

        Places are taken to rise, as they do where nothing is wrong.
        """
        with closing(self._disk.open(self.path)) as file:

            def place_of(number: int) -> int:
                unit = INDEX_UNIT.unpack(file.read(self.position(number), UNIT_BYTES))
                return int(unit[1])

            return 1 + bisect_left(range(1, self.count), place, key=place_of)

    def seconds(self, at_ms: int) -> int:
        """Return what an entry of a message that was stored at a time says."""
        begin = self.header.begin_at_ms
        passed = (at_ms - begin) // _SECOND_MS if begin > 0 else 0
        return min(max(passed, 0), SECONDS_MAX)

    def check(self, *, with_slots: bool) -> Iterator[Finding]:
        """Report what does not agree inside the file.

        Args:
            with_slots: The slots are on the disk; while a store is open they need not be.
        """
        if self._is_blank:  # made just before the stop; RocketMQ reads it as empty
            return
        header = self.header
        if not 1 <= header.next_unit <= self._limit:
            yield self.finding(
                Rule.INDEX_HEADER, 36, f"a next unit from 1 to {self._limit}", header.next_unit
            )
        last = np.zeros(self._slots, np.int32)
        places = []
        for first, data in self.chunks(CHAIN_UNITS):
            units = np.frombuffer(data, _UNITS)
            yield from self._check_chains(first, units, last)
            places += [int(units["place"][0])] if first == 1 else []
            if first + len(units) == self.count and self.count > 2:
                places.append(int(units["place"][-1]))
        ends = header.begin_offset, header.end_offset
        if places and (places[0], places[-1]) != ends:
            yield self.finding(
                Rule.INDEX_HEADER, 16, f"places from {places[0]} to {places[-1]}", ends
            )
        if with_slots:
            used = int(np.count_nonzero(last))
            if header.slots_used != used:
                yield self.finding(Rule.INDEX_HEADER, 32, f"{used} slots in use", header.slots_used)
            yield from self._check_slots(last)

    def _check_chains(self, first: int, units: Units, last: Slots) -> Iterator[Finding]:
        """Check that each of some units names the one before it in its slot.

        Args:
            first: The number of the first.
            units: As they lie there.
            last: The last unit of each slot, and afterwards with these.
        """
        slots = units["hash"].astype(np.int64) % self._slots
        order = np.argsort(slots, kind="stable")
        grouped, numbers = slots[order], (first + order).astype(np.int32)
        begins = np.append(True, grouped[1:] != grouped[:-1])
        before = np.append(np.int32(0), numbers[:-1])
        before[begins] = last[grouped[begins]]
        expected = np.empty(len(units), np.int32)
        expected[order] = before
        ends = np.append(begins[1:], True)
        last[grouped[ends]] = numbers[ends]
        wrong = (units["hash"] < 0) | (units["before"] != expected)
        for at in np.flatnonzero(wrong).tolist():
            unit = units[at]
            wanted = f"unit {first + at} of slot {slots[at]} behind unit {expected[at]}"
            found = f"behind unit {unit['before']}, hash {unit['hash']}"
            position, place = self.position(first + at), int(unit["place"])
            yield self.finding(Rule.INDEX_CHAIN, position, wanted, found, record=place)

    def _check_slots(self, last: Slots) -> Iterator[Finding]:
        with closing(self._disk.open(self.path)) as file:
            for first in range(0, self._slots, CHUNK_UNITS):
                expected = last[first : first + CHUNK_UNITS]
                position = HEADER_BYTES + SLOT_BYTES * first
                data = read_written(file, position, SLOT_BYTES * len(expected))
                found = np.frombuffer(data, ">i4")
                for at in np.flatnonzero(found != expected).tolist():
                    wanted = f"slot {first + at} at unit {expected[at]}"
                    place = position + SLOT_BYTES * at
                    yield self.finding(Rule.INDEX_CHAIN, place, wanted, found[at])

    def finding(
        self, rule: Rule, position: int, expected: str, found: object, *, record: int = -1
    ) -> Finding:
        """Return what a rule says of a place in the file."""
        return Finding(rule, self.path, position, expected, str(found), record)


class IndexFolder(NamedTuple):
    """The folder of an index.

    Attributes:
        disk: Where the store lies.
        path: The folder.
        geometry: How many slots and units a file has.
    """

    disk: Disk
    path: str
    geometry: IndexGeometry

    def paths(self, findings: list[Finding]) -> list[str]:
        """Return the paths of all files; `findings` gets those of a wrong length."""
        paths = []
        for name in self.disk.list(self.path):
            path = f"{self.path}/{name}"
            if not (name.isascii() and name.isdigit()) or self.disk.is_folder(path):
                continue
            size, expected = self.disk.size(path), self.geometry.file_bytes
            if size == expected:
                paths.append(path)
            else:
                told = f"{expected} bytes", f"{size} bytes"
                findings.append(Finding(Rule.FILE_SIZE, path, size, *told))
        return paths

    def check(self, path: str, *, is_open: bool) -> Iterator[Finding]:
        """Give what does not agree inside of one file; `is_open` says that the store may be."""
        file = _IndexFile(self.disk, path, self.geometry)
        yield from file.check(with_slots=file.is_full or not is_open)

    def files(self, findings: list[Finding]) -> list[_IndexFile]:
        """Return all files, opened; see `paths`."""
        return [_IndexFile(self.disk, path, self.geometry) for path in self.paths(findings)]


class EntryPlace(Struct, frozen=True, array_like=True):
    """Where an entry is: the number of its file, from 0, and its own there, from 1."""

    file: int
    unit: int


class IndexRun(Struct, frozen=True, array_like=True):
    """The entries of a part of the log, if they are those of its records and of no others.

    Attributes:
        first: Where they begin.
        next: Where those of the next part should begin.
        last: Physical offset of the last record with keys, −1 if there is none.
        last_hashes: Of its keys.
    """

    first: EntryPlace
    next: EntryPlace
    last: int
    last_hashes: list[int]


class _Cursor:
    """Goes through the entries of all files, of records that the log still has.

    Args:
        files: The files, oldest first.
        first: Where the log begins.
    """

    def __init__(
        self, files: Sequence[_IndexFile], first: int, start: EntryPlace | None = None
    ) -> None:
        self._files = files
        self._first = first
        self._chunks = self._read(start or EntryPlace(0, 1))
        self._ahead: deque[_Unit] = deque()

    def _read(self, start: EntryPlace) -> Iterator[tuple[_IndexFile, int, bytes]]:
        for number, file in enumerate(self._files[start.file :], start.file):
            at = start.unit if number == start.file else 1
            yield from ((file, *chunk) for chunk in file.chunks(start=at))

    def place(self) -> EntryPlace:
        """Return where the next entry is, behind all files if there is none."""
        unit = self.peek(0)
        if unit is None:
            return EntryPlace(len(self._files), 1)
        return EntryPlace(self._files.index(unit.file), unit.number)

    def peek(self, count: int) -> _Unit | None:
        """Return the entry that many places ahead, without going on."""
        while len(self._ahead) <= count:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            file, first, data = chunk
            units = enumerate(INDEX_UNIT.iter_unpack(data), first)
            self._ahead.extend(
                _Unit(unit[0], unit[1], unit[2], file, number)
                for number, unit in units
                if unit[1] >= self._first
            )
        return self._ahead[count]

    def take(self) -> _Unit:
        """Return the next entry, of which there is one, and go on."""
        return self._ahead.popleft()

    def passes(self, hashes: Sequence[int], places: Sequence[int], times: Sequence[int]) -> bool:
        """Go past the next entries if they are those of these keys; say whether they were."""
        count = len(hashes)
        if count and self.peek(count - 1) is None:
            return False
        for unit, key_hash, place, at_ms in zip(self._ahead, hashes, places, times, strict=False):
            if unit.hash != key_hash or unit.place != place:
                return False
            if unit.seconds != unit.file.seconds(at_ms) and unit.number > 1:
                return False
        for _ in range(count):
            self._ahead.popleft()
        return True


class IndexRunCheck:
    """Compares the records of a part of the log with the entries that they should have.

    Args:
        folder: The folder of the index.
        log_start: Where the log begins; entries of what was before do not count.
        start: Where the part begins.
    """

    def __init__(self, folder: IndexFolder, log_start: int, start: int) -> None:
        self._folder = folder
        self._range = log_start, start
        self._cursor = _Cursor((), 0)
        self._first = EntryPlace(0, 1)
        self._last: tuple[int, list[int]] = (-1, [])
        self._agrees = True

    def start(self) -> Iterable[Finding]:
        """Find where the entries of the part begin."""
        files = self._folder.files([])
        log_start, start = self._range
        at = None if start <= log_start else _entry_at(files, start)
        self._cursor = _Cursor(files, log_start, at)
        self._first = self._cursor.place()
        return ()

    def take(self, found: RecordBatch, /) -> Iterable[Finding]:
        """Compare records that follow each other in the log."""
        row, hashes = batch_hashes(found, 0)
        if not self._agrees or not len(row):
            return ()
        keys = hashes, found.physical_offset[row], found.stored_at_ms[row]
        self._agrees = self._cursor.passes(*(numbers.tolist() for numbers in keys))
        self._last = int(found.physical_offset[row[-1]]), hashes[row == row[-1]].tolist()
        return ()

    def finish(self) -> Iterable[Finding]:
        """Nothing: `run` says what there is to say."""
        return ()

    def run(self) -> IndexRun | None:
        """Return the entries, None if something is not as it should be."""
        return IndexRun(self._first, self._cursor.place(), *self._last) if self._agrees else None


def _entry_at(files: Sequence[_IndexFile], start: int) -> EntryPlace:
    """Return where the entries of records at a place or behind it begin."""
    for number, file in enumerate(files):
        if file.header.end_offset >= start:
            return EntryPlace(number, file.first_from(start))
    return EntryPlace(len(files), 1)


class IndexCheck:
    """Compares the log's records with the index of a store.

    Args:
        folder: The folder of the index.
        log: The scan of the log, which is going on.
        is_off: The store keeps no index; then no key is missed while there is no file.
        before: What agrees before the place where the scan begins, files in themselves too; None
            to check everything.
    """

    def __init__(
        self,
        folder: IndexFolder,
        log: CheckedLog,
        *,
        is_off: bool,
        before: IndexRun | None = None,
    ) -> None:
        self._folder = folder
        self._log = log
        self._is_off = is_off
        self._files: list[_IndexFile] = []
        self._cursor = _Cursor((), 0)
        self._strays: list[list[_Unit]] = []
        self._missing: list[list[int]] = []
        self._is_missing = False
        self._before = before
        self._last: tuple[int, set[int]] = (-1, set())
        if before is not None:
            self._last = before.last, set(before.last_hashes)

    def start(self) -> Iterator[Finding]:
        """Take up the files; report what is wrong inside them."""
        findings: list[Finding] = []
        self._files = self._folder.files(findings)
        if self._before is not None:
            self._cursor = _Cursor(self._files, self._log.first, self._before.next)
            return
        yield from findings
        for file in self._files:
            yield from file.check(with_slots=file.is_full or not self._log.is_open)
        self._cursor = _Cursor(self._files, self._log.first)

    def take(self, found: RecordBatch, /) -> Iterator[Finding]:
        """Check the keys of records that follow each other in the log."""
        row, hashes = batch_hashes(found, 0)
        keys = hashes, found.physical_offset[row], found.stored_at_ms[row]
        if not len(row):
            return
        if self._cursor.passes(*(numbers.tolist() for numbers in keys)):
            self._is_missing = False
            place = int(found.physical_offset[row[-1]])
            self._last = place, set(hashes[row == row[-1]].tolist())
        else:
            yield from self._take(found.entries())

    def _take(self, entries: Sequence[Entry]) -> Iterator[Finding]:
        last = entries[-1].physical_offset
        for entry in entries:
            place = entry.physical_offset
            keys = entry.keys if is_indexable(entry.sys_flag) else ()
            expected = {abs_hash(hash32(key_string(entry.topic, key))) for key in keys}
            found = set()
            before = self._last
            if expected:
                self._last = place, expected
            while (unit := self._cursor.peek(0)) is not None:
                if unit.place > place and (unit.place <= last or not self._is_outlier(place)):
                    break
                self._cursor.take()
                if unit.place == place and unit.hash in expected:
                    found.add(unit.hash)
                    yield from self._check_time(unit, entry)
                elif unit.place != before[0] or unit.hash not in before[1]:  # put twice is fine
                    self._note_stray(unit)
            if expected:
                self._note(place, is_missing=found != expected)

    def _is_outlier(self, place: int) -> bool:
        """Say whether the next entry points too far ahead: some behind it belong before it."""
        behind = (self._cursor.peek(count) for count in range(1, OUTLIERS_MAX))
        return any(unit is not None and unit.place <= place for unit in behind)

    def _note(self, place: int, *, is_missing: bool) -> None:
        """Keep rows of records with keys that are missing: first, last, and how many."""
        if is_missing:
            if self._is_missing:
                row = self._missing[-1]
                row[1:] = [place, row[2] + 1]
            else:
                self._missing.append([place, place, 1])
        self._is_missing = is_missing

    def _check_time(self, unit: _Unit, entry: Entry) -> Iterator[Finding]:
        """Compare the seconds of an entry; those of a file's first count from the file before."""
        expected = unit.file.seconds(entry.stored_at_ms)
        if unit.number > 1 and unit.seconds != expected:
            yield unit.file.finding(
                Rule.INDEX_STRAY,
                unit.file.position(unit.number),
                f"{expected} seconds after the begin of the file",
                unit.seconds,
                record=unit.place,
            )

    def _note_stray(self, unit: _Unit) -> None:
        """Keep rows of entries that point at no record with their key: first and last."""
        if self._log.is_damaged(unit.place):
            return
        row = self._strays[-1] if self._strays else None
        if row is not None and row[1].file is unit.file and row[1].number + 1 == unit.number:
            row[1] = unit
        else:
            self._strays.append([unit, unit])

    def finish(self) -> Iterator[Finding]:
        """Report entries that point at nothing, and keys that are missing."""
        while (unit := self._cursor.peek(0)) is not None:
            self._cursor.take()
            if unit.place == self._last[0] and unit.hash in self._last[1]:
                continue
            if not self._log.is_open or unit.place < self._log.end:
                self._note_stray(unit)
        for begin, end in self._strays:
            yield begin.file.finding(
                Rule.INDEX_STRAY,
                begin.file.position(begin.number),
                f"records with the keys of entries {begin.number} to {end.number}",
                f"none at {begin.place}" + (f" to {end.place}" if end is not begin else ""),
                record=begin.place,
            )
        if self._is_off and not self._files:
            return
        if self._log.is_open and self._is_missing:
            self._missing.pop()
        for first, last, count in self._missing:
            path = self._files[-1].path if self._files else self._folder.path
            expected = f"the keys of {count} records from {first} to {last}"
            found = "not all of them" if self._files else "no file"
            yield Finding(Rule.INDEX_MISSING, path, 0, expected, found, first)
