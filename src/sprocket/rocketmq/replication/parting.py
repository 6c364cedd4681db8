"""Where a log leaves another one: the end of the last record that both have.

Records hold their place, their times and their place in a queue. So two logs that have one record
in common have all before it in common, and of all behind the first different one nothing. It is
looked for by halves: first among the files, then in one of them.
"""

from bisect import bisect_left
from collections.abc import Callable

from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.store import Store

HasRecord = Callable[[int, memoryview], bool]
"""Says whether the other log has just this record at a place."""


def common_end(store: Store, other_first: int, has: HasRecord) -> int | None:
    """Return where the last record ends that both logs have; None if that is not known of any.

    Args:
        store: Has the one log; it is only read.
        other_first: Where the other log begins: of what lies before it cannot be asked.
        has: Asks for the other one. Costs a call for each power of two of files and of records.

    Raises:
        CorruptRecord: A record here is damaged.
    """
    size = store.geometry.log.segment_bytes
    low = max(int(store.first), other_first)
    starts = [low, *range(low - low % size + size, int(store.written), size)]
    firsts = [first for at in starts if (first := _first_record(store, at, size)) is not None]
    number = bisect_left(firsts, True, key=lambda at: not _is_there(store, at, has))
    if number == 0:
        return None
    start = firsts[number - 1]
    stop = firsts[number] if number < len(firsts) else int(store.written)
    places = [int(place) for place, _ in store.records(PhysicalOffset(start), PhysicalOffset(stop))]
    last = places[bisect_left(places, True, key=lambda at: not _is_there(store, at, has)) - 1]
    return last + len(store.record_at(PhysicalOffset(last)))


def _first_record(store: Store, at: int, size: int) -> int | None:
    """Return where the first record at a place or behind it begins in the file; None without."""
    start = max(at - at % size, int(store.first))
    stop = PhysicalOffset(at - at % size + size)
    for place, _ in store.records(PhysicalOffset(start), stop):
        if place >= at:
            return int(place)
    return None


def _is_there(store: Store, place: int, has: HasRecord) -> bool:
    try:
        return has(place, store.record_at(PhysicalOffset(place)))
    except (CorruptRecord, OffsetTooLarge, OffsetTooSmall):
        return False
