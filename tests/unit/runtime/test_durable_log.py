"""A log whose sync takes the tables' journals along: what is durable first, what a failure does.

The log is the smallest there is; `tests/crash` has those of both products.
"""

import pytest
from tests.contract.echo_log import EchoLog

from sprocket.base.errors import DiskFailed, DiskRefused, StoreError, StoreFailed
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import Job, Sync
from sprocket.testing.disk import SimulatedDisk


class Tables:
    """Tables that have changed if the test says so, and their sync.

    Attributes:
        begin_error: Why their sync cannot begin.
        run_error: How it ends.
        done: What became durable, in order, and how syncs ended.
    """

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.echo = EchoLog(self.disk, "/echo")
        self.have_changed = False
        self.begin_error: StoreError | None = None
        self.run_error: StoreError | None = None
        self.done: list[str] = []
        self.log = DurableLog(self.echo, self.begin_sync)

    def begin_sync(self) -> Job | None:
        """See `DurableLog`."""
        if self.begin_error is not None:
            raise self.begin_error
        return self if self.have_changed else None

    def run(self) -> None:
        """Make them durable, before the log is."""
        assert not self.done
        if self.run_error is not None:
            raise self.run_error
        self.done.append(f"tables, with {self.disk.calls['sync']} syncs of the log before")

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        self.done.append("ended" if error is None else "failed")

    def write(self, line: bytes = b"a") -> None:
        """Have the log hold a line that is not durable."""
        self.echo.append(line)
        assert self.log.write() == self.echo.written


def run(sync: Sync | None) -> None:
    """Do what group commit does with a sync."""
    assert sync is not None
    error = None
    try:
        sync.run()
    except StoreError as caught:
        error = caught
    sync.finish(error)


def test_while_no_table_changes_the_sync_is_the_logs_own() -> None:
    """The system may do it, and nothing is in its way."""
    tables = Tables()
    assert tables.log.begin_sync() is tables.log.begin_due_sync() is None
    tables.write()
    assert (tables.log.is_synced, tables.log.waiting_bytes) == (False, 2)
    sync = tables.log.begin_sync()
    assert sync is not None
    pending = sync.start()
    assert pending is not None
    assert pending.wait()
    sync.finish(None)
    assert (tables.log.is_synced, tables.log.waiting_bytes) == (True, 0)


@pytest.mark.parametrize("is_due", [False, True])
def test_tables_are_durable_before_the_log_is(is_due: bool) -> None:
    """So the system may not sync the log by itself: a record never outlives its table's line."""
    tables = Tables()
    tables.have_changed = True
    tables.write()
    before = tables.disk.calls["sync"]
    sync = tables.log.begin_due_sync() if is_due else tables.log.begin_sync()
    assert sync is not None
    assert sync.start() is None
    run(sync)
    assert tables.done == [f"tables, with {before} syncs of the log before", "ended"]
    assert tables.log.is_synced


def test_tables_alone_are_synced_for_who_waits_but_not_when_only_the_log_is_asked() -> None:
    """Whoever changed them under async flush waits for the tables' own sync."""
    tables = Tables()
    tables.have_changed = True
    assert tables.log.begin_due_sync() is None
    run(tables.log.begin_sync())
    assert tables.done[1:] == ["ended"]


@pytest.mark.parametrize("is_of_tables", [True, False])
def test_a_failure_is_told_to_both(is_of_tables: bool) -> None:
    """Neither is durable for sure; the log of the tables' failure is not synced at all."""
    tables = Tables()
    tables.have_changed = True
    tables.write()
    before = tables.disk.calls["sync"]
    if is_of_tables:
        tables.run_error = DiskFailed("EIO")
    else:
        tables.disk.fail("sync")
    run(tables.log.begin_sync())
    assert tables.done[-1] == "failed"
    assert tables.disk.calls["sync"] == before + (not is_of_tables)
    with pytest.raises(StoreFailed):
        tables.log.begin_sync()


def test_tables_whose_sync_cannot_begin_leave_the_log_as_it_was() -> None:
    """Who waits is refused, and a sync of the log for which nobody waits goes on without them."""
    tables = Tables()
    tables.write()
    tables.begin_error = StoreFailed("a sync failed")
    with pytest.raises(StoreFailed):
        tables.log.begin_sync()
    assert not tables.log.is_synced
    run(tables.log.begin_due_sync())
    assert tables.log.is_synced


def test_a_sync_of_the_log_that_cannot_begin_leaves_the_tables_as_they_were() -> None:
    """It is begun again, with them."""
    tables = Tables()
    tables.have_changed = True
    tables.write()
    tables.echo.refusals, tables.echo.refuses_at_begin = 1, True
    with pytest.raises(DiskRefused):
        tables.log.begin_sync()
    assert tables.done == []
    run(tables.log.begin_sync())
    assert tables.done[1:] == ["ended"]
    assert tables.log.is_synced
