"""How a declared header becomes ext fields (texts by name) and how texts become a header.

A header is a `msgspec.Struct` whose fields are `str`, `bool`, `int` (with its bounds) or
one of these or None, each under its name on the wire. Everything else follows from that:

* reading goes straight from JSON bytes to the struct; msgspec turns `"12"` into 12;
* what msgspec does not take (numbers for texts, `"yes"` for a boolean, null, broken UTF-8) is read
  a second time, slowly, by Java's rules: a number that cannot be read counts as absent, but for the
  codes that RocketMQ reads by hand (`numbers_are_strict`);
* fields are written in the order in which Java's `HashMap` gives them, so that answers are equal to
  RocketMQ's byte for byte;
* writing is a function generated once per header, because a loop over the fields costs three times
  as much on the way of every answer; it makes a struct, which is quicker by half than a table.

Source: `RemotingCommand.makeCustomHeaderToNet` and `decodeCommandCustomHeader`.
"""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, ClassVar, Generic, TypeVar, get_args

import msgspec

from sprocket.base.errors import WireError
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.integers import Int32, Int64

_BITS: Mapping[object, int] = {Int32: 32, Int64: 64}
"""How many bits a number may have, its sign included."""

_INTEGER = re.compile(r"[+-]?\d{1,20}\Z")
"""Digits of any script, as Java takes them."""


class FieldUnreadable(WireError):
    """A header lacks a field that it must have, or a number cannot be read."""


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """The base of all declared headers; names on the wire are camel case unless a field says so."""

    numbers_are_strict: ClassVar[bool] = False
    """Whether a number that cannot be read is an error; else it counts as absent."""
    buckets: ClassVar[int] = 16
    """How large the Java table is that RocketMQ writes the fields from; 256 if its `addExtField`
    made it."""


H = TypeVar("H", bound=Header)


class HeaderCodec(Generic[H]):
    """Both directions of one declared header, built once per type."""

    def __init__(self, kind: type[H]) -> None:
        self._kind = kind
        declared = msgspec.structs.fields(kind)
        self._bases = {field.encode_name: base_type(field.type) for field in declared}
        self._bits = {
            field.encode_name: _BITS.get(_without_none(field.type), 0) for field in declared
        }
        self._required = [field.encode_name for field in declared if field.required]
        self.decode: Callable[[msgspec.Raw], H] = msgspec.json.Decoder(kind, strict=False).decode
        """Read a JSON object. Raises ValueError or RecursionError where `read` must be tried."""
        self.texts: Callable[[H], msgspec.Struct] = _text_maker(kind)
        """Return the texts of a header under their names on the wire, absent fields unset."""

    def write(self, header: H) -> dict[str, str]:
        """Return the texts of a header by their names on the wire, without absent fields."""
        texts: dict[str, str] = msgspec.to_builtins(self.texts(header))
        return texts

    def read(self, ext: Mapping[str, str]) -> H:
        """Read a header from texts, by Java's rules.

        Raises:
            FieldUnreadable: A required field is missing or a number cannot be read.
        """
        if not any("." in text for text in ext.values()):  # msgspec takes 1.0 for a whole number
            with contextlib.suppress(msgspec.ValidationError):
                return msgspec.convert(ext, self._kind, strict=False)
        return self._read_slowly(ext)

    def _read_slowly(self, ext: Mapping[str, str]) -> H:
        values: dict[str, object] = {}
        for name, base in self._bases.items():
            text = ext.get(name)
            if text is None:
                continue
            if base is bool:
                values[name] = text.lower() == "true"
            elif base is str:
                values[name] = text
            else:
                number = _integer(text, self._bits[name])
                if number is not None:
                    values[name] = number
                elif self._kind.numbers_are_strict:
                    raise FieldUnreadable(f"header field {name} is not a number: {text[:64]!r}")
        for name in self._required:
            if name not in values:
                given = ext.get(name)
                what = "is missing" if given is None else f"is not a number: {given[:64]!r}"
                raise FieldUnreadable(f"header field {name} {what}")
        return msgspec.convert(values, self._kind)


