"""Tables that are a snapshot and a journal, kept short and durable while the loop serves.

New snapshots are written in steps: the loop makes the pieces, the disk thread writes them. Callers
that must not answer before a change is on disk use `when_durable`; one sync of the journals then
serves all who wait. Callers that sync something else anyway, like the group commit of messages,
sync the journals too with `begin_sync`.
"""

from collections.abc import Callable, Mapping, Sequence

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.base.tables import Journal, Journaled, JournalSync
from sprocket.runtime.offload import DiskThread

_log = log.get_logger(__name__)

Done = Callable[[StoreError | None], None]


class TableSync:
    """Makes durable what the journals of some tables hold when it is begun."""

    def __init__(self, jobs: Sequence[tuple[Journal[tuple[object, ...]], JournalSync]]) -> None:
        self._jobs = jobs

    def run(self) -> None:
        """Do it.

        Raises:
            DiskFailed: Some may be durable.
        Threads: any.
        """
        for _, job in self._jobs:
            job.run()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended; on the loop."""
        for journal, job in self._jobs:
            journal.finish_sync(job, error)


class Snapshots:
    """See the head of the module; snapshots and syncs of journals may be one thread's work.

    The log calls tables by their names here. Changes to those that are `durable` are not answered
    before they are on the disk.

    Threads: event loop only.
    """

    def __init__(
        self,
        thread: DiskThread,
        sync_thread: DiskThread,
        tables: Mapping[str, Journaled],
        durable: Sequence[Journaled],
    ) -> None:
        self._thread = thread
        self._sync_thread = sync_thread
        self._tables = tables
        self._journals = [table.journal for table in durable]
        self._under_way: set[str] = set()
        self._waiting: list[Done] = []
        self._is_syncing = False

    def begin(self) -> None:
        """Begin a new snapshot of each table that has changed, unless one is under way."""
        for name in self._tables:
            self.begin_one(name)

    def begin_one(self, name: str) -> None:
        """Begin a new snapshot of one table; nothing happens if it has not changed."""
        if name in self._under_way or self._thread.is_stopped:
            return
        self._under_way.add(name)

        def done(caught: BaseException | None) -> None:
            self._under_way.discard(name)
            if isinstance(caught, StoreError):
                _log.error(
                    "a table could not be written; trying again", table=name, why=str(caught)
                )
            elif caught is not None:
                raise caught

        self._thread.drive(self._tables[name].flush_steps(), done)

    def begin_sync(self) -> TableSync | None:
        """Return what makes the durable tables' changes so, None if they are.

        Raises:
            StoreFailed: A sync failed, and no snapshot has been written since.
        """
        jobs = [
            (journal, job)
            for journal in self._journals
            if (job := journal.begin_sync()) is not None
        ]
        return TableSync(jobs) if jobs else None

    def when_durable(self, done: Done) -> None:
        """Call `done` when every change to a durable table is on the disk, or why it is not."""
        self._waiting.append(done)
        if not self._is_syncing:
            self._sync()

    def _sync(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            job = self.begin_sync()
        except StoreError as error:
            _tell(waiting, error)
            return
        if job is None:
            _tell(waiting, None)
            return
        self._is_syncing = True

        def synced(_: object, caught: BaseException | None) -> None:
            self._is_syncing = False
            error = caught if isinstance(caught, StoreError) else None
            job.finish(error)
            if caught is not None and error is None:
                raise caught
            _tell(waiting, error)
            if self._waiting:
                self._sync()

        self._sync_thread.submit(job.run, synced)


def _tell(waiting: Sequence[Done], error: StoreError | None) -> None:
    for done in waiting:
        done(error)
