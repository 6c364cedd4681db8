"""The body of a batch send: messages without topic, queue or hosts, one after the other.

Each is `i32 size, i32 magic, i32 crc, i32 flag, i32 n, n bytes of body, i16 p, p bytes of
properties`; magic and crc are written 0 and not read. The topic, queue, system flag and times of
all of them are those of the request.

A queue may keep a batch whole, as the body of one record, an inner batch. To its readers each of
its messages has the queue offset of the record and its place in the batch together, and all else
that is not its own from the record. Source: RocketMQ `MessageDecoder.decodeMessage`.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import structs

from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record.properties import PROPERTIES_BYTES_MAX
from sprocket.rocketmq.errors import PropertiesTooLarge
from sprocket.rocketmq.model.message import INNER_BATCH, NEED_UNWRAP, Column, StoredMessage

_HEAD = struct.Struct(">iiiii")
_READ_OF_HEAD = struct.Struct(">i8xii")
"""The same without what is not read."""
_SIZES_AT = (0, 1, 2, 3, 16, 17, 18, 19)
"""The bytes of a head that hold sizes."""
_FLAG_AT = (12, 13, 14, 15)
_PROPERTIES_LENGTH = struct.Struct(">h")
_HEAD_BYTES = _HEAD.size
FRAME_BYTES = _HEAD_BYTES + _PROPERTIES_LENGTH.size
"""What a message takes beside its body and its properties."""
_INNER = INNER_BATCH | NEED_UNWRAP


Part: TypeAlias = tuple[int, bytes, bytes]
"""One message of a batch: flag, body and properties, both as a record stores them."""


class BatchParts(NamedTuple):
    """The messages of a batch as columns: flag, body and properties of each.

    Where all messages have the same sizes, as those of one producer mostly do, bodies and
    properties are each a `Column`: nothing is cut out until it is asked for.
    """

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]


def split(data: bytes | bytearray | memoryview) -> BatchParts:
    """Return the messages of a batch body.

    Raises:
        WireError: The lengths do not add up; the text says at which byte.
    """
    whole = bytes(data)
    return _split_evenly(whole) or split_each(whole)


def _split_evenly(whole: bytes) -> BatchParts | None:
    """Return the messages if there are some and all have the sizes of the first, else None."""
    if len(whole) < FRAME_BYTES:
        return None
    size, flag, body_bytes = _READ_OF_HEAD.unpack_from(whole)
    properties_bytes = size - FRAME_BYTES - body_bytes
    if body_bytes < 0 or not 0 <= properties_bytes <= PROPERTIES_BYTES_MAX:
        return None
    count, rest = divmod(len(whole), size)
    if rest:
        return None
    length_at = _HEAD_BYTES + body_bytes
    if _PROPERTIES_LENGTH.unpack_from(whole, length_at) != (properties_bytes,):
        return None
    for at in (*_SIZES_AT, length_at, length_at + 1):
        if whole[at::size] != whole[at : at + 1] * count:
            return None
    flags = [flag] * count
    for at in _FLAG_AT:
        if whole[at::size] != whole[at : at + 1] * count:
            flags = [_READ_OF_HEAD.unpack_from(whole, n * size)[1] for n in range(count)]
            break
    return BatchParts(
        flags,
        Column(whole, start=_HEAD_BYTES, width=body_bytes, stride=size, count=count),
        Column(whole, start=length_at + 2, width=properties_bytes, stride=size, count=count),
    )


def split_each(whole: bytes) -> BatchParts:
    """Do as `split`, one message after the other."""
    flags: list[int] = []
    bodies: list[bytes] = []
    properties: list[bytes] = []
    add_flag, add_body, add_properties = flags.append, bodies.append, properties.append
    unpack_sizes, unpack_length = _READ_OF_HEAD.unpack_from, _PROPERTIES_LENGTH.unpack_from
    position, end = 0, len(whole)
    while position < end:
        if end - position < FRAME_BYTES:
            raise WireError(f"batch breaks off at byte {position} of {end}")
        size, flag, body_length = unpack_sizes(whole, position)
        body = position + _HEAD_BYTES
        body_end = body + body_length
        if body_length < 0 or body_end + 2 > end:
            raise WireError(f"batch message at byte {position} claims a body of {body_length}")
        (length,) = unpack_length(whole, body_end)
        part_end = position + size
        if length < 0 or part_end > end or part_end - body_end - 2 != length:
            raise WireError(f"batch message at byte {position} has sizes that do not add up")
        add_flag(flag)
        add_body(whole[body:body_end])
        add_properties(whole[body_end + 2 : part_end])
        position = part_end
    return BatchParts(flags, bodies, properties)


def join(parts: Iterable[Part]) -> bytes:
    """Return the batch body of messages given as `(flag, body, properties)`.

    Raises:
        PropertiesTooLarge: A property string is longer than 32,767 bytes.
    """
    buffers: list[bytes | memoryview] = []
    for flag, body, text in parts:
        if len(text) > PROPERTIES_BYTES_MAX:
            raise PropertiesTooLarge(f"{len(text)} bytes of properties exceed 32767")
        size = FRAME_BYTES + len(body) + len(text)
        buffers += (
            _HEAD.pack(size, 0, 0, flag, len(body)),
            body,
            _PROPERTIES_LENGTH.pack(len(text)),
            text,
        )
    return b"".join(buffers)


def decode_messages(data: Buffer) -> list[StoredMessage]:
    """Decode what a pull answered: messages, those of inner batches each by itself.

    Raises:
        WireError: As `record.decode_all`.
    """
    found = record.decode_all(data)
    if not any(one.sys_flag & INNER_BATCH for one in found):
        return found
    return [message for one in found for message in unwrapped(one)]


def unwrapped(stored: StoredMessage) -> Sequence[StoredMessage]:
    """Return the messages of a record: itself, unless it is an inner batch.

    One whose body is not a batch is handed out whole: its checksum says that this was sent.
    """
    if stored.sys_flag & _INNER != _INNER:
        return [stored]
    try:
        parts = split(stored.stored_body)
    except WireError:
        return [stored]
    return [
        structs.replace(
            stored,
            queue_offset=stored.queue_offset + number,
            sys_flag=stored.sys_flag & ~_INNER,
            flag=flag,
            properties=properties.decode(text),
            stored_body=body,
        )
        for number, (flag, body, text) in enumerate(zip(*parts, strict=True))
    ]
