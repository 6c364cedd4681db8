"""The key index: what was put is found, before and after a crash."""

import contextlib
import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sprocket.base.disk import Attempt, NonblockingDisk, WouldBlock, read_file
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.model.hashes import abs_hash, hash32
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.index import (
    HEADER_BYTES,
    INDEX_UNIT,
    SLOT_BYTES,
    UNIT_BYTES,
    Indexes,
    key_index,
    key_string,
)
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SMALL = IndexGeometry.small()
FOLDER = "/store/index"
AT_MS = 1_700_000_000_000


def entry(place: int, *keys: str, topic: str = "T", at_ms: int = 0, sys_flag: int = 0) -> Entry:
    """Return the entry of a record at `place` that is stored `at_ms` after the first."""
    return Entry(topic, 0, 0, place, 100, 0, AT_MS + at_ms, keys, sys_flag=sys_flag)


def opened(disk: SimulatedDisk, geometry: IndexGeometry = SMALL) -> Indexes:
    """Return the index that is on the disk."""
    indexes = Indexes(disk, FOLDER, geometry, FakeClock(AT_MS))
    indexes.load()
    return indexes


def find(indexes: Indexes, key: str, count: int = 64, **times: int) -> list[int]:
    """Return the places of a key of topic T, newest first."""
    return [int(place) for place in indexes.find(key_string("T", key), count, **times)]


def test_what_was_put_is_found_newest_first() -> None:
    """Several keys a record, several records a key, and a key twice in one record."""
    indexes = opened(SimulatedDisk())
    assert indexes.end == -1
    assert indexes.updated_at_ms == 0
    assert indexes.put_round([entry(0, "a", "b"), entry(100), entry(200, "a", "a", at_ms=5)]) == 4
    assert find(indexes, "a") == [200, 0]
    assert find(indexes, "b") == [0]
    assert find(indexes, "c") == []
    assert indexes.find(key_string("U", "a"), 64) == []
    assert find(indexes, "a", 1) == [200]
    assert (indexes.end, indexes.updated_at_ms) == (200, AT_MS + 5)


def test_full_files_roll_and_begin_where_the_last_one_ended() -> None:
    """A record's keys may lie in two files; queries go through all of them."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x", f"k{n}", at_ms=1000 * n) for n in range(50)])
    assert len(indexes) == 3
    assert disk.list(FOLDER) == sorted(disk.list(FOLDER))
    assert all(len(name) == 17 for name in disk.list(FOLDER))
    for most in (1, 11, 12, 31, 32, 33, 50, 51):
        assert find(indexes, "x", most) == [100 * n for n in reversed(range(50))][:most]
    assert [find(indexes, f"k{n}") for n in range(50)] == [[100 * n] for n in range(50)]
    headers = indexes.headers
    assert [header.next_unit for header in headers] == [40, 40, 23]
    assert headers[0].end_offset == headers[1].begin_offset == 1900


def test_a_chain_that_is_not_in_memory_is_fetched_at_once() -> None:
    """However many entries it leads through: not one attempt for each."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x") for n in range(30)])
    indexes.close()
    cold = NonblockingDisk(disk)
    indexes = Indexes(cold, FOLDER, SMALL, FakeClock(AT_MS))
    indexes.load()
    (name,) = disk.list(FOLDER)
    disk.open(f"{FOLDER}/{name}").give_back(0, SMALL.file_bytes)
    attempt, attempts = Attempt(lambda: 1), 0
    while True:
        attempts += 1
        try:
            found = cold.within(attempt, lambda: find(indexes, "x"))
            break
        except WouldBlock as stop:
            attempt.note(stop.fetch())
    assert found == [100 * n for n in reversed(range(30))]
    assert 1 < attempts < 5


