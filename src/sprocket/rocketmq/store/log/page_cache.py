"""Drops old parts of the log from the operating system's page cache.

New pages are expensive: a virtual machine has to ask its host for each page that it once handed
back, other systems have to make room first. So what is synced and older than the newest
`cached_bytes` is dropped a MiB at a time, right after a write, and the next write gets the same
pages. See docs/decisions/0011-old-pages-are-given-back.md.

Invariants

1. Nothing is dropped that is not synced, and nothing that was in the log when it was opened: other
   processes may be reading that.
2. What lies behind the place of the reader that is furthest back is kept, since readers will need
   it. `note` is told about each read; readers with the same name share one place, that of the
   latest read.
"""

from collections.abc import Hashable

from msgspec import Struct

from sprocket.base import memory
from sprocket.base.clock import Clock
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log.commit_log import CommitLog, Range
from sprocket.rocketmq.store.log.flusher import Flusher

PART_BYTES_MIN, PART_BYTES_MAX = MIB, 4 * MIB
"""What is given back at once; a MiB costs some 50 µs."""

READER_SECONDS = 10.0
"""A reader that has read nothing for so long counts as gone."""

POLL_SECONDS = 0.5
"""How long the lowest place of all readers is used before it is computed again: for 1,000 readers
that takes some 70 µs, too much for every write."""

READERS_MAX = 4096
"""From so many readers on each new place removes those that are gone, as often as allowed: where
little is written, nothing else does."""

_NOWHERE = 1 << 63


def memory_bytes(setting: int) -> int:
    """Return how far behind the log's end a message counts as in memory.

    Args:
        setting: `bytes_in_memory`; 0 is 40 % of the memory that there is for this process.
    """
    return setting or memory.whole_bytes() * 2 // 5


class _Reader(Struct, gc=False):
    """Where a reader is.

    Attributes:
        place: Physical offset of what it read last.
        at: When, on the monotonic clock.
    """

    place: int
    at: float


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

    def __init__(
        self, log: CommitLog, flush: Flusher, settings: StoreSettings, clock: Clock
    ) -> None:
        self._log = log
        self._flush = flush
        self._cached_bytes = settings.cached_bytes
        self._memory_bytes = memory_bytes(settings.bytes_in_memory)
        self._monotonic = clock.monotonic
        self.given_back: int = log.written
        self._readers: dict[Hashable, _Reader] = {}
        self._lowest = _NOWHERE
        self._polled_at = self._monotonic()

    def give_back(self, bytes_max: int = PART_BYTES_MAX) -> None:
        """Have the system forget a part of what is not to stay; to be called after each write.

        Args:
            bytes_max: Of that part. With many written bytes a call more is needed, or what comes
                next gets new pages.
        """
        for file, position, size in self.take_old(bytes_max):
            file.give_back(position, size)

    def take_old(self, bytes_max: int = PART_BYTES_MAX) -> list[Range]:
        """Return a part of what is not to stay, for the caller to have the system forget it.

        Args:
            bytes_max: As of `give_back`.
        """
        log, start = self._log, self.given_back
        log.warm_from = max(log.warm_from, log.written - self._memory_bytes)
        end = min(self._flush.synced, log.written - self._cached_bytes)
        if not self._cached_bytes or end - start < PART_BYTES_MIN:
            return []
        end = min(end, start + bytes_max, self._lowest_reader(self._monotonic()))
        if end - start < PART_BYTES_MIN:
            return []
        self.given_back = end
        log.warm_from = max(log.warm_from, end)
        return log.ranges(start, end)

    def note(self, reader: Hashable, place: int) -> None:
        """Note where a reader is: it will soon want what follows.

        Args:
            reader: Which one; its earlier place is forgotten.
            place: Physical offset of the first record.
        """
        now = self._monotonic()
        one = self._readers.get(reader)
        if one is None:
            self._readers[reader] = _Reader(place, now)
        else:
            one.place, one.at = place, now
        if place < self._lowest:
            self._lowest = place
        if len(self._readers) > READERS_MAX:
            self._lowest_reader(now)

    def _lowest_reader(self, now: float) -> int:
        """Return the lowest place of those who read; it may be half a second old, if too low."""
        if now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            since = now - READER_SECONDS
            self._readers = {who: one for who, one in self._readers.items() if one.at > since}
            self._lowest = min([one.place for one in self._readers.values()], default=_NOWHERE)
        return self._lowest
