"""Finding records by a key or by their id."""

from msgspec import Struct

from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.base.units import PhysicalOffset
from sprocket.rocketmq.codec import ids, record
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.index import Indexes, key_string

FIND_COUNT = 64
"""Offsets that a query gives if it does not say how many (`maxMsgsNumBatch`)."""


class FindResult(Struct, frozen=True):
    """What a query by key gives.

    Attributes:
        offsets: Physical offsets of records whose key has the hash asked for, ascending. Topic and
            key of each are to be compared by whoever asked.
        index_updated_at_ms: Store time of the last record in the index, 0 without one.
        index_end: Where that record begins, 0 without one.
    """

    offsets: list[PhysicalOffset]
    index_updated_at_ms: int
    index_end: PhysicalOffset


def find(
    index: Indexes | None,
    log: CommitLog,
    topic: str,
    key: str,
    max_count: int,
    times_ms: tuple[int, int],
) -> FindResult:
    """Return the newest records with a key that the log still has; see `Store.find`.

    Args:
        index: The key index, None if the store keeps none.
        log: What the offsets point into.
        topic: The records' topic.
        key: Their key.
        max_count: Most to return, the newest.
        times_ms: First and last store time wanted.
    """
    if index is None:
        return FindResult([], 0, PhysicalOffset(0))
    found = index.find(key_string(topic, key), max_count, *times_ms)
    kept = sorted(offset for offset in found if log.first <= offset < log.written)
    return FindResult(kept, index.updated_at_ms, PhysicalOffset(max(0, index.end)))


def by_id(log: CommitLog, message_id: str) -> memoryview | None:
    """Return the record with an offset message id, None if the log has none.

    Args:
        log: Where it may lie.
        message_id: Store host and physical offset in hex, see `codec.ids`.

    Raises:
        WireError: That is no such id.
    """
    store_host, offset = ids.split_offset_message_id(message_id)
    try:
        stored = log.record_at(offset)
        own_host = record.decode(stored, check_crc=False).store_host
    except (OffsetTooSmall, OffsetTooLarge, CorruptRecord, WireError):
        return None
    return stored if own_host == ids.host_text(store_host) else None
