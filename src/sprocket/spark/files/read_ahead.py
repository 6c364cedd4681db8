"""A file that is read from one end to the other, by few requests."""

from sprocket.base.disk import RealDisk
from sprocket.base.units import MIB
from sprocket.spark.files.files import Files, ReadableFile

AHEAD_BYTES = 16 * MIB
"""How much is asked for at once. A request to an object store takes some 20 to 50 ms before its
first byte, as long as 1 to 4 MiB take on the way; so most of the time something is on the way."""


class ReadAhead:
    """Another file; what is read of it is asked for in large pieces. See `ReadableFile`.

    Args:
        file: The other one.
        end: Bytes into it after what will be wanted.
        ahead_bytes: How much to ask for at once; one piece is held in memory.
    """

    def __init__(self, file: ReadableFile, end: int, ahead_bytes: int = AHEAD_BYTES) -> None:
        self.path = file.path
        self._file = file
        self._end = end
        self._ahead_bytes = ahead_bytes
        self._start = 0
        self._data = b""

    def size(self) -> int:
        """See `ReadableFile.size`."""
        return self._file.size()

    def read(self, position: int, size: int) -> bytes:
        """See `ReadableFile.read`; it asks for nothing that it has."""
        first = position - self._start
        if not 0 <= first <= len(self._data):
            self._start, self._data, first = position, b"", 0
        missing = first + size - len(self._data)
        if missing > 0:
            behind = self._start + len(self._data)
            wanted = max(missing, min(self._ahead_bytes, self._end - behind))
            self._data = self._data[first:] + self._file.read(behind, wanted)
            self._start, first = position, 0
        return self._data[first : first + size]

    def read_view(self, position: int, size: int) -> memoryview:
        """See `ReadableFile.read_view`."""
        return memoryview(self.read(position, size))

    def close(self) -> None:
        """See `ReadableFile.close`; closes the other file."""
        self._file.close()


def read_on(files: Files, file: ReadableFile, end: int) -> ReadableFile:
    """Return a file to read on and on up to position `end`: the local disk reads ahead by itself.

    Args:
        files: The file system.
        file: Open there; it is closed with what is returned.
        end: Bytes into it.
    """
    return file if isinstance(files, RealDisk) else ReadAhead(file, end)
