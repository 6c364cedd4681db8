"""Columns in one form each, in whichever of Arrow's forms a batch has them.

Spark hands over lists whose words cannot be null as another type than those whose words can, and
texts with long offsets where `spark.sql.execution.arrow.useLargeVarTypes` is set; a DataFrame that
was made of an Arrow table, and what Arrow's functions give, may be views, dictionaries or slices.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.spark.arrow import numbers


def plain(column: Any) -> Any:
    """Return the same values as text or bytes with short offsets, or as a list or map of these.

    Lists and maps begin at the beginning of what they hold, and have nothing where they are null.
    What is neither text, bytes, list nor map stays as it is.
    """
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if types.is_map(kind):
        return _map(column)
    if _is_list(kind):
        return _list(column)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    if types.is_binary_view(kind) or types.is_large_binary(kind):
        return column.cast(pa.binary())
    if types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    return column


def _is_list(kind: Any) -> bool:
    types = pa.types
    return any(
        tells(kind)
        for tells in (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
    )


def _list(column: Any) -> Any:
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
    return pa.ListArray.from_arrays(_offsets(counts), plain(column.flatten()), mask=_nulls(column))


def _map(column: Any) -> Any:
    places = np.asarray(column.offsets).astype(np.int64)
    counts = np.diff(places)
    keys = column.keys.slice(places[0], places[-1] - places[0])
    items = column.items.slice(places[0], places[-1] - places[0])
    if column.null_count:
        is_held = np.repeat(np.asarray(pc.is_valid(column)), counts)
        counts = np.where(np.asarray(pc.is_valid(column)), counts, 0)
        if not is_held.all():
            keys, items = keys.filter(pa.array(is_held)), items.filter(pa.array(is_held))
    return pa.MapArray.from_arrays(_offsets(counts), plain(keys), plain(items), mask=_nulls(column))


def _offsets(counts: Any) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return numbers(offsets, pa.int32())


def _nulls(column: Any) -> Any:
    return pc.is_null(column) if column.null_count else None
