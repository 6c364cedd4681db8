"""What a node knows of users, virtual hosts and what is in them, as bytes: a snapshot and lines.

    snapshot = object LF crc LF
    object   = JSON: version, sequence, entries
    crc      = decimal                    ; CRC-32 of the bytes of object
    entry    = JSON object with the member `kind`
    line     = '[' sequence ',' gone ',' put ']'    ; arrays of entries, see base.tables.journal

An entry stands for itself, so a line may be applied twice. One that is gone is written as it was.
Arguments are the octets that AMQP has for a table, so that they keep their types.

Source: docs/formats/rabbitmq-metadata.md.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, Union

import msgspec
from msgspec import Struct, defstruct

from sprocket.base.checksum import crc32
from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec.amqp import tables
from sprocket.rabbitmq.codec.entities import BINDING, EXCHANGE, QUEUE, TABLES, Entity
from sprocket.rabbitmq.model.binding import Binding, Destination
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost

VERSION: Final = 1

Key: TypeAlias = tuple[Hashable, ...]

_PIECE_ENTRIES = 128
_TABLE_SIZE_BYTES = 4


class Change(Struct, frozen=True):
    """One line: what no longer exists, and then what does."""

    sequence: int
    gone: tuple[Entity, ...]
    put: tuple[Entity, ...]


def key(entity: Entity) -> Key:
    """Return what an entity is known by, in its virtual host if it is in one."""
    return type(entity), _KEYS[type(entity)](entity)


def vhost_of(entity: Entity) -> str | None:
    """Return the virtual host that an entity is in and goes with; None if it is the node's."""
    if isinstance(entity, Vhost | RemovedVhost | User | GlobalParameter):
        return None
    return entity.vhost


