"""What the system keeps of the log in its page cache, of which old parts are given back.

New pages are dear: a virtual machine has to ask its host for each that it once handed back, other
systems have to evict something first. So what is synced and older than the newest `cached_bytes` is
forgotten a MiB at a time, right after a write; the next write gets the same pages, still warm. See
docs/decisions/0011-old-pages-are-given-back.md.

Invariants

1. Nothing is given back that is not synced, nor what was in the log when it was opened: others may
   be reading that.
2. What lies behind the lowest place at which one of the readers is stays: he is on his way to it.
   A reader is what `note` is told; who shares a name has the place of the last who read.
"""

from collections.abc import Hashable, Iterable

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.base.disk import File
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.commitlog import CommitLog, Range
from sprocket.rocketmq.store.flush import Flush

PART_BYTES_MIN, PART_BYTES_MAX = MIB, 4 * MIB
"""What is given back at once; a MiB costs some 50 µs."""

READER_SECONDS = 10.0
"""Who has read nothing for so long counts as gone."""

LOOK_SECONDS = 0.5
"""So long the lowest place of all readers is taken to be what it was: to go through 1,000 of them
takes some 70 µs, which not every write is to pay."""

READERS_MAX = 4096
"""From so many readers on each new place looks for those who are gone, as often as may be: where
little is written, nobody else does."""

AHEAD_BYTES = 16 * MIB
"""So much is asked for at once: what an answer of a MiB, the most by default, spans where sixteen
queues are written in turn. To ask for each answer of 32 messages is a tenth of what it costs."""

PROBE_BYTES = 512 * KIB
"""A longer part of the log is asked for in parts of this size: the system forgets by pages."""

AHEAD_SECONDS = 1.0
"""What was in memory is taken to be there still for so long."""

_NOWHERE = 1 << 63


class _Reader(Struct, gc=False):
    """Where a reader is, and what was asked ahead for him.

    Attributes:
        place: Physical offset of what he read last.
        at: When, on the monotonic clock.
        asked_from: Where the part of the log begins that was asked for.
        asked_to: Where it ends.
        asked_at: When.
        is_there: Whether it was all in memory.
    """

    place: int
    at: float
    asked_from: int = 0
    asked_to: int = 0
    asked_at: float = 0.0
    is_there: bool = False


class PageCache:
    """See the head of the module.

    Args:
        log: Whose pages they are.
        flush: Says what is synced.
        settings: How much of the newest part stays in any case; 0 gives nothing back.
        clock: Says when somebody read.

    Attributes:
        given_back: So far the log may have been forgotten; what lies behind was written by this
            process and has not been given back.

    Threads: event loop only.
    """

    def __init__(self, log: CommitLog, flush: Flush, settings: StoreSettings, clock: Clock) -> None:
        self._log = log
        self._flush = flush
        self._cached_bytes = settings.cached_bytes
        self._monotonic = clock.monotonic
        self.given_back: int = log.written
        self._readers: dict[Hashable, _Reader] = {}
        self._lowest = _NOWHERE
        self._looked_at = self._monotonic()

    def give_back(self) -> None:
        """Have the system forget a part of what is not to stay; to be called after each write."""
        log, start = self._log, self.given_back
        end = min(self._flush.synced, log.written - self._cached_bytes)
        if not self._cached_bytes or end - start < PART_BYTES_MIN:
            return
        end = min(end, start + PART_BYTES_MAX, self._lowest_reader(self._monotonic()))
        if end - start >= PART_BYTES_MIN:
            self.given_back = log.warm_from = end
            for file, position, size in log.ranges(start, end):
                file.give_back(position, size)

    def note(self, reader: Hashable, place: int) -> None:
        """Note where somebody reads: what lies behind he will soon want.

        Args:
            reader: Who; his place before is forgotten.
            place: Physical offset of the first record.
        """
        self._noted(reader, place)

    def _noted(self, reader: Hashable, place: int) -> _Reader:
        now = self._monotonic()
        one = self._readers.get(reader)
        if one is None:
            one = self._readers[reader] = _Reader(place, now)
        else:
            one.place, one.at = place, now
        if place < self._lowest:
            self._lowest = place
        if len(self._readers) > READERS_MAX:
            self._lowest_reader(now)
        return one

    def has(self, reader: Hashable, start: int, end: int) -> bool:
        """Note where somebody reads, and say whether that is in memory, by its first and last byte.

        Unlike `missing` it asks ahead, and not again for a second; it does not say so of anything
        longer than `AHEAD_BYTES`, unless it was never given back.

        Args:
            reader: Who; see `note`.
            start: Physical offset of the first byte that he wants.
            end: The place behind the last one.
        """
        one = self._noted(reader, start)
        if start >= self.given_back:
            return True
        if end - start > AHEAD_BYTES:
            return False
        is_asked = one.asked_from <= start and end <= one.asked_to
        if not is_asked or one.at - one.asked_at > AHEAD_SECONDS:
            # What was never given back is there, and says nothing about what lies before it.
            one.asked_to = min(start + AHEAD_BYTES, max(end, self.given_back))
            one.asked_from, one.asked_at = start, one.at
            one.is_there = not self.missing([(start, one.asked_to)])
        return one.is_there or not self.missing([(start, end)])

    def _lowest_reader(self, now: float) -> int:
        """Return the lowest place of those who read; it may be half a second old, if too low."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            since = now - READER_SECONDS
            self._readers = {who: one for who, one in self._readers.items() if one.at > since}
            self._lowest = min([one.place for one in self._readers.values()], default=_NOWHERE)
        return self._lowest

    @property
    def kept_from(self) -> int:
        """Where the log begins: what lay before was cleaned away."""
        return self._log.first

    def missing(self, spans: Iterable[tuple[int, int]]) -> list[Range]:
        """Return what of some parts of the log the disk would have to bring.

        A part counts as in memory if its first and its last byte are, in each file that has some
        of it; of a long one, if that holds for each `PROBE_BYTES` of it.

        Args:
            spans: Begin and end of each; what is gone or not written yet is left out.

        Cost: 1 µs for each in two calls of the system, some 30 where it is missing: Linux begins to
        read it then.
        """
        log = self._log
        return [
            one
            for start, end in spans
            for one in log.ranges(start, min(end, log.written))
            if not _is_in_memory(*one)
        ]


def _is_in_memory(file: File, position: int, size: int) -> bool:
    """Ask for a part of a file, a long one in steps."""
    end = position + size
    for at in range(position, end, PROBE_BYTES):
        if not file.is_in_memory(at, min(PROBE_BYTES, end - at)):
            return False
    return True
