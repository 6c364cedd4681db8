"""The checkpoint is never ahead of what is durable, and a failed sync keeps it where it is."""

import errno
import json

import pytest
from tests.stores import filled, maintain, new, open_store

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import DiskFailed, DiskFull, DiskRefused, StoreFailed
from sprocket.rocketmq.store.recovery import checkpoint
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000


def _saved(disk: SimulatedDisk) -> int:
    return checkpoint.load(disk, "/store/checkpoint").queues_at_ms


def test_the_checkpoint_follows_what_is_durable() -> None:
    """Queues, index and log; nothing is written when nothing changed."""
    disk, store = filled(20)
    maintain(store)
    assert _saved(disk) == AT_MS + 19_000
    maintain(store)  # the index syncs its header with the flush after
    syncs = disk.calls["sync"]
    maintain(store)
    assert disk.calls["sync"] == syncs
    for choice in (0, 1):
        found = disk.crash(lambda count, choice=choice: min(choice, count - 1))  # type: ignore[misc]
        again = open_store(found)
        assert again.report.units_rebuilt <= 4
        assert list(again.queues()) == list(store.queues())


def test_what_is_not_synced_is_not_in_it() -> None:
    """Under sync flush nothing younger is dispatched."""
    disk, store = filled(5)
    maintain(store)
    store.append(new())
    store.write()
    maintain(store)
    assert _saved(disk) == AT_MS + 4_000
    store.sync()
    maintain(store)
    assert _saved(disk) == AT_MS + 5_000


def test_under_load_the_checkpoint_follows_behind() -> None:
    """A sync is always in flight then, and the queues are always ahead of it."""
    disk = SimulatedDisk()
    clock = FakeClock()
    store = open_store(disk, clock=clock, flush="async")
    saved = []
    for _ in range(4):
        store.append(new())
        store.write()
        job = store.begin_sync()
        assert job is not None
        clock.advance(1000)
        store.append(new())
        store.write()
        maintain(store)
        saved.append(_saved(disk))
        job.run()
        job.finish(None)
    assert saved == [0, 0, AT_MS + 1000, AT_MS + 2000], saved


def test_a_queue_that_cannot_be_opened_is_synced_later() -> None:
    """Without a file descriptor no sync has begun, so none has failed."""
    disk, store = filled(20)
    disk.fail("open", 1, errno.EMFILE)
    with pytest.raises(DiskRefused):
        maintain(store)
    maintain(store)
    assert _saved(disk) == AT_MS + 19_000


def test_a_full_disk_keeps_the_checkpoint_until_there_is_room() -> None:
    """The index cannot write its header; nothing became uncertain by that."""
    disk, store = filled(3)
    store.dispatch_index()
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(DiskFull):
            maintain(store)
    assert _saved(disk) == 0
    disk.is_full = False
    maintain(store)
    assert _saved(disk) == AT_MS + 2_000
    store.close()


@pytest.mark.parametrize("call", ["sync", "sync_folder"])
def test_a_failed_sync_of_a_queue_keeps_the_checkpoint(call: str) -> None:
    """For good: a second sync would succeed and prove nothing. Appends and reads go on."""
    disk, store = filled(20)
    before = _saved(disk)
    disk.fail(call, 1, errno.EIO)
    with pytest.raises(DiskFailed):
        maintain(store)
    with pytest.raises(StoreFailed, match="uncertain"):
        maintain(store)
    assert _saved(disk) == before
    store.append(new())
    store.write()
    store.sync()
    expected = list(store.queues())
    with pytest.raises(StoreFailed):
        store.close()
    assert disk.exists("/store/abort")
    again = open_store(disk)
    assert not again.report.clean
    assert list(again.queues()) == expected


def test_a_queue_that_was_deleted_leaves_the_table_of_queues() -> None:
    """With the next round, however many are left."""
    disk, store = filled(1)
    store.append(new("other"))
    store.write()
    store.sync()
    store.dispatch()
    maintain(store)
    table = "/store/config/queues.json"
    assert json.loads(read_file(disk, table)) == {"topic": {"0": 1}, "other": {"0": 1}}
    steps.run(store.delete_topic_steps("other", lambda: None))
    maintain(store)
    assert json.loads(read_file(disk, table)) == {"topic": {"0": 1}}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_queues_that_a_recovery_found_come_into_the_table_of_queues(count: int) -> None:
    """With the next message: the process that made them had not come to write it."""
    disk = SimulatedDisk()
    store = open_store(disk)
    for queue_id in range(count):
        store.append(new("topic", queue_id))
    store.write()
    store.sync()
    found = disk.kill()
    store = open_store(found)
    store.append(new("topic", 0))
    store.write()
    store.sync()
    store.dispatch()
    maintain(store)
    queues = {str(queue_id): 1 for queue_id in range(count)}
    assert json.loads(read_file(found, "/store/config/queues.json")) == {"topic": queues}


def test_a_clean_stop_leaves_a_note() -> None:
    """The next start need not look at the log; nor a RocketMQ's, which believes the checkpoint."""
    disk, store = filled(20)
    end = store.end
    store.close()
    assert _saved(disk) == AT_MS + 19_000
    assert not disk.exists("/store/abort")
    assert disk.exists("/store/config/clean.json")
    again = open_store(disk)
    assert (again.report.clean, again.report.start, again.end) == (True, end, end)
    assert not disk.exists("/store/config/clean.json")


def test_a_store_without_messages_closes_cleanly_too() -> None:
    """There is nothing to say in a checkpoint."""
    disk = SimulatedDisk()
    open_store(disk).close()
    assert open_store(disk).report.clean


def test_doubt_is_noted_even_if_the_disk_refuses() -> None:
    """The note is worth a try, no more."""
    disk, store = filled(3)
    store.append(new())
    store.write()
    disk.fail("sync", 1, errno.EIO)
    disk.fail("write", 1, errno.EIO)
    for _ in range(2):
        assert b"failed" not in disk.open("/store/abort").read(0, 99)
        with pytest.raises(StoreFailed):
            store.sync()
    assert b"failed" in disk.open("/store/abort").read(0, 99)


def test_no_index_no_index_time() -> None:
    """What RocketMQ wrote there stays."""
    disk = SimulatedDisk()
    disk.make_folder("/store")
    checkpoint.save(disk, "/store/checkpoint", checkpoint.Checkpoint(0, 0, 77, 5, 0))
    store: Store = open_store(disk, index_messages=False)
    store.append(new())
    store.write()
    store.sync()
    maintain(store)
    saved = checkpoint.load(disk, "/store/checkpoint")
    assert (saved.index_at_ms, saved.master_flushed_offset) == (77, 5)
    store.close()


@pytest.mark.parametrize("fails", ["a flush", "the recovery behind a kill"])
def test_units_whose_sync_failed_are_written_again(fails: str) -> None:
    """The system gives them from memory and would not write them; a later power loss shows it."""
    disk, store = filled(20)
    if fails == "a flush":
        disk.fail("sync", 1, errno.EIO)
        with pytest.raises(DiskFailed):
            maintain(store)
        disk = disk.kill()
    else:
        store.sync()
        disk = disk.kill()
        disk.fail("sync_tree", 1, errno.EIO)
        with pytest.raises(DiskFailed):
            open_store(disk)
        disk = disk.kill()
    open_store(disk)
    after = disk.crash(lambda _count: 0)
    folder = "/store/consumequeue/topic"
    for path in (f"{folder}/{n}/{name}" for n in (0, 1) for name in disk.list(f"{folder}/{n}")):
        assert read_file(after, path) == read_file(disk, path)
