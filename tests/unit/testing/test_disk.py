"""`SimulatedDisk` loses what was not synced, and nothing else. See tests/contract too."""

import errno
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sprocket.base.disk import File
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.testing.disk import BLOCK, SimulatedDisk

SEEDS = range(300)


def _file(disk: SimulatedDisk, size: int = 0, path: str = "/x/a") -> File:
    disk.make_folder("/x")
    return disk.open(path, write=True, create=True, size=size)


def _durable(size: int = 0) -> tuple[SimulatedDisk, File]:
    disk = SimulatedDisk()
    file = _file(disk, size)
    file.sync()
    disk.sync_folder("/x")
    return disk, file


def _crashes(disk: SimulatedDisk, path: str = "/x/a") -> set[bytes | None]:
    """What is found in a file after many crashes."""
    found = set()
    for seed in SEEDS:
        after = disk.crash(random.Random(seed).randrange)
        found.add(after.open(path).read(0, 10**6) if after.exists(path) else None)
    return found


def test_what_was_synced_is_always_found() -> None:
    """Content and name, whatever the crash chooses."""
    disk, file = _durable()
    file.write([b"hello"], 0)
    file.sync()
    assert _crashes(disk) == {b"hello"}


def test_unsynced_blocks_are_lost_each_by_itself() -> None:
    """Two blocks: none, either one, both."""
    disk, file = _durable(2 * BLOCK)
    file.write([b"a" * BLOCK, b"b" * BLOCK], 0)
    zero = bytes(BLOCK)
    a, b = b"a" * BLOCK, b"b" * BLOCK
    assert _crashes(disk) == {zero + zero, a + zero, zero + b, a + b}


def test_any_version_since_the_sync_may_be_found() -> None:
    """A block written twice may hold the first of the two."""
    disk, file = _durable(1)
    file.write([b"1"], 0)
    file.write([b"2"], 0)
    assert _crashes(disk) == {b"\0", b"1", b"2"}


def test_a_length_may_be_lost() -> None:
    """Growing and cutting are found or not."""
    disk, file = _durable(3)
    file.write([b"abcd"], 0)
    assert {b"\0\0\0", b"abcd"} <= _crashes(disk)
    file.sync()
    file.resize(1)
    assert {b"a", b"abcd"} <= _crashes(disk)


def test_a_new_name_is_lost_without_sync_of_its_folder() -> None:
    """Syncing the file does not make its name durable."""
    disk = SimulatedDisk()
    file = _file(disk)
    file.write([b"hello"], 0)
    file.sync()
    assert _crashes(disk) == {None, b"hello"}


def test_a_rename_happened_or_not() -> None:
    """With content synced before, the target is the old or the new one."""
    disk, file = _durable()
    file.write([b"old"], 0)
    file.sync()
    new = _file(disk, path="/x/b")
    new.write([b"new"], 0)
    new.sync()
    disk.sync_folder("/x")
    disk.rename("/x/b", "/x/a")
    assert _crashes(disk) == {b"old", b"new"}
    disk.sync_folder("/x")
    assert _crashes(disk) == {b"new"}
    disk.remove("/x/a")
    assert _crashes(disk) == {None, b"new"}


def test_changes_in_other_folders_stay_unsynced() -> None:
    """Each folder is synced by itself."""
    disk, _ = _durable()
    disk.make_folder("/y")
    disk.open("/y/b", write=True, create=True)
    disk.sync_folder("/x")
    assert _crashes(disk, "/y/b") == {None, b""}


def test_a_failed_sync_leaves_doubt_that_a_later_one_does_not_remove() -> None:
    """Only writing again does."""
    disk, file = _durable(1)
    file.write([b"1"], 0)
    disk.fail("sync")
    with pytest.raises(DiskFailed, match="sync /x/a"):
        file.sync()
    file.sync()
    assert _crashes(disk) == {b"\0", b"1"}
    file.write([b"1"], 0)
    file.sync()
    assert _crashes(disk) == {b"1"}


def test_a_crash_leaves_the_disk_itself_alone() -> None:
    """The crashed disk is another one, and all it has is durable."""
    disk, file = _durable()
    file.write([b"hello"], 0)
    after = disk.crash(lambda _count: 0)
    assert file.read(0, 9) == b"hello"
    assert _crashes(after) == {bytes(5)}


