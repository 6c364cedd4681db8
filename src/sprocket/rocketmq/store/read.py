"""Reading a queue: messages from an offset on, and the offset that belongs to a time.

The statuses and their next offsets are RocketMQ's (`DefaultMessageStore.getMessage`,
`ConsumeQueue.getOffsetInQueueByTime`), because clients act on them. Stored bytes are handed out as
views of the log, unchanged. Before that a record's head must agree with its queue unit: a unit that
points at anything else is passed over, where RocketMQ would hand out what happens to lie there.
"""

import struct
from bisect import bisect_left, bisect_right
from enum import Enum
from typing import NamedTuple, Protocol

from msgspec import Struct

from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.base.units import KIB, MIB, PhysicalOffset, QueueOffset
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.codec.record import MAGIC_V1, MAGIC_V2, STORED_AT_MS_END
from sprocket.rocketmq.store.queues.file_queue import FILLER_SIZE, UNIT, UNIT_BYTES, FileQueue

SCAN_BYTES_MIN = 16_000
"""A read looks at this many bytes of units at least (`maxFilterMessageSize`): 800 units."""
ANSWER_BYTES_MIN = 100
ANSWER_BYTES_MAX = 128 * MIB
"""What a caller may ask for at least and at most."""
FAR_BYTES_MAX = 64 * KIB
FAR_COUNT_MAX = 8
"""Limits of an answer with messages far behind the end, which the disk may have to bring in."""

_CODE_MIN = -(1 << 31)
"""A tags code below this is the address of an extended unit, which passes every filter."""

_HEAD = struct.Struct(">iI4xi4xqq")
"""Size, magic, queue id, queue offset, physical offset at the start of a record."""


class LogReader(Protocol):
    """What reading needs of the log."""

    @property
    def end(self) -> PhysicalOffset:
        """Where the next record goes."""

    def slice(self, offset: int, size: int) -> memoryview:
        """Return stored bytes without a look at them; OffsetTooSmall, OffsetTooLarge."""


class GetStatus(Enum):
    """What came of a read."""

    FOUND = "at least one message"
    NO_MATCHED_MESSAGE = "messages are there, none passed the filter"
    MESSAGE_WAS_REMOVING = "a unit is there, its message is gone from the log"
    NO_MATCHED_LOGIC_QUEUE = "there is no such queue"
    NO_MESSAGE_IN_QUEUE = "the queue never had a message"
    OFFSET_TOO_SMALL = "the offset is before the first message kept"
    OFFSET_OVERFLOW_ONE = "the offset is that of the next message"
    OFFSET_OVERFLOW_BADLY = "the offset is behind that of the next message"
    OFFSET_FOUND_NULL = "the offset is in range but its unit cannot be read"


class GetResult(Struct):
    """What a read gives.

    Attributes:
        status: What came of it.
        next_offset: Where to go on.
        min_offset: First offset of the queue that can be read.
        max_offset: Offset of the queue's next message.
        records: Stored bytes of each message, views of the log.
        count: How many.
        bytes: Their sizes together.
        suggest_slave: The last message looked at lies far behind the end of the log.
    """

    status: GetStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    records: list[memoryview]
    count: int = 0
    bytes: int = 0
    suggest_slave: bool = False


class QueueRange(NamedTuple):
    """First offset that can be read, and offset of the next message."""

    min: QueueOffset
    max: QueueOffset


class Boundary(Enum):
    """Which of the messages around a time is meant."""

    LOWER = "the first message stored at the time or later"
    UPPER = "the last message stored at the time or earlier"


