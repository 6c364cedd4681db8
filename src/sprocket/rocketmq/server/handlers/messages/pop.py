"""Requests of consumers that pop: 200050 to 200055, and 200151.

    pop → found → handles are made by the client of what the answer says
        ↘ nothing → waits (`broker.pop.PopHold`) → pop once more, or its time is over
    acknowledge, or change when it comes again → written down → answer

Source: RocketMQ `PopMessageProcessor`, `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`,
`PeekMessageProcessor`, `NotificationProcessor`, `PollingInfoProcessor`.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.broker.filters import FilterTurns, TurnSpent
from sprocket.rocketmq.broker.messages import copy_of
from sprocket.rocketmq.broker.pop import (
    ALL_QUEUES,
    COUNT_MAX,
    AckOutcome,
    HeldPop,
    PopHold,
    PopOutcome,
    Popped,
    PoppedPart,
    PoppedQueue,
    PopService,
    retry_topics,
)
from sprocket.rocketmq.codec import bodies, pop_info
from sprocket.rocketmq.codec.bodies import BatchAck, BatchAckEntry
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode, ResponseCode
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeAnswer,
    NoFields,
    Notification,
    NotificationAnswer,
    PeekMessage,
    PollingInfo,
    PollingInfoAnswer,
    PopMessage,
    PopMessageAnswer,
)
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.pop import PopHandle, PopTopic
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

FOUND = "FOUND"
NOTHING = "NO_MESSAGE_IN_QUEUE"
_TIME_MAX_MS = (1 << 63) - 1
"""Remarks of answers that RocketMQ gives, too."""

Kept = Callable[[StoreError | None], None]
Keep = Callable[[bool, Kept], None]
"""Calls back when what was noted is as safe as the flush mode asks; told whether it is in order."""


@dataclass(frozen=True, slots=True)
class PopHandlers:
    """Pops, and what becomes of what was popped.

    `_watch` is told of connections whose pops wait; `_broker` is the name in handles.
    """

    _pops: PopService
    _hold: PopHold
    _reads: ColdReads
    _turns: FilterTurns
    _keep: Keep
    _now_ms: Callable[[], int]
    _watch: Callable[[Peer], None]
    _broker: str

    def rows(self) -> list[Row]:
        """Return the table."""
        reads = self._reads
        return [
            row(RequestCode.POP_MESSAGE, PopMessage, self.pop),
            row(RequestCode.ACK_MESSAGE, AckMessage, self.acknowledge),
            row(RequestCode.BATCH_ACK_MESSAGE, NoFields, self.acknowledge_all),
            row(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ChangeInvisibleTime, self.change),
            row(RequestCode.PEEK_MESSAGE, PeekMessage, self.peek, reads),
            row(RequestCode.NOTIFICATION, Notification, self.notify, reads),
            row(RequestCode.POLLING_INFO, PollingInfo, self.polling),
        ]

    def pop(self, request: Request, header: PopMessage) -> None:
        """Answer with messages, or wait for one."""
        born_at_ms = header.born_time if header.born_time > 0 else self._now_ms()
        self._begin(request, header, born_at_ms)

    def _begin(self, request: Request, header: PopMessage, born_at_ms: int) -> None:
        self._reads.run(partial(self._pop, request, header, born_at_ms), request.fail)

    def _pop(self, request: Request, header: PopMessage, born_at_ms: int) -> None:
        try:
            popped = self._pops.pop(header, self._now_ms() - born_at_ms)
        except TurnSpent:
            self._turns.later(partial(self._begin, request, header, born_at_ms))
            return
        if popped.outcome is PopOutcome.FOUND:
            request.answer(_found(popped, header, self._broker))
        elif popped.outcome is PopOutcome.TOO_LATE:
            late = Answer(ResponseCode.POLLING_TIMEOUT, PopMessageAnswer(), "it comes too late")
            request.answer(late)
        else:
            self._wait(request, header, born_at_ms, popped)

    def _wait(self, request: Request, header: PopMessage, born_at_ms: int, popped: Popped) -> None:
        """Let a pop wait that found nothing, if it may."""
        left_ms = self._left_ms(header.poll_time, born_at_ms)
        if left_ms <= 0:
            request.answer(_nothing(ResponseCode.POLLING_TIMEOUT, popped, header))
            return

        def again(is_over: bool) -> None:
            if is_over:
                request.answer(_nothing(ResponseCode.POLLING_TIMEOUT, popped, header))
            else:
                self._begin(request, header, born_at_ms)

        held = HeldPop(
            request.peer,
            header.topic,
            header.consumer_group,
            max(ALL_QUEUES, header.queue_id),
            popped.wanted,
            again,
        )
        if self._hold.hold(held, left_ms / 1000):
            self._watch(request.peer)
        else:
            request.answer(_nothing(ResponseCode.POLLING_FULL, popped, header))

    def _left_ms(self, poll_ms: int, born_at_ms: int) -> int:
        """Return how long a request may wait: no longer than it asks for, whatever clocks say.

        One whose time is over after all of time is answered at once, as RocketMQ does.
        """
        ends_at_ms = born_at_ms + poll_ms
        return 0 if ends_at_ms > _TIME_MAX_MS else min(poll_ms, ends_at_ms - self._now_ms())

    def acknowledge(self, request: Request, header: AckMessage) -> None:
        """Note that a message was consumed."""
        key = PoppedQueue(header.topic, header.consumer_group, header.queue_id)
        low, high = self._pops.range_of(key)
        if not low <= header.offset <= high:
            request.answer(_outside(header.offset, key))
            return
        handle = _handle(header.extra_info)
        self._settle(key, handle, header.offset)
        self._keep(handle.is_ordered, request.done)

    def acknowledge_all(self, request: Request, _: NoFields) -> None:
        """Note that several messages were consumed; entries of topics that are gone do nothing."""
        asked = bodies.decode_request(BatchAck, request.body) if request.body else BatchAck()
        if not asked.acks:
            request.answer(Answer(ResponseCode.NO_MESSAGE))
            return
        handles = [_handle_of(entry, asked.broker_name) for entry in asked.acks]
        refused: Refused | None = None
        for entry, handle in zip(asked.acks, handles, strict=True):
            names = dict(retry_topics(entry.topic, entry.group))
            key = PoppedQueue(names.get(handle.topic, entry.topic), entry.group, entry.queue_id)
            try:
                low, high = self._pops.range_of(key)
            except Refused:
                continue
            for offset in _offsets(entry):
                if low <= offset <= high:
                    try:
                        self._settle(key, handle, offset)
                    except Refused as error:
                        refused = refused or error
        if refused is not None:
            raise refused
        self._keep(any(handle.is_ordered for handle in handles), request.done)

    def _settle(self, key: PoppedQueue, handle: PopHandle, offset: int) -> None:
        """Settle a message, and wake who waits for those behind it."""
        if self._pops.acknowledge(key, handle, offset) is AckOutcome.FREE:
            self._hold.wake(key.topic, key.group, key.queue_id)

    def change(self, request: Request, header: ChangeInvisibleTime) -> None:
        """Have a message come again at another time."""
        key = PoppedQueue(header.topic, header.consumer_group, header.queue_id)
        low, high = self._pops.range_of(key)
        if not low <= header.offset < high:
            request.answer(_outside(header.offset, key, ChangeInvisibleTimeAnswer()))
            return
        handle = _handle(header.extra_info)
        changed = self._pops.change_invisible(key, handle, header.offset, header.invisible_time)
        answer = ChangeInvisibleTimeAnswer(
            pop_time=changed.popped_at_ms,
            invisible_time=changed.invisible_ms,
            revive_qid=changed.revive_queue,
        )
        what = Answer(header=answer, remark=NOT_SET)
        self._keep(handle.is_ordered, partial(request.done, what=what))

    def peek(self, request: Request, header: PeekMessage) -> None:
        """Show messages that are there to be popped."""
        popped = self._pops.peek(_query(header, header.max_msg_nums))
        answer = PopMessageAnswer(rest_num=popped.rest)
        if popped.outcome is PopOutcome.FOUND:
            runs = [run for part in popped.parts for run in part.runs]
            request.answer(Answer(ResponseCode.SUCCESS, answer, FOUND, runs))
        else:
            request.answer(Answer(ResponseCode.PULL_NOT_FOUND, answer, NOTHING))

    def notify(self, request: Request, header: Notification) -> None:
        """Tell when there is a message to pop."""
        query = _query(header, 1, header.order, header.attempt_id)
        if self._pops.has_message(query):
            request.answer(Answer(header=NotificationAnswer(has_msg=True), remark=NOT_SET))
            return
        born_at_ms = header.born_time if header.born_time > 0 else self._now_ms()
        left_ms = self._left_ms(header.poll_time, born_at_ms)

        def woken(is_over: bool) -> None:
            request.answer(Answer(header=NotificationAnswer(has_msg=not is_over), remark=NOT_SET))

        held = HeldPop(
            request.peer,
            header.topic,
            header.consumer_group,
            max(ALL_QUEUES, header.queue_id),
            None,
            woken,
            is_sign=True,
        )
        if left_ms <= 0:
            woken(True)
        elif self._hold.hold(held, left_ms / 1000):
            self._watch(request.peer)
        else:
            answer = NotificationAnswer(has_msg=False, polling_full=True)
            request.answer(Answer(header=answer, remark=NOT_SET))

    def polling(self, request: Request, header: PollingInfo) -> None:
        """Tell how many pops wait."""
        self._pops.check(_query(header, 0))
        count = self._hold.count_of(header.topic, header.consumer_group, header.queue_id)
        request.answer(Answer(header=PollingInfoAnswer(polling_num=count), remark=NOT_SET))


def _query(
    header: PollingInfo, count: int, order: bool | None = None, attempt_id: str | None = None
) -> PopMessage:
    """Return the pop that would get what is asked about."""
    return PopMessage(
        consumer_group=header.consumer_group,
        topic=header.topic,
        queue_id=header.queue_id,
        max_msg_nums=count,
        invisible_time=0,
        poll_time=0,
        born_time=0,
        init_mode=0,
        order=order,
        attempt_id=attempt_id,
    )


def _octets(text: str) -> bytes:
    """Return what a text in Base64 stands for. Raises Refused."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Refused(Refusal.OTHER, f"acknowledgements are not in Base64: {error}") from error


