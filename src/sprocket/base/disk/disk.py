"""The only module that calls the file system.

Nothing else in Sprocket opens, maps, renames or syncs a file; `file_lock` is a part of it.
`RealDisk` is the operating system's; `testing.disk.SimulatedDisk` passes the same contract suite
and loses what was not synced.

Invariants

1. No `OSError` leaves this module: lack of space is `DiskFull`, unless a sync finds it, a missing
   name is `FileMissing`, a call that fails before it writes or syncs anything is `DiskRefused`,
   anything else is `DiskFailed`. Texts name the call and the path.
2. `File.write` writes everything or raises. After an error any part of it may have reached the
   file; the caller counts none of it and writes the same place again.
3. Bytes are durable after `File.sync`, names after `sync_folder` of the folder that holds them.
"""

import contextlib
import errno
import mmap
import os
import platform
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from sprocket.base.disk import file_lock
from sprocket.base.disk.kernel_sync import PendingSync, system_kernel_syncs
from sprocket.base.errors import DiskFailed, DiskFull, DiskRefused, FileMissing
from sprocket.base.units import MIB

try:
    import ctypes
except ImportError:  # a Python that was built without libffi
    ctypes = None  # type: ignore[assignment]

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What can be written or decoded without copying."""

BUFFERS_MAX = 1024
"""Buffers that one `pwritev` takes; Linux's IOV_MAX."""


class Extent(NamedTuple):
    """A range of a file: its first byte, and the one after it."""

    start: int
    end: int


