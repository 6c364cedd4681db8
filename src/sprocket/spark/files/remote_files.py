"""Files of a file system that Arrow opens: each read is a request for one range."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import fs

from sprocket.base.errors import DiskFailed, FileMissing


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
