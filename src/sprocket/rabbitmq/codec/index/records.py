"""One record of a queue's index: its layout, and its bytes.

A journal's record begins with 8 bytes: 2 bits kind, 62 bits sequence id. A segment's begins with 2:
a bit for publish, a bit for persistent, 14 bits relative id; a deliver and an ack look alike there,
the first is the deliver. What follows in a publish record is the same in both.

Source: RabbitMQ 3.10.8 `rabbit_queue_index`; see docs/formats/rabbitmq-queue-index.md.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import count
from struct import Struct

from msgspec import Struct as MsgStruct

from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord

SEQUENCE_BITS = 62
RELATIVE_BITS = 14
ENTRIES_MAX = 1 << RELATIVE_BITS
"""Most entries that a segment can have."""
JOURNAL_PREFIX_BYTES = 8
SEGMENT_PREFIX_BYTES = 2
BODY_BYTES = 32
"""What follows the prefix of a publish record, without the message: id, expiry and two sizes."""
TERM_SIZE_AT = 28
"""Where in that part the size of the message's term stands, the last 4 bytes."""
ID_BYTES = 16
JOURNAL_HEAD_BYTES = JOURNAL_PREFIX_BYTES + BODY_BYTES
SEGMENT_HEAD_BYTES = SEGMENT_PREFIX_BYTES + BODY_BYTES

SEGMENT_PUBLISH = 0x8000
SEGMENT_PERSISTENT = 0x4000
SEGMENT_MARK = 0x4000
"""A deliver or an ack."""


class RecordKind(IntEnum):
    """What a record says of a message; the first two bits of a journal's record."""

    PUBLISH_PERSISTENT = 0
    PUBLISH_TRANSIENT = 1
    DELIVER = 2
    ACK = 3


_TRANSIENT_BIT = RecordKind.PUBLISH_TRANSIENT << SEQUENCE_BITS
_DELIVER_BITS = RecordKind.DELIVER << SEQUENCE_BITS
_ACK_BITS = RecordKind.ACK << SEQUENCE_BITS

_JOURNAL_HEAD = Struct(">Q16sQII")
_BODY = Struct(">16sQII")
_WORD = Struct(">Q")
_PREFIX = Struct(">H")
_pack_word = _WORD.pack
_pack_head = _JOURNAL_HEAD.pack


class PublishRecord(MsgStruct, frozen=True, gc=False):
    """What a publish record says.

    Attributes:
        message_id: 16 bytes.
        expiry_us: When the message expires, microseconds since 1970; 0 for never.
        body_size: Bytes of its body.
        term: The message itself; empty if the message store has it.
        is_persistent: Published with delivery mode 2, into a durable queue.
    """

    message_id: bytes
    expiry_us: int
    body_size: int
    term: bytes
    is_persistent: bool


def publish(
    seq_id: int,
    message_id: bytes,
    expiry_us: int,
    body_size: int,
    term: Buffer,
    *,
    is_persistent: bool,
) -> bytes:
    """Return a journal's publish record; see `PublishRecord` for what it says."""
    word = seq_id if is_persistent else seq_id | _TRANSIENT_BIT
    return _pack_head(word, message_id, expiry_us, body_size, len(term)) + term


def publishes(
    first_seq_id: int,
    message_ids: Sequence[bytes],
    expiry_us: int,
    body_sizes: Sequence[int],
    terms: Sequence[bytes],
) -> list[bytes]:
    """Return a journal's records of persistent messages with sequence ids from the first on."""
    pack = _pack_head
    return [
        pack(seq_id, message_id, expiry_us, size, len(term)) + term
        for seq_id, message_id, size, term in zip(
            count(first_seq_id), message_ids, body_sizes, terms
        )
    ]


def delivers(first_seq_id: int, end: int) -> list[bytes]:
    """Return a journal's deliver records of a range of sequence ids."""
    pack = _pack_word
    return [pack(word) for word in range(_DELIVER_BITS | first_seq_id, _DELIVER_BITS | end)]


def acks(seq_ids: Iterable[int]) -> list[bytes]:
    """Return a journal's ack records."""
    pack = _pack_word
    return [pack(_ACK_BITS | seq_id) for seq_id in seq_ids]


def deliver(seq_id: int) -> bytes:
    """Return a journal's deliver record."""
    return _pack_word(_DELIVER_BITS | seq_id)


def ack(seq_id: int) -> bytes:
    """Return a journal's ack record."""
    return _pack_word(_ACK_BITS | seq_id)


def segment_publish(relative_id: int, record: Buffer) -> bytes:
    """Return a segment's publish record of what a journal's says."""
    kind = record[0] >> 6
    bits = (
        SEGMENT_PUBLISH
        if kind == RecordKind.PUBLISH_TRANSIENT
        else SEGMENT_PUBLISH | SEGMENT_PERSISTENT
    )
    return _PREFIX.pack(bits | relative_id) + record[JOURNAL_PREFIX_BYTES:]


def segment_mark(relative_id: int) -> bytes:
    """Return a segment's deliver or ack record."""
    return _PREFIX.pack(SEGMENT_MARK | relative_id)


def decode_publish(data: Buffer, start: int, *, is_segment: bool) -> PublishRecord:
    """Return what a publish record says, of a journal or of a segment.

    Raises:
        CorruptRecord: It goes on beyond the end of `data`.
    """
    prefix_bytes = SEGMENT_PREFIX_BYTES if is_segment else JOURNAL_PREFIX_BYTES
    end = start + prefix_bytes + BODY_BYTES
    if end > len(data):
        raise CorruptRecord(f"index: the record at {start} is cut")
    message_id, expiry_us, body_size, term_size = _BODY.unpack_from(data, start + prefix_bytes)
    if end + term_size > len(data):
        raise CorruptRecord(f"index: the message in the record at {start} is cut")
    bit = data[start] & 0x40
    return PublishRecord(
        message_id=message_id,
        expiry_us=expiry_us,
        body_size=body_size,
        term=bytes(data[end : end + term_size]),
        is_persistent=bool(bit) if is_segment else not bit,
    )