_codecs: dict[type[Header], HeaderCodec[Any]] = {}


def codec(kind: type[H]) -> HeaderCodec[H]:
    """Return the codec of a declared header; made at the first use."""
    found = _codecs.get(kind)
    if found is None:
        found = _codecs[kind] = HeaderCodec(kind)
    return found


def java_order(names: Sequence[str], buckets: int = 16) -> list[str]:
    """Return names in the order in which a Java `HashMap` of these keys gives them.

    That is by the lowest bits of their hashes, and among equal ones as they were put in. The table
    doubles its buckets whenever it is three quarters full. Nothing depends on it but that our
    answers look like RocketMQ's.
    """
    while len(names) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        found = hash32(name) & 0xFFFFFFFF
        return (found ^ found >> 16) & (buckets - 1)

    return sorted(names, key=bucket)


def _integer(text: str, bits: int) -> int | None:
    """Read a decimal number as Java does; None if it is not one, or needs more bits."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def _without_none(declared: object) -> object:
    args = get_args(declared)
    return args[0] if NoneType in args else declared


def base_type(declared: object) -> type:
    """Return `str`, `int` or `bool` for a declared field type such as `Int32 | None`."""
    kind = _without_none(declared)
    if kind in _BITS:
        return int
    assert kind is str or kind is bool, f"a header field of type {declared}"
    return kind


_TEXTS = {str: "header.{0}", int: "str(header.{0})", bool: "'true' if header.{0} else 'false'"}
"""The text of a field by its type, as Java's `toString` gives it."""


def _text_maker(kind: type[Header]) -> Callable[[Any], msgspec.Struct]:
    """Generate the function that returns a header's texts, in the order of Java's table."""
    by_name = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    declared = [by_name[name] for name in java_order(list(by_name), kind.buckets)]
    twin = msgspec.defstruct(
        f"{kind.__name__}Texts",
        [(f.name, str | msgspec.UnsetType) for f in declared],
        rename={f.name: f.encode_name for f in declared},
        gc=False,
        frozen=True,
    )
    values = []
    for field in declared:
        value = _TEXTS[base_type(field.type)].format(field.name)
        if NoneType in get_args(field.type):
            value = f"UNSET if header.{field.name} is None else {value}"
        values.append(value)
    source = f"def texts(header):\n return Texts({', '.join(values)})"
    space: dict[str, Any] = {"Texts": twin, "UNSET": msgspec.UNSET}
    exec(source, space)  # noqa: S102 - made of declarations in this package, as dataclasses does
    texts: Callable[[Any], msgspec.Struct] = space["texts"]
    return texts


_JOINED = {
    str: "header.{0}",
    int: "header.{0}",
    bool: '"true" if header.{0} else "false"',
}
"""As `_TEXTS`, between the braces of a longer text; a text that is absent is empty."""


def text_joiner(kind: type[H], without: str) -> Callable[[H], str]:
    """Generate the function that joins a header's texts in the order of their names.

    A number that was not sent counts as its default, which is joined too unless it is None.

    Args:
        kind: The header.
        without: The name of a field that is left out.
    """
    declared = sorted(msgspec.structs.fields(kind), key=lambda field: field.encode_name)
    pieces = []
    for field in declared:
        if field.encode_name == without:
            continue
        base = base_type(field.type)
        text = _JOINED[base].format(field.name)
        if NoneType in get_args(field.type):
            text = f'"" if header.{field.name} is None else {text}'
        pieces.append(f"{{{text}}}")
    space: dict[str, Any] = {}
    exec(f"def joined(header):\n return f'{''.join(pieces)}'", space)  # noqa: S102 - as above
    joined: Callable[[H], str] = space["joined"]
    return joined
