"""Send requests, and what their answers mean for the messages in them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.base.errors import BrokerRefused, ClientError, RequestTimeout, WireError
from sprocket.rocketmq.client.producer.outgoing import Outgoing, SendResult, SendStatus
from sprocket.rocketmq.client.producer.send_traces import SendTraces
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import SendMessageAnswer, SendMessageV2
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.internal import TEMPLATE_TOPIC
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.remoting import Channel

Answered = Callable[[list[Outgoing], Command | None, ClientError | None], None]

_BUSY = frozenset((ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY))
"""Refusals of a send that pass by themselves; only its deadline ends the tries."""
_MAY_PASS = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    )
)
"""The other codes for which RocketMQ's producer tries again, `tries_when_refused` times in all."""
_REFUSED_S = 0.1
"""Before a refused message goes out again."""
_STATUS = {int(status): status for status in SendStatus}


class Again(Struct, frozen=True):
    """Messages that have to go out once more, in their order, after a pause."""

    messages: list[Outgoing]
    pause_s: float


_NOTHING_AGAIN = Again([], 0.0)


class SendRequests:
    """Writes send requests and completes them by their answers; shared by the lanes of a producer.

    `ended` is called with each message after its sender was told the outcome; `traces` notes it.
    """

    def __init__(
        self,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        ended: Callable[[Outgoing], None],
        traces: SendTraces | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._group = group
        self._ended = ended
        self.traces = traces
        self._closed_by: ClientError | None = None

    def close(self, error: ClientError) -> None:
        """From now on, end with `error` whatever would have to be sent again."""
        self._closed_by = error

    def send(
        self, channel: Channel, queue: MessageQueue, sent: list[Outgoing], answered: Answered
    ) -> None:
        """Put one request on the wire; `answered(sent, command, error)` is called exactly once."""
        now = self.clock.monotonic()
        last = now
        for one in sent:
            one.tries += 1
            one.last_broker = queue.broker_name
            one.queue = queue
            one.sent_at = now
            last = max(last, one.deadline)
        opaque = channel.next_opaque()
        deadline = min(last, now + self.settings.try_timeout_ms / 1000)
        frame = self._frame(channel, queue, sent, opaque, False)
        channel.send(frame, opaque, deadline, answered, sent)

    def send_oneway(self, channel: Channel, queue: MessageQueue, sent: Outgoing) -> None:
        """Put one message on the wire that nobody answers."""
        channel.write(self._frame(channel, queue, [sent], channel.next_opaque(), True))

    def _frame(
        self,
        channel: Channel,
        queue: MessageQueue,
        sent: Sequence[Outgoing],
        opaque: int,
        oneway: bool,
    ) -> list[Buffer]:
        first = sent[0]
        is_batch = first.is_batch or len(sent) > 1
        body = first.body
        if len(sent) > 1:
            body = batch.join([(one.flag, one.body, one.properties) for one in sent])
        header = SendMessageV2(
            producer_group=self._group,
            topic=first.topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=self.settings.topic_queues,
            queue_id=queue.queue_id,
            sys_flag=0 if is_batch else first.sys_flag,
            born_timestamp=first.born_at_ms,
            flag=0 if is_batch else first.flag,
            properties="" if is_batch else first.properties.decode(),
            batch=is_batch,
        )
        code = RequestCode.SEND_MESSAGE_V2
        if is_batch:
            code = RequestCode.SEND_BATCH_MESSAGE
        elif first.is_reply:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
        return channel.make_request(code, opaque, header, body, oneway=oneway)

    @staticmethod
    def is_stored(command: Command) -> bool:
        """Whether an answer says that the message is stored, however safely."""
        return command.code in _STATUS

    def complete(
        self,
        queue: MessageQueue,
        sent: list[Outgoing],
        command: Command | None,
        error: ClientError | None,
        *,
        is_ordered: bool = True,
    ) -> Again:
        """Tell the senders of one request what is decided; return what must go out again.

        There is an answer, or the error says why none came. Ordered messages stay in their queue.
        """
        if command is not None:
            if command.code in _STATUS:
                try:
                    return self._stored(queue, sent, command, is_ordered)
                except WireError as wrong:
                    error = BrokerRefused(command.code, f"unreadable answer to a send: {wrong}")
            else:
                error = BrokerRefused(command.code, _describe(command, queue))
        assert error is not None, "an answer or an error"
        if self._closed_by is not None:
            for one in sent:
                self.fail(one, self._closed_by)
            return _NOTHING_AGAIN
        for one in sent:
            one.error = str(error)
        if isinstance(error, BrokerRefused):
            return self._refused(sent, error)
        return Again(self.unexpired(sent), 0.0)

    def _refused(self, sent: list[Outgoing], error: BrokerRefused) -> Again:
        if error.code in _BUSY:
            return Again(self.unexpired(sent), _REFUSED_S)
        if len(sent) > 1 and error.code != ResponseCode.SERVICE_NOT_AVAILABLE:
            for one in sent:
                one.is_alone = True
            return Again(sent, 0.0)
        left = []
        for one in sent:
            one.refusals += 1
            if error.code in _MAY_PASS and one.refusals < self.settings.tries_when_refused:
                left.append(one)
            else:
                self.fail(one, error)
        return Again(self.unexpired(left), _REFUSED_S) if left else _NOTHING_AGAIN

    def _stored(
        self, queue: MessageQueue, sent: list[Outgoing], command: Command, is_ordered: bool
    ) -> Again:
        header = command.header(SendMessageAnswer)
        status = _STATUS[command.code]
        if len(sent) == 1 and not sent[0].is_batch:
            one = sent[0]
            result = SendResult(
                one.ids[0],
                header.msg_id,
                queue,
                header.queue_offset,
                status,
                header.recall_handle,
            )
            if not (status is SendStatus.OK or is_ordered) and self._is_worth_another_try(one):
                one.stored = result
                return Again(sent, 0.0)
            if self.traces is not None:
                self.traces.stored(one, [result], header.region)
            self.succeed(one, result)
            return _NOTHING_AGAIN
        ids = header.msg_id.split(",")
        offset = header.queue_offset
        place = 0
        for one in sent:
            results = []
            for unique_key in one.ids:
                offset_id = ids[place] if place < len(ids) else ids[0]
                results.append(SendResult(unique_key, offset_id, queue, offset + place, status))
                place += 1
            if self.traces is not None:
                self.traces.stored(one, results, header.region)
            self.succeed(one, results if one.is_batch else results[0])
        return _NOTHING_AGAIN

    def _is_worth_another_try(self, one: Outgoing) -> bool:
        return (
            self.settings.retry_when_not_ok
            and self._closed_by is None
            and one.tries < self.settings.tries_when_refused
            and one.deadline > self.clock.monotonic()
        )

    def succeed(self, one: Outgoing, result: SendResult | list[SendResult]) -> None:
        """Tell the sender that the broker has stored its message."""
        reply = cast("asyncio.Future[object]", one.reply)
        if not reply.done():
            reply.set_result(result)
        self._ended(one)

    def fail(self, one: Outgoing, error: ClientError) -> None:
        """Tell the sender that its message was given up, or what an earlier try brought."""
        if self.traces is not None:
            self.traces.given_up(one)
        if one.stored is not None:
            self.succeed(one, one.stored)
            return
        reply = cast("asyncio.Future[object]", one.reply)
        if not reply.done():
            reply.set_exception(error)
        self._ended(one)

    def unexpired(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Fail the messages whose deadline has passed, and return the others."""
        now = self.clock.monotonic()
        rest = []
        for one in messages:
            if one.deadline > now:
                rest.append(one)
            else:
                self.fail(one, self._too_late(one))
        return rest

    def _too_late(self, one: Outgoing) -> RequestTimeout:
        if one.tries:
            tries = "1 try" if one.tries == 1 else f"{one.tries} tries"
            outcome = f"was not acknowledged in time after {tries}"
            outcome += f"; the last failed with: {one.error}. It may have been stored"
        else:
            outcome = f"could not be sent in time: {one.error or 'earlier messages still wait'}"
        return RequestTimeout(
            f"message {one.ids[0]} to topic {one.topic} {outcome}. Give the send a longer"
            " timeout_ms if the broker may be away for longer"
        )


def _describe(command: Command, queue: MessageQueue) -> str:
    remark = command.remark or "no reason given"
    return f"{queue.broker_name} refused a message for {queue.topic}: {remark}"
