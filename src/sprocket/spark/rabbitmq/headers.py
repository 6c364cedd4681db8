"""Headers of many messages as maps of text.

Texts, numbers and booleans, which nearly all are, are made all at once; what is nested or has
another type is read one by one. A text is itself, a number its digits, a boolean `true` or `false`,
a time its seconds since 1970, a decimal its digits with a point, bytes are in hex, arrays and
tables JSON of the same values, and nothing is null. Of equal names the first one counts.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.rabbitmq.codec.amqp import AmqpError
from sprocket.rabbitmq.codec.amqp import tables as tables_codec
from sprocket.rabbitmq.codec.columns import HeaderEntries, Ints, Mask, Octets, Spans, gather
from sprocket.rabbitmq.codec.columns import header_entries as read_entries
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger
from sprocket.spark.arrow import cut, numbers, text

_INTEGERS = {
    FieldKind.BYTE: ">i1",
    FieldKind.UNSIGNED_BYTE: ">u1",
    FieldKind.SHORT: ">i2",
    FieldKind.UNSIGNED_SHORT: ">u2",
    FieldKind.SIGNED_INT: ">i4",
    FieldKind.UNSIGNED_INT: ">u4",
    FieldKind.LONG: ">i8",
    FieldKind.LONG_CAPITAL: ">i8",
    FieldKind.TIMESTAMP: ">u8",
}


class Headers:
    """The headers of some messages.

    Args:
        octets: The buffer.
        tables: The entries of each table, without the size before them.
        is_there: Of which messages the tables are: this many are true.
    """

    def __init__(self, octets: Octets, tables: Spans, is_there: Mask) -> None:
        self._octets = octets
        self._is_there = is_there
        self._owners = np.flatnonzero(is_there)
        self.faults: dict[int, str] = {}
        """Which tables are malformed, and how, by the message."""
        entries = read_entries(octets, tables)
        values = self._values(entries)
        for number in np.flatnonzero(~entries.is_good).tolist():
            data = octets[tables.starts[number] : tables.ends[number]].tobytes()
            self._fail(number, data)
        is_kept = ~np.isin(self._owners[entries.rows], list(self.faults))
        names = text(cut(octets, entries.names.starts, entries.names.ends))
        is_kept &= _is_first(names, entries)
        kept = numbers(np.flatnonzero(is_kept), pa.int64())
        self._names, self._items = names.take(kept), values.take(kept)
        self._counts = np.bincount(self._owners[entries.rows[is_kept]], minlength=len(is_there))

    def maps(self) -> Any:
        """Return a map for each message, null for none."""
        offsets = np.zeros(len(self._is_there) + 1, np.int32)
        np.cumsum(self._counts, out=offsets[1:])
        made = pa.MapArray.from_arrays(numbers(offsets, pa.int32()), self._names, self._items)
        is_null = ~self._is_there
        is_null[list(self.faults)] = True
        if not is_null.any():
            return made
        nulls = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
        pairs = pa.StructArray.from_arrays(
            [self._names, self._items], fields=[made.type.key_field, made.type.item_field]
        )
        buffers = [nulls, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(made.type, len(is_null), buffers, children=[pairs])

    def _values(self, entries: HeaderEntries) -> Any:
        """Return the value of each entry as text."""
        rows: list[Ints] = []
        parts: list[Any] = []
        signs = entries.signs
        is_done = np.zeros(len(signs), np.bool_)
        is_done[~entries.is_good[entries.rows]] = True

        def add(kind: FieldKind) -> Ints:
            chosen = np.flatnonzero((signs == ord(kind.value)) & ~is_done)
            if len(chosen):
                is_done[chosen] = True
                rows.append(chosen)
            return chosen

        chosen = add(FieldKind.LONG_STRING)
        if len(chosen):
            found = entries.values.of(chosen)
            parts.append(text(cut(self._octets, found.starts, found.ends)))
        for kind, form in _INTEGERS.items():
            chosen = add(kind)
            if len(chosen):
                starts = entries.values.starts[chosen]
                stored = gather(self._octets, starts, np.dtype(form).itemsize).view(form)[:, 0]
                native = stored.astype(stored.dtype.newbyteorder("="))
                arrow = pa.from_numpy_dtype(native.dtype)
                parts.append(numbers(native, arrow).cast(pa.string()))
        chosen = add(FieldKind.BOOL)
        if len(chosen):
            is_true = self._octets[entries.values.starts[chosen]] != 0
            parts.append(
                pa.array(["false", "true"]).take(numbers(is_true.astype(np.int8), pa.int8()))
            )
        chosen = np.flatnonzero(~is_done)
        if len(chosen):
            rows.append(chosen)
            parts.append(pa.array(self._odd(entries, chosen), pa.string()))
        order = np.full(len(signs), sum(map(len, rows)), np.int64)
        at = 0
        for some in rows:
            order[some] = np.arange(at, at + len(some))
            at += len(some)
        every = pa.concat_arrays([*parts, pa.nulls(1, pa.string())])
        return every.take(numbers(order, pa.int64()))

    def _odd(self, entries: HeaderEntries, chosen: Ints) -> list[str | None]:
        """Return the values of some entries, read one by one."""
        found: list[str | None] = []
        for number in chosen.tolist():
            start, end = int(entries.entries.starts[number]), int(entries.entries.ends[number])
            data = self._octets[start:end].tobytes()
            try:
                ((_, value),) = tables_codec.decode_table(data, 0, len(data))
                found.append(_text_of(value))
            except AmqpError as error:
                self.faults[int(self._owners[entries.rows[number]])] = str(error)
                found.append(None)
        return found

    def _fail(self, table: int, data: bytes) -> None:
        try:
            tables_codec.decode_table(data, 0, len(data))
            why = "malformed headers"
        except AmqpError as error:
            why = str(error)
        self.faults[int(self._owners[table])] = why


def _is_first(names: Any, entries: HeaderEntries) -> Mask:
    """Say which entries are the first of their name, as it is shown, in their table."""
    count = len(entries.rows)
    is_first = np.zeros(count, np.bool_)
    if count:
        codes = names.dictionary_encode().indices.to_numpy().astype(np.int64)
        _, firsts = np.unique(entries.rows * (int(codes.max()) + 1) + codes, return_index=True)
        is_first[firsts] = True
    return is_first


def _text_of(field: Field) -> str | None:
    """Return a value as text."""
    value = _plain(field)
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(field: Field) -> Any:
    """Return a value as JSON has it."""
    kind, value = field
    match value:
        case FieldTable():
            told: dict[str, Any] = {}
            for name, one in value:
                told.setdefault(_readable(name.encode("utf-8", "surrogateescape")), _plain(one))
            return told
        case ScaledInteger():
            digits = str(value.unscaled).rjust(value.scale + 1, "0")
            point = len(digits) - value.scale
            return f"{digits[:point]}.{digits[point:]}" if value.scale else digits
        case tuple():
            return [_plain(one) for one in value]
        case bytes():
            return value.hex() if kind is FieldKind.BINARY else _readable(value)
    return value


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "replace")
