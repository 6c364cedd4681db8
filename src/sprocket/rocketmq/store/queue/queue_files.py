"""The files of one queue: opened when needed, few at a time, synced when asked.

A store has many queues and few of them are busy. So the handles of all queues are counted together,
and the oldest is closed when there are too many. Until `flush` it is remembered which files the
disk does not have yet. Queues of single messages, batch queues and extensions are all kept in this
way.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from sprocket.base.disk import Disk, Segment, SegmentFiles, Steps, sync_file, written_ranges
from sprocket.base.units import KIB

OPEN_FILES_MAX = 128
"""Files that the queues of a store have open together; a broker with more busy queues reopens some.
With those of log and index, and what else a process has open, they are fewer than 256."""

FOLDERS_ABOVE = 3
"""Folders around that of a queue: its topic, the kind of queue, the store."""

_ZERO_BYTES = 64 * KIB

_KEPT_BYTES = 200
"""So much is kept in memory of a queue from its loading on until its units are put again, as there
may be 100,000 queues. Mostly these are a few units."""


_Held: TypeAlias = tuple[int, bytes]
"""A position, and what lies from there on."""


_NONE: frozenset[Segment] = frozenset()
"""One for all queues that lack nothing: a set for each would be a tenth of what they take."""


class Unsynced(NamedTuple):
    """Files with units, and the folder if it has names, that the disk may lack."""

    segments: frozenset[Segment]
    folder: str | None


def sync_all(disk: Disk, parts: Iterable[Unsynced]) -> None:
    """Sync what several queues lack with handles of its own; on any thread.

    A queue that is new has made its folder, its topic's and perhaps more, none of them durable:
    each is synced once for all queues, the inner ones first.

    Raises:
        DiskFailed: Some may be synced.
    """
    folders: dict[str, None] = {}
    for part in parts:
        for segment in sorted(part.segments, key=lambda one: one.start):
            sync_file(disk, segment.path)
        if part.folder is not None:
            folders[part.folder] = None
    for _ in range(FOLDERS_ABOVE):
        for folder in folders:
            disk.sync_folder(folder)
        folders = {os.path.dirname(folder): None for folder in folders}
    for folder in folders:
        disk.sync_folder(folder)


class QueueFiles:
    """The files; positions are bytes in the address space that they cut up.

    Args:
        files: Not loaded yet; all queues of a store share one bound of what is open.
    """

    __slots__ = ("_dirty", "_files", "_held", "_new_folder")

    def __init__(self, files: SegmentFiles) -> None:
        self._files = files
        self._dirty = _NONE
        self._held: _Held | None = None
        self._new_folder = False

    def load(self) -> bool:
        """Take up the files that are there; say whether there are any.

        Raises:
            ForeignStore: A file has a name or a length that none of them has.
        """
        self._files.load(derived=True)
        self._dirty = _NONE
        self._new_folder = False
        return len(self._files) > 0

    @property
    def folder(self) -> str:
        """Where they lie."""
        return self._files.folder

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All files, oldest first."""
        return self._files.segments

    @property
    def first(self) -> int:
        """The position of the first byte of the oldest file; 0 without files."""
        return self._files.first

    @property
    def end(self) -> int:
        """The position behind the last byte of the newest file; 0 without files."""
        return self._files.end_of_files

    @property
    def last(self) -> int:
        """The position of the first byte of the newest file."""
        return self.end - self._files.segment_bytes

    def adopt(self, first: int, last: int) -> None:
        """Take up the files from one that begins at `first` to one at `last`, without a look."""
        self._files.close()
        for start in range(first, last + 1, self._files.segment_bytes):
            self._files.adopt(start)

    def data_end(self, position: int) -> int:
        """Return the position behind which the file of a position was never written.

        As far as that is known; it is the end of the file where the disk cannot tell.
        """
        segment = self._files.segment(position)
        return segment.start + min(segment.file.data_end(), segment.size)

    def left(self, position: int) -> int:
        """Return how many bytes of its file lie from a position on."""
        return self._files.segment_bytes - position % self._files.segment_bytes

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from a position on, as they lie in one file.

        Raises:
            OffsetTooSmall, OffsetTooLarge: There is no file for them.
        """
        if self._held is not None:
            start, data = self._held
            if start <= position and position + size <= start + len(data):
                return data[position - start : position - start + size]
        segment = self._files.segment(position)
        at = position - segment.start
        return segment.file.read(at, min(size, segment.size - at))

    def has(self, position: int, data: bytes) -> bool:
        """Say whether a file has these bytes at a position."""
        is_inside = self.first <= position and position + len(data) <= self.end
        return is_inside and self.read(position, len(data)) == data

    def read_on(self, position: int, size: int, ahead: int) -> memoryview:
        """Do as `read`, for who will read on behind: up to `ahead` bytes are read and kept."""
        segment = self._files.segment(position)
        return segment.read_on(position - segment.start, size, ahead)

    def hold_end(self, start: int, unit_bytes: int, size: int) -> int:
        """Read the last units ever written of a file, and have `read` take them from memory.

        For who looks at them more than once. It ends when something is written or deleted, and
        with `close`.

        Args:
            start: The first byte of the file.
            unit_bytes: What a unit takes, of which each begins at a multiple of it.
            size: The most to read, a multiple of it.

        Returns:
            The position behind the last unit, of which bytes may be in what was never written.
        """
        file = self._files.segment(start).apart()
        try:
            written = min(file.data_end(), self._files.segment_bytes)
            end = written + -written % unit_bytes
            position = max(0, end - size)
            data = file.read(position, written - position)
            self._held = start + position, data.ljust(end - position, b"\0")
        finally:
            file.close()
        return start + end

    def write(self, position: int, data: bytes) -> None:
        """Write from a position on, one write a file; a file that is missing there is made.

        Raises:
            DiskFull, DiskFailed: Some of it may be written; it may be written again.
        """
        self._held = None
        if not self._files:
            self.add(position - position % self._files.segment_bytes)
        done = 0
        while done < len(data):
            at = position + done
            if at == self._files.end_of_files:
                self.add(at)
            segment = self._files.segment(at)
            part = data[done : done + segment.end - at]
            segment.write(at - segment.start, part)
            if segment not in self._dirty:
                self._dirty |= {segment}
            done += len(part)

    def add(self, start: int) -> None:
        """Make the file that begins at `start`, full of zeros."""
        self._files.add(start)
        self._new_folder = True

    def zero(self, start: int, stop: int) -> None:
        """Zero what is not zero in a range, as far as there are files.

        Costs a read of what was ever written of it, and no space on the disk.
        """
        stop = min(stop, self.end)
        position = max(start, self.first)
        while position < stop:
            file_end = position + self.left(position)
            file_start = file_end - self._files.segment_bytes
            data_end = stop
            if stop - position > _ZERO_BYTES:  # less is read more quickly than asked about
                data_end = min(self.data_end(position), stop)
            data_end = min(data_end, file_end)
            while position < data_end:
                data = self.read(position, min(_ZERO_BYTES, data_end - position))
                for part in written_ranges(data, position - file_start):
                    self.write(file_start + part.start, bytes(part.end - part.start))
                position += len(data)
            position = file_end

    def cut(self, position: int, old: int) -> None:
        """Zero from a position on to where the data ended; delete files that are left without any.

        A file that begins before `position` stays, and the oldest one: its name says where the
        queue goes on, and mostly it is written again at once.
        """
        self.drop_from(max(position, self.first + 1))
        self.zero(position, old)

    def drop_from(self, position: int) -> None:
        """Delete the files that begin at `position` or later."""
        self._held = None
        self._dirty = frozenset(one for one in self._dirty if one.start < position)
        if self._files.drop_from(position):
            self._new_folder = True

    def drop_before_steps(self, position: int) -> Steps:
        """Delete the files that end at `position` or before, except for the newest one."""
        self._held = None
        try:
            yield from self._files.drop_before_steps(position)
        finally:
            self._dirty &= frozenset(self._files.segments)

    def take_unsynced(self) -> Unsynced:
        """Return what is to be synced; it counts as synced unless it is given back."""
        taken = Unsynced(self._dirty, self._files.folder if self._new_folder else None)
        self._dirty, self._new_folder = _NONE, False
        return taken

    def give_back(self, taken: Unsynced) -> None:
        """Take back what was not synced after all."""
        self._dirty |= taken.segments
        self._new_folder = self._new_folder or taken.folder is not None

    def copy(self) -> "QueueFiles":
        """Return the same files with handles of their own, to be read on another thread."""
        return QueueFiles(self._files.copy())

    def close_but_hold(self, position: int) -> None:
        """Close the handles, but go on holding a little from a position on of what is held.

        For who is about to put there what most likely is there, and calls `let_go` then.
        """
        held = self._held
        self.close()
        if held is not None and held[0] <= position < held[0] + len(held[1]):
            at = position - held[0]
            self._held = position, held[1][at : at + _KEPT_BYTES]

    def let_go(self) -> None:
        """Hold nothing in memory any more."""
        self._held = None

    def close(self) -> None:
        """Close the handles."""
        self._held = None
        self._files.close()


def move_away(
    disk: Disk, folders: Iterable[str], name: str, target: str
) -> Callable[[], None] | None:
    """Move what has a name out of some folders, so that new files can be made there at once.

    Returns:
        What removes `target`, where it went, on any thread; None if nothing was there.
    Durability: on the disk when this returns.
    """
    found = [folder for folder in folders if disk.is_folder(f"{folder}/{name}")]
    for folder in found:
        disk.make_folder(target)
        disk.rename(f"{folder}/{name}", f"{target}/{len(disk.list(target))}")
        disk.sync_folder(folder)
        disk.sync_folder(target)
    return partial(disk.remove_tree, target) if found else None
