"""Properties of many records at a time: `name 0x01 value 0x02 …` to Arrow text and maps.

The rules are those of RocketMQ's `MessageDecoder.string2messageProperties`: pieces end at each
0x02 (the last one may lack it); the first 0x01 of a piece parts name and value (so a value may
hold 0x01); a piece with an empty name or value is dropped; of equal names the last one counts.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.rocketmq.codec.columns import Ints, Mask

MAP = pa.map_(pa.string(), pa.string())

_COUNTED_MAX = 1 << 22
"""Cells of the table that finds equal names: more would cost more than sorting."""


class Properties:
    """The name and value pairs of some records.

    Args:
        stored: One binary value a record, as stored.
    """

    def __init__(self, stored: Any) -> None:
        count = len(stored)
        _, offsets_buffer, data_buffer = stored.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32, count + 1).astype(np.int64)
        data = data_buffer if data_buffer is not None else pa.py_buffer(b"")
        starts, parts, ends = _pairs(np.frombuffer(data, np.uint8)[: offsets[-1]], offsets)
        self.offsets: Ints = np.searchsorted(starts, offsets).astype(np.int64)
        self.names, self.values = _cut(data, starts, parts, ends)
        self._drop_repeats()

    def _drop_repeats(self) -> None:
        """Keep the last pair of those that share a record and a name."""
        coded = self.names.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
        self._distinct = coded.dictionary
        self._codes = codes
        kinds = max(len(self._distinct), 1)
        sizes = np.diff(self.offsets)
        owner = np.repeat(np.arange(len(sizes)), sizes)  # of each pair the number of its record
        cell = owner * kinds + codes
        cells = (len(self.offsets) - 1) * kinds
        if cells <= _COUNTED_MAX:
            if not len(cell) or np.bincount(cell).max() <= 1:
                return
        elif len(np.unique(cell)) == len(cell):
            return
        # Seen from the end, the first of each kind is the one that counts.
        _, last = np.unique(cell[::-1], return_index=True)
        kept = np.sort(len(cell) - 1 - last)
        take = pa.array(kept)
        self.names, self.values = self.names.take(take), self.values.take(take)
        self._codes = codes[kept]
        self.offsets = np.searchsorted(kept, self.offsets).astype(np.int64)

    def map(self) -> Any:
        """Return one map a record."""
        offsets = pa.array(self.offsets.astype(np.int32))
        return pa.MapArray.from_arrays(offsets, self.names, self.values)

    def value(self, name: str) -> Any:
        """Return the value of one name for each record, null where it has none."""
        code = self._distinct.index(name).as_py()
        where = np.full(len(self.offsets) - 1, -1, np.int64)
        if code >= 0:
            found = np.flatnonzero(self._codes == code)
            where[np.searchsorted(self.offsets, found, "right") - 1] = found
        return self.values.take(pa.array(where, mask=where < 0))


def text(stored: Any) -> Any:
    """Return a binary Arrow array as text; what is not UTF-8 becomes U+FFFD, as in Java."""
    try:
        return stored.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in stored.to_pylist()])


def _pairs(data: Any, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Return where each pair starts, where its 0x01 is, and where it ends (excluding 0x02)."""
    ends: Ints = np.flatnonzero(data == 2)
    following = ends + 1
    # A record whose properties do not end in 0x02 ends its last pair anyway.
    filled = offsets[1:][offsets[1:] > offsets[:-1]]
    unclosed = filled[data[filled - 1] != 2] if len(filled) else filled
    if len(unclosed):
        order = np.argsort(np.concatenate([unclosed, ends]), kind="stable")
        following = np.concatenate([unclosed, following])[order]
        ends = np.concatenate([unclosed, ends])[order]
    starts = np.empty_like(ends)
    starts[:1] = 0
    starts[1:] = following[:-1]
    parts: Ints = np.flatnonzero(data == 1)
    if len(parts) == len(ends) and _fit(starts, parts, ends).all():
        return starts, parts, ends
    if not len(parts):
        return parts, parts, parts
    first = np.searchsorted(parts, starts)
    in_range = first < len(parts)
    parts = parts[np.where(in_range, first, 0)]
    good = in_range & _fit(starts, parts, ends)
    return starts[good], parts[good], ends[good]


def _fit(starts: Ints, parts: Ints, ends: Ints) -> Mask:
    """Tell which pairs have a name and a value, neither empty."""
    good: Mask = (parts > starts) & (parts + 1 < ends)
    return good


def _cut(data: Any, starts: Ints, parts: Ints, ends: Ints) -> tuple[Any, Any]:
    """Return the names and the values as text."""
    count = len(starts)
    offsets = np.empty(4 * count + 1, np.int32)
    offsets[0:-1:4] = starts
    offsets[1::4] = parts
    offsets[2::4] = parts + 1
    offsets[3::4] = ends
    offsets[-1] = ends[-1] if count else 0
    every = pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(offsets), data])
    wanted = np.arange(0, 4 * count, 4, dtype=np.int32)
    return text(every.take(pa.array(wanted))), text(every.take(pa.array(wanted + 2)))
