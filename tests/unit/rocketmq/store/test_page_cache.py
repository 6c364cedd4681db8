"""What is old and synced is given back, but not before somebody who is on his way to it."""

import pytest
from tests.stores import new

from sprocket.base import steps
from sprocket.base.segments import SegmentFiles
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.flush import Flush
from sprocket.rocketmq.store.page_cache import (
    AHEAD_BYTES,
    AHEAD_SECONDS,
    LOOK_SECONDS,
    PART_BYTES_MAX,
    PROBE_BYTES,
    READER_SECONDS,
    READERS_MAX,
    PageCache,
    _Reader,
)
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

READER_MS = int(READER_SECONDS * 1000)
LOOK_MS = int(LOOK_SECONDS * 1000)


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
        """Tell whether the system has a byte of the log."""
        segment = self.log.files.segment(place)
        return segment.file.is_in_memory(place - segment.start, 1)

    def kept_from(self) -> int:
        """Return from where on the system has the log, to a page."""
        return next(at for at in range(0, self.log.written, 4096) if self.is_kept(at))

    def missing(self, start: int, end: int) -> list[tuple[str, int, int]]:
        """Return the name of each file that a part of the log has to come from, and where."""
        found = self.cache.missing([(start, end)])
        return [(file.path[-8:], position, size) for file, position, size in found]


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
    lab.clock.advance(READER_MS - LOOK_MS)
    lab.cache.note("quick", 2 * place)
    lab.write(8)
    assert lab.is_kept(place)
    lab.clock.advance(LOOK_MS)
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
        lab.clock.advance(LOOK_MS - 1)
        lab.write(8)
        assert lab.log.written - lab.kept_from() < 6 * MIB + MIB // 4
    lab.cache.note("follows", place)
    lab.clock.advance(LOOK_MS)
    lab.write(1)
    kept = lab.kept_from()
    lab.cache.note("follows", lab.log.written)
    lab.clock.advance(LOOK_MS - 1)
    lab.write(8)
    assert lab.kept_from() == kept
    lab.clock.advance(1)
    lab.write(1)
    assert lab.kept_from() > kept


