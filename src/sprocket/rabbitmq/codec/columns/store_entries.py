"""The entries of a file of the message store, as columns. See `codec.store.entries`.

A sound file is followed by its sizes alone, and then both ends of all entries are looked at
together. Any other file goes the way of `entries.scan`, which says what is an entry there.
"""

from dataclasses import dataclass
from struct import Struct

import numpy as np

from sprocket.base.units import MIB
from sprocket.rabbitmq.codec.columns.cursor import Ints, Octets, gather
from sprocket.rabbitmq.codec.message_term import PLAIN_PERSISTENCE
from sprocket.rabbitmq.codec.store import ReadAt, StoreEntry, entries
from sprocket.rabbitmq.model.message import ID_BYTES

WHOLE_BYTES_MAX = 256 * MIB
"""RabbitMQ begins a new file at 16 MiB; only a message alone can make one longer."""
_MARK_BYTES = len(entries.MARK)
_SIZE = Struct(">Q")
_ENDS = tuple(form + entries.MARK for form in PLAIN_PERSISTENCE)
_ENTRY_BYTES_MIN = entries.OVERHEAD_BYTES + ID_BYTES + max(map(len, PLAIN_PERSISTENCE))


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """Whole entries of one file, in its order.

    Attributes:
        positions: Where each begins, bytes into the file.
        sizes: Bytes of each, all told.
        ids: 16 bytes each, as rows.
    """

    positions: Ints
    sizes: Ints
    ids: Octets

    def __len__(self) -> int:
        return len(self.positions)


def store_entries(read: ReadAt, size: int) -> StoreEntries:
    """Return the entries of a file.

    Args:
        read: Reads the file; its errors come through.
        size: Length of the file. It is read whole up to `WHOLE_BYTES_MAX`, else in pieces.
    """
    if size <= WHOLE_BYTES_MAX:
        data = read(0, size)
        found = _sound(data)
        if found is not None:
            return found
    return _scanned(read, size)


def _sound(data: bytes) -> StoreEntries | None:
    """Return the entries of a file in which nothing is odd; None if something is."""
    places: list[int] = []
    at, end = 0, len(data)
    read = _SIZE.unpack_from
    while at + _ENTRY_BYTES_MIN <= end:
        places.append(at)
        at += _SIZE.size + read(data, at)[0] + _MARK_BYTES
    if at != end or not places:
        return None
    positions = np.array(places, np.int64)
    ends = np.append(positions[1:], end)
    sizes = ends - positions
    if (sizes < _ENTRY_BYTES_MIN).any():
        return None
    octets = np.frombuffer(data, np.uint8)
    ids = gather(octets, positions + _SIZE.size, ID_BYTES)
    is_whole = np.zeros(len(positions), np.bool_)
    for form in _ENDS:
        expected = np.frombuffer(form, np.uint8)
        tails = gather(octets, ends - len(form), len(form)) == expected
        copies = gather(octets, ends - len(form) - ID_BYTES, ID_BYTES) == ids
        is_whole |= tails.all(axis=1) & copies.all(axis=1)
    if not is_whole.all():
        return None
    return StoreEntries(positions, sizes, ids)


def _scanned(read: ReadAt, size: int) -> StoreEntries:
    found = [one for one in entries.scan(read, size) if isinstance(one, StoreEntry)]
    ids = np.frombuffer(b"".join(one.id for one in found), np.uint8).reshape(-1, ID_BYTES)
    positions = np.array([one.position for one in found], np.int64)
    sizes = np.array([one.size for one in found], np.int64)
    return StoreEntries(positions, sizes, ids)
