"""Files of a file system that Arrow opens: each read is a request for one range.

Such file systems have no locks that end with their holder. What they all promise is that a file
which was made is listed from then on. So who wants a lock makes a file of their own in its folder,
and has the lock if no other is listed then: of two that do so at once, the later one sees the other
for certain. A process that dies leaves its file there, and somebody has to say that it is dead.
"""

import contextlib
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from sprocket.base.errors import DiskFailed, FileMissing, StoreError, StoreLocked
from sprocket.spark.files.files import HeldLock, read_whole

_LOCK = ".lock"
_WHO_CHARS_MAX = 200


class RemoteFiles:
    """The files below one folder of a file system; see `Files`.

    Args:
        system: A `pyarrow.fs.FileSystem`.
        root: How users write the folder, such as `s3://bucket/store`. Every path begins with it.
        inner: How the file system names the same folder, such as `bucket/store`.
    """

    def __init__(self, system: Any, root: str, inner: str) -> None:
        self._system = system
        self._root = root
        self._inner = inner

    def open(self, path: str) -> "RemoteFile":
        """See `Files.open`."""
        with _refusing("open", path):
            return RemoteFile(path, self._system.open_input_file(self._inside(path)))

    def exists(self, path: str) -> bool:
        """See `Files.exists`."""
        return bool(self._info(path).type != fs.FileType.NotFound)

    def is_folder(self, path: str) -> bool:
        """See `Files.is_folder`."""
        return bool(self._info(path).type == fs.FileType.Directory)

    def modified_at_ms(self, path: str) -> int:
        """See `Files.modified_at_ms`. An object store says when the file was put there."""
        info = self._info(path)
        if info.type == fs.FileType.NotFound:
            raise FileMissing(f"look at {path}: there is none", path)
        return 0 if info.mtime_ns is None else int(info.mtime_ns) // 1_000_000

    def folders(self, folder: str) -> list[str]:
        """See `Files.folders`."""
        infos = self._infos(folder)
        return sorted(one.base_name for one in infos if one.type == fs.FileType.Directory)

    def input(self, path: str) -> Any:
        """Open a file as Arrow's own readers take it: a `pyarrow.NativeFile`."""
        with _refusing("open", path):
            return self._system.open_input_file(self._inside(path))

    def make_folder(self, path: str) -> None:
        """See `WritableFiles.make_folder`."""
        with _refusing("make", path):
            self._system.create_dir(self._inside(path), recursive=True)

    def remove(self, path: str) -> None:
        """See `WritableFiles.remove`."""
        with _refusing("remove", path):
            self._system.delete_file(self._inside(path))

    def create(self, path: str) -> "_NewRemoteFile":
        """See `WritableFiles.create`."""
        with _refusing("make", path):
            return _NewRemoteFile(path, self._system.open_output_stream(self._inside(path)))

    def put(self, path: str, data: bytes) -> None:
        """See `WritableFiles.put`. Some file systems show a file that is written in part."""
        temporary = f"{path}.tmp"
        file = self.create(temporary)
        try:
            file.write(data)
        finally:
            file.close()
        with _refusing("rename", temporary):
            self._system.move(self._inside(temporary), self._inside(path))

    @contextlib.contextmanager
    def locked(self, path: str, *, take_over: bool = False) -> Iterator[HeldLock]:
        """See `WritableFiles.locked`; the head of this module says how it works."""
        self.make_folder(path)
        lock = _RemoteLock(self, path)
        try:
            lock.take(take_over=take_over)
            yield lock
        finally:
            lock.release()

    def list(self, folder: str) -> list[str]:
        """See `Files.list`."""
        return sorted(info.base_name for info in self._infos(folder))

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Files.sizes`."""
        infos = self._infos(folder)
        files = {one.base_name: one.size for one in infos if one.type == fs.FileType.File}
        return dict(sorted(files.items()))

    def _inside(self, path: str) -> str:
        assert path.startswith(self._root), path
        return self._inner + path[len(self._root) :]

    def _info(self, path: str) -> Any:
        with _refusing("look at", path):
            return self._system.get_file_info(self._inside(path))

    def _infos(self, folder: str) -> Any:
        with _refusing("list", folder):
            try:
                selector = fs.FileSelector(self._inside(folder), allow_not_found=True)
                return self._system.get_file_info(selector)
            except (FileNotFoundError, NotADirectoryError):
                return []


class RemoteFile:
    """One open file of a remote file system; see `ReadableFile`."""

    def __init__(self, path: str, file: Any) -> None:
        self.path = path
        self._file = file
        with _refusing("look at", path):
            self._size = int(file.size())

    def size(self) -> int:
        """See `ReadableFile.size`. It is what it was when the file was opened."""
        return self._size

    def read(self, position: int, size: int) -> bytes:
        """See `ReadableFile.read`."""
        wanted = min(size, self._size - position)
        if wanted <= 0:
            return b""
        with _refusing("read", self.path):
            data: bytes = self._file.read_at(wanted, position)
        if len(data) < wanted:
            raise DiskFailed(
                f"read {self.path}: {len(data)} bytes came from position {position}, not {wanted}",
                self.path,
            )
        return data

    def read_view(self, position: int, size: int) -> memoryview:
        """See `ReadableFile.read_view`."""
        return memoryview(self.read(position, size))

    def close(self) -> None:
        """See `ReadableFile.close`."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._file.close()


class _NewRemoteFile:
    """A file that is written; see `WritableFile`."""

    def __init__(self, path: str, file: Any) -> None:
        self._path = path
        self._file = file
        self._size = 0

    def write(self, data: bytes | memoryview) -> int:
        """See `WritableFile.write`."""
        with _refusing("write", self._path):
            self._file.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def close(self) -> int:
        """See `WritableFile.close`."""
        with _refusing("write", self._path):
            self._file.close()
        return self._size

    def abandon(self) -> None:
        """See `WritableFile.abandon`."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._file.close()


class _RemoteLock:
    """One process's part in a lock: a file that says who it is. See `HeldLock`."""

    def __init__(self, files: RemoteFiles, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._own = f"{uuid4().hex}{_LOCK}"

    def take(self, *, take_over: bool) -> None:
        """Take the lock.

        Raises:
            StoreLocked: Somebody else has it, or wants it just now.
        """
        who = f"process {os.getpid()} on {platform.node()}"
        self._files.put(f"{self._folder}/{self._own}", who.encode())
        if take_over:
            for name in self._others():
                with contextlib.suppress(FileMissing):
                    self._files.remove(f"{self._folder}/{name}")
            self.require()
        others = self._others()
        if others:
            raise StoreLocked(
                f"{self._folder} is held by {self._who(others[0])}; if that is known to be dead,"
                " take_over goes on without it"
            )

    def require(self) -> None:
        """See `HeldLock.require`."""
        if self._own not in self._files.list(self._folder):
            raise StoreLocked(f"{self._folder}: another process has taken over")

    def release(self) -> None:
        """Give it up."""
        with contextlib.suppress(FileMissing):
            self._files.remove(f"{self._folder}/{self._own}")

    def _others(self) -> list[str]:
        names = self._files.list(self._folder)
        return [name for name in names if name.endswith(_LOCK) and name != self._own]

    def _who(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        try:
            text = read_whole(self._files, path).decode(errors="replace")
            since = datetime.fromtimestamp(self._files.modified_at_ms(path) / 1000, UTC)
        except StoreError:
            return "a process that has just ended"
        return f"{text[:_WHO_CHARS_MAX]}, since {since:%Y-%m-%d %H:%M:%S} UTC"


@contextlib.contextmanager
def _refusing(call: str, path: str) -> Iterator[None]:
    """Make a StoreError of what the file system says of a call."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(f"{call} {path}: {first_line(error)}", path) from error
    except (OSError, pa.ArrowException) as error:
        raise DiskFailed(f"{call} {path}: {first_line(error)}", path) from error


def first_line(error: Exception) -> str:
    """Return what an error says in one line; some say a hundred."""
    return str(error).partition("\n")[0]
