"""One queue in RocksDB: what is its own beyond the suite that both engines pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import OffsetTooSmall
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.store.queue import QUEUE_UNIT, Database, RocksQueues
from sprocket.rocketmq.store.queue.rocks_queue import RocksQueue


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The folder of the queues."""
    return str(tmp_path / "consumequeue")


@pytest.fixture
def queues(folder: str) -> Iterator[RocksQueues]:
    """Give queues of which T/0 has twenty messages, and its neighbours one each."""
    made = RocksQueues(RealDisk(), folder)
    made.put_round([Entry("T", 0, n, 100 * n, 100, 7, 0) for n in range(20)])
    made.put_round([Entry("S", 0, 0, 2000, 100, 7, 0), Entry("T", 1, 0, 2100, 100, 7, 0)])
    yield made
    made.close()


def only(queues: RocksQueues) -> RocksQueue:
    """Return the queue T/0."""
    queue = queues.by_key.get(("T", 0))
    assert queue is not None
    return queue


def lose(queues: RocksQueues, folder: str, *offsets: int) -> None:
    """Delete units as somebody else would, while the queues are closed."""
    keys = [only(queues).key(offset) for offset in offsets]
    queues.close()
    database = Database(RealDisk(), folder, write=True)
    batch = database.batch()
    for key in keys:
        batch.delete(key)
    database.write(batch)
    database.close()
    queues.load(clean=True)


def test_a_hole_is_not_read_over(queues: RocksQueues, folder: str) -> None:
    """What lies before it is given, then an error, and a reader goes on behind it."""
    lose(queues, folder, 9)
    queue = only(queues)
    assert len(queue.read(2, 18)) == 7 * QUEUE_UNIT.size
    for count in (1, 11):
        with pytest.raises(OffsetTooSmall) as error:
            queue.read(9, count)
        assert error.value.lowest == queue.after_unreadable(9) == 10
    assert len(queue.read(10, 18)) == 10 * QUEUE_UNIT.size


def test_places_are_found_over_holes_and_fillers(queues: RocksQueues, folder: str) -> None:
    """In both directions, and never in another queue."""
    lose(queues, folder, 4, 5)
    queues.fill_to("T", 0, 23)
    queue = only(queues)
    found = [queue.place_from(offset) for offset in (3, 4, 19, 20, 23)]
    assert [place and place.offset for place in found] == [3, 6, 19, None, None]
    found = [queue.place_before(offset) for offset in (23, 20, 6, 1, 0)]
    assert [place and place.offset for place in found] == [19, 19, 3, 0, None]
    lose(queues, folder, 0)
    queue = only(queues)
    assert queue.place_before(1) is None
    assert [queue.end_before(offset) for offset in (23, 6, 1, 0)] == [23, 4, 1, 0]


def test_store_times_stand_behind_the_units(queues: RocksQueues) -> None:
    """A filler has none."""
    queues.put_round([Entry("T", 0, 20, 2200, 100, 7, 1_700_000_000_123)])
    queues.fill_to("T", 0, 22)
    assert [only(queues).stored_at_ms(offset) for offset in (19, 20, 21)] == [
        0,
        1_700_000_000_123,
        -1,
    ]


def test_messages_are_found_by_their_place(queues: RocksQueues, folder: str) -> None:
    """The first at a place or later; what is not there counts as the next one that is."""
    lose(queues, folder, 4, 5, 10)
    queue = only(queues)
    for place in range(0, 2000, 50):
        wanted = next(n for n in range(20) if (n not in (4, 5, 10) and 100 * n >= place) or n == 19)
        first = queue.first_at(place)
        if place > 1900:
            assert first is None
        else:
            assert first is not None
            assert first.offset == wanted
