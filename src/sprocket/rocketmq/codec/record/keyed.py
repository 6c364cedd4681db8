"""A record as compaction sees it: by its key, and copied to another place.

The key is the whole text of the property KEYS, not its words, and a record without a body deletes
what came before under its key. Source: RocketMQ `CompactionLog`.
"""

from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record.record import Entry
from sprocket.rocketmq.codec.record_layout import (
    CRC_NAME,
    CRC_TAIL_BYTES,
    I64,
    PHYSICAL_OFFSET_AT,
    crc_digits,
    parts,
)

_KEYS = b"\x02KEYS\x01"


class KeyedRecord(Struct, frozen=True, gc=False):
    """What compaction needs to know of one record.

    Attributes:
        entry: What its unit says; its keys are left out.
        key: The whole text of KEYS; empty if there is none, or nothing but blanks.
        has_body: Whether it is a value; if not, it deletes its key.
    """

    entry: Entry
    key: str
    has_body: bool


def read(stored: Buffer, position: int = 0, *, check_crc: bool = False) -> KeyedRecord:
    """Return what compaction needs of the record at `position`.

    Args:
        stored: Bytes that hold the whole record.
        position: Where in them it starts.
        check_crc: Compare the body with its checksum. A tail is not looked at: RocketMQ's copies
            have those of the records that they were copied from.

    Raises:
        WireError: No record begins there, its lengths are inconsistent, or its checksum is wrong.
    """
    fields, body, _topic, topic_end, end = parts(stored, position)
    body_bytes = fields[14]
    if check_crc and crc32(stored[body : body + body_bytes]) & 0x7FFFFFFF != fields[2]:
        raise WireError(f"body of the record at {position} does not fit its checksum")
    key = properties.value_of(b"\x02" + bytes(stored[topic_end + 2 : end]), _KEYS) or ""
    entry = record.entry(stored, position, with_keys=False)
    return KeyedRecord(entry, key if key.strip() else "", body_bytes > 0)


def moved(stored: Buffer, place: int) -> bytes:
    """Return a whole record as it is at another place; a tail that fits it fits it there, too."""
    data = bytearray(stored)
    has_tail = has_right_tail(data)
    I64.pack_into(data, PHYSICAL_OFFSET_AT, place)
    if has_tail:
        data[-11:-1] = _digits(data)
    return bytes(data)


def has_right_tail(stored: Buffer) -> bool:
    """Say whether a whole record ends in a tail that fits it."""
    data = bytes(stored)
    tail = CRC_NAME + _digits(data) + b"\x02"
    return data.endswith(tail)


def is_same(one: Buffer, other: Buffer) -> bool:
    """Say whether two whole records are one message, whatever the places where they lie.

    A tail is left out, as RocketMQ does not make that of a copy anew.
    """
    return _without_place(one) == _without_place(other)


def _without_place(stored: Buffer) -> bytes:
    data = bytes(stored)
    tail = len(data) - CRC_TAIL_BYTES
    end = tail if data.startswith(CRC_NAME, tail) else len(data)
    return data[:PHYSICAL_OFFSET_AT] + data[PHYSICAL_OFFSET_AT + I64.size : end]


def _digits(data: Buffer) -> bytes:
    """Return what the tail of a record would say."""
    return crc_digits(crc32(memoryview(data)[:-CRC_TAIL_BYTES]) & 0x7FFFFFFF)
