"""The headers of many messages: where name and value of each entry lie. See `codec.amqp.tables`."""

from dataclasses import dataclass

import numpy as np

from sprocket.rabbitmq.codec.amqp import tables
from sprocket.rabbitmq.codec.columns.cursor import Cursor, Ints, Mask, Octets, Spans
from sprocket.rabbitmq.model.fields import FieldKind

_SIZED = [
    ord(kind.value)
    for kind in (FieldKind.LONG_STRING, FieldKind.BINARY, FieldKind.ARRAY, FieldKind.TABLE)
]
_UNKNOWN = -1
_SIZES = np.full(256, _UNKNOWN, np.int64)
_SIZES[list(tables.FIXED_BYTES)] = list(tables.FIXED_BYTES.values())


@dataclass(frozen=True, slots=True)
class HeaderEntries:
    """Entries of tables, one element an entry, in the order of the tables.

    Attributes:
        is_good: Which tables are whole, one element a table; what is inside of values is not
            looked at. The entries of others are void.
        rows: The table of each entry.
        names: Its name.
        signs: Its type, the sign of a `FieldKind` as a number.
        values: Its value, without the length before it.
        entries: All of it, from the length of its name on.
    """

    is_good: Mask
    rows: Ints
    names: Spans
    signs: Ints
    values: Spans
    entries: Spans


def header_entries(octets: Octets, stored: Spans) -> HeaderEntries:
    """Follow the entries of tables, each in its own range of a buffer, without a size before."""
    cursor = Cursor(octets, stored)
    rows: list[Ints] = []
    parts: list[tuple[Ints, ...]] = []
    active = cursor.every[cursor.left(cursor.every) > 0]
    while len(active):
        first = cursor.at[active]
        names = cursor.span(cursor.number(">u1", active), active)
        signs = cursor.number(">u1", active)
        sizes = _SIZES[signs]
        is_sized = np.isin(signs, _SIZED)
        sizes[is_sized] = cursor.number(">u4", active[is_sized])
        values = cursor.span(sizes, active)
        rows.append(active)
        parts.append(
            (names.starts, names.ends, signs, values.starts, values.ends, first, cursor.at[active])
        )
        active = active[cursor.is_good[active] & (cursor.left(active) > 0)]
    if not rows:
        none = np.empty(0, np.int64)
        empty = Spans(none, none)
        return HeaderEntries(cursor.is_good, none, empty, none, empty, empty)
    owners = np.concatenate(rows)
    order = np.argsort(owners, kind="stable")
    columns = [np.concatenate(column)[order] for column in zip(*parts, strict=True)]
    return HeaderEntries(
        cursor.is_good,
        owners[order],
        Spans(columns[0], columns[1]),
        columns[2],
        Spans(columns[3], columns[4]),
        Spans(columns[5], columns[6]),
    )
