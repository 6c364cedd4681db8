"""What consumers of gRPC do with messages that they have: settle them, or say when they come again.

What several handlers need of the services for that, by values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import structs

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Release, RetryService
from sprocket.rocketmq.broker.pop import (
    AckOutcome,
    PopHold,
    PoppedQueue,
    PopService,
    retry_topics,
)
from sprocket.rocketmq.codec.grpc import receipt_handle
from sprocket.rocketmq.codec.grpc.receipt_handle import Receipt
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.message import SendBackRequest
from sprocket.rocketmq.model.pop import PopTopic
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.cold_reads import ColdReads

Done = Callable[[Exception | None], None]
"""Told that something is as safe as the flush mode asks, or why it was not done."""

_GIVEN_UP: Final = -1
"""The delay level of a message that goes to the dead letters."""

_log = log.get_limited_logger(__name__)


@dataclass(frozen=True, slots=True)
class PoppedMessages:
    """Messages that consumers have, each named by its receipt.

    Threads: event loop only.
    """

    _pops: PopService
    _hold: PopHold
    _send_back: RetryService
    _durable: DurableAppender
    _reads: ColdReads
    _keep: Callable[[bool, Callable[[StoreError | None], None]], None]
    """Calls back when what was noted of pops is as safe as the flush mode asks; told whether they
    were in order."""
    _elapsed_ms: Callable[[int], int]
    """How long ago a time of the log was, however the clock was set meanwhile."""
    broker_name: str

    def read(self, text: str) -> Receipt:
        """Return what a receipt handle says.

        Raises:
            Declined: INVALID_RECEIPT_HANDLE; it is none, or of another broker.
        """
        receipt = receipt_handle.decode(text)
        if receipt.handle.broker != self.broker_name:
            raise Declined(
                Code.INVALID_RECEIPT_HANDLE,
                f"the receipt handle is of broker {receipt.handle.broker}, "
                f"this is {self.broker_name}",
            )
        return receipt

    def check_fresh(self, receipt: Receipt) -> None:
        """Refuse a receipt whose time is over: its message may be another's by now.

        Raises:
            Declined: INVALID_RECEIPT_HANDLE.
        """
        handle = receipt.handle
        invisible_ms = handle.due_at_ms - handle.popped_at_ms
        if self._elapsed_ms(handle.popped_at_ms) >= invisible_ms:
            raise Declined(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")

    def settle(self, receipt: Receipt, topic: str, group: str) -> None:
        """Note that a message was consumed; `when_kept` says when that is safe.

        Raises:
            Declined: There is no such message.
            Refused: There is no such topic or queue.
            DiskFull, DiskFailed: It may come again.
        """
        key = self.queue_of(receipt, topic, group)
        low, high = self._pops.range_of(key)
        if not low <= receipt.offset <= high:
            raise Declined(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal")
        done = self._pops.acknowledge(key, receipt.handle, receipt.offset)
        if done is AckOutcome.FREE:
            self._hold.wake(*key)

    def change(self, receipt: Receipt, topic: str, group: str, invisible_ms: int) -> Receipt:
        """Have a message come again so long from now; return its new receipt.

        Raises as `settle`.
        """
        key = self.queue_of(receipt, topic, group)
        handle, offset = receipt.handle, receipt.offset
        found = self._pops.change_invisible(key, handle, offset, invisible_ms)
        if found is None:
            raise Declined(
                Code.INTERNAL_SERVER_ERROR, "changeInvisibleDuration failed: status is abnormal"
            )
        changed = structs.replace(
            handle,
            start=handle.start if handle.is_ordered else offset,
            popped_at_ms=found.popped_at_ms,
            invisible_ms=found.invisible_ms,
        )
        return Receipt(changed, offset, receipt.place)

    def when_kept(self, done: Done, *, is_ordered: bool) -> None:
        """Call back when what was noted so far is as safe as the flush mode asks.

        Args:
            done: Is called.
            is_ordered: Whether that is of messages that are consumed in order.
        """
        self._keep(is_ordered, done)

    def give_up(self, receipt: Receipt, topic: str, group: str, done: Done) -> None:
        """Store a message among the dead letters of a group, then note that it was consumed.

        Raises:
            Refused: A check failed.
            StoreError: It cannot be read now.
        """
        asked = SendBackRequest(
            offset=receipt.place, group=group, delay_level=_GIVEN_UP, max_reconsume_times=0
        )

        def settled(error: StoreError | None) -> None:
            if error is not None:
                done(error)
                return
            try:
                self.settle(receipt, topic, group)
            except Exception as failed:  # whoever waits is told
                done(failed)
            else:
                self.when_kept(done, is_ordered=receipt.handle.is_ordered)

        def work() -> None:
            record = self._send_back.record(asked)
            if record is None:
                settled(None)
            else:
                self._durable.append([record], _stored, [settled])

        self._reads.run(work, done)

    def give_up_quietly(self, receipt: Receipt, topic: str, group: str) -> None:
        """Do so for a message that nobody waits for."""
        try:
            self.give_up(receipt, topic, group, partial(_note_failure, topic, group))
        except Exception as error:  # it comes again, and then it is tried again
            _note_failure(topic, group, error)

    def queue_of(self, receipt: Receipt, topic: str, group: str) -> PoppedQueue:
        """Return the queue in which a message lies, which may be one of a retry topic."""
        handle = receipt.handle
        if handle.topic is not PopTopic.NORMAL:
            topic = dict(retry_topics(topic, group))[handle.topic]
        return PoppedQueue(topic, group, handle.queue_id)


def _note_failure(topic: str, group: str, error: Exception | None) -> None:
    if error is not None:
        _log.error("a message could not be given up", topic=topic, group=group, why=str(error))


def _stored(
    asked: Sequence[Callable[[StoreError | None], None]],
    _: AppendedBatch | None,
    error: StoreError | None,
) -> Release:
    (settled,) = asked
    return partial(settled, error)
