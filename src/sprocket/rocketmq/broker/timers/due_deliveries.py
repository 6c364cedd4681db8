"""From memory to where they are to go: copies of what is due are appended, like any send."""

from collections.abc import Sequence
from functools import partial

from sprocket.base import log
from sprocket.base.disk import gather
from sprocket.base.errors import CorruptRecord, DiskFailed, MessageTooLarge, StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Release
from sprocket.rocketmq.broker.timers import timed_records
from sprocket.rocketmq.broker.timers.due_messages import Due, DueMessages
from sprocket.rocketmq.broker.timers.polling import RETRY_SECONDS, Polling
from sprocket.rocketmq.broker.timers.recovery import Delivered
from sprocket.rocketmq.broker.timers.timed_records import UNREADABLE
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import ROLL, TimerFiles

_log = log.get_logger(__name__)

DELIVER_BATCH = 64
"""Messages that are delivered in one go; about 2 ms of the loop."""

_REFUSED_FOR_GOOD = (MessageTooLarge, MessageIllegal, CorruptRecord)
"""The copy itself cannot be appended, now or later."""


class DueDeliveries:
    """Delivers what is due.

    Args:
        store: The open store.
        files: Timer log and wheel.
        waiting: What is due soon.
        durable: The way into the store.
        polling: Says when.
        delivered: What had a copy already when the store was opened.
        store_host: The broker's address, as records hold it.

    Attributes:
        count: Messages that were delivered, or cannot be; their copies are stored as the flush mode
            says.
        delivered: What had a copy already when the store was opened, as long as that matters.
    """

    def __init__(
        self,
        store: Store,
        files: TimerFiles,
        waiting: DueMessages,
        durable: DurableAppender,
        polling: Polling,
        delivered: Delivered,
        store_host: bytes,
    ) -> None:
        self._store = store
        self._clock = store.log_clock
        self._files = files
        self._waiting = waiting
        self._durable = durable
        self._polling = polling
        self._store_host = store_host
        self._precision_ms = files.precision_ms
        self.delivered = delivered
        self.count = 0
        self._pending = 0

    @property
    def is_busy(self) -> bool:
        """Whether copies wait for the disk."""
        return self._pending > 0

    def begin(self) -> None:
        """Begin to deliver what is due, if there is anything."""
        if self._pending:
            return
        batch = self._waiting.take(self._polling.now_ms(up=False), DELIVER_BATCH)
        if batch:
            self._pending = 1  # this call, so that no answer within it ends the batch
            self._polling.run(partial(self._append, batch), partial(self._failed, batch))

    def _failed(self, batch: Sequence[Due], error: Exception) -> None:
        self._pending = 0
        self._again(batch)
        self._polling.pause("timed messages that are due cannot be read", error)

    def _again(self, batch: Sequence[Due]) -> None:
        retry_ms = self._polling.now_ms(up=True) + int(RETRY_SECONDS * 1000)
        for due in batch:
            self._waiting.again(due.slot, retry_ms, due.position)

    def _append(self, batch: Sequence[Due]) -> None:
        """Append copies of what is due; all of that is read before anything changes."""
        found = gather([partial(self._copy_or_error, due) for due in batch])
        self._polling.succeeded()
        records: list[NewRecord] = []
        asked: list[Due] = []
        for due, copy in zip(batch, found, strict=True):
            if isinstance(copy, NewRecord):
                records.append(copy)
                asked.append(due)
            elif isinstance(copy, int):
                self._waiting.again(due.slot, copy, due.position)
            else:
                if copy is not None:
                    _lost(due, copy)
                self._done(due)
        self._pending += len(records)
        if records:
            self._durable.append(records, self._stored, asked)
        self._answered(1)

    def _copy_or_error(self, due: Due) -> NewRecord | Exception | int | None:
        """Return a copy, or why there can be none, or when it is due, or None if it is not wanted.

        The time is in milliseconds of the monotonic clock.
        """
        try:
            one = self._files.log.read(due.position)
            if one.place in self.delivered.places:
                return None
            message = timed_records.stored_message(self._store, one)
            is_rolled = bool(one.magic & ROLL)
            if self.delivered.has(message):
                return None
            if timed_records.delete_key(message) in (due.slot.deleted or ()):
                return None
            now_ms = self._clock.now_ms()
            if not is_rolled and one.due_at_ms % self._precision_ms:
                return timed_records.delivered(
                    message, one.enqueued_at_ms, now_ms, self._store_host
                )
            out = timed_records.out_at_ms(
                message.properties, message.stored_at_ms, self._precision_ms
            )
            due_ms = timed_records.due_at_ms(self._clock, message.stored_at_ms, out)
            if is_rolled:
                return timed_records.rolled(
                    message, one.enqueued_at_ms, due_ms, now_ms, self._store_host
                )
            if due_ms > now_ms:
                return self._polling.now_ms(up=True) + due_ms - now_ms
            return timed_records.delivered(message, one.enqueued_at_ms, now_ms, self._store_host)
        except UNREADABLE as error:
            return error
        except DiskFailed as error:
            if not self._polling.is_hopeless:
                raise
            return error

    def _stored(
        self, asked: Sequence[Due], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Take note of copies that were not stored; asked once more if their sync fails."""
        return partial(self._release, asked, error, is_stored=stored is not None)

    def _release(self, asked: Sequence[Due], error: StoreError | None, *, is_stored: bool) -> None:
        if is_stored:
            for due in asked:
                self._done(due)
        elif isinstance(error, _REFUSED_FOR_GOOD):
            for due in asked:
                _lost(due, error)
                self._done(due)
        else:
            _log.warning("timed messages could not be delivered; trying again", why=str(error))
            self._again(asked)
        self._answered(len(asked))

    def _done(self, due: Due) -> None:
        due.slot.left -= 1
        self.count += 1

    def _answered(self, count: int) -> None:
        self._pending -= count
        if not self._pending:
            self._polling.soon()


def _lost(due: Due, why: Exception) -> None:
    timed_records.report_lost(f"at {due.position} of the timer log", why)
