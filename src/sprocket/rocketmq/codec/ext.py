"""How a declared header becomes ext fields (texts by name) and how texts become a header.

A header is a `msgspec.Struct` whose fields are `str`, `bool`, `int` (with its bounds) or
one of these or None, each under its name on the wire. Everything else follows from that:

* reading goes straight from JSON bytes to the struct; msgspec turns `"12"` into 12;
* what msgspec does not take (numbers for texts, `"yes"` for a boolean, null, broken UTF-8) is read
  a second time, slowly, by Java's rules;
* writing is a function generated once per header, because a loop over the fields costs three times
  as much on the way of every answer.

Source: `RemotingCommand.makeCustomHeaderToNet` and `decodeCommandCustomHeader`.
"""

import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.codes import ResponseCode

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}\Z")


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """The base of all declared headers; names on the wire are camel case unless a field says so."""

    unparsable_is_absent: ClassVar[bool] = False
    """Whether a number that cannot be read counts as absent, as RocketMQ has it for some codes."""


H = TypeVar("H", bound=Header)


class HeaderCodec(Generic[H]):
    """Both directions of one declared header, built once per type.

    Args:
        kind: The declared header.
    """

    def __init__(self, kind: type[H]) -> None:
        self._kind = kind
        self._bases = {
            field.encode_name: _base_type(field.type) for field in msgspec.structs.fields(kind)
        }
        self._required = [f.encode_name for f in msgspec.structs.fields(kind) if f.required]
        self.decode: Callable[[msgspec.Raw], H] = msgspec.json.Decoder(kind, strict=False).decode
        """Read a JSON object. Raises ValueError or RecursionError where `read` must be tried."""
        self.write: Callable[[H], dict[str, str]] = _writer(kind)
        """Return the texts of a header by their names on the wire, without absent fields."""
        self.texts: Callable[[H], msgspec.Struct] = _text_maker(kind)
        """Return what `write` does, as a struct for `msgspec.json`: half the time of a table."""

    def read(self, ext: Mapping[str, str]) -> H:
        """Read a header from texts, by Java's rules.

        Raises:
            RequestRefused: SYSTEM_ERROR; a required field is missing or a number is none.
        """
        try:
            return msgspec.convert(ext, self._kind, strict=False)
        except msgspec.ValidationError:
            return self._read_slowly(ext)

    def _read_slowly(self, ext: Mapping[str, str]) -> H:
        values: dict[str, object] = {}
        for name, base in self._bases.items():
            text = ext.get(name)
            if text is None:
                continue
            if base is bool:
                values[name] = text.lower() == "true"
            elif base is int and not _INTEGER.match(text):
                if not self._kind.unparsable_is_absent:
                    raise _refused(f"header field {name} is no number: {text[:64]!r}")
            else:
                values[name] = int(text) if base is int else text
        for name in self._required:
            if name not in values:
                raise _refused(f"header field {name} is missing")
        try:
            return msgspec.convert(values, self._kind)
        except msgspec.ValidationError as wrong:
            raise _refused(f"header field out of range: {wrong}") from wrong


_codecs: dict[type[Header], HeaderCodec[Any]] = {}


def codec(kind: type[H]) -> HeaderCodec[H]:
    """Return the codec of a declared header; made at the first use."""
    found = _codecs.get(kind)
    if found is None:
        found = _codecs[kind] = HeaderCodec(kind)
    return found


def _refused(remark: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, remark)


def _base_type(declared: object) -> type:
    """Return `str`, `int` or `bool` for a declared field type such as `Int32 | None`."""
    origin = get_origin(declared)
    if origin is Annotated:
        return _base_type(get_args(declared)[0])
    if origin in (Union, UnionType):
        (kept,) = (part for part in get_args(declared) if part is not NoneType)
        return _base_type(kept)
    assert declared in (str, int, bool), f"a header field of type {declared}"
    assert isinstance(declared, type)
    return declared


_TEXTS = {str: "header.{0}", int: "str(header.{0})", bool: "'true' if header.{0} else 'false'"}
"""The text of a field by its type, as Java's `toString` gives it."""


def _text_maker(kind: type[Header]) -> Callable[[Any], msgspec.Struct]:
    """Generate the function that returns a header's texts as a struct, absent ones unset."""
    declared = msgspec.structs.fields(kind)
    twin = msgspec.defstruct(
        f"{kind.__name__}Texts",
        [(f.name, str | msgspec.UnsetType) for f in declared],
        rename={f.name: f.encode_name for f in declared},
        gc=False,
        frozen=True,
    )
    values = []
    for field in declared:
        value = _TEXTS[_base_type(field.type)].format(field.name)
        if NoneType in get_args(field.type):
            value = f"UNSET if header.{field.name} is None else {value}"
        values.append(value)
    source = f"def texts(header):\n return Texts({', '.join(values)})"
    space: dict[str, Any] = {"Texts": twin, "UNSET": msgspec.UNSET}
    exec(source, space)  # noqa: S102 - as in `_writer`
    texts: Callable[[Any], msgspec.Struct] = space["texts"]
    return texts


def _writer(kind: type[Header]) -> Callable[[Any], dict[str, str]]:
    """Generate the function that returns a header's texts; its names are our own declarations."""
    always, perhaps = [], []
    for field in msgspec.structs.fields(kind):
        value = _TEXTS[_base_type(field.type)].format(field.name)
        if NoneType in get_args(field.type):
            perhaps.append(f" if header.{field.name} is not None:")
            perhaps.append(f"  ext[{field.encode_name!r}] = {value}")
        else:
            always.append(f"{field.encode_name!r}: {value}")
    source = "\n".join(
        ["def write(header):", f" ext = {{{', '.join(always)}}}", *perhaps, " return ext"]
    )
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102 - made of declarations in this package, as dataclasses does
    write: Callable[[Any], dict[str, str]] = space["write"]
    return write
