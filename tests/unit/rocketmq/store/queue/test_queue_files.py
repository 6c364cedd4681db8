"""The files of a queue: writes across files, zeros, cuts, and what is synced."""

import pytest
from tests.unit.rocketmq.store.queue.given import oldest

from sprocket.base.disk import OpenFiles, SegmentFiles, read_file, steps
from sprocket.base.errors import DiskFull
from sprocket.rocketmq.store.queue import QueueFiles
from sprocket.rocketmq.store.queue.queue_files import sync_all
from sprocket.testing.disk import SimulatedDisk

FOLDER = "/store/consumequeue/topic/0"


def made(disk: SimulatedDisk, size: int = 10) -> QueueFiles:
    """Return the files of 10 bytes, or another size, that are on a disk."""
    files = QueueFiles(SegmentFiles(disk, FOLDER, size))
    files.load()
    return files


def content(disk: SimulatedDisk) -> list[bytes]:
    """Return what each file holds."""
    return [read_file(disk, f"{FOLDER}/{name}") for name in disk.list(FOLDER)]


@pytest.fixture
def disk() -> SimulatedDisk:
    """Give an empty disk."""
    found = SimulatedDisk()
    found.make_folder("/store")
    return found


def test_a_write_goes_over_the_borders_of_files(disk: SimulatedDisk) -> None:
    """Files are made where they are missing; a read stays in one."""
    files = made(disk)
    files.write(14, b"abcdefghij")
    assert content(disk) == [b"\0" * 4 + b"abcdef", b"ghij".ljust(10, b"\0")]
    assert (files.first, files.end, files.left(14)) == (10, 30, 6)
    assert files.read(16, 10) == b"cdef"


def test_a_cut_zeroes_and_deletes(disk: SimulatedDisk) -> None:
    """The oldest file stays."""
    files = made(disk)
    files.write(0, b"x" * 25)
    files.cut(4, 25)
    assert content(disk) == [b"xxxx".ljust(10, b"\0")]
    files.cut(0, 4)
    assert content(disk) == [bytes(10)]
    files.drop_from(0)
    files.write(30, b"yyy")
    files.cut(30, 33)
    assert content(disk) == [bytes(10)]
    files.drop_from(0)
    assert files.segments == ()


def test_only_what_is_not_zero_is_written(disk: SimulatedDisk) -> None:
    """Zeroing zeros needs no write, and goes as far as there are files."""
    files = made(disk)
    files.write(0, b"x" * 10)
    files.zero(0, 100)
    writes = disk.calls["write"]
    files.zero(0, 100)
    assert disk.calls["write"] == writes
    assert content(disk) == [bytes(10)]


def test_old_files_go_but_for_the_newest(disk: SimulatedDisk) -> None:
    """What ends before a position; nothing of it is synced later."""
    files = made(disk)
    files.write(0, b"x" * 25)
    steps.run(files.drop_before_steps(19))
    assert files.first == 10
    steps.run(files.drop_before_steps(1000))
    assert files.first == 20
    assert {segment.start for segment in files.take_unsynced().segments} == {20}


def test_what_is_synced_survives(disk: SimulatedDisk) -> None:
    """Content and names; what was given back is synced the next time."""
    files = made(disk)
    files.write(0, b"x" * 12)
    taken = files.take_unsynced()
    assert files.take_unsynced() == (frozenset(), None)
    files.give_back(taken)
    sync_all(disk, [files.take_unsynced()])
    assert content(disk.crash(oldest)) == [b"x" * 10, b"xx".ljust(10, b"\0")]


def test_wiping_reads_no_holes(disk: SimulatedDisk) -> None:
    """A queue's file of 6 MB mostly holds one page; reading the rest cost 7 ms a queue."""
    files = made(disk, 6_000_000)
    files.write(0, b"x" * 4096)
    files.write(6_000_000, b"x")
    reads = disk.calls["read"]
    files.zero(4000, 12_000_000)
    assert disk.calls["read"] - reads == 2
    assert files.read(0, 4097) == b"x" * 4000 + bytes(97)
    assert files.read(6_000_000, 1) == b"\0"


