"""What every storage of a queue keeps: the promises of `QueueStorage`.

A storage on disk is added to `STORAGES`, opened in an empty folder.
"""

from collections.abc import Callable

import pytest
from tests.rabbit_queues import SlowStorage, message

from sprocket.base.disk import steps
from sprocket.rabbitmq.broker.queues import MemoryStorage, QueueStorage

Found = list[tuple[int, bytes, int | None, bool]]

STORAGES: dict[str, Callable[[], QueueStorage]] = {
    "in memory": MemoryStorage,
    "in memory, from a later number on": lambda: MemoryStorage(40),
    "slow": SlowStorage,
}


@pytest.fixture(params=STORAGES.values(), ids=list(STORAGES))
def storage(request: pytest.FixtureRequest) -> QueueStorage:
    """Return an empty storage."""
    made: QueueStorage = request.param()
    return made


def fill(storage: QueueStorage, *seq_ids: int) -> None:
    """Publish messages under these numbers."""
    for seq_id in seq_ids:
        storage.publish(
            seq_id,
            [message(seq_id)],
            expires_at_us=seq_id * 10 if seq_id % 2 else None,
            is_delivered=False,
        )


def read(storage: QueueStorage, start: int, end: int) -> Found:
    """Read a range."""
    return [
        (one.seq_id, one.message.body, one.expires_at_us, one.is_delivered)
        for one in steps.run(storage.read(start, end))
    ]


def test_what_was_published_is_read_in_order(storage: QueueStorage) -> None:
    """The range has its first number and not its last; numbers may be missing."""
    assert read(storage, 0, 1000) == []
    fill(storage, 50, 51, 70)
    assert read(storage, 0, 1000) == [
        (50, b"50", None, False),
        (51, b"51", 510, False),
        (70, b"70", None, False),
    ]
    assert [one[0] for one in read(storage, 51, 70)] == [51]
    assert [one[0] for one in read(storage, 50, 51)] == [50]
    assert read(storage, 52, 60) == []
    assert (storage.unacked_count(), storage.next_seq_id) == (3, 71)
    assert storage.body_bytes == 6


def test_what_is_acknowledged_is_gone(storage: QueueStorage) -> None:
    """In any order, and only that."""
    fill(storage, *range(50, 60))
    storage.ack([53, 50])
    storage.ack([])
    storage.ack([59])
    assert [one[0] for one in read(storage, 0, 100)] == [51, 52, 54, 55, 56, 57, 58]
    assert (storage.unacked_count(), storage.next_seq_id) == (7, 60)


def test_what_was_delivered_says_so(storage: QueueStorage) -> None:
    """Those below it may, too: nobody knows after a crash."""
    fill(storage, 50, 51, 52, 53)
    storage.deliver([50, 51])
    found = read(storage, 0, 100)
    assert [is_delivered for *_, is_delivered in found[:2]] == [True, True]
    assert [is_delivered for *_, is_delivered in found[2:]] == [False, False]


def test_a_purge_forgets_everything_but_the_numbers(storage: QueueStorage) -> None:
    """None is used again; so does a removal, when its steps are done."""
    fill(storage, 50, 51)
    storage.deliver([50])
    storage.purge()
    assert (read(storage, 0, 100), storage.unacked_count(), storage.body_bytes) == ([], 0, 0)
    assert storage.next_seq_id == 52
    fill(storage, 52)
    steps.run(storage.remove())
    assert (read(storage, 0, 100), storage.unacked_count()) == ([], 0)
