"""Reading a queue: messages from an offset on.

The statuses and their next offsets are RocketMQ's (`DefaultMessageStore.getMessage`), because
clients rely on them. Stored bytes are handed out as views of the log, unchanged. Before that a
record's head must agree with its queue unit: a unit that points at something else is passed over,
where RocketMQ would hand out whatever is there. Of records that this process wrote itself only the
first and the last of an answer are checked; see docs/decisions/0013-own-records-are-trusted.md.

Older parts of the log are read by calls that can fail, many records with one call if they are close
together. An answer ends before a record that the disk cannot read; if that is the first one, the
read fails.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from itertools import accumulate, chain
from operator import itemgetter
from typing import NamedTuple, Protocol

from msgspec import Struct

from sprocket.base.disk import Missing, SegmentWindow, WouldBlock
from sprocket.base.errors import DiskFailed, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    MAGIC_AT,
    MAGIC_V1,
    MAGICS,
    PLACE,
    RECORD_BYTES_MIN,
)
from sprocket.rocketmq.model.filters import MessageFilter, OwnedBits
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.log import PageCache
from sprocket.rocketmq.store.queue import FILLER_SIZE, Queue, UnitRead, is_address
from sprocket.rocketmq.store.read.property_scan import PropertyScan, scan_of

SCAN_BYTES_MIN = 16_000
"""A read looks at this many bytes of units at least (`maxFilterMessageSize`): 800 units."""
SPARE_UNITS = 4
"""Without a filter nearly every unit gives a message, so a read looks at so many more at most."""
ANSWER_BYTES_MIN = 100
ANSWER_BYTES_MAX = 128 * MIB
"""What a caller may ask for at least and at most."""
FAR_BYTES_MAX = 256 * KIB
"""Limit of an answer with messages far behind the end, which the disk may have to bring in: others
wait for the same disk. RocketMQ's limits are 64 KiB and eight messages, so that a reader of a long
backlog asks four times as often as near its end."""
FILTER_COST_MAX = 20_000
"""What a filter by properties may cost in one read, in the units of `MessageFilter.cost`: 4 ms. One
record is looked at whatever it costs."""
BITS_COST = 2
"""What the bit map of a message costs, in the same units."""
COLD_GAP_BYTES_MAX = 16 * KIB
"""Records that are not warm, with no more than this between them, are read by one call: to copy so
much takes as long as another call."""
COLD_BYTES_MAX = 256 * KIB
"""Read by one such call at most, unless a record is longer."""

_NOTHING = memoryview(b"")
_NO_WINDOW = SegmentWindow(_NOTHING, 0, 0)

head_of = PLACE.unpack_from
"""Size, magic, queue id, queue offset, physical offset at the start of a record."""


class LogReader(Protocol):
    """What reading needs of the log."""

    @property
    def end(self) -> PhysicalOffset:
        """Where the next record goes."""

    @property
    def warm_from(self) -> int:
        """From where on the log is in memory, and is not copied to be looked at."""

    def slice(self, offset: int, size: int) -> memoryview:
        """Return stored bytes without a look at them; OffsetTooSmall, OffsetTooLarge."""

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return what one file has from `offset` on, `size` bytes at least; errors as `slice`."""


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
    OFFSET_RESET = "an administrator has sent the group elsewhere; brokers say so, reads never"

    __hash__ = object.__hash__  # Enum's is slow, and each pull looks up what its status means


_FOUND = GetStatus.FOUND  # Enum takes seven times as long to look it up


