"""Which queue units a record gets: one place for live dispatch and for recovery.

Almost every record has one unit, in its own queue, and `Entry` describes it. A delayed message has
the time of its delivery as its code. A record for light queues also has a unit in each of them,
with the plain code. A record of a topic with registered subscriptions is tried on their filters;
its unit, if it is an extended one, says which filters it passed.

Source: RocketMQ `DefaultMessageStore.doDispatch`, `CommitLogDispatcherCalcBitMap`,
`ScheduleMessageService.computeDeliverTimestamp`, `ConsumeQueue.multiDispatchLmqQueue`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry, Extra, record
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.settings import DELAY_LEVELS
from sprocket.rocketmq.store.queue.runs import UnitBatch

_PLACE_BYTES_MIN = len(f"{LIGHT_PREFIX}a,")
"""Every place in a light queue has a name in some record before; an offset that would need a longer
log was not given by a broker."""

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])")


def delays_ms(levels: str) -> tuple[int, ...]:
    """Return the waits that delay levels stand for, level 1 first.

    Args:
        levels: Words such as `10s`, `5m`, `2h`, `1d`.

    Raises:
        SettingsError: A word is not of that form, or there is none.
    """
    found = [_LEVEL.fullmatch(word) for word in levels.split()]
    if not found or None in found:
        raise SettingsError(f"delay levels {levels!r}: expected words such as 10s, 5m, 2h, 1d")
    return tuple([int(match[1]) * _UNIT_MS[match[2]] for match in found if match is not None])


class GroupFilter(Struct, frozen=True):
    """A consumer group's filter, as dispatch needs it.

    Attributes:
        positions: Bits that the group owns, see `Bloom.positions`.
        passes: Says whether a message with these properties passes. What it raises is a bug.
    """

    positions: tuple[int, ...]
    passes: Callable[[Mapping[str, str]], bool]


Subscriptions = Mapping[str, Sequence[GroupFilter]]
"""By topic. Whoever owns it may change it at any time; it counts from the next round on."""


class UnitAssigner:
    """Says which units records get.

    Args:
        files: The log's files, for the properties of records that filters are tried on.
        delays: Waits of the delay levels in ms, level 1 first.
        subscriptions: Filters to try.
        bloom: The size of bit maps.
        batch_topics: Topics whose records get units in batch queues.
        deleted: Records of a topic before this place get no units; see `deletions`. Whoever owns
            it may change it.
    """

    def __init__(
        self,
        files: SegmentFiles | None = None,
        *,
        delays: tuple[int, ...] = delays_ms(DELAY_LEVELS),
        subscriptions: Subscriptions | None = None,
        bloom: Bloom | None = None,
        batch_topics: set[str] | None = None,
        deleted: Mapping[str, int] | None = None,
    ) -> None:
        self.batch_topics = set() if batch_topics is None else batch_topics
        self._files = files
        self._delays = delays
        self._subscriptions = {} if subscriptions is None else subscriptions
        self._bloom = bloom or Bloom()
        self._deleted = {} if deleted is None else deleted

    def of(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the units of records that follow each other in the log, as entries.

        Costs about 20 ns a record where there is nothing to do.
        """
        if self._subscriptions:
            entries = [self._tried(entry) for entry in entries]
        if self._deleted and entries and entries[0].physical_offset < max(self._deleted.values()):
            return [unit for entry in entries for unit in self.each(entry)]
        for entry in entries:
            if entry.extra is not None:
                return [unit for entry in entries for unit in self.each(entry)]
        return entries

    def are_records(self, batch: RecordBatch) -> bool:
        """Say whether records in columns are their own units, all of them."""
        if not batch.is_plain or any(map(self._subscriptions.get, batch.topic_names)):
            return False
        deleted = self._deleted
        return not deleted or not any(
            batch.physical_offset[run.rows[0]] < deleted.get(run.topic, 0) for run in batch.runs
        )

    def batches(self, found: RecordBatch) -> Iterator[UnitBatch]:
        """Give the units of records in columns, of whatever kind; no filter is tried.

        Those of a queue are in the order of the log, and in one batch.
        """
        if self.are_records(found):
            yield UnitBatch.of(found)
            return
        special = found.may_be_special
        if not special.all() and not self._deleted:
            yield UnitBatch.of(found.keep(~special))
            found = found.keep(special)
        entries = [entry for entry in found.entries() if entry.queueable]
        units = [unit for entry in entries for unit in self.each(entry)]
        if units:
            yield UnitBatch.of_entries(units)

    def each(self, entry: Entry) -> Sequence[Entry]:
        """Return the units of one record, its own queue's first; no filter is tried."""
        units = self._each(entry)
        if self._deleted:
            place, deleted = entry.physical_offset, self._deleted
            units = [unit for unit in units if place >= deleted.get(unit.topic, 0)]
        return units

    def _each(self, entry: Entry) -> Sequence[Entry]:
        extra = entry.extra
        if extra is None:
            return (entry,)
        if extra.delay_level:
            return (structs.replace(entry, tags_code=self._delivery_at_ms(entry, extra)),)
        if not extra.light:
            return (entry,)
        own = structs.replace(entry, extra=structs.replace(extra, light=()))
        most = entry.physical_offset // _PLACE_BYTES_MIN
        light = [_light(entry, name, at) for name, at in extra.light if at <= most]
        return (own, *light)

    def _delivery_at_ms(self, entry: Entry, extra: Extra) -> int:
        level = min(extra.delay_level, len(self._delays))
        return entry.stored_at_ms + self._delays[level - 1]

    def _tried(self, entry: Entry) -> Entry:
        """Return the entry with its bit map, if its topic has subscriptions."""
        subscriptions = self._subscriptions.get(entry.topic)
        if not subscriptions or self._files is None:
            return entry
        segment = self._files.segment(entry.physical_offset)
        stored = segment.file.read(entry.physical_offset - segment.start, entry.size)
        found = record.stored_properties(stored)
        passed = [one.positions for one in subscriptions if one.passes(found)]
        extra = structs.replace(entry.extra or Extra(), bit_map=self._bloom.bit_map(passed))
        return structs.replace(entry, extra=extra)


def _light(entry: Entry, name: str, offset: int) -> Entry:
    """Return the unit of a record in a light queue."""
    return Entry(
        name,
        0,
        offset,
        entry.physical_offset,
        entry.size,
        entry.tags_code,
        entry.stored_at_ms,
        sys_flag=entry.sys_flag,
    )
