"""Properties of many records at a time: `name 0x01 value 0x02 …` to Arrow text and maps.

The rules are those of RocketMQ's `MessageDecoder.string2messageProperties`: pieces end at each
0x02 (the last one may lack it); the first 0x01 of a piece parts name and value (so a value may
hold 0x01); a piece with an empty name or value is dropped; of equal names the last one counts.

Where almost all records go the short way: separators take turns, each record closes its last pair,
and all have as many; then numbers of pairs are multiplied and not searched for. Names are told
apart by their first eight bytes and their length, which is exact up to eight bytes.
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sprocket.rocketmq.codec.columns import Ints, Mask, gather
from sprocket.spark.arrow import cut, is_ascii, numbers, text

MAP = pa.map_(pa.string(), pa.string())

_WORD = 8
"""Bytes of a name that are looked at as one number."""
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
_COMPARED_MAX = 16
"""Pairs of a record, each of which is compared with all others; beyond that they are sorted."""


class Properties:
    """The name and value pairs of some records.

    Args:
        stored: One binary value a record, as stored.
    """

    def __init__(self, stored: Any) -> None:
        self._count = len(stored)
        _, offsets_buffer, data_buffer = stored.buffers()
        data = data_buffer if data_buffer is not None else pa.py_buffer(b"")
        places = np.frombuffer(offsets_buffer, np.int32, self._count + 1)
        self._data = data.slice(0, int(places[-1]))
        self._bytes = np.frombuffer(self._data, np.uint8)
        self._starts, self._parts, self._ends = _pairs(self._bytes, places)
        self._number_by_record(places)
        self._words, self._sizes = self._name_words()
        if self._may_repeat():
            self._drop_repeats()

    def _number_by_record(self, places: Any) -> None:
        """Find of which record each pair is.

        `offsets` are the numbers of the first pair of each record and the end; `_each` says how
        many pairs every record has, if all have as many.
        """
        count, pairs = self._count, len(self._starts)
        each = pairs // count if count else 0
        self._each = 0
        if each and each * count == pairs:
            last, first = self._ends[each - 1 :: each], self._starts[::each]
            if (last <= places[1:]).all() and (first >= places[:-1]).all():
                self._each = each
                self.offsets: Ints = np.arange(0, pairs + 1, each)
                return
        self.offsets = np.searchsorted(self._starts, places).astype(np.int64)

    @cached_property
    def _owner(self) -> Ints:
        """The record of each pair."""
        if self._each:
            return np.repeat(np.arange(self._count), self._each)
        return np.repeat(np.arange(self._count), np.diff(self.offsets))

    def _name_words(self) -> tuple[npt.NDArray[np.uint64], Ints]:
        """Return the first bytes of each name as a number, and the names' sizes."""
        starts, sizes = self._starts, self._parts - self._starts
        data, room = self._bytes, len(self._bytes) - _WORD
        if room < 0:
            data, room = np.pad(data, (0, -room)), 0
        words = gather(data, "<u8", np.minimum(starts, room))
        near = int(np.searchsorted(starts, room, "right"))  # too near to the end for a whole word
        words[near:] >>= (8 * (starts[near:] - room)).astype(np.uint64)
        words &= _MASKS[np.minimum(sizes, _WORD)]
        return words, sizes

    def _may_repeat(self) -> bool:
        """Tell whether a record may have two pairs of one name."""
        most = self._each or int(np.diff(self.offsets).max(initial=0))
        if most > _COMPARED_MAX:
            return True
        for apart in range(1, most):
            equal = self._words[apart:] == self._words[:-apart]
            if equal.any():
                equal &= self._sizes[apart:] == self._sizes[:-apart]
                equal &= self._owner[apart:] == self._owner[:-apart]
                if equal.any():
                    return True
        return False

    def _drop_repeats(self) -> None:
        """Keep the last pair of those that share a record and a name."""
        coded = self.names.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
        cell = self._owner * max(len(coded.dictionary), 1) + codes
        # Seen from the end, the first of each kind is the one that counts.
        _, last = np.unique(cell[::-1], return_index=True)
        kept = np.sort(len(cell) - 1 - last)
        if len(kept) == len(cell):
            return
        for name in ("_starts", "_parts", "_ends", "_words", "_sizes"):
            setattr(self, name, getattr(self, name)[kept])
        self.offsets = np.searchsorted(kept, self.offsets).astype(np.int64)
        self._each = 0
        for name in ("names", "values", "_owner"):
            self.__dict__.pop(name, None)

    @cached_property
    def _is_ascii(self) -> bool:
        return is_ascii(self._bytes)

    @cached_property
    def names(self) -> Any:
        """The names of all pairs."""
        each = self._each
        if each and self._sizes[:each].max() <= _WORD:
            words, sizes = self._words, self._sizes
            if np.array_equal(words[each:], words[:-each]) and np.array_equal(
                sizes[each:], sizes[:-each]
            ):
                one = cut(self._data, self._starts[:each], self._parts[:each])
                return _tiled(text(one), self._count)
        return text(cut(self._data, self._starts, self._parts), is_sure=self._is_ascii)

    @cached_property
    def values(self) -> Any:
        """The values of all pairs."""
        return text(cut(self._data, self._parts + 1, self._ends), is_sure=self._is_ascii)

    def map(self) -> Any:
        """Return one map a record."""
        offsets = numbers(self.offsets.astype(np.int32), pa.int32())
        return pa.MapArray.from_arrays(offsets, self.names, self.values)

    def value(self, name: str) -> Any:
        """Return the value of one name for each record, null where it has none."""
        found = self._with_name(name.encode())
        if len(found) == self._count:
            where = numbers(found, pa.int64())
        else:
            places = np.full(self._count, -1, np.int64)
            places[self._owner[found]] = found
            where = numbers(places, pa.int64(), is_known=places >= 0)
        return self.values.take(where)

    def _with_name(self, name: bytes) -> Ints:
        """Return the numbers of the pairs of one name."""
        word = int.from_bytes(name[:_WORD], "little")
        found: Ints = np.flatnonzero((self._words == word) & (self._sizes == len(name)))
        if len(name) > _WORD and len(found):
            rest = gather(self._bytes, f"V{len(name)}", self._starts[found])
            found = found[rest == np.void(name)]
        return found


