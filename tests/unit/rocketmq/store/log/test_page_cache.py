"""What is old and synced is dropped from memory, but not ahead of a reader."""

import weakref

import pytest
from tests.stores import new

from sprocket.base import memory
from sprocket.base.disk import SegmentFiles
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log import CommitLog, Flusher, PageCache, memory_bytes
from sprocket.rocketmq.store.log.page_cache import (
    PART_BYTES_MAX,
    POLL_SECONDS,
    READER_SECONDS,
    READERS_MAX,
)
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

READER_MS = int(READER_SECONDS * 1000)
POLL_MS = int(POLL_SECONDS * 1000)


class Lab:
    """A log with its page cache, on a simulated disk."""

    def __init__(self, cached_bytes: int = MIB, *, segment_bytes: int = 3 * MIB // 2) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_folder("/log")
        self.log = CommitLog(SegmentFiles(self.disk, "/log", segment_bytes), 0, crc_tail=False)
        self.clock = FakeClock()
        self.open(cached_bytes)

    def open(self, cached_bytes: int) -> None:
        """Begin anew with the log as it is now."""
        settings = StoreSettings(cached_bytes=cached_bytes)
        self.flush = Flusher(self.disk, self.log, settings, self.clock)
        self.cache = PageCache(self.log, self.flush, settings, self.clock)

    def write(self, quarters: int, *, sync: bool = True) -> None:
        """Write records of a quarter of a MiB, as the broker does."""
        for _ in range(quarters):
            self.log.append([new(body=b"x" * (MIB // 4 - 100))], [0], 1)
            self.log.write()
            if sync:
                self.flush.sync()
            self.cache.give_back()

    def is_kept(self, place: int) -> bool:
        """Tell whether the system has a byte of the log."""
        segment = self.log.files.segment(place)
        byte = memoryview(bytearray(1))
        return segment.file.read_nowait(place - segment.start, byte) is not None

    def kept_from(self) -> int:
        """Return from where on the system has the log, to a page."""
        return next(at for at in range(0, self.log.written, 4096) if self.is_kept(at))


def test_the_newest_part_stays_and_what_is_not_synced() -> None:
    """Across the ends of files, in parts that are worth a call."""
    lab = Lab()
    lab.write(24)
    kept = lab.log.written - lab.kept_from()
    assert MIB <= kept < 2 * MIB + MIB // 4
    assert 2 <= lab.disk.calls["give_back"] <= 10
    synced = lab.flush.synced
    lab.write(12, sync=False)
    assert synced - MIB < lab.kept_from() < synced + 4096
    lab.write(1)
    assert lab.log.written - lab.kept_from() < 2 * MIB + MIB // 4


def test_a_part_is_never_so_large_that_the_loop_would_feel_it() -> None:
    """What has gathered goes over several writes."""
    lab = Lab(segment_bytes=32 * MIB)
    lab.write(64, sync=False)
    lab.flush.sync()
    places = []
    for _ in range(5):
        lab.write(1)
        places.append(lab.kept_from())
    assert places[:3] == [PART_BYTES_MAX, 2 * PART_BYTES_MAX, 3 * PART_BYTES_MAX]
    assert places[-1] >= 14 * MIB


def test_what_a_reader_is_on_his_way_to_stays_until_he_is_gone() -> None:
    """Whoever is furthest back counts, however many read at the end."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(8)
    place = lab.kept_from() + MIB // 2
    lab.cache.note("slow", place)
    lab.cache.note("quick", lab.log.written - 1)
    lab.write(8)
    assert lab.is_kept(place)
    lab.clock.advance(READER_MS - POLL_MS)
    lab.cache.note("quick", 2 * place)
    lab.write(8)
    assert lab.is_kept(place)
    lab.clock.advance(POLL_MS)
    lab.write(8)
    assert not lab.is_kept(place)
    assert lab.is_kept(2 * place)
    lab.clock.advance(READER_MS)
    lab.write(8)
    assert not lab.is_kept(2 * place)


def test_of_a_reader_who_moves_on_only_the_last_place_counts() -> None:
    """As soon as somebody looks again, half a second later; until then the place before."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(8)
    place = lab.kept_from()
    for _ in range(12):
        lab.cache.note("follows", lab.log.written - 100)
        lab.clock.advance(POLL_MS - 1)
        lab.write(8)
        assert lab.log.written - lab.kept_from() < 6 * MIB + MIB // 4
    lab.cache.note("follows", place)
    lab.clock.advance(POLL_MS)
    lab.write(1)
    kept = lab.kept_from()
    lab.cache.note("follows", lab.log.written)
    lab.clock.advance(POLL_MS - 1)
    lab.write(8)
    assert lab.kept_from() == kept
    lab.clock.advance(1)
    lab.write(1)
    assert lab.kept_from() > kept


def test_a_reader_further_back_counts_at_once() -> None:
    """Though others were looked at a moment ago; also a reader that goes back itself."""
    for name in ("old", "new"):
        lab = Lab(segment_bytes=64 * MIB)
        lab.write(8)
        place = lab.kept_from()
        lab.cache.note("old", lab.log.written)
        lab.clock.advance(POLL_MS)
        lab.write(4)
        kept = lab.kept_from()
        assert kept > place
        lab.cache.note(name, kept)
        lab.write(8)
        assert lab.kept_from() == kept


def test_the_furthest_back_of_many_readers_counts() -> None:
    """Each until it is gone."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(24)
    first = lab.kept_from()
    readers = Readers()
    places = range(first, first + 3 * MIB, 3 * MIB // 100 + 1)
    for place in places:
        readers.note(lab, place)
        lab.clock.advance(READER_MS // 200)
    lab.write(16)
    assert lab.kept_from() == first
    for _ in range(5):
        lab.clock.advance(READER_MS // 5)
        lab.write(1)
        gone = sum(not lab.is_kept(place) for place in places)
        assert len(readers.alive) == readers.came_after(lab.clock.monotonic() - READER_SECONDS)
        assert gone <= len(places) - len(readers.alive)
    lab.clock.advance(READER_MS)
    lab.write(4)
    assert not lab.is_kept(places[-1])
    assert len(readers.alive) == 0


class Readers:
    """Readers that come once; who is forgotten by the cache is alive no more."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Reader] = weakref.WeakSet()
        self._came_at: list[float] = []

    def note(self, lab: Lab, place: int) -> None:
        """Let the next one read."""
        reader = Reader()
        self.alive.add(reader)
        self._came_at.append(lab.clock.monotonic())
        lab.cache.note(reader, place)

    def came_after(self, at: float) -> int:
        """Return how many came later than that."""
        return sum(came > at for came in self._came_at)


class Reader:
    """Somebody who reads."""


def test_readers_do_not_gather_where_nothing_is_written() -> None:
    """Who is gone is forgotten when many more have come."""
    lab, readers = Lab(), Readers()
    for number in range(3 * READERS_MAX):
        readers.note(lab, 0)
        if number % 100 == 0:
            lab.clock.advance(POLL_MS)
    assert len(readers.alive) <= READERS_MAX + 1


@pytest.mark.parametrize("cached_bytes", [0, 1])
def test_what_was_there_before_is_left_alone(cached_bytes: int) -> None:
    """And with 0 everything."""
    lab = Lab(0, segment_bytes=64 * MIB)
    lab.write(8)
    assert lab.disk.calls["give_back"] == 0
    end = lab.log.written
    lab.open(cached_bytes)
    lab.write(8)
    assert (lab.disk.calls["give_back"] > 0) == (cached_bytes > 0)
    assert lab.is_kept(0)
    assert lab.is_kept(end - 1)
    assert lab.is_kept(end) == (cached_bytes == 0)
    assert lab.cache.given_back >= end


def test_what_counts_as_in_memory_is_a_setting_or_a_part_of_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """40 % of the machine's memory unless something is said."""
    assert memory_bytes(4096) == 4096
    assert memory_bytes(0) > 1 << 20
    monkeypatch.setattr(memory, "whole_bytes", lambda: 10 * MIB)
    assert memory_bytes(0) == 4 * MIB


def test_what_was_given_back_or_lies_far_behind_is_warm_no_more() -> None:
    """Nor what was there before; it never gets warm again."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(24)
    assert lab.log.warm_from == lab.cache.given_back > 0
    lab.open(0)
    lab.log.warm_from = before = lab.log.written
    lab.write(8)
    assert lab.log.warm_from == before
    lab.cache = PageCache(lab.log, lab.flush, StoreSettings(bytes_in_memory=MIB), lab.clock)
    lab.write(1)
    assert lab.log.warm_from == lab.log.written - MIB
    lab.cache = PageCache(lab.log, lab.flush, StoreSettings(bytes_in_memory=2 * MIB), lab.clock)
    lab.write(1)
    assert lab.log.warm_from > lab.log.written - 2 * MIB
