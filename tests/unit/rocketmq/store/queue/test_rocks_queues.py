"""Queues in RocksDB: what is theirs beyond the suite that both engines pass."""

import shutil
from pathlib import Path

import pytest
from tests.unit.rocketmq.store.queue.given import next_offsets

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import CorruptRecord, DiskFailed
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import QUEUE_UNIT, Database, RocksQueues
from sprocket.rocketmq.store.queue import rocks_keys as keys
from sprocket.rocketmq.store.queue.rocks_database import DEFAULT
from sprocket.rocketmq.store.queue.rocks_queue import RocksQueue

DISK = RealDisk()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The folder of the queues."""
    return str(tmp_path / "consumequeue")


def opened(folder: str, *, write: bool = True) -> RocksQueues:
    """Return the queues that are there."""
    queues = RocksQueues(DISK, folder, write=write)
    queues.load(clean=True)
    return queues


def entry(offset: int, place: int | None = None) -> Entry:
    """Return the entry of a record of 100 bytes in the queue T/0."""
    at = 100 * offset if place is None else place
    return Entry("T", 0, offset, at, 100, 7, 1_000 + offset)


def only(queues: RocksQueues) -> RocksQueue:
    """Return the queue T/0."""
    queue = queues.by_key.get(("T", 0))
    assert queue is not None
    return queue


def content(folder: str, family: str = DEFAULT) -> dict[bytes, bytes]:
    """Return what a reader finds in a family."""
    database = Database(DISK, folder, (DEFAULT, keys.OFFSETS), write=False)
    try:
        return dict(database.all(family))
    finally:
        database.close()


def change(folder: str, *changes: tuple[bytes, bytes | None], family: str = keys.OFFSETS) -> None:
    """Change a family as somebody else would; None deletes."""
    database = Database(DISK, folder, (keys.UNITS, keys.OFFSETS), write=True)
    batch = database.batch()
    handle = database.handle(family)
    for key, value in changes:
        if value is None:
            batch.delete(key, handle)
        else:
            batch.put(key, value, handle)
    database.write(batch)
    del handle
    database.close()


def test_a_round_is_rocketmqs_records(folder: str) -> None:
    """Units with their store times, last and first unit, and how far the log is dispatched."""
    queues = opened(folder)
    queues.put_round([entry(3), entry(4)])
    queues.close()
    prefix = keys.unit_prefix("T", 0)
    assert content(folder) == {
        prefix + keys.I64.pack(3): keys.VALUE.pack(300, 100, 7, 1_003),
        prefix + keys.I64.pack(4): keys.VALUE.pack(400, 100, 7, 1_004),
    }
    assert content(folder, keys.OFFSETS) == {
        keys.offset_key("T", 0, keys.MAX): keys.OFFSET_VALUE.pack(400, 4),
        keys.offset_key("T", 0, keys.MIN): keys.OFFSET_VALUE.pack(300, 3),
        keys.CHECKPOINT_KEY: keys.I64.pack(500),
    }


def test_a_round_that_fails_changes_nothing(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be put again."""
    queues = opened(folder)
    queues.put_round([entry(0)])

    def refuse(_self: Database, _batch: object) -> None:
        raise DiskFailed("no")

    with monkeypatch.context() as context:
        context.setattr(Database, "write", refuse)
        with pytest.raises(DiskFailed):
            queues.put_round([entry(1), entry(2)])
    assert (only(queues).max_offset, queues.end) == (1, 100)
    assert queues.put_round([entry(1), entry(2)]) == 2
    queues.close()


def test_a_minimum_that_was_never_written_is_found(folder: str) -> None:
    """RocketMQ writes it only when somebody asks."""
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(5, 20)])
    queues.close()
    change(folder, (keys.offset_key("T", 0, keys.MIN), None))
    queues = opened(folder)
    assert queues.by_key["T", 0].min_offset == 0
    queues.correct_min(PhysicalOffset(0))
    assert queues.by_key["T", 0].min_offset == 5
    queues.close()
    assert only(opened(folder, write=False)).min_offset == 5


def test_a_queue_whose_only_message_begins_the_log_is_not_empty(folder: str) -> None:
    """With its minimum, and without, as RocketMQ may leave it."""
    queues = opened(folder)
    queues.put_round([entry(0)])
    queues.close()
    for _ in range(2):
        queues = opened(folder)
        assert (only(queues).min_offset, only(queues).max_offset) == (0, 1)
        queues.close()
        change(folder, (keys.offset_key("T", 0, keys.MIN), None))


