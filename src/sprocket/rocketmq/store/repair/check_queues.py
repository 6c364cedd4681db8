"""Checking the queues against the log: each record has its unit, each unit its record.

Theory of operation. The records of a batch are grouped by queue; the units that they should have
are compared with those on the disk as one run of bytes, and looked at one by one only where these
differ, or where there is no numpy. What lies before, between and behind such runs is looked at as
well: fillers, units of messages that were cleaned away, and units that point at nothing.

A topic that was deleted and made again uses its queue offsets a second time. So units that are
missing are only reported at the end, and not if the log went back to a lower offset after them.
"""

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from sprocket.base.disk import Disk, OpenFiles, SegmentFiles
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.settings import QueueGeometry
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import Found
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    QUEUE_UNIT,
    UNIT_BYTES,
    UNIT_TYPE,
    Extension,
    QueueFiles,
    QueueKey,
    Queues,
    UnitAssigner,
    engines,
    is_address,
)
from sprocket.rocketmq.store.recovery import Deletions
from sprocket.rocketmq.store.repair import check_units
from sprocket.rocketmq.store.repair.check_log import LogCheck
from sprocket.rocketmq.store.repair.check_units import StoredUnits, UnitFiles
from sprocket.rocketmq.store.repair.finding import Finding, Rule

try:
    import numpy as np
except ImportError:  # the light install; records come one by one there
    np = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from sprocket.rocketmq.codec.columns import Ints, RecordBatch

CHUNK_UNITS = 4096

_EVERYWHERE = 1 << 62
_FILLER = (0, FILLER_SIZE, 0)


class _Queue:
    """How far the check of one queue is.

    Attributes:
        next: The queue offset after the last record of the log, None before the first.
        reached: Physical end of that record.
        missing: Rows of records without unit: first and last offset, first and last record.
    """

    __slots__ = ("files", "missing", "next", "queue_id", "reached", "topic")

    def __init__(self, topic: str, queue_id: int, files: UnitFiles | StoredUnits) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.next: int | None = None
        self.reached = 0
        self.missing: list[list[int]] = []


