"""Erlang's external term format, as far as RabbitMQ's files use it.

A stored term is the byte 131, then one term. Integers, floats, binaries, lists and tuples are
Python's `int`, `float`, `bytes`, `list` and `tuple`; the rest has a class here.

Invariants

1. Encoding what was decoded gives the same bytes, for every term that a server stored: of several
   forms that a value could have, `encode` takes the one that Erlang's `term_to_binary` takes.
   Atoms, whose form depends on the release, are of another class in each form.
2. Any bytes give a term or `CorruptRecord`. Nothing is made for a count that the bytes left could
   not hold; nesting and the number of terms in one are limited.

Source: Erlang/OTP, "External Term Format".
"""

import math
import struct
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord, StoreError

VERSION = 131
"""What each stored term begins with."""
DEPTH_MAX = 256
"""Lists and tuples inside one another; a table in the headers of a message is two."""
TERMS_MAX = 1 << 22
"""Parts of one term: a body of 4 MiB that came in frames of one byte still fits."""

_NEW_FLOAT, _PID, _REFERENCE, _SMALL_INTEGER, _INTEGER = 70, 88, 90, 97, 98
_ATOM, _SMALL_TUPLE, _LARGE_TUPLE, _NIL, _STRING, _LIST, _BINARY, _SMALL_BIG = (
    *(100, 104, 105, 106, 107),
    *(108, 109, 110),
)
_SMALL_ATOM, _MAP, _UTF8_ATOM, _SMALL_UTF8_ATOM = 115, 116, 118, 119

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_DOUBLE = struct.Struct(">d")
_STRING_MAX = 65535
"""Longer lists of bytes are written as lists."""


class Atom(str):
    """An atom, in the form that Erlang/OTP 25 and older write: Latin-1, a length of two bytes."""

    __slots__ = ()


class Utf8Atom(Atom):
    """An atom in the form of Erlang/OTP 26 and later; it equals the other of the same text."""

    __slots__ = ()


class TermMap(Struct, frozen=True):
    """A map, in the order in which it was written."""

    pairs: "tuple[tuple[Term, Term], ...]"


class Pid(Struct, frozen=True):
    """A process; it may have ended."""

    node: Atom
    rest: bytes
    """Number, serial and creation: 12 bytes."""


class Reference(Struct, frozen=True):
    """A reference; its node may have stopped."""

    node: Atom
    creation: int
    numbers: bytes
    """4 bytes each."""


Term: TypeAlias = (
    "int | float | bytes | Atom | list[Term] | tuple[Term, ...] | TermMap | Pid | Reference"
)
"""Any term that occurs in RabbitMQ's files."""


def decode(data: Buffer) -> Term:
    """Return the one term that `data` holds.

    Raises:
        CorruptRecord: It is not one whole term, or one beyond the limits.
    """
    reader = _Reader(bytes(data))
    if not reader.data or reader.data[0] != VERSION:
        found = reader.data[:1].hex() or "nothing"
        raise CorruptRecord(f"a term begins with {VERSION:02x}, found {found}")
    try:
        term = reader.term(0)
    except (IndexError, struct.error):
        raise CorruptRecord(f"a term ends inside a value, after {len(reader.data)} bytes") from None
    if reader.at != len(reader.data):
        raise CorruptRecord(f"{len(reader.data) - reader.at} bytes behind a term")
    return term


