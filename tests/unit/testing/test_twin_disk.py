"""The twin disk: real files, and what a loss of power would leave of them."""

from pathlib import Path

import pytest

from sprocket.base.disk import Disk, RealDisk, read_file, sync_file
from sprocket.base.errors import DiskFailed
from sprocket.testing.twin_disk import TwinDisk


@pytest.fixture
def disk(tmp_path: Path) -> TwinDisk:
    """A twin disk on a folder that holds one file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_bytes(b"before")
    return TwinDisk(str(tmp_path / "folder"))


def nothing(_: int) -> int:
    """Choose that the least is found."""
    return 0


def write(disk: Disk, path: str, data: bytes, *, sync: bool) -> None:
    """Write a new file, and make it and its name durable if asked."""
    file = disk.open(path, write=True, create=True)
    file.write([data], 0)
    if sync:
        file.sync()
        disk.sync_folder(path.rpartition("/")[0])
    file.close()


def test_others_can_read_what_is_written(disk: TwinDisk) -> None:
    """The files are real ones, at once, synced or not."""
    write(disk, f"{disk.folder}/a", b"hello", sync=False)
    assert Path(disk.folder, "a").read_bytes() == b"hello"


def test_a_loss_of_power_takes_what_was_not_synced(disk: TwinDisk) -> None:
    """Synced content stays, what was written after it is gone, and so is a new name."""
    write(disk, f"{disk.folder}/a", b"synced", sync=True)
    file = disk.open(f"{disk.folder}/a", write=True)
    file.write([b"unsyn"], 0)
    write(disk, f"{disk.folder}/b", b"new", sync=False)
    found = disk.cut(nothing)
    assert read_file(RealDisk(), f"{disk.folder}/a") == b"synced"
    assert found.list(disk.folder) == ["a", "old"]
    assert read_file(found, f"{disk.folder}/old") == b"before"


def test_a_sync_through_another_handle_counts(disk: TwinDisk) -> None:
    """Also through one that was opened for reading."""
    write(disk, f"{disk.folder}/a", b"x" * 2000, sync=False)
    sync_file(disk, f"{disk.folder}/a")
    disk.sync_folder(disk.folder)
    assert read_file(disk.cut(nothing), f"{disk.folder}/a") == b"x" * 2000


def test_a_kill_keeps_what_was_written(disk: TwinDisk) -> None:
    """Synced or not; but a loss of power soon after still takes what was not synced."""
    write(disk, f"{disk.folder}/a", b"written", sync=False)
    successor = disk.kill()
    assert read_file(successor, f"{disk.folder}/a") == b"written"
    assert not successor.cut(nothing).exists(f"{disk.folder}/a")


def test_the_dead_change_nothing(disk: TwinDisk) -> None:
    """Whoever still holds the disk of a killed process is refused."""
    file = disk.open(f"{disk.folder}/old", write=True)
    disk.kill()
    for change in (
        lambda: file.write([b"after"], 0),
        lambda: file.resize(0),
        file.sync,
        lambda: disk.remove(f"{disk.folder}/old"),
        lambda: disk.rename(f"{disk.folder}/old", f"{disk.folder}/new"),
        lambda: disk.make_folder(f"{disk.folder}/more"),
        lambda: disk.remove_tree(disk.folder),
    ):
        with pytest.raises(DiskFailed, match="the process was killed"):
            change()
    file.close()
    assert Path(disk.folder, "old").read_bytes() == b"before"
    assert [path.name for path in Path(disk.folder).iterdir()] == ["old"]


def test_folders_and_long_zeros_come_back(disk: TwinDisk) -> None:
    """After a loss of power folders are there, and a sparse file has its length."""
    disk.make_folder(f"{disk.folder}/deep/er")
    file = disk.open(f"{disk.folder}/deep/er/f", write=True, create=True, size=1 << 20)
    file.write([b"head"], 0)
    file.sync()
    disk.sync_folder(f"{disk.folder}/deep/er")
    found = disk.cut(nothing)
    assert read_file(found, f"{disk.folder}/deep/er/f") == b"head" + bytes((1 << 20) - 4)


def test_space_never_runs_out(disk: TwinDisk) -> None:
    """No test depends on how full the machine's disk is."""
    assert disk.used_ratio(disk.folder) == 0.5
    assert disk.free_bytes(disk.folder) == 1 << 30
