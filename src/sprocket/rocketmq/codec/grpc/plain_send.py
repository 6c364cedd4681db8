"""Requests to send one message that says nothing unusual, read without protobuf.

Each look at a field of a protobuf message makes an object, so that a request costs 3.5 µs until it
is known what it says, and 2 read so.

    request     0a · size · message
    message     0a · size · topic · 1a · size · properties · 22 · size · body
    properties  1a · size · id · 28 · encoding · 30 · type · 3a · size · born · 42 · size · host
                · 68 · queue

Sizes of topic and properties are bytes below 128, those of message and body numbers of up to four
bytes. Encoding, type and queue may be missing. Whatever is not so is left to protobuf.

Invariant: what is read here is what protobuf reads, and what else it has is empty. Since each size
is compared, no other fields can have these bytes.

Source: Protocol Buffers, "Encoding".
"""

import re
from functools import lru_cache
from typing import Final

from google.protobuf.message import DecodeError
from msgspec import Struct

from sprocket.rocketmq.codec.grpc.messages import Resource, SendMessageRequest
from sprocket.rocketmq.codec.grpc.times import ms_of_encoded

TOPICS_REMEMBERED: Final = 1_024
_MESSAGE, _TOPIC = 0x0A, 0x0A
_PROPERTIES: Final = 0x1A
_BODY: Final = 0x22
_SHORT: Final = 0x80
_SIZE_SHIFT_MAX: Final = 21
_SECONDS_BYTES: Final = 6
"""Of the time. Seconds and what is behind them are two times, of which both come again."""
_plain_properties: Final = re.compile(
    rb"\x1a(.)([!-~]+)(?:\x28[\0\x01])?(?:\x30[\0-\x03])?"
    rb"\x3a(.)(\x08[\x80-\xff]{4}[\x01-\x7f](?:\x10[\x80-\xff]{0,4}[\x01-\x7f])?)"
    rb"\x42(.)([!-~]*)(?:\x68[\0-\x7f])?",
    re.DOTALL,
).fullmatch


class PlainTopic(Struct, frozen=True, gc=False):
    """A topic as such a request names it; a `resource_names.NamedResource`."""

    resource_namespace: str
    name: str


class PlainSend(Struct, frozen=True, gc=False):
    """What such a request says.

    Attributes:
        topic: Its topic; that of requests to the same is the same object.
        message_id: Printable ASCII, at least a character.
        born_at_ms: Wall time at the client.
        born_host: Printable ASCII.
        body: As it came.
    """

    topic: PlainTopic
    message_id: str
    born_at_ms: int
    born_host: str
    body: bytes


def read(data: bytes) -> PlainSend | SendMessageRequest:
    """Return a request to send. Raises DecodeError."""
    try:
        plain = _plain(data)
    except (IndexError, DecodeError):
        plain = None
    return SendMessageRequest.FromString(data) if plain is None else plain


def _plain(data: bytes) -> PlainSend | None:
    """Return what a plain request says; None if it is none. Raises IndexError, DecodeError."""
    end = len(data)
    size, topic_at = _size(data, 1)
    topic_size = data[topic_at + 1]
    at = topic_at + 2 + topic_size
    properties_size = data[at + 1]
    body_at = at + 2 + properties_size
    body_size, start = _size(data, body_at + 1)
    if (
        topic_at + size != end
        or start + body_size != end
        or data[0] != _MESSAGE
        or data[topic_at] != _TOPIC
        or data[at] != _PROPERTIES
        or data[body_at] != _BODY
        or topic_size >= _SHORT
        or properties_size >= _SHORT
    ):
        return None
    found = _plain_properties(data, at + 2, body_at)
    if found is None:
        return None
    id_size, message_id, born_size, born, host_size, host = found.groups()
    if id_size[0] != len(message_id) or born_size[0] != len(born) or host_size[0] != len(host):
        return None
    return PlainSend(
        _topic(data[topic_at + 2 : at]),
        message_id.decode("ascii"),
        ms_of_encoded(born[:_SECONDS_BYTES]) + ms_of_encoded(born[_SECONDS_BYTES:]),
        host.decode("ascii"),
        data[start:],
    )


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Return a size, and where it ends; one of more than four bytes is as large as none can be."""
    byte = data[at]
    if byte < _SHORT:
        return byte, at + 1
    size, shift = byte & 0x7F, 7
    while shift <= _SIZE_SHIFT_MAX:
        at += 1
        byte = data[at]
        size |= (byte & 0x7F) << shift
        if byte < _SHORT:
            return size, at + 1
        shift += 7
    return len(data), at


@lru_cache(TOPICS_REMEMBERED)
def _topic(data: bytes) -> PlainTopic:
    found = Resource.FromString(data)
    return PlainTopic(found.resource_namespace, found.name)