def _handle(text: str) -> PopHandle:
    """Return the handle that a request brings.

    Raises:
        Refused: OTHER; it is none.
    """
    try:
        return pop_info.read_handle(text)
    except WireError as error:
        raise Refused(Refusal.OTHER, str(error)) from error


def _handle_of(entry: BatchAckEntry, broker: str) -> PopHandle:
    """Return the handle of the pop whose messages an entry of a batch names."""
    return PopHandle(
        entry.start,
        entry.popped_at_ms,
        entry.invisible_ms,
        entry.revive_queue,
        PopTopic(int(entry.retry)) if entry.retry in ("0", "1", "2") else PopTopic.NORMAL,
        broker,
        entry.queue_id,
    )


def _offsets(entry: BatchAckEntry) -> Iterator[int]:
    """Give the queue offsets that an entry of a batch names: a bit for each from its start on."""
    bits = int.from_bytes(_octets(entry.bits), "little")
    if bits.bit_count() > COUNT_MAX:
        raise Refused(
            Refusal.OTHER, f"{bits.bit_count()} messages of a pop, which has {COUNT_MAX} at most"
        )
    while bits:
        lowest = bits & -bits
        yield entry.start + lowest.bit_length() - 1
        bits ^= lowest


def _found(popped: Popped, query: PopMessage, broker: str) -> Answer:
    runs: list[Buffer] = []
    for part in popped.parts:
        if part.key.topic == query.topic:
            runs += part.runs
        else:
            runs += _as_of(part, popped, query, broker)
    return Answer(ResponseCode.SUCCESS, _answer(popped, query), FOUND, runs)


