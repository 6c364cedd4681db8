"""All queues of a store: rounds, what is put twice, full disks and crashes."""

import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rocketmq.store.queue.given import (
    FIRST,
    FOLDER,
    SMALL,
    entry,
    next_offsets,
    oldest,
    only,
    opened,
)

from sprocket.base.disk import RealDisk, read_file, steps
from sprocket.base.errors import CorruptRecord, DiskFailed, DiskFull
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    QUEUE_UNIT,
    FileQueues,
    LastUnit,
    queue_files,
)
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.testing.disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    """Give an empty disk."""
    found = SimulatedDisk()
    found.make_folder("/store")
    return found


def test_what_a_failed_flush_has_not_synced_is_synced_by_the_next(disk: SimulatedDisk) -> None:
    """Nothing was put since."""
    queues = opened(disk)
    queues.put_round([entry(0)])
    disk.fail("any", 1)
    with pytest.raises(DiskFailed):
        queues.flush()
    queues.flush()
    assert only(opened(disk.crash(oldest), clean=False)).max_offset == 1


def test_units_lie_at_twenty_times_their_offset(disk: SimulatedDisk) -> None:
    """A file has its full length at once, units at their place and zeros behind them."""
    queues = opened(disk)
    assert queues.put_round([entry(0), entry(1)]) == 2
    assert queues.put_round([Entry("T", 0, 2, 200, 100, -1, 0)]) == 1
    expected = (
        QUEUE_UNIT.pack(0, 100, 0) + QUEUE_UNIT.pack(100, 100, 7) + QUEUE_UNIT.pack(200, 100, -1)
    )
    assert expected.ljust(SMALL.file_bytes, b"\0") == read_file(disk, FIRST)
    assert (only(queues).min_offset, only(queues).max_offset, queues.end) == (0, 3, 300)
    assert next_offsets(queues) == {("T", 0): 3}


