"""The ends of transactions: a commit's copy and its op message are one write and one sync.

Theory of operation

What producers say of their transactions in some turns of the loop is taken up together: the copies
of what they commit, and behind them one op message that names all that ended, are appended as one
piece of the log. Whoever waits for an answer gets it when that is stored as the flush mode says.

Which half messages have ended is known by their offsets (`EndedHalves`); `recovery` makes that anew
when the store is opened, and mends what a crash has left half done.

Invariants

1. No half message ends twice: a second end of the same transaction is refused, whichever of its
   halves it names.
2. The op message of a copy is in no earlier write than the copy, and in no later one.
3. The progress that is noted covers only what the disk has: after a crash each half before it has
   ended in what is left of the log.

Source: RocketMQ `EndTransactionProcessor`, `TransactionalMessageServiceImpl`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import (
    LessSafe,
    StoreError,
    WireError,
)
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.messages import DurableAppender, Release, pending_acks
from sprocket.rocketmq.broker.transactions.half_records import (
    HalfRecords,
    RecentHalves,
    StoredHalf,
    read_half,
)
from sprocket.rocketmq.broker.transactions.recovery import UNREADABLE, Half, half_at, recover
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.model.message import TRANSACTION_COMMIT, TRANSACTION_MASK, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.transaction import Outcome, TransactionEnd
from sprocket.rocketmq.settings import TransactionSettings
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.store import Store

_log = log.get_limited_logger(__name__)

Prepared: TypeAlias = Callable[[Exception | None], Release]
"""Prepares what is told when something is stored, or why it is not. It has no effect of its own,
and may be called once more if a sync fails."""

Ended: TypeAlias = Callable[[Sequence[object], Exception | None], Release]
"""Does that for all who asked for ends of transactions that are stored together."""


class _End(Struct, frozen=True, gc=False):
    """A transaction that is to end, and who waits for that."""

    half: StoredHalf
    outcome: Outcome
    told: Ended
    asked: object

    def refuse(self, error: Exception) -> None:
        """Tell why it does not end."""
        self.told([self.asked], error)()


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far halves and op messages are, once the disk has the log up to `log_end`."""

    half: int
    op: int
    log_end: int


