"""A file system that is only read, as the disk that the store's own checks take."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from sprocket.base.disk import Buffer, Disk, Extent, File, Lock, PendingSync, RealDisk
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.spark.files.files import Files, ReadableFile
from sprocket.spark.files.location import local_path, open_files


def open_disk(folder: str, settings: Mapping[str, str] | None = None) -> Disk:
    """Return the disk that a folder lies on, to read from; paths begin with the folder.

    Args:
        folder: A path of the local disk, or `scheme://…`.
        settings: By the names that the file system gives them.

    Raises:
        SettingsError: See `open_files`.
    """
    files = open_files(folder, settings)
    return RealDisk() if local_path(folder) is not None else ReadOnlyDisk(files)


class ReadOnlyDisk:
    """`Files` as a `base.disk.Disk`, of which every change is refused.

    Lengths of the files of a folder are asked for together, and kept: where each question is a
    request over the network, one for each file would take longer than to read them.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._sizes: dict[str, dict[str, int]] = {}

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        if write or create:
            _refuse(f"open for writing, {size or 0} bytes,", path)
        return ReadOnlyFile(self._files.open(path))

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        return self._files.exists(path)

    def is_folder(self, path: str) -> bool:
        """See `Disk.is_folder`."""
        folder, _, name = path.rpartition("/")
        return name not in self._sizes.get(folder, ()) and self._files.is_folder(path)

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        folder, _, name = path.rpartition("/")
        found = self.sizes(folder).get(name)
        if found is None:
            raise FileMissing(f"look at {path}: there is none", path)
        return found

    def modified_at_ms(self, path: str) -> int:
        """See `Disk.modified_at_ms`."""
        return self._files.modified_at_ms(path)

    def list(self, folder: str) -> list[str]:
        """See `Disk.list`."""
        self.sizes(folder)
        return self._files.list(folder)

    def folders(self, folder: str) -> Sequence[str]:
        """See `Disk.folders`."""
        files = self.sizes(folder)
        return [name for name in self._files.list(folder) if name not in files]

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Disk.sizes`."""
        if folder not in self._sizes:
            self._sizes[folder] = self._files.sizes(folder)
        return self._sizes[folder]

    def used_ratio(self, path: str) -> float:
        """Refuse: nothing is known."""
        _refuse("ask for the room of", path)

    def free_bytes(self, path: str) -> int:
        """Refuse: nothing can be written."""
        _refuse("ask for the room of", path)

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """Refuse."""
        _refuse("make" if durable else "make for now", path)

    def remove(self, path: str) -> None:
        """Refuse."""
        _refuse("remove", path)

    def remove_tree(self, path: str) -> None:
        """Refuse."""
        _refuse("remove", path)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        _refuse(f"rename to {target}", source)

    def exchange(self, one: str, other: str) -> bool:
        """Refuse."""
        _refuse(f"exchange with {other}", one)

    def sync_folder(self, path: str) -> None:
        """Refuse."""
        _refuse("sync", path)

    def sync_tree(self, path: str) -> None:
        """Refuse."""
        _refuse("sync", path)

    def lock(self, path: str, wait_seconds: float = 0) -> Lock:  # noqa: ARG002
        """Refuse."""
        _refuse("lock", path)


class ReadOnlyFile:
    """A `ReadableFile` as a `base.disk.File`, of which every change is refused."""

    def __init__(self, file: ReadableFile) -> None:
        self._file = file

    @property
    def path(self) -> str:
        """See `File.path`."""
        return self._file.path

    def size(self) -> int:
        """See `File.size`."""
        return self._file.size()

    def data_end(self) -> int:
        """See `File.data_end`; holes cannot be told from data here."""
        return self._file.size()

    def next_data(self, position: int) -> Extent:
        """See `File.next_data`."""
        size = self._file.size()
        return Extent(min(position, size), size)

    def read(self, position: int, size: int) -> bytes:
        """See `File.read`."""
        return self._file.read(position, size)

    def read_view(self, position: int, size: int) -> memoryview:
        """See `File.read_view`."""
        return self._file.read_view(position, size)

    def view(self) -> memoryview:
        """See `File.view`; the file is read whole."""
        return memoryview(self._file.read(0, self._file.size()))

    def read_nowait(self, position: int, buffer: memoryview) -> int | None:
        """See `File.read_nowait`; this reads."""
        found = self._file.read(position, len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def start_reading(self, position: int, size: int) -> None:
        """Do nothing: it would be a request of its own."""

    def give_back(self, position: int, size: int) -> None:
        """Do nothing: the system keeps nothing of it."""

    def start_sync(self) -> PendingSync | None:
        """See `File.start_sync`."""
        return None

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        """Refuse."""
        _refuse(f"write {sum(map(len, buffers))} bytes at {position} of", self.path)

    def allocate(self, position: int, size: int) -> None:
        """Refuse."""
        _refuse(f"take {size} bytes at {position} of", self.path)

    def resize(self, size: int) -> None:
        """Refuse."""
        _refuse(f"resize to {size} bytes", self.path)

    def sync(self) -> None:
        """Refuse."""
        _refuse("sync", self.path)

    def close(self) -> None:
        """See `File.close`."""
        self._file.close()


def _refuse(call: str, path: str) -> NoReturn:
    raise DiskFailed(f"{call} {path}: what lies elsewhere is only read", path)
