"""A disk that only reads, over any file system that is read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from sprocket.base.disk import Disk, RealDisk, read_file
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.spark.files import ReadOnlyDisk, RemoteFiles, open_disk


@pytest.fixture
def disk(tmp_path: Path) -> ReadOnlyDisk:
    """The folder `/d` with a file and a folder, as another file system."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "file").write_bytes(b"0123456789")
    return ReadOnlyDisk(RemoteFiles(fs.LocalFileSystem(), "far://d", str(tmp_path)))


def test_it_reads_as_a_disk_does(disk: ReadOnlyDisk) -> None:
    """Names, lengths, folders, and bytes of files."""
    assert (disk.list("far://d"), disk.folders("far://d")) == (["file", "inner"], ["inner"])
    assert (disk.size("far://d/file"), disk.sizes("far://d")) == (10, {"file": 10})
    assert [disk.is_folder(f"far://d/{name}") for name in ("file", "inner", "none")] == [
        False,
        True,
        False,
    ]
    assert (disk.exists("far://d/file"), disk.exists("far://d/none")) == (True, False)
    assert disk.modified_at_ms("far://d/file") > 0
    assert read_file(disk, "far://d/file") == b"0123456789"
    with pytest.raises(FileMissing):
        disk.size("far://d/none")


def test_a_file_of_it_reads_as_a_file_does(disk: ReadOnlyDisk) -> None:
    """All of it counts as written."""
    file = disk.open("far://d/file")
    buffer = bytearray(4)
    assert (file.size(), file.data_end(), tuple(file.next_data(3))) == (10, 10, (3, 10))
    assert tuple(file.next_data(30)) == (10, 10)
    assert (bytes(file.read_view(2, 3)), bytes(file.view())) == (b"234", b"0123456789")
    assert (file.read_nowait(8, memoryview(buffer)), bytes(buffer)) == (2, b"89\0\0")
    assert file.start_sync() is None
    file.start_reading(0, 5)
    file.give_back(0, 5)
    file.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda disk: disk.open("far://d/file", write=True),
        lambda disk: disk.make_folder("far://d/new"),
        lambda disk: disk.remove("far://d/file"),
        lambda disk: disk.remove_tree("far://d/inner"),
        lambda disk: disk.rename("far://d/file", "far://d/new"),
        lambda disk: disk.sync_folder("far://d"),
        lambda disk: disk.sync_tree("far://d"),
        lambda disk: disk.lock("far://d/lock"),
        lambda disk: disk.used_ratio("far://d"),
        lambda disk: disk.free_bytes("far://d"),
        lambda disk: disk.open("far://d/file").write([b"x"], 0),
        lambda disk: disk.open("far://d/file").allocate(0, 1),
        lambda disk: disk.open("far://d/file").resize(0),
        lambda disk: disk.open("far://d/file").sync(),
    ],
)
def test_every_change_is_refused(disk: ReadOnlyDisk, change: Callable[[Disk], object]) -> None:
    """And names the path."""
    with pytest.raises(DiskFailed, match=r"far://d.* is only read"):
        change(disk)


def test_the_local_disk_is_itself(tmp_path: Path) -> None:
    """However its path is written."""
    assert isinstance(open_disk(str(tmp_path)), RealDisk)
    assert isinstance(open_disk(f"file://{tmp_path}"), RealDisk)
