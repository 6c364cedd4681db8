"""The properties of a message: the end of its content header.

    properties = flags *value         ; flags: uint16, from bit 15 down, a value for each bit set

The octets are passed on as they came: encoded again, integers could change their width. A broker
looks at few of them, at each message, so `read_envelope` takes only those; `decode` takes all.
Whoever remembers heads (`read_head`) spares most of that.

Source: `rabbit_framing_amqp_0_9_1:decode_properties`; docs/formats/amqp.md.
"""

import msgspec

from sprocket.rabbitmq.codec.amqp.reply_codes import AmqpError, ReplyCode
from sprocket.rabbitmq.codec.amqp.tables import (
    UINT32,
    UINT64,
    check_table,
    decode_table,
    encode_short_string,
    encode_table,
)
from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.model.properties import BasicProperties

NO_PROPERTIES = bytes(2)
"""Those of a message that has none."""

_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE = 1 << 15, 1 << 14, 1 << 13, 1 << 12
_PRIORITY, _CORRELATION_ID, _REPLY_TO, _EXPIRATION = 1 << 11, 1 << 10, 1 << 9, 1 << 8
_MESSAGE_ID, _TIMESTAMP, _TYPE, _USER_ID = 1 << 7, 1 << 6, 1 << 5, 1 << 4
_APP_ID, _CLUSTER_ID = 1 << 3, 1 << 2
# The last two bits say nothing, and nobody looks at them.

_BEFORE_HEADERS = _CONTENT_TYPE | _CONTENT_ENCODING
_BEFORE_EXPIRATION = _CORRELATION_ID | _REPLY_TO
_AFTER_MESSAGE_ID = _TIMESTAMP | _TYPE | _USER_ID | _APP_ID | _CLUSTER_ID
_READ_AFTER_HEAD = _REPLY_TO | _EXPIRATION | _USER_ID


class Envelope(msgspec.Struct, frozen=True):
    """What a broker looks at in the properties of every message."""

    delivery_mode: int | None = None
    priority: int | None = None
    expiration: str | None = None
    """As it was sent: a number of milliseconds, if it is right."""
    reply_to: str | None = None
    user_id: str | None = None
    headers: bytes | None = None
    """The entries of the table, for `decode_table`; None if there is no table."""


def decode(octets: bytes) -> BasicProperties:
    """Return every property. Texts that are not UTF-8 keep their octets as lone surrogates.

    Raises:
        AmqpError: They are not properties.
    """
    reader = _Reader(octets)
    try:
        found = BasicProperties(
            content_type=reader.text(_CONTENT_TYPE),
            content_encoding=reader.text(_CONTENT_ENCODING),
            headers=reader.table(_HEADERS),
            delivery_mode=reader.number(_DELIVERY_MODE, 1),
            priority=reader.number(_PRIORITY, 1),
            correlation_id=reader.text(_CORRELATION_ID),
            reply_to=reader.text(_REPLY_TO),
            expiration=reader.text(_EXPIRATION),
            message_id=reader.text(_MESSAGE_ID),
            timestamp=reader.number(_TIMESTAMP, UINT64.size),
            type=reader.text(_TYPE),
            user_id=reader.text(_USER_ID),
            app_id=reader.text(_APP_ID),
            cluster_id=reader.text(_CLUSTER_ID),
        )
    except IndexError:
        raise _malformed("a value is missing") from None
    if reader.position != len(octets):
        raise _malformed("the last value does not end with them")
    return found


def encode(properties: BasicProperties) -> bytes:
    """Return properties as they go on the wire."""
    flags = 0
    parts = [b""]
    for flag, text in (
        (_CONTENT_TYPE, properties.content_type),
        (_CONTENT_ENCODING, properties.content_encoding),
    ):
        if text is not None:
            flags |= flag
            parts.append(encode_short_string(text))
    if properties.headers is not None:
        flags |= _HEADERS
        parts.append(encode_table(properties.headers))
    for flag, number in (
        (_DELIVERY_MODE, properties.delivery_mode),
        (_PRIORITY, properties.priority),
    ):
        if number is not None:
            flags |= flag
            parts.append(bytes((number,)))
    for flag, text in (
        (_CORRELATION_ID, properties.correlation_id),
        (_REPLY_TO, properties.reply_to),
        (_EXPIRATION, properties.expiration),
        (_MESSAGE_ID, properties.message_id),
    ):
        if text is not None:
            flags |= flag
            parts.append(encode_short_string(text))
    if properties.timestamp is not None:
        flags |= _TIMESTAMP
        parts.append(UINT64.pack(properties.timestamp))
    for flag, text in (
        (_TYPE, properties.type),
        (_USER_ID, properties.user_id),
        (_APP_ID, properties.app_id),
        (_CLUSTER_ID, properties.cluster_id),
    ):
        if text is not None:
            flags |= flag
            parts.append(encode_short_string(text))
    parts[0] = flags.to_bytes(2, "big")
    return b"".join(parts)


