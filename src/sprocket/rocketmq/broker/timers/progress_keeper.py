"""How far the delivery of timed messages is, kept in the checkpoint.

It says up to which slot everything is delivered and stored, up to where the timer log has the
topic, and from where on the log may have copies of what is in later slots.
"""

from collections.abc import Callable
from typing import NamedTuple

from sprocket.base import log
from sprocket.base.disk import Steps, steps
from sprocket.base.errors import DiskFull, DiskRefused, StoreError
from sprocket.rocketmq.broker.timers.due_deliveries import DueDeliveries
from sprocket.rocketmq.broker.timers.first_copies import FirstCopies
from sprocket.rocketmq.broker.timers.recovery import Delivered
from sprocket.rocketmq.broker.timers.slot_reader import SlotReader
from sprocket.rocketmq.broker.timers.topic_follower import TopicFollower
from sprocket.rocketmq.broker.timers.waiting_counts import WaitingCounts
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerCheckpoint, TimerCounts, TimerFiles

_log = log.get_logger(__name__)

IDLE_BYTES = 16 << 20
"""The checkpoint is written again when the log has grown by this, if nothing else has changed."""


class _Reached(NamedTuple):
    """How far the work is."""

    log_end: int
    offset: int
    deliveries: int


class _Unsafe(NamedTuple):
    """A checkpoint, and what waited then, that are true once the disk has the log up to a place."""

    checkpoint: TimerCheckpoint
    counts: TimerCounts
    place: int
    reached: _Reached


class ProgressKeeper:
    """Writes the checkpoint.

    Args:
        store: The open store.
        files: Where it is written.
        follower: Says up to where the topic is in the timer log.
        reader: Says up to which slot everything is delivered.
        deliveries: Says whether anything was delivered.
        first_copies: Says where copies may be.
        counts: Says how many wait.
        drive: Does work in steps, its calls on the disk thread.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        files: TimerFiles,
        follower: TopicFollower,
        reader: SlotReader,
        deliveries: DueDeliveries,
        first_copies: FirstCopies,
        counts: WaitingCounts,
        drive: Callable[[Steps, Callable[[BaseException | None], None]], None],
    ) -> None:
        self._store = store
        self._files = files
        self._follower = follower
        self._reader = reader
        self._deliveries = deliveries
        self._first_copies = first_copies
        self._counts = counts
        self._drive = drive
        found = files.checkpoint
        self._found_to = max(reader.present, reader.next) + 2
        """Nothing of the timer log that was delivered before is in this slot or a later one."""
        self._kept = _Reached(found.log_end, found.queue_offset, 0)
        self._unsafe: _Unsafe | None = None
        self._is_busy = self._has_failed = False

    @property
    def _is_doubtful(self) -> bool:
        """Whether what the files say may not count any more."""
        return self._has_failed or self._reader.is_damaged

    def begin(self) -> None:
        """Begin to make durable how far everything is; wanted about once a second."""
        if self._is_busy or self._is_doubtful:
            return
        if self._unsafe is not None and self._store.synced >= self._unsafe.place:
            checkpoint, counts, _, self._kept = self._unsafe
            self._unsafe = None
            self._is_busy = True
            self._drive(self._steps(checkpoint, counts), self._ended)
        if self._unsafe is None:
            offset = self._follower.offset
            reached = _Reached(self._files.log.end, offset, self._deliveries.count)
            grown = self._store.synced - self._files.checkpoint.deliveries_from
            if reached != self._kept or (offset and grown > IDLE_BYTES):
                self._unsafe = _Unsafe(
                    self._checkpoint(), self._counts.snapshot(), self._store.written, reached
                )

    def _checkpoint(self) -> TimerCheckpoint:
        oldest = self._reader.oldest()
        follower = self._follower
        if follower.is_past_found and oldest > max(self._found_to, follower.copied_slot):
            self._deliveries.delivered = Delivered()
        before = self._files.checkpoint
        return TimerCheckpoint(
            read_at_ms=oldest * self._files.precision_ms,
            log_end=self._files.log.end,
            queue_offset=self._follower.offset,
            master_queue_offset=self._follower.offset,
            state_version=before.state_version,
            version_at_ms=self._store.log_clock.now_ms(),
            version=before.version + 1,
            deliveries_from=self._first_copies.of(oldest),
            precision_ms=self._files.precision_ms,
        )

    def _steps(self, checkpoint: TimerCheckpoint, counts: TimerCounts) -> Steps:
        try:
            yield from self._files.keep_steps(checkpoint, counts)
            yield from self._files.log.clean_steps(self._store.first)
        except (DiskFull, DiskRefused) as error:
            _log.error("how far timed messages are could not be noted", why=str(error))
        except StoreError as error:
            # What reached the disk is unknown: the next process makes the wheel again.
            self._has_failed = True
            _log.error(
                "how far timed messages are cannot be noted any more until a restart",
                why=str(error),
            )

    def _ended(self, error: BaseException | None) -> None:
        self._is_busy = False
        if error is not None:
            raise error

    def close(self) -> None:
        """Note how far everything is, and close the files; the store is synced, and open.

        Raises:
            StoreError: It could not be noted; the next process delivers from the last note on.
        """
        try:
            if self._is_doubtful:
                self._files.doubt()
            elif self._follower.offset and self._store.is_synced:
                last = self._checkpoint(), self._counts.snapshot()
                steps.run(self._files.keep_steps(*last, is_last=True))
        finally:
            self._files.close()
