"""The frame around everything that is sent, and how what this side says is put into frames.

    frame   = kind channel size payload %xCE     ; octet, uint16, uint32
    content = method-frame header-frame *body-frame
    header  = class weight body-size properties  ; uint16, uint16 (0), uint64

Everything here gives buffers for a socket. A message of a few KiB is one buffer: to copy its body
costs less than to write one buffer more.

Source: `rabbit_reader`, `rabbit_binary_generator`; docs/formats/amqp.md.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from sprocket.base.units import KIB
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod

Buffer = bytes | bytearray | memoryview
Delivery: TypeAlias = tuple[bool, bytes, bytes, Sequence[bytes]]
"""Whether somebody may have had it before; exchange and routing key, each as a short string;
properties as flags and values; and the body in pieces, none of them empty."""


class FrameKind(IntEnum):
    """What a frame holds."""

    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8


PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""What a client begins with, and what one is told that begins with something else."""
PROTOCOL_HEADERS: Final = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
"""The second one is how it was written once."""

HEAD: Final = Struct(">BHI")
HEAD_BYTES: Final = HEAD.size
END: Final = 0xCE
END_OCTET: Final = bytes((END,))
OVERHEAD_BYTES: Final = HEAD_BYTES + 1
FRAME_BYTES_MIN: Final = 4096
"""The limit before both sides have agreed on one, and the lowest that they can agree on."""
CONTENT_HEAD: Final = Struct(">HHQ")
"""Class, weight and body size, before the properties."""
METHOD_HEAD_BYTES: Final = 4
BASIC_CLASS: Final = 60

HEARTBEAT: Final = HEAD.pack(FrameKind.HEARTBEAT, 0, 0) + END_OCTET
COPIED_BYTES_MAX: Final = 16 * KIB
"""A body up to here is copied into one buffer with its frames."""
_JOINED_BYTES = 64 * KIB
"""From how many octets of bodies on messages are not copied into the same buffer any more."""
_FRAGMENT_BYTES_MIN = KIB
"""Fragments that are smaller, on an average, are put together: their frames would cost more."""

_TWO_HEADS = Struct(">BBHIHHQ")
_DELIVERY = Struct(">QB")


def encode_method(channel: int, method: AmqpMethod) -> bytes:
    """Return the frame of a method."""
    payload = methods.encode(method)
    return HEAD.pack(FrameKind.METHOD, channel, len(payload)) + payload + END_OCTET


def encode_content(
    channel: int,
    payload: bytes,
    properties: bytes,
    fragments: Sequence[bytes],
    frame_bytes_max: int,
) -> list[Buffer]:
    """Return the frames of a method with content.

    Args:
        channel: Its number.
        payload: The method, as `methods.encode` gives it.
        properties: Flags and values.
        fragments: The body in pieces of any size, none of them empty. They go into frames as they
            are if that makes few frames.
        frame_bytes_max: The largest frame, all of it; 0 means no limit.
    """
    size = 0
    for fragment in fragments:
        size += len(fragment)
    # After the method's frame is its end, and then the head of the next one.
    head = b"".join(
        (
            HEAD.pack(FrameKind.METHOD, channel, len(payload)),
            payload,
            _TWO_HEADS.pack(
                END,
                FrameKind.HEADER,
                channel,
                CONTENT_HEAD.size + len(properties),
                BASIC_CLASS,
                0,
                size,
            ),
            properties,
            END_OCTET,
        )
    )
    body_max = frame_bytes_max - OVERHEAD_BYTES if frame_bytes_max else size
    if size <= COPIED_BYTES_MAX and size <= body_max:
        if not size:
            return [head]
        body = fragments[0] if len(fragments) == 1 else b"".join(fragments)
        return [b"".join((head, HEAD.pack(FrameKind.BODY, channel, size), body, END_OCTET))]
    if len(fragments) > 1 + size // _FRAGMENT_BYTES_MIN:
        fragments = [b"".join(fragments)]
    buffers: list[Buffer] = [head]
    for fragment in fragments:
        view = memoryview(fragment)
        for start in range(0, len(fragment), body_max):
            piece = view[start : start + body_max]
            buffers += (HEAD.pack(FrameKind.BODY, channel, len(piece)), piece, END_OCTET)
    return buffers


def encode_deliveries(
    channel: int,
    consumer: bytes,
    first_tag: int,
    deliveries: Iterable[Delivery],
    frame_bytes_max: int,
) -> list[Buffer]:
    """Return the frames of messages that are delivered, as `encode_content` gives them.

    Many together take 0.3 µs each and few buffers, one by one 0.9.

    Args:
        channel: Its number.
        consumer: The tag, as `tables.encode_short_string` gives it.
        first_tag: The delivery tag of the first; those of the others follow.
        deliveries: What is delivered.
        frame_bytes_max: The largest frame, all of it; 0 means no limit.
    """
    buffers: list[Buffer] = []
    parts: list[bytes] = []
    held = 0
    body_max = frame_bytes_max - OVERHEAD_BYTES if frame_bytes_max else COPIED_BYTES_MAX
    copied_max = min(body_max, COPIED_BYTES_MAX)
    known_origin, start = None, b""
    known_sizes, header, body_head = (-1, -1), b"", b""
    for tag, (redelivered, origin, properties, fragments) in enumerate(deliveries, first_tag):
        size = len(fragments[0]) if len(fragments) == 1 else 0
        if not 0 < size <= copied_max:
            if parts:
                buffers.append(b"".join(parts))
                parts, held = [], 0
            payload = delivery_payload(consumer, tag, redelivered, origin)
            buffers += encode_content(channel, payload, properties, fragments, frame_bytes_max)
            continue
        if origin is not known_origin:
            method_bytes = METHOD_HEAD_BYTES + len(consumer) + _DELIVERY.size + len(origin)
            start = HEAD.pack(FrameKind.METHOD, channel, method_bytes) + _DELIVER + consumer
            known_origin = origin
        sizes = len(properties), size
        if sizes != known_sizes:
            header_bytes = CONTENT_HEAD.size + len(properties)
            header = _TWO_HEADS.pack(
                END, FrameKind.HEADER, channel, header_bytes, BASIC_CLASS, 0, size
            )
            body_head = END_OCTET + HEAD.pack(FrameKind.BODY, channel, size)
            known_sizes = sizes
        parts += (
            start,
            _DELIVERY.pack(tag, redelivered),
            origin,
            header,
            properties,
            body_head,
            fragments[0],
            END_OCTET,
        )
        held += size
        if held > _JOINED_BYTES:
            buffers.append(b"".join(parts))
            parts, held = [], 0
    if parts:
        buffers.append(b"".join(parts))
    return buffers


def delivery_payload(consumer: bytes, delivery_tag: int, redelivered: bool, origin: bytes) -> bytes:
    """Return basic.deliver, as `methods.encode` gives it, in 0.1 µs and not in 1.6.

    Args:
        consumer: The tag, as `tables.encode_short_string` gives it.
        delivery_tag: Number of the delivery in its channel.
        redelivered: Whether somebody may have had it before.
        origin: Exchange and routing key, each as a short string.
    """
    return b"".join((_DELIVER, consumer, _DELIVERY.pack(delivery_tag, redelivered), origin))


_DELIVER = methods.head_of(methods.BasicDeliver)