def read_envelope(octets: bytes) -> Envelope:
    """Return what a broker looks at, having looked at all: `decode` will not refuse it later.

    It takes a fifth of the time that `decode` takes: 1.4 µs for ten properties and four headers.

    Raises:
        AmqpError: They are not properties.
    """
    return complete(read_head(octets), octets)


class EnvelopeHead(msgspec.Struct, frozen=True, gc=False):
    """The first properties: those up to `priority`, in which messages of one kind are often alike.

    Octets that begin with the same `size` octets have the same ones.
    """

    flags: int
    """Of all properties."""
    size: int
    envelope: Envelope
    """What they say; the rest of it is None."""


def read_head(octets: bytes) -> EnvelopeHead:
    """Return the first properties. Raises AmqpError."""
    headers = priority = mode = None
    try:
        flags = octets[0] << 8 | octets[1]
        at = 2
        if flags & _BEFORE_HEADERS:
            if flags & _CONTENT_TYPE:
                at += 1 + octets[at]
            if flags & _CONTENT_ENCODING:
                at += 1 + octets[at]
        if flags & _HEADERS:
            start = at + UINT32.size
            at = start + int.from_bytes(octets[at:start], "big")
            check_table(octets, start, at)
            headers = octets[start:at]
        if flags & _DELIVERY_MODE:
            mode = octets[at]
            at += 1
        if flags & _PRIORITY:
            priority = octets[at]
            at += 1
    except IndexError:
        raise _malformed("a value is missing") from None
    return EnvelopeHead(flags, at, Envelope(mode, priority, headers=headers))


def complete(head: EnvelopeHead, octets: bytes) -> Envelope:
    """Return what a broker looks at in properties that begin with a head. Raises AmqpError."""
    flags, at = head.flags, head.size
    reply_to = expiration = user_id = None
    try:
        if flags & _BEFORE_EXPIRATION:
            if flags & _CORRELATION_ID:
                at += 1 + octets[at]
            if flags & _REPLY_TO:
                start = at + 1
                at = start + octets[at]
                reply_to = octets[start:at].decode("utf-8", "surrogateescape")
        if flags & _EXPIRATION:
            start = at + 1
            at = start + octets[at]
            expiration = octets[start:at].decode("utf-8", "surrogateescape")
        if flags & _MESSAGE_ID:
            at += 1 + octets[at]
        if flags & _AFTER_MESSAGE_ID:
            if flags & _TIMESTAMP:
                at += UINT64.size
            if flags & _TYPE:
                at += 1 + octets[at]
            if flags & _USER_ID:
                start = at + 1
                at = start + octets[at]
                user_id = octets[start:at].decode("utf-8", "surrogateescape")
            if flags & _APP_ID:
                at += 1 + octets[at]
            if flags & _CLUSTER_ID:
                at += 1 + octets[at]
    except IndexError:
        raise _malformed("a value is missing") from None
    if at != len(octets):
        raise _malformed("the last value does not end with them")
    if not flags & _READ_AFTER_HEAD:
        return head.envelope
    first = head.envelope
    return Envelope(
        first.delivery_mode, first.priority, expiration, reply_to, user_id, first.headers
    )


class _Reader:
    """Takes one value after the other, None for those whose flag is not set."""

    def __init__(self, octets: bytes) -> None:
        if len(octets) < len(NO_PROPERTIES):
            raise _malformed("there are no flags")
        self.position = len(NO_PROPERTIES)
        self._octets = octets
        self._flags = int.from_bytes(octets[: self.position], "big")

    def text(self, flag: int) -> str | None:
        if not self._flags & flag:
            return None
        start = self.position + 1
        self.position = start + self._octets[start - 1]
        return self._octets[start : self.position].decode("utf-8", "surrogateescape")

    def number(self, flag: int, size: int) -> int | None:
        if not self._flags & flag:
            return None
        start, self.position = self.position, self.position + size
        return int.from_bytes(self._octets[start : self.position], "big")

    def table(self, flag: int) -> FieldTable | None:
        if not self._flags & flag:
            return None
        start = self.position + UINT32.size
        self.position = start + int.from_bytes(self._octets[self.position : start], "big")
        return decode_table(self._octets, start, self.position)


def _malformed(why: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"malformed properties: {why}")