class GetResult(Struct, gc=False):
    """What a read gives.

    Attributes:
        status: What came of it.
        next_offset: Where to go on.
        min_offset: First offset of the queue that can be read.
        max_offset: Offset of the queue's next message.
        runs: Stored bytes of the messages, views of the log; what lies there back to back is mostly
            one.
        count: How many messages they are.
        bytes: Their sizes together.
        suggest_slave: The last message looked at lies far behind the end of the log.
        filter_cost: What a filter by properties has cost, in the units of `MessageFilter.cost`.
    """

    status: GetStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    runs: list[memoryview]
    count: int = 0
    bytes: int = 0
    suggest_slave: bool = False
    filter_cost: int = 0

    @property
    def records(self) -> list[memoryview]:
        """Stored bytes of each record, views of the log; an inner batch is one."""
        found = []
        for run in self.runs:
            at = 0
            while at <= len(run) - RECORD_BYTES_MIN:
                size, *_ = head_of(run, at)
                if size < RECORD_BYTES_MIN:
                    break  # it was damaged since this process wrote it
                found.append(run[at : at + size])
                at += size
        return found


class OffsetRange(NamedTuple):
    """First offset that can be read, and offset of the next message."""

    min: QueueOffset
    max: QueueOffset


class _Limits(NamedTuple):
    """What ends an answer; see `get_messages`."""

    max_count: int
    max_bytes: int
    far_before: int
    scan_end: int


class Reading(Struct, frozen=True, gc=False):
    """Who reads, and how much.

    Attributes:
        max_count: Most messages to return; a batch is returned whole if it is the first.
        max_bytes: Most bytes to return; the first message is returned whatever its size.
        wanted: Which messages pass; None lets everything pass.
        reader: Who reads on from here; None if this is not a consumer.
    """

    max_count: int = 32
    max_bytes: int = 256 * KIB
    wanted: MessageFilter | None = None
    reader: Hashable | None = None


def get_messages(
    queue: Queue | None,
    log: LogReader,
    offset: int,
    reading: Reading = Reading(),  # noqa: B008 - it is frozen
    *,
    bytes_in_memory: int | None = None,
    page_cache: PageCache | None = None,
    own_from: int | None = None,
) -> GetResult:
    """Read messages of one queue from `offset` on.

    Few more units than `max_count` are looked at, with a filter 16,000 bytes of them (800 units),
    all in one queue file; with one by properties fewer, if it is dear or only the disk has the
    records. So an answer may have fewer messages than are there, or none: `next_offset` is behind
    what was looked at.

    Args:
        queue: The queue, None if it never had a message.
        log: Where the messages lie.
        offset: Queue offset of the first message wanted. In a batch queue the answer begins with
            the batch that holds it.
        reading: Who reads, and how much.
        bytes_in_memory: How far behind the end of the log a message may lie to be in memory; of
            what lies further fewer are returned, and a slave is suggested. None if all of it is.
        page_cache: Told where a consumer is.
        own_from: From this place of the log on every record, and its unit, was written by this
            process; None if that is not known of any.
    """
    if queue is None:
        zero = QueueOffset(0)
        return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, zero, zero, zero, [])
    if not queue.min_offset <= offset < queue.max_offset:
        return _outside(queue, offset)
    max_count, wanted = reading.max_count, reading.wanted
    max_bytes = min(max(reading.max_bytes, ANSWER_BYTES_MIN), ANSWER_BYTES_MAX)
    far_before = -1 if bytes_in_memory is None else log.end - bytes_in_memory
    if wanted is None and own_from is not None and max_count > 0:
        own_from = max(own_from, far_before)
        found = _own(queue, log, offset, reading, max_bytes, own_from, page_cache)
        if found is not None:
            return found
    look_at = _look_at(queue, reading)
    limits = _Limits(max_count, max_bytes, far_before, offset + look_at)
    result = _nothing_yet(queue, offset)
    if wanted is None:
        look_at = min(look_at, max_count + SPARE_UNITS)
    try:
        units = queue.units(result.next_offset, look_at)
        _, place, size, _, _ = units[0]
        if page_cache is not None and size != FILLER_SIZE:
            page_cache.note(reading.reader, place)
        if wanted is None or not wanted.cost:
            _collect(result, queue, log, limits, wanted, units)
        else:
            _select(result, queue, log, limits, scan_of(wanted), wanted.bits, units)
    except (OffsetTooSmall, OffsetTooLarge):
        result.status = GetStatus.OFFSET_FOUND_NULL
        result.next_offset = queue.after_unreadable(result.next_offset)
    return result


