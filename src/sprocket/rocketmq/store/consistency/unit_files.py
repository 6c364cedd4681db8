"""Reading queue units for a check, which trusts nothing that it reads.

Units that are not there, because their file is missing or too short, read as zeros.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sprocket.base.disk import Disk, Segment
from sprocket.base.errors import OffsetTooSmall
from sprocket.rocketmq.store.consistency.finding import Finding
from sprocket.rocketmq.store.consistency.log_check import log_segments
from sprocket.rocketmq.store.queue import (
    QUEUE_UNIT,
    UNIT_BYTES,
    ExtendedUnit,
    Extension,
    Queue,
    QueueKey,
)


class Units(Protocol):
    """The units of one queue, as they are.

    A unit has a number; in a queue of single messages that is the queue offset.
    """

    @property
    def first(self) -> int:
        """The number of the first unit that may be there."""

    @property
    def end(self) -> int:
        """The number behind the last unit that may be there."""

    @property
    def is_there(self) -> bool:
        """Whether there is such a queue."""

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` units from `offset` on; those that are not there read as zeros."""

    def data_end(self) -> int:
        """Return a number from which on nothing was written."""

    def place(self, offset: int) -> tuple[str, int]:
        """Return the file and the position in it of a unit; the folder if there is no file."""

    def extended(self, code: int) -> ExtendedUnit | None:
        """Return what a unit's tags code leads to, if it is the address of an extended unit."""


class UnitFiles:
    """The units of a queue in files, of which some may be missing in between; see `Units`.

    Args:
        folder: Where they lie.
        segments: The files, in order.
        unit_bytes: Bytes of a unit.
        extension: Its extended units, None if it has none.
    """

    def __init__(
        self,
        folder: str,
        segments: Sequence[Segment] = (),
        unit_bytes: int = UNIT_BYTES,
        extension: Extension | None = None,
    ) -> None:
        self.first = segments[0].start // unit_bytes if segments else 0
        self.end = segments[-1].end // unit_bytes if segments else 0
        self.is_there = bool(segments)
        self._folder = folder
        self._segments = segments
        self._unit_bytes = unit_bytes
        self._extension = extension

    def read(self, offset: int, count: int) -> bytes:
        """See `Units.read`."""
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
        """See `Units.data_end`."""
        end = self.first
        for segment in self._segments:
            written = min(segment.file.data_end(), segment.size)
            if written:
                end = -(-(segment.start + written) // self._unit_bytes)
            segment.release()
        return end

    def place(self, offset: int) -> tuple[str, int]:
        """See `Units.place`."""
        at = offset * self._unit_bytes
        for segment in self._segments:
            if segment.start <= at < segment.end:
                return segment.path, at - segment.start
        return self._folder, at

    def extended(self, code: int) -> ExtendedUnit | None:
        """See `Units.extended`."""
        return None if self._extension is None else self._extension.get(code)


class StoredUnits:
    """The units of a queue as its engine gives them; see `Units`.

    A record of many messages has its unit at the offset of each of them.

    Args:
        queue: The queue.
        folder: Where it lies; the position of a unit is its queue offset then.
    """

    def __init__(self, queue: Queue, folder: str) -> None:
        self.first = int(queue.min_offset)
        self.end = int(queue.max_offset)
        self.is_there = True
        self._queue = queue
        self._folder = folder

    def read(self, offset: int, count: int) -> bytes:
        """See `Units.read`."""
        data = bytearray(count * UNIT_BYTES)
        at = max(offset, self.first)
        stop = min(offset + count, self.end)
        while at < stop:
            try:
                for found, *unit, messages in self._queue.units(at, stop - at):
                    for number in range(max(found, at), min(found + messages, stop)):
                        QUEUE_UNIT.pack_into(data, (number - offset) * UNIT_BYTES, *unit)
                    at = found + messages
            except OffsetTooSmall:
                at += 1
        return bytes(data)

    def data_end(self) -> int:
        """See `Units.data_end`."""
        return self.end

    def place(self, offset: int) -> tuple[str, int]:
        """See `Units.place`."""
        return self._folder, offset

    def extended(self, code: int) -> ExtendedUnit | None:
        """See `Units.extended`."""
        return self._queue.extended(code)


def queues_in(
    disk: Disk, folder: str, file_bytes: int, findings: list[Finding]
) -> Iterator[tuple[QueueKey, str, list[Segment]]]:
    """Give the files of every queue below a folder, `<topic>/<queue id>/<20 digits>`.

    Args:
        disk: Where they lie.
        folder: The folder.
        file_bytes: Length of each file.
        findings: Gets what is wrong with names and lengths.

    Returns:
        The queue, its folder and its files.
    """
    for topic in disk.list(folder):
        for name in disk.list(f"{folder}/{topic}") if disk.is_folder(f"{folder}/{topic}") else ():
            path = f"{folder}/{topic}/{name}"
            if name.isascii() and name.isdigit() and disk.is_folder(path):
                segments, wrong = log_segments(disk, path, file_bytes)
                findings += wrong
                yield (topic, int(name)), path, segments
