"""The queue offset that belongs to a time.

Source: RocketMQ `ConsumeQueue.getOffsetInQueueByTime`.
"""

from bisect import bisect_left, bisect_right
from enum import Enum

from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record_layout import STORED_AT_MS_END
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.queue import FILLER_SIZE, Queue
from sprocket.rocketmq.store.read.queue_reader import LogReader


class Boundary(Enum):
    """Which of the messages around a time is meant."""

    LOWER = "the first message stored at the time or later"
    UPPER = "the last message stored at the time or earlier"


def stored_at_ms(queue: Queue | None, log: LogReader, offset: int) -> int:
    """Return the store time of the message at `offset`, -1 if it cannot be read."""
    if queue is None:
        return -1
    try:
        known = queue.stored_at_ms(offset)
        if known is not None:
            return known
        place, size, _ = queue.unit(offset)
        if size == FILLER_SIZE or size < STORED_AT_MS_END:
            return -1
        return record_layout.stored_at_ms(log.slice(place, STORED_AT_MS_END))
    except (OffsetTooSmall, OffsetTooLarge):
        return -1


def offset_by_time(
    queue: Queue | None, log: LogReader, at_ms: int, boundary: Boundary
) -> QueueOffset:
    """Return the queue offset that belongs to a time.

    LOWER is the first message stored at `at_ms` or later, the next message's offset if there is
    none. UPPER is the last one stored at `at_ms` or earlier, the first message kept if there is
    none. Of messages with one store time LOWER takes the first and UPPER the last. In a batch queue
    both are the first offset of a batch. A message that cannot be read counts as the next one.

    Cost: about as many records are looked at as the queue's length has binary digits.
    """
    if queue is None or queue.min_offset >= queue.max_offset:
        return QueueOffset(0) if queue is None else queue.max_offset

    def key(offset: int) -> int:
        while offset < queue.max_offset:
            found = stored_at_ms(queue, log, offset)
            if found >= 0:
                return found
            offset += 1
        return (1 << 63) - 1

    low, offsets = queue.min_offset, range(queue.max_offset)
    if boundary is Boundary.LOWER:
        return QueueOffset(bisect_left(offsets, at_ms, lo=low, key=key))
    found = max(low, bisect_right(offsets, at_ms, lo=low, key=key) - 1)
    return max(low, queue.first_of(found))
