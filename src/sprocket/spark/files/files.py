"""What reading a folder needs of a file system; `RealDisk` and `RemoteFiles` have it.

Names, meanings and errors are those of `base.disk`: a missing file is `FileMissing`, whatever else
the file system refuses is `DiskFailed`.
"""

from contextlib import closing
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
        """Do as `read` for bytes that are soon let go of."""

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

    def list(self, folder: str) -> list[str]:
        """Return the sorted names of files and folders in `folder`; none if it is missing."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the length of each file in a folder, by sorted names; none if it is no folder.

        One request, however many there are, where the file system has such a one.
        """


def read_whole(files: Files, path: str) -> bytes:
    """Return the whole content of a small file; FileMissing if it is not there."""
    with closing(files.open(path)) as file:
        return file.read(0, file.size())
