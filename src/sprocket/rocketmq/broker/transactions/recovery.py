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

Most halves that have not ended are the first of their transaction, and nothing is to be known of
them: they are read by the thousand, and none of them is kept in memory.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from sprocket.base import log
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.transactions.ended_halves import EndedHalves
from sprocket.rocketmq.broker.transactions.half_records import (
    HalfRecords,
    Op,
    StoredHalf,
    follows_another,
    read_half,
    read_op,
)
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry, properties, record
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
HALVES_READ = 1024
"""Halves that are read at once, MIB of them at most."""

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
    """Return what the log says, once it says it in op messages; nothing if it follows another one.

    Args:
        store: The open store, whole.
        offsets: Where the progress is noted.
        records: Makes what is appended.

    Durability: what was appended is on the disk when this returns.
    """
    if store.is_following:  # a crash is mended by whoever the log is of
        return Recovered(EndedHalves(0), {}, deque())
    low, high = store.queue_range(HALF_TOPIC, 0)
    noted = offsets.get(TRANSACTION_GROUP, HALF_TOPIC, 0) or 0
    named = -1
    ended = EndedHalves(min(max(low, noted), high))
    ops: deque[tuple[int, int]] = deque()
    recent: deque[Op] = deque()
    for offset, op in _op_messages(store, offsets.get(TRANSACTION_GROUP, OP_TOPIC, 0) or 0):
        for one in op.ended:
            ended.add(one)
        named = max([named, *op.ended])
        ops.append((offset, max(op.ended, default=0)))
        recent.append(op)
        while _is_certain(recent[0], op):
            recent.popleft()
    renewed = list(_renewed(store, ended, high))
    doubtful = list(_followed_by(store, recent))
    last = {half.root: half for half in renewed}
    found: set[Half] = set()
    pending = next(ended.pending(0, high), None)
    if pending is not None or doubtful:
        start = max(_start(store, recent), store.first)
        if pending is not None and not doubtful:
            with suppress(*UNREADABLE):
                start = max(start, half_at(store, pending).place)
        found = set(_followed(store, _Halves(store, ended, high, [*renewed, *doubtful]), start))
    without_op = sorted(half for half in found if half.offset not in ended)
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


def _renewed(store: Store, ended: EndedHalves, high: int) -> Iterator[Half]:
    """Give the halves that have not ended and follow others; what is lost has ended."""
    for begin, end in ended.gaps(high):
        offset = begin
        while offset < end:
            got = store.get_messages(
                HALF_TOPIC, 0, offset, max_count=min(end - offset, HALVES_READ), max_bytes=MIB
            )
            behind = max(got.next_offset, offset + 1)
            if got.count < behind - offset or any(follows_another(bytes(run)) for run in got.runs):
                yield from _each_renewed(store, ended, range(offset, min(behind, end)))
            offset = behind


def _each_renewed(store: Store, ended: EndedHalves, offsets: Iterable[int]) -> Iterator[Half]:
    """Look at each of some halves, as `_renewed` does."""
    for offset in offsets:
        try:
            half = half_at(store, offset)
        except UNREADABLE as error:
            if not isinstance(error, OffsetTooSmall):
                _log.error("a half message is lost", queue_offset=offset, why=str(error))
            ended.add(offset)
            continue
        if half.root != offset:
            yield Half(offset, half.place, half.root)


def _followed_by(store: Store, recent: Iterable[Op]) -> Iterator[Half]:
    """Give the halves of which op messages say that a record follows them."""
    for op in recent:
        for offset in op.followed:
            with suppress(*UNREADABLE):  # nobody can be asked about one that is gone
                half = half_at(store, offset)
                yield Half(offset, half.place, half.root)


class _Halves:
    """The halves that a record may follow: those that have not ended, and some others.

    Args:
        store: Where they are.
        ended: Which have ended.
        high: The end of their queue.
        known: Those that are not the first of their transaction, and the others.
    """

    def __init__(self, store: Store, ended: EndedHalves, high: int, known: Sequence[Half]) -> None:
        self._store = store
        self._ended = ended
        self._high = high
        self._by_place = {half.place: half for half in known}
        self._by_root: dict[int, list[Half]] = {}
        for half in known:
            self._by_root.setdefault(half.root, []).append(half)

    def at(self, place: int) -> Half | None:
        """Return the one that lies at a place of the log."""
        known = self._by_place.get(place)
        if known is not None:
            return known
        try:
            half = read_half(self._store.record_at(PhysicalOffset(place)))
        except UNREADABLE:
            return None
        found = self._first(half.offset) if half.record.topic == HALF_TOPIC else None
        return found if found is not None and found.place == place else None

    def of(self, root: int) -> list[Half]:
        """Return those of the transaction whose first half has an offset."""
        first = self._first(root)
        known = self._by_root.get(root, [])
        return known if first is None or first in known else [first, *known]

    def _first(self, offset: int) -> Half | None:
        """Return one that has not ended and is the first of its transaction."""
        if offset >= self._high or offset in self._ended:
            return None
        try:
            half = half_at(self._store, offset)
        except UNREADABLE:
            return None
        return Half(offset, half.place, offset) if half.root == offset else None


def _followed(store: Store, halves: _Halves, start: int) -> Iterator[Half]:
    """Give those of some halves that a record from `start` on follows.

    A record says so by their place. It may also be the follower of a follower that is lost: so what
    has the same root counts, too.
    """
    followers = chain.from_iterable(map(_followers, store.record_batches(PhysicalOffset(start))))
    for entry, stored in followers:
        is_copy = entry.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        prepared = entry.prepared_transaction_offset
        named = halves.at(prepared) if is_copy or prepared > 0 else None
        if named is not None:
            yield named
        root = record.stored_properties(stored).get(properties.TRAN_PREPARED_QUEUE_OFFSET, "")
        for half in halves.of(int(root)) if root.isdecimal() else ():
            if entry.topic != HALF_TOPIC or entry.queue_offset > half.offset:
                yield half


def _followers(batch: RecordBatch) -> Iterator[tuple[Entry, memoryview]]:
    """Give those of some records that may follow a half, what they say and as they are stored."""
    records = batch.records
    stored = memoryview(records.data)
    may_follow = batch.topic_number < 0
    for number, name in enumerate(batch.topic_names):
        if name in (HALF_TOPIC, CHECKED_TOO_OFTEN_TOPIC):
            may_follow |= batch.topic_number == number
    if not follows_another(bytes(stored[records.start[0] : records.end[-1]])):
        may_follow &= records.number("prepared_transaction_offset") > 0
    may_follow |= batch.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
    for number in may_follow.nonzero()[0].tolist():
        yield batch.entry(number), stored[records.start[number] : records.end[number]]


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


def _start(store: Store, recent: Sequence[Op]) -> int:
    """Return from where on the log is to be looked through; see `_is_certain`."""
    if not recent:
        ops = _op_messages(store, store.queue_end(OP_TOPIC, 0) - 1)
        last = next((op for _, op in ops), None)  # all that it names have ended, as is noted
        return 0 if last is None or last.synced is None else last.synced
    return recent[0].place if recent[-1].synced is None else recent[-1].synced