class _Kept(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """An entity as it is in JSON: the member `entity`, or its fields if it has arguments."""


class _Exchange(_Kept, tag=EXCHANGE.kind, frozen=True):
    vhost: str
    name: str
    type: str
    is_durable: bool = False
    is_auto_delete: bool = False
    is_internal: bool = False
    arguments: bytes = b""


class _Queue(_Kept, tag=QUEUE.kind, frozen=True):
    vhost: str
    name: str
    is_durable: bool = False
    is_auto_delete: bool = False
    arguments: bytes = b""


class _Binding(_Kept, tag=BINDING.kind, frozen=True):
    vhost: str
    source: str
    destination_kind: ResourceKind
    destination: str
    key: str = ""
    arguments: bytes = b""


class _Nested(_Kept, frozen=True):
    entity: Entity


_FLAT = {Exchange, DeclaredQueue, Binding}
_NESTED = {
    one.entity: defstruct(one.kind, [("entity", one.entity)], bases=(_Nested,), tag=one.kind)
    for one in TABLES
    if one.entity not in _FLAT
}
_KEYS = {one.entity: one.key for one in TABLES}
if TYPE_CHECKING:
    _AnyKept: TypeAlias = _Nested | _Exchange | _Queue | _Binding
else:
    _AnyKept = Union[*_NESTED.values(), _Exchange, _Queue, _Binding]


class _Snapshot(Struct, frozen=True):
    version: int
    sequence: int
    entries: tuple[_AnyKept, ...]


_decode_line = msgspec.json.Decoder(tuple[int, tuple[_AnyKept, ...], tuple[_AnyKept, ...]]).decode
_decode_snapshot = msgspec.json.Decoder(_Snapshot).decode
_encode = msgspec.json.Encoder().encode


def members(gone: Iterable[Entity], put: Iterable[Entity]) -> tuple[object, object]:
    """Return what a line has after its sequence, as values that become JSON."""
    return [_kept(one) for one in gone], [_kept(one) for one in put]


def decode_line(line: bytes) -> tuple[int, Change]:
    """Return a line, after its sequence.

    Raises:
        ValueError: It is not a line.
    """
    try:
        sequence, gone, put = _decode_line(line)
        return sequence, Change(sequence, _entities(gone), _entities(put))
    except WireError as error:
        raise ValueError(str(error)) from error


def encode_snapshot(sequence: int, entities: Sequence[Entity]) -> Iterator[bytes]:
    """Give a snapshot in small pieces.

    Args:
        sequence: Of the last line that it covers.
        entities: All; they do not change.
    """
    head = b'{"version":%d,"sequence":%d,"entries":[' % (VERSION, sequence)
    crc = crc32(head)
    yield head
    for start in range(0, len(entities), _PIECE_ENTRIES):
        some = entities[start : start + _PIECE_ENTRIES]
        piece = b",\n".join(_encode(_kept(one)) for one in some)
        piece = b",\n" + piece if start else piece
        crc = crc32(piece, crc)
        yield piece
    tail = b"]}"
    yield b"%b\n%d\n" % (tail, crc32(tail, crc))


def decode_snapshot(data: bytes) -> tuple[int, tuple[Entity, ...]]:
    """Return the sequence of the last line that a snapshot covers, and what is in it.

    Raises:
        WireError: It is damaged, or of a later version.
    """
    content, _, end = data.rpartition(b"\n")[0].rpartition(b"\n")
    if not end.isdigit() or int(end) != crc32(content):
        raise WireError("the checksum is wrong")
    try:
        found = _decode_snapshot(content)
    except msgspec.MsgspecError as error:
        raise WireError(f"it cannot be read: {error}") from error
    if found.version != VERSION:
        raise WireError(f"it is of version {found.version}, this is {VERSION}")
    return found.sequence, _entities(found.entries)


def _kept(entity: Entity) -> Struct:
    match entity:
        case Exchange():
            return _Exchange(
                vhost=entity.vhost,
                name=entity.name,
                type=entity.type,
                is_durable=entity.is_durable,
                is_auto_delete=entity.is_auto_delete,
                is_internal=entity.is_internal,
                arguments=_octets(entity.arguments),
            )
        case DeclaredQueue():
            return _Queue(
                vhost=entity.vhost,
                name=entity.name,
                is_durable=entity.is_durable,
                is_auto_delete=entity.is_auto_delete,
                arguments=_octets(entity.arguments),
            )
        case Binding():
            return _Binding(
                vhost=entity.vhost,
                source=entity.source,
                destination_kind=entity.destination.kind,
                destination=entity.destination.name,
                key=entity.key,
                arguments=_octets(entity.arguments),
            )
        case _:
            return _NESTED[type(entity)](entity=entity)


def _entities(found: Iterable[_AnyKept]) -> tuple[Entity, ...]:
    return tuple(_entity(one) for one in found)


def _entity(kept: _AnyKept) -> Entity:
    match kept:
        case _Exchange():
            return Exchange(
                vhost=kept.vhost,
                name=kept.name,
                type=kept.type,
                is_durable=kept.is_durable,
                is_auto_delete=kept.is_auto_delete,
                is_internal=kept.is_internal,
                arguments=_table(kept.arguments),
            )
        case _Queue():
            return DeclaredQueue(
                vhost=kept.vhost,
                name=kept.name,
                is_durable=kept.is_durable,
                is_auto_delete=kept.is_auto_delete,
                arguments=_table(kept.arguments),
            )
        case _Binding():
            return Binding(
                vhost=kept.vhost,
                source=kept.source,
                destination=Destination(kept.destination_kind, kept.destination),
                key=kept.key,
                arguments=_table(kept.arguments),
            )
        case _Nested():
            return kept.entity


def _octets(arguments: FieldTable) -> bytes:
    return tables.encode_table(arguments)[_TABLE_SIZE_BYTES:] if len(arguments) else b""


def _table(octets: bytes) -> FieldTable:
    return tables.decode_table(octets, 0, len(octets)) if octets else NO_FIELDS
