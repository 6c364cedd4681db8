"""A disk that shows which files were not closed."""

from sprocket.base.disk import File, RealDisk
from sprocket.base.errors import DiskFailed


class KeptFiles(RealDisk):
    """Keeps every file that was opened, so that none is closed because nobody has it any more."""

    def __init__(self) -> None:
        self._files: list[File] = []

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        self._files.append(super().open(path, write=write, create=create, size=size))
        return self._files[-1]

    def left_open(self) -> list[str]:
        """Return the paths of those that are still open."""
        return [file.path for file in self._files if _is_open(file)]


def _is_open(file: File) -> bool:
    try:
        file.size()
    except DiskFailed:
        return False
    return True
