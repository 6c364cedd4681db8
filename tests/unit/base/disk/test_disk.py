"""`RealDisk` turns every refusal of the system into an error of ours. See tests/contract too."""

import ctypes
import errno
import fcntl
import mmap
import os
import pathlib
import platform
import resource
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from tests.file_systems import needs_a_disk

from sprocket.base.disk import RealDisk
from sprocket.base.disk import disk as module
from sprocket.base.errors import DiskFailed, DiskFull, DiskRefused, FileMissing
from sprocket.base.units import MIB


def _failing(number: int) -> Callable[..., Any]:
    def call(*arguments: object, **keywords: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


_SYNCS = {"_sync", "_FOLDER_SYNC", "_syncfs"}
_WITHOUT_BYTES = {"lockf", "mkdir", "open", "replace", "stat", "unlink"}
"""Calls after which all bytes are as before."""


@pytest.mark.parametrize(
    ("module", "name", "use"),
    [
        (os, "fstat", lambda _d, f, _p: f.size()),
        (os, "lseek", lambda _d, f, _p: f.data_end()),
        (module, "_pread", lambda _d, f, _p: f.read(0, 1)),
        (mmap, "mmap", lambda _d, f, _p: f.view()),
        (module, "_pwritev", lambda _d, f, _p: f.write([b"x"], 0)),
        (os, "ftruncate", lambda _d, f, _p: f.resize(1)),
        (module, "_sync", lambda _d, f, _p: f.sync()),
        (os, "open", lambda d, _f, p: d.open(p)),
        (os, "open", lambda d, _f, p: d.open(p + "2", write=True, create=True)),
        (os, "ftruncate", lambda d, _f, p: d.open(p + "2", write=True, create=True, size=2)),
        (os, "stat", lambda d, _f, p: d.size(p)),
        (os, "mkdir", lambda d, _f, p: d.make_folder(p + "2")),
        (os, "unlink", lambda d, _f, p: d.remove(p)),
        (shutil, "rmtree", lambda d, _f, p: d.remove_tree(p)),
        (os, "replace", lambda d, _f, p: d.rename(p, p + "2")),
        (module, "_FOLDER_SYNC", lambda d, _f, p: d.sync_folder(os.path.dirname(p))),
        (os, "open", lambda d, _f, p: d.sync_tree(os.path.dirname(p))),
        (os, "stat", lambda d, _f, p: d.lock(p + "2")),
        (os, "open", lambda d, _f, p: d.lock(p + "2")),
        (fcntl, "lockf", lambda d, _f, p: d.lock(p + "2")),
        (os, "statvfs", lambda d, _f, p: d.used_ratio(p)),
    ],
)
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EIO, DiskFailed),
        (errno.ENOTDIR, FileMissing),
    ],
)
def test_no_os_error_leaves(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    use: Callable[[RealDisk, Any, str], object],
    number: int,
    expected: type[Exception],
) -> None:
    """Whatever call fails, the error is ours and names what was done to which path."""
    disk = RealDisk()
    path = str(tmp_path / "file")
    file = disk.open(path, write=True, create=True, size=10)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, _failing(number))
        with pytest.raises((DiskFull, DiskFailed)) as caught:
            use(disk, file, path)
    assert str(tmp_path) in str(caught.value)
    if expected is DiskFull and name in _SYNCS:
        expected = DiskFailed  # what reached the disk is unknown
    if expected is DiskFailed and name in _WITHOUT_BYTES:
        expected = DiskRefused
    assert type(caught.value) is expected


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")
def test_without_descriptors_nothing_is_half_done(tmp_path: pathlib.Path) -> None:
    """Whatever needs one is refused; what is open can be written and synced."""
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"), write=True, create=True)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        for call in (disk.open, disk.list, disk.sizes, disk.sync_folder, disk.sync_tree, disk.lock):
            with pytest.raises(DiskRefused, match="Too many open files"):
                call(str(tmp_path))
        file.write([b"x"], 0)
        file.sync()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_folder_that_cannot_be_listed_is_no_empty_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what is not a folder has no names."""
    monkeypatch.setattr(os, "listdir", _failing(errno.EIO))
    with pytest.raises(DiskFailed, match=str(tmp_path)):
        RealDisk().list(str(tmp_path))
    monkeypatch.setattr(os, "listdir", _failing(errno.ENOTDIR))
    assert RealDisk().list(str(tmp_path)) == []


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_holes_cannot_be_told_data_ends_with_the_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """By what the file system answers, and on systems that have no such question."""
    file = RealDisk().open(str(tmp_path / "a"), write=True, create=True, size=1 << 20)
    monkeypatch.setattr(os, "lseek", _failing(number))
    assert file.data_end() == 1 << 20
    monkeypatch.setattr(module, "_SEEK_DATA", None)
    monkeypatch.setattr(os, "lseek", None)
    assert file.data_end() == 1 << 20


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_of_a_whole_file_system_is_told(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    """Whoever's write it was, and whatever the reason: what reached the disk is unknown."""

    def refuse(_descriptor: int) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(module, "_syncfs", refuse)
    monkeypatch.setattr(module, "file_system_number", lambda _: 0xEF53)
    with pytest.raises(DiskFailed, match="syncfs"):
        RealDisk().sync_tree(str(tmp_path))


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EIO, DiskFailed), (errno.ENOENT, FileMissing)]
)
def test_an_exchange_that_is_refused_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    """But for a file system that cannot do it at all, which is not an error."""

    def refuse(*_names: object) -> int:
        ctypes.set_errno(refused)
        return -1

    monkeypatch.setattr(module, "_renameat2", refuse)
    refused = number
    with pytest.raises(expected, match="exchange /a and /b"):
        RealDisk().exchange("/a", "/b")
    refused = errno.EINVAL
    assert not RealDisk().exchange("/a", "/b")
    monkeypatch.setattr(module, "_renameat2", None)
    assert not RealDisk().exchange("/a", "/b")


