"""Properties of many records at a time: `name 0x01 value 0x02 …` to Arrow text and maps.

The rules are those of RocketMQ's `MessageDecoder.string2messageProperties`: pieces end at each
0x02 (the last one may lack it); the first 0x01 of a piece parts name and value (so a value may
hold 0x01); a piece with an empty name or value is dropped; of equal names the last one counts.

Almost all records of a topic are alike but for the bytes of their values: one is parted, and all
are cut at the same places, in a third of the time that others take, which differ in a length or
in a name. Most of these still go a short way: separators take turns, each record closes its last
pair, and all have as many; then numbers of pairs are multiplied and not searched for. Names are
told apart by their first eight bytes and their length, which is exact up to eight bytes.
"""

from collections.abc import Iterable, Mapping
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
        count = len(stored)
        _, offsets_buffer, data_buffer = stored.buffers()
        data = data_buffer if data_buffer is not None else pa.py_buffer(b"")
        places = np.frombuffer(offsets_buffer, np.int32, count + 1)
        data = data.slice(0, int(places[-1]))
        self._parted: _Alike | _Pairs = _Alike.of(data, places) or _Pairs(data, places)

    def map(self) -> Any:
        """Return one map a record."""
        parted = self._parted
        offsets = numbers(parted.offsets.astype(np.int32, copy=False), pa.int32())
        return pa.MapArray.from_arrays(offsets, parted.names, parted.values)

    def value(self, name: str) -> Any:
        """Return the value of one name for each record, null where it has none."""
        return self._parted.value(name.encode())


class _Alike:
    """Pairs that have the same names, and values of the same lengths, in all records.

    Args:
        rows: The properties, one row a record.
        pieces: Which columns hold the value of each name.
    """

    def __init__(self, rows: npt.NDArray[np.uint8], pieces: Mapping[bytes, slice]) -> None:
        self._rows = rows
        self._pieces = pieces
        self._is_ascii = is_ascii(rows)

    @classmethod
    def of(cls, data: Any, places: Any) -> "_Alike | None":
        """Part the first record and see whether all others are parted so; None if not.

        Args:
            data: The properties of all records, a buffer.
            places: Where in it those of each record begin, and the end.
        """
        width = int(places[1]) if len(places) > 1 else 0
        if not width or (np.diff(places) != width).any():
            return None
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        first = rows[0].tobytes()
        pieces: dict[bytes, slice] = {}
        is_same = np.ones(width, np.bool_)
        end = -1
        for piece in first.split(b"\2"):
            end += 1 + len(piece)
            name, _, value = piece.partition(b"\1")
            if name and value:
                columns = slice(end - len(value), end)
                is_same[columns] = False
                pieces[name] = columns  # of equal names the last one counts
        if not pieces or ((rows != rows[0]) & is_same).any():
            return None
        if np.count_nonzero(rows == 2) != first.count(2) * len(rows):
            return None
        return cls(rows, pieces)

    @property
    def offsets(self) -> Ints:
        """The numbers of the first pair of each record, and the end."""
        return np.arange(len(self._rows) + 1) * len(self._pieces)

    @property
    def names(self) -> Any:
        """The names of all pairs."""
        return self._texts(map(len, self._pieces), b"".join(self._pieces) * len(self._rows))

    @property
    def values(self) -> Any:
        """The values of all pairs."""
        parts = [self._rows[:, columns] for columns in self._pieces.values()]
        return self._texts([part.shape[1] for part in parts], np.concatenate(parts, axis=1))

    def value(self, name: bytes) -> Any:
        """Return the value of one name for each record, null where it has none."""
        columns = self._pieces.get(name)
        if columns is None:
            return pa.nulls(len(self._rows), pa.string())
        part = self._rows[:, columns]
        return self._texts([part.shape[1]], np.ascontiguousarray(part))

    def _texts(self, sizes: Iterable[int], data: Any) -> Any:
        """Return texts that lie one after the other; their sizes are the same in each record."""
        ends = np.cumsum(list(sizes), dtype=np.int32)
        offsets = np.zeros(len(self._rows) * len(ends) + 1, np.int32)
        starts = np.arange(len(self._rows), dtype=np.int32) * ends[-1]
        np.add.outer(starts, ends, out=offsets[1:].reshape(-1, len(ends)))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        stored = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return text(stored, is_sure=self._is_ascii)


class _Pairs:
    """Pairs of any kind.

    Args:
        data: The properties of all records, a buffer.
        places: Where in it those of each record begin, and the end.
    """

    def __init__(self, data: Any, places: Any) -> None:
        self._count = len(places) - 1
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
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
        return text(cut(self._data, self._starts, self._parts), is_sure=self._is_ascii)

    @cached_property
    def values(self) -> Any:
        """The values of all pairs."""
        return text(cut(self._data, self._parts + 1, self._ends), is_sure=self._is_ascii)

    def value(self, name: bytes) -> Any:
        """Return the value of one name for each record, null where it has none."""
        found = self._with_name(name)
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
