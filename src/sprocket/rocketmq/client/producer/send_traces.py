"""What a producer notes about its messages: which were stored where, and which were given up."""

import itertools
from collections.abc import Sequence

from sprocket.base.clock import Clock
from sprocket.rocketmq.client.network import Routes
from sprocket.rocketmq.client.producer.outgoing import TIMERS, Outgoing, SendResult, SendStatus
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.client.tracing import TraceWriter
from sprocket.rocketmq.codec.record import batch, properties, recall_handle
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.trace import MessageKind, Produced, Recalled, TransactionEnded
from sprocket.rocketmq.model.transaction import TransactionState

TRACE_SENDS = ProducerSettings(timeout_ms=5_000, unanswered_messages_max=64, telemetry=False)
"""Of the producer that sends traces."""
_NAMES = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
_GROUP_CHARACTERS = 200
_REGION = "DefaultRegion"
_numbers = itertools.count()


def trace_group(group: str, kind: str) -> str:
    """Return the group of the producer that sends the traces of a group."""
    return f"_INNER_TRACE_PRODUCER-{group[:_GROUP_CHARACTERS]}-{kind}-{next(_numbers)}"


class SendTraces:
    """Notes the outcome of each message.

    Args:
        group: The producer's.
        writer: Where it is noted.
        routes: Name the brokers' addresses.
        clock: For the times.

    Threads: event loop only.
    """

    def __init__(
        self, group: str, writer: TraceWriter[SendResult], routes: Routes, clock: Clock
    ) -> None:
        self._group = group
        self.writer = writer
        self._routes = routes
        self._clock = clock

    def stored(self, one: Outgoing, results: Sequence[SendResult], region: str) -> None:
        """Note what a broker said that stored a message, or the parts of a batch."""
        parts = _parts_of(one) if one.is_batch else [(one.body, one.properties)]
        for result, (body, encoded) in zip(results, parts, strict=False):
            self._note(one, result, region, len(body), properties.decode(encoded))

    def given_up(self, one: Outgoing) -> None:
        """Note that nobody has confirmed a message, or a batch."""
        parts = _parts_of(one) if one.is_batch else [(one.body, one.properties)]
        for body, encoded in parts:
            self._note(one, None, _REGION, len(body), properties.decode(encoded))

    def _note(
        self,
        one: Outgoing,
        result: SendResult | None,
        region: str,
        body_bytes: int,
        own: dict[str, str],
    ) -> None:
        keys = own.get(properties.KEYS, "")
        cost_ms = int((self._clock.monotonic() - one.sent_at) * 1000) if one.tries else 0
        record = Produced(
            at_ms=self._clock.now_ms() - cost_ms,
            region=region,
            group=self._group,
            topic=one.topic,
            message_id=own.get(properties.UNIQ_KEY, ""),
            tags=own.get(properties.TAGS, ""),
            keys=keys,
            store_host=self._routes.master_address(one.last_broker) or "",
            body_bytes=body_bytes,
            cost_ms=cost_ms,
            kind=_kind(own),
            offset_message_id="" if result is None else result.offset_message_id,
            is_success=result is not None and result.status is SendStatus.OK,
        )
        self.writer.add(one.topic, record, (record.message_id, *keys.split(" ")))

    def transaction_ended(
        self,
        message: Message | ReceivedMessage,
        message_id: str,
        state: TransactionState,
        *,
        store_host: str,
        was_asked: bool,
    ) -> None:
        """Note what the broker at `store_host` was told of a transaction."""
        record = TransactionEnded(
            at_ms=self._clock.now_ms(),
            region=_REGION,
            group=self._group,
            topic=message.topic,
            message_id=message_id,
            tags=message.tag,
            keys=" ".join(message.keys),
            store_host=store_host,
            transaction_id=message_id,
            state=_NAMES[state],
            was_asked=was_asked,
        )
        self.writer.add(message.topic, record, (message_id, *message.keys))

    def recalled(
        self, handle: recall_handle.RecallHandle, region: str = _REGION, *, is_success: bool
    ) -> None:
        """Note what a broker said that was to take a message back."""
        record = Recalled(
            at_ms=self._clock.now_ms(),
            region=region,
            group=self._group,
            topic=handle.topic,
            message_id=handle.unique_key,
            is_success=is_success,
        )
        self.writer.add(handle.topic, record, (handle.unique_key,))


def _parts_of(one: Outgoing) -> list[tuple[bytes, bytes]]:
    """Return body and properties of each message of a batch."""
    parts = batch.split(one.body)
    return list(zip(parts.bodies, parts.properties, strict=True))


def _kind(own: dict[str, str]) -> MessageKind:
    if own.get(properties.TRAN_MSG) == "true":
        return MessageKind.HALF
    if properties.DELAY in own or not TIMERS.isdisjoint(own):
        return MessageKind.DELAYED
    return MessageKind.NORMAL
