"""What is old and synced is given back, but not before somebody who is on his way to it."""

import pytest
from tests.stores import new

from sprocket.base.segments import SegmentFiles
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.flush import Flush
from sprocket.rocketmq.store.page_cache import PART_BYTES_MAX, READER_SECONDS, PageCache
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

READER_MS = int(READER_SECONDS * 1000)


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
        self.flush = Flush(self.disk, self.log, settings, self.clock)
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
        """Tell whether the system has a byte of the log; unlike `has`, this reads nothing."""
        segment = self.log.files.segment(place)
        return segment.file.is_in_memory(place - segment.start, 1)

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
    assert lab.cache.has(place, 100)
    assert lab.cache.has(lab.log.written - 1, 1)
    lab.write(8)
    assert lab.is_kept(place)
    lab.clock.advance(READER_MS)
    lab.write(8)
    assert lab.is_kept(place)
    assert lab.cache.has(2 * place, 1)
    lab.clock.advance(READER_MS)
    lab.write(8)
    assert not lab.is_kept(place)
    assert lab.is_kept(2 * place)


def test_a_reader_who_has_long_been_gone_does_not_count() -> None:
    """Though nobody looked in between."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(8)
    place = lab.kept_from()
    assert lab.cache.has(place, 1)
    lab.clock.advance(2 * READER_MS)
    lab.write(8)
    lab.write(8)
    assert not lab.is_kept(place)


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
    assert lab.cache.has(0, end)
    assert lab.cache.has(end, 1) == (cached_bytes == 0)


def test_both_ends_of_an_answer_count() -> None:
    """What reaches beyond its file is looked at as far as that goes."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(8)
    lab.open(1)
    cold = MIB + MIB // 2
    lab.log.files.segments[0].file.give_back(cold, 100)
    assert not lab.cache.has(cold - 50, 51)
    assert not lab.cache.has(cold + 99, 500)
    assert lab.cache.has(cold - 50, 50)
    assert lab.cache.has(cold + 100, 1 << 40)
