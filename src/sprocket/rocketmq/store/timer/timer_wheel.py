"""The timer wheel: where the chain of records of each slot of time begins and ends.

A slot's place in the file is its number modulo the number of slots, and it counts only if it says
that number itself. The file is read and written by position, and what was never written takes no
space. See docs/formats/timer-files.md. Source: RocketMQ `TimerWheel`, `Slot`.
"""

import os
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, File, Steps, remove_if_there
from sprocket.base.errors import DiskFailed
from sprocket.base.units import KIB

SLOT = struct.Struct(">qqqii")
SLOT_BYTES = SLOT.size
ROWS = np.dtype(
    [("number", ">i8"), ("first", ">i8"), ("last", ">i8"), ("waiting", ">i4"), ("unused", ">i4")]
)
"""Slots as rows of numpy."""
SLOTS = 1_209_600
"""Two times 604,800: of one second each, 14 days. RocketMQ reaches over half of them at most."""
_BLOCK_BYTES = 64 * KIB
"""What is read at once of all that is written, and what goes into the checksum together."""
_READ_SLOTS = 64 * KIB // SLOT_BYTES
"""Slots that are read at once by who looks for one in use."""


class TimeSlot(NamedTuple):
    """A chain of records.

    Attributes:
        first: Where its first record lies, −1 without one.
        last: Where its last one lies.
        waiting: Messages that wait, less those that take others back.
    """

    first: int = -1
    last: int = -1
    waiting: int = 0


EMPTY = TimeSlot()


class TimerWheel:
    """The file of slots; made when the first one is written.

    Args:
        disk: Where it lies.
        path: The file.
        slots: How many it has, where it is yet to be made.

    Threads: one at a time, but for the calls of steps.
    """

    def __init__(self, disk: Disk, path: str, slots: int = SLOTS) -> None:
        self._disk = disk
        self.path = path
        self._file: File | None = None
        self._is_new = False
        self.slots = slots
        if disk.exists(path):
            size = disk.size(path)
            if size and size % SLOT_BYTES == 0:
                self.slots = size // SLOT_BYTES

    @property
    def is_there(self) -> bool:
        """Whether the file is there, and whole."""
        return self._disk.exists(self.path) and (
            self._disk.size(self.path) == self.slots * SLOT_BYTES
        )

    def read(self, number: int) -> TimeSlot:
        """Return a slot; `EMPTY` if nothing is there, or another one.

        Args:
            number: Time divided by what a slot takes.

        Raises:
            DiskFailed: The disk does not give it.
        """
        file = self._opened()
        if file is None:
            return EMPTY
        return _slot(file.read(number % self.slots * SLOT_BYTES, SLOT_BYTES), 0, number)

    def next_used(self, number: int, end: int) -> int:
        """Return the first slot from a number on that has records; `end` if none before it has."""
        file = self._opened()
        if file is None:
            return end
        while number < end:
            at = number % self.slots
            position = file.next_data(at * SLOT_BYTES).start
            skipped = position // SLOT_BYTES - at
            if skipped > 0:
                number += min(skipped, self.slots - at)
                continue
            count = min(_READ_SLOTS, self.slots - at, end - number)
            data = file.read(at * SLOT_BYTES, count * SLOT_BYTES)
            for one in range(len(data) // SLOT_BYTES):
                if _slot(data, one * SLOT_BYTES, number + one) is not EMPTY:
                    return number + one
            number += count
        return end

    def last_used(self) -> int:
        """Return the last slot that has records, 0 without any; takes 50 ms for a full wheel.

        Raises:
            DiskFailed: The disk does not give it.
        """
        found = 0
        for _, data in self._written_blocks():
            rows = np.frombuffer(data, ROWS)
            found = max(found, int(rows["number"][rows["last"] >= 0].max(initial=0)))
        return found

    def checksum(self) -> int:
        """Return a CRC-32 of all slots, wherever the file has holes; 50 ms for a full wheel.

        Raises:
            DiskFailed: The disk does not give it.
        """
        crc = 0
        for position, data in self._written_blocks():
            if data.count(0) < len(data):
                crc = crc32(data, crc32(position.to_bytes(8, "big"), crc))
        return crc

    def _written_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Give the blocks of the file that may hold something, each with its position."""
        file = self._opened()
        position = 0
        while file is not None:
            written = file.next_data(position)
            if written.start >= written.end:
                return
            position = written.start - written.start % _BLOCK_BYTES
            yield position, file.read(position, _BLOCK_BYTES)
            position += _BLOCK_BYTES

    def write(self, slots: Mapping[int, TimeSlot]) -> None:
        """Write slots, by their numbers; neighbours in one call.

        Raises:
            DiskFull, DiskFailed: Any of them may have been written.
        Durability: after `sync_steps`.
        """
        file = self._opened(create=True)
        assert file is not None
        numbers = sorted(slots)
        for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]):
            part = [number for _, number in run]
            data = [
                SLOT.pack(number, slot.first, slot.last, slot.waiting, 0)
                for number in part
                for slot in (slots[number],)
            ]
            wrap = self.slots - part[0] % self.slots
            file.write([b"".join(data[:wrap])], part[0] % self.slots * SLOT_BYTES)
            if wrap < len(data):
                file.write([b"".join(data[wrap:])], 0)

    def sync_steps(self) -> Steps:
        """Make durable what was written."""
        if self._file is None:
            return
        is_new, self._is_new = self._is_new, False
        try:
            yield self._file.sync
            if is_new:
                yield partial(self._disk.sync_folder, os.path.dirname(self.path))
        except BaseException:
            self._is_new |= is_new
            raise

    def remove(self) -> None:
        """Forget all slots: the file goes, and is made again by the next `write`.

        Durability: on the disk when this returns.
        """
        self.close()
        remove_if_there(self._disk, self.path)
        self._disk.sync_folder(os.path.dirname(self.path))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, *, create: bool = False) -> File | None:
        if self._file is None:
            if not self.is_there:
                if not create:
                    return None
                self._make()
            self._file = self._disk.open(self.path, write=True)
        return self._file

    def _make(self) -> None:
        """Make the file, all zeros that take no space."""
        self._is_new = True
        file = self._disk.open(self.path, write=True, create=True)
        try:
            file.resize(0)
            file.resize(self.slots * SLOT_BYTES)
        finally:
            file.close()


def _slot(data: bytes, at: int, number: int) -> TimeSlot:
    if len(data) < at + SLOT_BYTES:
        raise DiskFailed("the timer wheel is shorter than it was")
    found, first, last, count, _ = SLOT.unpack_from(data, at)
    return TimeSlot(first, last, count) if found == number and found and last >= 0 else EMPTY
