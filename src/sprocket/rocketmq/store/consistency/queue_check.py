"""Checking the queues against the log: each record has its unit, each unit its record.

Theory of operation. The records of a batch are grouped by queue; the units that they should have
are compared with those on the disk as one run of bytes, and looked at one by one only where these
differ. What lies before, between and behind such runs is looked at as
well: fillers, units of messages that were cleaned away, and units that point at nothing.

A topic that was deleted and made again uses its queue offsets a second time. So units that are
missing are only reported at the end, and not if the log went back to a lower offset after them.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from sprocket.rocketmq.codec.columns import Ints, RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.store.consistency.finding import Finding, Rule
from sprocket.rocketmq.store.consistency.log_check import CheckedLog
from sprocket.rocketmq.store.consistency.unit_files import Units
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    QUEUE_UNIT,
    UNIT_TYPE,
    QueueKey,
    UnitAssigner,
    is_address,
)

CHUNK_UNITS = 4096

_FILLER = (0, FILLER_SIZE, 0)
_Records: TypeAlias = tuple[RecordBatch, Ints] | list[Entry]
"""Those of one queue: rows of a batch that all are their own units, or one by one."""


class UnitRun(Struct):
    """Records of one queue whose offsets follow each other, and whose units were looked at.

    Attributes:
        first: Queue offset of the first record.
        next: The queue offset behind the last one.
        place: Physical offset of the first record.
        reached: Physical end of the last one.
        missing: Rows of records without unit.
    """

    first: int
    next: int
    place: int
    reached: int
    missing: list["MissingUnits"] = []


class MissingUnits(Struct, array_like=True):
    """Records whose offsets follow each other and that have no unit.

    Attributes:
        first: Queue offset of the first.
        last: Queue offset of the last.
        first_record: Physical offset of the first.
        last_record: Physical offset of the last.
    """

    first: int
    last: int
    first_record: int
    last_record: int


class UnitCheck:
    """Compares the records of a part of the log with their units, each record by itself.

    What lies before, between and behind the runs that it gives is left to `QueueCheck`.

    Args:
        entry_at: Returns what the intact record at a place says, None if there is none.
        units_of: Returns the units of a queue that has records; None passes it over.
        assigner: Says which units records get.
        reads_max: How often to read units; what comes later is not looked at.

    Attributes:
        reads: How often units were read.
        wrong: Queues that have a wrong unit for a record.
    """

    def __init__(
        self,
        entry_at: Callable[[int], Entry | None],
        units_of: Callable[[QueueKey], Units | None],
        assigner: UnitAssigner,
        *,
        reads_max: float = inf,
    ) -> None:
        self.reads = 0
        self.wrong: set[QueueKey] = set()
        self._entry_at = entry_at
        self._units_of = units_of
        self._assigner = assigner
        self._reads_max = reads_max

    def runs(self, found: RecordBatch) -> Iterator[tuple[QueueKey, UnitRun, list[Finding]]]:
        """Give the runs of records that follow each other in the log, and what is wrong there."""
        for key, records in self._by_queue(found):
            if self.reads >= self._reads_max:
                return
            units = self._units_of(key)
            if units is None:
                continue
            self.reads += 1
            if not isinstance(records, list):
                batch, rows = records
                run = _agreeing(units, batch, rows)
                if run is not None:
                    yield key, run, []
                    continue
                entries = batch.entries()
                records = [entries[row] for row in rows.tolist()]
            for one in _runs(records):
                yield key, *self._run(key, units, one)

    def keys(self, found: RecordBatch) -> set[QueueKey]:
        """Return the queues that get units of some records."""
        return {key for key, _records in self._by_queue(found)}

    def _by_queue(self, found: RecordBatch) -> Iterator[tuple[QueueKey, _Records]]:
        """Give the records queue by queue."""
        if self._assigner.are_records(found):
            for run in found.runs:
                yield (run.topic, run.queue_id), (found, run.rows)
            return
        rounds: dict[QueueKey, list[Entry]] = {}
        for entry in found.entries():
            for unit in self._assigner.each(entry) if entry.queueable else ():
                rounds.setdefault((unit.topic, unit.queue_id), []).append(unit)
        yield from rounds.items()

    def _run(
        self, key: QueueKey, units: Units, records: list[Entry]
    ) -> tuple[UnitRun, list[Finding]]:
        """Check the units of records whose queue offsets follow each other."""
        first, last = records[0], records[-1]
        run = UnitRun(
            first.queue_offset,
            last.next_offset,
            first.physical_offset,
            last.physical_offset + last.size,
        )
        findings = []
        read = units.read(run.first, run.next - run.first)
        stored = list(QUEUE_UNIT.iter_unpack(read))
        for entry in records:
            unit = stored[entry.queue_offset - run.first]
            if unit == (0, 0, 0):
                at, record = entry.queue_offset, entry.physical_offset
                _miss(run.missing, MissingUnits(at, at, record, record))
            elif not self._is_right(key, units, entry, unit):
                self.wrong.add(key)
                expected = _told(entry.physical_offset, entry.size, entry.tags_code)
                place = units.place(entry.queue_offset)
                found = _told(*unit)
                finding = Finding(Rule.QUEUE_UNIT, *place, expected, found, entry.physical_offset)
                findings.append(finding)
        return run, findings

    def _is_right(
        self, key: QueueKey, units: Units, entry: Entry, unit: tuple[int, int, int]
    ) -> bool:
        """Say whether a unit may stand where that of a record is expected."""
        place, size, code = unit
        if (place, size) == (entry.physical_offset, entry.size):
            return code == entry.tags_code or _fits(units, entry, code)
        if place <= entry.physical_offset:
            return False
        # The offset may have been given out again after the topic was deleted.
        found = self._entry_at(place)
        return found is not None and (found.topic, found.queue_id, found.queue_offset) == (
            *key,
            entry.queue_offset,
        )


class _Queue:
    """How far the check of one queue is.

    Attributes:
        next: The queue offset after the last record of the log, None before the first.
        reached: Physical end of that record.
        missing: Rows of records without unit.
    """

    __slots__ = ("key", "missing", "next", "reached", "units")

    def __init__(self, key: QueueKey, units: Units) -> None:
        self.key = key
        self.units = units
        self.next: int | None = None
        self.reached = 0
        self.missing: list[MissingUnits] = []

    @property
    def name(self) -> str:
        """What findings call it."""
        return f"{self.key[0]}/{self.key[1]}"


class QueueCheck:
    """Compares the log's records with the units of a store.

    Args:
        log: The scan of the log, which is going on.
        units_of: Returns the units of a queue that has records; None passes it over.
        stored: Gives the queues that there are, and adds what is wrong with their files to a list.
        topics: Names in the table of topics, None without one. A topic that is not in it was
            deleted, and its queues with it.
        records_only: Units for which the log has no record are not looked at, for that part of the
            log may not be scanned.

    Attributes:
        wrong: Queues that lack units.
    """

    def __init__(
        self,
        log: CheckedLog,
        units_of: Callable[[QueueKey], Units | None],
        stored: Callable[[list[Finding]], Iterable[tuple[QueueKey, Units]]] = lambda _: (),
        *,
        topics: frozenset[str] | None,
        records_only: bool = False,
    ) -> None:
        self.wrong: set[QueueKey] = set()
        self._log = log
        self._units_of = units_of
        self._stored = stored
        self._topics = topics
        self._records_only = records_only
        self._queues: dict[QueueKey, _Queue] = {}

    def start(self) -> Iterator[Finding]:
        """Look at the queues that there are, which may have no record."""
        findings: list[Finding] = []
        for key, units in self._stored(findings):
            self._queues[key] = _Queue(key, units)
        yield from findings

    def units(self, key: QueueKey) -> Units | None:
        """Return the units of a queue; None if it is passed over."""
        if key not in self._queues:
            units = self._units_of(key)
            if units is None:
                return None
            self._queues[key] = _Queue(key, units)
        return self._queues[key].units

    def take(self, found: tuple[QueueKey, UnitRun], /) -> Iterator[Finding]:
        """Check what lies between the next run of a queue and the one before."""
        key, run = found
        if self.units(key) is None:
            return
        queue = self._queues[key]
        if run.first != queue.next:
            if queue.next is None:
                start, after = queue.units.first, 0
            elif run.first < queue.next:
                queue.missing.clear()  # the topic was made again
                start, after = run.first, 0
            else:
                start, after = queue.next, queue.reached
            yield from self._between(queue, (start, run.first), (after, run.place))
        queue.next, queue.reached = run.next, run.reached
        for row in run.missing:
            _miss(queue.missing, row)

    def _between(
        self, queue: _Queue, offsets: tuple[int, int], places: tuple[int, int]
    ) -> Iterator[Finding]:
        """Check units for which the log has no record.

        Args:
            queue: Their queue.
            offsets: The first of them, and the one behind the last.
            places: End of the record before them, and start of the one behind them.
        """
        start, end = offsets
        if self._records_only or queue.units.end == queue.units.first:
            return
        is_tail = places[1] == ANYWHERE
        may_be_lost: bool | None = None
        for first in range(start, end, CHUNK_UNITS):
            units = queue.units.read(first, min(CHUNK_UNITS, end - first))
            if is_tail and not any(units):
                continue
            for offset, unit in enumerate(QUEUE_UNIT.iter_unpack(units), first):
                if unit == _FILLER:
                    if may_be_lost is None:
                        may_be_lost = start == queue.units.first or self._log.is_broken(*places)
                    if may_be_lost:
                        continue
                    rule, expected = Rule.QUEUE_FILLER, "a unit, or damage in the log before it"
                elif self._is_excused(unit, is_tail=is_tail):
                    continue
                else:
                    rule, expected = Rule.QUEUE_STRAY, f"a record of {queue.name} there"
                found = f"unit {offset}: {_told(*unit)}"
                yield Finding(rule, *queue.units.place(offset), expected, found, unit[0])

    def _is_excused(self, unit: tuple[int, int, int], *, is_tail: bool) -> bool:
        """Say whether a unit for which there is no record is as it should be."""
        place, size, _code = unit
        if unit == (0, 0, 0):
            return is_tail
        if place < 0 or size <= 0:
            return False
        if place < self._log.first or self._log.is_damaged(place):
            return True
        return is_tail and self._log.is_open and place >= self._log.end

    def finish(self) -> Iterator[Finding]:
        """Check what lies behind the last record of each queue; report what is missing."""
        for queue in self._queues.values():
            start = queue.units.first if queue.next is None else queue.next
            yield from self._between(
                queue, (start, queue.units.data_end()), (queue.reached, ANYWHERE)
            )
            yield from self._missing(queue)

    def _missing(self, queue: _Queue) -> Iterator[Finding]:
        is_there = queue.units.is_there
        if not is_there and self._topics is not None and queue.key[0] not in self._topics:
            return
        for row in queue.missing:
            if self._log.is_open and row.last + 1 == queue.next:
                continue
            self.wrong.add(queue.key)
            expected = (
                f"units {row.first} to {row.last} of {queue.name}, "
                f"for records from {row.first_record} to {row.last_record}"
            )
            found = "nothing" if is_there else "no file"
            place = queue.units.place(row.first)
            yield Finding(Rule.QUEUE_MISSING, *place, expected, found, row.first_record)


def _agreeing(units: Units, batch: RecordBatch, rows: Ints) -> UnitRun | None:
    """Return the run of some records of one queue if it is one, and has their units."""
    first = int(batch.queue_offset[rows[0]])
    if not (batch.queue_offset[rows] == np.arange(first, first + len(rows))).all():
        return None
    expected = np.empty(len(rows), UNIT_TYPE)
    expected["physical_offset"] = batch.physical_offset[rows]
    expected["size"] = batch.size[rows]
    expected["tags_code"] = batch.tags_code[rows]
    if units.read(first, len(rows)) != expected.tobytes():
        return None
    place, last = batch.physical_offset[rows[[0, -1]]].tolist()
    return UnitRun(first, first + len(rows), place, last + int(batch.size[rows[-1]]))


def _miss(rows: list[MissingUnits], row: MissingUnits) -> None:
    """Add to rows of records without unit; it may go on with the last one."""
    last = rows[-1] if rows else None
    if last is not None and last.last + 1 == row.first:
        last.last, last.last_record = row.last, row.last_record
    else:
        rows.append(row)


def _fits(units: Units, entry: Entry, code: int) -> bool:
    """Say whether a code that is not that of the tag may stand in the unit anyway."""
    if entry.topic == SCHEDULE_TOPIC:  # brokers may have delay levels of their own
        return code >= entry.stored_at_ms
    unit = units.extended(code) if is_address(code) else None
    return unit is not None and (unit.tags_code, unit.stored_at_ms) == (
        entry.tags_code,
        entry.stored_at_ms,
    )


def _runs(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Cut into rows whose queue offsets follow each other."""
    start = 0
    expected = entries[0].queue_offset
    for number, entry in enumerate(entries):
        if entry.queue_offset != expected:
            yield entries[start:number]
            start = number
        expected = entry.next_offset
    yield entries[start:]


def _told(place: int, size: int, code: int) -> str:
    if (place, size, code) == (0, 0, 0):
        return "nothing"
    if (place, size, code) == _FILLER:
        return "a filler"
    return f"{size} bytes at {place}, tags code {code}"
