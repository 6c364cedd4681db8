"""The facade keeps its invariants: offsets without gaps, no lie about what is stored."""

import errno

import pytest
from tests.stores import filled, new, open_store

from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    MessageTooLarge,
    OffsetTooLarge,
    StoreFailed,
)
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000


def test_the_path_of_a_message() -> None:
    """Appended, written, synced, dispatched, read: each step says how far it has come."""
    store = open_store(SimulatedDisk())
    first = store.append(new("t", 1, b"hello", name="ID"))
    assert (first.queue_offset, first.physical_offset, first.stored_at_ms) == (0, 0, AT_MS)
    assert (store.end, store.written, store.synced) == (first.size, 0, 0)
    store.write()
    assert (store.written, store.synced) == (first.size, 0)
    assert store.get_messages("t", 1, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    job = store.begin_sync()
    assert job is not None
    job.run()
    store.finish_sync(job)
    assert store.synced == first.size
    (arrival,) = store.dispatch()
    assert (arrival.topic, arrival.queue_id, arrival.next_offset) == ("t", 1, 1)
    got = store.get_messages("t", 1, 0)
    assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 1, 1)
    assert bytes(got.records[0]) == bytes(store.record_at(first.physical_offset))
    assert store.queue_range("t", 1) == (0, 1)
    assert store.stored_at_ms("t", 1, 0) == AT_MS
    assert store.stored_at_ms("t", 1, 1) == store.stored_at_ms("none", 0, 0) == -1
    assert store.offset_by_time("t", 1, AT_MS, Boundary.LOWER) == 0
    assert store.find("t", "ID").offsets == [0]
    assert [(t, q) for t, q, _ in store.queues()] == [("t", 1)]


def test_under_async_flush_consumers_see_what_is_written() -> None:
    """And `maintain` syncs."""
    store = open_store(SimulatedDisk(), flush="async")
    store.append(new("t", 0))
    store.write()
    assert store.queue_range("t", 0).max == 1
    assert store.begin_fill() is None
    assert store.synced == 0
    store.maintain()
    assert store.synced == store.written


def test_offsets_count_by_queue() -> None:
    """Prepared and rolled back messages take none, committed ones do."""
    store = open_store(SimulatedDisk())
    offsets = [
        store.append(new("a", 0)).queue_offset,
        store.append(new("a", 1)).queue_offset,
        store.append(new("a", 0, sys_flag=4)).queue_offset,
        store.append(new("a", 0, sys_flag=12)).queue_offset,
        store.append(new("a", 0, sys_flag=8)).queue_offset,
        store.append(new("b", 0)).queue_offset,
        store.append(new("a", 0)).queue_offset,
    ]
    assert offsets == [0, 0, 0, 0, 1, 0, 2]
    batch = store.append_batch([new("a", 0), new("a", 0, sys_flag=4), new("a", 0), new("c", 0)])
    assert [e.queue_offset for e in batch] == [3, 0, 4, 0]
    store.write()
    store.sync()
    assert store.queue_range("a", 0).max == 5
    assert store.append(new("c", 0)).queue_offset == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_takes_everything_back(number: int) -> None:
    """Offsets of queues old and new; the next turn has them."""
    disk, store = filled(4)
    before = store.end, store.written
    store.append(new("topic", 0))
    store.append_batch([new("topic", 1), new("topic", 1), new("other", 0)])
    disk.fail("write", 1, number)
    with pytest.raises((DiskFull, DiskFailed)):
        store.write()
    assert (store.end, store.written) == before
    assert store.dispatch() == []
    assert store.append(new("topic", 1)).queue_offset == 2
    assert store.append(new("other", 0)).queue_offset == 0
    assert store.append(new("topic", 0)).queue_offset == 2
    store.write()
    store.sync()
    assert store.queue_range("topic", 1).max == 3
    assert len(list(store.records())) == 7


def test_a_failed_write_that_cannot_be_undone_stops_the_store() -> None:
    """What the files hold is unknown."""
    disk, store = filled(4)
    store.append(new())
    disk.fail("write", 1, errno.ENOSPC)
    disk.fail("write", 2, errno.EIO)
    with pytest.raises(StoreFailed):
        store.write()
    with pytest.raises(StoreFailed, match="undone"):
        store.append(new())


