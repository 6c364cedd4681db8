"""One queue in files: units stand where they belong, whatever is lost."""

import os
from pathlib import Path
from random import Random

import pytest
from tests.unit.rocketmq.store.queue.given import FIRST, FOLDER, SMALL, entry, only, opened

from sprocket.base.disk import RealDisk, read_file
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    QUEUE_UNIT,
    UNIT_BYTES,
    FileQueues,
    LastUnit,
    file_queue,
)
from sprocket.rocketmq.store.queue.queue import FILLER
from sprocket.testing.disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    """Give an empty disk."""
    return SimulatedDisk()


def test_rolling_makes_the_next_file(disk: SimulatedDisk) -> None:
    """A round may reach over several files; a read stays in one."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(25)])
    assert disk.list(f"{FOLDER}/T/0") == [f"{n:020d}" for n in (0, 200, 400)]
    assert len(only(queues).read(7, 100)) == 3 * UNIT_BYTES
    assert len(only(queues).read(20, 100)) == 5 * UNIT_BYTES
    assert only(queues).unit(24) == (2400, 100, 168)
    assert only(queues).after_unreadable(19) == 20


def test_a_queue_may_begin_anywhere(disk: SimulatedDisk) -> None:
    """Fillers stand before its first message in the first file."""
    queues = opened(disk)
    queues.put_round([entry(13)])
    content = read_file(disk, f"{FOLDER}/T/0/{200:020d}")
    assert (FILLER * 3 + QUEUE_UNIT.pack(1300, 100, 91)).ljust(200, b"\0") == content
    assert (only(queues).min_offset, only(queues).max_offset) == (13, 14)
    again = only(opened(disk))
    assert (again.min_offset, again.max_offset, again.end) == (13, 14, 1400)


def test_a_file_without_units_is_no_reason_to_refuse(disk: SimulatedDisk) -> None:
    """The process died between making the first file and writing to it."""
    for first in (0, 40):
        disk.make_folder(f"{FOLDER}/T/0")
        name = f"{FOLDER}/T/0/{20 * first:020d}"
        disk.open(name, write=True, create=True, size=SMALL.file_bytes).close()
        queues = opened(disk)
        assert only(queues).is_blank
        queues.put_round([entry(13)])
        assert disk.list(f"{FOLDER}/T/0") == [f"{200:020d}"]
        queues.remove("T", 0)


def test_reading_outside_says_so(disk: SimulatedDisk) -> None:
    """Behind the end and before the first file."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(20, 25)])
    with pytest.raises(OffsetTooLarge):
        only(queues).read(25, 1)
    with pytest.raises(OffsetTooSmall):
        only(queues).read(19, 1)
    with pytest.raises(OffsetTooSmall) as gone:
        only(queues).places(19, 1)
    assert (gone.value.wanted, gone.value.lowest) == (19, 20)
    assert queues.by_key.get(("X", 0)) is None


