"""The offsets and sizes of a stored message: constants that readers and writers share.

`docs/formats/record.md` describes the layout.
"""

import struct
from typing import TypeAlias

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.model.message import BORN_HOST_V6, STORE_HOST_V6

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGICS = MAGIC_V1, MAGIC_V2
MAGIC_BLANK = 0xCBD43194

SIZE_AT = 0
MAGIC_AT = 4
BODY_CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_AT_MS_AT = 40
BORN_HOST_AT = 48
STORED_AT_MS_AT = 56
"""With an IPv4 born host; 12 more with an IPv6 one, so look at the system flag first."""
STORED_AT_MS_END = STORED_AT_MS_AT + 12 + 8
"""So many bytes from the start of a record on are enough for `stored_at_ms`."""
FIXED_BYTES = 88
"""From the size to the body length with two IPv4 hosts; each IPv6 host adds `HOST_V6_EXTRA`."""
HOST_V6_EXTRA = 12
BLANK_BYTES = 8
"""A blank record ends each file; no record may come nearer to the end of a file than this."""

RECORD_BYTES_MIN = FIXED_BYTES + 1 + 2
TOPIC_BYTES_MAX_V1 = 127
TOPIC_BYTES_MAX = 32_767

_REST_BYTES_MAX = 2 + TOPIC_BYTES_MAX + 2 + 32_767
"""Topic and properties with their lengths."""

I8 = struct.Struct(">b")
I16 = struct.Struct(">h")
I32 = struct.Struct(">i")
I64 = struct.Struct(">q")
HEAD = struct.Struct(">iI")
"""Size and magic."""
PLACE = struct.Struct(">iI4xi4xqq")
"""Size, magic, queue id, queue offset, physical offset."""
PLACE_AND_LENGTHS = struct.Struct(">iI20xqi44xi")
"""With two IPv4 hosts: size, magic, physical offset, system flag, body length."""
HOST_V4_BYTES, HOST_V6_BYTES = 8, 20
"""An address and a port, of 4 bytes each or 16 and 4."""
FIXED = tuple(
    struct.Struct(f">iIiiiqqiq{born}sq{store}siqi")
    for store in (HOST_V4_BYTES, HOST_V6_BYTES)
    for born in (HOST_V4_BYTES, HOST_V6_BYTES)
)
"""By bits 4 and 5 of the system flag."""
FIXED_V4 = FIXED[0]
HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6

CRC_PROPERTY = "__CRC32#"
CRC_NAME = CRC_PROPERTY.encode() + b"\x01"
CRC_MARK = ord("#")
"""Looked for first, since one byte is found faster than a name; few properties hold it."""
CRC_TAIL_BYTES = len(CRC_NAME) + 10 + 1

Fields: TypeAlias = tuple[
    int, int, int, int, int, int, int, int, int, bytes, int, bytes, int, int, int
]
"""The fixed part in order: size, magic, body crc, queue id, flag, queue offset, physical offset,
system flag, born at, born host, stored at, store host, reconsume times, prepared transaction
offset, body length."""


def parts(data: Buffer, position: int) -> tuple[Fields, int, int, int, int]:
    """Check every length of one record and say where its parts lie.

    Returns:
        The fields of the fixed part in order, and positions in `data`: the body, the topic, the
        topic's end (two bytes before the properties), the record's end.

    Raises:
        WireError: There is no whole record at `position`.
    """
    left = len(data) - position
    if position < 0 or left < RECORD_BYTES_MIN:
        raise WireError(f"{left} bytes at {position} are too few for a record")
    size, magic = HEAD.unpack_from(data, position)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise WireError(f"no record at {position}: magic {magic:#010x}")
    if not RECORD_BYTES_MIN <= size <= left:
        raise WireError(f"record at {position} claims {size} bytes, there are {left}")
    fixed = FIXED[data[position + SYS_FLAG_AT + 3] >> 4 & 3]
    end = position + size
    body = position + fixed.size
    if body + 3 > end:
        raise WireError(f"record at {position} is too short for its hosts")
    fields: Fields = fixed.unpack_from(data, position)
    body_bytes = fields[14]
    topic = body + body_bytes + (1 if magic == MAGIC_V1 else 2)
    if body_bytes < 0 or topic + 2 > end:
        raise WireError(f"record at {position} claims a body of {body_bytes}, it has {size} bytes")
    if magic == MAGIC_V1:
        topic_bytes = data[topic - 1]
        fits = topic_bytes <= TOPIC_BYTES_MAX_V1
    else:
        (topic_bytes,) = I16.unpack_from(data, topic - 2)
        fits = topic_bytes >= 0
    topic_end = topic + topic_bytes
    if not fits or topic_end + 2 > end:
        raise WireError(f"record at {position} has a topic that does not fit into {size} bytes")
    (length,) = I16.unpack_from(data, topic_end)
    if length < 0 or topic_end + 2 + length != end:
        raise WireError(f"record at {position} is not as long as its parts: {size}")
    return fields, body, topic, topic_end, end


def claims_to_fit(data: Buffer, position: int) -> bool:
    """Say whether the size that a record names may be that of its parts, going by its body's.

    Args:
        data: Begins of it, to the end of the fixed part.
        position: Where in `data` the record starts.
    """
    if len(data) - position < RECORD_BYTES_MIN:
        return False
    (size,) = I32.unpack_from(data, position)
    fixed = FIXED[data[position + SYS_FLAG_AT + 3] >> 4 & 3]
    if position + fixed.size > len(data):
        return False
    (body_bytes,) = I32.unpack_from(data, position + fixed.size - I32.size)
    rest: int = size - fixed.size - body_bytes
    return body_bytes >= 0 and 1 + I16.size <= rest <= _REST_BYTES_MAX


def topic_text(data: Buffer, start: int, end: int) -> str:
    """Return the topic that lies in `data[start:end]`; WireError if it is not UTF-8."""
    try:
        return str(data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"topic at {start} is not UTF-8") from error


def crc_digits(crc: int) -> bytes:
    """Return ten digits, the least significant first."""
    return (b"%010d" % crc)[::-1]


def tail_fits(data: Buffer, position: int, end: int) -> bool | None:
    """Say whether the record in `[position, end)` ends in a CRC tail that fits; None without one.

    A tail that fits covers the body and its checksum as well. Digits that fit the record under
    another name are a tail whose name is damaged. And properties never end in a zero, unless they
    were never written.
    """
    start = end - CRC_TAIL_BYTES
    tail = bytes(data[start:end])
    if tail[-1] == 0:
        has_properties = parts(data, position)[3] + 2 < end  # without, their length ends the record
        return False if has_properties else None
    digits = tail[len(CRC_NAME) : -1]
    is_named = tail.startswith(CRC_NAME) and tail[-1] == 2
    if not is_named and not digits.isdigit():
        return None
    fits = digits == crc_digits(crc32(data[position:start]) & 0x7FFFFFFF)
    if is_named:
        return fits
    return False if fits else None


def stored_at_ms(data: Buffer, position: int = 0) -> int:
    """Return the store time of the record at `position`, of which 76 bytes must be there."""
    at = position + STORED_AT_MS_AT
    if data[position + SYS_FLAG_AT + 3] & BORN_HOST_V6:
        at += HOST_V6_EXTRA
    (at_ms,) = I64.unpack_from(data, at)
    return int(at_ms)
