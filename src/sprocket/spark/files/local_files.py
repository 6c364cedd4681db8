"""Files of the local disk, to write them as those of any other file system."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sprocket.base.disk import Disk, File, replace_file
from sprocket.spark.files.files import HeldLock


class LocalFiles:
    """The local disk; see `WritableFiles`.

    Args:
        disk: Where.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, path: str) -> File:
        """See `Files.open`."""
        return self._disk.open(path)

    def exists(self, path: str) -> bool:
        """See `Files.exists`."""
        return self._disk.exists(path)

    def is_folder(self, path: str) -> bool:
        """See `Files.is_folder`."""
        return self._disk.is_folder(path)

    def modified_at_ms(self, path: str) -> int:
        """See `Files.modified_at_ms`."""
        return self._disk.modified_at_ms(path)

    def folders(self, folder: str) -> Sequence[str]:
        """See `Files.folders`."""
        return self._disk.folders(folder)

    def list(self, folder: str) -> list[str]:
        """See `Files.list`."""
        return self._disk.list(folder)

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Files.sizes`."""
        return self._disk.sizes(folder)

    def remove(self, path: str) -> None:
        """See `WritableFiles.remove`."""
        self._disk.remove(path)

    def make_folder(self, path: str) -> None:
        """See `WritableFiles.make_folder`."""
        self._disk.make_folder(path)

    def create(self, path: str) -> "_LocalFile":
        """See `WritableFiles.create`."""
        return _LocalFile(self._disk, self._disk.open(path, write=True, create=True))

    def put(self, path: str, data: bytes) -> None:
        """See `WritableFiles.put`."""
        replace_file(self._disk, path, data)

    @contextmanager
    def locked(self, path: str, *, take_over: bool = False) -> Iterator[HeldLock]:  # noqa: ARG002
        """See `WritableFiles.locked`: the system frees the lock of a dead process by itself."""
        lock = self._disk.lock(path)
        try:
            yield _NeverTaken()
        finally:
            lock.release()


class _NeverTaken:
    """A lock of the system's: nobody can take it away."""

    def require(self) -> None:
        """See `HeldLock.require`."""


class _LocalFile:
    """A file that is written; see `WritableFile`."""

    def __init__(self, disk: Disk, file: File) -> None:
        self._disk = disk
        self._file = file
        self._position = 0

    def write(self, data: bytes | memoryview) -> int:
        """See `WritableFile.write`."""
        size = self._file.write([data], self._position)
        self._position += size
        return size

    def close(self) -> int:
        """See `WritableFile.close`."""
        self._file.sync()
        self._file.close()
        self._disk.sync_folder(self._file.path.rpartition("/")[0])
        return self._position

    def abandon(self) -> None:
        """See `WritableFile.abandon`."""
        self._file.close()
