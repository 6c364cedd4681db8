"""Making queues, index and checkpoint durable while a store is open, and when it is closed."""

import contextlib
from collections import deque
from functools import partial

from sprocket.base.disk import Steps, steps
from sprocket.base.errors import DiskFull, DiskRefused, StoreError, StoreFailed
from sprocket.rocketmq.store.clean_note import CleanNote
from sprocket.rocketmq.store.log import CommitLog, Flusher
from sprocket.rocketmq.store.recovery import checkpoint as checkpoints
from sprocket.rocketmq.store.recovery import recovery
from sprocket.rocketmq.store.recovery.checkpoint import Checkpoint
from sprocket.rocketmq.store.recovery.recovery import StoreParts
from sprocket.rocketmq.store.reput import Reput

_PLACES_MAX = 8
"""Places that the queues had reached which are remembered; one is a call of `keep` ago."""


class Checkpointer:
    """Syncs what is derived, then says so in the checkpoint.

    Once a sync of queues or index failed, what reached the disk is unknown, and a second one would
    not tell; one that could not begin is tried again. After one that failed the checkpoint stays
    where it is and the stop is not a clean one, so that the next opening makes them again from the
    log.

    Attributes:
        kept_to: Up to where queues and index have the log, durably.
    """

    def __init__(self, parts: StoreParts, log: CommitLog, flush: Flusher, dispatch: Reput) -> None:
        self.kept_to: int = log.written
        self._parts = parts
        self._log = log
        self._flush = flush
        self._dispatch = dispatch
        self._saved: Checkpoint | None = None
        self._failure: str | None = None
        self._reached: deque[tuple[int, int]] = deque(maxlen=_PLACES_MAX)
        self._queues_noted = -1  # the table on the disk may be older than recovery

    def topics_changed(self) -> None:
        """Have the table of queues written by the next call of `keep_steps`."""
        self._queues_noted = -1

    def keep_steps(self) -> Steps:
        """Make durable what was dispatched, as far as the log is durable.

        If the log is not durable as far as the queues go, which may always be so under async flush,
        the checkpoint takes a place that they had reached at an earlier call.

        Raises:
            StoreError: It could not be done, now or before.
        """
        reached = self._dispatch.queued_to, self._dispatch.queued_at_ms
        if reached not in self._reached:
            self._reached.append(reached)
        durable = [at_ms for place, at_ms in self._reached if place <= self._flush.synced]
        if durable and durable[-1]:
            yield from self._derived_steps(closing=False)
            if len(self._parts.queues.by_key) != self._queues_noted:
                yield from self._queue_table_steps(closing=False)
            self.kept_to = reached[0]
            yield from self._checkpoint_steps(durable[-1])

    def seal(self, last_record: int) -> None:
        """Make everything durable and mark the store as closed; the log is synced already.

        Args:
            last_record: Where the last record of the log begins, −1 without one.

        Raises:
            StoreError: The store stays marked as open.
        """
        steps.run(self._derived_steps(closing=True))
        if self._dispatch.queued_at_ms:
            steps.run(self._checkpoint_steps(self._dispatch.queued_at_ms))
        steps.run(self._queue_table_steps(closing=True))
        self._parts.queues.seal()
        index = self._parts.index
        note = CleanNote(
            log_end=self._log.end,
            last_record=last_record,
            index_end=-1 if index is None else index.end,
        )
        recovery.mark_closed(self._parts.disk, self._parts.layout, note)

    def doubt(self) -> None:
        """Leave a note that a sync failed; see `recovery.mark_doubtful`."""
        with contextlib.suppress(StoreError):  # the store refuses everything with or without it
            recovery.mark_doubtful(self._parts.disk, self._parts.layout)

    def _derived_steps(self, *, closing: bool) -> Steps:
        """Make queues and index durable."""
        if self._failure is not None:
            raise StoreFailed(self._failure)
        index = self._parts.index
        try:
            yield from self._parts.queues.flush_steps()
            if index is not None and closing:
                index.close()
            elif index is not None:
                yield from index.flush_steps()
        except (DiskFull, DiskRefused):
            raise  # nothing became uncertain, and the next round tries again
        except StoreError as error:
            self._failure = f"queues and index are uncertain until the store is reopened: {error}"
            self.doubt()
            raise

    def _queue_table_steps(self, *, closing: bool) -> Steps:
        """Note which queues there are."""
        disk, layout, queues = self._parts.disk, self._parts.layout, self._parts.queues
        table = recovery.queue_table(queues, closing=closing)
        count = len(queues.by_key)
        yield partial(recovery.save_queue_table, disk, layout, table)
        self._queues_noted = count

    def _checkpoint_steps(self, at_ms: int) -> Steps:
        """Write the checkpoint; records, units and keys up to `at_ms` are durable."""
        disk, path, index = self._parts.disk, self._parts.layout.checkpoint, self._parts.index
        old = self._saved or checkpoints.load(disk, path)
        new = Checkpoint(
            log_at_ms=at_ms,
            queues_at_ms=at_ms,
            index_at_ms=old.index_at_ms if index is None else index.flushed_full_at_ms,
            master_flushed_offset=old.master_flushed_offset,
            confirmed_offset=old.confirmed_offset,
        )
        if new != self._saved:
            yield partial(checkpoints.save, disk, path, new)
            self._saved = new