class _Reader:
    """Reads one term after the other; its callers turn an IndexError into their own error."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 1
        self.left = TERMS_MAX

    def term(self, depth: int) -> Term:
        return self.terms(1, depth)[0]

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def u16(self) -> int:
        self.at += 2
        return _U16.unpack_from(self.data, self.at - 2)[0]  # type: ignore[no-any-return]

    def u32(self) -> int:
        self.at += 4
        return _U32.unpack_from(self.data, self.at - 4)[0]  # type: ignore[no-any-return]

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise IndexError
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def terms(self, count: int, depth: int) -> "list[Term]":
        """Read that many terms, which lie `depth` deep."""
        if count > len(self.data) - self.at:  # each takes a byte at least
            raise IndexError
        if depth > DEPTH_MAX:
            raise CorruptRecord(f"terms are nested more than {DEPTH_MAX} deep")
        self.left -= count
        if self.left < 0:
            raise CorruptRecord(f"more than {TERMS_MAX} terms in one")
        found = []
        for _ in range(count):
            tag = self.data[self.at]
            self.at += 1
            read = _READERS.get(tag)
            if read is None:
                raise CorruptRecord(f"no term has the tag {tag}, at byte {self.at - 1}")
            found.append(read(self, depth + 1))
        return found

    def node(self) -> Atom:
        """Read the name of a node."""
        read = _ATOM_READERS.get(self.byte())
        if read is None:
            raise CorruptRecord(f"the name of a node is not an atom, at byte {self.at - 1}")
        return read(self)


def _small_integer(reader: _Reader, _depth: int) -> Term:
    return reader.byte()


def _integer(reader: _Reader, _depth: int) -> Term:
    reader.at += 4
    return _I32.unpack_from(reader.data, reader.at - 4)[0]  # type: ignore[no-any-return]


def _small_big(reader: _Reader, _depth: int) -> Term:
    size, sign = reader.byte(), reader.byte()
    if sign > 1:
        raise CorruptRecord(f"the sign of a number is 0 or 1, found {sign}")
    magnitude = int.from_bytes(reader.take(size), "little")
    return -magnitude if sign else magnitude


def _float(reader: _Reader, _depth: int) -> Term:
    (value,) = _DOUBLE.unpack(reader.take(8))
    if not math.isfinite(value):
        raise CorruptRecord(f"Erlang has no float {value}")
    return float(value)


def _atom(reader: _Reader, _depth: int = 0) -> Atom:
    return Atom(reader.take(reader.u16()).decode("latin-1"))


def _small_atom(reader: _Reader, _depth: int = 0) -> Atom:
    return Atom(reader.take(reader.byte()).decode("latin-1"))


def _utf8_atom(reader: _Reader, _depth: int = 0) -> Atom:
    return _atom_of(reader.take(reader.u16()))


def _small_utf8_atom(reader: _Reader, _depth: int = 0) -> Atom:
    return _atom_of(reader.take(reader.byte()))


def _atom_of(data: bytes) -> Atom:
    try:
        return Utf8Atom(data.decode())
    except UnicodeDecodeError:
        raise CorruptRecord(f"the text of an atom is not UTF-8: {data[:20].hex()}") from None


def _small_tuple(reader: _Reader, depth: int) -> Term:
    return tuple(reader.terms(reader.byte(), depth))


def _large_tuple(reader: _Reader, depth: int) -> Term:
    return tuple(reader.terms(reader.u32(), depth))


def _nil(_reader: _Reader, _depth: int) -> Term:
    return []


def _string(reader: _Reader, _depth: int) -> Term:
    return list(reader.take(reader.u16()))


def _list(reader: _Reader, depth: int) -> Term:
    found = reader.terms(reader.u32(), depth)
    if reader.byte() != _NIL:
        raise CorruptRecord(f"a list does not end with an empty one, before byte {reader.at}")
    return found


def _binary(reader: _Reader, _depth: int) -> Term:
    return reader.take(reader.u32())


def _map(reader: _Reader, depth: int) -> Term:
    found = reader.terms(2 * reader.u32(), depth)
    return TermMap(tuple(zip(found[::2], found[1::2], strict=True)))


def _pid(reader: _Reader, _depth: int) -> Term:
    return Pid(reader.node(), reader.take(12))


def _reference(reader: _Reader, _depth: int) -> Term:
    count = reader.u16()
    return Reference(reader.node(), reader.u32(), reader.take(4 * count))


_ATOM_READERS: dict[int, Callable[[_Reader], Atom]] = {
    _ATOM: _atom,
    _SMALL_ATOM: _small_atom,
    _UTF8_ATOM: _utf8_atom,
    _SMALL_UTF8_ATOM: _small_utf8_atom,
}
_READERS: dict[int, Callable[[_Reader, int], Term]] = {
    _NEW_FLOAT: _float,
    _PID: _pid,
    _REFERENCE: _reference,
    _SMALL_INTEGER: _small_integer,
    _INTEGER: _integer,
    _ATOM: _atom,
    _SMALL_TUPLE: _small_tuple,
    _LARGE_TUPLE: _large_tuple,
    _NIL: _nil,
    _STRING: _string,
    _LIST: _list,
    _BINARY: _binary,
    _SMALL_BIG: _small_big,
    _SMALL_ATOM: _small_atom,
    _MAP: _map,
    _UTF8_ATOM: _utf8_atom,
    _SMALL_UTF8_ATOM: _small_utf8_atom,
}


def encode(term: Term) -> bytes:
    """Return the stored form of a term, as `term_to_binary` makes it.

    Integers have at most 255 bytes, atoms at most 255 characters.

    Raises:
        StoreError: There is a float in it that Erlang does not have: an infinity or no number.
    """
    parts = [bytes((VERSION,))]
    _write(term, parts.append)
    return b"".join(parts)


def _write(term: Term, put: Callable[[bytes], None]) -> None:
    if isinstance(term, bytes):
        put(_head(_BINARY, _U32, len(term)))
        put(term)
    elif isinstance(term, Atom):
        _write_atom(term, put)
    elif isinstance(term, tuple):
        is_small = len(term) <= 255
        put(bytes((_SMALL_TUPLE, len(term))) if is_small else _head(_LARGE_TUPLE, _U32, len(term)))
        for one in term:
            _write(one, put)
    elif isinstance(term, list):
        _write_list(term, put)
    elif isinstance(term, int):
        _write_integer(term, put)
    elif isinstance(term, float):
        if not math.isfinite(term):
            raise StoreError(f"Erlang has no float {term}")
        put(bytes((_NEW_FLOAT,)) + _DOUBLE.pack(term))
    elif isinstance(term, TermMap):
        put(_head(_MAP, _U32, len(term.pairs)))
        for name, value in term.pairs:
            _write(name, put)
            _write(value, put)
    elif isinstance(term, Pid):
        put(bytes((_PID,)))
        _write_atom(term.node, put)
        put(term.rest)
    else:
        put(_head(_REFERENCE, _U16, len(term.numbers) // 4))
        _write_atom(term.node, put)
        put(_U32.pack(term.creation) + term.numbers)


def _head(tag: int, length: struct.Struct, count: int) -> bytes:
    return bytes((tag,)) + length.pack(count)


def _write_atom(atom: Atom, put: Callable[[bytes], None]) -> None:
    if isinstance(atom, Utf8Atom):
        text = atom.encode()
        is_small = len(text) <= 255
        put(
            bytes((_SMALL_UTF8_ATOM, len(text))) if is_small else _head(_UTF8_ATOM, _U16, len(text))
        )
    else:
        text = atom.encode("latin-1")
        put(_head(_ATOM, _U16, len(text)))
    put(text)


def _write_list(terms: "list[Term]", put: Callable[[bytes], None]) -> None:
    if not terms:
        put(bytes((_NIL,)))
        return
    if len(terms) <= _STRING_MAX and all(type(one) is int and 0 <= one <= 255 for one in terms):
        put(_head(_STRING, _U16, len(terms)))
        put(bytes(terms))  # type: ignore[arg-type]
        return
    put(_head(_LIST, _U32, len(terms)))
    for one in terms:
        _write(one, put)
    put(bytes((_NIL,)))


def _write_integer(value: int, put: Callable[[bytes], None]) -> None:
    if 0 <= value <= 255:
        put(bytes((_SMALL_INTEGER, value)))
    elif -(1 << 31) <= value < 1 << 31:
        put(bytes((_INTEGER,)) + _I32.pack(value))
    else:
        size = (abs(value).bit_length() + 7) // 8
        assert size <= 255, "no number of a server has so many digits"
        put(bytes((_SMALL_BIG, size, value < 0)) + abs(value).to_bytes(size, "little"))
