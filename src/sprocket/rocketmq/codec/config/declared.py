"""JSON as structs declare it: one writer and one reader for every body and table entry.

A `msgspec.Struct` names its members on the wire by `rename`; everything else follows from the types
of its fields.

Written: compact, members in the order of their names, those that are None not at all. A map whose
keys are structs has objects for keys, one whose keys are integers bare numbers, both in the order
of the map; one whose keys are texts is sorted, as RocketMQ's library does, unless it is `AS_GIVEN`.
Texts are escaped as that library escapes them. A class may have further members in `written`, the
values of which are constants or are made of the struct.

Read: as tolerantly as `values` reads single values. A member that is absent or null, or an empty
text or map, has its field's default; without one it is 0, false or empty. What must be there is
`REQUIRED`; a class with such a field says in `what` what an error calls it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, structs

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.config import fastjson, values

S = TypeVar("S", bound=Struct)

_Write = Callable[[Any, bool], Any]
"""Makes what msgspec writes of a value; the flag says that integer keys stand in quotes."""
_Read = Callable[[Any, str], Any]
"""Makes a value of what stands under a name."""

TOLERANT_BYTES_MAX = 512 * KIB
"""Largest body of a client that is read if it is not strict JSON; that takes 0.2 s."""

PIECE_BYTES = 16 * KIB
"""How long a piece of a long body is at least, but for the last; some 0.5 ms of work."""

REQUIRED: Final = "required"
"""Marks a field that must be there and not null."""
UNREAD: Final = "unread"
"""Marks a field that is written only; who reads gets the default."""
AS_GIVEN: Final = "as given"
"""Marks a map whose entries keep their order."""


@dataclass(frozen=True, slots=True)
class As:
    """Marks a field that has another type in JSON.

    Attributes:
        type: That in JSON.
        to: Makes it of the field's value.
        back: Makes the field's value of it.
    """

    type: Any
    to: Callable[[Any], Any]
    back: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a text that is one of some names, or their ordinal; others count as absent."""

    names: Sequence[str]

    def read(self, value: Any, name: str) -> str:
        """Return the name, "" for one that is not known. Raises WireError."""
        if isinstance(value, str) and not value.isdecimal():
            return value if value in self.names else ""
        ordinal = values.integer(value, name)
        if not 0 <= ordinal < len(self.names):
            raise WireError(f"{name} is {ordinal}, expected 0 to {len(self.names) - 1}")
        return self.names[ordinal]


def by_name(kind: type[S]) -> As:
    """Mark a list of structs that JSON has as a map by `name`, which they need not say again."""
    return As(
        Mapping[str, kind],  # type: ignore[valid-type]
        lambda found: {one.name: one for one in found},
        lambda table: [
            one if one.name else structs.replace(one, name=name) for name, one in table.items()
        ],
    )


def _plain(value: object) -> object:
    """Return views and other collections as those that msgspec writes."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r} is not a part of a body")


_encode = msgspec.json.Encoder(order="sorted", enc_hook=_plain).encode

_ODD = re.compile(rb"\\(?:u00..|.)|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


def _escaped(data: bytes) -> bytes:
    """Return a text with the escapes of RocketMQ's library: more characters, capital digits."""
    if data.isascii() and b"\\u" not in data and b"\x7f" not in data:
        return data
    return _ODD.sub(_escape, data)


