"""Reading a queue of a compaction topic: what is kept, then what is not copied yet.

To consumers it is one queue in which offsets are missing. The statuses are those of RocketMQ's
`CompactionLog.getMessage`: an offset below the first one that is kept begins there, and is never
called too small; one behind the end leads to the first message if that is 0, else to the end.
Unlike there a filter is respected, and a message can be read as soon as it is stored.
"""

from sprocket.base.errors import DiskFailed, OffsetTooLarge
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.queue import Queue
from sprocket.rocketmq.store.read import (
    Boundary,
    GetResult,
    GetStatus,
    LogReader,
    OffsetRange,
    Reading,
    queue_reader,
    time_search,
)


def range_of(kept: CompactedQueue | None, queue: Queue) -> OffsetRange:
    """Return the offsets between which a queue has its messages, as far as anybody has them.

    The first one is the log's or that of a copy: RocketMQ only knows of the log's.
    """
    low, high = _read_range(kept, queue)
    return OffsetRange(min(low, queue.min_offset), high)


def _read_range(kept: CompactedQueue | None, queue: Queue) -> OffsetRange:
    """Return the offset of the first message that consumers get, and that of the next one."""
    if kept is None or not kept.files:
        return OffsetRange(queue.min_offset, queue.max_offset)
    return OffsetRange(kept.min_offset, max(queue.max_offset, kept.max_offset))


def get_kept(
    kept: CompactedQueue | None, queue: Queue, offset: int, reading: Reading
) -> GetResult | int:
    """Return what is kept from an offset on; where to read in the queue itself if that is newer.

    Args:
        kept: What is kept of the queue; None if nothing.
        queue: The queue.
        offset: Queue offset of the first message wanted.
        reading: Who reads, and how much.

    Raises:
        DiskFailed: The first message cannot be read.
        WouldBlock: Only the disk has it.
    """
    low, high = _read_range(kept, queue)
    if offset >= high:
        return offset
    if kept is not None and kept.unreadable is not None:
        raise DiskFailed(kept.unreadable)
    offset = max(offset, low)
    if kept is None or offset >= kept.max_offset:
        return max(offset, queue.min_offset)
    try:
        found = queue_reader.get_sparse(kept, kept, offset, reading)
        if reading.wanted is None and kept.make_units_passed(
            offset, found.next_offset, found.count
        ):
            found = queue_reader.get_sparse(kept, kept, offset, reading)
    except OffsetTooLarge:  # nothing is kept up to the end of the copy
        return max(kept.max_offset, queue.min_offset)
    found.min_offset, found.max_offset = low, high
    return found


def as_compacted(found: GetResult, kept: CompactedQueue | None, queue: Queue) -> GetResult:
    """Return what reading the queue itself gave as an answer of a compaction topic."""
    found.min_offset, found.max_offset = _read_range(kept, queue)
    if found.status is GetStatus.OFFSET_OVERFLOW_BADLY and not found.min_offset:
        found.next_offset = QueueOffset(0)
    return found


def stored_at_ms(
    kept: CompactedQueue | None, queue: Queue | None, log: LogReader, offset: int
) -> int:
    """Return the store time of the first message from an offset on; −1 if it cannot be read."""
    if kept is not None and kept.files and offset < kept.max_offset:
        return time_search.stored_at_ms(kept, kept, offset)
    return time_search.stored_at_ms(queue, log, offset)


def offset_by_time(
    kept: CompactedQueue | None,
    queue: Queue | None,
    log: LogReader,
    at_ms: int,
    boundary: Boundary,
) -> QueueOffset:
    """Return the queue offset that belongs to a time; see `time_search.offset_by_time`.

    As in RocketMQ it may be one whose message was replaced.
    """
    found = time_search.offset_by_time(queue, log, at_ms, boundary)
    has_older = queue is not None and kept is not None and kept.min_offset < queue.min_offset
    if kept is not None and has_older and queue is not None and found == queue.min_offset:
        return min(found, time_search.offset_by_time(kept, kept, at_ms, boundary))
    return found