def test_records_of_empty_queues_are_no_queues(folder: str) -> None:
    """RocketMQ writes (0, 0) as the minimum of a queue that never had a message."""
    queues = opened(folder)
    queues.put_round([entry(0)])
    queues.close()
    low = (keys.offset_key("SCHEDULE_TOPIC_XXXX", 3, keys.MIN), bytes(16))
    change(folder, low)
    queues = opened(folder)
    assert next_offsets(queues) == {("T", 0): 1}
    queues.close()


def test_units_behind_the_last_one_are_not_there(folder: str) -> None:
    """RocketMQ truncates by lowering the `max` record."""
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(20)])
    queues.close()
    last = keys.offset_key("T", 0, keys.MAX), keys.OFFSET_VALUE.pack(1100, 11)
    change(folder, last)
    queues = opened(folder)
    assert only(queues).max_offset == 12
    assert len(only(queues).read(10, 50)) == 2 * QUEUE_UNIT.size
    assert queues.last == (1100, 100, 7)
    queues.put_round([entry(12, 5000)])
    assert only(queues).unit(12)[0] == 5000
    queues.close()


def test_a_record_ahead_of_its_units_is_corrected(folder: str) -> None:
    """A crash in the middle of a flush leaves it so."""
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(20)])
    lost = [(only(queues).key(offset), None) for offset in range(12, 20)]
    queues.close()
    change(folder, *lost, family=keys.UNITS)
    queues.load(clean=True)
    queues.truncate(PhysicalOffset(1500))
    assert (only(queues).max_offset, only(queues).last_place) == (12, 1100)
    queues.put_round([entry(n) for n in range(12, 20)])
    queues.close()
    change(folder, *lost, family=keys.UNITS)
    queues.load(clean=False)
    assert (only(queues).max_offset, only(queues).last_place, queues.end) == (12, 1100, 1200)
    queues.close()


@pytest.mark.parametrize(
    "record",
    [
        (keys.CHECKPOINT_KEY, b"short"),
        (keys.offset_key("T", 0, keys.MAX), b"short"),
        (b"what is this", bytes(16)),
    ],
)
def test_a_damaged_database_is_deleted_by_who_may(folder: str, record: tuple[bytes, bytes]) -> None:
    """It is made again from the log; a reader is told."""
    queues = opened(folder)
    queues.put_round([entry(0)])
    queues.close()
    change(folder, record)
    with pytest.raises(CorruptRecord):
        opened(folder, write=False)
    queues = opened(folder)
    assert (len(queues.by_key), queues.end) == (0, -1)
    assert queues.put_round([entry(0)]) == 1
    queues.close()


def test_a_reader_of_nothing_makes_nothing(folder: str) -> None:
    """There are no queues then."""
    queues = opened(folder, write=False)
    queues.correct_min(PhysicalOffset(0))
    assert not queues.by_key
    queues.flush()
    queues.close()
    assert not Path(folder).exists()


def test_a_reader_corrects_its_own_minimum_only(folder: str) -> None:
    """Nothing is written."""
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(20)])
    queues.flush()
    queues.close()
    reader = opened(folder, write=False)
    reader.correct_min(PhysicalOffset(700))
    assert only(reader).min_offset == 7
    reader.close()
    assert only(opened(folder, write=False)).min_offset == 0


def test_cleaning_deletes_units_before_a_minimum_that_was_never_written(folder: str) -> None:
    """As RocketMQ leaves it: nobody knows what was deleted before."""
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(20)])
    queues.close()
    change(folder, (keys.offset_key("T", 0, keys.MIN), None))
    queues = opened(folder)
    steps.run(queues.clean_steps(PhysicalOffset(100)))
    queues.close()
    assert len(content(folder)) == 19


@pytest.mark.parametrize(("place", "left"), [(100, 19), (750, 12), (2000, 0)])
def test_cleaning_deletes_units(
    place: int, left: int, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of messages that the log lost, once."""
    writes: list[object] = []
    monkeypatch.setattr(
        Database,
        "write",
        lambda self, batch, write=Database.write: writes.append(write(self, batch)),
    )
    queues = opened(folder)
    queues.put_round([entry(n) for n in range(20)])
    for _ in range(2):
        steps.run(queues.clean_steps(PhysicalOffset(place)))
    queues.close()
    assert (len(content(folder)), len(writes)) == (left, 2)
    shutil.rmtree(folder)
