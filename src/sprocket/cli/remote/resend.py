"""Copies of messages that are sent again: each once, however often somebody asks for it.

The unique key of a copy follows from where the first message is stored. So the topic of the copy
says by its index whether there is one, at RocketMQ's broker as at ours, and to whoever asks.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sprocket.base.errors import SettingsError
from sprocket.cli.remote.produce import sent_line, sent_row
from sprocket.cli.terminal import output
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC

if TYPE_CHECKING:
    from sprocket.rocketmq.client import Message, ReceivedMessage
    from sprocket.rocketmq.client.blocking import Admin, Producer

NOT_THE_FIRST = (DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC)
"""Topics that hold copies of messages which were sent to another one begin so."""
NOT_COPIED = frozenset(
    (
        *("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC"),
        *("ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME"),
        *("DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "TRAN_MSG", "PGROUP", "CLUSTER"),
        *("MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET", "1ST_POP_TIME", "POP_CK"),
        *("INNER_NUM", "INNER_BASE", "__CRC32#", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"),
        *("MSG_TYPE", "ARRIVE_TIME", "PUSH_REPLY_TIME", "INSTANCE_ID", "TIMER_DELAY_SEC"),
        *("TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"),
    )
)
"""Properties that tell of one delivery, made by clients and brokers; a copy gets its own."""


class Resent(NamedTuple):
    """What became of one message: a line for people, the row for scripts."""

    line: str
    row: dict[str, Any]


class Resending:
    """Sends copies of messages.

    Args:
        admin: Says what topics there are, and whether a message was sent again before.
        producer: Sends; None only says what would be sent.
        target: Topic of all copies; None takes the one that each message was first sent to.
        once_more: Send also what was sent again before.
    """

    def __init__(
        self,
        admin: "Admin",
        producer: "Producer | None",
        *,
        target: str | None,
        once_more: bool,
    ) -> None:
        self._admin = admin
        self._producer = producer
        self._target = target
        self._once_more = once_more
        self._known: set[str] = set()

    def each(self, messages: Iterable["ReceivedMessage"]) -> Iterator[Resent]:
        """Send one after the other.

        Raises:
            SettingsError: Some do not say where they came from; all others are done.
        """
        counts = {"sent": 0, "would be sent": 0, "sent before": 0}
        left_out: list[SettingsError] = []
        for message in messages:
            try:
                copy = copied(message, self._target)
            except SettingsError as error:
                left_out.append(error)
                continue
            what, resent = self._one(message, copy)
            counts[what] += 1
            yield resent
        if sum(counts.values()) + len(left_out) > 1:
            output.say(", ".join(f"{count} {what}" for what, count in counts.items() if count))
        if left_out:
            others = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
            raise SettingsError(f"{left_out[0]}{others}")

    def _one(self, message: "ReceivedMessage", copy: "Message") -> tuple[str, Resent]:
        if copy.topic not in self._known:
            self._admin.route(copy.topic)  # a topic named wrongly is not made
            self._known.add(copy.topic)
        first = message.stored.offset_message_id
        before = self._admin.message.by_id(copy.properties[properties.UNIQ_KEY], copy.topic)
        name = message.message_id
        if before is not None and not self._once_more:
            row = {
                "topic": copy.topic,
                "broker": before.queue.broker_name,
                "queue_id": before.queue.queue_id,
                "queue_offset": before.queue_offset,
                "unique_key": before.message_id,
                "offset_id": before.stored.offset_message_id,
            }
            at = output.time_text(before.stored_at_ms)
            line = f"{name} was sent to {copy.topic} before, at {at}, as {before.message_id}"
            return "sent before", Resent(line, row | {"status": "SENT_BEFORE", "copy_of": first})
        if self._producer is None:
            row = {"topic": copy.topic, "status": "NOT_SENT", "copy_of": first}
            return "would be sent", Resent(f"{name} would be sent to {copy.topic}", row)
        if before is not None:
            del copy.properties[properties.UNIQ_KEY]  # it gets one of its own
        result = self._producer.send(copy)
        return "sent", Resent(
            f"{name} sent to {sent_line(result)}", sent_row(result) | {"copy_of": first}
        )


def copied(message: "ReceivedMessage", target: str | None) -> "Message":
    """Return a message to be sent that says the same, to where the first one was sent.

    Raises:
        SettingsError: It is a dead letter that does not say where it came from.
    """
    from sprocket.rocketmq.client import Message

    topic = target or message.topic
    given = message.properties
    if target is None and topic.startswith(NOT_THE_FIRST):
        topic = given.get("RETRY_TOPIC") or given.get("REAL_TOPIC") or ""
        if not topic:
            raise SettingsError(f"{message.message_id} does not say where it came from: name --to")
    kept = {name: value for name, value in given.items() if value and name not in NOT_COPIED}
    kept[properties.UNIQ_KEY] = key_of_copy(message.stored.offset_message_id)
    return Message(
        topic,
        message.body,
        tag=message.tag,
        keys=message.keys,
        properties=kept,
        flag=message.stored.flag,
    )


def key_of_copy(offset_message_id: str) -> str:
    """Return the unique key of the copy of a message.

    Four of its bytes are the time in RocketMQ's ids, in milliseconds since the month began; its
    tools look for a message from there on. So they are zero: a copy is younger than its month.
    """
    digest = sha256(b"copy of " + offset_message_id.encode()).digest()
    return (digest[:10] + bytes(4) + digest[10:12]).hex().upper()
