"""What reading a folder needs of a file system; `RealDisk` and `RemoteFiles` have it.

Names, meanings and errors are those of `base.disk`: a missing file is `FileMissing`, whatever else
the file system refuses is `DiskFailed`.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from typing import Protocol


class ReadableFile(Protocol):
    """One open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str:
        """The path it was opened by."""

    def size(self) -> int:
        """Return the file's length."""

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, by one request; fewer only at the file's end."""

    def read_view(self, position: int, size: int) -> memoryview:
        """Do as `read` for bytes that are soon dropped."""

    def close(self) -> None:
        """Close the handle; closing twice is allowed."""


class Files(Protocol):
    """A file system that is read. Paths are strings."""

    def open(self, path: str) -> ReadableFile:
        """Open a file. Raises FileMissing if it is not there."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder of that name is there."""

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder of that name is there."""

    def modified_at_ms(self, path: str) -> int:
        """Return when the content was last changed, ms since 1970; FileMissing if not there."""

    def folders(self, folder: str) -> Sequence[str]:
        """Return the sorted names of the folders alone; none if it is missing."""

    def list(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in `folder`; none if it is not a folder."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the length of each file in a folder, by sorted names; none if it is not a folder.

        One request, however many there are, where the file system has such a one.
        """


class HeldLock(Protocol):
    """A lock as its holder sees it."""

    def require(self) -> None:
        """Raise StoreLocked if somebody took it away."""


class WritableFile(Protocol):
    """A new file that is written from its start to its end."""

    def write(self, data: bytes | memoryview) -> int:
        """Write all of `data` after what was written before; return its size in bytes."""

    def close(self) -> int:
        """End it; return its size in bytes. What was written is durable then."""

    def abandon(self) -> None:
        """Close it without a promise: it may be there whole, in part, or not at all."""


class WritableFiles(Files, Protocol):
    """A file system that is written, too, in whole files."""

    def make_folder(self, path: str) -> None:
        """Make a folder, and those that it lies in."""

    def remove(self, path: str) -> None:
        """Remove a file. Raises FileMissing if it is not there."""

    def create(self, path: str) -> WritableFile:
        """Make a file, in a folder that is there."""

    def put(self, path: str, data: bytes) -> None:
        """Make a file, or replace it; after a crash it is there as before, or whole.

        Durability: it is on the disk, or wherever the file system keeps it, when this returns.
        """

    def locked(self, path: str, *, take_over: bool = False) -> AbstractContextManager[HeldLock]:
        """Hold a lock as long as the block runs.

        Args:
            path: Names it: a file, or where the file system has no locks a folder.
            take_over: Whoever holds it is known to be dead.

        Raises:
            StoreLocked: Another process holds it.
        """


def read_whole(files: Files, path: str) -> bytes:
    """Return the whole content of a small file; FileMissing if it is not there."""
    with closing(files.open(path)) as file:
        return file.read(0, file.size())
