"""What records bring to queues: from entries and from columns, for files and for RocksDB."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.unit.rocketmq.store.queue.given import FOLDER, SMALL

from sprocket.base.disk import RealDisk, SegmentFiles
from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.queue import (
    FileQueues,
    QueueFiles,
    QueueKey,
    RocksQueues,
    UnitBatch,
    rocks_keys,
    runs,
)
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.queue.rocks_database import Handle
from sprocket.rocketmq.store.queue.runs import Run, UnitColumns
from sprocket.testing.disk import SimulatedDisk

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
KEY = "A", 3


def _batch(start: int, places: list[tuple[str, int, int]]) -> RecordBatch:
    """Return a batch of records that begin at a place of the log."""
    log = b""
    for topic, queue_id, offset in places:
        new = NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=b"body %d" % offset,
            properties=b"TAGS\1%d\2" % offset,
            born_host=HOST,
            store_host=HOST,
        )
        log += record.encode(
            new,
            queue_offset=offset,
            physical_offset=start + len(log),
            stored_at_ms=1_000 + offset,
            crc_tail=False,
        )
    found = columns.scan(log, 0, len(log), len(places))
    return RecordBatch(columns.records(log, found.positions, found.stopped_at, start))


def _of_one_queue(count: int) -> RecordBatch:
    """Return records of one queue with the offsets 7, 8 and so on."""
    return _batch(0, [(*KEY, 7 + number) for number in range(count)])


def _rows(batch: RecordBatch, *rows: int) -> UnitBatch:
    """Return the units of some records of a queue."""
    whole = UnitBatch.of(batch).columns
    own = UnitColumns(*(column[list(rows)] for column in whole))
    return UnitBatch([KEY], np.zeros(1, np.int64), own)


PLACES = [
    [("A", 0, 0), ("B", 0, 5), ("A", 0, 1), ("A", 1, 0)],
    [("C", 7, 0), ("A", 0, 2), ("B", 0, 6), ("A", 0, 3)],
]


def _batches() -> list[RecordBatch]:
    first = _batch(0, PLACES[0])
    return [first, _batch(first.end, PLACES[1])]


def _blank(key: QueueKey) -> FileQueue:
    """Return a queue that may begin anywhere."""
    return FileQueue(*key, QueueFiles(SegmentFiles(SimulatedDisk(), FOLDER, 200)), 10)


class Puts:
    """A batch of a RocksDB that says what was put."""

    def __init__(self) -> None:
        self.items: list[tuple[bytes, bytes]] = []

    def put(self, key: bytes, value: bytes, _handle: Handle | None = None, /) -> None:
        """Remember it."""
        self.items.append((key, value))

    def delete(self, _key: bytes, _handle: Handle | None = None, /) -> None:
        """Fail: no unit is taken away."""
        raise AssertionError

    def delete_range(self, _start: bytes, _end: bytes, _handle: Handle | None = None, /) -> None:
        """Fail: no unit is taken away."""
        raise AssertionError

    def __len__(self) -> int:
        return len(self.items)


def _told(run: Run[FileQueue]) -> tuple[object, ...]:
    """Return all that a run says."""
    puts = Puts()
    run.to_rocks(puts, rocks_keys.unit_prefix(*_key(run)))
    range_ = run.first, run.next_offset, run.end, run.places
    return range_, run.units(), puts.items, run.entries


def _key(run: Run[FileQueue]) -> QueueKey:
    return run.queue.topic, run.queue.queue_id


def test_entries_and_columns_make_the_same_runs() -> None:
    """In every respect: the range, the units in files and in RocksDB, and the entries."""
    batch = _batch(0, [*PLACES[0], ("A", 0, 2), ("B", 0, 6)])
    found: list[Run[FileQueue]] = []

    def write(brought: Iterable[Run[FileQueue]]) -> int:
        found.extend(brought)
        return len(found)

    assert runs.put(batch.entries(), _blank, write) == 3
    of_columns = {_key(run): _told(run) for run in UnitBatch.of(batch).runs(_blank)}
    assert {_key(run): _told(run) for run in found} == of_columns
    assert [(run.first, run.next_offset) for run in found] == [(0, 3), (5, 7), (0, 1)]


def test_a_new_queue_begins_with_the_first_record() -> None:
    """The run says where, and how far it goes."""
    batch = _of_one_queue(3)
    (run,) = UnitBatch.of(batch).runs(_blank)
    assert (run.first, run.next_offset) == (7, 10)
    assert (run.places, run.end) == ((0, int(batch.physical_offset[2])), batch.end)


def test_what_the_queue_has_is_left_out(tmp_path: Path) -> None:
    """All of it, some, or nothing; what comes later is an error."""
    batch, queues = _of_one_queue(4), RocksQueues(RealDisk(), str(tmp_path / "consumequeue"))
    queues.load(clean=True)
    queues.put_round(batch.entries()[:2])
    queue = queues.by_key.get(KEY)
    assert queue is not None
    for rows, fresh in (([0, 1], []), ([0, 1, 2, 3], [2, 3]), ([2], [2])):
        found = [*_rows(batch, *rows).runs(lambda _: queue)]
        assert [e.queue_offset - 7 for run in found for e in run.entries] == fresh
        assert [run.end for run in found] == ([_end(batch, fresh[-1])] if fresh else [])
    assert not [*_rows(batch).runs(lambda _: queue)]
    with pytest.raises(CorruptRecord, match="A/3 ends at 9, the log has its message 10 before"):
        next(_rows(batch, 3).runs(lambda _: queue))
    queues.close()


def _end(batch: RecordBatch, row: int) -> int:
    return int(batch.physical_offset[row] + batch.size[row])


def test_keys_and_values_are_those_of_single_units() -> None:
    """Whatever bytes the numbers have, zeros at the end as well."""
    prefix = rocks_keys.unit_prefix(*KEY)
    for offset in (0, 256, (1 << 40) + 7):
        one = Entry(*KEY, offset, 512, 256, 0, 1 << 40)
        own = UnitColumns(*(np.array([n]) for n in (offset, 512, 256, 0, 1 << 40)))
        (run,) = UnitBatch([KEY], np.zeros(1, np.int64), own).runs(_blank)
        puts = Puts()
        run.to_rocks(puts, prefix)
        value = rocks_keys.VALUE.pack(512, 256, 0, 1 << 40)
        assert puts.items == [(prefix + rocks_keys.I64.pack(offset), value)]
        assert run.entries == [one]


def test_units_of_a_queue_lie_together_in_order() -> None:
    """Of all batches; what a unit says is what its record said."""
    units = UnitBatch.joined([UnitBatch.of(batch) for batch in _batches()])
    assert len(units) == 8
    found = {key: own.queue_offset.tolist() for key, own in units.by_queue()}
    assert found == {("A", 0): [0, 1, 2, 3], ("B", 0): [5, 6], ("A", 1): [0], ("C", 7): [0]}
    entries = {(e.topic, e.queue_id, e.queue_offset): e for b in _batches() for e in b.entries()}
    made = [one for run in units.runs(_blank) for one in run.entries]
    assert len(made) == 8
    for one in made:
        assert entries[one.topic, one.queue_id, one.queue_offset] == one


def test_nothing_gathered_is_nothing() -> None:
    """No batch, and batches without a unit."""
    assert len(UnitBatch.joined([])) == 0
    assert [*UnitBatch.joined([]).runs(_blank)] == []


def test_gathered_units_make_the_queues_that_batches_make() -> None:
    """Each queue is written once."""
    disks = []
    for gathers in (False, True):
        disk = SimulatedDisk()
        queues = FileQueues(disk, FOLDER, SMALL)
        batches = [UnitBatch.of(batch) for batch in _batches()]
        if gathers:
            assert queues.put_batch(UnitBatch.joined(batches)) == 8
            assert disk.calls["write"] == 4 + 1  # and fillers where a queue begins in a file
        else:
            assert sum(map(queues.put_batch, batches)) == 8
        disks.append(disk)
    assert disks[0].contents() == disks[1].contents()