def test_a_kill_loses_nothing() -> None:
    """The operating system still has what was written, and may still lose it."""
    disk, file = _durable(5)
    file.write([b"hello"], 0)
    disk.lock("/x/lock")
    after = disk.kill()
    assert after.open("/x/a").read(0, 9) == b"hello"
    after.lock("/x/lock")
    assert _crashes(after) == {b"hello", bytes(5)}
    file.sync()
    assert _crashes(disk) == {b"hello"}


def test_a_kill_while_a_thread_goes_on() -> None:
    """A thread of the dead process may create, close and remove files meanwhile."""
    disk = SimulatedDisk()
    for number in range(100):
        disk.open(f"/{number}", write=True, create=True).close()
    is_over = threading.Event()

    def churn() -> None:
        while not is_over.is_set():
            for number in range(100, 120):
                file = disk.open(f"/{number}", write=True, create=True)
                file.write([b"x"], 0)
                file.close()
                disk.remove(f"/{number}")
            disk.sync_folder("/")  # or a kill has all those changes to remember

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        try:
            for _ in range(200):
                assert len(disk.kill().contents()) >= 100
        finally:
            is_over.set()
            sys.setswitchinterval(interval)
        churning.result()


@pytest.mark.parametrize(
    ("call", "use"),
    [
        ("size", lambda _d, f: f.size()),
        ("data_end", lambda _d, f: f.data_end()),
        ("view", lambda _d, f: f.view()),
        ("open", lambda d, _f: d.open("/x/a")),
        ("exists", lambda d, _f: d.exists("/x/a")),
        ("is_folder", lambda d, _f: d.is_folder("/x")),
        ("size", lambda d, _f: d.size("/x/a")),
        ("modified_at_ms", lambda d, _f: d.modified_at_ms("/x/a")),
        ("list", lambda d, _f: d.list("/x")),
        ("folders", lambda d, _f: d.folders("/x")),
        ("sizes", lambda d, _f: d.sizes("/x")),
        ("lock", lambda d, _f: d.lock("/x/a")),
        ("used_ratio", lambda d, _f: d.used_ratio("/x")),
        ("any", lambda _d, f: f.read(0, 1)),
        ("create", lambda d, _f: d.open("/x/new", write=True, create=True)),
        ("read", lambda _d, f: f.read(0, 1)),
        ("write", lambda _d, f: f.write([b"x"], 0)),
        ("resize", lambda _d, f: f.resize(1)),
        ("sync", lambda _d, f: f.sync()),
        ("sync_folder", lambda d, _f: d.sync_folder("/x")),
        ("sync_tree", lambda d, _f: d.sync_tree("/x")),
        ("rename", lambda d, _f: d.rename("/x/a", "/x/c")),
        ("exchange", lambda d, _f: d.exchange("/x", "/x")),
        ("remove", lambda d, _f: d.remove("/x/a")),
        ("make_folder", lambda d, _f: d.make_folder("/z")),
    ],
)
def test_any_call_can_be_made_to_fail(
    call: str, use: Callable[[SimulatedDisk, File], object]
) -> None:
    """The nth from now, once; a sync that finds no room fails: what reached the disk is unknown."""
    disk, file = _durable(5)
    disk.fail(call, 1, errno.ENOSPC)
    with pytest.raises(DiskFailed if call.startswith("sync") else DiskFull):
        use(disk, file)
    use(disk, file)


def test_a_failed_sync_of_a_tree_leaves_its_files_in_doubt() -> None:
    """A later sync that succeeds does not make them durable."""
    disk, file = _durable(5)
    file.write([b"hello"], 0)
    disk.fail("sync_tree")
    with pytest.raises(DiskFailed):
        disk.sync_tree("/x")
    disk.sync_tree("/x")
    assert _crashes(disk) == {b"hello", bytes(5)}


def test_a_write_without_space_leaves_a_part() -> None:
    """The first half is in the file."""
    disk, file = _durable(4)
    disk.fail("write", 2, errno.ENOSPC)
    file.write([b"ab"], 0)
    with pytest.raises(DiskFull):
        file.write([b"cd"], 2)
    assert file.read(0, 4) == b"abc\0"


