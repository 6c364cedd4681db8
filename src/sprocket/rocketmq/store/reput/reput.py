"""From the log to the queues and the index, in rounds.

Theory of operation. What was written is read from the end of the log (`tail`, `log_follower`) as
recovery reads it, many records at a time as columns. The queues come first, since consumers wait
for them; the index has its own place and may be behind. A place moves on only when its records are
put, and queues and index ignore what they have already; so a round that failed half-way is simply
repeated.

The log of a slave may have a topic that its master has deleted and made again: its messages begin
at queue offset 0 once more. Whoever owns the queues is told (`MadeAgain`) before such a message is
put, and deletes those of before.

Usually the index gets the same records as the queues, as the same columns. If it has to catch up it
reads its part of the log again, as one part.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.log import Tail
from sprocket.rocketmq.store.queue import QueueKey, Queues, UnitAssigner, UnitBatch
from sprocket.rocketmq.store.reput import log_follower
from sprocket.rocketmq.store.reput.log_follower import LogPart

INDEX_BACKLOG_BYTES_MAX = 8 * MIB
"""Of the log that the index may lack; beyond that it follows at the next dispatch. So much is still
in the tail (`KEPT_BYTES_MAX`), as columns if it came so; more would be read and decoded again."""

ROUNDS_MAX = 1024
"""Rounds kept for `take_fresh`; a store whose owner never asks loses the oldest."""

_ALL = 1 << 62

MadeAgain: TypeAlias = Callable[[str, PhysicalOffset], None]
"""Deletes the queues of a topic, and sees to it that its records before a place get no unit."""


class Arrival(Struct):
    """What a round brought to one queue, for those who wait for it.

    Attributes:
        next_offset: The queue's new maximum.
        tags_codes: Of the new messages, in order.
    """

    topic: str
    queue_id: int
    next_offset: QueueOffset
    tags_codes: list[int]


class Put(Struct):
    """How much a round brought to the queues of one topic; light queues are topics, too."""

    topic: str
    messages: int
    bytes: int


class Fresh(NamedTuple):
    """What has come into the queues: by topic, and for those who wait by queue."""

    puts: list[Put]
    arrivals: list[Arrival]


class Reput:
    """Follows the log, for queues and index.

    Args:
        tail: The end of the log.
        queues: The queues.
        index: The key index, None if the store keeps none.
        position: Up to where both have the log.
        units: Says which units records get.
        made_again: Is told of topics whose queues begin anew; None in a log in which none can.

    Attributes:
        began_at: The first `position`: of what lies behind, all units were put by this object.
    """

    def __init__(
        self,
        tail: Tail,
        queues: Queues,
        index: Indexes | None,
        position: int,
        units: UnitAssigner | None = None,
        made_again: MadeAgain | None = None,
    ) -> None:
        self._made_again = made_again
        self._tail = tail
        self._queues = queues
        self._units = units or UnitAssigner()
        self._index = index
        self._fresh: list[Sequence[Entry] | UnitBatch] = []
        self.began_at = self._queued_to = position
        self._queued_at_ms = 0
        self._is_wide = False  # the last records were in many queues, so those to come may be, too
        self._indexed_to = position
        self._last: LogPart | None = None  # what the queues got last, if the index lacks just that

    def begin_at(self, start: PhysicalOffset) -> None:
        """Begin at a place of a log that has nothing yet; see `CommitLog.begin_at`."""
        self.began_at = self._queued_to = self._indexed_to = start

    @property
    def queued_to(self) -> PhysicalOffset:
        """Up to where the queues have the log."""
        return PhysicalOffset(self._queued_to)

    @property
    def queued_at_ms(self) -> int:
        """The store time of the last record that the queues have, 0 if none since the opening."""
        return self._queued_at_ms

    @property
    def index_backlog_bytes(self) -> int:
        """How much of the log the queues have and the index lacks."""
        return 0 if self._index is None else self._queued_to - self._indexed_to

    def take_fresh(self, *, someone_waits: bool) -> Fresh:
        """Return what has come into the queues since the last call, whoever dispatched it.

        Args:
            someone_waits: False leaves out the arrivals, which cost up to 0.3 µs a message.
        """
        rounds, self._fresh = self._fresh, []
        puts: list[Put] = []
        arrivals: list[Arrival] = []
        for units in rounds:
            if isinstance(units, UnitBatch):
                puts += _batch_puts(units)
                arrivals += _batch_arrivals(units) if someone_waits else ()
            else:
                puts += _puts(units)
                arrivals += _arrivals(units) if someone_waits else ()
        return Fresh(puts, arrivals)

    def to_queues(
        self, limit: int, max_count: int | None = None, *, max_queues: int = _ALL
    ) -> None:
        """Put into the queues what lies before `limit` in the log; see `take_fresh`.

        Args:
            limit: Physical offset up to which consumers may see; a record that was written ends
                there.
            max_count: Records to take at most; all by default.
            max_queues: Stop when about so many queues were written; all by default. A write costs
                some 12 µs, and 60 if the queue is new, however little it brings.

        Raises:
            DiskFull, DiskFailed: Nothing is forgotten; the next call tries again.
            CorruptRecord: The log does not hold what was written to it, or a queue has a gap.
        """
        left = _ALL if max_count is None else max_count
        left_queues = max_queues
        while self._queued_to < limit and left > 0 and left_queues > 0:
            few = min(left, left_queues)  # so few records are in no more queues
            most = few if self._is_wide else left
            part = log_follower.next_part(self._tail, self._queued_to, limit, most, with_keys=False)
            if part is not None and _queue_count(part) > left_queues:
                part = log_follower.next_part(
                    self._tail, self._queued_to, limit, few, with_keys=False
                )
            if part is None:
                self._queued_to = limit
            else:
                count = _queue_count(part)
                self._is_wide = count > left_queues // 2
                self._put(part)
                left -= len(part.records)
                left_queues -= count
        if self._index is None:
            self._tail.drop(self._queued_to)
        elif self.index_backlog_bytes > INDEX_BACKLOG_BYTES_MAX:
            self.to_index()

    def _put(self, part: LogPart) -> None:
        """Put the units of the next records."""
        self._last = None
        records = part.records
        if self._made_again is not None:
            self._look_for_topics_made_again(records, self._made_again)
        if isinstance(records, list):
            self._put_entries(records)
        else:
            if self._units.are_records(records):
                units = UnitBatch.of(records)
                self._queues.put_batch(units)
                self._tell(units)
            else:
                self._put_entries(records.entries())
            if part.start == self._indexed_to and self._index is not None:
                self._last = part
        self._queued_to = part.end
        self._queued_at_ms = part.last_stored_at_ms

    def _look_for_topics_made_again(
        self, records: Sequence[Entry] | RecordBatch, made_again: MadeAgain
    ) -> None:
        """Tell of each topic of which a record has offset 0, and lies behind all of its queue."""
        if isinstance(records, RecordBatch):
            if records.queue_offset.all():
                return
            records = records.entries()
        elif all(entry.queue_offset for entry in records):
            return
        reached: dict[QueueKey, int] = {}
        for entry in records:
            key = entry.topic, entry.queue_id
            if not entry.queueable or entry.topic.startswith(LIGHT_PREFIX):
                continue
            if entry.queue_offset == 0 and self._is_behind(key, entry, reached.get(key, 0)):
                made_again(entry.topic, PhysicalOffset(entry.physical_offset))
                reached = {one: 0 if one[0] == entry.topic else at for one, at in reached.items()}
            reached[key] = entry.next_offset

    def _is_behind(self, key: QueueKey, entry: Entry, reached: int) -> bool:
        """Say whether a queue has messages, or will have some, all of which lie before a record.

        Args:
            key: The queue.
            entry: The record.
            reached: What the records before it bring the queue to; 0 if they bring nothing.
        """
        queue = self._queues.by_key.get(key)
        if queue is None:
            return reached > 0
        return max(queue.max_offset, reached) > 0 and entry.physical_offset >= queue.end

    def _put_entries(self, entries: Sequence[Entry]) -> None:
        units = self._units.of(entries)
        self._queues.put_round(units)
        # Entries of prepared messages, in rolled back ones as well, got no unit.
        self._tell([unit for unit in units if not unit.sys_flag & TRANSACTION_PREPARED])

    def _tell(self, units: Sequence[Entry] | UnitBatch) -> None:
        self._fresh.append(units)
        if len(self._fresh) > ROUNDS_MAX:
            del self._fresh[0]

    def to_index(self, limit: int | None = None) -> int:
        """Put keys of dispatched records into the index.

        Args:
            limit: Records to take at most; all by default.

        Returns:
            How many records were taken.

        Raises:
            DiskFull, DiskFailed: Nothing is forgotten; the next call tries again.
            CorruptRecord: The log does not hold what was written to it.
        """
        most = _ALL if limit is None else limit
        taken = 0
        while self._index is not None and self._indexed_to < self._queued_to and taken < most:
            part = self._part_for_index(most - taken)
            if part is None:
                self._indexed_to = self._queued_to
            else:
                if isinstance(part.records, list):
                    self._index.put_round(part.records)
                else:
                    self._index.put_batch(part.records, part.start)
                self._indexed_to = part.end
                taken += len(part.records)
        if taken:
            self._tail.drop(self._indexed_to)
        return taken

    def _part_for_index(self, count_max: int) -> LogPart | None:
        """Return the next records for the index, which may be those the queues got last."""
        last, self._last = self._last, None
        if last is not None and len(last.records) <= count_max:
            assert last.start == self._indexed_to
            return last
        start, end = self._indexed_to, self._queued_to
        return log_follower.next_part(self._tail, start, end, count_max, with_keys=True)


def _queue_count(part: LogPart) -> int:
    """Return how many queues get units of the records."""
    records = part.records
    if isinstance(records, list):
        return len({(entry.topic, entry.queue_id) for entry in records})
    return len(records.by_queue.first)


def _puts(entries: Sequence[Entry]) -> list[Put]:
    topics = {entry.topic for entry in entries}
    if len(topics) == 1:
        return [Put(topics.pop(), len(entries), sum([entry.size for entry in entries]))]
    found = {topic: Put(topic, 0, 0) for topic in topics}
    for entry in entries:
        put = found[entry.topic]
        put.messages += 1
        put.bytes += entry.size
    return list(found.values())


def _arrivals(entries: Sequence[Entry]) -> list[Arrival]:
    codes: dict[tuple[str, int], list[int]] = {}
    last: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        key = entry.topic, entry.queue_id
        last[key] = entry
        known = codes.get(key)
        if known is None:
            codes[key] = [entry.tags_code]
        else:
            known.append(entry.tags_code)
    return [
        Arrival(*key, QueueOffset(last[key].next_offset), known) for key, known in codes.items()
    ]


def _batch_puts(batch: UnitBatch) -> list[Put]:
    found: dict[str, Put] = {}
    for (topic, _), units in batch.by_queue():
        put = found.setdefault(topic, Put(topic, 0, 0))
        put.messages += len(units.size)
        put.bytes += int(units.size.sum())
    return list(found.values())


def _batch_arrivals(batch: UnitBatch) -> list[Arrival]:
    return [
        Arrival(*key, QueueOffset(int(units.queue_offset[-1]) + 1), units.tags_code.tolist())
        for key, units in batch.by_queue()
    ]
