"""Sends: one message or several of one topic, which join those of all other clients.

    checked, queue chosen ── collected for some turns ── records ── group commit ── answer

Whoever sends several in one call gets one answer when the last of them is known to be stored or
not; each has a status of its own.

Source: RocketMQ `SendMessageActivity`, `SendMessageQueueSelector`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

from msgspec import Struct

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import (
    DurableAppender,
    Release,
    Sender,
    recall_handle_of,
)
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.broker.transactions import RecentHalves
from sprocket.rocketmq.codec.grpc import message_in, quick_answers, transaction_id
from sprocket.rocketmq.codec.grpc.checks import MessageLimits, check_topic
from sprocket.rocketmq.codec.grpc.message_in import CheckedMessage
from sprocket.rocketmq.codec.grpc.messages import (
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    Status,
)
from sprocket.rocketmq.codec.grpc.plain_send import PlainSend
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.hashes import hash32, jump_hash
from sprocket.rocketmq.model.message import (
    TRANSACTION_MASK,
    NewHalf,
    NewRecord,
    SendRequest,
)
from sprocket.rocketmq.model.topic import WRITE, TopicConfig
from sprocket.rocketmq.server.grpc.accepted_types import accepted_types
from sprocket.rocketmq.server.grpc.calls import (
    OK,
    Buffer,
    ClientCall,
    status,
    status_of,
    store_status,
)
from sprocket.rocketmq.server.grpc.dispatch import busy
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.driver import Peer

SendCall = ClientCall[PlainSend | SendMessageRequest, SendMessageResponse]

MESSAGES_MAX: Final = 1_024
"""Of one call."""


class _Pending(Struct, eq=False):
    """A call whose messages are on their way; gets what became of each.

    Attributes:
        call: Which.
        entries: What became of each; None while that is not known.
        left: Of how many it is not.
    """

    call: SendCall
    entries: list[SendResultEntry | None]
    left: int

    def note(self, number: int, entry: SendResultEntry) -> SendMessageResponse | None:
        """Note what became of one; return the answer once that is known of all."""
        if self.entries[number] is None:
            self.left -= 1
        self.entries[number] = entry
        if self.left:
            return None
        return response_of([one for one in self.entries if one is not None])


class _Sent(SendRequest, frozen=True, gc=False):
    """A message that is to be taken up with others, and whose it is."""

    pending: _Pending
    number: int


class _Asked(Struct, frozen=True, gc=False):
    """Who waits for a record, and what they are told beside where it lies."""

    pending: _Pending
    number: int
    record: NewRecord
    is_half: bool
    recall_handle: str


def response_of(entries: Sequence[SendResultEntry]) -> SendMessageResponse:
    """Return the answer to a call with these messages: their common status, or that they differ."""
    codes = {one.status.code for one in entries}
    overall = entries[0].status if len(codes) == 1 else status(Code.MULTIPLE_RESULTS)
    return SendMessageResponse(status=overall, entries=entries)


def failed_send(said: Status) -> Sequence[SendMessageResponse]:
    """Return the answer to a call of which no message was looked at."""
    return [SendMessageResponse(status=said)]


class GrpcSends:
    """Takes messages up with others, for which this is a `Source` of the group commit.

    Args:
        sender: Makes records of them.
        durable: Has them stored.
        topics: What there is.
        recent: Half messages that may soon be ended.
        broker_name: This broker's.
        body_bytes_max: The largest body.
        now_ms: Wall time.
    """

    def __init__(
        self,
        sender: Sender,
        durable: DurableAppender,
        topics: Topics,
        recent: RecentHalves,
        *,
        broker_name: str,
        body_bytes_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._sender = sender
        self._durable = durable
        self._topics = topics
        self._recent = recent
        self._broker_name = broker_name
        self._limits = MessageLimits(body_bytes_max, now_ms)
        self._sends: list[_Sent] = []
        self._turns: Iterator[int] = count()

    def send(self, call: SendCall) -> None:
        """Store what a call carries. Raises Declined, Refused, DiskBusy."""
        if self._durable.pressure.is_full:
            raise busy()
        checked = self._checked(call)
        first = checked[0]
        topic = self._topics.find(first.topic)
        if topic is None:
            raise Refused(
                Refusal.NO_TOPIC,
                f"No topic route info in name server for the topic: {first.topic}",
            )
        _check_types(topic, checked)
        queue_id = self._queue_of(topic, first.group)
        address = call.peer.address
        pending = _Pending(call, [None] * len(checked), len(checked))
        if not self._sends:
            self._durable.enqueue(self)
        for number, one in enumerate(checked):
            said = one.produced(queue_id)
            self._sends.append(_Sent(said, one.body, address, pending, number))

    def _checked(self, call: SendCall) -> Sequence[CheckedMessage]:
        """Return what a call carries, of one topic. Raises Declined."""
        request, limits = call.request, self._limits
        if isinstance(request, PlainSend):
            name = call.name(request.topic)
            check_topic(name)
            return (message_in.checked_plain(request, name, call.peer.address, limits),)
        given = [*request.messages]
        if not given:
            raise Declined(Code.MESSAGE_CORRUPTED, "no message to send")
        if len(given) > MESSAGES_MAX:
            raise Declined(Code.MESSAGE_CORRUPTED, f"{len(given)} messages, {MESSAGES_MAX} may be")
        name = call.name(given[0].topic)
        if len(given) > 1 and any(call.name(one.topic) != name for one in given):
            raise Declined(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        check_topic(name)
        return [message_in.checked(one, name, call.address, limits) for one in given]

    def _queue_of(self, topic: TopicConfig, group: str) -> int:
        """Return the queue of the messages of a call: that of their group, or each in turn."""
        queues = topic.write_queues if topic.perm & WRITE else 0
        if queues <= 0:
            raise Declined(Code.FORBIDDEN, "no writable queue")
        if group:
            # Also of several, whose order is to be kept; the proxy then takes any queue.
            return jump_hash(hash32(group), queues)
        return next(self._turns) % queues

    @property
    def waiting_count(self) -> int:
        """How many messages are to be appended."""
        return len(self._sends)

    def append(self) -> None:
        """Append what was sent in some turns of the loop."""
        sends, self._sends = self._sends, []
        records: list[NewRecord] = []
        asked: list[_Asked] = []
        refused: list[tuple[_Sent, Exception]] = []
        for send, made in zip(sends, self._sender.records(sends), strict=True):
            if not isinstance(made, NewRecord):
                refused.append((send, made))
                continue
            records.append(made)
            handle, is_half = "", False
            if made.topic is not send.message.topic:
                handle = recall_handle_of(made, send.message, self._broker_name)
                is_half = bool(send.message.sys_flag & TRANSACTION_MASK)
            asked.append(_Asked(send.pending, send.number, made, is_half, handle))
        for send, error in refused:
            entry = SendResultEntry(status=status_of(error))
            answer = send.pending.note(send.number, entry)
            if answer is not None:
                send.pending.call.answer(answer)
        if records:
            self._durable.append(records, self._stored, asked)

    def _stored(
        self, asked: Sequence[_Asked], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Prepare the answers, or say why nothing is stored."""
        why = OK if error is None else store_status(error)
        single: list[tuple[SendCall, bytes]] = []
        parts: list[tuple[_Asked, SendResultEntry]] = []
        offsets = () if stored is None or error is not None else stored.queue_offsets
        for number, one in enumerate(asked):
            is_single = len(one.pending.entries) == 1
            if is_single and offsets and not one.is_half and not one.recall_handle:
                data = quick_answers.sent(one.record.unique_key, offsets[number])
                single.append((one.pending.call, data))
                continue
            entry = SendResultEntry(status=why)
            if stored is not None:
                self._fill(entry, one, stored, number)
            if is_single:
                data = SendMessageResponse(status=why, entries=[entry]).SerializeToString()
                single.append((one.pending.call, data))
            else:
                parts.append((one, entry))
        return partial(_answer, single, parts)

    def _fill(
        self, entry: SendResultEntry, one: _Asked, stored: AppendedBatch, number: int
    ) -> None:
        """Say where a message lies, and by what it can be ended or taken back."""
        record, offset = one.record, stored.queue_offsets[number]
        entry.message_id = record.unique_key
        entry.offset = offset
        if one.recall_handle:
            entry.recall_handle = one.recall_handle
        if one.is_half:
            place = stored.physical_offsets[number]
            entry.transaction_id = transaction_id.encode(record.unique_key, offset, place)
            if isinstance(record, NewHalf):
                self._recent.add(record, offset, place, stored.stored_at_ms)


def _check_types(topic: TopicConfig, given: Sequence[CheckedMessage]) -> None:
    """Refuse messages of a kind that their topic does not take. Raises Declined."""
    accepted = accepted_types(topic)
    for one in given:
        if one.type not in accepted:
            expected = " or ".join(kind.name for kind in accepted)
            raise Declined(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"message type not match, topic accept type: {expected}, "
                f"message type: {one.type.name}",
            )


def _answer(
    single: Sequence[tuple[SendCall, bytes]], parts: Sequence[tuple[_Asked, SendResultEntry]]
) -> None:
    """Send the answers, those of a connection with one write."""
    ready: defaultdict[Peer, list[Buffer]] = defaultdict(list)
    for call, data in single:
        ready[call.peer] += call.encoded(data)
    for one, entry in parts:
        answer = one.pending.note(one.number, entry)
        if answer is not None:
            call = one.pending.call
            ready[call.peer] += call.encoded(answer.SerializeToString())
    for peer, buffers in ready.items():
        if buffers:
            peer.send_now([b"".join(buffers)])