class QueueCheck:
    """Compares the log's records with the units of a store.

    Args:
        disk: Where the store lies.
        layout: Its paths.
        geometry: How many units a file has.
        log: The walk over the log, which is going on.
        topics: Names in the table of topics, None without one. A topic that is not in it was
            deleted, and its queues with it.
        passed_over: Topics whose queues are of another kind.
        is_open: A broker may be writing: the last records of a queue need no unit yet.
    """

    def __init__(
        self,
        disk: Disk,
        layout: StoreLayout,
        geometry: QueueGeometry,
        log: LogCheck,
        *,
        topics: frozenset[str] | None,
        passed_over: Set[str],
        is_open: bool,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._geometry = geometry
        self._stored: Queues | None = None
        self._log = log
        self._topics = topics
        self._is_open = is_open
        self._queues: dict[QueueKey, _Queue] = {}
        self._passed_over = passed_over
        self._units = UnitAssigner(deleted=Deletions(disk, layout, write=False).ends)
        self._extensions: dict[QueueKey, Extension] = {}
        self._open_files = OpenFiles()

    def start(self) -> Iterator[Finding]:
        """Take up every queue; report names and lengths of files."""
        folder = self._layout.consumequeue
        if self._geometry.engine != "files":
            self._stored = engines.make(self._disk, self._layout, self._geometry, write=False)
            self._stored.load(clean=True)
            for queue in self._stored:
                units = StoredUnits(queue, f"{folder}/{queue.topic}/{queue.queue_id}")
                made = _Queue(queue.topic, queue.queue_id, units)
                self._queues[queue.topic, queue.queue_id] = made
            return
        findings: list[Finding] = []
        queues = check_units.found(
            self._disk, folder, self._geometry.file_bytes, UNIT_BYTES, findings
        )
        for key, files in queues:
            self._queues[key] = _Queue(*key, files)
        yield from findings

    def take(self, found: Found) -> Iterator[Finding]:
        """Check the units of records that follow each other in the log."""
        if not isinstance(found, list) and self._units.are_records(found):
            for topic, queue_id, rows in found.runs:
                queue = self._queue((topic, queue_id))
                if topic not in self._passed_over and not self._agrees(queue, found, rows):
                    entries = found.entries()
                    for run in _runs([entries[row] for row in rows.tolist()]):
                        yield from self._run(queue, run)
            return
        rounds: dict[QueueKey, list[Entry]] = {}
        for entry in found if isinstance(found, list) else found.entries():
            if entry.queueable:
                for unit in self._units.each(entry):
                    rounds.setdefault((unit.topic, unit.queue_id), []).append(unit)
        for key, records in rounds.items():
            if key[0] not in self._passed_over:
                for run in _runs(records):
                    yield from self._run(self._queue(key), run)

    def _queue(self, key: QueueKey) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            folder = f"{self._layout.consumequeue}/{key[0]}/{key[1]}"
            queue = self._queues[key] = _Queue(*key, UnitFiles(folder, ()))
        return queue

    def _agrees(self, queue: _Queue, batch: "RecordBatch", rows: "Ints") -> bool:
        """Say whether a queue goes on with the records of a batch, and has the units for them."""
        first = int(batch.queue_offset[rows[0]])
        if first != (queue.files.first if queue.next is None else queue.next):
            return False
        if not (batch.queue_offset[rows] == np.arange(first, first + len(rows))).all():
            return False
        units = np.empty(len(rows), UNIT_TYPE)
        units["physical_offset"] = batch.physical_offset[rows]
        units["size"] = batch.size[rows]
        units["tags_code"] = batch.tags_code[rows]
        if queue.files.read(first, len(rows)) != units.tobytes():
            return False
        queue.next = first + len(rows)
        queue.reached = int(batch.physical_offset[rows[-1]] + batch.size[rows[-1]])
        return True

    def _run(self, queue: _Queue, run: list[Entry]) -> Iterator[Finding]:
        """Check records whose queue offsets follow each other."""
        first, last = run[0], run[-1]
        if queue.next is None:
            start, after = queue.files.first, 0
        elif first.queue_offset < queue.next:
            queue.missing.clear()  # the topic was made again
            start, after = first.queue_offset, 0
        else:
            start, after = queue.next, queue.reached
        yield from self._between(queue, (start, first.queue_offset), (after, first.physical_offset))
        queue.next = last.queue_offset + 1
        queue.reached = last.physical_offset + last.size
        found = queue.files.read(first.queue_offset, len(run))
        for entry, unit in zip(run, QUEUE_UNIT.iter_unpack(found), strict=True):
            yield from self._unit(queue, entry, unit)

    def _unit(self, queue: _Queue, entry: Entry, unit: tuple[int, int, int]) -> Iterator[Finding]:
        """Check one unit against its record."""
        place, size, code = unit
        if (place, size) == (entry.physical_offset, entry.size):
            if code == entry.tags_code or self._fits(entry, code):
                return
        elif unit == (0, 0, 0):
            row = queue.missing[-1] if queue.missing else None
            if row is not None and row[1] + 1 == entry.queue_offset:
                row[1], row[3] = entry.queue_offset, entry.physical_offset
            else:
                offsets = [entry.queue_offset] * 2
                queue.missing.append([*offsets, *[entry.physical_offset] * 2])
            return
        elif place > entry.physical_offset and self._is_record(queue, entry.queue_offset, place):
            return  # the offset was given out again after the topic was deleted
        path, position = queue.files.place(entry.queue_offset)
        yield Finding(
            rule=Rule.QUEUE_UNIT,
            path=path,
            position=position,
            expected=_told(entry.physical_offset, entry.size, entry.tags_code),
            found=_told(*unit),
            record=entry.physical_offset,
        )

    def _fits(self, entry: Entry, code: int) -> bool:
        """Say whether a code that is not that of the tag may stand in the unit anyway."""
        if entry.topic == SCHEDULE_TOPIC:  # brokers may have delay levels of their own
            return code >= entry.stored_at_ms
        if not is_address(code):
            return False
        unit = self._extension(entry.topic, entry.queue_id).get(code)
        return unit is not None and (unit.tags_code, unit.stored_at_ms) == (
            entry.tags_code,
            entry.stored_at_ms,
        )

    def _extension(self, topic: str, queue_id: int) -> Extension:
        key = topic, queue_id
        if key not in self._extensions:
            folder = f"{self._layout.extension}/{topic}/{queue_id}"
            size = self._geometry.extension_bytes
            files = QueueFiles(
                SegmentFiles(self._disk, folder, size, write=False, open_files=self._open_files)
            )
            extension = self._extensions[key] = Extension(files)
            files.load()
            extension.end = files.end
        return self._extensions[key]

    def _is_record(self, queue: _Queue, offset: int, place: int) -> bool:
        found = self._log.entry_at(place)
        return found is not None and (found.topic, found.queue_id, found.queue_offset) == (
            queue.topic,
            queue.queue_id,
            offset,
        )

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
        if queue.files.end == queue.files.first:
            return
        is_tail = places[1] == _EVERYWHERE
        may_be_lost: bool | None = None
        for first in range(start, end, CHUNK_UNITS):
            units = queue.files.read(first, min(CHUNK_UNITS, end - first))
            if is_tail and not any(units):
                continue
            for offset, unit in enumerate(QUEUE_UNIT.iter_unpack(units), first):
                if unit == _FILLER:
                    if may_be_lost is None:
                        may_be_lost = start == queue.files.first or self._log.is_broken(*places)
                    if may_be_lost:
                        continue
                    rule, expected = Rule.QUEUE_FILLER, "a unit, or damage in the log before it"
                elif self._is_excused(unit, is_tail=is_tail):
                    continue
                else:
                    rule, expected = Rule.QUEUE_STRAY, f"a record of {_name(queue)} there"
                path, position = queue.files.place(offset)
                yield Finding(
                    rule=rule,
                    path=path,
                    position=position,
                    expected=expected,
                    found=f"unit {offset}: {_told(*unit)}",
                    record=unit[0],
                )

    def _is_excused(self, unit: tuple[int, int, int], *, is_tail: bool) -> bool:
        """Say whether a unit for which there is no record is as it should be."""
        place, size, _code = unit
        if unit == (0, 0, 0):
            return is_tail
        if place < 0 or size <= 0:
            return False
        if place < self._log.first or self._log.is_damaged(place):
            return True
        return is_tail and self._is_open and place >= self._log.end

    def finish(self) -> Iterator[Finding]:
        """Check what lies behind the last record of each queue; report what is missing."""
        for queue in self._queues.values():
            start = queue.files.first if queue.next is None else queue.next
            yield from self._between(
                queue, (start, queue.files.data_end()), (queue.reached, _EVERYWHERE)
            )
            yield from self._missing(queue)

    def close(self) -> None:
        """Close what was opened."""
        if self._stored is not None:
            self._stored.close()
        for extension in self._extensions.values():
            extension.files.close()

    def _missing(self, queue: _Queue) -> Iterator[Finding]:
        has_files = queue.files.end > queue.files.first
        if not has_files and self._topics is not None and queue.topic not in self._topics:
            return
        for first, last, first_record, last_record in queue.missing:
            if self._is_open and last + 1 == queue.next:
                continue
            path, position = queue.files.place(first)
            yield Finding(
                rule=Rule.QUEUE_MISSING,
                path=path,
                position=position,
                expected=f"units {first} to {last} of {_name(queue)}, "
                f"for records from {first_record} to {last_record}",
                found="nothing" if has_files else "no file",
                record=first_record,
            )


def _runs(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Cut into rows whose queue offsets follow each other."""
    start = 0
    expected = entries[0].queue_offset
    for number, entry in enumerate(entries):
        if entry.queue_offset != expected:
            yield entries[start:number]
            start = number
        expected = entry.queue_offset + 1
    yield entries[start:]


def _told(place: int, size: int, code: int) -> str:
    if (place, size, code) == (0, 0, 0):
        return "nothing"
    if (place, size, code) == _FILLER:
        return "a filler"
    return f"{size} bytes at {place}, tags code {code}"


def _name(queue: _Queue) -> str:
    return f"{queue.topic}/{queue.queue_id}"