def _escape(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if found[:1] != b"\\":
        return b"\\u%04X" % ord(found.decode())
    return b"\\u" + found[2:].upper() if found[1:2] == b"u" else found


def encode(value: Any, *, quoted: bool = False) -> bytes:
    """Write a struct, or what it may have in it.

    Args:
        value: The struct.
        quoted: Integer keys in quotes, as JSON demands.
    """
    kind: Any = type(value)
    write = _writer(kind)
    return _escaped(_encode(value if write is None else write(value, quoted)))


def encode_pieces(value: Struct) -> Iterator[bytes]:
    """Write a struct in pieces; what its maps hold is looked at when its piece is asked for."""
    return coalesced(_pieces(value))


def coalesced(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces of a body, and escape what is in them; see `fastjson.coalesced`."""
    return map(_escaped, fastjson.coalesced(pieces, PIECE_BYTES))


def _pieces(value: Struct) -> Iterator[bytes]:
    """Yield a struct that has at least one member, its maps entry by entry."""
    mark = b"{"
    for name, get, write in _members(type(value)):
        member = get(value)
        pieces: Iterable[bytes]
        if isinstance(write, _Table):
            pieces = write.pieces(member)
        else:
            fit = member if write is None or member is None else write(member, False)
            if fit is None:
                continue
            pieces = (_encode(fit),)
        yield mark + _encode(name) + b":"
        yield from pieces
        mark = b","
    yield b"}"


def plain(value: Struct) -> dict[str, Any]:
    """Return the members of a struct as files and journals have them, maps in their order."""
    found = cast("dict[str, Any]", msgspec.to_builtins(value, enc_hook=_plain))
    return {
        name: list(one) if isinstance(one, tuple) else one
        for name, one in sorted(found.items())
        if one is not None
    }


def read(kind: type[S], value: Any, what: str, **absent: object) -> S:
    """Read a struct.

    Args:
        kind: Which.
        value: What `fastjson` has read; None is an empty object.
        what: What an error calls it.
        absent: Values of fields that are absent.

    Raises:
        WireError: It is not an object, or a part of it does not fit.
    """
    members = values.mapping(value, what)
    found = absent
    for member, attribute, read_one, is_text, is_required, zero in _read_fields(kind):
        one = members.get(member)
        if one is not None:
            part = read_one(one, member)
            if part or not is_text or (zero and attribute not in found):
                found[attribute] = part
        elif is_required:
            raise WireError(f"{getattr(kind, 'what', what)} without {member}")
        elif zero is not None and attribute not in found:
            found[attribute] = zero()
    return kind(**found)


def decode(kind: type[S], data: bytes) -> S:
    """Read the body of an answer. Raises WireError."""
    what = getattr(kind, "what", kind.__name__)
    return read(kind, read_answer(data, what), what)


def decoder(kind: type[S]) -> Callable[[bytes], S]:
    """Return `decode` for one kind of body."""
    return partial(decode, kind)


def decode_request(kind: type[S], data: bytes) -> S:
    """Read the body of a request. Raises WireError."""
    what = getattr(kind, "what", kind.__name__)
    return read(kind, read_request(data, what), what)


def read_answer(data: bytes, what: str) -> dict[Any, Any]:
    """Read an object that may be long: its sender was asked. Raises WireError."""
    return _object(fastjson.read_large(data), what)


def read_request(data: bytes, what: str) -> dict[Any, Any]:
    """Read an object that a client sends. Raises WireError."""
    return _object(fastjson.read(data, bytes_max=TOLERANT_BYTES_MAX), what)


def _object(body: Any, what: str) -> dict[Any, Any]:
    if not isinstance(body, dict):
        raise WireError(f"the body of {what} is not a JSON object")
    return body


# Writing.


@cache
def _members(kind: type[Struct]) -> list[tuple[str, Callable[[Any], Any], _Write | None]]:
    """Return what is written of a struct, in order: name, what gets it, what makes it fit."""
    found: list[tuple[str, Callable[[Any], Any], _Write | None]] = [
        (field.encode_name, attrgetter(field.name), _writer(field.type))
        for field in structs.fields(kind)
    ]
    for name, one in getattr(kind, "written", {}).items():
        shape: Any = type(one)
        get = one if callable(one) else partial(_constant, one)
        found.append((name, get, _writer(shape)))
    return sorted(found, key=itemgetter(0))


def _constant(value: Any, _: Any) -> Any:
    return value


@cache
def _writer(shape: Any) -> _Write | None:
    """Return what makes values of a type fit for msgspec; None where they are."""
    base, notes = _parts(shape)
    for note in notes:
        if isinstance(note, As):
            return _writer_as(note)
    kind, inner = get_origin(base), get_args(base)
    if _is(base, Struct):
        return _struct_writer(base)
    if _is(kind, Mapping):
        one = _writer(inner[1])
        is_sorted = inner[0] in (str, int) and AS_GIVEN not in notes
        if is_sorted and inner[0] is str and one is None and not _is(inner[1], Struct):
            return None
        return _Table(inner[0], one, is_sorted)
    if _is(kind, Iterable):
        each = _writer(inner[0])
        if each is not None:
            return partial(_write_each, each)
    return None


def _write_each(write: _Write, found: Iterable[Any], quoted: bool) -> list[Any]:
    return [write(one, quoted) for one in found]


def _struct_writer(kind: type[Struct]) -> _Write | None:
    fields = structs.fields(kind)
    if hasattr(kind, "written") or any(_writer(field.type) for field in fields):
        return partial(_write_struct, _members(kind))
    optional = [field.encode_name for field in fields if _is_optional(field.type)]
    return partial(_write_plain, optional) if optional else None


def _write_plain(optional: Sequence[str], value: Any, _: bool) -> Any:
    found = msgspec.to_builtins(value, enc_hook=_plain)
    for name in optional:
        if found[name] is None:
            del found[name]
    return found


def _write_struct(
    members: list[tuple[str, Callable[[Any], Any], _Write | None]], value: Any, quoted: bool
) -> dict[str, Any]:
    found = {}
    for name, get, write in members:
        member = get(value)
        if write is not None and member is not None:
            member = write(member, quoted)
        if member is not None:
            found[name] = member
    return found


def _writer_as(note: As) -> _Write:
    write, to = _writer(note.type), note.to
    if isinstance(write, _Table):
        return replace(write, to=to)
    if write is None:
        return lambda value, _: to(value)
    return lambda value, quoted: write(to(value), quoted)


@dataclass(frozen=True, slots=True)
class _Table:
    """Writes a map, at once or entry by entry."""

    key: Any
    value: _Write | None
    is_sorted: bool
    to: Callable[[Any], Mapping[Any, Any]] = dict

    def __call__(self, table: Any, quoted: bool) -> Any:
        if self.key is str and self.is_sorted:
            found, write = self.to(table), self.value
            return found if write is None else {key: write(found[key], quoted) for key in found}
        return Raw(b"{" + b",".join(self._entries(table, quoted)) + b"}")

    def pieces(self, table: Any) -> Iterator[bytes]:
        """Yield what makes up the object."""
        mark = b"{"
        for entry in self._entries(table, quoted=False):
            yield mark + entry
            mark = b","
        yield b"{}" if mark == b"{" else b"}"

    def _entries(self, given: Any, quoted: bool) -> Iterator[bytes]:
        table, write = self.to(given), self.value
        entries = sorted(table.items()) if self.is_sorted else table.items()
        for key, one in entries:
            name = (b'"%d"' if quoted else b"%d") % key if self.key is int else _encode(key)
            yield name + b":" + _encode(one if write is None else write(one, quoted))


# Reading.


_ReadField = tuple[str, str, _Read, bool, bool, Callable[[], Any] | None]
"""Member, attribute, what reads it; whether it is a text or map that may be empty, and must be
there; what makes its value where it has no default."""


@cache
def _read_fields(kind: type[Struct]) -> list[_ReadField]:
    found: list[_ReadField] = []
    for field in structs.fields(kind):
        base, notes = _parts(field.type)
        if UNREAD in notes:
            continue
        reader = _reader(field.type)
        is_text = base is str or _is(get_origin(base), Mapping)
        may_be_empty = is_text and not _is_optional(field.type)
        zero = int if base is int else partial(reader, None, field.encode_name)
        absent = zero if field.required else None
        is_required = REQUIRED in notes
        found.append((field.encode_name, field.name, reader, may_be_empty, is_required, absent))
    return found


@cache
def _reader(shape: Any) -> _Read:
    """Return what reads a type; it is given None for what is absent, unless that is an int."""
    base, notes = _parts(shape)
    for note in notes:
        if isinstance(note, OneOf):
            return note.read
        if isinstance(note, As):
            inner, back = _reader(note.type), note.back
            return lambda value, name: back(inner(value, name))
    if base in _SCALARS:
        return _SCALARS[base]
    if _is(base, Struct):
        return partial(read, base)
    kind, args = get_origin(base), get_args(base)
    if _is(kind, Mapping):
        return partial(_read_map, _reader(args[0]), _reader(args[1]))
    if _is(kind, Iterable):
        return partial(_read_list, _reader(args[0]), tuple if kind is tuple else list)
    raise TypeError(f"{shape} cannot be read")


def _read_map(key: _Read, one: _Read, value: Any, name: str) -> dict[Any, Any]:
    table = values.mapping(value, name)
    return {key(member, name): one(found, name) for member, found in table.items()}


def _read_list(one: _Read, kind: Callable[[Any], Any], value: Any, name: str) -> Any:
    return kind([one(part, name) for part in values.sequence(value, name)])


_SCALARS: Mapping[Any, _Read] = {
    int: values.integer,
    float: values.fraction,
    str: lambda value, _: values.text(value),
    bool: lambda value, _: values.boolean(value, default=False),
    object: lambda value, _: value,
}


def _is(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _is_optional(shape: Any) -> bool:
    base = get_args(shape)[0] if get_origin(shape) is Annotated else shape
    return NoneType in get_args(base)


def _parts(shape: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without marks and None, and its marks."""
    base = shape
    notes: tuple[Any, ...] = ()
    while True:
        if get_origin(base) is Annotated:
            base, *more = get_args(base)
            notes += tuple(more)
        elif get_origin(base) in (Union, UnionType):
            (base,) = (one for one in get_args(base) if one is not NoneType)
        else:
            return base, notes
