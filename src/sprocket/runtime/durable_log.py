"""A log whose sync takes along what tables have noted.

What a message needs beside its own record, such as the topic or the queue that it is in, is as
durable as that record: the sync of a group makes the tables' journals durable first. This costs
nothing while no table changes.
"""

import contextlib
from collections.abc import Callable

from msgspec import Struct

from sprocket.base.disk import PendingSync
from sprocket.base.errors import StoreError
from sprocket.runtime.group_commit import Job, Log, Sync

BeginTableSync = Callable[[], Job | None]
"""Returns what makes durable what tables have noted; `runtime.snapshots.Snapshots` has it."""


class DurableLog:
    """See the head of the module; a `runtime.group_commit.Log`.

    Args:
        log: The log itself.
        begin_table_sync: Gives the sync of the tables.
    """

    def __init__(self, log: Log, begin_table_sync: BeginTableSync) -> None:
        self._log = log
        self._begin_table_sync = begin_table_sync
        self.write = log.write
        self.give_up_unwritten = log.give_up_unwritten
        self.begin_fill, self.begin_file = log.begin_fill, log.begin_file
        self.fill_blocks_write, self.try_room = log.fill_blocks_write, log.try_room

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is durable."""
        return self._log.is_synced

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable; 0 after a sync that failed."""
        return self._log.waiting_bytes

    def begin_sync(self) -> Sync | None:
        """Return what makes durable all that is written, and what tables have noted before.

        Raises:
            StoreError: A sync failed before.
        """
        tables = self._begin_table_sync()
        records = self._log.begin_sync()
        return records if tables is None else _BothSync(tables, records)

    def begin_due_sync(self) -> Sync | None:
        """Do so if the log wants it; raises as well, but not because of the tables."""
        records = self._log.begin_due_sync()
        tables = None
        if records is not None:
            with contextlib.suppress(StoreError):  # whoever waits for them is told
                tables = self._begin_table_sync()
        return records if tables is None else _BothSync(tables, records)


class _BothSync(Struct, frozen=True, eq=False):
    """A sync of tables, and then one of the log, if it needs one."""

    tables: Job
    records: Sync | None

    def start(self) -> PendingSync | None:
        """Do not: tables must be durable before."""
        return None

    def run(self) -> None:
        """Sync both."""
        self.tables.run()
        if self.records is not None:
            self.records.run()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        if self.records is not None:
            self.records.finish(error)
        self.tables.finish(error)