@pytest.mark.parametrize("change", ["write", "cut", "drop", "clean", "let go"])
def test_what_is_held_is_what_lies_there(disk: SimulatedDisk, change: str) -> None:
    """Until something is written or deleted; after that the files are read."""
    files = made(disk)
    files.write(0, b"x" * 25)
    files.hold_end(20, 1, 10)
    files.close_but_hold(22)
    reads = disk.calls["read"]
    assert files.has(22, b"xxx")
    assert not files.has(22, b"xy")
    assert disk.calls["read"] == reads
    assert files.has(20, b"xxx"), "what lies before is read"
    if change == "write":
        files.write(23, b"y")
    elif change == "cut":
        files.cut(23, 25)
    elif change == "drop":
        files.drop_from(20)
        files.add(20)
    elif change == "clean":
        steps.run(files.drop_before_steps(20))
    else:
        files.let_go()
    reads = disk.calls["read"]
    after = {"write": b"xyx", "cut": b"x\0\0", "drop": bytes(3)}.get(change, b"xxx")
    assert files.read(22, 3) == after
    assert disk.calls["read"] == reads + 1


def test_the_end_of_a_file_is_looked_at_without_its_holes(disk: SimulatedDisk) -> None:
    """What was never written costs a page of memory a queue when it is read, and may be damaged."""
    files = made(disk, 6_000)
    files.write(0, b"x" * 4096)
    disk.spoil(f"{FOLDER}/{0:020d}", 4096, 1904)
    assert files.hold_end(0, 20, 4100) == 4100
    assert files.read(4090, 10) == b"xxxxxx" + bytes(4)


def test_no_more_than_a_little_is_held(disk: SimulatedDisk) -> None:
    """There may be 100,000 queues; none is held where nothing is, or none was looked at."""
    files = made(disk, 6_000)
    files.write(0, b"x" * 5_000)
    for position, looked_at in ((1_000, 4_100), (5_500, 4_100), (1_000, 0)):
        if looked_at:
            files.hold_end(0, 1, looked_at)
        files.close_but_hold(position)
        reads = disk.calls["read"]
        is_held = looked_at and position == 1_000
        assert files.has(position, files.read(position, 200))
        assert disk.calls["read"] - reads == (0 if is_held else 2)
        assert files.has(1_000, b"x" * 4_000)
        assert disk.calls["read"] - reads == (1 if is_held else 3)


def test_a_copy_has_handles_of_its_own(disk: SimulatedDisk) -> None:
    """To be read on another thread; closing it leaves ours open."""
    files = made(disk)
    files.write(0, b"abc")
    copy = files.copy()
    assert copy.read(0, 3) == b"abc"
    copy.close()
    assert files.segments[0].is_open


def test_the_oldest_handle_is_given_back(disk: SimulatedDisk) -> None:
    """When too many are open."""
    files = QueueFiles(SegmentFiles(disk, FOLDER, 10, open_files=OpenFiles(2)))
    files.write(0, b"x" * 40)
    assert [segment.is_open for segment in files.segments] == [False, False, True, True]


def test_a_failed_write_may_be_repeated(disk: SimulatedDisk) -> None:
    """The same bytes go to the same place."""
    files = made(disk)
    disk.fail("write", 2, 28)
    with pytest.raises(DiskFull):
        files.write(0, b"x" * 15)
    files.write(0, b"x" * 15)
    assert content(disk) == [b"x" * 10, b"xxxxx".ljust(10, b"\0")]


def test_a_new_queue_waits_for_no_disk(disk: SimulatedDisk) -> None:
    """Its folders are synced when it is, each once for all queues: two syncs cost 247 ms once."""
    taken = []
    for topic in "abc":
        for queue in range(4):
            folder = f"/store/consumequeue/{topic}/{queue}"
            files = QueueFiles(SegmentFiles(disk, folder, 10))
            files.write(0, b"x")
            taken.append(files.take_unsynced())
    assert disk.calls["sync_folder"] == disk.calls["sync"] == 0
    sync_all(disk, taken)
    assert disk.calls["sync_folder"] == 12 + 3 + 1 + 1, "queues, topics, their folder, the store"
    assert disk.crash(oldest).list("/store/consumequeue/b/3") == ["0" * 20]