@pytest.mark.parametrize("why", ["no call", "FUSE", "NFS", "unknown"])
def test_without_a_call_that_is_known_to_do_it_each_file_is_synced(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """And each folder, behind what it holds; FUSE answers the call and does nothing."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").touch()
    (tmp_path / "a/d").touch()
    synced: list[str] = []

    def note(descriptor: int) -> None:
        path = pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append(str(path.relative_to(tmp_path)))

    numbers = {"FUSE": 0x65735546, "NFS": 0x6969, "unknown": 0}
    if why in numbers:
        monkeypatch.setattr(module, "_syncfs", lambda _: 0)
        monkeypatch.setattr(module, "file_system_number", lambda _: numbers[why])
    else:
        monkeypatch.setattr(module, "_syncfs", None)
    monkeypatch.setattr(module, "_sync", note)
    monkeypatch.setattr(module, "_FOLDER_SYNC", note)
    RealDisk().sync_tree(str(tmp_path / "a"))
    assert synced == ["a/b/c", "a/b", "a/d", "a"]


@pytest.mark.parametrize("release", ["5.7.19", "4.19.0-26-amd64", "unknown"])
def test_a_system_whose_call_does_not_tell_of_errors_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """Linux told of failed writes from 5.8 on."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: release)
    assert module.system_syncfs() is None
    monkeypatch.setattr(platform, "release", lambda: "5.8.0")
    assert module.system_syncfs() is not None


@pytest.mark.skipif(platform.system() != "Linux", reason="the numbers are Linux's")
def test_the_kind_of_a_file_system_is_known() -> None:
    """`/proc` is one everywhere; something that is not open has none."""
    descriptor = os.open("/proc", os.O_RDONLY)
    try:
        assert module.file_system_number(descriptor) == 0x9FA0
    finally:
        os.close(descriptor)
    assert module.file_system_number(-1) == 0


def test_room_is_taken_where_the_system_can(tmp_path: pathlib.Path) -> None:
    """All at once, so that a full disk says so before anything is written there."""
    needs_a_disk(tmp_path)
    path = tmp_path / "a"
    file = RealDisk().open(str(path), write=True, create=True, size=1 << 20)
    assert path.stat().st_blocks * 512 < 1 << 20
    file.allocate(0, 1 << 20)
    assert path.stat().st_blocks * 512 >= 1 << 20


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EBADF, errno.ENOSPC, errno.EDQUOT])
def test_only_a_lack_of_room_is_an_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Whatever else keeps the system from taking it, writes will tell, if it keeps them, too."""
    file = RealDisk().open(str(tmp_path / "a"), write=True, create=True, size=10)

    def refuse(*_: int) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(module, "_fallocate", refuse)
    if number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(DiskFull, match="fallocate"):
            file.allocate(0, 10)
    else:
        file.allocate(0, 10)
    monkeypatch.setattr(module, "_fallocate", None)
    file.allocate(0, 10)


def test_a_python_without_ctypes_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some are that were compiled where libffi was missing."""
    assert module.system_fallocate() is not None or not os.path.exists("/proc")
    monkeypatch.setattr(module, "ctypes", None)
    assert module.system_fallocate() is None


