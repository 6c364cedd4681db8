"""What stands in a log where a message was erased: as many bytes, and none of the message's own.

The place of the record, its size in the log, its topic, queue, queue offset and store time stay, so
that nothing else has to move: ids, queue units and the progress of consumers stay valid. Body,
properties, flag, and address and time of the producer are gone.

* A message becomes an inner batch of no messages. Clients of Sprocket get nothing from it, and the
  tables of Spark do not show it. RocketMQ's clients hand out a message without body, keys and
  properties.
* A message that a broker is yet to send on (delayed, half, or with a timer) keeps what says where
  it goes to, and becomes a body of one zero byte: a broker does not send on a message without any.
* What is left of the place is in the property string, as separators without pairs, or else a record
  of the topic `ERASED` that counts as rolled back, and so is in no queue and in no index.
"""

from msgspec import structs

from sprocket.base.disk import Buffer
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import (
    CRC_NAME,
    CRC_TAIL_BYTES,
    HOST_V4_BYTES,
    RECORD_BYTES_MIN,
    parts,
    topic_text,
)
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC, SYSTEM_PREFIX
from sprocket.rocketmq.model.message import (
    INNER_BATCH,
    NEED_UNWRAP,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    NewRecord,
)

PADDING_TOPIC = "ERASED"
"""Topic of the record that fills up the place."""
SENT_ON_TOPICS = (SCHEDULE_TOPIC, "RMQ_SYS_TRANS_HALF_TOPIC", f"{SYSTEM_PREFIX}wheel_timer")
"""Whose messages a broker sends on."""

_LIGHT = (properties.INNER_MULTI_DISPATCH, properties.INNER_MULTI_QUEUE_OFFSET)
_SENT_ON = (
    *(properties.REAL_TOPIC, properties.REAL_QID, properties.DELAY, properties.TRAN_MSG, "PGROUP"),
    *(properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS),
    *("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_ROLL_TIMES"),
)
"""Where a message goes to, and when; what brokers have written there."""
_NO_HOST = bytes(HOST_V4_BYTES)
_PADDING_BYTES_MIN = RECORD_BYTES_MIN + len(PADDING_TOPIC)


def erase(stored: Buffer) -> bytes:
    """Return what replaces one whole record, in as many bytes.

    Raises:
        WireError: It is not a whole record.
    """
    fields, _body, topic_at, topic_end, end = parts(stored, 0)
    topic = topic_text(stored, topic_at, topic_end)
    has_tail = bytes(stored[end - CRC_TAIL_BYTES : end]).startswith(CRC_NAME)
    is_sent_on = topic in SENT_ON_TOPICS
    kept = properties.decode(bytes(stored[topic_end + 2 : end]))
    names = _SENT_ON if is_sent_on else _LIGHT
    pairs = properties.encode({name: kept[name] for name in names if name in kept})
    new = NewRecord(
        topic=topic,
        queue_id=fields[3],
        body=b"\0" if is_sent_on and fields[14] else b"",
        properties=pairs,
        born_host=_NO_HOST,
        store_host=fields[11],
        sys_flag=fields[7] & TRANSACTION_MASK | (0 if is_sent_on else INNER_BATCH | NEED_UNWRAP),
        born_at_ms=fields[10],
        prepared_transaction_offset=fields[13],
    )
    return _filled(new, fields[5], fields[6], fields[10], end, has_tail=has_tail)


def _filled(
    new: NewRecord, queue_offset: int, place: int, at_ms: int, size: int, *, has_tail: bool
) -> bytes:
    """Return a record and what fills up its place, together of a size."""
    rest = size - record.encoded_size(new, has_tail)
    padding = b""
    if rest < 0:  # the old properties did not end in a separator
        new = structs.replace(new, properties=new.properties[:rest])
    elif rest < _PADDING_BYTES_MIN:
        new = structs.replace(new, properties=new.properties + b"\x02" * rest)
    else:
        padding = _padding(new, place + size - rest, rest, at_ms)
    made = record.encode(
        new,
        queue_offset=queue_offset,
        physical_offset=place,
        stored_at_ms=at_ms,
        crc_tail=has_tail,
    )
    made += padding
    assert len(made) == size, (len(made), size)
    return made


def _padding(new: NewRecord, place: int, size: int, at_ms: int) -> bytes:
    padding = NewRecord(
        topic=PADDING_TOPIC,
        queue_id=0,
        body=bytes(size - _PADDING_BYTES_MIN),
        properties=b"",
        born_host=_NO_HOST,
        store_host=_NO_HOST,
        sys_flag=TRANSACTION_ROLLBACK,
        born_at_ms=new.born_at_ms,
    )
    return record.encode(
        padding, queue_offset=0, physical_offset=place, stored_at_ms=at_ms, crc_tail=False
    )