class Transactions:
    """Knows what has ended, and ends what producers say has.

    Args:
        store: The open store, whole.
        durable: The way into it.
        offsets: Where the progress is noted.
        records: Makes what is appended.
        recent: Half messages that need not be read.
        settings: Say how soon a producer has to speak that wants not to be asked.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        durable: DurableAppender,
        offsets: ConsumerOffsets,
        records: HalfRecords,
        recent: RecentHalves,
        settings: TransactionSettings,
    ) -> None:
        self._settings = settings
        self._store = store
        self._durable = durable
        self._offsets = offsets
        self._records = records
        self._recent = recent
        self._ends: list[_End] = []
        recovered = recover(store, offsets, records)
        self._last = recovered.last
        """By the offset of the first half of a transaction its last, if that is another one."""
        self._ops = recovered.ops
        """Offsets of op messages, and the highest of the halves that each names."""
        self._unsafe: _Progress | None = None
        self.ended = recovered.ended
        """The half messages that have ended."""

    def find_recent(self, asked: TransactionEnd) -> StoredHalf | None:
        """Return the half message of which a producer speaks; None if it is to be read.

        Raises:
            Refused: See `find`.
        """
        half = self._recent.take(asked.commit_log_offset)
        if half is not None:
            self._check(half, asked)
        return half

    def find(self, asked: TransactionEnd) -> StoredHalf:
        """Return the half message of which a producer speaks; reads the log, and does nothing else.

        Raises:
            Refused: OTHER; there is none, or it is another one. TOO_LATE; it wants to be asked
                about by now, and nobody has asked.
        """
        try:
            half = read_half(self._store.record_at(PhysicalOffset(asked.commit_log_offset)))
        except UNREADABLE as error:
            raise Refused(
                Refusal.OTHER, f"Find prepared transaction message failed: {error}"
            ) from error
        self._check(half, asked)
        return half

    def _check(self, half: StoredHalf, asked: TransactionEnd) -> None:
        """Refuse a word about a half message of which it is not true."""
        if half.record.topic != HALF_TOPIC:
            raise _wrong("topic", HALF_TOPIC, half.record.topic)
        group, offset = asked.producer_group, asked.tran_state_table_offset
        if half.group != group:
            raise _wrong("producer group", group, half.group)
        if half.offset != offset:
            raise _wrong("transaction state table offset", offset, half.offset)
        own_ms = half.immunity_ms
        if own_ms is not None and not asked.from_transaction_check:
            wait_ms = max(own_ms, self._settings.timeout_ms)
            if self._store.log_clock.elapsed_ms(half.stored_at_ms) > wait_ms:
                raise Refused(Refusal.TOO_LATE, f"{wait_ms} ms are over: producers will be asked")

    def end(self, half: StoredHalf, outcome: Outcome, told: Ended, asked: object) -> None:
        """End a transaction, together with others that end in these turns of the loop.

        Args:
            half: One of its half messages.
            outcome: How it ends.
            told: Prepares the answers of all requests that were passed with it.
            asked: What `told` gets of this one.
        """
        if not self._ends:
            self._durable.enqueue(self)
        self._ends.append(_End(half, outcome, told, asked))

    @property
    def waiting_count(self) -> int:
        """How many ends are to be taken up."""
        return len(self._ends)

    def append(self) -> None:
        """Append what ended in some turns of the loop."""
        ends, self._ends = self._ends, []
        self._end_all(ends)

    def _end_all(self, ends: Sequence[_End]) -> None:
        """Append copies and one op message, of all of them or, if that cannot be, of each alone."""
        copies: list[NewRecord] = []
        committed: list[Half] = []
        others: list[Half] = []
        taken: list[_End] = []
        offsets: set[int] = set()
        for end in ends:
            is_commit = end.outcome is Outcome.COMMIT
            half = self._last_of(end.half)
            try:
                if half.offset in self.ended or half.offset in offsets:
                    raise Refused(
                        Refusal.OTHER, f"transaction {end.half.message_id} has ended already"
                    )
                if is_commit:
                    copies.append(self._records.committed(end.half, half.place))
            except (Refused, WireError) as error:
                end.refuse(error)
                continue
            taken.append(end)
            offsets.add(half.offset)
            (committed if is_commit else others).append(half)
        if not taken:
            return
        try:
            self.append_with_op(copies, committed + others, partial(_ready, taken))
        except StoreError as error:
            if len(taken) == 1:
                taken[0].refuse(error)
                return
            for end in taken:
                self._end_all([end])

    def _last_of(self, half: StoredHalf) -> Half:
        """Return the last half of a transaction, of which any half is given."""
        last = self._last.get(half.root) if self._last else None
        return last or Half(half.offset, half.place, half.root)

    def append_with_op(
        self, records: Sequence[NewRecord], ended: Sequence[Half], told: Prepared
    ) -> AppendedBatch:
        """Append records, and behind them the op message of what ends with them, as one piece.

        Args:
            records: What to append.
            ended: What ends with that; first, in their order, those that a record follows.
            told: Prepares what is told once it is stored as the flush mode says, or why not.

        Returns:
            Where the records will be, and the op message behind them.

        Raises:
            StoreError: Nothing was appended.
        """
        offsets = [half.offset for half in ended]
        op = self._records.op(offsets, followed=len(records), synced=self._store.synced)
        stored = self._durable.append_together([*records, op], partial(self._told, ended), [told])
        self.ended.add_all(sorted(offsets))
        if self._last:
            for half in ended:
                self._last.pop(half.root, None)
        self._ops.append((stored.queue_offsets[-1], max(offsets)))
        return stored

    def follow(self, half: Half) -> None:
        """Note that a half message is stored as the last one of a transaction."""
        self._last[half.root] = half

    def _told(
        self,
        ended: Sequence[Half],
        asked: Sequence[Prepared],
        stored: AppendedBatch | None,
        error: StoreError | None,
    ) -> Release:
        is_stored = stored is not None
        why = None if is_stored and isinstance(error, LessSafe) else error
        return partial(self._release, ended, is_stored, [told(why) for told in asked])

    def _release(
        self,
        ended: Sequence[Half],
        is_stored: bool,
        releases: Sequence[Release],
    ) -> None:
        """Tell who waits; what was not stored has not ended after all."""
        if not is_stored:
            for half in ended:
                self.ended.discard(half.offset)
                self._last.pop(half.root, None)
                if half.root != half.offset:
                    self.follow(half)
        pending_acks.send(releases)

    def resume(self, message_id: str) -> NewRecord:
        """Return the half message to append of one that was given up: it is asked about anew.

        Raises:
            Refused: OTHER; no half message that was given up has this offset id.
        """
        try:
            stored = self._store.find_by_id(message_id)
            half = None if stored is None else read_half(stored)
        except WireError as error:
            raise Refused(Refusal.OTHER, str(error)) from error
        if half is None or half.record.topic != CHECKED_TOO_OFTEN_TOPIC:
            raise Refused(Refusal.OTHER, f"no half message that was given up has id {message_id}")
        return self._records.resumed(half)

    def half_range(self) -> tuple[int, int]:
        """Return the offset of the first half message that has not ended, and the queue's end."""
        low, high = self._store.queue_range(HALF_TOPIC, 0)
        self.ended.skip_to(min(low, high))
        return self.ended.floor, high

    def half_at(self, offset: int) -> StoredHalf:
        """Return a half message by its offset in the queue; see `recovery.half_at`."""
        return half_at(self._store, offset)

    def has_copy(self, half: StoredHalf) -> bool:
        """Tell whether a message with the id of this one was committed already.

        A half whose answer was lost is sent once more, and then one of the two is committed.
        """
        key = half.record.unique_key
        if not key:
            return False
        topic, _ = half.target()
        places = {*self._store.find(topic, key).offsets}
        if half.may_wait:
            places.update(self._store.find(SCHEDULE_TOPIC, key).offsets)
        return any(self._is_copy(place, key) for place in sorted(places))

    def _is_copy(self, place: PhysicalOffset, key: str) -> bool:
        try:
            entry = record.entry(self._store.record_at(place))
        except UNREADABLE:
            return False
        return entry.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT and key in entry.keys[:1]

    def note_progress(self) -> None:
        """Note how far everything has ended, as far as the disk has it; called now and then."""
        written = self._store.written
        unsafe = self._unsafe
        if unsafe is None or self._store.synced >= unsafe.log_end:
            if unsafe is not None:
                self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, unsafe.half)
                self._offsets.commit(TRANSACTION_GROUP, OP_TOPIC, 0, unsafe.op)
            floor, _ = self.half_range()
            while self._ops and self._ops[0][1] < floor:
                self._ops.popleft()
            op = self._ops[0][0] if self._ops else self._store.queue_end(OP_TOPIC, 0)
            self._unsafe = _Progress(floor, op, written)


def _wrong(what: str, said: object, found: object) -> Refused:
    return Refused(Refusal.OTHER, f"The {what} wrong: {said!r}, stored is {found!r}")


def _ready(ends: Sequence[_End], error: Exception | None) -> Release:
    """Prepare the answers to ended transactions, one call for each function."""
    asked: dict[Ended, list[object]] = {}
    for end in ends:
        asked.setdefault(end.told, []).append(end.asked)
    return partial(pending_acks.send, [told(those, error) for told, those in asked.items()])
