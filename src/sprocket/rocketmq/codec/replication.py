"""The frames between a master and its slaves; see docs/formats/replication.md.

A slave reports where its log ends, 8 bytes. A master sends parts of its log:

    0 where the part begins (i64) · 8 its size (i32) · 12 its bytes

A part without bytes is a heartbeat. A part is cut anywhere, but lies in one file of the log.

Source: RocketMQ `DefaultHAClient`, `DefaultHAConnection`.
"""

import struct

from msgspec import Struct

from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.base.units import KIB, MIB

FROM_LAST_FILE = 0
"""What a slave of RocketMQ reports that has nothing: it gets the master's last file and what comes.
"""
FROM_FIRST = 1
"""What ours reports instead: it gets all that the master has. No log ends here, and of a log that
begins at 0 it lacks nothing but its first byte, which is 0 in every record below 16 MiB."""
FIRST_BYTE = b"\0"

PART_BYTES = 32 * KIB
"""Sent at once; RocketMQ's `haTransferBatchSize`."""
PART_BYTES_MAX = 4 * MIB
"""What is taken at once: a slave of RocketMQ has a buffer of this size."""

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")


class ReplicaPart(Struct, frozen=True, gc=False):
    """A part of the master's log, a heartbeat if it has no bytes.

    Attributes:
        start: Physical offset of its first byte; of a heartbeat, that of the next part.
    """

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """Physical offset behind its last byte."""
        return self.start + len(self.data)


def report(end: int) -> bytes:
    """Return what a slave says whose log ends at `end`."""
    return _REPORT.pack(end)


def part_head(start: int, size: int) -> bytes:
    """Return what comes before `size` bytes of the log from `start` on."""
    return _HEAD.pack(start, size)


class ReportReader:
    """Reads what a slave sends, however it is cut."""

    def __init__(self) -> None:
        self.broken: WireError | None = None
        self._rest = b""

    def receive(self, data: bytes) -> list[int]:
        """Return the last report that bytes complete, if they do; those before it are older.

        Raises:
            WireError: It is not a place of a log.
        """
        data = self._rest + data
        size = len(data) - len(data) % _REPORT.size
        self._rest = data[size:]
        if not size:
            return []
        (end,) = _REPORT.unpack_from(data, size - _REPORT.size)
        if end < 0:
            raise WireError(f"a slave reports that its log ends at {end}")
        return [end]


class PartReader:
    """Reads what a master sends, however it is cut.

    Of bytes that may be overwritten later, as those of `runtime.driver.bulk`, it keeps a copy.
    """

    def __init__(self) -> None:
        self.broken: WireError | None = None
        self._rest = bytearray()
        self._wanted = _HEAD.size

    def receive(self, data: Buffer) -> list[ReplicaPart]:
        """Return the parts that bytes complete, those that follow each other as one.

        Each byte is copied once, and once more in the part that comes in several pieces.

        Raises:
            WireError: What follows cannot be one.
        """
        view = memoryview(data)
        found: list[tuple[int, memoryview]] = []
        at = 0
        while self._rest:
            more = view[at : at + self._wanted - len(self._rest)]
            at += len(more)
            self._rest += more
            if self._take(memoryview(self._rest), 0, found):
                self._rest = bytearray()
            elif not more:
                return []
        while (behind := self._take(view, at, found)) != at:
            at = behind
        self._rest += view[at:]
        return _joined(found)

    def _take(self, data: memoryview, at: int, found: list[tuple[int, memoryview]]) -> int:
        """Take up the part that begins at a place, if it is whole; return where the next begins."""
        self._wanted = _HEAD.size
        if len(data) - at < self._wanted:
            return at
        start, size = _HEAD.unpack_from(data, at)
        if start < 0 or not 0 <= size <= PART_BYTES_MAX:
            raise WireError(f"a master sends {size} bytes of its log from {start} on")
        self._wanted += size
        if len(data) - at < self._wanted:
            return at
        behind = at + self._wanted
        found.append((start, data[at + _HEAD.size : behind]))
        return behind


def _joined(found: list[tuple[int, memoryview]]) -> list[ReplicaPart]:
    """Return parts, those that follow each other as one; a heartbeat stays by itself."""
    parts: list[ReplicaPart] = []
    pieces: list[memoryview] = []
    first = behind = 0
    for start, data in found:
        if pieces and (start != behind or not data):
            parts.append(ReplicaPart(first, b"".join(pieces)))
            pieces = []
        if not data:
            parts.append(ReplicaPart(start, b""))
            continue
        if not pieces:
            first = start
        pieces.append(data)
        behind = start + len(data)
    if pieces:
        parts.append(ReplicaPart(first, b"".join(pieces)))
    return parts