@pytest.mark.parametrize("kept", [0, 1])
def test_a_change_that_failed_may_have_happened(kept: int) -> None:
    """Each kind of change, as the test wants it."""
    disk, file = _durable(4)
    changes: list[tuple[str, Callable[[], object], Callable[[], bool]]] = [
        ("write", lambda: file.write([b"abcd"], 0), lambda: file.read(0, 4) == b"abcd"),
        ("resize", lambda: file.resize(9), lambda: file.size() == 9),
        (
            "create",
            lambda: disk.open("/x/b", write=True, create=True),
            lambda: disk.exists("/x/b"),
        ),
        ("rename", lambda: disk.rename("/x/a", "/x/c"), lambda: disk.exists("/x/c")),
        ("make_folder", lambda: disk.make_folder("/z"), lambda: disk.exists("/z")),
    ]
    for call, change, happened in changes:
        disk.fail(call, 1, errno.EIO, kept)
        with pytest.raises(DiskFailed):
            change()
        assert happened() == bool(kept), call


def test_a_full_disk_takes_nothing_and_gives_everything() -> None:
    """Until there is room again."""
    disk, file = _durable(4)
    disk.is_full = True
    for change in (
        lambda: file.write([b"x"], 0),
        lambda: disk.open("/x/b", write=True, create=True),
        lambda: disk.make_folder("/z"),
    ):
        with pytest.raises(DiskFull):
            change()
    assert file.read(0, 4) == bytes(4)
    disk.remove("/x/a")
    disk.is_full = False
    file.write([b"x"], 0)


def test_who_asks_is_told_of_each_call_before_it() -> None:
    """With its kind and path, and may crash the disk there."""
    disk, file = _durable(1)
    seen: list[tuple[str, str, bytes]] = []

    def before(call: str, path: str) -> None:
        if call == "write":
            after = disk.crash(lambda count: count - 1)
            seen.append((call, path, after.open("/x/a").read(0, 1)))

    disk.before = before
    file.write([b"1"], 0)
    assert seen == [("write", "/x/a", b"\0")]


def test_a_file_that_comes_back_is_in_its_folder() -> None:
    """A removed tree that was not synced may be there again, whole."""
    disk, _ = _durable(3)
    disk.remove_tree("/x")
    assert _crashes(disk) == {None, bytes(3)}
    after = next(d for d in (disk.crash(random.Random(s).randrange) for s in SEEDS) if d.list("/x"))
    assert after.is_folder("/x")


def test_a_bad_sector_fails_every_read_until_it_is_written() -> None:
    """Of what lies in it; a kill or a crash does not mend it."""
    disk, file = _durable(20)
    file.write([b"a" * 20], 0)
    file.sync()
    disk.spoil("/x/a", 5, 3)
    for found in (disk, disk.kill(), disk.crash(lambda _: 0)):
        same = found.open("/x/a", write=True)
        for position, size in ((0, 6), (7, 1), (0, 20)):
            with pytest.raises(DiskFailed, match=r"/x/a: Input/output error"):
                same.read(position, size)
        assert same.read(0, 5) == b"a" * 5
        assert same.read(8, 12) == b"a" * 12
        same.write([b"bb"], 4)
        with pytest.raises(DiskFailed):
            same.read(0, 20)
        same.write([b"bb"], 6)
        assert same.read(3, 6) == b"abbbba"


def test_a_folder_that_was_not_synced_may_be_gone_with_all_it_holds() -> None:
    """Whatever in it was synced; once it is synced into its parent it stays, also after a kill."""
    disk = SimulatedDisk()
    disk.make_folder("/a/b", durable=False)
    file = disk.open("/a/b/c", write=True, create=True)
    file.write([b"x"], 0)
    file.sync()
    disk.sync_folder("/a/b")
    disk.sync_folder("/a")
    for left in (disk, disk.kill()):
        found = left.crash(lambda _: 0)
        assert (found.exists("/a"), found.exists("/a/b/c")) == (False, False)
        assert left.crash(lambda count: 1 % count).exists("/a/b/c")
        left.sync_folder("/")
        assert left.crash(lambda _: 0).exists("/a/b/c")


def test_a_bad_sector_may_be_read_another_day() -> None:
    """What lies there was not changed; what each file holds is told all the same."""
    disk, file = _durable()
    file.write([b"content"], 0)
    disk.spoil("/x/a", 3, 1)
    with pytest.raises(DiskFailed):
        file.read(0, 7)
    assert disk.contents() == {"/x/a": b"content"}
    disk.repair("/x/a")
    assert file.read(0, 7) == b"content"
