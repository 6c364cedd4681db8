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
from typing import Final, TypeAlias

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
from sprocket.rocketmq.codec.grpc.checks import MessageLimits, check_body, check_topic
from sprocket.rocketmq.codec.grpc.message_in import CheckedMessage, MessageType
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
TOPICS_REMEMBERED: Final = 1_024
"""Topics of which it is known what they take; when there are more, all are forgotten."""


class _Pending(Struct, eq=False):
    """A call whose messages are on their way; gets what became of each.

    Attributes:
        entries: What became of each; None while that is not known.
        left: Of how many it is not.
    """

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
    """A message that is to be taken up with others, and whose it is.

    Attributes:
        call: The call that brought it.
        pending: Knows of the others of that call; None if there are none.
        part: Which of them it is.
    """

    call: SendCall
    pending: _Pending | None = None
    part: int = 0

    def note(self, entry: SendResultEntry) -> SendMessageResponse | None:
        """Note what became of it; return the answer to its call once that is known of all."""
        return response_of([entry]) if self.pending is None else self.pending.note(self.part, entry)


_Asked: TypeAlias = tuple[_Sent, NewRecord, bool, str]
"""Who waits for a record, and what they are told beside where it lies: whether it is a half
message, and its recall handle."""


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
        self._taking: dict[str, TopicConfig] = {}
        """Topics that took a plain message, by name; one that is another object is looked at."""

    def send(self, call: SendCall) -> None:
        """Store what a call carries. Raises Declined, Refused, DiskBusy."""
        if self._durable.pressure.is_full:
            raise busy()
        request = call.request
        if isinstance(request, PlainSend):
            self._send_plain(call, request)
            return
        checked = self._checked(call, request)
        first = checked[0]
        topic = self._topic(first.topic)
        for one in checked:
            _check_type(topic, one.type)
        queue_id = self._queue_of(topic, first.group)
        address = call.peer.address
        pending = None
        if len(checked) > 1:
            pending = _Pending([None] * len(checked), len(checked))
        if not self._sends:
            self._durable.enqueue(self)
        for number, one in enumerate(checked):
            said = one.produced(queue_id)
            self._sends.append(_Sent(said, one.body, address, call, pending, number))

    def _send_plain(self, call: SendCall, request: PlainSend) -> None:
        """Store the message of a plain request. Raises Declined, Refused.

        Where the same topic took one before, as it is now, only its body is looked at.
        """
        name, body = call.name(request.topic), request.body
        topic = self._topics.find(name)
        if topic is None or topic is not self._taking.get(name):
            check_topic(name)
            check_body(len(body), self._limits)
            topic = self._topic(name)
            _check_type(topic, MessageType.NORMAL)
            _check_writable(topic)
            if len(self._taking) >= TOPICS_REMEMBERED:
                self._taking.clear()
            self._taking[name] = topic
        elif len(body) > self._limits.body_bytes_max or not body:
            check_body(len(body), self._limits)
        queue_id = next(self._turns) % topic.write_queues
        address = call.peer.address
        if not self._sends:
            self._durable.enqueue(self)
        said = message_in.produced_plain(request, name, queue_id, address)
        self._sends.append(_Sent(said, body, address, call))

    def _checked(self, call: SendCall, request: SendMessageRequest) -> Sequence[CheckedMessage]:
        """Return what a call carries, of one topic. Raises Declined."""
        given = [*request.messages]
        if not given:
            raise Declined(Code.MESSAGE_CORRUPTED, "no message to send")
        if len(given) > MESSAGES_MAX:
            raise Declined(Code.MESSAGE_CORRUPTED, f"{len(given)} messages, {MESSAGES_MAX} may be")
        name = call.name(given[0].topic)
        if len(given) > 1 and any(call.name(one.topic) != name for one in given):
            raise Declined(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        check_topic(name)
        return [message_in.checked(one, name, call.address, self._limits) for one in given]

    def _topic(self, name: str) -> TopicConfig:
        """Return a topic. Raises Refused: there is none."""
        topic = self._topics.find(name)
        if topic is None:
            raise Refused(
                Refusal.NO_TOPIC, f"No topic route info in name server for the topic: {name}"
            )
        return topic

    def _queue_of(self, topic: TopicConfig, group: str) -> int:
        """Return the queue of the messages of a call: that of their group, or each in turn."""
        _check_writable(topic)
        if group:
            # Also of several, whose order is to be kept; the proxy then takes any queue.
            return jump_hash(hash32(group), topic.write_queues)
        return next(self._turns) % topic.write_queues

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
            asked.append((send, made, is_half, handle))
        for send, error in refused:
            answer = send.note(SendResultEntry(status=status_of(error)))
            if answer is not None:
                send.call.answer(answer)
        if records:
            self._durable.append(records, self._stored, asked)

    def _stored(
        self, asked: Sequence[_Asked], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Prepare the answers, or say why nothing is stored."""
        why = OK if error is None else store_status(error)
        single: list[tuple[SendCall, bytes]] = []
        parts: list[tuple[_Sent, SendResultEntry]] = []
        offsets = () if stored is None or error is not None else stored.queue_offsets
        encode = quick_answers.sent
        for number, one in enumerate(asked):
            send, record, is_half, handle = one
            if send.pending is None and offsets and not is_half and not handle:
                single.append((send.call, encode(record.unique_key, offsets[number])))
                continue
            entry = SendResultEntry(status=why)
            if stored is not None:
                self._fill(entry, one, stored, number)
            if send.pending is None:
                data = SendMessageResponse(status=why, entries=[entry]).SerializeToString()
                single.append((send.call, data))
            else:
                parts.append((send, entry))
        return partial(_answer, single, parts)

    def _fill(
        self, entry: SendResultEntry, one: _Asked, stored: AppendedBatch, number: int
    ) -> None:
        """Say where a message lies, and by what it can be ended or taken back."""
        (_, record, is_half, handle), offset = one, stored.queue_offsets[number]
        entry.message_id = record.unique_key
        entry.offset = offset
        if handle:
            entry.recall_handle = handle
        if is_half:
            place = stored.physical_offsets[number]
            entry.transaction_id = transaction_id.encode(record.unique_key, offset, place)
            if isinstance(record, NewHalf):
                self._recent.add(record, offset, place, stored.stored_at_ms)


def _check_type(topic: TopicConfig, given: MessageType) -> None:
    """Refuse a message of a kind that its topic does not take. Raises Declined."""
    accepted = accepted_types(topic)
    if given not in accepted:
        expected = " or ".join(kind.name for kind in accepted)
        raise Declined(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"message type not match, topic accept type: {expected}, message type: {given.name}",
        )


def _check_writable(topic: TopicConfig) -> None:
    """Refuse to send to a topic without a queue for it. Raises Declined."""
    if topic.write_queues <= 0 or not topic.perm & WRITE:
        raise Declined(Code.FORBIDDEN, "no writable queue")


def _answer(
    single: Sequence[tuple[SendCall, bytes]], parts: Sequence[tuple[_Sent, SendResultEntry]]
) -> None:
    """Send the answers, those of a connection with one write."""
    ready: defaultdict[Peer, list[Buffer]] = defaultdict(list)
    for call, data in single:
        ready[call.peer] += call.encoded(data)
    for send, entry in parts:
        answer = send.note(entry)
        if answer is not None:
            ready[send.call.peer] += send.call.encoded(answer.SerializeToString())
    for peer, buffers in ready.items():
        if buffers:
            peer.send_now([b"".join(buffers)])