@pytest.mark.slow
def test_times_choose_and_never_leave_out() -> None:
    """Every record inside the range is found; what else is found is less than a second off."""
    indexes = opened(SimulatedDisk())
    times = [n * 700 for n in range(60)]
    indexes.put_round([entry(100 * n, "x", at_ms=at_ms) for n, at_ms in enumerate(times)])
    for begin in range(-1000, 43_000, 333):
        for length in (0, 1, 999, 5000):
            span = {"begin_ms": AT_MS + begin, "end_ms": AT_MS + begin + length}
            got = {times[place // 100] for place in find(indexes, "x", **span)}
            inside = {at_ms for at_ms in times if begin <= at_ms <= begin + length}
            assert inside <= got
            assert all(begin - 1000 < at_ms <= begin + length + 1000 for at_ms in got)


def test_a_clock_that_went_back_hides_nothing() -> None:
    """Records put later with earlier times are found as well."""
    indexes = opened(SimulatedDisk())
    times = [50_000, 20_000, 45_000, 1_000]
    indexes.put_round([entry(100 * n, "x", at_ms=at_ms) for n, at_ms in enumerate(times)])
    assert 0 in find(indexes, "x", begin_ms=AT_MS + 49_000)
    assert 200 in find(indexes, "x", begin_ms=AT_MS + 44_000, end_ms=AT_MS + 50_000)


def test_what_is_there_is_passed_over() -> None:
    """A record before the last one put is there; rolled back ones and those without keys never."""
    indexes = opened(SimulatedDisk())
    indexes.put_round([entry(100, "a"), entry(200, "b")])
    assert indexes.put_round([entry(100, "a")]) == 0
    assert indexes.put_round([entry(300, "c", sys_flag=12), entry(300)]) == 0
    assert indexes.put_round([entry(300, "c", sys_flag=4), entry(400, "d", sys_flag=8)]) == 2
    assert indexes.put_round([]) == 0


def test_putting_the_last_record_again_shows_it_once() -> None:
    """As RocketMQ does, the guard lets the last record pass, for its keys may not all be there."""
    indexes = opened(SimulatedDisk())
    indexes.put_round([entry(100, "a", "b")])
    assert indexes.put_round([entry(100, "a", "b")]) == 2
    assert find(indexes, "a") == [100]


keys = st.text(min_size=1, max_size=12) | st.sampled_from(["k1", "延迟", "😀", "x" * 600])


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["T", "Tée", "延迟😀"]), keys), min_size=1, max_size=40))
def test_hashes_of_a_round_are_javas(pairs: list[tuple[str, str]]) -> None:
    """One by one and all at once, every key string hashes as Java's String does."""
    expected = [abs_hash(hash32(key_string(topic, key))) for topic, key in pairs]
    for array_keys_min in (1, 1 << 30):
        assert expected == hashes_put(pairs, array_keys_min)


@pytest.mark.parametrize("array_keys_min", [1, 1 << 30])
def test_the_hash_that_has_no_absolute_value(array_keys_min: int) -> None:
    """The key string whose hash is −2³¹ counts as 0 in both ways."""
    assert hash32(key_string("T", "jllgvmc")) == -(1 << 31)
    assert hashes_put([("T", "jllgvmc"), ("T", "a")], array_keys_min) == [0, hash32("T#a")]


def hashes_put(pairs: list[tuple[str, str]], array_keys_min: int) -> list[int]:
    """Return what the units of an index have for the hashes of some keys, put in one round."""
    disk = SimulatedDisk()
    geometry = IndexGeometry(slots=8, units=len(pairs) + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "ARRAY_KEYS_MIN", array_keys_min)
        opened(disk, geometry).put_round(
            [entry(100 * n, key, topic=topic) for n, (topic, key) in enumerate(pairs)]
        )
    (data,) = [data for path, data in disk.contents().items() if path.startswith(FOLDER)]
    units = data[HEADER_BYTES + 8 * SLOT_BYTES + UNIT_BYTES :]
    return [found[0] for found in INDEX_UNIT.iter_unpack(units)]


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 12), max_size=3), max_size=60), st.integers(1, 40))
def test_rounds_of_any_length_give_the_same_files(drawn: list[list[int]], size: int) -> None:
    """Lone records, short rounds and long ones; as arrays and key by key."""
    log = [entry(100 * n, *(f"k{k}" for k in ks), at_ms=400 * n) for n, ks in enumerate(drawn)]
    contents = []
    for plain, step in [(True, 1), (True, size), (False, 1), (False, size), (False, 200)]:
        disk = SimulatedDisk()
        indexes = opened(disk)
        with pytest.MonkeyPatch.context() as patch:
            if plain:
                patch.setattr(key_index, "ARRAY_KEYS_MIN", 1 << 30)
            for first in range(0, len(log), step):
                indexes.put_round(log[first : first + step])
            indexes.close()
        contents.append([read_file(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)])
    assert all(content == contents[0] for content in contents)


