"""An index file without the entries of some records: fewer units, and the chains made again.

The begin of the file stays, since times of units count from it.
"""

from typing import NamedTuple

import numpy as np

from sprocket.base.disk import Disk
from sprocket.rocketmq.codec.columns import Ints
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.store.index.index_file import (
    HEADER_BYTES,
    SLOT_BYTES,
    UNIT_BYTES,
    IndexHeader,
)

_UNIT = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("before", ">i4")])
assert _UNIT.itemsize == UNIT_BYTES


class CompactedIndex(NamedTuple):
    """What such a file holds: its first bytes, its units from number 1 on, and what was removed.

    Attributes:
        head: Header and slots, from the start of the file on.
        units: Their bytes.
        units_at: Where they lie, bytes into the file.
        removed: How many units there are less.
    """

    head: bytes
    units: bytes
    units_at: int
    removed: int


def compacted(disk: Disk, path: str, geometry: IndexGeometry, places: Ints) -> CompactedIndex:
    """Return an index file without the entries of records that lie at some places.

    Args:
        disk: Where the file lies.
        path: The file, of the length that `geometry` says.
        geometry: How many slots and units it has.
        places: Physical offsets.

    Cost: its units and slots are held in memory, some hundred MB of a full file.
    """
    units_at = HEADER_BYTES + SLOT_BYTES * geometry.slots + UNIT_BYTES
    file = disk.open(path)
    try:
        header = IndexHeader.decode(file.read(0, HEADER_BYTES), geometry.units)
        data = file.read(units_at, UNIT_BYTES * (header.next_unit - 1))
    finally:
        file.close()
    units = np.frombuffer(data, _UNIT)
    kept = units[~np.isin(units["offset"], places)].copy()
    slots = np.zeros(geometry.slots, ">i4")
    if len(kept):
        slot = kept["hash"].astype(np.int64) % geometry.slots
        order = np.argsort(slot, kind="stable")
        is_next = np.append(False, slot[order[1:]] == slot[order[:-1]])
        before = np.where(is_next, np.append(0, order[:-1] + 1), 0)
        kept["before"][order] = before
        is_newest = np.append(~is_next[1:], True)
        slots[slot[order[is_newest]]] = order[is_newest] + 1
        header.begin_offset, header.end_offset = kept["offset"][[0, -1]].tolist()
    header.slots_used = int(np.count_nonzero(slots))
    header.next_unit = len(kept) + 1
    head = header.encode() + slots.tobytes()
    return CompactedIndex(head, kept.tobytes(), units_at, len(units) - len(kept))
