"""The store as a log of group commit: the same store, on a simulated disk."""

import errno

import pytest
from tests.stores import SMALL, new, open_store

from sprocket.base.errors import DiskFull, StoreError, StoreFailed
from sprocket.runtime.group_commit import Job, Log
from sprocket.testing.disk import SimulatedDisk


def run(job: Job | None) -> StoreError | None:
    """Run a job to its end; return how it ended."""
    assert job is not None
    error = None
    try:
        job.run()
    except (DiskFull, StoreError) as caught:
        error = caught
    job.finish(error)
    return error


def test_what_is_written_waits_until_it_is_synced() -> None:
    """All of it, in bytes; what was given up waits no more."""
    store = open_store(SimulatedDisk())
    log: Log = store
    assert (log.is_synced, log.waiting_bytes, log.begin_sync()) == (True, 0, None)
    store.append(new())
    size = store.end
    assert log.waiting_bytes == size
    assert log.write() == size
    assert not log.is_synced
    assert run(log.begin_sync()) is None
    assert (log.is_synced, log.waiting_bytes) == (True, 0)
    store.append(new())
    log.give_up_unwritten()
    assert (log.waiting_bytes, store.end) == (0, size)


def test_a_sync_that_failed_is_told_to_all_that_follow() -> None:
    """And nothing is said to wait."""
    disk = SimulatedDisk()
    store = open_store(disk)
    log = store
    store.append(new())
    log.write()
    disk.fail("sync")
    assert run(log.begin_sync()) is not None
    assert log.waiting_bytes == 0
    with pytest.raises(StoreFailed, match="a sync of the log failed"):
        log.begin_sync()


@pytest.mark.parametrize("fails", [True, False])
def test_a_stretch_that_is_filled_keeps_its_bytes_from_being_written(fails: bool) -> None:
    """Until that has ended, one way or the other."""
    disk = SimulatedDisk()
    store = open_store(disk, fill_ahead_bytes=2048)
    log = store
    store.append(new())
    log.write()
    job = log.begin_fill()
    assert log.begin_fill() is None, "one at a time"
    assert not log.fill_blocks_write()
    while store.end < 3500:
        store.append(new(body=b"x" * 500))
    assert log.fill_blocks_write()
    if fails:
        disk.fail("write", error=errno.ENOSPC)
    assert isinstance(run(job), DiskFull) == fails
    assert not log.fill_blocks_write()
    log.write()
    assert store.written == store.end


@pytest.mark.parametrize("fails", [True, False])
def test_a_file_that_is_not_there_is_made_before_it_is_written(fails: bool) -> None:
    """If it cannot be made, what needs it is given up, and the next ones are stored."""
    disk = SimulatedDisk()
    store = open_store(disk)
    log = store
    for _ in range(12):
        store.append(new(body=b"x" * 500))
    assert store.end > SMALL.log.segment_bytes
    job = log.begin_file()
    if fails:
        disk.fail("create", error=errno.ENOSPC)
        assert isinstance(run(job), DiskFull)
        log.give_up_unwritten()
        store.append(new())
        job = log.begin_file()
    while job is not None:
        assert run(job) is None
        job = log.begin_file()
    creates = disk.calls["create"]
    log.write()
    assert (store.written, disk.calls["create"]) == (store.end, creates)