def test_a_clean_stop_brings_everything_back() -> None:
    """Closed and loaded, the index goes on where it was."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    for n in range(60):
        indexes.put_round([entry(100 * n, "x", f"k{n}")])
    indexes.close()
    again = opened(disk)
    assert again.end == 5900
    assert again.flushed_full_at_ms == AT_MS
    again.put_round([entry(6000, "x")])
    assert find(again, "x") == [100 * n for n in reversed(range(61))]
    assert find(again, "k3") == [300]


def test_foreign_and_unfinished_files() -> None:
    """A file of another length is made again; names that are not numbers mean nothing."""
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    sizes = {"20260101000000000": 100, "20260101000000001": SMALL.file_bytes + 1, "notes": 5}
    for name, size in sizes.items():
        disk.open(f"{FOLDER}/{name}", write=True, create=True, size=size).close()
    reader = Indexes(disk, FOLDER, SMALL, FakeClock(), write=False)
    reader.load()
    assert len(reader) == 0
    assert set(disk.list(FOLDER)) == set(sizes)
    assert len(opened(disk)) == 0
    assert disk.list(FOLDER) == ["notes"]


def test_names_grow_even_if_the_clock_does_not() -> None:
    """Two files made in one millisecond keep their order."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x") for n in range(100)])
    first, second, third = map(int, disk.list(FOLDER))
    assert (second, third) == (first + 1, first + 2)


@pytest.mark.slow
def test_cutting_the_log_cuts_the_index() -> None:
    """At every place: what lies there or behind is not found, and is found when put again."""
    log = [entry(100 * n, "x", f"k{n}", at_ms=n) for n in range(50)]
    for place in range(0, 5100, 50):
        disk = SimulatedDisk()
        indexes = opened(disk)
        indexes.put_round(log)
        keep = min(50, -(-place // 100))
        assert indexes.truncate(PhysicalOffset(place)) == 2 * (50 - keep)
        assert indexes.end == 100 * (keep - 1) if keep else indexes.end == -1
        assert find(indexes, "x") == [100 * n for n in reversed(range(keep))]
        indexes.put_round(log[keep:])
        assert find(indexes, "x") == [100 * n for n in reversed(range(50))]


def test_a_reset_index_is_empty() -> None:
    """It is made again from the log."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x") for n in range(100)])
    indexes.reset()
    assert (len(indexes), disk.list(FOLDER), indexes.end) == (0, [], -1)


def test_a_file_that_was_begun_is_cut_away_too() -> None:
    """It has no entry, and its header says where the one before it ended."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x") for n in range(5)])
    indexes.close()
    disk.open(f"{FOLDER}/{3 * 10**16}", write=True, create=True, size=SMALL.file_bytes).close()
    indexes = opened(disk)
    assert len(indexes) == 2
    indexes.truncate(PhysicalOffset(200))
    assert [header.end_offset for header in indexes.headers] == [100]


