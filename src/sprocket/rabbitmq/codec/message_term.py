"""The term that a message is stored as: RabbitMQ's record `basic_message`.

Encoding a message that was decoded gives the same bytes, if Erlang/OTP 25 or older wrote them. See
docs/formats/rabbitmq-message.md. Source: RabbitMQ 3.10.8 `rabbit_basic`, `rabbit_framing`.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import terms
from sprocket.rabbitmq.codec.terms import Atom, Term
from sprocket.rabbitmq.model.fields import (
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    ScaledInteger,
)
from sprocket.rabbitmq.model.message import AMQP_0_9_1, ID_BYTES, BasicMessage
from sprocket.rabbitmq.model.names import name_bytes, name_text
from sprocket.rabbitmq.model.properties import BasicProperties

CLASS_BASIC = 60
_NONE, _UNDEFINED, _TRUE, _FALSE = map(Atom, ("none", "undefined", "true", "false"))
_MESSAGE, _RESOURCE, _EXCHANGE, _CONTENT, _P_BASIC = map(
    Atom, ("basic_message", "resource", "exchange", "content", "P_basic")
)
_U32 = struct.Struct(">I")
DAMAGED = b"\0"
"""What stands in the place of a term's first byte when it is known not to be what was stored."""

PLAIN_START = b"\x83h\x06d\0\x0dbasic_messageh\x04d\0\x08resourcem"
PLAIN_EXCHANGE = b"d\0\x08exchangem"
LIST = b"l"
BINARY = b"m"
PLAIN_CONTENT = b"h\x06d\0\x07contenta<d\0\x04nonem"
PLAIN_PROTOCOL = b"d\0\x19" + AMQP_0_9_1.encode()
PLAIN_ID = b"m\0\0\0\x10"
_PLAIN_PERSISTENT, _PLAIN_TRANSIENT = b"d\0\x04true", b"d\0\x05false"
PLAIN_PERSISTENCE = {_PLAIN_PERSISTENT: True, _PLAIN_TRANSIENT: False}
_NO_MORE = b"j"
_PLAIN_ONE_FRAGMENT = PLAIN_PROTOCOL + LIST + _U32.pack(1) + BINARY
_PLAIN_END = _NO_MORE + PLAIN_ID
_HEADER_BYTES_ASSUMED = 100
"""What RabbitMQ takes for each header that it would have to encode."""


def decode(data: Buffer) -> BasicMessage:
    """Return the message that a stored term is.

    Raises:
        CorruptRecord: The bytes are not a term, or not that of a message.
    """
    stored = bytes(data)
    try:
        found = _decode_plain(stored)
    except struct.error:
        found = None
    if found is None and stored.startswith(DAMAGED):
        raise CorruptRecord("the message has another checksum")
    return _message(terms.decode(stored)) if found is None else found


class MessageDecoder:
    """Decodes terms one by one; those that begin like the one before take a third of the time."""

    __slots__ = ("_exchange", "_head", "_keys", "_vhost")

    def __init__(self) -> None:
        self._head: bytes | None = None
        """What a plain message of this origin begins with, up to its properties."""
        self._vhost = self._exchange = ""
        self._keys: tuple[str, ...] = ()

    def decode(self, data: bytes) -> BasicMessage:
        """Return the message that a stored term is, as `decode` does. Raises CorruptRecord."""
        head = self._head
        if head is None or not data.startswith(head):
            found = decode(data)
            if isinstance(found.properties, bytes) and found.protocol == AMQP_0_9_1:
                self._head = _plain_head(found)
                self._vhost, self._exchange = found.vhost, found.exchange
                self._keys = found.routing_keys
            return found
        try:
            read_length = _U32.unpack_from
            start = len(head) + 4
            at = start + read_length(data, start - 4)[0]
            properties = data[start:at]
            start = at + len(_PLAIN_ONE_FRAGMENT) + 4
            if not data.startswith(_PLAIN_ONE_FRAGMENT, at):
                return decode(data)
            at = start + read_length(data, start - 4)[0]
            id_at = at + len(_PLAIN_END)
            is_persistent = PLAIN_PERSISTENCE.get(data[id_at + ID_BYTES :])
            if not data.startswith(_PLAIN_END, at) or is_persistent is None:
                return decode(data)
        except struct.error:
            return decode(data)
        return BasicMessage(
            data[id_at : id_at + ID_BYTES],
            self._vhost,
            self._exchange,
            self._keys,
            properties,
            (data[start:at],),
            is_persistent,
        )