def test_places_that_were_read_ahead_are_those_of_now(disk: SimulatedDisk) -> None:
    """Units that came later, or in place of others that were cut, are seen."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(5)])
    assert only(queues).places(0, 2).offsets == (0, 100)
    reads = disk.calls["read"]
    assert only(queues).places(2, 9) == ((200, 300, 400), (100,) * 3)
    assert disk.calls["read"] == reads
    queues.put_round([entry(n) for n in range(5, 7)])
    assert only(queues).places(3, 9).offsets == (300, 400, 500, 600)
    assert only(queues).places(0, 9).offsets == tuple(range(0, 700, 100))
    queues.truncate(PhysicalOffset(400))
    with pytest.raises(OffsetTooLarge):
        only(queues).places(4, 1)
    queues.put_round([entry(4, at=900), entry(5, at=1000)])
    assert only(queues).places(3, 9).offsets == (300, 900, 1000)


def test_loading_finds_the_end(disk: SimulatedDisk) -> None:
    """All that was put is there after a stop, in one file and in many."""
    for count in (1, 9, 10, 11, 55):
        queues = opened(disk)
        queues.put_round([entry(n) for n in range(count)])
        queues.close()
        again = only(opened(disk))
        assert (again.min_offset, again.max_offset, again.end) == (0, count, 100 * count)


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (QUEUE_UNIT.pack(-1, 100, 0), 4),
        (QUEUE_UNIT.pack(400, 0, 0), 4),
        (bytes(20), 4),
        (QUEUE_UNIT.pack(350, 100, 0), 4),
        (QUEUE_UNIT.pack(1, FILLER_SIZE, 0), 4),
        (FILLER, 8),
    ],
)
def test_a_unit_that_cannot_be_ends_the_queue(
    disk: SimulatedDisk, damage: bytes, kept: int
) -> None:
    """An absent unit, and one that does not lie behind the one before it."""
    opened(disk).put_round([entry(n) for n in range(8)])
    disk.open(FIRST, write=True).write([damage], 4 * UNIT_BYTES)
    assert only(opened(disk)).max_offset == kept


def test_what_lies_behind_a_hole_is_wiped(disk: SimulatedDisk) -> None:
    """Once the hole is filled, old units behind it must not come back."""
    opened(disk).put_round([entry(n) for n in range(8)])
    disk.open(FIRST, write=True).write([bytes(20)], 4 * UNIT_BYTES)
    queues = opened(disk, clean=False)
    queues.wipe_behind_ends()
    queues.put_round([entry(4)])
    assert only(opened(disk)).max_offset == 5


@pytest.mark.parametrize("has_holes", [True, False])
@pytest.mark.parametrize("page", [20, 40, 4080])
def test_after_a_crash_only_the_end_is_looked_at(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, page: int, has_holes: bool
) -> None:
    """However many units lie before it, and also where a disk cannot tell holes from data."""
    monkeypatch.setattr(file_queue, "LAST_BYTES", page)
    disk.has_holes = has_holes
    for count in range(1, 35):
        queues = opened(disk)
        queues.put_round([entry(n) for n in range(count)])
        queues = opened(disk, clean=False)
        queue = only(queues)
        assert (queue.min_offset, queue.max_offset, queue.end) == (0, count, 100 * count)
        queues.wipe_behind_ends()
        assert queues.put_round([entry(n) for n in range(40)]) == 40 - count
        assert only(opened(disk)).max_offset == 40
        queues.remove("T", 0)


@pytest.mark.parametrize("has_holes", [True, False])
@pytest.mark.parametrize("page", [20, 40, 4080])
def test_units_that_a_crash_took_out_of_the_middle(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, page: int, has_holes: bool
) -> None:
    """Whatever is found behind them: cut to what is certain, nothing uncertain is left."""
    monkeypatch.setattr(file_queue, "LAST_BYTES", page)
    disk.has_holes = has_holes
    random = Random(1)
    for _ in range(100):
        certain, count = sorted(random.sample(range(31), 2))
        opened(disk).put_round([entry(n) for n in range(count)])
        for lost in random.sample(range(certain, count), random.randrange(count - certain + 1)):
            name = f"{FOLDER}/T/0/{lost // 10 * 200:020d}"
            disk.open(name, write=True).write([bytes(20)], lost % 10 * UNIT_BYTES)
        queues = opened(disk, clean=False)
        queues.truncate(PhysicalOffset(100 * certain))
        assert only(queues).max_offset == certain
        queues.wipe_behind_ends()
        content = b"".join(
            read_file(disk, f"{FOLDER}/T/0/{name}") for name in disk.list(f"{FOLDER}/T/0")
        )
        assert not any(content[certain * UNIT_BYTES :])
        assert queues.put_round([entry(n) for n in range(count + 1)]) == count + 1 - certain
        queues.remove("T", 0)


@pytest.mark.parametrize("certain", [0, 300, 700])
def test_units_put_again_are_compared_without_a_read(disk: SimulatedDisk, certain: int) -> None:
    """Each of 100,000 queues was opened and read twice after a crash: a quarter of the start.

    What a file holds otherwise than it is put is written all the same, and what follows wiped.
    """
    opened(disk).put_round([entry(n) for n in range(8)])
    for last in (entry(7), entry(7, at=900)):
        queues = FileQueues(disk, FOLDER, SMALL)
        queues.load(certain=certain)
        before = disk.calls.copy()
        queues.put_round([entry(n) for n in range(certain // 100, 7)])
        assert disk.calls == before
        queues.put_round([last])
        assert disk.calls["write"] - before["write"] == (last.physical_offset != 700)
        queues.wipe_behind_ends()
        assert only(queues).places(0, 9).offsets == (*range(0, 700, 100), last.physical_offset)
        assert only(opened(disk)).end == last.physical_offset + 100


def test_truncating_zeroes_units_and_drops_files(disk: SimulatedDisk) -> None:
    """At every place of the log: what begins there or later is gone, on the disk as well."""
    for place in range(0, 2600, 50):
        queues = opened(disk)
        queues.put_round([entry(n) for n in range(25)])
        keep = -(-place // 100)
        lost = {("T", 0): LastUnit(25, 2400)} if keep < 25 else {}
        assert queues.truncate(PhysicalOffset(place)) == lost
        queue = only(queues)
        expected = (min(keep, 25), 100 * min(keep, 25) or -1)
        assert expected == (queue.max_offset, queue.end)
        again = only(opened(disk))
        assert expected == (again.max_offset, again.end)
        assert queues.put_round([entry(n) for n in range(min(keep, 25), 25)]) == 25 - min(keep, 25)
        queues.remove("T", 0)


def test_the_minimum_follows_the_log(disk: SimulatedDisk) -> None:
    """The first message that the log still has; none is left: minimum is maximum."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(3, 25)])
    for first, expected in [(0, 3), (300, 3), (301, 4), (1500, 15), (2400, 24), (2401, 25)]:
        queues.correct_min(PhysicalOffset(first))
        assert only(queues).min_offset == expected
    queues.correct_min(PhysicalOffset(0))
    assert only(queues).min_offset == 25


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")
def test_a_loaded_queue_holds_no_handle(tmp_path: Path) -> None:
    """A store of many queues opens with few handles."""
    queues = FileQueues(RealDisk(), str(tmp_path), SMALL)
    queues.put_round([entry(n) for n in range(100)])
    queues.close()
    before = os.listdir("/proc/self/fd")
    again = FileQueues(RealDisk(), str(tmp_path), SMALL)
    again.load(clean=True)
    assert before == os.listdir("/proc/self/fd")
    assert again.by_key["T", 0].max_offset == 100