def get_messages(
    queue: FileQueue | None,
    log: LogReader,
    offset: int,
    *,
    max_count: int = 32,
    tags: frozenset[int] | None = None,
    max_bytes: int = 256 * KIB,
    far_bytes: int | None = None,
) -> GetResult:
    """Read messages of one queue from `offset` on.

    At most the units of one queue file and 800 of them (more only if `max_count` is) are looked
    at, so a selective filter may give NO_MATCHED_MESSAGE although later messages would match;
    `next_offset` is then behind what was looked at.

    Args:
        queue: The queue, None if it never had a message.
        log: Where the messages lie.
        offset: Queue offset of the first message wanted.
        max_count: Most messages to return.
        tags: Tag codes that pass; None lets everything pass.
        max_bytes: Most bytes to return; the first message is returned whatever its size.
        far_bytes: How far behind the end of the log a message counts as far away: fewer are
            returned then, and a slave is suggested. None if none does.
    """
    if queue is None:
        zero = QueueOffset(0)
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, zero, zero, zero, [])
    status, next_offset = _place(queue, offset)
    result = GetResult(status, next_offset, queue.min_offset, queue.max_offset, [])
    if status is GetStatus.NO_MATCHED_MESSAGE:
        scan_units = max(SCAN_BYTES_MIN // UNIT_BYTES, max_count)
        try:
            units = queue.read(offset, scan_units)
        except (OffsetTooSmall, OffsetTooLarge):
            units = memoryview(b"")
        if units:
            limit = min(max(max_bytes, ANSWER_BYTES_MIN), ANSWER_BYTES_MAX)
            _collect(result, queue.queue_id, units, log, (max_count, limit, far_bytes), tags)
        else:
            result.status = GetStatus.OFFSET_FOUND_NULL
            result.next_offset = queue.next_file(offset)
    return result


def _place(queue: FileQueue, offset: int) -> tuple[GetStatus, QueueOffset]:
    """Say where an offset lies; NO_MATCHED_MESSAGE stands for inside."""
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, QueueOffset(0)
    if offset < low:
        return GetStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetStatus.OFFSET_OVERFLOW_ONE, high
    if offset > high:
        return GetStatus.OFFSET_OVERFLOW_BADLY, high
    return GetStatus.NO_MATCHED_MESSAGE, QueueOffset(offset)


def _collect(
    result: GetResult,
    queue_id: int,
    units: memoryview,
    log: LogReader,
    limits: tuple[int, int, int | None],
    tags: frozenset[int] | None,
) -> None:
    """Go through units that begin at `result.next_offset` and take what fits."""
    max_count, max_bytes, far_bytes = limits
    far_before = -1 if far_bytes is None else log.end - far_bytes
    records = result.records
    offset: int = result.next_offset
    total = 0
    gone_before = last_looked_at = 0
    for place, size, code in UNIT.iter_unpack(units):
        is_far = place < far_before
        if size == FILLER_SIZE:
            size = 0  # it stands for no bytes
        if records and (
            len(records) >= max_count
            or total + size > max_bytes
            or (is_far and (total + size > FAR_BYTES_MAX or len(records) >= FAR_COUNT_MAX))
        ):
            break
        last_looked_at = place
        offset += 1
        if place < gone_before:
            continue
        if tags is not None and code >= _CODE_MIN and _low32(code) not in tags:
            continue
        try:
            stored = _record(log, place, size, queue_id, offset - 1)
        except OffsetTooSmall as error:
            stored = None
            gone_before = error.lowest
        if stored is None:
            if not records:
                result.status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        records.append(stored)
        total += size
    result.next_offset = QueueOffset(offset)
    result.count = len(records)
    result.bytes = total
    result.suggest_slave = last_looked_at < far_before
    if records:
        result.status = GetStatus.FOUND


def _low32(code: int) -> int:
    """Return the low 32 bits of a tags code as Java's `(int)` does."""
    return ((code + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def _record(
    log: LogReader, place: int, size: int, queue_id: int, queue_offset: int
) -> memoryview | None:
    """Return the record that a unit points at, None if something else lies there.

    Raises:
        OffsetTooSmall: It was cleaned away with the file that held it.
    """
    if size < record.RECORD_BYTES_MIN:
        return None
    try:
        stored = log.slice(place, size)
    except OffsetTooLarge:
        return None
    own_size, magic, own_queue, own_offset, own_place = _HEAD.unpack_from(stored)
    agrees = (
        (own_size, own_place) == (size, place)
        and (own_queue, own_offset) == (queue_id, queue_offset)
        and magic in (MAGIC_V1, MAGIC_V2)
    )
    return stored if agrees else None


def stored_at_ms(queue: FileQueue, log: LogReader, offset: int) -> int:
    """Return the store time of the message at `offset`, -1 if it cannot be read."""
    try:
        place, size, _ = queue.unit(offset)
        if size == FILLER_SIZE or size < STORED_AT_MS_END:
            return -1
        return record.stored_at_ms(log.slice(place, STORED_AT_MS_END))
    except (OffsetTooSmall, OffsetTooLarge):
        return -1


def offset_by_time(
    queue: FileQueue | None, log: LogReader, at_ms: int, boundary: Boundary
) -> QueueOffset:
    """Return the queue offset that belongs to a time.

    LOWER is the first message stored at `at_ms` or later, the next message's offset if there is
    none. UPPER is the last one stored at `at_ms` or earlier, the first message kept if there is
    none. Of messages with one store time LOWER takes the first and UPPER the last.

    Cost: about as many records are looked at as the queue's length has binary digits.
    """
    if queue is None or queue.min_offset >= queue.max_offset:
        return QueueOffset(0) if queue is None else queue.max_offset

    def key(offset: int) -> int:
        # A message that cannot be read counts as the next one that can, as if it had never been.
        while offset < queue.max_offset:
            found = stored_at_ms(queue, log, offset)
            if found >= 0:
                return found
            offset += 1
        return (1 << 63) - 1

    low, offsets = queue.min_offset, range(queue.max_offset)
    if boundary is Boundary.LOWER:
        return QueueOffset(bisect_left(offsets, at_ms, lo=low, key=key))
    return QueueOffset(max(low, bisect_right(offsets, at_ms, lo=low, key=key) - 1))