def get_sparse(queue: Queue, log: LogReader, offset: int, reading: Reading) -> GetResult:
    """Read messages of a queue in which offsets may be missing; see `get_messages`.

    Args:
        queue: The queue; its units lead to `log`.
        log: Where the messages lie.
        offset: Queue offset of the first message wanted; not below that of the first unit.
        reading: Who reads, and how much.

    Raises:
        OffsetTooLarge: There is no message at `offset` or behind.
    """
    max_bytes = min(max(reading.max_bytes, ANSWER_BYTES_MIN), ANSWER_BYTES_MAX)
    limits = _Limits(reading.max_count, max_bytes, -1, ANYWHERE)
    wanted, look_at = reading.wanted, _look_at(queue, reading)
    if wanted is None:
        look_at = min(look_at, reading.max_count + SPARE_UNITS)
    result = _nothing_yet(queue, offset)
    units = queue.units(offset, look_at)
    result.next_offset = QueueOffset(units[0][0])
    if wanted is None or not wanted.cost:
        _collect(result, queue, log, limits, wanted, units)
    else:
        _select(result, queue, log, limits, scan_of(wanted), wanted.bits, units)
    return result


def _look_at(queue: Queue, reading: Reading) -> int:
    """Return how many units a read looks at if it has a filter."""
    return -(-max(SCAN_BYTES_MIN, reading.max_count * queue.unit_bytes) // queue.unit_bytes)


def _nothing_yet(queue: Queue, offset: int) -> GetResult:
    return GetResult(
        GetStatus.NO_MATCHED_MESSAGE, QueueOffset(offset), queue.min_offset, queue.max_offset, []
    )


def _outside(queue: Queue, offset: int) -> GetResult:
    """Say where an offset lies that is none of a message."""
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, QueueOffset(0), low, high, [])
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high, [])
    is_next = offset == high
    status = GetStatus.OFFSET_OVERFLOW_ONE if is_next else GetStatus.OFFSET_OVERFLOW_BADLY
    return GetResult(status, high, low, high, [])


def _own(
    queue: Queue,
    log: LogReader,
    offset: int,
    reading: Reading,
    max_bytes: int,
    own_from: int,
    page_cache: PageCache | None,
) -> GetResult | None:
    """Return the next messages, without a filter, if all of them were written by this process.

    Their units were made of these very records, so that a look at the first and the last is enough
    where `_collect` looks at each; a busy broker hands out more than half a million a second. What
    is not all there, or cannot all be read, is left to that: then this returns None.

    Raises:
        WouldBlock: Some of them only the disk has; all such are told.
    """
    if queue.topic.startswith(LIGHT_PREFIX):
        return None
    try:
        found = queue.places(offset, reading.max_count)
        if found is None:
            return None
        places, sizes = found
        total = sum(sizes)
        if total > max_bytes:
            sums = list(accumulate(sizes))
            count = bisect_right(sums, max_bytes)
            if not count:
                return None
            places, sizes, total = places[:count], sizes[:count], sums[count - 1]
        start, last = places[0], len(places) - 1
        if start < own_from or min(sizes) < RECORD_BYTES_MIN:
            return None
        if page_cache is not None:
            page_cache.note(reading.reader, start)
        end = places[last] + sizes[last]
        if end - start == total:
            view, view_start, view_end = log.window(start, total)
            if view_end < end:
                return None
            runs = [view[start - view_start : end - view_start]]
        else:
            runs = _runs(log, _back_to_back(places, sizes))
    except (OffsetTooSmall, OffsetTooLarge, DiskFailed):
        return None  # some of it may be there
    queue_id = queue.queue_id
    if (
        not runs
        or head_of(runs[0]) != (sizes[0], MAGIC_V1, queue_id, offset, start)
        or head_of(runs[-1], len(runs[-1]) - sizes[last])
        != (sizes[last], MAGIC_V1, queue_id, offset + last, places[last])
    ):
        return None
    return GetResult(
        _FOUND,
        QueueOffset(offset + last + 1),
        queue.min_offset,
        queue.max_offset,
        runs,
        last + 1,
        total,
    )