def _answer(popped: Popped, query: PopMessage) -> PopMessageAnswer:
    parts = popped.parts
    places = [(part.topic, part.key.queue_id) for part in parts]
    return PopMessageAnswer(
        pop_time=popped.popped_at_ms,
        invisible_time=query.invisible_time,
        revive_qid=popped.revive_queue,
        rest_num=popped.rest,
        start_offset_info=pop_info.starts_text(
            (*place, part.start) for place, part in zip(places, parts, strict=True)
        ),
        msg_offset_info=pop_info.offsets_text(
            (*place, part.offsets) for place, part in zip(places, parts, strict=True)
        ),
        order_count_info=_counts_text(popped) if query.order else None,
    )


def _as_of(part: PoppedPart, popped: Popped, query: PopMessage, broker: str) -> Iterator[bytes]:
    """Give messages that come again as messages of the topic that is popped, with their handles."""
    for message in record.decode_all(b"".join(part.runs)):
        handle = PopHandle(
            part.start,
            popped.popped_at_ms,
            query.invisible_time,
            popped.revive_queue,
            part.topic,
            broker,
            message.queue_id,
            message.queue_offset,
        )
        message.properties.setdefault(properties.POP_CK, pop_info.handle_text(handle))
        yield record.encode(
            copy_of(message, query.topic, message.queue_id, ids.parse_host(message.store_host)),
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            stored_at_ms=message.stored_at_ms,
            crc_tail=False,
        )


def _counts_text(popped: Popped) -> str:
    """Return how often messages came before that are consumed in order."""
    return pop_info.counts_text(
        (part.topic, part.key.queue_id, part.offsets, part.counts or {}) for part in popped.parts
    )


def _nothing(code: ResponseCode, popped: Popped, query: PopMessage) -> Answer:
    """Return the answer to a pop that got nothing, and waits no longer."""
    return Answer(code, _answer(popped, query), NOTHING)


def _outside(offset: int, key: PoppedQueue, header: Header | None = None) -> Answer:
    return Answer(
        ResponseCode.NO_MESSAGE,
        header,
        remark=f"offset {offset} is not in queue {key.queue_id} of topic {key.topic}",
    )
