"""Columns of bytes: looked into and put together as a whole."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.rocketmq.codec.columns import Ints


def stored(column: Any) -> tuple[Ints, Any]:
    """Return where each value of a binary column begins, and the bytes; one more for the end."""
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts.astype(np.int64), data if data is not None else pa.py_buffer(b"")


def sizes(column: Any) -> Ints:
    """Return the bytes of each value of a binary column, 0 for null."""
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return np.asarray(lengths).astype(np.int64)


def joined(*pieces: Any) -> Any:
    """Return the pieces of each row one after the other: columns, or bytes that all rows have.

    It is null where one of the columns is.
    """
    scalars = [pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in pieces]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def first_with(column: Any, refused: Sequence[int]) -> int | None:
    """Return the number of the first value that holds one of these bytes, or None."""
    starts, data = stored(column)
    held = np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]
    # One look for all, since nearly always there is none.
    if not len(held) or held.min() > max(refused):
        return None
    found = np.flatnonzero(np.isin(held, refused))
    if not len(found):
        return None
    return int(np.searchsorted(starts, found[0] + starts[0], "right")) - 1


def of_width(data: bytes, width: int) -> Any:
    """Return bytes as a binary column of values of one width."""
    count = len(data) // width
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
