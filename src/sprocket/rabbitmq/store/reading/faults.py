"""What could not be read, and reading on in spite of it."""

from sprocket.base.disk import Disk, File
from sprocket.base.errors import DiskFailed, FileMissing, StoreError
from sprocket.base.units import MIB
from sprocket.rabbitmq.store.damage import FileDamage

FILE_BYTES_MAX = 4096 * MIB
"""A journal or a segment is read whole. The largest that a server can have is far below."""
_PIECE_BYTES = 64 * 1024
_SECTOR_BYTES = 4096


class FileTooLarge(StoreError):
    """A file that has to be read whole is too large for that."""


class FaultyReads:
    """Reads whole files as far as they can be read, and keeps what was wrong."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.faults: list[FileDamage] = []
        """In the order in which they were met."""
        self._unreadable: set[tuple[str, int]] = set()

    def tell(self, path: str, position: int, what: str) -> None:
        """Keep a fault."""
        self.faults.append(FileDamage(path, position, what))

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, up to what the disk cannot read; None if it is not there.

        Raises:
            FileTooLarge: It is not a file of a server.
        """
        try:
            file = self.disk.open(path)
        except FileMissing:
            return None
        except DiskFailed as error:
            self.tell(path, 0, str(error))
            return b""
        try:
            size = file.size()
            if size > FILE_BYTES_MAX:
                raise FileTooLarge(f"{path}: {size:,} bytes, more than {FILE_BYTES_MAX:,}")
            data = _read_all(file, 0, size)
            if data is not None:
                return data
            parts = []
            for position in range(0, size, _PIECE_BYTES):
                try:
                    parts.append(file.read(position, min(_PIECE_BYTES, size - position)))
                except DiskFailed as error:
                    self.tell(path, position, f"{error}; what is behind it is not looked at")
                    break
            return b"".join(parts)
        finally:
            file.close()

    def read_around(self, file: File, position: int, size: int) -> bytes:
        """Return bytes of a file, fewer at its end; zeros for sectors that the disk cannot read."""
        data = _read_all(file, position, size)
        if data is not None:
            return data
        parts = []
        end = min(position + size, file.size())
        while position < end:
            next_sector = min(end, (position // _SECTOR_BYTES + 1) * _SECTOR_BYTES)
            try:
                parts.append(file.read(position, next_sector - position))
            except DiskFailed as error:
                parts.append(bytes(next_sector - position))
                sector = file.path, position // _SECTOR_BYTES
                if sector not in self._unreadable:
                    self._unreadable.add(sector)
                    self.tell(file.path, position, str(error))
            position = next_sector
        return b"".join(parts)


def _read_all(file: File, position: int, size: int) -> bytes | None:
    """Return bytes of a file; None if the disk cannot read some of them: then piece by piece."""
    try:
        return file.read(position, size)
    except DiskFailed:
        return None