def test_what_cannot_be_looked_at_does_not_count_as_missing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`os.path.exists` would say so, and a store be taken for a new one."""
    disk = RealDisk()
    assert not disk.exists(str(tmp_path / "none"))
    assert not disk.is_folder(str(tmp_path / "none" / "none"))
    monkeypatch.setattr(os, "stat", _failing(errno.EIO))
    for ask in (disk.exists, disk.is_folder):
        with pytest.raises(DiskFailed, match="stat"):
            ask(str(tmp_path))


def test_a_short_write_is_continued(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the system takes a part, the rest follows."""
    file = RealDisk().open(str(tmp_path / "a"), write=True, create=True)

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:3], position)

    monkeypatch.setattr(module, "_pwritev", short)
    assert file.write([b"ab", b"cd", b"efg"], 1) == 7
    assert file.read(0, 10) == b"\0abcdefg"


def test_a_short_read_is_continued(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system gives a part, the rest is asked for."""
    file = RealDisk().open(str(tmp_path / "a"), write=True, create=True)
    file.write([b"hello"], 0)
    whole = os.pread
    monkeypatch.setattr(
        module, "_pread", lambda d, size, position: whole(d, min(size, 2), position)
    )
    assert file.read(0, 9) == b"hello"


def test_an_empty_file_system_is_not_full(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems without blocks of their own do not divide by zero."""
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((0,) * 10))
    assert RealDisk().used_ratio(str(tmp_path)) == 0


def test_much_can_be_read_ahead(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, since the system takes no more of one call than it would read ahead by itself."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, __: asked.append((at, at + size)))
    file = RealDisk().open(str(tmp_path / "f"), write=True, create=True)
    file.start_reading(7, 2 * MIB + 5)
    assert asked == [(7, MIB + 7), (MIB + 7, 2 * MIB + 7), (2 * MIB + 7, 2 * MIB + 12)]


def test_memory_that_is_given_back_is_gone_though_it_was_mapped(tmp_path: pathlib.Path) -> None:
    """Reading brings it back, and views of it go on."""
    needs_a_disk(tmp_path)
    size = 64 * mmap.PAGESIZE
    file = RealDisk().open(str(tmp_path / "f"), write=True, create=True)
    file.write([b"x" * size], 0)
    file.sync()
    view, buffer = file.view(), memoryview(bytearray(size))
    assert bytes(view) == b"x" * size
    for is_viewed in (True, False):
        assert file.read_nowait(0, buffer) == size
        file.give_back(0, size)
        assert file.read_nowait(0, buffer) is None
        assert (bytes(view) if is_viewed else file.read(0, size)) == b"x" * size
    assert file.read_nowait(0, buffer) == size


@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux has such a file system")
@pytest.mark.parametrize("path", ["/proc/none", "/proc/none/archive"])
def test_a_folder_that_cannot_be_made_is_one_error(path: str) -> None:
    """Also where the system says of a new name that something is missing, though nothing is."""
    with pytest.raises(DiskFailed, match="mkdir /proc/none"):
        RealDisk().make_folder(path)
