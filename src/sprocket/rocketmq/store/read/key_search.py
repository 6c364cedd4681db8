"""Finding records by a key or by their id."""

from itertools import takewhile

from msgspec import Struct

from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.rocketmq.codec.record import ids, record
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.log import CommitLog, LogScanner


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
    if index.is_behind:
        found += _behind(log, PhysicalOffset(index.end), topic, key, times_ms)
    kept = sorted({offset for offset in found if log.first <= offset < log.written})[-max_count:]
    return FindResult(kept, index.updated_at_ms, PhysicalOffset(max(0, index.end)))


def _behind(
    log: CommitLog, end: PhysicalOffset, topic: str, key: str, times_ms: tuple[int, int]
) -> list[PhysicalOffset]:
    """Return where records with a key lie that are not in the index: its last, and those behind."""
    walk = LogScanner(log.files.segments, max(log.first, end), check_crc=False)
    return [
        PhysicalOffset(entry.physical_offset)
        for entry in takewhile(lambda entry: entry.physical_offset < log.written, walk)
        if entry.topic == topic
        and key in entry.keys
        and times_ms[0] <= entry.stored_at_ms <= times_ms[1]
    ]


def by_id(log: CommitLog, message_id: str) -> memoryview | None:
    """Return the record with an offset message id, None if the log has none.

    Args:
        log: Where it may lie.
        message_id: Store host and physical offset in hex, see `codec.ids`.

    Raises:
        WireError: That is not such an id.
    """
    store_host, offset = ids.split_offset_message_id(message_id)
    try:
        stored = log.record_at(offset)
        own_host = record.decode(stored, check_crc=False).store_host
    except (OffsetTooSmall, OffsetTooLarge, CorruptRecord, WireError):
        return None
    return stored if own_host == ids.host_text(store_host) else None
