"""Typed values: what stands in arguments, headers and properties of clients and servers.

A value keeps the type that its sender gave it, because RabbitMQ does: it compares arguments, names
types in its errors, and stores and sends on exactly what it was given.

Source: the field tables of AMQP 0-9-1 as RabbitMQ reads them; docs/formats/amqp.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeAlias


class FieldKind(Enum):
    """The type of a value.

    The enum's value is its sign on the wire, `word` what RabbitMQ calls it in texts and in files.
    """

    BOOL = "t"
    BYTE = "b"
    UNSIGNED_BYTE = "B"
    SHORT = "s"
    UNSIGNED_SHORT = "u"
    SIGNED_INT = "I"
    UNSIGNED_INT = "i"
    LONG = "l"
    LONG_CAPITAL = "L"
    """The same as `LONG`: some clients write it; RabbitMQ does not."""
    FLOAT = "f"
    DOUBLE = "d"
    DECIMAL = "D"
    LONG_STRING = "S"
    BINARY = "x"
    ARRAY = "A"
    TABLE = "F"
    TIMESTAMP = "T"
    VOID = "V"

    @property
    def word(self) -> str:
        """The name of the type in RabbitMQ's texts and files, such as `signedint`."""
        return _WORDS[self]


_WORDS = {
    FieldKind.BOOL: "bool",
    FieldKind.BYTE: "byte",
    FieldKind.UNSIGNED_BYTE: "unsignedbyte",
    FieldKind.SHORT: "short",
    FieldKind.UNSIGNED_SHORT: "unsignedshort",
    FieldKind.SIGNED_INT: "signedint",
    FieldKind.UNSIGNED_INT: "unsignedint",
    FieldKind.LONG: "long",
    FieldKind.LONG_CAPITAL: "long",
    FieldKind.FLOAT: "float",
    FieldKind.DOUBLE: "double",
    FieldKind.DECIMAL: "decimal",
    FieldKind.LONG_STRING: "longstr",
    FieldKind.BINARY: "binary",
    FieldKind.ARRAY: "array",
    FieldKind.TABLE: "table",
    FieldKind.TIMESTAMP: "timestamp",
    FieldKind.VOID: "void",
}

INTEGERS = frozenset(
    {
        FieldKind.BYTE,
        FieldKind.UNSIGNED_BYTE,
        FieldKind.SHORT,
        FieldKind.UNSIGNED_SHORT,
        FieldKind.SIGNED_INT,
        FieldKind.UNSIGNED_INT,
        FieldKind.LONG,
        FieldKind.LONG_CAPITAL,
    }
)
"""What counts as an integer where an argument must be one: clients choose by size."""


class ScaledInteger(NamedTuple):
    """A decimal: `unscaled` divided by ten to the power of `scale`."""

    scale: int
    """0 to 255."""
    unscaled: int
    """0 to 2³²−1."""


FieldValue: TypeAlias = (
    "bool | int | float | bytes | ScaledInteger | tuple[Field, ...] | FieldTable | None"
)
"""By kind: strings and binaries are `bytes`, arrays tuples, a timestamp seconds since 1970, void
None. Whatever is not such a number, string, array or table has no kind."""


class Field(NamedTuple):
    """A value with its type."""

    kind: FieldKind
    value: FieldValue


@dataclass(frozen=True)
class FieldTable:
    """Named values in the order in which they were sent.

    Names are text; bytes that are not UTF-8 are kept as lone surrogates (`surrogateescape`). If
    a name comes twice, both are kept, and the first one counts.
    """

    entries: tuple[tuple[str, Field], ...] = ()

    def get(self, name: str) -> Field | None:
        """Return the first value of that name."""
        return self._first.get(name)

    def __iter__(self) -> Iterator[tuple[str, Field]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def _first(self) -> dict[str, Field]:
        return dict(reversed(self.entries))


NO_FIELDS = FieldTable()
"""A table without entries."""


def long_string(text: str) -> Field:
    """Return a text as clients send it."""
    return Field(FieldKind.LONG_STRING, text.encode("utf-8", "surrogateescape"))