def _decode_plain(data: bytes) -> BasicMessage | None:
    """Do as `decode` for the form that nearly all messages have; None if it is another one.

    It takes a fifth of the time: nothing is made of a term but what goes into the message.
    """
    read_length = _U32.unpack_from
    at = len(PLAIN_START)
    if not data.startswith(PLAIN_START):
        return None
    start = at + 4
    at = start + read_length(data, at)[0]
    vhost = data[start:at]
    if not data.startswith(PLAIN_EXCHANGE, at):
        return None
    start = at + len(PLAIN_EXCHANGE) + 4
    at = start + read_length(data, start - 4)[0]
    exchange = data[start:at]
    found = _binaries(data, at)
    if found is None:
        return None
    keys, at = found
    if not data.startswith(PLAIN_CONTENT, at):
        return None
    start = at + len(PLAIN_CONTENT) + 4
    at = start + read_length(data, start - 4)[0]
    properties = data[start:at]
    if not data.startswith(PLAIN_PROTOCOL, at):
        return None
    found = _binaries(data, at + len(PLAIN_PROTOCOL))
    if found is None:
        return None
    fragments, at = found
    if not data.startswith(PLAIN_ID, at):
        return None
    start = at + len(PLAIN_ID)
    at = start + ID_BYTES
    is_persistent = PLAIN_PERSISTENCE.get(data[at:])
    if is_persistent is None:
        return None
    fragments.reverse()
    return BasicMessage(
        data[start:at],
        name_text(vhost),
        name_text(exchange),
        tuple(map(name_text, keys)),
        properties,
        tuple(fragments),
        is_persistent,
    )


