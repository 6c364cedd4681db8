"""What every disk does, the real one and the simulated one alike."""

import pathlib
import time

import pytest

from sprocket.base.disk import Disk, RealDisk, read_file, replace_file
from sprocket.base.errors import DiskFailed, FileMissing, StoreLocked
from sprocket.base.units import KIB
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.twin_disk import TwinDisk


@pytest.fixture(params=["real", "simulated", "twin"])
def disk(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Disk:
    """The disk under test."""
    if request.param == "twin":
        return TwinDisk(str(tmp_path))
    return RealDisk() if request.param == "real" else SimulatedDisk()


@pytest.fixture
def folder(disk: Disk, tmp_path: pathlib.Path) -> str:
    """An empty folder on it."""
    path = str(tmp_path / "folder")
    disk.make_folder(path)
    return path


def test_a_created_file_is_full_of_zeros(disk: Disk, folder: str) -> None:
    """A file made with a size has it at once."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=1000)
    assert file.path == f"{folder}/a"
    assert file.size() == 1000 == disk.size(f"{folder}/a")
    assert file.read(0, 1000) == bytes(1000)


def test_the_size_is_for_new_files_only(disk: Disk, folder: str) -> None:
    """Opening an existing file with `create` and `size` leaves its content alone."""
    disk.open(f"{folder}/a", write=True, create=True).write([b"hello"], 0)
    assert disk.open(f"{folder}/a", write=True, create=True, size=2).read(0, 9) == b"hello"


def test_buffers_are_written_one_after_the_other(disk: Disk, folder: str) -> None:
    """Any kind of buffer, any number of them, at any position."""
    file = disk.open(f"{folder}/a", write=True, create=True)
    assert file.write([b"ab", bytearray(b"cd"), memoryview(b"ef")], 3) == 6
    assert file.read(0, 100) == b"\0\0\0abcdef"
    assert file.write([], 0) == 0
    assert file.write([b"x"] * 2500, 1) == 2500
    assert file.read(0, 3000) == b"\0" + b"x" * 2500


def test_a_read_is_short_only_at_the_end(disk: Disk, folder: str) -> None:
    """Reading past the end gives what is there."""
    file = disk.open(f"{folder}/a", write=True, create=True)
    file.write([b"hello"], 0)
    assert file.read(3, 10) == b"lo"
    assert [file.read_view(*at) for at in ((0, 2), (3, 10), (5, 1))] == [b"he", b"lo", b""]
    assert file.read(5, 10) == b""


def test_a_view_sees_later_writes_and_outlives_the_file(disk: Disk, folder: str) -> None:
    """Views are the file, not a copy, and cannot be written through."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=8192)
    view = file.view()
    assert len(view) == 8192
    assert view.readonly
    file.write([b"late"], 5000)
    assert bytes(view[5000:5004]) == b"late"
    file.close()
    file.close()
    assert bytes(view[5000:5004]) == b"late"


def test_what_was_given_back_is_read_anew(disk: Disk, folder: str) -> None:
    """By views made before as well; what was not synced, or lies beside it, is not touched."""
    file = disk.open(f"{folder}/f", write=True, create=True, size=64 * KIB)
    data = bytes(range(256)) * 256
    file.write([data], 0)
    view = file.view()
    assert view == data
    file.give_back(100, 40_000)
    assert file.view() == view == data
    file.sync()
    file.give_back(100, 40_000)
    assert file.read(0, 64 * KIB) == data
    buffer = memoryview(bytearray(64 * KIB))
    assert file.read_nowait(0, buffer) == 64 * KIB
    assert buffer == data
    assert file.view() == view == data
    for position, size in ((64 * KIB - 100, 100), (5000, 10), (0, 1), (4096, 4096)):
        file.give_back(position, size)
    assert file.view() == view == data
    file.give_back(0, 64 * KIB)
    file.start_reading(0, 128 * KIB)
    deadline = time.monotonic() + 30
    while file.read_nowait(0, buffer) is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    file.close()
    file.give_back(0, 10)
    file.start_reading(0, 10)


def test_what_is_in_memory_is_read_without_waiting(disk: Disk, folder: str) -> None:
    """Up to the end of the file, of which there may be less than wanted, or nothing."""
    file = disk.open(f"{folder}/f", write=True, create=True)
    file.write([b"0123456789"], 0)
    for position, size, expected in ((0, 10, b"0123456789"), (2, 3, b"234"), (8, 5, b"89")):
        buffer = memoryview(bytearray(size))
        assert file.read_nowait(position, buffer) == len(expected)
        assert bytes(buffer[: len(expected)]) == expected
    for position, size in ((10, 5), (50, 5), (3, 0)):
        assert file.read_nowait(position, memoryview(bytearray(size))) == 0


def test_a_view_of_nothing_is_empty(disk: Disk, folder: str) -> None:
    """An empty file has an empty view."""
    assert len(disk.open(f"{folder}/a", write=True, create=True).view()) == 0


def test_a_view_after_resize_has_the_new_length(disk: Disk, folder: str) -> None:
    """Asking again after `resize` gives the whole file."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=10)
    assert len(file.view()) == 10
    file.resize(5000)
    assert len(file.view()) == 5000


def test_resize_cuts_and_fills_with_zeros(disk: Disk, folder: str) -> None:
    """What was cut does not come back."""
    file = disk.open(f"{folder}/a", write=True, create=True)
    file.write([b"hello"], 0)
    file.resize(2)
    file.resize(4)
    assert file.read(0, 10) == b"he\0\0"
    file.sync()


def test_room_that_is_taken_changes_nothing(disk: Disk, folder: str) -> None:
    """Neither what is there nor the length."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=1 << 20)
    file.write([b"hello"], 0)
    view = file.view()
    file.allocate(0, 1 << 20)
    file.write([b"there"], 1 << 19)
    assert file.size() == 1 << 20
    assert view[: 1 << 19] == b"hello" + bytes((1 << 19) - 5)
    assert view[1 << 19 :] == b"there" + bytes((1 << 19) - 5)
    file.close()
    assert disk.open(f"{folder}/a").read(0, 5) == b"hello"


def test_data_ends_behind_the_last_write(disk: Disk, folder: str) -> None:
    """What lies behind it is zero; a file that was never written has no data."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=10_000_000)
    assert file.data_end() == 0
    file.write([b"hello"], 5_000_000)
    assert 5_000_005 <= file.data_end() <= 5_000_005 + 70_000


def test_all_below_a_folder_is_synced(disk: Disk, folder: str) -> None:
    """By one call, whatever lies there; what is missing is not an error, and nothing is changed."""
    disk.make_folder(f"{folder}/a/b")
    for name in ("a/b/c", "a/d"):
        disk.open(f"{folder}/{name}", write=True, create=True).write([b"hello"], 0)
    disk.open(f"{folder}/e", write=True, create=True).write([b"hello"], 0)
    disk.sync_tree(f"{folder}/a")
    disk.sync_tree(f"{folder}/none")
    assert disk.list(folder) == ["a", "e"]
    assert read_file(disk, f"{folder}/a/b/c") == b"hello"
    if isinstance(disk, SimulatedDisk):
        found = disk.crash(lambda _count: 0)
        assert (found.list(f"{folder}/a"), found.list(f"{folder}/a/b")) == (["b", "d"], ["c"])
        assert found.list(folder) == ["a"]
        assert read_file(found, f"{folder}/a/b/c") == b"hello"


def test_a_sync_that_the_system_runs_by_itself_is_a_sync(disk: Disk, folder: str) -> None:
    """It may outlive the file; where the system cannot, it begins none."""
    file = disk.open(f"{folder}/a", write=True, create=True)
    disk.sync_folder(folder)
    file.write([b"hello"], 0)
    pending = file.start_sync()
    if pending is None:
        file.sync()
    else:
        file.close() if isinstance(disk, RealDisk) else None
        assert pending.wait()
    if isinstance(disk, SimulatedDisk):
        assert disk.crash(lambda _: 0).contents()[f"{folder}/a"] == b"hello"
    assert read_file(disk, f"{folder}/a") == b"hello"


def test_a_missing_file_is_file_missing(disk: Disk, folder: str) -> None:
    """Every call that needs the file says so, with its path."""
    path = f"{folder}/none"
    for call in (disk.open, disk.size, disk.remove, disk.modified_at_ms):
        with pytest.raises(FileMissing, match="none"):
            call(path)
    with pytest.raises(FileMissing, match="none"):
        disk.rename(path, f"{folder}/other")
    with pytest.raises(FileMissing, match="none"):
        disk.open(f"{folder}/none/a", write=True, create=True)
    assert not disk.exists(path)
    assert disk.list(path) == []


def test_a_file_opened_for_reading_refuses_writes(disk: Disk, folder: str) -> None:
    """The error is ours, not the system's."""
    disk.open(f"{folder}/a", write=True, create=True).close()
    with pytest.raises(DiskFailed):
        disk.open(f"{folder}/a").write([b"x"], 0)
    with pytest.raises(DiskFailed):
        disk.open(f"{folder}/a").resize(5)


def test_a_closed_file_refuses_writes(disk: Disk, folder: str) -> None:
    """Nothing is written by way of a handle that was given up."""
    file = disk.open(f"{folder}/a", write=True, create=True)
    file.close()
    with pytest.raises(DiskFailed):
        file.write([b"x"], 0)
    with pytest.raises(DiskFailed):
        file.sync()


def test_a_folder_is_no_file(disk: Disk, folder: str) -> None:
    """Opening a folder and making a folder over a file are refused."""
    disk.open(f"{folder}/a", write=True, create=True).close()
    with pytest.raises(DiskFailed):
        disk.open(folder, write=True)
    with pytest.raises(DiskFailed):
        disk.make_folder(f"{folder}/a")


def test_folders_are_made_with_their_parents(disk: Disk, folder: str) -> None:
    """Making one that exists does nothing; files and folders are told apart."""
    disk.make_folder(f"{folder}/x/y/z")
    disk.make_folder(f"{folder}/x/y/z")
    disk.open(f"{folder}/x/file", write=True, create=True).close()
    assert disk.is_folder(f"{folder}/x/y")
    assert not disk.is_folder(f"{folder}/x/file")
    assert disk.exists(f"{folder}/x/y")
    assert disk.list(f"{folder}/x") == ["file", "y"]
    disk.remove_tree(f"{folder}/x")
    disk.remove_tree(f"{folder}/x")
    assert disk.list(folder) == []


def test_rename_replaces_and_remove_removes(disk: Disk, folder: str) -> None:
    """The target's old content is gone, and so is the source's name."""
    disk.open(f"{folder}/a", write=True, create=True).write([b"new"], 0)
    disk.open(f"{folder}/b", write=True, create=True).write([b"old one"], 0)
    disk.rename(f"{folder}/a", f"{folder}/b")
    disk.sync_folder(folder)
    assert disk.list(folder) == ["b"]
    assert read_file(disk, f"{folder}/b") == b"new"
    disk.remove(f"{folder}/b")
    assert disk.list(folder) == []


def test_replace_file_keeps_a_backup_if_asked(disk: Disk, folder: str) -> None:
    """The new content is there, the old one in .bak, and no temporary file."""
    path = f"{folder}/a"
    replace_file(disk, path, b"one", keep_backup=True)
    replace_file(disk, path, b"two", keep_backup=True)
    assert read_file(disk, path) == b"two"
    assert read_file(disk, path + ".bak") == b"one"
    assert disk.list(folder) == ["a", "a.bak"]
    replace_file(disk, path, b"three")
    assert read_file(disk, path + ".bak") == b"one"


def test_a_lock_excludes_until_it_is_released(disk: Disk, folder: str) -> None:
    """A second lock is refused, by the same process too; releasing twice is allowed."""
    path = f"{folder}/lock"
    lock = disk.lock(path)
    with pytest.raises(StoreLocked):
        disk.lock(path)
    lock.release()
    lock.release()
    disk.lock(path).release()
    assert disk.exists(path)


def test_how_full_the_disk_is_lies_between_0_and_1(disk: Disk, folder: str) -> None:
    """The ratio needs a path that exists."""
    assert 0 <= disk.used_ratio(folder) <= 1
    assert disk.free_bytes(folder) > 0
    with pytest.raises(DiskFailed):
        disk.used_ratio(f"{folder}/none")


def test_modified_at_is_in_milliseconds(disk: Disk, folder: str) -> None:
    """A file that was written has a time of change."""
    disk.open(f"{folder}/a", write=True, create=True).write([b"x"], 0)
    assert disk.modified_at_ms(f"{folder}/a") >= 0


def test_a_folder_is_renamed_with_all_it_holds(disk: Disk, folder: str) -> None:
    """Files and folders in it; the old name is free."""
    disk.make_folder(f"{folder}/a/b")
    disk.make_folder(f"{folder}/c")
    disk.open(f"{folder}/a/b/x", write=True, create=True).write([b"content"], 0)
    disk.rename(f"{folder}/a", f"{folder}/c/d")
    disk.sync_folder(folder)
    assert disk.list(folder) == ["c"]
    assert read_file(disk, f"{folder}/c/d/b/x") == b"content"
    disk.make_folder(f"{folder}/a")
    assert disk.list(f"{folder}/a") == []


def test_two_folders_exchange_their_names(disk: Disk, folder: str) -> None:
    """With all that they hold, or not at all where the system cannot; one that is not there not."""
    for name in ("a", "b"):
        disk.make_folder(f"{folder}/{name}/of-{name}")
        disk.open(f"{folder}/{name}/x", write=True, create=True).write([name.encode()], 0)
    done = disk.exchange(f"{folder}/a", f"{folder}/b")
    disk.sync_folder(folder)
    found = [read_file(disk, f"{folder}/{name}/x") for name in ("a", "b")]
    assert found == ([b"b", b"a"] if done else [b"a", b"b"])
    assert disk.list(f"{folder}/a") == [f"of-{found[0].decode()}", "x"]
    for names in (("a", "none"), ("none", "a")):
        if done:
            with pytest.raises(FileMissing, match="none"):
                disk.exchange(*(f"{folder}/{name}" for name in names))
    assert disk.list(folder) == ["a", "b"]


def test_data_is_told_from_what_was_never_written(disk: Disk, folder: str) -> None:
    """In ranges that are not smaller than what was written, and hold zeros at most beside it."""
    file = disk.open(f"{folder}/a", write=True, create=True, size=10_000_000)
    assert file.next_data(0) == file.next_data(5_000_000) == (10_000_000, 10_000_000)
    file.write([b"hello"], 1_000_000)
    file.write([b"hello"], 5_000_000)
    for place in (1_000_000, 5_000_000):
        start, end = file.next_data(place - 900_000)
        assert place - 70_000 <= start <= place < place + 5 <= end <= place + 70_000
        assert file.next_data(place + 2) == (place + 2, end)
    assert file.next_data(5_100_000) == (10_000_000, 10_000_000)


def test_a_folder_that_need_not_be_durable_yet_is_there_all_the_same(
    disk: Disk, folder: str
) -> None:
    """With its parents, and what is made in it."""
    disk.make_folder(f"{folder}/a/b", durable=False)
    disk.make_folder(f"{folder}/a/b", durable=False)
    disk.open(f"{folder}/a/b/c", write=True, create=True)
    assert disk.list(f"{folder}/a/b") == ["c"]
    disk.sync_folder(f"{folder}/a")
    disk.sync_folder(folder)


def test_folders_and_the_sizes_of_files_are_told_apart(disk: Disk, folder: str) -> None:
    """Both sorted by name; what is missing, or no folder, has neither."""
    for name, size in (("b", 7), ("a", 0)):
        disk.open(f"{folder}/{name}", write=True, create=True, size=size).close()
    for name in ("y", "x/z"):
        disk.make_folder(f"{folder}/{name}")
    assert list(disk.folders(folder)) == ["x", "y"]
    assert list(disk.sizes(folder).items()) == [("a", 0), ("b", 7)]
    for none in (f"{folder}/a", f"{folder}/missing"):
        assert (list(disk.folders(none)), disk.sizes(none)) == ([], {})
        assert disk.list(none) == []