class File(Protocol):
    """One open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str:
        """The path it was opened by."""

    def size(self) -> int:
        """Return the file's length."""

    def data_end(self) -> int:
        """Return a position from which on the file was never written and so is all zeros.

        It may be later than the first such position; where the file system cannot tell holes from
        data it is the file's length. Nothing is read for it.
        """

    def next_data(self, position: int) -> Extent:
        """Return the first range from a position on that may hold something else than zeros.

        Reading only that range has the system allocate no memory for what was never written.
        Without any the range is empty and lies at the end of the file.
        """

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`; fewer only at the end of the file.

        Threads: any; other threads run while it waits for the disk, as they do not while a view
        does. Where another one closes the file meanwhile, what comes is not to be used.
        """

    def read_view(self, position: int, size: int) -> memoryview:
        """Do as `read` for bytes that are soon dropped: their memory may then be reused."""

    def view(self) -> memoryview:
        """Return a read-only view of the whole file, without copying.

        It sees later writes inside the length that the file has now; after `resize` ask again. It
        stays readable after `close`. An empty file gives an empty view.
        """

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write `buffers` one after the other from `position` on; return the bytes written.

        Raises:
            DiskFull: There is no space; any part may have been written.
            DiskFailed: The call was refused; any part may have been written.
        Durability: none before `sync`.
        """

    def start_reading(self, position: int, size: int) -> None:
        """Ask the system to begin to read a range from the disk; it does not wait for that.

        A reader that continues in order, above all through a view, then waits less.
        """

    def give_back(self, position: int, size: int) -> None:
        """Ask the system to forget its copy in memory of a synced range; views read it anew.

        What is dirty, or in use by others, stays.
        Threads: any.
        """

    def read_nowait(self, position: int, buffer: memoryview) -> int | None:
        """Read what fills `buffer`, from `position` on, if the system has it in memory.

        Where the system cannot say, this reads.

        Returns:
            The bytes read, fewer than `buffer` takes only at the end of the file; None if the disk
            would have to be asked.
        """

    def allocate(self, position: int, size: int) -> None:
        """Take room on the disk for a range inside the file, whose content stays as it is.

        Later writes there need not search for it. Does nothing where the system cannot.

        Raises:
            DiskFull: There is not so much.
        Threads: any.
        """

    def resize(self, size: int) -> None:
        """Cut the file to `size`, or lengthen it with zeros that take no space."""

    def sync(self) -> None:
        """Return when content and size are on the disk (fdatasync).

        Raises:
            DiskFailed: What reached the disk is unknown, and a second sync would not tell.
        Threads: any.
        """

    def start_sync(self) -> PendingSync | None:
        """Start what `sync` does, run by the system itself; None where it cannot.

        It may be under way while the file is written, or closed.
        """

    def close(self) -> None:
        """Close the handle; views stay readable. Closing twice is allowed."""


_NO_SPACE = errno.ENOSPC, errno.EDQUOT

_NO_HOLES = errno.EINVAL, errno.EOPNOTSUPP
"""What a file system answers that cannot tell holes from data."""
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_SEEK_HOLE: int | None = getattr(os, "SEEK_HOLE", None)

_WITHOUT_BYTES = frozenset(
    ("exchange", "listdir", "lock", "mkdir", "open", "rename", "scandir", "stat", "unlink")
)
"""Calls that write and sync no bytes of a file: after one that fails all bytes are as before."""

_SYNCS = frozenset(("fsync", "sync", "syncfs"))
"""Calls after which it is unknown what reached the disk, whatever they say."""

_CLOSED = 2**31 - 1  # a descriptor that no process has: the system answers EBADF


class Lock(Protocol):
    """An exclusive lock that is held."""

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""


class Disk(Protocol):
    """A file system. Paths are strings and are not changed in any way."""

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """Open a file for reading, or for writing too.

        `create` makes it if it is not there, empty or with `size` bytes of zeros that take no
        space; it needs `write`.

        Raises:
            FileMissing: It is not there and `create` is false.
        """

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder of that name is there."""

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder of that name is there."""

    def size(self, path: str) -> int:
        """Return the file's length in bytes; FileMissing if there is none."""

    def modified_at_ms(self, path: str) -> int:
        """Return when the content was last changed, ms since 1970; FileMissing if not there."""

    def list(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in `folder`; none if it is not a folder."""

    def folders(self, folder: str) -> Sequence[str]:
        """Return the sorted names of the folders alone; none if it is not a folder."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the length of each file in a folder, by sorted names; none if it is not one."""

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """Make a folder and the parents it lacks; an existing one is left alone.

        If not `durable`, each one that was made is on the disk after a `sync_folder` of the one
        that it is in.
        """

    def remove(self, path: str) -> None:
        """Remove a file; FileMissing if it is not there. Durable after `sync_folder`."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all it holds, or do nothing if it is not there."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`, or a folder. Durable after `sync_folder` of both."""

    def exchange(self, one: str, other: str) -> bool:
        """Exchange the names of two folders of one file system, both at once.

        Durable after `sync_folder` of both. Returns False where the system cannot do it; then
        nothing has changed.

        Raises:
            FileMissing: One of them is not there.
        """

    def sync_folder(self, path: str) -> None:
        """Return when the names in the folder are on the disk.

        The folder of a path without one, which `dirname` gives as "", is the current one.
        """

    def sync_tree(self, path: str) -> None:
        """Return when all below a folder is on the disk: content, sizes and names.

        On a local file system of Linux it costs what is not there yet, whoever wrote it, and
        nothing for each file: for very many files of which a few may have been written. Elsewhere
        each is synced. Does nothing if the folder is missing.

        Raises:
            DiskFailed: What reached the disk is unknown, and a second sync would not tell.
        Threads: any.
        """

    def lock(self, path: str, wait_seconds: float = 0) -> Lock:
        """Lock the file (made if missing) against other processes and against this one.

        Raises:
            StoreLocked: Somebody holds it, and did for all that time.
        """

    def used_ratio(self, path: str) -> float:
        """Return the used part of the file system that holds `path`, from 0 to 1."""

    def free_bytes(self, path: str) -> int:
        """Return how much can still be written to the file system that holds `path`."""


def _c_function(name: str) -> Any:
    """Return a function of the C library, which sets `errno`; None where it has none."""
    if ctypes is None:
        return None
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError, TypeError):  # as on macOS and Windows
        return None


def system_fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return the system's `fallocate`, None where it has none.

    Where a file system cannot, `os.posix_fallocate` writes zeros by itself, and might write them
    over what another thread has just written there.
    """
    call = _c_function("fallocate")
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    return call  # type: ignore[no-any-return]


_fallocate = system_fallocate()


def system_syncfs() -> Callable[[int], int] | None:
    """Return the system's `syncfs`, None where it has none that tells of failed writes.

    Linux's did not before 5.8.
    """
    if platform.system() != "Linux":
        return None
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    if version is None or tuple(map(int, version.groups())) < _SYNCFS_TELLS_SINCE:
        return None
    return _c_function("syncfs")  # type: ignore[no-any-return]


_KEEPS_SYNCFS = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0xF2F52010: "f2fs",
    0x01021994: "tmpfs",
}
"""File systems that do what `syncfs` says, by the numbers of Linux's `magic.h`. FUSE, and some that
lie on a network, answer without doing anything."""
_STATFS_BYTES = 256
"""More than the system fills; a file system's number comes first."""


def file_system_number(descriptor: int) -> int:
    """Return what the system calls the kind of file system that something opened lies on.

    0 where it does not say.
    """
    call = _c_function("fstatfs")
    if call is None:
        return 0
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if call(descriptor, answer) != 0:
        return 0
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF


def system_renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Return the system's `renameat2`, None where it has none."""
    call = _c_function("renameat2")
    if call is not None:
        text, number = ctypes.c_char_p, ctypes.c_int
        call.argtypes = (number, text, number, text, ctypes.c_uint)
    return call  # type: ignore[no-any-return]


_renameat2 = system_renameat2()
_AT_THIS_FOLDER = -100
_RENAME_EXCHANGE = 2
"""`AT_FDCWD` and `RENAME_EXCHANGE` of Linux's headers."""
_NO_EXCHANGE = errno.EINVAL, errno.ENOSYS, errno.ENOTSUP

_SYNCFS_TELLS_SINCE = 5, 8
_syncfs = system_syncfs()


def _system_sync() -> Callable[[int], object]:
    """Return what makes a file's bytes, or a folder's names, durable, and nothing less.

    On macOS `fsync` leaves them in the drive's own memory, and there is no `fdatasync`. A file
    system that cannot pass the request on to the drive does what it can.
    """
    if fcntl is None or not hasattr(fcntl, "F_FULLFSYNC"):
        return getattr(os, "fdatasync", os.fsync)
    request: int = fcntl.F_FULLFSYNC

    def sync(descriptor: int) -> None:
        try:
            fcntl.fcntl(descriptor, request)
        except OSError as error:
            if error.errno not in _NO_REQUEST:
                raise
            os.fsync(descriptor)

    return sync


_NO_REQUEST = errno.ENOTSUP, errno.ENOTTY, errno.EINVAL
_sync = _system_sync()
_kernel_syncs = system_kernel_syncs() if _sync is getattr(os, "fdatasync", None) else None


def _read_at(descriptor: int, size: int, position: int) -> bytes:
    """Do what `os.pread` does where it is not there, as on Windows; one thread at a time."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, size)


def _write_at(descriptor: int, buffers: Sequence[Buffer], position: int) -> int:
    """Do what `os.pwritev` does where it is not there; one thread at a time."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, b"".join(buffers))


_pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _read_at)
_pwritev: Callable[[int, Sequence[Buffer], int], int] = getattr(os, "pwritev", _write_at)
_FOLDER_SYNC = os.fsync if _sync is getattr(os, "fdatasync", None) else _sync
_OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER_FLAGS: int | None = (
    os.O_RDONLY | os.O_DIRECTORY | _OPEN_FLAGS if hasattr(os, "O_DIRECTORY") else None
)
"""None where folders cannot be opened: there names are durable with the files, as on Windows."""


def _refuse(error: OSError, call: str, path: str) -> NoReturn:
    """Raise the StoreError that stands for `error`."""
    text = f"{call} {path}: {error.strerror or error}"
    if error.errno in _NO_SPACE and call not in _SYNCS:
        raise DiskFull(text) from error
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        raise FileMissing(text, path) from error
    kind = DiskRefused if call.partition(" ")[0] in _WITHOUT_BYTES else DiskFailed
    raise kind(text, path) from error


@contextlib.contextmanager
def _refusing(call: str, path: str) -> Iterator[None]:
    """Make a StoreError of what the system says of a call; for those that are not made often."""
    try:
        yield
    except OSError as error:
        _refuse(error, call, path)


