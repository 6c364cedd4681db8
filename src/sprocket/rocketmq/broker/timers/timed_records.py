"""What a message of the wheel topic says, and the copies that follow it.

`TIMER_OUT_MS` is the time of its delivery by the log's clock when it was stored; `REAL_TOPIC` and
`REAL_QID` say where it is to go. `TIMER_DEL_UNIQKEY`, topic and unique key with a `+` between,
takes another one back that waits in the same slot.

A copy is as RocketMQ's, and says besides, in its prepared transaction offset, where the first
message lies that it is a copy of: those between, which came into the topic again, may be lost.

Source: RocketMQ `TimerMessageStore.convert`, `HookUtils.transformTimerMessage`.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from sprocket.base import log
from sprocket.base.clock import NEAR_MS, LogClock
from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.rocketmq.broker.messages import copy_of
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import parts, topic_text
from sprocket.rocketmq.model.internal import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerRecord

_log = log.get_logger(__name__)

UNREADABLE = (CorruptRecord, OffsetTooSmall, OffsetTooLarge, WireError, ValueError)
"""A record is not there, or damaged."""

ENQUEUED_LATE_MS = 2**63 - 1
"""What RocketMQ notes as the time at which a message came into the wheel that was due already."""

_marks = {
    name: f"\x02{name}\x01".encode()
    for name in (
        *(properties.TIMER_OUT_MS, properties.TIMER_DELIVER_MS, properties.TIMER_DELAY_MS),
        *(
            properties.TIMER_DELAY_SEC,
            properties.TIMER_ROLL_TIMES,
            properties.TIMER_DEL_UNIQKEY,
            properties.REAL_TOPIC,
        ),
    )
}


class TimedMessage(Struct, frozen=True, gc=False):
    """What decides about a message of the wheel topic.

    Attributes:
        place: Where it lies in the log.
        size: Its bytes.
        stored_at_ms: When it was stored.
        out_at_ms: When it is due, by the clock of that time.
        topic: Where it wants to go.
        is_delete: Whether it takes another one back.
        has_copy: Whether it had one already when the store was opened.
    """

    place: int
    size: int
    stored_at_ms: int
    out_at_ms: int
    topic: str
    is_delete: bool
    has_copy: bool = False


def read(stored: Buffer, queue_offset: int, precision_ms: int) -> TimedMessage:
    """Return what a record of the wheel topic says.

    Args:
        stored: The record.
        queue_offset: Its offset in the wheel topic.
        precision_ms: What a slot of the wheel takes.

    Raises:
        WireError: There is no whole record, or another one, or it does not say when it is due.
    """
    fields, _, topic_at, topic_end, end = parts(stored, 0)
    here = (topic_text(stored, topic_at, topic_end), fields[3], fields[5])
    if here != (TIMER_TOPIC, 0, queue_offset):
        raise WireError("another record lies where the queue says")
    closed = b"\x02" + bytes(stored[topic_end + 2 : end])
    found = {
        name: value
        for name, mark in _marks.items()
        if (value := properties.value_of(closed, mark)) is not None
    }
    return TimedMessage(
        place=fields[6],
        size=fields[0],
        stored_at_ms=fields[10],
        out_at_ms=out_at_ms(found, fields[10], precision_ms),
        topic=found.get(properties.REAL_TOPIC, ""),
        is_delete=properties.TIMER_DEL_UNIQKEY in found,
    )


def stored_message(store: Store, one: TimerRecord) -> StoredMessage:
    """Return the message of a record of the timer log. Raises one of `UNREADABLE`."""
    message = record.decode(store.record_at(PhysicalOffset(one.place)))
    if (message.topic, message.queue_id) != (TIMER_TOPIC, 0):
        raise WireError("another record lies where the timer log says")
    return message


def report_lost(where: str, why: Exception) -> None:
    """Say that a message cannot be delivered."""
    _log.error(f"a timed message {where} cannot be delivered and is passed over", why=str(why))


def out_at_ms(found: Mapping[str, str], stored_at_ms: int, precision_ms: int) -> int:
    """Return when a message is due, by the clock at the time when it was stored.

    RocketMQ rounds that down to its precision, or takes as much off it. So one that seems rounded
    is due when it asked to be, at most that much later.

    Raises:
        WireError: It does not say.
    """
    try:
        out = int(found.get(properties.TIMER_OUT_MS, ""))
        if out % precision_ms:
            return out
        if properties.TIMER_DELIVER_MS in found:
            asked = int(found[properties.TIMER_DELIVER_MS])
        elif properties.TIMER_DELAY_SEC in found:
            asked = stored_at_ms + 1000 * int(found[properties.TIMER_DELAY_SEC])
        else:
            asked = stored_at_ms + int(found.get(properties.TIMER_DELAY_MS, "0"))
    except ValueError as error:
        raise WireError(f"a timed message does not say when it is due: {error}") from error
    return min(max(asked, out), out + precision_ms)


def due_at_ms(clock: LogClock, stored_at_ms: int, out_at_ms: int) -> int:
    """Return when a message is due by the clock as it is now: setting it changes no wait."""
    wait_ms = out_at_ms - stored_at_ms - clock.elapsed_ms(stored_at_ms)
    due = clock.now_ms() + wait_ms
    return out_at_ms if abs(due - out_at_ms) <= NEAR_MS else due


def delete_key(message: StoredMessage) -> str:
    """Return by which key a message is taken back."""
    found = message.properties
    return f"{found.get(properties.REAL_TOPIC, '')}+{found.get(properties.UNIQ_KEY, '')}"


def delivered(
    message: StoredMessage, enqueued_at_ms: int, now_ms: int, store_host: bytes
) -> NewRecord:
    """Return the copy of a message that is due.

    Raises:
        WireError: It does not say where it wants to go.
    """
    found = message.properties
    topic, queue = found.get(properties.REAL_TOPIC, ""), found.get(properties.REAL_QID, "")
    # To one of these it would be no message of ours.
    is_ours = topic in ("", HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC)
    if is_ours or not queue.isdecimal():
        raise WireError(f"it wants to go to queue {queue!r} of {topic!r}")
    is_late = int(found.get(properties.TIMER_OUT_MS, "0")) < enqueued_at_ms
    added = {properties.TIMER_ENQUEUE_MS: ENQUEUED_LATE_MS if is_late else enqueued_at_ms}
    return _copy(
        message, topic, int(queue), {**added, properties.TIMER_DEQUEUE_MS: now_ms}, store_host
    )


def rolled(
    message: StoredMessage, enqueued_at_ms: int, due_at_ms: int, now_ms: int, store_host: bytes
) -> NewRecord:
    """Return a message that waits longer than the wheel goes: it comes into the topic again."""
    times = message.properties.get(properties.TIMER_ROLL_TIMES, "0")
    added = {
        properties.TIMER_ENQUEUE_MS: enqueued_at_ms,
        properties.TIMER_ROLL_TIMES: (int(times) if times.isdecimal() else 0) + 1,
        properties.TIMER_DEQUEUE_MS: now_ms,
        properties.TIMER_OUT_MS: due_at_ms,
        properties.TIMER_DELIVER_MS: due_at_ms,
    }
    return _copy(message, TIMER_TOPIC, 0, added, store_host)


def first_place(message: StoredMessage) -> int:
    """Return where the first of all lies of which a message of the wheel topic is a copy.

    That may be the half message of a transaction that was committed.
    """
    return message.prepared_transaction_offset or message.physical_offset


def _copy(
    message: StoredMessage, topic: str, queue_id: int, added: Mapping[str, int], store_host: bytes
) -> NewRecord:
    message.properties.update({name: str(value) for name, value in added.items()})
    return structs.replace(
        copy_of(message, topic, queue_id, store_host),
        prepared_transaction_offset=first_place(message),
    )