def test_a_reader_further_back_counts_at_once() -> None:
    """Though others were looked at a moment ago; also one who goes back himself."""
    for name in ("old", "new"):
        lab = Lab(segment_bytes=64 * MIB)
        lab.write(8)
        place = lab.kept_from()
        lab.cache.note("old", lab.log.written)
        lab.clock.advance(LOOK_MS)
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
    places = range(first, first + 3 * MIB, 3 * MIB // 100 + 1)
    for number, place in enumerate(places):
        lab.cache.note(("group", number), place)
        lab.clock.advance(READER_MS // 200)
    lab.write(16)
    assert lab.kept_from() == first
    for _ in range(5):
        lab.clock.advance(READER_MS // 5)
        lab.write(1)
        gone = sum(not lab.is_kept(place) for place in places)
        alive = sum(one.at > lab.clock.monotonic() - READER_SECONDS for one in readers(lab))
        assert len(readers(lab)) == alive
        assert gone <= len(places) - alive
    lab.clock.advance(READER_MS)
    lab.write(4)
    assert not lab.is_kept(places[-1])
    assert readers(lab) == []


def readers(lab: Lab) -> list[_Reader]:
    """Return everyone who is remembered."""
    return list(lab.cache._readers.values())


def test_readers_do_not_gather_where_nothing_is_written() -> None:
    """Who is gone is forgotten when many more have come."""
    lab = Lab()
    for number in range(3 * READERS_MAX):
        lab.cache.note(number, 0)
        if number % 100 == 0:
            lab.clock.advance(LOOK_MS)
    assert len(readers(lab)) <= READERS_MAX + 1


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
    assert lab.missing(0, end) == []
    assert lab.is_kept(end) == (cached_bytes == 0)
    assert lab.cache.given_back >= end


def test_both_ends_of_a_part_count() -> None:
    """The bytes between are taken to be as they are."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(8)
    cold = MIB + MIB // 2
    lab.log.files.segments[0].file.give_back(cold, 100)
    for start, end, is_missing in [
        (cold - 50, cold + 1, True),
        (cold + 99, cold + 500, True),
        (cold - 50, cold, False),
        (cold + 100, cold + 101, False),
        (cold - 50, cold + 150, False),
    ]:
        expected = [("00000000", start, end - start)] if is_missing else []
        assert lab.missing(start, end) == expected


def test_a_long_part_is_looked_at_between_its_ends() -> None:
    """One answer has a MiB of the log: a hole in it is as missing as an end."""
    lab = Lab(segment_bytes=8 * MIB)
    lab.write(16, sync=False)
    lab.flush.sync()
    assert lab.missing(0, 4 * MIB) == []
    lab.log.files.segments[0].file.give_back(MIB, MIB)
    assert lab.missing(0, 4 * MIB) == [("00000000", 0, 4 * MIB)]
    assert lab.missing(0, MIB) == lab.missing(2 * MIB, 4 * MIB) == []


def test_what_is_missing_is_told_file_by_file() -> None:
    """Only of those where it is missing, and nothing that is gone or was never written."""
    lab = Lab(segment_bytes=MIB)
    lab.write(12)
    assert lab.log.files.segments[3].start < lab.log.written < lab.log.files.segments[3].end
    for segment in lab.log.files.segments:
        segment.file.give_back(0, MIB)
    two = [("00000000", MIB - 10, 10), ("01048576", 0, 10)]
    assert lab.missing(MIB - 10, MIB + 10) == two
    lab.log.files.segments[0].file.read(MIB - 10, 10)
    assert lab.missing(MIB - 10, MIB + 10) == two[1:]
    end = lab.log.written
    assert lab.missing(end - 10, end + 10) == [("03145728", end - 10 - 3 * MIB, 10)]
    assert lab.missing(end, end + 10) == lab.missing(1 << 40, 1 << 41) == []
    steps.run(lab.log.files.drop_before_steps(MIB))
    assert lab.missing(0, MIB) == []
    assert lab.missing(0, MIB + 10) == two[1:]
    assert lab.cache.kept_from == MIB


def test_what_a_reader_wants_is_asked_ahead_and_not_again_for_a_second() -> None:
    """A part that is cold at its end is asked for piece by piece."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(200)
    log = lab.log.files.segments[0].file
    start = lab.cache.given_back - 2 * AHEAD_BYTES
    log.read(start, 2 * AHEAD_BYTES)
    assert lab.cache.has("R", start, start + 10)
    log.give_back(start, AHEAD_BYTES)
    assert lab.cache.has("R", start + 5000, start + AHEAD_BYTES)
    assert not lab.cache.has("other", start, start + 10)
    lab.clock.advance(int(1000 * AHEAD_SECONDS))
    assert lab.cache.has("R", start, start + 10)
    lab.clock.advance(1)
    assert not lab.cache.has("R", start, start + 10)
    log.read(start, 8192)
    assert lab.cache.has("R", start, start + 8192)
    assert not lab.cache.has("R", start, start + 8193)
    log.read(start, AHEAD_BYTES + MIB // 2)
    assert lab.cache.has("R", start + 1, start + AHEAD_BYTES + 1)
    log.give_back(start, MIB)
    assert lab.cache.has("R", start + 1, start + 2)
    assert not lab.cache.has("R", start, start + 2)


def test_what_was_never_given_back_says_nothing_about_what_was() -> None:
    """The part that is asked for ends where that begins."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(64)
    log = lab.log.files.segments[0].file
    start = lab.cache.given_back - PROBE_BYTES // 2
    log.give_back(start, PROBE_BYTES // 2)
    log.read(start, 4096)
    assert lab.missing(start, start + MIB) == []
    assert not lab.cache.has("R", start, start + 8192)
    assert lab.cache.has("R", start, start + 4096)


def test_ends_say_little_about_what_is_long() -> None:
    """Unless none of it was given back; a reader is noted in any case."""
    lab = Lab(segment_bytes=64 * MIB)
    lab.write(100)
    log = lab.log.files.segments[0].file
    log.read(0, lab.log.written)
    assert lab.cache.has("R", 0, AHEAD_BYTES)
    assert not lab.cache.has("R", 1, AHEAD_BYTES + 2)
    place = lab.cache.given_back
    log.give_back(place, lab.log.written - place)
    assert lab.cache.has("R", place, lab.log.written)
    assert not lab.cache.has("R", place - 1, place + 1)
    assert [one.place for one in readers(lab)] == [place - 1]