def _runs(log: LogReader, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
    """Return what the log has of spans, given by begin and end; nothing if one is not all there.

    Raises:
        DiskFailed: One cannot be read.
        WouldBlock: Some only the disk has; all such are told.
    """
    runs = []
    missing: list[Missing] = []
    view, view_start, view_end = _NO_WINDOW
    blocked_to = -1
    for number, (begin, behind) in enumerate(spans):
        if behind <= blocked_to:
            continue
        if not view_start <= begin < behind <= view_end:
            end = behind if begin >= log.warm_from else _reach(spans[number:])
            try:
                view, view_start, view_end = _window(log, begin, end - begin)
            except WouldBlock as stop:
                missing += stop.missing
                blocked_to = end
                continue
            if not view_start <= begin < behind <= view_end:
                return []
        runs.append(view[begin - view_start : behind - view_start])
    if missing:
        raise WouldBlock(missing)
    return runs


def _reach(spans: Iterable[tuple[int, int]]) -> int:
    """Return up to where to read the first of some spans, with those behind it that lie close."""
    around = iter(spans)
    start, end = next(around)
    for begin, behind in around:
        is_close = end <= begin <= end + COLD_GAP_BYTES_MAX and begin < behind
        if not is_close or behind - start > COLD_BYTES_MAX:
            break
        end = behind
    return end


def _back_to_back(places: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return begin and end of what lies back to back; nothing if places do not grow."""
    spans = []
    begin = behind = places[0]
    for place, size in zip(places, sizes, strict=True):
        if place != behind:
            if place < behind:
                return []
            spans.append((begin, behind))
            begin = place
        behind = place + size
    return [*spans, (begin, behind)]


def _collect(
    result: GetResult,
    queue: Queue,
    log: LogReader,
    limits: _Limits,
    wanted: MessageFilter | None,
    units: list[UnitRead],
) -> None:
    """Go through units, which begin at `result.next_offset`, and take what fits.

    The look at a record's head is not a call. Nearly every record is plainly the one meant, but for
    those of light queues, which say others.

    Raises:
        WouldBlock: Some of them only the disk has; all such are told, and count as taken.
    """
    max_count, max_bytes, far_before, scan_end = limits
    runs, run_view, run_at, run_end = result.runs, _NOTHING, 0, 0
    (view, view_start, view_end), gone_before = _NO_WINDOW, 0
    offset, count, total, last = int(result.next_offset), 0, 0, far_before
    queue_id = None if queue.topic.startswith(LIGHT_PREFIX) else queue.queue_id
    passes = None if wanted is None else wanted.by_unit
    missing: list[Missing] = []
    blocked_from = blocked_to = 0
    for first, place, size, code, messages in units:
        if first >= scan_end:
            break
        if count + messages > max_count or total + size > max_bytes or place < far_before:
            if size == FILLER_SIZE:
                size = 0  # it stands for no bytes
            if count and _is_full(limits, count, messages, total + size, place):
                break
        last = place
        before, offset = offset, first + messages
        if place < gone_before:
            continue
        if passes is not None:
            known = _extended_code(queue, code) if is_address(code) else code
            if known is not None and not passes(known):
                result.status = GetStatus.NO_MATCHED_MESSAGE
                continue
        if missing and blocked_from <= place <= blocked_to - size:
            count += messages
            total += size
            continue
        if size < RECORD_BYTES_MIN or not view_start <= place <= view_end - size:
            try:
                if place >= log.warm_from:
                    view, view_start, view_end = _window(log, place, max(size, RECORD_BYTES_MIN))
                else:
                    view, view_start, view_end = _cold(log, units, first, alone=wanted is not None)
            except DiskFailed:
                if not count:
                    raise
                offset = before
                break
            except WouldBlock as stop:
                missing += stop.missing
                blocked_from, blocked_to = place, place + stop.missing[-1].size
                count += messages
                total += size
                continue
            gone_before = view_start if not view else gone_before
            if size < RECORD_BYTES_MIN or not view_start <= place <= view_end - size:
                result.status = GetStatus.MESSAGE_WAS_REMOVING
                continue
        at = place - view_start
        own_size, magic, own_queue, own_offset, own_place = head_of(view, at)
        if (
            own_size != size
            or own_place != place
            or own_offset != first
            or own_queue != queue_id
            or magic != MAGIC_V1
        ) and not _is_meant(view[at : at + size], place, queue, first):
            result.status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if at != run_end or view is not run_view:
            if run_end:
                runs.append(run_view[run_at:run_end])
            run_view, run_at = view, at
        run_end = at + size
        count += messages
        total += size
    if missing:
        raise WouldBlock(missing)
    if run_end:
        runs.append(run_view[run_at:run_end])
    result.status = GetStatus.FOUND if count else result.status
    result.next_offset, result.count, result.bytes = QueueOffset(offset), count, total
    result.suggest_slave = last < far_before


def _select(
    result: GetResult,
    queue: Queue,
    log: LogReader,
    limits: _Limits,
    scan: PropertyScan,
    bits: OwnedBits | None,
    units: list[UnitRead],
) -> None:
    """Go through units as `_collect`, and take what fits of the records whose properties pass.

    Raises:
        DiskFailed: The first record cannot be read.
        WouldBlock: Only the disk has the first one, or one that passed.
    """

    def window(unit: UnitRead) -> SegmentWindow:
        first, place, size, _, _ = unit
        if place >= log.warm_from:
            return _window(log, place, size)
        return _cold(log, units, first, alone=False)

    if units[-1][0] >= limits.scan_end:
        units = [unit for unit in units if unit[0] < limits.scan_end]
    behind = units[-1][0] + units[-1][4]
    if bits is not None:
        result.filter_cost = BITS_COST * len(units)
        units = _not_rejected(queue, bits, units)
        if not units:
            result.next_offset = QueueOffset(behind)
            return
    scanned = scan.scan(units, window, limits.max_count, FILTER_COST_MAX)
    result.filter_cost += scanned.cost
    if scanned.passed:
        first, *_, messages = scanned.passed[-1]
        _collect(result, queue, log, limits, None, scanned.passed)
        if result.next_offset < first + messages:
            return
    is_whole = scanned.end == units[-1][0] + units[-1][4]
    result.next_offset = QueueOffset(behind if is_whole else scanned.end)


def _not_rejected(queue: Queue, bits: OwnedBits, units: list[UnitRead]) -> list[UnitRead]:
    """Return the units whose messages may pass, as far as bit maps say."""
    rejected = queue.rejected([code for _, _, _, code, _ in units], bits)
    return [unit for unit in units if unit[3] not in rejected] if rejected else units


def _is_full(limits: _Limits, count: int, messages: int, size: int, place: int) -> bool:
    """Say whether an answer of `count` messages ends before a record.

    Args:
        limits: What ends it.
        count: Messages before the record.
        messages: Those in it.
        size: Bytes with it.
        place: Where it lies.
    """
    if place < limits.far_before and size > FAR_BYTES_MAX:
        return True
    return count + messages > limits.max_count or size > limits.max_bytes


def _cold(log: LogReader, units: list[UnitRead], first: int, *, alone: bool) -> SegmentWindow:
    """Read the record of a unit, with those behind it that lie close.

    Args:
        log: The log.
        units: The units of this answer.
        first: The queue offset of the one whose record is wanted.
        alone: Whether the others are not likely to be wanted.

    Raises:
        DiskFailed: The record cannot be read.
    """
    at = bisect_left(units, first, key=itemgetter(0))
    _, place, size, *_ = units[at]
    size = max(size, RECORD_BYTES_MIN)
    if size > COLD_BYTES_MAX and _named_size(log, place) != size:
        return _NO_WINDOW  # it may be any number
    end = place + size
    if not alone:
        around = ((start, start + more) for _, start, more, *_ in units[at + 1 :])
        end = _reach(chain([(place, end)], around))
    try:
        return _window(log, place, end - place)
    except DiskFailed:
        return _window(log, place, size)


def _named_size(log: LogReader, place: int) -> int:
    """Return the size that a record names, −1 if there is none."""
    view, start, _ = _window(log, place, BLANK_BYTES)
    head = view[place - start : place - start + BLANK_BYTES]
    return int.from_bytes(head[:MAGIC_AT], "big", signed=True) if head else -1


def _window(log: LogReader, place: int, size: int) -> SegmentWindow:
    """Return a part of the log from a place on, empty if it is not there.

    What lies before the start of an empty one is gone.
    """
    try:
        return log.window(place, size)
    except OffsetTooSmall as error:
        return SegmentWindow(_NOTHING, error.lowest, error.lowest)
    except OffsetTooLarge:
        return _NO_WINDOW


def _is_meant(stored: memoryview, place: int, queue: Queue, offset: int) -> bool:
    """Say whether a record that is not plainly the one its unit points at is that all the same.

    A topic may be too long for the usual magic. A record of a light queue says the place that it
    has in another queue, and among its properties this one, unless it was sent there alone.
    """
    size, magic, own_queue, own_offset, own_place = head_of(stored)
    if size != len(stored) or magic not in MAGICS or own_place != place:
        return False
    if not queue.topic.startswith(LIGHT_PREFIX):
        return bool(own_offset == offset and own_queue == queue.queue_id)
    try:
        entry = record.entry(stored)
    except WireError:
        return False
    if entry.topic == queue.topic:
        return bool(own_offset == offset)
    return entry.extra is not None and (queue.topic, offset) in entry.extra.light


def units(queue: Queue | None, offset: int, count: int) -> list[UnitRead]:
    """Return up to `count` units from `offset` on; none where there is none, or no queue.

    A code that is the address of an extended unit is replaced by the code in it.
    """
    if queue is None or not queue.min_offset <= offset < queue.max_offset:
        return []
    return [_resolved(queue, unit) for unit in queue.units(offset, count)]


def stored_bytes(queue: Queue | None) -> int:
    """Return the bytes of all records that a queue has, −1 if some of its units are not there.

    They are added up from the units, 0.04 µs each; nothing of the log is read. What stands for
    a lost message counts nothing.
    """
    total, offset = 0, queue.min_offset if queue is not None else 0
    while queue is not None and offset < queue.max_offset:
        try:
            found = queue.places(offset, _SUMMED_UNITS)
            batches = queue.units(offset, _SUMMED_UNITS) if found is None else []
        except OffsetTooSmall:
            return -1
        sizes = [size for _, _, size, _, _ in batches] if found is None else found.sizes
        if 0 in sizes:
            return -1
        total += sum(sizes) - FILLER_SIZE * sizes.count(FILLER_SIZE)
        offset = QueueOffset(batches[-1][0] + batches[-1][4] if batches else offset + len(sizes))
    return total


_SUMMED_UNITS = 4096
"""Units that are added up at once."""


def _resolved(queue: Queue, unit: UnitRead) -> UnitRead:
    first, place, size, code, messages = unit
    known = _extended_code(queue, code) if is_address(code) else None
    return unit if known is None else (first, place, size, known, messages)


def _extended_code(queue: Queue, address: int) -> int | None:
    """Return the tags code of an extended unit, None if that is lost."""
    extended = queue.extended(address)
    return None if extended is None else extended.tags_code
