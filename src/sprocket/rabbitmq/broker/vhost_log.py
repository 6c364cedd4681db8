"""The log of a virtual host as group commit sees it, with what was declared meanwhile.

A message is as durable as the queue that it is in: the sync of a group takes the journal of the
node's declarations along, which costs nothing while nothing is declared.
"""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from sprocket.base.disk import PendingSync
from sprocket.base.durations import DurationHistogram
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.store.write_ahead import WriteAheadLog
from sprocket.runtime.group_commit import Job, Sync

BeginTableSync = Callable[[], Job | None]
"""Returns what makes durable what was declared; `runtime.snapshots.Snapshots` has it."""


@dataclass(frozen=True, slots=True)
class VhostLog:
    """See the head of the module; a `runtime.group_commit.Log`."""

    _log: WriteAheadLog
    _begin_table_sync: BeginTableSync

    def write(self) -> int:
        """See `WriteAheadLog.write`."""
        return self._log.write()

    def give_up_unwritten(self) -> None:
        """See `WriteAheadLog.give_up_unwritten`."""
        self._log.give_up_unwritten()

    def fill_blocks_write(self) -> bool:
        """See `WriteAheadLog.fill_blocks_write`."""
        return self._log.fill_blocks_write()

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is durable."""
        return self._log.is_synced

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable."""
        return self._log.waiting_bytes

    def begin_sync(self) -> "Sync | None":
        """Return what makes durable all that is written, and what was declared before.

        Raises:
            StoreFailed: A sync failed before.
        """
        tables = self._begin_table_sync()
        records = self._log.begin_sync()
        if tables is None:
            return records
        return _BothSync(tables, records)

    def begin_due_sync(self) -> "Sync | None":
        """Return the same: what nobody waits for is to be durable soon, too."""
        return self.begin_sync()

    def try_room(self) -> None:
        """See `WriteAheadLog.try_room`."""
        self._log.try_room()

    def begin_fill(self) -> Job | None:
        """See `WriteAheadLog.begin_fill`."""
        return self._log.begin_fill()

    def begin_file(self) -> Job | None:
        """See `WriteAheadLog.begin_file`."""
        return self._log.begin_file()


class _BothSync(Struct, frozen=True, eq=False):
    """A sync of declarations, and then one of the log, if it needs one."""

    tables: Job
    records: Sync | None

    def start(self) -> PendingSync | None:
        """Do not: declarations must be durable before."""
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


class SyncTimes:
    """What follows the log: its syncs are counted, and nothing else; see `group_commit.Follower`.

    Args:
        syncs: Where they are counted.
    """

    def __init__(self, syncs: DurationHistogram) -> None:
        self.synced = syncs.add

    def wrote(self, count: int) -> None:
        """Do nothing."""

    def refused(self, count: int) -> None:
        """Do nothing."""

    def answered(self, *, waits_for_syncs: bool) -> None:
        """Do nothing."""

    def work_beside(self) -> Callable[[], None] | None:
        """Return nothing to do."""
        return None

    def close(self) -> None:
        """Do nothing."""
