"""Receives: messages that are there, or that come while the client waits.

    pop ── found ── filtered once more ── status, messages, time
     ↘ nothing ── waits (`broker.pop.PopHold`) ── pop once more, or its time is over

Whatever queue a client names, it gets messages of all: consumers of a group share them by asking.

Source: RocketMQ `ReceiveMessageActivity`, `ReceiveMessageResponseStreamWriter`,
`ConsumerProcessor`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct, structs

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import SprocketError, WireError
from sprocket.rocketmq.broker.filters import FilterTurns, TurnSpent
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.broker.pop import HeldPop, PopHold, PopOutcome, Popped, PopService
from sprocket.rocketmq.codec.grpc import client_settings, message_out, receipt_handle
from sprocket.rocketmq.codec.grpc.checks import check_group, check_invisible, check_topic
from sprocket.rocketmq.codec.grpc.messages import (
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from sprocket.rocketmq.codec.grpc.receipt_handle import Receipt
from sprocket.rocketmq.codec.grpc.resource_names import resource
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.grpc.times import ms_of, timestamp
from sprocket.rocketmq.codec.record import batch, record
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.pop import PopHandle, PopQuery
from sprocket.rocketmq.server.grpc.calls import CLIENT_VERSION, OK, ClientCall, status
from sprocket.rocketmq.server.grpc.popped import PoppedMessages
from sprocket.rocketmq.server.grpc.renewals import FIRST_MS, Renewals
from sprocket.rocketmq.server.grpc.routes import WHOLE_BROKER
from sprocket.rocketmq.server.grpc.sessions import Sessions, subscription
from sprocket.rocketmq.settings import GrpcSettings
from sprocket.runtime.cold_reads import ColdReads

ReceiveCall = ClientCall[ReceiveMessageRequest, ReceiveMessageResponse]

REQUEST_MS: Final = 3_000
"""How long clients give a call beside what they let it wait; what all SDKs have by default."""
RESERVE_MS: Final = 100
"""So much earlier a call that waits is answered."""
FROM_LAST: Final = 1
"""Where a new group begins."""
POLLING_CODE_SINCE: Final = "5.0.3"
"""Clients of this version know ILLEGAL_POLLING_TIME; the proxy compares them as texts."""

_log = log.get_limited_logger(__name__)


class _Wanted(Struct, frozen=True):
    """One receive.

    Attributes:
        query: The pop that it is.
        begun: When it came, on the monotonic clock.
        group: The settings of its group.
        is_renewed: Whether the broker keeps its messages invisible.
    """

    query: PopQuery
    begun: float
    group: SubscriptionGroup
    is_renewed: bool


@dataclass(frozen=True, slots=True)
class ReceiveHandlers:
    """Gives messages to consumers."""

    _pops: PopService
    _hold: PopHold
    _reads: ColdReads
    _turns: FilterTurns
    _popped: PoppedMessages
    _renewals: Renewals
    _sessions: Sessions
    _groups: Groups
    _clock: Clock
    _settings: GrpcSettings

    def receive(self, call: ReceiveCall) -> None:
        """Answer with messages, or wait for one. Raises Declined."""
        self._sessions.heard_of(call.client_id)
        self._begin(call, self._wanted(call))

    def _wanted(self, call: ReceiveCall) -> _Wanted:
        request, settings = call.request, self._settings
        topic, group_name = call.name(request.message_queue.topic), call.name(request.group)
        check_topic(topic)
        check_group(group_name)
        group = self._groups.settings_of(group_name)
        invisible_ms = FIRST_MS
        if not request.auto_renew:
            invisible_ms = ms_of(request.invisible_duration)
            check_invisible(invisible_ms, settings.invisible_ms_min)
        kind = subscription(topic, request.filter_expression, 0)
        query = PopQuery(
            consumer_group=group_name,
            topic=topic,
            queue_id=WHOLE_BROKER,
            max_msg_nums=min(max(1, request.batch_size), client_settings.RECEIVE_BATCH),
            invisible_time=invisible_ms,
            poll_time=max(0, polling_ms(call, settings) - RESERVE_MS),
            born_time=0,
            init_mode=FROM_LAST,
            exp_type=kind.type,
            exp=kind.expression,
            order=group.consume_message_orderly,
            attempt_id=request.attempt_id or None,
        )
        return _Wanted(query, self._clock.monotonic(), group, request.auto_renew)

    def _begin(self, call: ReceiveCall, wanted: _Wanted) -> None:
        self._reads.run(partial(self._pop, call, wanted), call.fail)

    def _begin_again(self, call: ReceiveCall, wanted: _Wanted) -> None:
        """Pop once more, in a turn in which nobody else answers what goes wrong."""
        if not call.is_open:
            return
        try:
            self._begin(call, wanted)
        except Exception as error:  # its client is told
            call.fail(error)

    def _pop(self, call: ReceiveCall, wanted: _Wanted) -> None:
        age_ms = int((self._clock.monotonic() - wanted.begun) * 1000)
        try:
            popped = self._pops.pop(wanted.query, age_ms)
        except TurnSpent:
            self._turns.later(partial(self._begin_again, call, wanted))
            return
        if popped.outcome is PopOutcome.FOUND:
            self._found(call, wanted, popped)
        elif popped.outcome is PopOutcome.TOO_LATE:
            self._nothing(call)
        else:
            self._wait(call, wanted, popped, wanted.query.poll_time - age_ms)

    def _wait(self, call: ReceiveCall, wanted: _Wanted, popped: Popped, left_ms: int) -> None:
        """Let a receive wait that found nothing, if it may."""
        query = wanted.query

        def again(is_over: bool) -> None:
            call.on_left = None
            if is_over:
                self._nothing(call)
            else:
                self._begin_again(call, wanted)

        held = HeldPop(
            call, query.topic, query.consumer_group, query.queue_id, popped.wanted, again
        )
        if left_ms <= 0:
            self._nothing(call)
        elif self._hold.hold(held, left_ms / 1000):
            call.on_left = partial(self._hold.drop, call)
        else:
            call.give_all(self._answers(status(Code.TOO_MANY_REQUESTS, "polling full")))

    def _nothing(self, call: ReceiveCall) -> None:
        call.give_all(self._answers(status(Code.MESSAGE_NOT_FOUND, "no new message")))

    def _found(self, call: ReceiveCall, wanted: _Wanted, popped: Popped) -> None:
        """Answer with what is left of a pop after all filters."""
        query = wanted.query
        topic, group = query.topic, query.consumer_group
        tags = subscription(topic, call.request.filter_expression, 0).filter
        attempts_max = client_settings.attempts_max(wanted.group)
        told = resource(topic)
        kept: list[tuple[str, Receipt, bytes]] = []
        for stored, receipt in self._messages(popped, query.invisible_time):
            if tags is not None and stored.tags not in tags.tags:
                self._settle_quietly(receipt, topic, group)
            elif stored.reconsume_times >= attempts_max:
                self._popped.give_up_quietly(receipt, topic, group)
            else:
                text = receipt_handle.encode(receipt)
                made = message_out.received(stored, told, text, query.invisible_time)
                kept.append((text, receipt, made))
        if not kept:
            call.give_all(self._answers(status(Code.MESSAGE_NOT_FOUND, "no match message")))
            return
        if wanted.is_renewed and self._sessions.is_there(call.client_id):
            for text, receipt, _ in kept:
                self._renewals.add(call.client_id, text, receipt, topic, group)
        first, last = [one.SerializeToString() for one in self._answers(OK)]
        call.answer_encoded(first, *[made for _, _, made in kept], last)

    def _messages(self, popped: Popped, invisible_ms: int) -> list[tuple[StoredMessage, Receipt]]:
        """Return the messages of a pop, each with its receipt; those of a batch have one."""
        found: list[tuple[StoredMessage, Receipt]] = []
        for part in popped.parts:
            for run in part.runs:
                for whole in _readable(run, part.counts):
                    handle = PopHandle(
                        part.start,
                        popped.popped_at_ms,
                        invisible_ms,
                        popped.revive_queue,
                        part.topic,
                        self._popped.broker_name,
                        part.key.queue_id,
                        whole.queue_offset,
                    )
                    receipt = Receipt(handle, whole.queue_offset, whole.physical_offset)
                    found += [(one, receipt) for one in batch.unwrapped(whole)]
        return found

    def _settle_quietly(self, receipt: Receipt, topic: str, group: str) -> None:
        try:
            self._popped.settle(receipt, topic, group)
        except SprocketError as error:
            _log.info("a message that nobody wants comes again", topic=topic, why=str(error))

    def _answers(self, said: Status) -> Sequence[ReceiveMessageResponse]:
        return answers(said, self._clock.now_ms)


def answers(said: Status, now_ms: Callable[[], int]) -> Sequence[ReceiveMessageResponse]:
    """Return what a receive is answered beside messages, which come between: status and time.

    The SDK for Python takes nothing of an answer without the time.
    """
    return [
        ReceiveMessageResponse(status=said),
        ReceiveMessageResponse(delivery_timestamp=timestamp(now_ms())),
    ]


def polling_ms(call: ReceiveCall, settings: GrpcSettings) -> int:
    """Return how long a receive may wait for a message.

    Raises:
        Declined: Its client gives it less time than the least that there is.
    """
    request = call.request
    left_ms = None if call.timeout_seconds is None else int(call.timeout_seconds * 1000)
    if request.HasField("long_polling_timeout"):
        asked_ms = ms_of(request.long_polling_timeout)
    else:
        asked_ms = settings.poll_ms_max if left_ms is None else left_ms - REQUEST_MS // 2
    asked_ms = max(settings.poll_ms_min, min(asked_ms, settings.poll_ms_max))
    if left_ms is None or asked_ms <= left_ms:
        return asked_ms
    if left_ms >= settings.poll_ms_min:
        return left_ms
    is_known = call.metadata.get(CLIENT_VERSION, "") >= POLLING_CODE_SINCE
    raise Declined(
        Code.ILLEGAL_POLLING_TIME if is_known else Code.BAD_REQUEST,
        "The deadline time remaining is not enough for polling, please check network condition",
    )


def _readable(run: memoryview, counts: Mapping[int, int] | None) -> list[StoredMessage]:
    """Return the messages of stored bytes, none if they cannot be read.

    Args:
        run: Whole records.
        counts: Of messages in order, how often they came before, which their records do not say.
    """
    try:
        found = record.decode_all(run)
    except WireError as error:
        _log.error("messages cannot be read, and come again", why=str(error))
        return []
    if counts is None:
        return found
    return [structs.replace(one, reconsume_times=counts.get(one.queue_offset, 0)) for one in found]
