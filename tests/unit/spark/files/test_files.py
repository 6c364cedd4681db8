"""One suite for every file system: the local disk, Arrow's own, fsspec's, S3."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.spark.files import Files, RemoteFiles, open_files, read_whole

CONTENT = {"a/b/00": b"0123456789", "a/b/01": b"", "a/c/x": b"x" * 300_000, "top": b"t"}


@pytest.fixture(params=["disk", "arrow", "fsspec", pytest.param("s3", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """What reads a folder with `CONTENT`, and the folder."""
    for name, data in CONTENT.items():
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder = str(tmp_path / "store")
    match request.param:
        case "disk":
            return open_files(folder), folder
        case "arrow":
            return RemoteFiles(fs.LocalFileSystem(), "local://store", folder), "local://store"
        case "fsspec":
            return open_files(f"fsspec+file://{folder}"), f"fsspec+file://{folder}"
    store: Any = request.getfixturevalue("object_store")
    address = store.put(folder, request.node.name)
    return open_files(address, store.settings), address


def test_what_is_there(place: tuple[Files, str]) -> None:
    """Files and folders are told apart; what is missing is neither."""
    files, folder = place
    kinds = {"": (True, True), "/a/b": (True, True), "/a/b/00": (True, False), "/no": (False,) * 2}
    for name, (is_there, is_folder) in kinds.items():
        path = folder + name
        assert (files.exists(path), files.is_folder(path)) == (is_there, is_folder), name


def test_names_and_sizes(place: tuple[Files, str]) -> None:
    """Both are sorted; a folder has no size, a missing one holds nothing."""
    files, folder = place
    assert files.list(folder) == ["a", "top"]
    assert files.list(f"{folder}/a/b") == ["00", "01"]
    assert files.sizes(folder) == {"top": 1}
    assert list(files.sizes(f"{folder}/a/b").items()) == [("00", 10), ("01", 0)]
    assert files.list(f"{folder}/no") == []
    assert files.sizes(f"{folder}/no") == files.sizes(f"{folder}/top") == {}


def test_ranges(place: tuple[Files, str]) -> None:
    """A range is cut at the end of the file; behind it there is nothing."""
    files, folder = place
    file = files.open(f"{folder}/a/b/00")
    assert (file.path, file.size()) == (f"{folder}/a/b/00", 10)
    ranges = ((0, 4), (8, 4), (10, 4), (11, 1), (3, 0))
    assert [file.read(*one) for one in ranges] == [b"0123", b"89", b"", b"", b""]
    assert bytes(file.read_view(2, 3)) == b"234"
    file.close()
    file.close()
    assert read_whole(files, f"{folder}/a/c/x") == CONTENT["a/c/x"]
    assert read_whole(files, f"{folder}/a/b/01") == b""


def test_what_is_missing(place: tuple[Files, str]) -> None:
    """A missing file is `FileMissing`, and the text has the whole path."""
    files, folder = place
    with pytest.raises(FileMissing, match="no/file"):
        files.open(f"{folder}/no/file")
    with pytest.raises(FileMissing, match="no/file"):
        files.modified_at_ms(f"{folder}/no/file")
    assert files.modified_at_ms(f"{folder}/top") > 1_600_000_000_000


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    """Bytes that were there when the file was opened are not left out in silence."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    file = RemoteFiles(fs.LocalFileSystem(), "x://y", str(tmp_path)).open("x://y/file")
    path.write_bytes(bytes(10))
    with pytest.raises(DiskFailed, match="10 bytes came from position 0, not 100"):
        file.read(0, 100)


def test_the_local_disk_is_read_as_ever(tmp_path: Path) -> None:
    """No layer lies between."""
    for folder in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}", "relative/path"):
        assert isinstance(open_files(folder), RealDisk)
