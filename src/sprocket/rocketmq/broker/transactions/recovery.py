"""What the log says of transactions when a store is opened.

Which half messages have ended is in the op messages from where the progress was noted. After a
crash that is not all. A kill may leave a copy without the op message behind it, and a loss of power
the op message without what was to be before it. An op message therefore says up to where the disk
had the log when it was appended, and how many of the halves that it names have a record before it.
From there on the log is looked through for those records:

* a half that one of them follows has ended; if no op message says so, one is appended;
* a half that an op message says is followed, by a record that is not there, is stored again: its
  producer is asked;
* an op message may name halves that are lost themselves. Their offsets are filled up, for a half
  that came to be at one of them would count as ended.

RocketMQ's op messages come up to three seconds after the copies and do not say this, so that more
of the log is looked through behind them. RocketMQ itself delivers after a kill twice what was
committed in that time.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from sprocket.base import log
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.transactions.ended_halves import EndedHalves
from sprocket.rocketmq.broker.transactions.half_records import (
    HalfRecords,
    Op,
    StoredHalf,
    read_half,
    read_op,
)
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.internal import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.model.message import TRANSACTION_COMMIT, TRANSACTION_MASK
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store

_log = log.get_logger(__name__)

OPS_READ = 256
"""Op messages whose units are read at once."""

OP_LATE_MS = 10_000
"""So much later than a copy RocketMQ may have stored its op message: what was stored in this time
before its last one is looked through as well."""

UNREADABLE = (CorruptRecord, OffsetTooSmall, OffsetTooLarge, WireError)
"""A record is not there, or damaged."""


class Half(NamedTuple):
    """The last half message of a transaction.

    Attributes:
        offset: Its offset in the queue of half messages.
        place: Where it lies in the log.
        root: The offset of the first one, which its producer knows.
    """

    offset: int
    place: int
    root: int


class Recovered(NamedTuple):
    """What the log says.

    Attributes:
        ended: The half messages that have ended.
        last: By the offset of the first half of a transaction that has not ended its last, if that
            is another one.
        ops: Offsets of the op messages behind the noted progress, and the highest of the halves
            that each names.
    """

    ended: EndedHalves
    last: dict[int, Half]
    ops: deque[tuple[int, int]]


def recover(store: Store, offsets: ConsumerOffsets, records: HalfRecords) -> Recovered:
    """Return what the log says, once it says it in op messages.

    Args:
        store: The open store, whole.
        offsets: Where the progress is noted.
        records: Makes what is appended.

    Durability: what was appended is on the disk when this returns.
    """
    low, high = store.queue_range(HALF_TOPIC, 0)
    noted = offsets.get(TRANSACTION_GROUP, HALF_TOPIC, 0) or 0
    named = -1
    ended = EndedHalves(min(max(low, noted), high))
    ops: deque[tuple[int, int]] = deque()
    recent: deque[Op] = deque()
    for offset, op in _op_messages(store, offsets.get(TRANSACTION_GROUP, OP_TOPIC, 0) or 0):
        for one in op.ended:
            ended.add(one)
        named = max(named, *op.ended)
        ops.append((offset, max(op.ended, default=0)))
        recent.append(op)
        while _is_certain(recent[0], op):
            recent.popleft()
    pending = list(_pending(store, ended, high))
    doubtful = list(_followed_by(store, recent))
    last = {half.root: half for half in pending if half.root != half.offset}
    found: set[Half] = set()
    if pending or doubtful:
        start = _start(recent)
        if not doubtful:
            start = max(start, min(half.place for half in pending))
        found = _followed(store, [*pending, *doubtful], start)
    without_op = [half for half in pending if half in found]
    without_record = {half.root: half for half in doubtful if half not in found}
    for half in without_op:
        ended.add(half.offset)
        last.pop(half.root, None)
    lost = range(high, named + 1)
    for half in _append(store, records, lost, without_op, list(without_record.values())):
        last[half.root] = half
    for one in lost:
        ended.add(one)
    return Recovered(ended, last, ops)


def half_at(store: Store, offset: int) -> StoredHalf:
    """Return a half message by its offset in the queue.

    Raises:
        OffsetTooSmall: There is none any more: it was erased, or lost before anybody was answered.
        OffsetTooLarge, CorruptRecord, WireError: It is not there, or damaged.
    """
    low, high = store.queue_range(HALF_TOPIC, 0)
    units = store.units(HALF_TOPIC, 0, offset, 1)
    if not units or units[0][0] != offset:
        raise OffsetTooLarge(offset, high)
    _, place, size, *_ = units[0]
    if size == FILLER_SIZE:
        raise OffsetTooSmall(offset, low)
    half = read_half(store.record_at(PhysicalOffset(place)))
    if (half.record.topic, half.offset) != (HALF_TOPIC, offset):
        raise WireError("another record lies where the queue says")
    return half


def _append(
    store: Store,
    records: HalfRecords,
    lost: Sequence[int],
    without_op: Sequence[Half],
    without_record: Sequence[Half],
) -> list[Half]:
    """Have the log say what has ended, and what has not; return the latter, as it is now."""
    if not lost and not without_op and not without_record:
        return []
    _log.warning(
        "a crash left transactions half done; that is mended",
        without_half=len(lost),
        without_op=len(without_op),
        without_record=len(without_record),
    )
    filled = [records.void() for _ in lost]
    new = [records.renewed(half_at(store, half.offset)) for half in without_record]
    offsets = [half.offset for half in (*without_record, *without_op)]
    op = records.op([*offsets, *lost], followed=len(new), synced=store.synced)
    stored = store.append_all([*filled, *new, op])
    store.write()
    store.sync()
    places = zip(stored.queue_offsets, stored.physical_offsets, strict=True)
    return [
        Half(offset, place, half.root)
        for half, (offset, place) in zip(
            without_record, islice(places, len(filled), None), strict=False
        )
    ]


def _pending(store: Store, ended: EndedHalves, high: int) -> Iterator[Half]:
    """Give the halves of which no op message says that they have ended."""
    for offset in ended.pending(0, high):
        try:
            half = half_at(store, offset)
        except UNREADABLE as error:
            if not isinstance(error, OffsetTooSmall):
                _log.error("a half message is lost", queue_offset=offset, why=str(error))
            ended.add(offset)
            continue
        yield Half(offset, half.place, half.root)


def _followed_by(store: Store, recent: Iterable[Op]) -> Iterator[Half]:
    """Give the halves of which op messages say that a record follows them."""
    for op in recent:
        for offset in op.followed:
            with suppress(*UNREADABLE):  # nobody can be asked about one that is gone
                half = half_at(store, offset)
                yield Half(offset, half.place, half.root)


def _followed(store: Store, halves: Sequence[Half], start: int) -> set[Half]:
    """Return those of some halves that a record from `start` on follows.

    A record says so by their place. It may also be the follower of a follower that is lost: so what
    has the same root counts, too.
    """
    by_place = {half.place: half for half in halves}
    by_root: dict[int, list[Half]] = {}
    for half in halves:
        by_root.setdefault(half.root, []).append(half)
    found: set[Half] = set()
    for place, stored in store.records(PhysicalOffset(start)):
        try:
            entry = record.entry(stored, with_keys=False)
        except WireError as error:
            _log.error("a record cannot be read", place=place, why=str(error))
            continue
        is_copy = entry.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        if not is_copy and entry.topic not in (HALF_TOPIC, CHECKED_TOO_OFTEN_TOPIC):
            continue
        named = by_place.get(entry.prepared_transaction_offset)
        if named is not None and (is_copy or entry.prepared_transaction_offset > 0):
            found.add(named)
        root = record.stored_properties(stored).get(properties.TRAN_PREPARED_QUEUE_OFFSET, "")
        for half in by_root.get(int(root), ()) if root.isdecimal() else ():
            if entry.topic != HALF_TOPIC or entry.queue_offset > half.offset:
                found.add(half)
    return found


def _op_messages(store: Store, start: int) -> Iterator[tuple[int, Op]]:
    """Give offset and content of the op messages from `start` on."""
    low, high = store.queue_range(OP_TOPIC, 0)
    offset = max(low, min(start, high))
    while offset < high:
        units = store.units(OP_TOPIC, 0, offset, OPS_READ)
        if not units:
            return
        for at, place, size, *_ in units:
            if size == FILLER_SIZE:
                continue
            try:
                yield at, read_op(record.decode(store.record_at(PhysicalOffset(place))))
            except UNREADABLE as error:
                _log.error("an op message is lost", queue_offset=at, why=str(error))
        offset = units[-1][0] + units[-1][4]


def _is_certain(op: Op, last: Op) -> bool:
    """Tell whether the disk had an op message, and what is before it, when `last` was appended."""
    if op is last:
        return False
    if last.synced is not None:
        return op.place < last.synced
    return op.stored_at_ms < last.stored_at_ms - OP_LATE_MS


def _start(recent: Sequence[Op]) -> int:
    """Return from where on the log is to be looked through; see `_is_certain`."""
    if not recent:
        return 0
    return recent[0].place if recent[-1].synced is None else recent[-1].synced
