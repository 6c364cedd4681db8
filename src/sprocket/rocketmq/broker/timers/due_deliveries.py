"""From memory to where they are to go: copies of what is due are appended, like any send."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from sprocket.base import log
from sprocket.base.disk import gather
from sprocket.base.errors import CorruptRecord, DiskFailed, MessageTooLarge, StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Release
from sprocket.rocketmq.broker.timers import timed_records
from sprocket.rocketmq.broker.timers.due_messages import Due, DueMessages
from sprocket.rocketmq.broker.timers.polling import RETRY_SECONDS, Polling
from sprocket.rocketmq.broker.timers.recovery import Delivered
from sprocket.rocketmq.broker.timers.timed_records import UNREADABLE
from sprocket.rocketmq.broker.timers.waiting_counts import WaitingCounts
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import ROLL, TimerFiles, TimerRecord

_log = log.get_logger(__name__)

DELIVER_BATCH = 64
"""Messages that are delivered in one go; about 2 ms of the loop."""

_REFUSED_FOR_GOOD = (MessageTooLarge, MessageIllegal, CorruptRecord)
"""The copy itself cannot be appended, now or later."""


class _Looked(NamedTuple):
    """What is to become of a message that is due.

    Attributes:
        topic: Where it was to go; empty if that is not known, or it is not counted as waiting.
        found: A copy, or why there can be none, or when it is due in milliseconds of the monotonic
            clock, or None if it is not wanted.
    """

    topic: str
    found: NewRecord | Exception | int | None


class _Asked(NamedTuple):
    """A message whose copy is being stored, and where it was to go."""

    due: Due
    topic: str


class DueDeliveries:
    """Delivers what is due.

    Args:
        store: The open store.
        files: Timer log and wheel.
        waiting: What is due soon.
        durable: The way into the store.
        polling: Says when.
        counts: Is told of messages that wait no more.
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
        counts: WaitingCounts,
        delivered: Delivered,
        store_host: bytes,
    ) -> None:
        self._store = store
        self._clock = store.log_clock
        self._files = files
        self._waiting = waiting
        self._durable = durable
        self._polling = polling
        self._counts = counts
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
        looked = gather([partial(self._look, due) for due in batch])
        self._polling.succeeded()
        records: list[NewRecord] = []
        asked: list[_Asked] = []
        for due, (topic, found) in zip(batch, looked, strict=True):
            if isinstance(found, NewRecord):
                records.append(found)
                asked.append(_Asked(due, topic))
            elif isinstance(found, int):
                self._waiting.again(due.slot, found, due.position)
            else:
                if found is not None:
                    _lost(due, found)
                self._done(due, topic)
        self._pending += len(records)
        if records:
            self._durable.append(records, self._stored, asked)
        self._answered(1)

    def _look(self, due: Due) -> _Looked:
        topic = ""
        try:
            one = self._files.log.read(due.position)
            message = timed_records.stored_message(self._store, one)
            if self.delivered.has_copy(message):
                return _Looked("", None)
            if properties.TIMER_DEL_UNIQKEY not in message.properties:
                topic = message.properties.get(properties.REAL_TOPIC, "")
            is_deleted = timed_records.delete_key(message) in (due.slot.deleted or ())
            if is_deleted or self.delivered.is_taken_back(message):
                return _Looked(topic, None)
            return _Looked(topic, self._copy(one, message))
        except UNREADABLE as error:
            return _Looked(topic, error)
        except DiskFailed as error:
            if not self._polling.is_hopeless:
                raise
            return _Looked(topic, error)

    def _copy(self, one: TimerRecord, message: StoredMessage) -> NewRecord | int:
        """Return a copy of a message, or when it is due, in ms of the monotonic clock."""
        now_ms = self._clock.now_ms()
        out = timed_records.out_at_ms(message.properties, message.stored_at_ms, self._precision_ms)
        due_ms = timed_records.due_at_ms(self._clock, message.stored_at_ms, out)
        if one.magic & ROLL:
            return timed_records.rolled(
                message, one.enqueued_at_ms, due_ms, now_ms, self._store_host
            )
        if due_ms > now_ms:  # the wall clock, which says so, is slower than the monotonic one
            return self._polling.now_ms(up=True) + due_ms - now_ms
        return timed_records.delivered(message, one.enqueued_at_ms, now_ms, self._store_host)

    def _stored(
        self, asked: Sequence[_Asked], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Take note of copies that were not stored; asked once more if their sync fails."""
        return partial(self._release, asked, error, is_stored=stored is not None)

    def _release(
        self, asked: Sequence[_Asked], error: StoreError | None, *, is_stored: bool
    ) -> None:
        if is_stored:
            for due, topic in asked:
                self._done(due, topic)
        elif isinstance(error, _REFUSED_FOR_GOOD):
            for due, topic in asked:
                _lost(due, error)
                self._done(due, topic)
        else:
            _log.warning("timed messages could not be delivered; trying again", why=str(error))
            self._again([one.due for one in asked])
        self._answered(len(asked))

    def _done(self, due: Due, topic: str) -> None:
        due.slot.left -= 1
        self._counts.went(topic)
        self.count += 1

    def _answered(self, count: int) -> None:
        self._pending -= count
        if not self._pending:
            self._polling.soon()


def _lost(due: Due, why: Exception) -> None:
    timed_records.report_lost(f"at {due.position} of the timer log", why)
