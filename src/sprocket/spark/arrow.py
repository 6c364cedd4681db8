"""Arrow arrays made of buffers by columns, and never one value by one.

Arrays are made from buffers: `pa.array` would ask whether it is given something of pandas, and for
that import pandas, which takes a worker 0.3 s.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sprocket.base.disk import Buffer

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def cut(data: Buffer | pa.Buffer, start: Ints, end: Ints) -> Any:
    """Return `data[start[i]:end[i]]` for every i as a binary Arrow array, by one copy.

    Every second piece of the buffer is wanted; Arrow takes them at the speed of memory.
    """
    count = len(start)
    offsets = np.zeros(max(2 * count, 1), np.int32)
    offsets[0 : 2 * count : 2] = start
    offsets[1::2] = end
    pieces = max(2 * count - 1, 0)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    every = pa.Array.from_buffers(pa.binary(), pieces, buffers)
    return every.take(numbers(np.arange(0, pieces, 2, dtype=np.int32), pa.int32()))


def numbers(values: Any, kind: Any, *, is_known: Mask | None = None) -> Any:
    """Return a numpy array, which lies in one piece, as an Arrow array without copying it.

    Args:
        values: As wide as what `kind` stores.
        kind: The Arrow type.
        is_known: Which are not null.
    """
    nulls = None
    if is_known is not None:
        nulls = pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [nulls, pa.py_buffer(values)])


def of_width(values: Any, width: int, count: int) -> Any:
    """Return texts that are equally long and lie one after the other, as a buffer."""
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def repeated(text: str, count: int) -> Any:
    """Return this many times one text."""
    stored = text.encode()
    return of_width(stored * count, len(stored), count)


def is_ascii(data: Any) -> bool:
    """Tell whether an array of bytes has none beyond 0x7F, so that all of it is UTF-8."""
    return not len(data) or int(data.max()) < 0x80


def text(stored: Any, *, is_sure: bool = False) -> Any:
    """Return a binary Arrow array as text; what is not UTF-8 becomes U+FFFD, as in Java.

    Args:
        stored: The values.
        is_sure: They are known to be UTF-8, and nobody looks.
    """
    if is_sure:
        return pa.Array.from_buffers(
            pa.string(), len(stored), stored.buffers(), stored.null_count, stored.offset
        )
    try:
        return stored.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    # Those that have no byte beyond ASCII stay as they are; a batch has few others.
    _, offsets_buffer, data = stored.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(stored) + 1)
    beyond = np.flatnonzero(np.frombuffer(data, np.uint8)[: offsets[-1]] >= 0x80)
    odd = np.unique(np.searchsorted(offsets, beyond, "right") - 1)
    values = stored.take(numbers(odd, pa.int64())).to_pylist()
    read = pa.array([value.decode("utf-8", "replace") for value in values], pa.string())
    order = np.arange(len(stored))
    order[odd] = len(stored) + np.arange(len(odd))
    every = pa.concat_arrays([text(stored, is_sure=True), read])
    return every.take(numbers(order, pa.int64()))
