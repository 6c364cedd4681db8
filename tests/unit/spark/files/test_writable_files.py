"""One suite for every file system that is written: the local disk, Arrow's own, fsspec's, S3."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from sprocket.base.errors import FileMissing, SettingsError, StoreLocked
from sprocket.spark.files import (
    RemoteFiles,
    WritableFiles,
    open_writable,
    read_whole,
)

KINDS = ["disk", "arrow", "fsspec", pytest.param("s3", marks=pytest.mark.slow)]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[WritableFiles, str]:
    """What writes into a new folder, and the folder."""
    folder = str(tmp_path / "new")
    match request.param:
        case "disk":
            return open_writable(folder), folder
        case "arrow":
            return RemoteFiles(fs.LocalFileSystem(), "local://new", folder), "local://new"
        case "fsspec":
            return open_writable(f"fsspec+file://{folder}"), f"fsspec+file://{folder}"
    store: Any = request.getfixturevalue("object_store")
    address = store.put(str(tmp_path / "nothing"), request.node.name)
    return open_writable(address, store.settings), address


def test_a_new_file_has_what_was_written(place: tuple[WritableFiles, str]) -> None:
    """In its order, in as many pieces as it was given; and it can be removed."""
    files, folder = place
    files.make_folder(f"{folder}/a/b")
    file = files.create(f"{folder}/a/b/x")
    assert [file.write(b"one "), file.write(memoryview(b"two" * 100_000))] == [4, 300_000]
    assert file.close() == 300_004
    assert read_whole(files, f"{folder}/a/b/x") == b"one " + b"two" * 100_000
    assert (list(files.folders(folder)), files.list(f"{folder}/a")) == (["a"], ["b"])
    files.remove(f"{folder}/a/b/x")
    assert files.list(f"{folder}/a/b") == []
    with pytest.raises(FileMissing):
        files.remove(f"{folder}/a/b/x")


def test_a_file_is_put_whole(place: tuple[WritableFiles, str]) -> None:
    """It is made or replaced, and nothing else is left beside it."""
    files, folder = place
    files.make_folder(folder)
    for text in (b"first, and longer", b"second", b""):
        files.put(f"{folder}/m", text)
        assert read_whole(files, f"{folder}/m") == text
    assert files.list(folder) == ["m"]


def test_a_lock_has_one_holder(place: tuple[WritableFiles, str]) -> None:
    """Who else wants it is told; when it was given up it is free, after a failure as well."""
    files, folder = place
    files.make_folder(folder)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail_with_lock(files, f"{folder}/lock")


def fail_with_lock(files: WritableFiles, path: str) -> None:
    """Take a lock, see that nobody else gets it, and fail."""
    with files.locked(path) as lock:
        lock.require()
        with pytest.raises(StoreLocked), files.locked(path):
            pass
        lock.require()
        raise ZeroDivisionError


def test_a_dead_holder_is_named_and_taken_over(tmp_path: Path) -> None:
    """Where the file system has no locks; one that is not dead after all sees that, and stops."""
    files = RemoteFiles(fs.LocalFileSystem(), "local://new", str(tmp_path))
    with files.locked("local://new/lock") as taken:
        with (
            pytest.raises(StoreLocked, match=r"is held by process \d+ on .*, since 2.* UTC; if"),
            files.locked("local://new/lock"),
        ):
            pass
        with files.locked("local://new/lock", take_over=True) as lock:
            lock.require()
            with pytest.raises(StoreLocked, match="another process has taken over"):
                taken.require()
    assert files.list("local://new/lock") == []


def test_of_two_that_take_over_at_once_none_goes_on_without_its_lock(tmp_path: Path) -> None:
    """Each removes what it takes for a dead process's file, and that is the other's."""

    class Racing(RemoteFiles):
        def remove(self, path: str) -> None:
            folder = path.rpartition("/")[0]
            for name in self.list(folder):
                super().remove(f"{folder}/{name}")

    files = Racing(fs.LocalFileSystem(), "local://new", str(tmp_path))
    files.make_folder("local://new/lock")
    files.put("local://new/lock/0.lock", b"process 7 on moon")
    with (
        pytest.raises(StoreLocked, match="another process has taken over"),
        files.locked("local://new/lock", take_over=True),
    ):
        pass


def test_the_local_disk_has_no_settings(tmp_path: Path) -> None:
    """They are for something else, and whoever gave them is told."""
    with pytest.raises(SettingsError, match=r"local disk, which has no setting 'fs\.region'"):
        open_writable(str(tmp_path), {"region": "x"})