def test_a_round_writes_each_queue_once(disk: SimulatedDisk) -> None:
    """Units of one queue go down together, even if others stand between them."""
    queues = opened(disk)
    queues.put_round([entry(0), entry(0, at=100, queue=1)])
    written: list[str] = []

    def before(call: str, path: str) -> None:
        if call == "write":
            written.append(path)

    disk.before = before
    queues.put_round([entry(n // 2 + 1, at=200 + 100 * n, queue=n % 2) for n in range(8)])
    assert len(written) == 2
    assert queues.by_key["T", 0].max_offset == queues.by_key["T", 1].max_offset == 5


def test_what_is_there_is_not_put_again(disk: SimulatedDisk) -> None:
    """Putting any part of the log again changes nothing."""
    queues = opened(disk)
    log = [entry(n) for n in range(15)]
    queues.put_round(log)
    before = read_file(disk, FIRST)
    assert queues.put_round(log[3:]) == 0
    assert queues.put_round([entry(2, at=5000)]) == 0
    assert queues.put_round([*log[12:], entry(15)]) == 1
    assert before == read_file(disk, FIRST)
    assert only(queues).max_offset == 16


def test_a_gap_is_an_error_and_shifts_nothing(disk: SimulatedDisk) -> None:
    """The units before the gap are put, the one behind it is not."""
    queues = opened(disk)
    queues.put_round([entry(0)])
    with pytest.raises(CorruptRecord, match=r"T/0 ends at 2.*message 3"):
        queues.put_round([entry(1), entry(3)])
    assert only(queues).max_offset == 2
    assert only(queues).fill_to(3) == 1
    assert queues.put_round([entry(3)]) == 1
    assert only(queues).unit(2)[1] == FILLER_SIZE
    assert only(queues).unit(3)[1] != FILLER_SIZE
    assert queues.fill_to("T", 0, 5) == 1
    assert queues.fill_to("T", 0, 5) == queues.fill_to("X", 0, 5) == 0


def test_prepared_and_rolled_back_records_get_no_unit(disk: SimulatedDisk) -> None:
    """Of the transaction types only none and commit stand in queues."""
    queues = opened(disk)
    assert queues.put_round([entry(0, sys_flag=4), entry(0, sys_flag=12)]) == 0
    assert queues.put_round([entry(0, sys_flag=8)]) == 1


def test_folders_that_are_no_queues_are_passed_over(disk: SimulatedDisk) -> None:
    """Only folders named by a number hold queues."""
    disk.make_folder(f"{FOLDER}/T/old")
    disk.make_folder(f"{FOLDER}/T/1")
    queues = opened(disk)
    assert [*queues.by_key] == [("T", 1)]
    assert queues.end == -1


def test_files_of_another_geometry_are_made_again(disk: SimulatedDisk) -> None:
    """A longer file belongs to a store of other settings; its messages are in the log."""
    disk.make_folder(f"{FOLDER}/T/0")
    disk.open(FIRST, write=True, create=True, size=400).close()
    queues = opened(disk)
    assert not disk.exists(FIRST)
    queues.put_round([entry(0)])
    assert only(queues).max_offset == 1


def test_a_full_disk_loses_nothing(disk: SimulatedDisk) -> None:
    """A round that failed at any write can be put again."""
    log = [entry(n // 3, at=100 * n, queue=n % 3) for n in range(60)]
    reference = opened(SimulatedDisk())
    reference.put_round(log)
    for nth in range(1, 7):
        failing = SimulatedDisk()
        queues = opened(failing)
        failing.fail("write", nth, errno.ENOSPC)
        with pytest.raises(DiskFull):
            queues.put_round(log)
        queues.put_round(log)
        for key, queue in reference.by_key.items():
            twin = queues.by_key.get(key)
            assert twin is not None
            for offset in range(queue.max_offset):
                assert queue.unit(offset) == twin.unit(offset)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")
def test_few_files_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles are given back when there are many queues."""
    monkeypatch.setattr(queue_files, "OPEN_FILES_MAX", 4)
    queues = FileQueues(RealDisk(), str(tmp_path), SMALL)
    before = len(os.listdir("/proc/self/fd"))
    queues.put_round([entry(n // 10, at=100 * n, queue=n % 10) for n in range(40)])
    assert before < len(os.listdir("/proc/self/fd")) <= before + 4


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")
def test_cleaning_leaves_no_file_open(tmp_path: Path) -> None:
    """What it looks through is the queues' copies."""
    queues = FileQueues(RealDisk(), str(tmp_path), SMALL)
    queues.put_round([entry(n // 10, at=100 * n, queue=n % 10) for n in range(40)])
    before = len(os.listdir("/proc/self/fd"))
    steps.run(queues.clean_steps(PhysicalOffset(1500)))
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(queue.min_offset > 0 for queue in queues.by_key.values())


def test_files_that_were_closed_are_flushed(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are more queues than handles, each is on the disk all the same."""
    monkeypatch.setattr(queue_files, "OPEN_FILES_MAX", 4)
    queues = opened(disk)
    log = [entry(n // 10, at=100 * n, queue=n % 10) for n in range(40)]
    queues.put_round(log)
    queues.flush()
    after = opened(disk.crash(oldest), clean=False)
    assert {queue.max_offset for queue in after.by_key.values()} == {4}


def test_a_queue_found_after_a_kill_is_synced_by_the_next_flush(disk: SimulatedDisk) -> None:
    """What was only in the page cache may not count as durable because it could be read."""
    opened(disk).put_round([entry(n) for n in range(5)])
    found = opened(disk, clean=False)
    assert found.put_round([entry(n) for n in range(5)]) == 0
    found.flush()
    assert only(opened(disk.crash(oldest))).max_offset == 5


def test_what_a_crash_left_is_synced_by_one_call(disk: SimulatedDisk) -> None:
    """However many queues there are: two syncs of each took most of the time of an opening."""
    opened(disk).put_round([entry(0, queue=n) for n in range(20)])
    found = opened(disk, clean=False)
    found.truncate(PhysicalOffset(100))
    found.put_round([entry(0, queue=n) for n in range(20)])
    before = disk.calls.copy()
    found.flush()
    assert disk.calls["sync_tree"] - before["sync_tree"] == 1
    assert disk.calls["sync"] == before["sync"]
    assert disk.calls["sync_folder"] == before["sync_folder"] + 1, "the store's own"
    found.put_round([entry(1, queue=3)])
    found.flush()
    assert disk.calls["sync"] - before["sync"] == 1
    after = opened(disk.crash(oldest), clean=False)
    assert sorted(queue.max_offset for queue in after.by_key.values()) == [1] * 19 + [2]


def test_a_failed_sync_of_what_a_crash_left_is_tried_again(disk: SimulatedDisk) -> None:
    """By the next opening, which does the same."""
    opened(disk).put_round([entry(n) for n in range(5)])
    found = opened(disk, clean=False)
    disk.fail("sync_tree")
    with pytest.raises(DiskFailed):
        found.flush()
    before = disk.calls["sync_tree"]
    found.flush()
    assert disk.calls["sync_tree"] == before + 1


def test_a_queue_costs_few_calls_after_a_crash(disk: SimulatedDisk) -> None:
    """Names, length, holes and one page; nothing is written, nothing synced."""
    opened(disk).put_round([entry(0, queue=n) for n in range(50)])
    before = disk.calls.copy()
    found = opened(disk, clean=False)
    found.truncate(PhysicalOffset(100))
    found.wipe_behind_ends()
    calls = disk.calls - before
    once = {"sizes": 1, "open": 1, "data_end": 1, "read": 1, "any": 4}
    assert {name: count // 50 for name, count in calls.items() if count >= 50} == once


def test_what_is_put_again_after_a_crash_is_not_cut_before(disk: SimulatedDisk) -> None:
    """One look at a queue tells its end and what it loses; what is the same is not written."""
    log = [entry(n // 50, at=100 * n, queue=n % 50) for n in range(250)]
    opened(disk).put_round(log)
    before = disk.calls.copy()
    found = FileQueues(disk, FOLDER, SMALL)
    lasts = found.load(certain=5_000)
    assert lasts == {("T", n): LastUnit(5, 100 * (200 + n)) for n in range(50)}
    assert set(next_offsets(found).values()) == {1}
    found.put_round(log)
    found.wipe_behind_ends()
    calls = disk.calls - before
    assert (calls["sizes"], calls["read"], calls["write"]) == (50, 50, 0)
    assert [unit[1] for unit in only(found).units(0, 9)] == [5_000 * n for n in range(5)]


@pytest.mark.parametrize("again", range(1, 30))
def test_what_is_not_put_again_after_a_crash_is_wiped(disk: SimulatedDisk, again: int) -> None:
    """Units behind the new end, also in files of which none is left."""
    log = [entry(n) for n in range(30)]
    opened(disk).put_round(log)
    found = FileQueues(disk, FOLDER, SMALL)
    found.load(certain=500)
    found.put_round(log[:again])
    found.wipe_behind_ends()
    whole = b"".join(read_file(disk, f"{FOLDER}/T/0/{name}") for name in disk.list(f"{FOLDER}/T/0"))
    units = b"".join(
        QUEUE_UNIT.pack(one.physical_offset, 100, one.tags_code) for one in log[: max(again, 5)]
    )
    assert whole.rstrip(b"\0") == units.rstrip(b"\0")
    assert opened(disk).by_key["T", 0].max_offset == max(again, 5)


@pytest.mark.slow
@given(st.integers(0, 1 << 32), st.lists(st.sampled_from(["put", "flush", "again"]), max_size=8))
def test_after_a_crash_the_log_can_be_put_again(seed: int, steps: list[str]) -> None:
    """Whatever a crash loses: cut to what was flushed and put again, the queues are whole."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    disk.make_folder("/store")
    queues = opened(disk)
    log = [entry(n // 2, at=100 * n, queue=n % 2) for n in range(80)]
    done = flushed = 0
    for step in steps:
        if step == "put":
            count = rng.randrange(1, 25)
            queues.put_round(log[done : done + count])
            done = min(done + count, len(log))
        elif step == "flush":
            queues.flush()
            flushed = done
        else:
            queues.put_round(log[max(0, done - 3) : done])
    after = opened(disk.crash(rng.randrange), clean=False)
    after.truncate(PhysicalOffset(100 * flushed))
    after.wipe_behind_ends()
    after.put_round(log[flushed:])
    for queue_id in (0, 1):
        queue = after.by_key.get(("T", queue_id))
        assert queue is not None
        assert queue.max_offset == 40
        for offset in range(40):
            assert queue.unit(offset) == (100 * (2 * offset + queue_id), 100, 7 * offset)


class Noted:
    """Queues on the real disk that were sealed, with files older than the note."""

    def __init__(self, folder: Path) -> None:
        self.root, self.note = folder / "q", folder / "ends"
        queues = FileQueues(RealDisk(), str(self.root), SMALL, note=str(self.note))
        queues.put_round([entry(n) for n in range(5, 25)])
        queues.put_round([entry(0, at=2500, queue=1)])
        queues.correct_min(PhysicalOffset(750))
        queues.seal()
        queues.close()
        self.expected = {("T", 0): (8, 25, 2500), ("T", 1): (0, 1, 2600)}
        self.age()

    def age(self) -> None:
        """Make everything as if it were of an earlier day than the note."""
        for path in self.root.rglob("*"):
            os.utime(path, (1, 1))

    def loaded(self, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[tuple[str, int], Any], int]:
        """Load again; return the range of each queue, and how many were looked at."""
        looked: list[FileQueue] = []
        real = FileQueue.load

        def load(queue: FileQueue, *, clean: bool, **how: int) -> None:
            looked.append(queue)
            real(queue, clean=clean, **how)

        monkeypatch.setattr(FileQueue, "load", load)
        queues = FileQueues(RealDisk(), str(self.root), SMALL, note=str(self.note))
        queues.load(clean=True)
        queues.correct_min(PhysicalOffset(750))
        found = {key: (q.min_offset, q.max_offset, q.end) for key, q in queues.by_key.items()}
        if ("T", 0) in found:
            assert only(queues).unit(24)[0] == 2400
        queues.close()
        return found, len(looked)


def test_after_a_clean_stop_queues_are_as_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of their files is looked into; they go on as they were."""
    noted = Noted(tmp_path)
    assert noted.loaded(monkeypatch) == (noted.expected, 0)
    queues = FileQueues(RealDisk(), str(noted.root), SMALL, note=str(noted.note))
    queues.load(clean=True)
    assert queues.put_round([entry(25, at=2600)]) == 1
    queues.correct_min(PhysicalOffset(1000))
    assert (only(queues).min_offset, only(queues).max_offset) == (10, 26)
    queues.close()
    queues.load(clean=False)
    assert only(queues).max_offset == 26


@pytest.mark.parametrize("name", [f"T/0/{0:020d}", f"T/0/{400:020d}", f"T/1/{0:020d}"])
def test_a_queue_that_was_written_since_is_looked_at(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that one."""
    noted = Noted(tmp_path)
    os.utime(noted.root / name)
    assert noted.loaded(monkeypatch) == (noted.expected, 1)


def test_queues_that_came_or_went_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of their topic is younger then, or gone."""
    noted = Noted(tmp_path)
    shutil.copytree(noted.root / "T/1", noted.root / "T/2")
    shutil.rmtree(noted.root / "T/1")
    shutil.copytree(noted.root / "T/2", noted.root / "U/0")
    one = noted.expected.pop(("T", 1))
    noted.expected |= {("T", 2): one, ("U", 0): one}
    assert noted.loaded(monkeypatch) == (noted.expected, 2)
    shutil.rmtree(noted.root / "T")
    assert noted.loaded(monkeypatch)[0] == {("U", 0): one}


def test_a_note_that_is_damaged_or_missing_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every queue is looked at, as it is after a crash."""
    noted = Noted(tmp_path)
    noted.note.write_bytes(noted.note.read_bytes().replace(b"25", b"24", 1))
    assert noted.loaded(monkeypatch) == (noted.expected, 2)
    noted.note.unlink()
    assert noted.loaded(monkeypatch) == (noted.expected, 2)


@pytest.mark.parametrize("size", [0, 1, 90, 99, 100])
def test_a_file_that_was_cut_inside_a_unit_has_no_units_there(size: int, tmp_path: Path) -> None:
    """A copy that broke off and kept the time: the note counts, what is gone is absent units."""
    noted = Noted(tmp_path)
    os.truncate(noted.root / f"T/0/{400:020d}", size)
    noted.age()
    queues = FileQueues(RealDisk(), str(noted.root), SMALL, note=str(noted.note), write=False)
    queues.load(clean=True)
    queue = only(queues)
    assert (queue.min_offset, queue.max_offset) == noted.expected["T", 0][:2]
    for offset in range(20, 25):
        place = (100 * offset, 100) if 20 * (offset - 19) <= size else (0, 0)
        code = 7 * offset if place[1] else 0
        assert queue.units(offset, 5)[0][1:4] == queue.unit(offset) == (*place, code)
        offsets, sizes = queue.places(offset, 5)
        assert (offsets[0], sizes[0], len(sizes)) == (*place, 25 - offset)
    queues.close()
