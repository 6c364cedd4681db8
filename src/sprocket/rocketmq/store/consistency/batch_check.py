"""Checking the batch queues: units lie in the order of the log, wherever their offsets lead.

A record of a topic with such queues must have the next unit of its queue, equal in every field.
Units of records that were deleted, or lie in damage, are passed over.
"""

from collections.abc import Iterator

from sprocket.base.disk import Disk
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import BATCH_UNIT_BYTES, QueueGeometry
from sprocket.rocketmq.store.consistency.finding import Finding, Rule
from sprocket.rocketmq.store.consistency.log_check import CheckedLog
from sprocket.rocketmq.store.consistency.unit_files import UnitFiles, queues_in
from sprocket.rocketmq.store.queue import BATCH_UNIT, QueueKey

_Unit = tuple[int, ...]
_CHUNK_UNITS = 1024


class _Queue:
    """How far the check of one queue is; `at` is the number of its next unit."""

    def __init__(self, topic: str, queue_id: int, files: UnitFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.at = files.first
        self.missing: list[Entry] = []
        self.last_offset = -1
        self._chunk: list[_Unit] = []
        self._chunk_at = 0

    def unit(self) -> _Unit:
        """Return the next unit; zeros where there is none."""
        if not self._chunk_at <= self.at < self._chunk_at + len(self._chunk):
            self._chunk_at = self.at
            self._chunk = list(BATCH_UNIT.iter_unpack(self.files.read(self.at, _CHUNK_UNITS)))
        return self._chunk[self.at - self._chunk_at]


class BatchCheck:
    """Compares the log's records with the batch queues of a store.

    Args:
        disk: Where the store lies.
        folder: Its folder of batch queues.
        geometry: How many units a file has.
        log: The scan of the log, which is going on.

    Attributes:
        topics: Those that have batch queues.
    """

    def __init__(self, disk: Disk, folder: str, geometry: QueueGeometry, log: CheckedLog) -> None:
        self._disk = disk
        self._folder = folder
        self._file_bytes = geometry.batch_units_per_file * BATCH_UNIT_BYTES
        self._log = log
        self._queues: dict[QueueKey, _Queue] = {}
        self.topics = frozenset(disk.list(folder))

    def start(self) -> Iterator[Finding]:
        """Take up every queue; report names and lengths of files."""
        findings: list[Finding] = []
        queues = queues_in(self._disk, self._folder, self._file_bytes, findings)
        for key, folder, segments in queues:
            self._queues[key] = _Queue(*key, UnitFiles(folder, segments, BATCH_UNIT_BYTES))
        yield from findings

    def take(self, found: RecordBatch, /) -> Iterator[Finding]:
        """Check the units of records that follow each other in the log."""
        if not self.topics:
            return
        if self.topics.isdisjoint(found.topic_names):
            return
        for entry in found.entries():
            if entry.queueable and entry.topic in self.topics:
                yield from self._check(entry)

    def _check(self, entry: Entry) -> Iterator[Finding]:
        key = entry.topic, entry.queue_id
        queue = self._queues.get(key)
        if queue is None:
            folder = f"{self._folder}/{entry.topic}/{entry.queue_id}"
            queue = self._queues[key] = _Queue(*key, UnitFiles(folder, unit_bytes=BATCH_UNIT_BYTES))
        if entry.queue_offset <= queue.last_offset:
            queue.missing.clear()  # the topic was made again
        queue.last_offset = entry.queue_offset
        while 0 <= (unit := queue.unit())[0] < entry.physical_offset and unit[1] > 0:
            yield from self._stray(queue, unit)
            queue.at += 1
        count = entry.next_offset - entry.queue_offset
        expected = (
            *(entry.physical_offset, entry.size, entry.tags_code, entry.stored_at_ms),
            *(entry.queue_offset, count, -1, 0),
        )
        if unit[0] != entry.physical_offset or not any(unit):
            queue.missing.append(entry)
            return
        queue.at += 1
        if unit != expected:
            place = queue.files.place(queue.at - 1)
            told = _told(expected), _told(unit)
            yield Finding(Rule.QUEUE_UNIT, *place, *told, entry.physical_offset)

    def _stray(self, queue: _Queue, unit: _Unit) -> Iterator[Finding]:
        if unit[0] < self._log.first or self._log.is_damaged(unit[0]):
            return
        expected = f"a record of {queue.topic}/{queue.queue_id} there"
        place = queue.files.place(queue.at)
        yield Finding(Rule.QUEUE_STRAY, *place, expected, _told(unit), unit[0])

    def finish(self) -> Iterator[Finding]:
        """Check what lies behind the last record of each queue; report what is missing."""
        for queue in self._queues.values():
            end = queue.files.data_end()
            while queue.at < end and any(unit := queue.unit()):
                if not self._log.is_open or unit[0] < self._log.end:
                    yield from self._stray(queue, unit)
                queue.at += 1
            if queue.missing and not self._log.is_open:
                first, last = queue.missing[0], queue.missing[-1]
                expected = (
                    f"units of {len(queue.missing)} records from "
                    f"{first.physical_offset} to {last.physical_offset}"
                )
                place, found = queue.files.place(queue.at), "not all of them"
                yield Finding(Rule.QUEUE_MISSING, *place, expected, found, first.physical_offset)


def _told(unit: _Unit) -> str:
    place, size, code, at_ms, first, count, compacted, rest = unit
    text = f"{size} bytes at {place}, tags code {code}, stored at {at_ms}"
    more = "" if (compacted, rest) == (-1, 0) else f", then {compacted} and {rest}"
    return f"{text}, {count} messages from {first} on{more}"