def _tiled(one: Any, count: int) -> Any:
    """Return the texts of an array so many times, one behind the other."""
    _, offsets_buffer, data = one.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(one) + 1)
    size, each = int(offsets[-1]), len(one)
    every = np.empty(count * each + 1, np.int32)
    every[0] = 0
    steps = size * np.arange(count, dtype=np.int32)
    for number in range(each):
        np.add(steps, offsets[number + 1], out=every[number + 1 :: each])
    filled = pa.py_buffer(data.to_pybytes()[:size] * count)
    return pa.Array.from_buffers(pa.string(), len(every) - 1, [None, pa.py_buffer(every), filled])


def _pairs(data: Any, places: Any) -> tuple[Ints, Ints, Ints]:
    """Return where each pair starts, where its 0x01 is, and where it ends (excluding 0x02).

    Args:
        data: The properties of all records as an array of bytes.
        places: Where in it those of each record begin, and the end.
    """
    separators: Ints = np.flatnonzero(data - np.uint8(1) < 2)
    kinds = data[separators]
    filled = places[1:][places[1:] > places[:-1]]
    unclosed = filled[data[filled - 1] != 2] if len(filled) else filled
    if not len(unclosed) and len(kinds) % 2 == 0:
        parts, ends = separators[0::2], separators[1::2]
        if (kinds[0::2] == 1).all() and (kinds[1::2] == 2).all():
            starts = _following(ends + 1)
            good = _fit(starts, parts, ends)
            return (starts, parts, ends) if good.all() else (starts[good], parts[good], ends[good])
    return _parted(separators[kinds == 1], separators[kinds == 2], unclosed)


def _parted(parts: Ints, ends: Ints, unclosed: Ints) -> tuple[Ints, Ints, Ints]:
    """Do what `_pairs` does from any separators; some records end at `unclosed` without one."""
    following = ends + 1
    if len(unclosed):
        order = np.argsort(np.concatenate([unclosed, ends]), kind="stable")
        following = np.concatenate([unclosed, following])[order]
        ends = np.concatenate([unclosed, ends])[order]
    starts = _following(following)
    if not len(parts):
        return parts, parts, parts
    first = np.searchsorted(parts, starts)
    in_range = first < len(parts)
    parts = parts[np.where(in_range, first, 0)]
    good = in_range & _fit(starts, parts, ends)
    return starts[good], parts[good], ends[good]


def _following(after: Ints) -> Ints:
    """Return where each piece starts from where the next one does."""
    starts = np.empty_like(after)
    starts[:1] = 0
    starts[1:] = after[:-1]
    return starts


def _fit(starts: Ints, parts: Ints, ends: Ints) -> Mask:
    """Tell which pairs have a name and a value, neither empty."""
    good: Mask = (parts > starts) & (parts + 1 < ends)
    return good
