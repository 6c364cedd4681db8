"""Field tables and arrays on the wire, to values and back, octet for octet.

    table = size *(name value)        ; size: uint32, octets of what follows
    name  = shortstr
    array = size *value
    value = sign form                 ; the sign of a `FieldKind`

Invariants

1. A table that was decoded is encoded to the same octets, but for a boolean that is neither 0
   nor 1.
2. Whatever the octets, they give a table or an `AmqpError`, of no more values than octets, and
   nested no deeper than `DEPTH_MAX`.

Source: `rabbit_binary_parser`, `rabbit_binary_generator`; docs/formats/amqp.md.
"""

import math
import struct
from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar

from sprocket.rabbitmq.codec.amqp.reply_codes import AmqpError, ReplyCode, numbers_text
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger

DEPTH_MAX: Final = 100
"""Tables and arrays in each other; RabbitMQ has no limit but the frame's."""
SHORT_STRING_MAX: Final = 255
UINT32 = Struct(">I")
UINT64 = Struct(">Q")

T = TypeVar("T")

_FIXED: dict[FieldKind, Struct] = {
    FieldKind.BOOL: Struct(">B"),
    FieldKind.BYTE: Struct(">b"),
    FieldKind.UNSIGNED_BYTE: Struct(">B"),
    FieldKind.SHORT: Struct(">h"),
    FieldKind.UNSIGNED_SHORT: Struct(">H"),
    FieldKind.SIGNED_INT: Struct(">i"),
    FieldKind.UNSIGNED_INT: UINT32,
    FieldKind.LONG: Struct(">q"),
    FieldKind.LONG_CAPITAL: Struct(">q"),
    FieldKind.FLOAT: Struct(">f"),
    FieldKind.DOUBLE: Struct(">d"),
    FieldKind.TIMESTAMP: UINT64,
}
_SCALED = Struct(">BI")
_BY_SIGN: dict[int, tuple[FieldKind, Struct]] = {
    ord(kind.value): (kind, form) for kind, form in _FIXED.items()
}
FIXED_BYTES: dict[int, int] = {
    **{sign: form.size for sign, (_, form) in _BY_SIGN.items()},
    ord("D"): _SCALED.size,
    ord("V"): 0,
}
"""Octets of a value after its sign, where they do not depend on the value."""
_STRING = ord(FieldKind.LONG_STRING.value)
_BINARY = ord(FieldKind.BINARY.value)
_ARRAY = ord(FieldKind.ARRAY.value)
_TABLE = ord(FieldKind.TABLE.value)
_DECIMAL = ord(FieldKind.DECIMAL.value)
_SIZED_KINDS = {_STRING, _BINARY, _ARRAY, _TABLE}
_VOID = ord(FieldKind.VOID.value)
_BOOL = ord(FieldKind.BOOL.value)
_FLOATS = {ord(FieldKind.FLOAT.value), ord(FieldKind.DOUBLE.value)}
_VOID_FIELD = Field(FieldKind.VOID, None)


def decode_table(data: bytes, start: int, end: int) -> FieldTable:
    """Return the table whose entries are `data[start:end]`, without the size before them.

    Raises:
        AmqpError: They are not entries.
    """
    return _read(_entries, data, start, end)


def check_table(data: bytes, start: int, end: int) -> None:
    """Do as `decode_table`, but make no values.

    Raises:
        AmqpError: `decode_table` would.
    """
    _read(_checked, data, start, end)


def encode_table(table: FieldTable) -> bytes:
    """Return a table with its size before it."""
    parts: list[bytes] = []
    for name, field in table.entries:
        parts.append(encode_short_string(name))
        _write(field, parts)
    return _sized(parts)


def encode_array(fields: tuple[Field, ...]) -> bytes:
    """Return an array with its size before it."""
    parts: list[bytes] = []
    for field in fields:
        _write(field, parts)
    return _sized(parts)


def encode_short_string(text: str) -> bytes:
    """Return a text of at most 255 octets with its size before it."""
    octets = text.encode("utf-8", "surrogateescape")
    assert len(octets) <= SHORT_STRING_MAX, f"a short string of {len(octets)} octets"
    return bytes((len(octets),)) + octets


