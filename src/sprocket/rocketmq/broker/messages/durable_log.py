"""The log as group commit sees it, with what sends have changed in tables.

What a send has changed in tables, a new topic above all, is as durable as its record: the sync of
a group takes the tables' journals along.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from sprocket.base.disk import PendingSync
from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rocketmq.store.log import FillJob, LogSync
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.group_commit import Job

BeginTableSync = Callable[[], Job | None]
"""Returns what makes durable what tables have noted; `runtime.snapshots.Snapshots` has it."""


@dataclass(frozen=True, slots=True)
class DurableLog:
    """See the head of the module; a `runtime.group_commit.Log`."""

    _store: Store
    _begin_table_sync: BeginTableSync

    def write(self) -> int:
        """See `Store.write`."""
        return self._store.write()

    def give_up_unwritten(self) -> None:
        """See `Store.give_up_unwritten`."""
        self._store.give_up_unwritten()

    def fill_blocks_write(self) -> bool:
        """See `Store.fill_blocks_write`."""
        return self._store.fill_blocks_write()

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is durable."""
        return self._store.synced >= self._store.written

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable; 0 after a sync that failed."""
        return self._store.waiting_bytes

    def begin_sync(self) -> "_Sync | None":
        """Return what makes durable all that is written, and what tables have noted before.

        Raises:
            StoreError: A sync failed before.
        """
        tables = self._begin_table_sync()
        try:
            records = self._store.begin_sync()
        except StoreFailed as error:
            raise StoreFailed(f"a sync failed: {error}") from error
        return None if records is None and tables is None else _Sync(self._store, records, tables)

    def begin_due_sync(self) -> "_Sync | None":
        """Do so if enough was written, or enough time has passed; raises as well."""
        records = self._store.begin_async_sync()
        if records is None:
            return None
        tables = None
        with contextlib.suppress(StoreError):  # whoever waits for them is told
            tables = self._begin_table_sync()
        return _Sync(self._store, records, tables)

    def try_room(self) -> None:
        """See `Store.try_room`."""
        self._store.try_room()

    def begin_fill(self) -> "_Fill | None":
        """See `Store.begin_fill`."""
        job = self._store.begin_fill()
        return None if job is None else _Fill(self._store, job)

    def begin_file(self) -> "_Fill | None":
        """See `Store.begin_file`."""
        job = self._store.begin_file()
        return None if job is None else _Fill(self._store, job)


class _Sync(Struct, frozen=True, eq=False):
    """A sync of the log, and before it one of tables; None where there is nothing to sync."""

    store: Store
    records: LogSync | None
    tables: Job | None

    def start(self) -> PendingSync | None:
        """Have the system sync the log by itself; not if tables must be durable before."""
        return None if self.tables is not None or self.records is None else self.records.start()

    def run(self) -> None:
        """Sync both."""
        if self.tables is not None:
            self.tables.run()
        if self.records is not None:
            self.records.run()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        if self.records is not None:
            self.store.finish_sync(self.records, error)
        if self.tables is not None:
            self.tables.finish(error)


class _Fill(Struct, frozen=True, eq=False):
    """A step ahead of the writer."""

    store: Store
    job: FillJob

    def run(self) -> None:
        """Take it."""
        self.job.run()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        self.store.finish_fill(self.job, error)
