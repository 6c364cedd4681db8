"""What consumers say of messages that they have: consumed, not now, never.

Source: RocketMQ `AckMessageActivity`, `ChangeInvisibleDurationActivity`,
`ForwardMessageToDLQActivity`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct

from sprocket.rocketmq.codec.grpc import quick_answers, receipt_handle
from sprocket.rocketmq.codec.grpc.checks import check_group, check_invisible, check_topic
from sprocket.rocketmq.codec.grpc.messages import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    Status,
)
from sprocket.rocketmq.codec.grpc.receipt_handle import Receipt
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.grpc.times import ms_of
from sprocket.rocketmq.server.grpc.calls import OK, A, ClientCall, Q, status, status_of
from sprocket.rocketmq.server.grpc.popped import PoppedMessages
from sprocket.rocketmq.server.grpc.renewals import Renewals
from sprocket.rocketmq.server.grpc.sessions import Sessions

AckCall = ClientCall[AckMessageRequest, AckMessageResponse]
ChangeCall = ClientCall[ChangeInvisibleDurationRequest, ChangeInvisibleDurationResponse]
ForwardCall = ClientCall[
    ForwardMessageToDeadLetterQueueRequest, ForwardMessageToDeadLetterQueueResponse
]

ENTRIES_MAX: Final = 10_000
"""Of one call."""


class _Settled(Struct, frozen=True):
    """What became of one message of an acknowledgement.

    Attributes:
        message_id: Its id, as the client gave it.
        handle: What names it.
        status: What is said of it.
        is_ordered: Whether it is consumed in order.
    """

    message_id: str
    handle: str
    status: Status
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class AckHandlers:
    """Takes words about messages that consumers have."""

    _popped: PoppedMessages
    _renewals: Renewals
    _sessions: Sessions

    def acknowledge(self, call: AckCall) -> None:
        """Note that messages were consumed. Raises Declined."""
        request = call.request
        topic, group = self._names(call, call.name(request.topic), call.name(request.group))
        entries = request.entries
        count = len(entries)
        if not count:
            raise Declined(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        if count > ENTRIES_MAX:
            raise Declined(Code.BAD_REQUEST, f"{count} entries, {ENTRIES_MAX} may be")
        found = [self._acknowledge(call, one, topic, group) for one in entries]
        told = partial(_acknowledged, call, found)
        if any(one.status is OK for one in found):
            is_ordered = any(one.is_ordered for one in found)
            self._popped.when_kept(told, is_ordered=is_ordered)
        else:
            told(None)

    def _acknowledge(
        self, call: AckCall, entry: AckMessageEntry, topic: str, group: str
    ) -> "_Settled":
        """Note it of one message, and return what is said of that."""
        message_id, handle = entry.message_id, entry.receipt_handle
        try:
            receipt = self._receipt(call, handle)
            self._popped.settle(receipt, topic, group)
        except Exception as error:  # of this message, not of the others
            return _Settled(message_id, handle, status_of(error))
        return _Settled(message_id, handle, OK, receipt.handle.is_ordered)

    def change(self, call: ChangeCall) -> None:
        """Have a message come again at another time. Raises Declined, Refused, StoreError."""
        request = call.request
        topic, group = self._names(call, call.name(request.topic), call.name(request.group))
        wait_ms = ms_of(request.invisible_duration)
        check_invisible(wait_ms, 0)
        receipt = self._receipt(call, request.receipt_handle)
        changed = self._popped.change(receipt, topic, group, wait_ms)
        text = receipt_handle.encode(changed)
        answer = ChangeInvisibleDurationResponse(status=OK, receipt_handle=text)
        told = partial(answer_when_done, call, answer)
        self._popped.when_kept(told, is_ordered=receipt.handle.is_ordered)

    def forward(self, call: ForwardCall) -> None:
        """Put a message among the dead letters. Raises Declined, Refused, StoreError."""
        request = call.request
        topic, group = self._names(call, call.name(request.topic), call.name(request.group))
        receipt = self._receipt(call, request.receipt_handle)
        answer = ForwardMessageToDeadLetterQueueResponse(status=OK)
        self._popped.give_up(receipt, topic, group, partial(answer_when_done, call, answer))

    def _names(self, call: ClientCall[Q, A], topic: str, group: str) -> tuple[str, str]:
        """Return topic and group of a call, checked."""
        self._sessions.heard_of(call.client_id)
        check_topic(topic)
        check_group(group)
        return topic, group

    def _receipt(self, call: ClientCall[Q, A], text: str) -> Receipt:
        """Return what a handle stands for now, which is renewed no more.

        Raises:
            Declined: It is none, or its time is over.
        """
        receipt = self._renewals.take(call.client_id, text) or self._popped.read(text)
        self._popped.check_fresh(receipt)
        return receipt


def answer_when_done(call: ClientCall[Q, A], answer: A, error: Exception | None) -> None:
    """Answer a call once its work is done, or with why it is not."""
    if error is None:
        call.answer(answer)
    else:
        call.fail(error)


def _acknowledged(call: AckCall, found: Sequence[_Settled], error: Exception | None) -> None:
    """Answer with what became of each message."""
    if error is None and all(one.status is OK for one in found):
        call.answer_encoded(
            quick_answers.acknowledged([(one.message_id, one.handle) for one in found])
        )
        return
    entries = [
        AckMessageResultEntry(
            message_id=one.message_id,
            receipt_handle=one.handle,
            status=one.status if error is None or one.status is not OK else status_of(error),
        )
        for one in found
    ]
    codes = {one.status.code for one in entries}
    overall = entries[0].status if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
    call.answer(AckMessageResponse(status=overall, entries=entries))
