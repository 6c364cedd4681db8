"""What the system keeps of the log in its page cache, of which old parts are given back.

New pages are dear: a virtual machine has to ask its host for each that it once handed back, other
systems have to evict something first. So what is synced and older than the newest `cached_bytes` is
forgotten a MiB at a time, right after a write; the next write gets the same pages, still warm. See
docs/decisions/0011-old-pages-are-given-back.md.

Invariants

1. Nothing is given back that is not synced, nor what was in the log when it was opened: others may
   be reading that.
2. What lies before the lowest place that a consumer has read lately stays: he is on his way to it.
"""

from sprocket.base.clock import Clock
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.flush import Flush

PART_BYTES_MIN, PART_BYTES_MAX = MIB, 4 * MIB
"""What is given back at once; a MiB costs some 50 µs."""

READER_SECONDS = 10.0
"""Who has read nothing for so long, at most twice as long, counts as gone."""

_NOWHERE = 1 << 63


class PageCache:
    """See the head of the module.

    Args:
        log: Whose pages they are.
        flush: Says what is synced.
        settings: How much of the newest part stays in any case; 0 gives nothing back.
        clock: Says when somebody read.
    Threads: event loop only.
    """

    def __init__(self, log: CommitLog, flush: Flush, settings: StoreSettings, clock: Clock) -> None:
        self._log = log
        self._flush = flush
        self._cached_bytes = settings.cached_bytes
        self._clock = clock
        self._given_back: int = log.written
        self._read_since = clock.monotonic()
        self._read_from = self._read_from_before = _NOWHERE

    def give_back(self) -> None:
        """Have the system forget a part of what is not to stay; to be called after each write."""
        log, start = self._log, self._given_back
        end = min(self._flush.synced, log.written - self._cached_bytes)
        if not self._cached_bytes or end - start < PART_BYTES_MIN:
            return
        end = min(end, start + PART_BYTES_MAX, self._lowest_reader())
        if end - start >= PART_BYTES_MIN:
            self._given_back = end
            for file, position, size in log.ranges(start, end):
                file.give_back(position, size)

    def _lowest_reader(self) -> int:
        """Return the lowest place at which somebody has read lately."""
        now = self._clock.monotonic()
        passed = now - self._read_since
        if passed >= READER_SECONDS:
            self._read_from_before = self._read_from if passed < 2 * READER_SECONDS else _NOWHERE
            self._read_from = _NOWHERE
            self._read_since = now
        return min(self._read_from, self._read_from_before)

    def has(self, offset: int, size: int) -> bool:
        """Tell whether stored bytes can be read without waiting for the disk; they soon will be."""
        if offset < self._read_from:
            self._read_from = offset
        if offset >= self._given_back:
            return True
        segment = self._log.files.segment(offset)
        at = offset - segment.start
        return segment.file.is_in_memory(at, min(size, segment.size - at))