@pytest.mark.parametrize("how", ["job", "direct", "fill"])
def test_after_a_failed_sync_nothing_is_taken(how: str) -> None:
    """Reads go on."""
    disk, store = filled(4, fill_ahead_bytes=2048)
    store.append(new())
    store.write()
    disk.fail("sync", 1, errno.EIO)
    if how == "direct":
        with pytest.raises(StoreFailed):
            store.sync()
    elif how == "job":
        job = store.begin_sync()
        assert job is not None
        with pytest.raises(DiskFailed) as caught:
            job.run()
        store.finish_sync(job, caught.value)
    else:
        fill = store.begin_fill()
        assert fill is not None
        with pytest.raises(DiskFailed) as caught:
            fill.run()
        store.finish_fill(fill, caught.value)
    for refused in (lambda: store.append(new()), lambda: store.append_batch([new()])):
        with pytest.raises(StoreFailed, match="reopen"):
            refused()
    store.maintain()
    assert store.get_messages("topic", 0, 0).count == 2
    store.close()
    assert disk.exists("/store/abort")


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (new(body=bytes(2049)), MessageTooLarge),
        (new("a/b"), CorruptRecord),
        (new(queue_id=-1), MessageTooLarge),
        (new(queue_id=1 << 31), MessageTooLarge),
        (new("x" * 40_000), MessageTooLarge),
    ],
)
def test_what_cannot_be_stored_is_refused(bad: object, error: type[Exception]) -> None:
    """Alone and in a batch, of which then nothing is taken."""
    store = open_store(SimulatedDisk())
    with pytest.raises(error):
        store.append(bad)  # type: ignore[arg-type]
    with pytest.raises(error):
        store.append_batch([new(), bad])  # type: ignore[list-item]
    assert store.end == 0
    assert store.append(new()).queue_offset == 0


def test_store_times_never_go_down() -> None:
    """Even when the clock does."""
    clock = FakeClock()
    store = open_store(SimulatedDisk(), clock=clock)
    times = []
    for step in (0, 5, -1000, 3, 2000):
        clock.step_wall(step)
        times.append(store.append(new()).stored_at_ms - AT_MS)
        times.append(store.append_batch([new()])[0].stored_at_ms - AT_MS)
    assert times == [0, 0, 5, 5, 5, 5, 5, 5, 1008, 1008]


def test_a_fill_in_flight_forbids_a_write_into_it() -> None:
    """The owner waits; not to is a mistake."""
    _, store = filled(1, fill_ahead_bytes=4096)
    fill = store.begin_fill()
    assert fill is not None
    while not store.fill_blocks_write():
        store.append(new())
    with pytest.raises(AssertionError):
        store.write()
    fill.run()
    store.finish_fill(fill)
    store.write()
    assert len(list(store.records())) > 1


def test_records_of_a_range() -> None:
    """From one offset to before another."""
    _, store = filled(10)
    offsets = [offset for offset, _ in store.records()]
    assert [o for o, _ in store.records(offsets[2], offsets[5])] == offsets[2:5]
    assert [o for o, _ in store.records(end=offsets[1])] == offsets[:1]
    store.append(new())
    assert len(list(store.records())) == 10
    with pytest.raises(OffsetTooLarge):
        store.record_at(store.end)


def test_a_closed_store_takes_nothing() -> None:
    """Closing twice is allowed; what was appended is written before."""
    disk, store = filled(3)
    last = store.append(new("topic", 0, b"last"))
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.append(new())
    again = open_store(disk)
    assert record.decode(again.record_at(last.physical_offset)).stored_body == b"last"


def test_a_long_backlog_of_the_index_is_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a limit, whoever forgets to call."""
    from sprocket.rocketmq.store import dispatch as module

    monkeypatch.setattr(module, "INDEX_BACKLOG_MAX", 3)
    store = open_store(SimulatedDisk())
    for number in range(4):
        store.append(new(name=f"K{number}"))
    store.write()
    store.sync()
    store.dispatch()
    assert store.dispatch_index() == 0


def test_a_dispatch_that_failed_is_tried_again() -> None:
    """The messages are stored all the same."""
    disk, store = filled(4)
    store.append(new("topic", 0))
    store.write()
    store.sync()
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        store.dispatch()
    assert store.queue_range("topic", 0).max == 3
