"""Putting records of the log into queues and index again, in rounds.

Queues and index pass over what they have, so a record may be put twice. What a round cannot do is
put a message behind a gap: either the messages between are damaged in the log, then fillers stand
for them, or the queue lost units that the log still has, then it is `missing` and made again from
the whole log.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sprocket.base.disk import Disk
from sprocket.base.segments import Segment
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queues.files import FileQueues
from sprocket.rocketmq.store.walk import Damage, Walk

ROUND = 4096
"""Records put at once; enough for the index to work on whole arrays."""


class LastUnit(NamedTuple):
    """The last unit that a queue had before it was cut."""

    max_offset: int
    physical_offset: int


class Rebuild:
    """Collects entries in the order of the log and puts them.

    Args:
        queues: The queues, cut to what is certain.
        index: The index, the same; None if the store keeps none.
        from_first: The entries begin at the first record of the log, so that a queue which is not
            there may begin anywhere.
        put_last_again: The last record that the index has may lack some of its keys.

    Attributes:
        units: Units put.
        lost: Queue offsets for which fillers were put.
        indexed: Records whose keys were put.
        missing: Queues, as topic and id, that lack units which no damage explains.
    """

    def __init__(
        self,
        queues: FileQueues,
        index: Indexes | None,
        *,
        from_first: bool,
        put_last_again: bool = False,
    ) -> None:
        self.units = 0
        self.lost = 0
        self.indexed = 0
        self.missing: set[tuple[str, int]] = set()
        self._queues = queues
        self._index = index
        self._index_from = 0 if index is None else index.end + (not put_last_again)
        self._from_first = from_first
        self._next: dict[tuple[str, int], int] = dict(queues.next_offsets())
        self._units: list[Entry] = []
        self._keys: list[Entry] = []

    def add(self, entry: Entry, *, after_damage: bool) -> None:
        """Take up the next record of the log.

        Args:
            entry: The record.
            after_damage: Something was damaged before it, which explains a gap in its queue.
        """
        if entry.queueable:
            self._add_unit(entry, after_damage=after_damage)
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
        if expected is None:
            if entry.queue_offset and not self._from_first:
                self.missing.add(key)
                return
        elif entry.queue_offset > expected:
            if not after_damage and not self._from_first:
                self.missing.add(key)
                return
            self.finish()
            self.lost += self._queues.fill_to(*key, entry.queue_offset)
        if expected is None or entry.queue_offset >= expected:
            self._next[key] = entry.queue_offset + 1
        self._units.append(entry)

    def keep_places(
        self, lasts: Mapping[tuple[str, int], LastUnit], damages: Sequence[Damage]
    ) -> None:
        """Put fillers for the last messages of queues, if damaged: nobody gets their place.

        Args:
            lasts: The last unit that each queue had.
            damages: What was stepped over.
        """
        for key, last in lasts.items():
            is_damaged = any(d.start <= last.physical_offset < d.end for d in damages)
            if is_damaged and self._next.get(key, 0) < last.max_offset:
                self.finish()
                self.lost += self._queues.fill_to(*key, last.max_offset)
                self._next[key] = last.max_offset

    def finish(self) -> None:
        """Put what was taken up so far."""
        if self._units:
            self.units += self._queues.put_round(self._units)
            self._units = []
        if self._index is not None and self._keys:
            self._index.put_round(self._keys)
            self.indexed += len(self._keys)
            self._keys = []

    def from_whole_log(
        self, disk: Disk, layout: StoreLayout, segments: Sequence[Segment], *, index_too: bool
    ) -> None:
        """Make the queues in `missing` again, and with `index_too` the index, which is empty.

        Costs a walk over the whole log; does nothing if there is nothing to make.
        """
        if not self.missing and not index_too:
            return
        if self.missing:
            self._queues.flush()
            self._queues.close()
            for topic, queue_id in self.missing:
                disk.remove_tree(layout.queue(topic, queue_id))
            self._queues.load(clean=False)
        index = self._index if index_too else None
        again = Rebuild(self._queues, index, from_first=True)
        start = segments[0].start if segments else 0
        for entry in Walk(segments, start, check_crc=False):
            if (entry.topic, entry.queue_id) in self.missing or index_too:
                again.add(entry, after_damage=True)
        again.finish()
        self.units += again.units
        self.lost += again.lost
        self.indexed += again.indexed
