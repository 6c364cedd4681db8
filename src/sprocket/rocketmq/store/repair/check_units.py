"""Reading queue units for a check, which trusts nothing that it reads.

Units that are not there, because their file is missing or too short, read as zeros.
"""

from collections.abc import Iterator, Sequence

from sprocket.base.disk import Disk, Segment
from sprocket.base.errors import OffsetTooSmall
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES, Queue, QueueKey
from sprocket.rocketmq.store.repair import check_log
from sprocket.rocketmq.store.repair.finding import Finding


class UnitFiles:
    """The files of one queue, as they are.

    Args:
        folder: Where they lie.
        segments: The files, in order; some may be missing in between.
        unit_bytes: Bytes of a unit.

    Attributes:
        first: The number of the unit at which the oldest file begins; in a queue of single
            messages the number is the queue offset.
        end: The number of the unit up to which there are files.
    """

    def __init__(
        self, folder: str, segments: Sequence[Segment], unit_bytes: int = UNIT_BYTES
    ) -> None:
        self.folder = folder
        self._segments = segments
        self._unit_bytes = unit_bytes
        self.first = segments[0].start // unit_bytes if segments else 0
        self.end = segments[-1].end // unit_bytes if segments else 0

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` units from `offset` on; what is in no file reads as nothing."""
        start, size = offset * self._unit_bytes, count * self._unit_bytes
        parts = []
        for segment in self._segments:
            low, high = max(start, segment.start), min(start + size, segment.end)
            if low < high:
                parts.append((low - start, segment.read(low - segment.start, high - low)))
                segment.release()
        if len(parts) == 1 and len(parts[0][1]) == size:
            return parts[0][1]
        data = bytearray(size)
        for at, part in parts:
            data[at : at + len(part)] = part
        return bytes(data)

    def data_end(self) -> int:
        """Return a queue offset from which on nothing was written."""
        end = self.first
        for segment in self._segments:
            written = min(segment.file.data_end(), segment.size)
            if written:
                end = -(-(segment.start + written) // self._unit_bytes)
            segment.release()
        return end

    def place(self, offset: int) -> tuple[str, int]:
        """Return the file and the position in it of a unit; the folder if there is no file."""
        at = offset * self._unit_bytes
        for segment in self._segments:
            if segment.start <= at < segment.end:
                return segment.path, at - segment.start
        return self.folder, at


class StoredUnits:
    """The units of a queue that is not in files; units that are not there read as nothing.

    Args:
        queue: The queue.
        folder: Where it lies; the position of a unit is its queue offset then.
    """

    def __init__(self, queue: Queue, folder: str) -> None:
        self.folder = folder
        self.first = int(queue.min_offset)
        self.end = int(queue.max_offset)
        self._queue = queue

    def read(self, offset: int, count: int) -> bytes:
        """See `UnitFiles.read`."""
        data = bytearray(count * UNIT_BYTES)
        at = max(offset, self.first)
        stop = min(offset + count, self.end)
        while at < stop:
            try:
                for found, *unit, _count in self._queue.units(at, stop - at):
                    QUEUE_UNIT.pack_into(data, (found - offset) * UNIT_BYTES, *unit)
                    at = found + 1
            except OffsetTooSmall:
                at += 1
        return bytes(data)

    def data_end(self) -> int:
        """Return the queue offset behind the last unit."""
        return self.end

    def place(self, offset: int) -> tuple[str, int]:
        """Return the folder and the queue offset."""
        return self.folder, offset


def found(
    disk: Disk, folder: str, file_bytes: int, unit_bytes: int, findings: list[Finding]
) -> Iterator[tuple[QueueKey, UnitFiles]]:
    """Give the files of every queue below a folder, `<topic>/<queue id>/<20 digits>`.

    Args:
        disk: Where they lie.
        folder: The folder.
        file_bytes: Length of each file.
        unit_bytes: Bytes of a unit.
        findings: Gets what is wrong with names and lengths.
    """
    for topic in disk.list(folder):
        for name in disk.list(f"{folder}/{topic}") if disk.is_folder(f"{folder}/{topic}") else ():
            path = f"{folder}/{topic}/{name}"
            if name.isascii() and name.isdigit() and disk.is_folder(path):
                rows, wrong = check_log.segments(disk, path, file_bytes)
                segments = [segment for row in rows for segment in row]
                findings += wrong
                yield (topic, int(name)), UnitFiles(path, segments, unit_bytes)