class _RealFile:
    """A file descriptor and, once asked for, one mapping."""

    __slots__ = ("_descriptor", "_mapping", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._mapping: mmap.mmap | None = None

    def size(self) -> int:
        with _refusing("fstat", self.path):
            return os.fstat(self._descriptor).st_size

    def data_end(self) -> int:
        if _SEEK_DATA is None or _SEEK_HOLE is None:
            return self.size()
        end = 0
        try:
            while True:
                start = os.lseek(self._descriptor, end, _SEEK_DATA)
                end = os.lseek(self._descriptor, start, _SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is no more data
                return end
            if error.errno in _NO_HOLES:
                return self.size()
            _refuse(error, "lseek", self.path)

    def next_data(self, position: int) -> Extent:
        if _SEEK_DATA is not None and _SEEK_HOLE is not None:
            try:
                start = os.lseek(self._descriptor, position, _SEEK_DATA)
                return Extent(start, os.lseek(self._descriptor, start, _SEEK_HOLE))
            except OSError as error:
                if error.errno == errno.ENXIO:  # there is no more data
                    position = self.size()
                elif error.errno not in _NO_HOLES:
                    _refuse(error, "lseek", self.path)
        size = self.size()
        return Extent(min(position, size), size)

    def read(self, position: int, size: int) -> bytes:
        try:
            data = _pread(self._descriptor, size, position)
            while len(data) < size:
                more = _pread(self._descriptor, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            _refuse(error, f"pread from {position} of", self.path)
        return data

    def read_view(self, position: int, size: int) -> memoryview:
        return memoryview(self.read(position, size))

    def view(self) -> memoryview:
        size = self.size()
        if size == 0:
            return memoryview(b"")
        if self._mapping is None or len(self._mapping) != size:
            with _refusing("mmap", self.path):
                self._mapping = mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ)
        return memoryview(self._mapping)

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        done = 0
        try:
            for first in range(0, len(buffers), BUFFERS_MAX):
                part = buffers[first : first + BUFFERS_MAX]
                size = sum(map(len, part))
                wrote = _pwritev(self._descriptor, part, position + done)
                if wrote < size:
                    rest = memoryview(b"".join(part))
                    while wrote < size:
                        at = position + done + wrote
                        wrote += _pwritev(self._descriptor, [rest[wrote:]], at)
                done += size
        except OSError as error:
            _refuse(error, "pwritev", self.path)
        return done

    def start_reading(self, position: int, size: int) -> None:
        # Linux takes no more of one call than its readahead for the device.
        with contextlib.suppress(OSError, AttributeError):  # advice, as with `give_back`
            for at in range(position, position + size, MIB):
                part = min(MIB, position + size - at)
                os.posix_fadvise(self._descriptor, at, part, os.POSIX_FADV_WILLNEED)

    def give_back(self, position: int, size: int) -> None:
        mapping = self._mapping
        with contextlib.suppress(OSError, AttributeError):  # advice, where the system takes it
            first = -(-position // mmap.PAGESIZE) * mmap.PAGESIZE
            if mapping is not None and first < position + size:  # what is mapped stays
                mapping.madvise(mmap.MADV_DONTNEED, first, position + size - first)
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def read_nowait(self, position: int, buffer: memoryview) -> int | None:
        size = len(buffer)
        try:
            done = os.preadv(self._descriptor, (buffer,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except (OSError, AttributeError):  # the system cannot say, or it says what a read says, too
            data = self.read(position, size)
            buffer[: len(data)] = data
            return len(data)
        return done if done == size or position + done >= self.size() else None

    def allocate(self, position: int, size: int) -> None:
        if _fallocate is not None and _fallocate(self._descriptor, 0, position, size) != 0:
            code = ctypes.get_errno()
            if code in _NO_SPACE:  # what else there is, a write will tell
                _refuse(OSError(code, os.strerror(code)), "fallocate", self.path)

    def resize(self, size: int) -> None:
        with _refusing("ftruncate", self.path):
            os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        try:
            _sync(self._descriptor)
        except OSError as error:
            _refuse(error, "sync", self.path)

    def start_sync(self) -> PendingSync | None:
        if _kernel_syncs is None:
            return None
        path = self.path  # the file itself may be gone before its sync ends
        return _kernel_syncs.start(self._descriptor, lambda error: _refuse(error, "sync", path))

    def close(self) -> None:
        self._mapping = None  # unmapped when the last view of it goes
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            with contextlib.suppress(OSError):  # nothing unsynced is promised to be there
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # `OpenFiles` drops files that others may still be using


class RealDisk:
    """The operating system's file system."""

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        assert write or not create
        flags = (os.O_RDWR if write else os.O_RDONLY) | _OPEN_FLAGS
        try:
            if not create:
                return _RealFile(path, os.open(path, flags))
            try:
                file = _RealFile(path, os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644))
            except FileExistsError:
                return _RealFile(path, os.open(path, flags))
        except OSError as error:
            _refuse(error, "open", path)
        if size is not None:
            try:
                file.resize(size)
            except BaseException:
                file.close()
                raise
        return file

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        return self._mode(path) is not None

    def is_folder(self, path: str) -> bool:
        """See `Disk.is_folder`."""
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def _mode(self, path: str) -> int | None:
        """Return what kind of thing is there, None if nothing; unlike `os.path`, never guess."""
        try:
            return self._stat(path).st_mode
        except FileMissing:
            return None

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        return self._stat(path).st_size

    def modified_at_ms(self, path: str) -> int:
        """See `Disk.modified_at_ms`."""
        return self._stat(path).st_mtime_ns // 1_000_000

    def _stat(self, path: str) -> os.stat_result:
        with _refusing("stat", path):
            return os.stat(path)

    def list(self, folder: str) -> list[str]:
        """See `Disk.list`."""
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            _refuse(error, "listdir", folder)

    def folders(self, folder: str) -> Sequence[str]:
        """See `Disk.folders`. Mostly one call, which tells what each name is."""
        return sorted([entry.name for entry in self._scan(folder) if entry.is_dir()])

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Disk.sizes`."""
        with _refusing("stat in", folder):
            files = [entry for entry in self._scan(folder) if not entry.is_dir()]
            return dict(sorted([(entry.name, entry.stat().st_size) for entry in files]))

    def _scan(self, folder: str) -> "Sequence[os.DirEntry[str]]":
        try:
            with os.scandir(folder) as entries:
                return [*entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            _refuse(error, "scandir", folder)

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """See `Disk.make_folder`."""
        parent = os.path.dirname(path)
        try:
            is_new = self._make_one(path)
        except FileNotFoundError as error:
            if not parent or parent == path:
                _refuse(error, "mkdir", path)
            self.make_folder(parent, durable=durable)
            try:
                is_new = self._make_one(path)
            except FileNotFoundError as again:  # /proc says so of every new name
                _refuse(again, "mkdir", path)
        if is_new and durable:
            self.sync_folder(parent)

    def _make_one(self, path: str) -> bool:
        """Make a folder in one that is there; tell whether it is new.

        Raises:
            FileNotFoundError: The one that it is to be in is not there.
        """
        try:
            os.mkdir(path)
        except FileNotFoundError:
            raise
        except FileExistsError as error:
            if not self.is_folder(path):
                _refuse(error, "mkdir", path)
            return False
        except OSError as error:
            _refuse(error, "mkdir", path)
        return True

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        with _refusing("unlink", path):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """See `Disk.remove_tree`."""
        if self.exists(path):
            with _refusing("rmtree", path):
                shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        with _refusing("rename", source):
            os.replace(source, target)

    def exchange(self, one: str, other: str) -> bool:
        """See `Disk.exchange`."""
        if _renameat2 is None:
            return False
        names = os.fsencode(one), os.fsencode(other)
        done = _renameat2(_AT_THIS_FOLDER, names[0], _AT_THIS_FOLDER, names[1], _RENAME_EXCHANGE)
        if done != 0:
            code = ctypes.get_errno()
            if code in _NO_EXCHANGE:
                return False
            _refuse(OSError(code, os.strerror(code)), f"exchange {one} and", other)
        return True

    def sync_folder(self, path: str) -> None:
        """See `Disk.sync_folder`."""
        if _FOLDER_FLAGS is None:
            return
        folder = path or os.curdir
        with _refusing("open", folder):
            descriptor = os.open(folder, _FOLDER_FLAGS)
        try:
            with _refusing("fsync", folder):
                _FOLDER_SYNC(descriptor)
        finally:
            os.close(descriptor)

    def sync_tree(self, path: str) -> None:
        """See `Disk.sync_tree`.

        One call for the whole file system, where that is known to do it, and to tell of errors.
        """
        if not self.is_folder(path):
            return
        if _syncfs is None or _FOLDER_FLAGS is None:
            self._sync_each(path)
            return
        with _refusing("open", path):
            descriptor = os.open(path, _FOLDER_FLAGS)
        try:
            is_kept = file_system_number(descriptor) in _KEEPS_SYNCFS
            if is_kept and _syncfs(descriptor) != 0:
                code = ctypes.get_errno()
                _refuse(OSError(code, os.strerror(code)), "syncfs", path)
        finally:
            os.close(descriptor)
        if not is_kept:
            self._sync_each(path)

    def _sync_each(self, path: str) -> None:
        """Sync every file below a folder, and every folder after what it holds."""
        for name in self.list(path):
            below = os.path.join(path, name)
            if self.is_folder(below):
                self._sync_each(below)
                continue
            file = self.open(below)
            try:
                file.sync()
            finally:
                file.close()
        self.sync_folder(path)

    def lock(self, path: str, wait_seconds: float = 0) -> Lock:
        """See `Disk.lock`."""
        with _refusing("lock", path):
            return file_lock.take(path, wait_seconds)

    def used_ratio(self, path: str) -> float:
        """See `Disk.used_ratio`. Space kept for root counts neither as used nor as free."""
        with _refusing("statvfs", path):
            status = os.statvfs(path)
        used = status.f_blocks - status.f_bfree
        whole = used + status.f_bavail
        return used / whole if whole else 0.0

    def free_bytes(self, path: str) -> int:
        """See `Disk.free_bytes`."""
        with _refusing("statvfs", path):
            status = os.statvfs(path)
        return status.f_bavail * status.f_frsize
