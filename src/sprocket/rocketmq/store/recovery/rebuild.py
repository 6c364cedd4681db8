"""Putting records of the log into queues and index again, in rounds.

Queues and index ignore what they have, so a record may be put twice. But a round cannot put a
message behind a gap. If the messages between are damaged in the log, fillers take their offsets; if
the queue lost units that the log still has, it is `missing` and made again from the whole log. An
offset 0 behind everything that a queue has means that its topic was made again.

A record may name a wrong place in its queue, as one bit of that field is wrong, and only some have
a checksum over it. Where nothing is damaged before it, its queue says what the right one is; were
it believed, others would lose their places to it, or a billion fillers would be put. But the queue
may be what is damaged. So it is believed only where the log bears it out: the last message that the
queue has says the same of itself, and lies before the record.

A queue without messages may continue at any offset, by the name of a file that is left. Either its
messages were deleted and the log has none before that offset; or a crash took its first files and
left a later one, and then it begins again with the first message that the log has.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from sprocket.base.disk import Segment
from sprocket.base.errors import OffsetTooSmall
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.log import PADDING_TOPIC, Damage, LogScanner, Misplaced
from sprocket.rocketmq.store.queue import LastUnit, QueueKey, Queues, UnitAssigner, UnitBatch

ROUND = 4096
"""Records put at once; enough for the index to work on whole arrays."""
PENDING_MAX = 1 << 19
"""Units of batches that are put at once, 20 MB of them: some for each of very many queues."""

_INT64 = (1 << 64) - 1


def reached(queues: Queues) -> dict[QueueKey, int]:
    """Return the next offset of each queue, but of those that say one and have no message."""
    empty = _empty(queues)
    return {key: queue.max_offset for key, queue in queues.by_key.items() if key not in empty}


def _empty(queues: Queues) -> set[QueueKey]:
    """Return the queues that have no message but say where they go on."""
    return {key for key, one in queues.by_key.items() if 0 < one.max_offset <= one.min_offset}


class Rebuild:
    """Collects entries in the order of the log and puts them.

    Args:
        queues: The queues, cut to what is certain.
        index: The index, the same; None if the store keeps none.
        from_first: The entries begin at the first record of the log, so that a queue which is not
            there may begin anywhere.
        put_last_again: The last record that the index has may lack some of its keys.
        knows_deletions: `units_of` knows which topics were deleted, so that an offset 0 with no
            more than one wrong bit is not that of one made again.
        units_of: Says which units records get.
        record_at: Returns the record of the log that begins at a place, None if none does. Without
            it no record is renumbered.
        step: Told how far it is.

    Attributes:
        units: Units put.
        lost: Queue offsets for which fillers were put.
        indexed: Records whose keys were put.
        missing: Queues, as topic and id, that lack units which no damage explains.
        misplaced: Records that were put at another place of their queue than they name.
    """

    def __init__(
        self,
        queues: Queues,
        index: Indexes | None,
        *,
        from_first: bool,
        put_last_again: bool = False,
        knows_deletions: bool = False,
        units_of: UnitAssigner | None = None,
        record_at: Callable[[int], Entry | None] | None = None,
        step: Step = unwatched,
    ) -> None:
        self.units = 0
        self.lost = 0
        self.indexed = 0
        self.missing: set[tuple[str, int]] = set()
        self.misplaced: list[Misplaced] = []
        self._lacks_records = False
        self._log_end = -1
        self._queues = queues
        self._units_of = units_of or UnitAssigner()
        self._record_at = record_at
        self._index = index
        self._index_from = 0 if index is None else index.end + (not put_last_again)
        self._from_first = from_first
        self._knows_deletions = knows_deletions
        self._step = step
        self._next: dict[QueueKey, int] = {
            key: queue.max_offset for key, queue in queues.by_key.items()
        }
        self._empty = _empty(queues)
        self._continued: set[QueueKey] = set(self._next)
        self._kept: dict[QueueKey, int] = {}
        self._parts: list[UnitBatch] = []
        self._units: list[Entry] = []
        self._keys: list[Entry] = []

    def add_all(self, found: RecordBatch, *, after_damage: bool) -> None:
        """Take up the next records of the log; as `add` for each of them, but many at a time.

        Columns are put as they are if every record is its own unit and every queue simply goes on
        with them, which is all that ever happens except for the few kinds of records of `units`,
        damage and lost units.
        """
        room = int(found.physical_offset[0]) - self._log_end
        if self._log_end >= 0 and room > int(found.size[0]) + BLANK_BYTES:
            self._lacks_records = True  # a blank stands for damage: the record would have fitted
        self._log_end = found.end
        if self._units_of.are_records(found) and self._follows(found):
            self._put(found)
            return
        for entry in found.entries():
            self.add(entry, after_damage=after_damage)

    def _follows(self, batch: RecordBatch) -> bool:
        """Say whether every queue has all its units already, or goes on with the first of them."""
        rows, first = batch.by_queue
        if not len(rows):
            return True
        offsets = batch.queue_offset[rows]
        goes_on = np.diff(offsets) == 1
        goes_on[first[1:] - 1] = True  # there another queue begins
        if not goes_on.all():
            return False
        last = np.append(first[1:], len(rows)) - 1
        bounds = zip(batch.runs, offsets[first].tolist(), offsets[last].tolist(), strict=True)
        for run, begin, end in bounds:
            key = run.topic, run.queue_id
            if key in self.missing:
                return False
            expected = self._next.get(key)
            if expected is None:
                if begin and not self._from_first:
                    return False
            elif begin == expected:
                if self._passed(key, int(batch.physical_offset[run.rows[0]])):
                    return False
            elif not (
                0 < begin <= end < expected
                and key not in self._empty
                and int(batch.physical_offset[run.rows[0]]) < self._queues.by_key[key].end
            ):
                return False
        return True

    def _put(self, batch: RecordBatch) -> None:
        """Take up a batch whose queues all follow, and put its keys."""
        if self._units or self._keys:
            self.finish()
        self._parts.append(UnitBatch.of(batch))
        rows, first = batch.by_queue
        last = np.append(first[1:], len(rows)) - 1
        after = (batch.queue_offset[rows[last]] + 1).tolist() if len(rows) else ()
        for run, offset in zip(batch.runs, after, strict=True):
            key = run.topic, run.queue_id
            self._next[key] = max(offset, self._next.get(key, 0))
            self._empty.discard(key)
        if self._index is not None:
            self.indexed += self._index.put_batch(batch, self._index_from)
        if sum(map(len, self._parts)) >= PENDING_MAX:
            self._put_pending()

    def _put_pending(self) -> None:
        if self._parts:
            units = UnitBatch.joined(self._parts)
            self._parts = []
            self.units += self._queues.put_batch(units, self._step)

    def add(self, entry: Entry, *, after_damage: bool) -> None:
        """Take up the next record of the log.

        Args:
            entry: The record.
            after_damage: Something was damaged before it, which explains a gap in its queue.
        """
        if entry.queueable:
            for unit in self._units_of.each(entry):
                self._add_unit(unit, after_damage=after_damage)
        elif PADDING_TOPIC.startswith(entry.topic):
            self._lacks_records = True
        has_keys = entry.keys and is_indexable(entry.sys_flag)
        if has_keys and self._index is not None and entry.physical_offset >= self._index_from:
            self._keys.append(entry)
        if len(self._units) >= ROUND or len(self._keys) >= ROUND:
            self.finish()

    def _add_unit(self, entry: Entry, *, after_damage: bool) -> None:
        key = entry.topic, entry.queue_id
        if key in self.missing:
            return
        expected = self._next.get(key)
        if expected and self._begins_anew(entry, expected, after_damage=after_damage):
            self._queues.remove(*key)
            self._continued.discard(key)
            expected = None
        if expected is None:
            if entry.queue_offset and not self._from_first:
                self.missing.add(key)
                return
        elif entry.queue_offset >= expected and self._passed(key, entry.physical_offset):
            self.missing.add(key)
            return
        elif entry.queue_offset > expected:
            if not after_damage and not self._from_first:
                self.missing.add(key)
                return
            if not after_damage and self._is_misnumbered(entry, expected):
                entry = self._renumbered(entry, expected)
            else:
                self.finish()
                self.lost += self._queues.fill_to(*key, entry.queue_offset)
        elif not after_damage and self._is_misnumbered(entry, expected):
            entry = self._renumbered(entry, expected)
        if expected is None or entry.queue_offset >= expected:
            self._next[key] = entry.next_offset
        self._units.append(entry)

    def _passed(self, key: QueueKey, place: int) -> bool:
        """Say whether a queue claims to have what lies at a place; if not, a unit is damaged."""
        queue = self._queues.by_key.get(key)
        return queue is not None and place < queue.end

    def _is_misnumbered(self, entry: Entry, expected: int) -> bool:
        """Say whether a record that is next in its queue has one wrong bit where it says so.

        The queue's last message must be in the log, say that it is the one before, and lie before.
        """
        wrong_bits = (entry.queue_offset ^ expected) & _INT64
        if wrong_bits.bit_count() != 1 or entry.extra is not None or self._lacks_records:
            return False
        self.finish()
        queue = self._queues.by_key.get((entry.topic, entry.queue_id))
        if queue is None or self._record_at is None or queue.max_offset <= queue.min_offset:
            return False
        try:
            place = queue.unit(expected - 1)[0]
        except OffsetTooSmall:
            return False
        last = self._record_at(place) if place < entry.physical_offset else None
        if last is None:
            return False
        of_last = last.topic, last.queue_id, last.queue_offset
        return of_last == (entry.topic, entry.queue_id, expected - 1)

    def _renumbered(self, entry: Entry, expected: int) -> Entry:
        self.misplaced.append(Misplaced(entry.physical_offset, entry.queue_offset, expected))
        return replace(entry, queue_offset=expected)

    def _begins_anew(self, entry: Entry, expected: int, *, after_damage: bool) -> bool:
        """Say whether what there is of a queue is not what a record goes on from."""
        key = entry.topic, entry.queue_id
        if key in self._empty:
            self._empty.remove(key)
            return entry.queue_offset < expected
        if self._knows_deletions and not after_damage and self._is_misnumbered(entry, expected):
            return False
        return not entry.queue_offset and self._is_made_again(entry)

    def _is_made_again(self, entry: Entry) -> bool:
        """Say whether a record with offset 0 lies behind all that its queue has.

        Then the topic was deleted, and made again: the queue has its messages from here on.
        """
        self.finish()
        queue = self._queues.by_key.get((entry.topic, entry.queue_id))
        if queue is None or queue.max_offset <= queue.min_offset:
            return False
        last = queue.last_unit()
        return last is not None and last[0] < entry.physical_offset

    def keep_places(self, lasts: Mapping[QueueKey, LastUnit], damages: Sequence[Damage]) -> None:
        """Put fillers for the last messages of queues, if damaged: nobody gets their place.

        If an earlier recovery did so, the log shows no damage any more, but the fillers were there.

        Args:
            lasts: The last unit that each queue had, of those that were cut.
            damages: What was stepped over.
        """
        for key, last in lasts.items():
            is_damaged = any(d.start <= last.physical_offset < d.end for d in damages)
            kept_to = last.max_offset if is_damaged else last.kept_to
            if key in self._continued and self._next[key] < kept_to:
                self._kept[key] = kept_to
        self._fill_kept()

    def _fill_kept(self) -> None:
        """Put fillers up to where queues are to go on."""
        self.finish()
        for key, kept_to in self._kept.items():
            self.lost += self._queues.fill_to(*key, kept_to)

    def finish(self) -> None:
        """Put what was taken up so far."""
        self._put_pending()
        if self._units:
            self.units += self._queues.put_round(self._units_of.of(self._units))
            self._units = []
        if self._index is not None and self._keys:
            self._index.put_round(self._keys)
            self.indexed += len(self._keys)
            self._keys = []

    def from_whole_log(self, segments: Sequence[Segment], *, index_too: bool) -> None:
        """Make the queues in `missing` again, and with `index_too` the index, which is empty.

        Costs a scan of the whole log; does nothing if there is nothing to make.
        """
        if not self.missing and not index_too:
            return
        for key in sorted(self.missing):
            self._queues.remove(*key)
        index = self._index if index_too else None
        again = Rebuild(
            self._queues,
            index,
            from_first=True,
            knows_deletions=self._knows_deletions,
            units_of=self._units_of,
            record_at=self._record_at,
            step=self._step,
        )
        start = segments[0].start if segments else 0
        scan = LogScanner(segments, start, check_crc=False)
        for found in scan.batches():
            self._step("bytes of log, for what is made again", scan.position - start)
            again.add_all(found, after_damage=bool(scan.damage))
        again.finish()
        known = {found.place for found in self.misplaced}
        self.misplaced += [found for found in again.misplaced if found.place not in known]
        self.units += again.units
        self.lost += again.lost
        self.indexed += again.indexed
        self._fill_kept()
