"""Making queues, index and checkpoint durable while a store is open, and when it is closed."""

import contextlib
from collections import deque

from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rocketmq.store import checkpoint as checkpoints
from sprocket.rocketmq.store import recovery
from sprocket.rocketmq.store.checkpoint import Checkpoint
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.dispatch import Dispatch
from sprocket.rocketmq.store.flush import Flush
from sprocket.rocketmq.store.recovery import CleanNote, Parts, QueueTable

_PLACES_MAX = 8
"""Places that the queues had reached which are remembered; one is a call of `keep` ago."""


class Keeper:
    """Syncs what is derived, then says so in the checkpoint.

    Once a sync of queues or index failed, what reached the disk is unknown, and a second one would
    not tell. Then the checkpoint stays where it is and the stop is no clean one, so that the next
    opening makes them again from the log.
    """

    def __init__(self, parts: Parts, log: CommitLog, flush: Flush, dispatch: Dispatch) -> None:
        self._parts = parts
        self._log = log
        self._flush = flush
        self._dispatch = dispatch
        self._saved: Checkpoint | None = None
        self._failure: str | None = None
        self._reached: deque[tuple[int, int]] = deque(maxlen=_PLACES_MAX)
        self._queues_noted = -1  # the table on the disk may be older than recovery

    def keep(self) -> None:
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
            self._sync(for_good=False)
            if len(self._parts.queues) != self._queues_noted:
                self._save_queue_table(closing=False)
            self._save_checkpoint(durable[-1])

    def seal(self, last_record: int) -> None:
        """Make everything durable and mark the store as closed; the log is synced already.

        Args:
            last_record: Where the last record of the log begins, −1 without one.

        Raises:
            StoreError: The store stays marked as open.
        """
        self._sync(for_good=True)
        if self._dispatch.queued_at_ms:
            self._save_checkpoint(self._dispatch.queued_at_ms)
        self._save_queue_table(closing=True)
        index = self._parts.index
        note = CleanNote(
            log_end=self._log.end,
            last_record=last_record,
            index_end=-1 if index is None else index.end,
        )
        recovery.mark_closed(self._parts.disk, self._parts.layout, note)

    def doubt(self) -> None:
        """Leave a note that a sync of the log failed; see `recovery.mark_doubtful`."""
        with contextlib.suppress(StoreError):
            recovery.mark_doubtful(self._parts.disk, self._parts.layout)

    def _sync(self, *, for_good: bool) -> None:
        if self._failure is not None:
            raise StoreFailed(self._failure)
        index = self._parts.index
        try:
            self._parts.queues.flush()
            if index is not None and for_good:
                index.close()
            elif index is not None:
                index.flush()
        except StoreError as error:
            self._failure = f"queues and index are uncertain until the store is reopened: {error}"
            raise

    def _save_queue_table(self, *, closing: bool) -> None:
        """Note which queues there are; how far they go is only certain when closing."""
        table: QueueTable = {}
        for queue in self._parts.queues:
            reached = queue.max_offset if closing else min(queue.max_offset, 1)
            table.setdefault(queue.topic, {})[queue.queue_id] = reached
        recovery.save_queue_table(self._parts.disk, self._parts.layout, table)
        self._queues_noted = len(self._parts.queues)

    def _save_checkpoint(self, at_ms: int) -> None:
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
            checkpoints.save(disk, path, new)
            self._saved = new
