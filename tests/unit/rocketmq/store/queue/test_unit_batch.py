"""Units of many batches, gathered by queue."""

from tests.unit.rocketmq.store.queue.given import FOLDER, SMALL

from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.queue import FileQueues
from sprocket.rocketmq.store.queue.unit_batch import UnitBatch, UnitPart
from sprocket.testing.disk import SimulatedDisk

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def _batch(start: int, places: list[tuple[str, int, int]]) -> RecordBatch:
    """Return a batch of records that begin at a place of the log."""
    log = b""
    for topic, queue_id, offset in places:
        new = NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=b"body %d" % offset,
            properties=b"",
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
    found = columns.walk(log, 0, len(log), len(places))
    return RecordBatch(columns.records(log, found.positions, found.stopped_at, start))


PLACES = [
    [("A", 0, 0), ("B", 0, 5), ("A", 0, 1), ("A", 1, 0)],
    [("C", 7, 0), ("A", 0, 2), ("B", 0, 6), ("A", 0, 3)],
]


def _batches() -> list[RecordBatch]:
    first = _batch(0, PLACES[0])
    return [first, _batch(first.end, PLACES[1])]


def test_units_of_a_queue_lie_together_in_order() -> None:
    """Of all batches; what a unit says is what its record said."""
    units = UnitBatch([UnitPart(batch) for batch in _batches()])
    assert len(units) == 8
    found = {(run.topic, run.queue_id): units.queue_offset[run.rows].tolist() for run in units.runs}
    assert found == {("A", 0): [0, 1, 2, 3], ("B", 0): [5, 6], ("A", 1): [0], ("C", 7): [0]}
    entries = {(e.topic, e.queue_id, e.queue_offset): e for b in _batches() for e in b.entries()}
    for number in range(8):
        one = units.entry(number)
        same = entries[one.topic, one.queue_id, one.queue_offset]
        assert one == same


def test_nothing_gathered_is_nothing() -> None:
    """No batch, and batches without a unit."""
    assert len(UnitBatch([])) == 0
    assert UnitBatch([]).runs == []


def test_gathered_units_make_the_queues_that_batches_make() -> None:
    """Each queue is written once."""
    disks = []
    for gathers in (False, True):
        disk = SimulatedDisk()
        queues = FileQueues(disk, FOLDER, SMALL)
        if gathers:
            assert queues.put_batch(UnitBatch([UnitPart(batch) for batch in _batches()])) == 8
            assert disk.calls["write"] == 4 + 1  # and fillers where a queue begins in a file
        else:
            assert sum(map(queues.put_batch, _batches())) == 8
        disks.append(disk)
    assert disks[0].contents() == disks[1].contents()