def test_a_failed_sync_of_names_is_done_again() -> None:
    """By the next flush; only then the files are sure to be there."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(0, "x")])
    disk.fail("sync_folder", 1)
    with pytest.raises(DiskFailed):
        indexes.flush()
    indexes.flush()
    assert len(disk.crash(lambda _count: 0).list(FOLDER)) == 1


def test_files_that_were_cut_away_do_not_come_back() -> None:
    """After a loss of power, though nothing is put in their place; they name what is gone."""
    disk = SimulatedDisk()
    indexes = opened(disk)
    indexes.put_round([entry(100 * n, "x") for n in range(100)])
    indexes.flush()
    assert len(indexes) > 2
    indexes.truncate(PhysicalOffset(200))
    assert len(disk.crash(lambda _count: 0).list(FOLDER)) == 1
    indexes.reset()
    assert disk.crash(lambda _count: 0).list(FOLDER) == []


def test_a_full_disk_loses_no_key() -> None:
    """A round that failed at any write, or at making a file, can be put again."""
    log = [entry(100 * n, "x", f"k{n}") for n in range(50)]
    for step in (5, 50):
        for nth in range(1, 4):
            disk = SimulatedDisk()
            indexes = opened(disk)
            disk.fail("write", nth, errno.ENOSPC)
            failed = 0
            for first in range(0, 50, step):
                try:
                    indexes.put_round(log[first : first + step])
                except DiskFull:
                    failed += 1
                    indexes.put_round(log[first : first + step])
            assert failed == 1
            assert find(indexes, "x") == [100 * n for n in reversed(range(50))]
            assert [find(indexes, f"k{n}") for n in range(50)] == [[100 * n] for n in range(50)]


class Life:
    """A log and an index that live and die with the disk.

    The log's end is synced at times of its own, so after a crash it may be anywhere from where the
    index was flushed on; what is written there then is not what was there before.
    """

    geometry = IndexGeometry(slots=300, units=150)
    """Header, slots and units lie in several blocks, which a crash loses each by itself."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.disk = SimulatedDisk()
        self.log: list[Entry] = []
        self.indexes = opened(self.disk, self.geometry)
        self.synced = self.flushed = self.flushed_before = 0

    def end(self, count: int) -> PhysicalOffset:
        """Return where a log of so many records ends."""
        last = self.log[count - 1] if count else None
        return PhysicalOffset(last.physical_offset + last.size if last else 0)

    def put(self) -> None:
        """Write records and put their keys."""
        first = len(self.log)
        for _ in range(self.rng.randrange(1, 90)):
            place = self.end(len(self.log)) + 10 * self.rng.randrange(3)
            keys = ["x", f"k{self.rng.randrange(9)}"][: self.rng.randrange(1, 3)]
            self.log.append(entry(place, *keys, at_ms=len(self.log)))
        self.indexes.put_round(self.log[first:])

    def flush(self) -> None:
        """Make durable what was put."""
        self.indexes.flush()
        self.flushed_before, self.flushed = self.flushed, len(self.log)
        self.synced = len(self.log)

    def fail(self) -> None:
        """Fail in the middle of a flush; only a crash can follow."""
        self.disk.fail("sync", self.rng.randrange(1, 5))
        with contextlib.suppress(DiskFailed):
            self.flush()
        self.crash()

    def kill(self) -> None:
        """Open it again after the process died and the machine went on."""
        self.disk = self.disk.kill() if self.rng.randrange(2) else self.disk
        self.recover()

    def crash(self) -> None:
        """Open it again after a loss of power."""
        self.disk = self.disk.crash(self.rng.randrange)
        del self.log[self.rng.randint(self.synced, len(self.log)) :]
        self.recover()
        self.flushed = self.flushed_before = 0

    def recover(self) -> None:
        """Bring the index into agreement with the log."""
        self.indexes = opened(self.disk, self.geometry)
        last = self.indexes.recover(self.end(len(self.log)))
        assert last < self.end(len(self.log)) or last == -1
        if self.flushed_before:
            assert last >= self.log[self.flushed_before - 1].physical_offset
        self.indexes.put_round([one for one in self.log if one.physical_offset >= last])
        self.check()

    def check(self) -> None:
        """Every key of every record is found, and nothing else."""
        for key in ["x", *(f"k{k}" for k in range(9))]:
            expected = [one.physical_offset for one in reversed(self.log) if key in one.keys]
            assert expected == find(self.indexes, key, 1000)
        for header in self.indexes.headers:
            assert header.slots_used <= 10


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.integers(0, 1 << 32),
    st.lists(
        st.sampled_from(["put", "put", "put", "flush", "flush", "kill", "crash", "fail"]),
        max_size=14,
    ),
)
def test_after_a_crash_every_key_is_found(seed: int, steps: list[str]) -> None:
    """Recovered and put again from the record it names on, the index finds all of the log."""
    life = Life(random.Random(seed))
    for step in [*steps, "put", "flush", "crash", "put"]:
        getattr(life, step)()
    life.check()
    life.indexes.close()
    life.indexes = opened(life.disk, life.geometry)
    life.check()