def _binaries(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """Return the binaries of a list and where it ends; None if there is no such list."""
    kind = data[at : at + 1]
    if kind == b"j":
        return [], at + 1
    if kind != LIST:
        return None
    (count,) = _U32.unpack_from(data, at + 1)
    at += 5
    found: list[bytes] = []
    for _ in range(count):
        if data[at : at + 1] != BINARY:
            return None
        start = at + 5
        at = start + _U32.unpack_from(data, at + 1)[0]
        found.append(data[start:at])
    return (found, at + 1) if data[at : at + 1] == b"j" else None


def _message(term: Term) -> BasicMessage:
    match term:
        case (
            "basic_message",
            ("resource", bytes(vhost), "exchange", bytes(exchange)),
            list(keys),
            (
                "content",
                60,
                properties,
                encoded,
                Atom() as protocol,
                list(fragments),
            ),
            bytes(message_id),
            "true" | "false" as persistence,
        ) if len(message_id) == ID_BYTES and _are_binaries(keys) and _are_binaries(fragments):
            if isinstance(encoded, bytes):
                held: bytes | BasicProperties = encoded
            elif isinstance(properties, tuple):
                held = properties_of(properties)
            else:
                raise CorruptRecord("a stored message has no properties, not even empty ones")
            return BasicMessage(
                message_id,
                name_text(vhost),
                name_text(exchange),
                tuple(name_text(cast("bytes", key)) for key in keys),
                held,
                tuple(cast("bytes", fragment) for fragment in reversed(fragments)),
                persistence == _TRUE,
                str(protocol) if isinstance(encoded, bytes) else AMQP_0_9_1,
            )
    raise CorruptRecord(f"expected the term of a message, found {_described(term)}")


def _are_binaries(found: list[Term]) -> bool:
    return all(type(one) is bytes for one in found)


def _described(term: Term) -> str:
    if not isinstance(term, tuple) or not term or not isinstance(term[0], Atom):
        return f"one of the type {type(term).__name__}"
    if term[0] == "mc":
        return "one in the form of RabbitMQ 3.13, which is not read"
    return f"{str(term[0])!r} of {len(term)} parts"


def properties_of(term: Term) -> BasicProperties:
    """Return the properties that RabbitMQ's record `P_basic` has.

    Raises:
        CorruptRecord: It is not such a record.
    """
    if not isinstance(term, tuple) or len(term) != 1 + len(_PROPERTIES) or term[0] != _P_BASIC:
        raise CorruptRecord(f"expected typed properties, found {_described(term)}")
    found = {
        name: read(name, value)
        for (name, read), value in zip(_PROPERTIES.items(), term[1:], strict=True)
        if value != _UNDEFINED
    }
    return BasicProperties(**found)  # type: ignore[arg-type]


def _read_text(name: str, term: Term) -> str:
    if not isinstance(term, bytes):
        raise CorruptRecord(f"the property {name} is not a binary: {term!r:.60}")
    return name_text(term)


def _read_number(name: str, term: Term) -> int:
    if not isinstance(term, int):
        raise CorruptRecord(f"the property {name} is not a number: {term!r:.60}")
    return term


def _read_headers(_name: str, term: Term) -> FieldTable:
    return _table(term)


_PROPERTIES: dict[str, Callable[[str, Term], str | int | FieldTable]] = {
    "content_type": _read_text,
    "content_encoding": _read_text,
    "headers": _read_headers,
    "delivery_mode": _read_number,
    "priority": _read_number,
    "correlation_id": _read_text,
    "reply_to": _read_text,
    "expiration": _read_text,
    "message_id": _read_text,
    "timestamp": _read_number,
    "type": _read_text,
    "user_id": _read_text,
    "app_id": _read_text,
    "cluster_id": _read_text,
}
"""In the order of the record."""

_KINDS = {kind.word: kind for kind in FieldKind if kind is not FieldKind.LONG_CAPITAL}


def _table(term: Term) -> FieldTable:
    if not isinstance(term, list):
        raise CorruptRecord(f"expected a table, found {term!r:.60}")
    entries = []
    for entry in term:
        match entry:
            case (bytes(name), Atom() as word, value):
                entries.append((name_text(name), _field(word, value)))
            case _:
                raise CorruptRecord(f"expected name, type and value, found {entry!r:.60}")
    return FieldTable(tuple(entries))


def _field(word: Atom, term: Term) -> Field:
    kind = _KINDS.get(word)
    if kind is None:
        raise CorruptRecord(f"no value has the type {str(word)!r}")
    return Field(kind, _value(kind, term))


def _value(kind: FieldKind, term: Term) -> FieldValue:
    match kind, term:
        case FieldKind.TABLE, list():
            return _table(term)
        case FieldKind.ARRAY, list():
            return tuple(_element(one) for one in term)
        case FieldKind.LONG_STRING | FieldKind.BINARY, bytes():
            return term
        case FieldKind.BOOL, "true" | "false":
            return term == _TRUE
        case FieldKind.VOID, "undefined":
            return None
        case FieldKind.DECIMAL, (int(scale), int(unscaled)):
            return ScaledInteger(scale, unscaled)
        case FieldKind.FLOAT | FieldKind.DOUBLE, float():
            return term
        case _ if kind in _NUMBERS and isinstance(term, int):
            return term
    raise CorruptRecord(f"a value of the type {kind.word} is {term!r:.60}")


_NUMBERS = frozenset(
    (
        *(FieldKind.BYTE, FieldKind.UNSIGNED_BYTE, FieldKind.SHORT, FieldKind.UNSIGNED_SHORT),
        *(FieldKind.SIGNED_INT, FieldKind.UNSIGNED_INT, FieldKind.LONG, FieldKind.TIMESTAMP),
    )
)


def _element(term: Term) -> Field:
    match term:
        case (Atom() as word, value):
            return _field(word, value)
    raise CorruptRecord(f"expected type and value, found {term!r:.60}")


def encode(message: BasicMessage) -> bytes:
    """Return the term that a message is stored as, as Erlang/OTP 25 writes it.

    Raises:
        StoreError: A typed header is a float that Erlang does not have.
    """
    properties = message.properties
    if isinstance(properties, bytes) and message.protocol == AMQP_0_9_1:
        return _encode_plain(message, properties, _plain_head(message))
    if isinstance(properties, bytes):
        how: tuple[Term, ...] = (_NONE, properties, Atom(message.protocol))
    else:
        how = (properties_term(properties), _NONE, _NONE)
    resource = (_RESOURCE, name_bytes(message.vhost), _EXCHANGE, name_bytes(message.exchange))
    keys: list[Term] = [name_bytes(key) for key in message.routing_keys]
    fragments: list[Term] = [*reversed(message.fragments)]
    content = (_CONTENT, CLASS_BASIC, *how, fragments)
    persistence = _TRUE if message.is_persistent else _FALSE
    return terms.encode((_MESSAGE, resource, keys, content, message.id, persistence))


def encode_all(messages: Sequence[BasicMessage]) -> list[bytes]:
    """Return the terms of messages, as `encode` does; those of one origin share its work.

    Raises:
        StoreError: As with `encode`.
    """
    found: list[bytes] = []
    head = b""
    vhost, exchange, keys = None, None, None
    for message in messages:
        properties = message.properties
        if type(properties) is bytes and message.protocol == AMQP_0_9_1:
            if (
                message.routing_keys != keys
                or message.exchange != exchange
                or message.vhost != vhost
            ):
                head = _plain_head(message)
                vhost, exchange, keys = message.vhost, message.exchange, message.routing_keys
            found.append(_encode_plain(message, properties, head))
        else:
            found.append(encode(message))
    return found


def _plain_head(message: BasicMessage) -> bytes:
    """Return what messages of one origin begin with, up to their properties."""
    vhost, exchange = name_bytes(message.vhost), name_bytes(message.exchange)
    parts = [
        PLAIN_START,
        _U32.pack(len(vhost)),
        vhost,
        PLAIN_EXCHANGE,
        _U32.pack(len(exchange)),
        exchange,
    ]
    _put_binaries(tuple(map(name_bytes, message.routing_keys)), parts)
    parts.append(PLAIN_CONTENT)
    return b"".join(parts)


def _encode_plain(message: BasicMessage, properties: bytes, head: bytes) -> bytes:
    """Return the form that nearly all messages have."""
    length = _U32.pack
    fragments = message.fragments
    if len(fragments) == 1:
        body = fragments[0]
        return b"".join(
            (
                head,
                length(len(properties)),
                properties,
                _PLAIN_ONE_FRAGMENT,
                length(len(body)),
                body,
                _PLAIN_END,
                message.id,
                _PLAIN_PERSISTENT if message.is_persistent else _PLAIN_TRANSIENT,
            )
        )
    parts = [head, length(len(properties)), properties, PLAIN_PROTOCOL]
    _put_binaries(fragments[::-1], parts)
    parts += (PLAIN_ID, message.id)
    parts.append(_PLAIN_PERSISTENT if message.is_persistent else _PLAIN_TRANSIENT)
    return b"".join(parts)


def _put_binaries(binaries: tuple[bytes, ...], parts: list[bytes]) -> None:
    if binaries:
        parts += (LIST, _U32.pack(len(binaries)))
        for one in binaries:
            parts += (BINARY, _U32.pack(len(one)), one)
    parts.append(_NO_MORE)


def properties_term(properties: BasicProperties) -> Term:
    """Return RabbitMQ's record `P_basic` of typed properties."""
    values = (getattr(properties, name) for name in _PROPERTIES)
    return (_P_BASIC, *(_UNDEFINED if one is None else _property_term(one) for one in values))


def _property_term(value: str | int | FieldTable) -> Term:
    if isinstance(value, FieldTable):
        return _table_term(value)
    return name_bytes(value) if isinstance(value, str) else value


def _table_term(table: FieldTable) -> Term:
    return [(name_bytes(name), Atom(field.kind.word), _value_term(field)) for name, field in table]


def _value_term(field: Field) -> Term:
    kind, value = field
    if isinstance(value, FieldTable):
        return _table_term(value)
    if value is None:
        return _UNDEFINED
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, ScaledInteger):
        return (value.scale, value.unscaled)
    if isinstance(value, tuple):
        return [(Atom(one.kind.word), _value_term(one)) for one in value]
    return float(value) if kind in (FieldKind.FLOAT, FieldKind.DOUBLE) else value


def is_embedded(message: BasicMessage, bytes_below: int) -> bool:
    """Say whether a message lies in the index: body and properties have fewer bytes than that.

    Larger ones lie once in the message store.

    Source: RabbitMQ 3.10.8 `rabbit_variable_queue:determine_persist_to`.
    """
    size = sum(map(len, message.fragments))
    properties = message.properties
    if isinstance(properties, bytes):
        return size + len(properties) < bytes_below
    headers = properties.headers
    assumed = 0 if headers is None else _HEADER_BYTES_ASSUMED * len(headers)
    return size < bytes_below and size + assumed < bytes_below


def are_plain(messages: Iterable[BasicMessage], bytes_below: int) -> bool:
    """Say whether all are embedded, with properties as they came: no term of one can be wrong."""
    for one in messages:
        properties = one.properties
        if not isinstance(properties, bytes):
            return False
        if one.body_size + len(properties) >= bytes_below:
            return False
    return True