def _read(read: Callable[[bytes, int, int, int], T], data: bytes, start: int, end: int) -> T:
    if end > len(data):
        raise _malformed("it does not end with its frame")
    try:
        return read(data, start, end, 0)
    except (struct.error, IndexError):  # a value goes on beyond all that was read
        raise _malformed("a value does not end with its table") from None


def _malformed(why: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"malformed field table: {why}")


def _entries(data: bytes, at: int, end: int, depth: int) -> FieldTable:
    entries: list[tuple[str, Field]] = []
    while at < end:
        name_end = at + 1 + data[at]
        if name_end >= end:
            raise _malformed("a name does not end with its table")
        name = data[at + 1 : name_end].decode("utf-8", "surrogateescape")
        field, at = _value(data, name_end, end, depth)
        entries.append((name, field))
    return FieldTable(tuple(entries))


def _items(data: bytes, at: int, end: int, depth: int) -> tuple[Field, ...]:
    fields: list[Field] = []
    while at < end:
        field, at = _value(data, at, end, depth)
        fields.append(field)
    return tuple(fields)


def _value(data: bytes, at: int, end: int, depth: int) -> tuple[Field, int]:
    """Return the value whose sign is at a position, and where the next one begins."""
    sign = data[at]
    at += 1
    size = FIXED_BYTES.get(sign)
    if size is None:
        if sign not in _SIZED_KINDS:
            # RabbitMQ has no clause for it: that is its own error, not the client's.
            what = f"no type has the sign {numbers_text(bytes((sign,)))}"
            raise AmqpError(ReplyCode.INTERNAL_ERROR, f"malformed field table: {what}")
        (size,) = UINT32.unpack_from(data, at)
        at += UINT32.size
    final = at + size
    if final > end:
        raise _malformed("a value does not end with its table")
    if sign == _STRING:
        return Field(FieldKind.LONG_STRING, data[at:final]), final
    known = _BY_SIGN.get(sign)
    if known is not None:
        kind, form = known
        (value,) = form.unpack_from(data, at)
        if sign == _BOOL:
            return Field(kind, value != 0), final
        if sign in _FLOATS and not math.isfinite(value):
            raise _malformed(f"a {kind.word} that is not a number")
        return Field(kind, value), final
    if sign == _VOID:
        return _VOID_FIELD, final
    if sign == _DECIMAL:
        return Field(FieldKind.DECIMAL, ScaledInteger(*_SCALED.unpack_from(data, at))), final
    if sign == _BINARY:
        return Field(FieldKind.BINARY, data[at:final]), final
    if depth == DEPTH_MAX:
        raise _malformed(f"nested deeper than {DEPTH_MAX}")
    if sign == _TABLE:
        return Field(FieldKind.TABLE, _entries(data, at, final, depth + 1)), final
    return Field(FieldKind.ARRAY, _items(data, at, final, depth + 1)), final


def _checked(data: bytes, at: int, end: int, depth: int) -> None:
    while at < end:
        name_end = at + 1 + data[at]
        if name_end >= end:
            raise _malformed("a name does not end with its table")
        sign = data[name_end]
        if sign == _STRING:
            (size,) = UINT32.unpack_from(data, name_end + 1)
            at = name_end + 5 + size
        elif (known := FIXED_BYTES.get(sign)) is not None and sign not in _FLOATS:
            at = name_end + 1 + known
        else:
            _, at = _value(data, name_end, end, depth)
    if at != end:
        raise _malformed("a value does not end with its table")


def _write(field: Field, parts: list[bytes]) -> None:
    kind, value = field
    sign = kind.value.encode()
    form = _FIXED.get(kind)
    if form is not None:
        parts += (sign, form.pack(value))
    elif isinstance(value, bytes):
        parts += (sign, UINT32.pack(len(value)), value)
    elif isinstance(value, FieldTable):
        parts += (sign, encode_table(value))
    elif isinstance(value, ScaledInteger):
        parts += (sign, _SCALED.pack(*value))
    elif isinstance(value, tuple):
        parts += (sign, encode_array(value))
    else:
        assert kind is FieldKind.VOID, f"a {kind.word} of {value!r}"
        parts.append(sign)


def _sized(parts: list[bytes]) -> bytes:
    octets = b"".join(parts)
    return UINT32.pack(len(octets)) + octets
