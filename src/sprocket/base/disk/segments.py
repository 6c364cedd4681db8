"""An address space of bytes cut into files of one size.

A file's name is the offset of its first byte in 20 decimal digits. Logs and queues are kept so.
A file has its full length from its creation, so its length says nothing
about how much was written to it.

Invariants

1. Starts are multiples of the segment size and follow each other without a gap.
2. No file is opened before it is needed, and of each set only so many are open at once.
"""

import contextlib
import os
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec import Struct

from sprocket.base.disk.disk import Disk, Extent, File
from sprocket.base.disk.files import read_written, remove_if_there
from sprocket.base.disk.steps import Steps
from sprocket.base.errors import (
    DiskFailed,
    DiskFull,
    FileMissing,
    ForeignStore,
    OffsetTooLarge,
    OffsetTooSmall,
)
from sprocket.base.units import KIB

NAME_DIGITS = 20


@lru_cache(maxsize=4096)
def segment_name(start: int) -> str:
    """Return the file name for the segment that begins at `start` bytes."""
    return f"{start:020d}"


OPEN_SEGMENTS_MAX = 32
"""Files of one set that are open at once: of a log, the few that are written and read now."""

READ_BLOCK_BYTES = 4 * KIB
"""What cannot be read if a sector cannot: its block, or a page of the system's."""
_ZERO_BLOCK = bytes(READ_BLOCK_BYTES)


class ShortFile(Struct, frozen=True):
    """A file that is shorter than it should be, and how many bytes it has."""

    path: str
    bytes: int


class Unreadable(NamedTuple):
    """A range of a file that the disk does not give: first position, the one after, and why."""

    start: int
    end: int
    why: str


class Piece(NamedTuple):
    """Bytes of a file, and what directly after them cannot be read, if anything."""

    data: bytes
    unreadable: Unreadable | None


class SegmentWindow(NamedTuple):
    """The written part of one file: `view` is `[start, end)` of the set."""

    view: memoryview
    start: int
    end: int


class OpenFiles:
    """The segments that have their file open, together no more than a limit; the oldest goes.

    A file that is let go stays open as long as somebody has it in hand, a sync or a read on another
    thread or the view of an answer, and is closed with the last of them. One that is mapped holds
    two descriptors.
    """

    def __init__(self, limit: int = OPEN_SEGMENTS_MAX) -> None:
        self._limit = limit
        self._open: dict[Segment, None] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def opening(self, segment: "Segment") -> None:
        """Make room for a segment that is about to be opened."""
        while len(self._open) >= self._limit:
            next(iter(self._open)).let_go()
        self._open[segment] = None

    def closed(self, segment: "Segment") -> None:
        """Note that a segment has no file any more."""
        self._open.pop(segment, None)


class Segment:
    """One file of the set; its name tells `start`, the offset of its first byte.

    Where the file is shorter than `size`, zeros stand for the rest.
    """

    __slots__ = (
        "_ahead",
        "_ahead_at",
        "_disk",
        "_file",
        "_folder",
        "_open_files",
        "_view",
        "_write",
        "size",
        "start",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        start: int,
        size: int,
        *,
        write: bool,
        open_files: OpenFiles,
    ) -> None:
        self._folder = folder
        self.start = start
        self.size = size
        self._disk = disk
        self._write = write
        self._open_files = open_files
        self._file: File | None = None
        self._view: memoryview | None = None
        self._ahead = b""
        self._ahead_at = 0

    @property
    def path(self) -> str:
        """The file. It is not kept, as there may be a file for each of very many queues."""
        return f"{self._folder}/{segment_name(self.start)}"

    @property
    def end(self) -> int:
        """The offset after the last byte that the file can hold."""
        return self.start + self.size

    @property
    def is_open(self) -> bool:
        """Whether a file handle is held."""
        return self._file is not None

    @property
    def file(self) -> File:
        """The file, opened when first asked for."""
        if self._file is None:
            self._open_files.opening(self)
            try:
                self._file = self._disk.open(self.path, write=self._write)
            except BaseException:
                self._open_files.closed(self)
                raise
        return self._file

    def apart(self) -> File:
        """Return a handle of its own for one look at the file; the caller closes it."""
        return self._disk.open(self.path)

    @property
    def view(self) -> memoryview:
        """A read-only view of the whole file that sees later writes; mapped at first use.

        A sector that cannot be read kills the process that looks at it here. So only what was
        written a moment ago is looked at in this way; all else with `read`.
        """
        if self._view is None:
            self._view = self.file.view()
        return self._view

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, all of them inside the segment.

        What was never written, or lies after the end of a short file, is zeros; the system is not
        asked for it.

        Raises:
            DiskFailed: Some of it cannot be read; `readable` says how much can.
        """
        assert 0 <= position <= position + size <= self.size
        return read_written(self.file, position, size)

    def read_on(self, position: int, size: int, ahead: int) -> memoryview:
        """Return `size` bytes from `position`, or what the segment has of them.

        It is for a reader that will continue after them: up to `ahead` bytes are read and kept
        while the file is open. So it must not be written but by `write`.

        Raises:
            DiskFailed: Some of the `size` bytes cannot be read.
        """
        data, at = self._ahead, position - self._ahead_at
        if not 0 <= at <= len(data) - size:
            try:
                data = self.file.read(position, max(size, ahead))
            except FileMissing:
                raise
            except DiskFailed:
                data = self.file.read(position, size)
            self._ahead, self._ahead_at, at = data, position, 0
        return memoryview(data)[at : at + size]

    def write(self, position: int, data: bytes) -> None:
        """Write at a position inside the segment.

        Raises:
            DiskFull, DiskFailed: See `File.write`.
        """
        if position < self._ahead_at + len(self._ahead):
            self._ahead = b""
        self.file.write([data], position)

    def readable(self, position: int, size: int) -> "Piece":
        """Return what can be read of a range, up to the first place that cannot.

        Cost: where something cannot, each block before it is read by itself.
        """
        try:
            return Piece(self.read(position, size), None)
        except FileMissing:
            raise
        except DiskFailed:
            parts: list[bytes] = []
        at, end = position, position + size
        while at < end:
            stop = min(at - at % READ_BLOCK_BYTES + READ_BLOCK_BYTES, end)
            try:
                parts.append(self.read(at, stop - at))
            except FileMissing:
                raise
            except DiskFailed as error:
                return Piece(b"".join(parts), Unreadable(at, stop, str(error)))
            at = stop
        return Piece(b"".join(parts), None)

    def let_go(self) -> None:
        """Forget handle and view, which close when nobody uses them; the next use opens anew."""
        self._view = self._file = None
        self._ahead = b""
        self._open_files.closed(self)

    def release(self) -> None:
        """Close the handle and forget the view; the next use opens the file again."""
        file = self._file
        if file is not None:
            self.let_go()
            file.close()


class SegmentReader:
    """Reads a segment from front to back, by calls that can fail, a piece at a time.

    A piece has `piece_bytes`, where this much was written.
    """

    def __init__(self, segment: Segment, piece_bytes: int) -> None:
        self.segment = segment
        self.start = 0
        self.data = memoryview(b"")
        self.unreadable: Unreadable | None = None
        self._piece_bytes = piece_bytes

    @property
    def end(self) -> int:
        """The position after the last byte of `data`."""
        return self.start + len(self.data)

    def bring(self, position: int, size: int) -> int:
        """Read `size` bytes from a position on into `data`, or as many as the segment has of them.

        `data` begins at the position `start`; directly after it lies what is `unreadable`, if
        anything is. What was handed out before stays valid.

        Returns:
            Where in `data` the position is.
        """
        size = min(size, self.segment.size - position)
        is_there = self.start <= position and position + size <= self.end
        if not is_there and not (self.unreadable and self.start <= position <= self.end):
            extent = self.segment.file.next_data(position)
            stop = extent.end if extent.start < position + size else position
            stop = min(stop, position + self._piece_bytes, self.segment.size)
            piece = self.segment.readable(position, max(size, stop - position))
            self.start, self.data = position, memoryview(piece.data)
            self.unreadable = piece.unreadable
        return position - self.start


class SegmentFiles:
    """The files of one folder, in order; the folder is made when the first one is added.

    Without `write` nothing is changed on the disk. `open_files` is given where several sets share
    one bound.

    Threads: one at a time.
    """

    __slots__ = (
        "_disk",
        "_is_drop_unsynced",
        "_open_files",
        "_segments",
        "_write",
        "folder",
        "segment_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        segment_bytes: int,
        *,
        write: bool = True,
        open_files: OpenFiles | None = None,
    ) -> None:
        assert segment_bytes > 0
        self._open_files = OpenFiles() if open_files is None else open_files
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._disk = disk
        self._write = write
        self._segments: list[Segment] = []
        self._is_drop_unsynced = False

    def load(self, *, derived: bool = False) -> list[str]:
        """Load the files that are there; return the names that were left out.

        An empty last file is the trace of a crash between creating and lengthening; it is removed.

        Args:
            derived: The files can be made again from elsewhere: from the first one that is not as
                it should be on, all are removed instead of refused; other names mean nothing.

        Raises:
            ForeignStore: A name is not an offset, a length is not the segment size, or files are
                missing in between. For reading only a file may be too short.
        """
        self.close()
        self._segments = []
        sizes = self._disk.sizes(self.folder)
        names = [name for name in sizes if is_segment_name(name)] if derived else [*sizes]
        dropped = []
        if names and sizes[names[-1]] == 0:
            dropped = [names.pop()]
            self._discard(dropped)
        may_be_short = not (derived or self._write)
        for position, name in enumerate(names):
            size = sizes[name]
            start = int(name) if derived or is_segment_name(name) else None
            if start is not None and (
                size == self.segment_bytes or (size < self.segment_bytes and may_be_short)
            ):
                is_next = not self._segments or start == self.end_of_files
                if is_next and start % self.segment_bytes == 0:
                    self._segments.append(self._segment(start))
                    continue
            if not derived:
                raise ForeignStore(f"{self._path(name)}: {self._defect(name, size)}")
            self._discard(names[position:])
            return dropped + names[position:]
        return dropped

    def _defect(self, name: str, size: int) -> str:
        """Say what is wrong with a file."""
        if not is_segment_name(name):
            return "the name is not an offset of 20 digits"
        if int(name) % self.segment_bytes:
            return f"the name is not a multiple of the file size {self.segment_bytes}"
        if self._segments and int(name) != self.end_of_files and size == self.segment_bytes:
            return f"expected the file {segment_name(self.end_of_files)} before it"
        return f"expected {self.segment_bytes} bytes, found {size}"

    def _discard(self, names: list[str]) -> None:
        if self._write:
            for name in names:
                self._disk.remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _segment(self, start: int) -> Segment:
        return Segment(
            self._disk,
            self.folder,
            start,
            self.segment_bytes,
            write=self._write,
            open_files=self._open_files,
        )

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All files, oldest first."""
        return tuple(self._segments)

    @property
    def first(self) -> int:
        """The offset of the first byte of the oldest file; 0 without files."""
        return self._segments[0].start if self._segments else 0

    @property
    def end_of_files(self) -> int:
        """The offset after the last byte of the newest file; 0 without files."""
        return self._segments[-1].end if self._segments else 0

    def segment(self, offset: int) -> Segment:
        """Return the file that covers `offset`.

        Raises:
            OffsetTooSmall: It lies before the oldest file.
            OffsetTooLarge: It lies after the newest one.
        """
        segments = self._segments
        if not segments:
            raise OffsetTooLarge(offset, 0)
        index = (offset - segments[0].start) // self.segment_bytes
        if index < 0:
            raise OffsetTooSmall(offset, segments[0].start)
        if index >= len(segments):
            raise OffsetTooLarge(offset, self.end_of_files)
        return segments[index]

    def add(self, start: int, *, durable: bool = False) -> Segment:
        """Create the file that begins at `start`, full of zeros that take no space.

        Args:
            start: A multiple of the segment size; the end of the files if there are any.
            durable: Return when its size and its name are on the disk, and those of folders that
                had to be made for it.
        """
        assert start % self.segment_bytes == 0
        assert not self._segments or start == self.end_of_files
        assert self._write
        self._disk.make_folder(self.folder, durable=durable)
        segment = self._segment(start)
        create_segment(self._disk, segment.path, self.segment_bytes, durable=durable)
        self._segments.append(segment)
        return segment

    def adopt(self, start: int) -> Segment:
        """Add the next file, which somebody made with `create_segment`."""
        assert not self._segments or start == self.end_of_files
        segment = self._segment(start)
        self._segments.append(segment)
        return segment

    def drop_from(self, offset: int, *, durable: bool = False) -> list[int]:
        """Delete the files that begin at `offset` or later, newest first; return their starts.

        If `durable`, each deletion is on the disk before the next one, so that no crash leaves a
        gap between the files.
        """
        dropped = []
        while self._segments and self._segments[-1].start >= offset:
            segment = self._segments[-1]
            segment.release()
            self._disk.remove(segment.path)
            if durable:
                self._disk.sync_folder(self.folder)
            dropped.append(self._segments.pop().start)
        return dropped

    def drop_before_steps(self, offset: int) -> Steps:
        """Delete the files that end at `offset` or before, oldest first, but never the newest.

        Each is gone on the disk before the next one goes, so that no crash leaves a gap. Views of
        them stay readable. After an error the rest is still there and may be dropped later.
        """
        while len(self._segments) > 1 and self._segments[0].end <= offset:
            segment = self._segments[0]
            _ = segment.file  # who reads it while it goes needs no name
            if self._is_drop_unsynced:
                yield partial(self._disk.sync_folder, self.folder)
            yield partial(remove_if_there, self._disk, segment.path)
            segment.release()
            del self._segments[0]
            self._is_drop_unsynced = True
            yield partial(self._disk.sync_folder, self.folder)
            self._is_drop_unsynced = False

    def copy(self) -> "SegmentFiles":
        """Return the same files with handles of their own, to be read on another thread."""
        same = SegmentFiles(self._disk, self.folder, self.segment_bytes, write=False)
        same._segments = [same._segment(segment.start) for segment in self._segments]
        return same

    def close(self) -> None:
        """Close every handle; the set stays usable."""
        for segment in self._segments:
            segment.release()


def short_files(disk: Disk, folder: str, segment_bytes: int) -> list[ShortFile]:
    """Return the files of a set that are not as long as they should be.

    Only for a set whose segment size is known for certain: one of smaller files looks the same. An
    empty last file is not among them: `SegmentFiles.load` knows what that is. Nor is any if there
    are names that do not fit: then the files are not what they seem.
    """
    sizes = disk.sizes(folder)
    if not all(is_segment_name(name, segment_bytes) for name in sizes):
        return []
    found = [ShortFile(f"{folder}/{name}", size) for name, size in sizes.items()]
    if found and found[-1].bytes == 0:
        found.pop()
    return [one for one in found if one.bytes < segment_bytes]


def written_ranges(data: bytes | memoryview, position: int) -> list[Extent]:
    """Return the ranges of a file that have to be written to make all of them zeros.

    They begin and end with something else, and between them lie whole blocks of zeros: these may
    never have been written, and would take space that a full disk does not have.

    Args:
        data: What the file has from a position on.
        position: That position.
    """
    found: list[Extent] = []
    for start in range(
        position - position % READ_BLOCK_BYTES, position + len(data), READ_BLOCK_BYTES
    ):
        begin = max(start, position)
        block = bytes(data[begin - position : start + READ_BLOCK_BYTES - position])
        if block == _ZERO_BLOCK:  # mostly; to strip it would take 30 times as long
            continue
        written = block.rstrip(b"\0")
        if written:
            first = begin + len(block) - len(block.lstrip(b"\0"))
            if found and found[-1].end == first == start:
                first = found.pop().start
            found.append(Extent(first, begin + len(written)))
    return found


def is_segment_name(name: str, segment_bytes: int = 1) -> bool:
    """Say whether a file of a set may have a name."""
    is_offset = len(name) == NAME_DIGITS and name.isascii() and name.isdigit()
    return is_offset and int(name) % segment_bytes == 0


def fill_up(disk: Disk, short: Sequence[ShortFile], segment_bytes: int) -> None:
    """Give files their length; zeros that take no space stand for what they lack.

    Durability: on return the lengths are on the disk.
    """
    for one in short:
        file = disk.open(one.path, write=True)
        try:
            file.resize(segment_bytes)
            file.sync()
        finally:
            file.close()


def create_segment(disk: Disk, path: str, segment_bytes: int, *, durable: bool) -> None:
    """Create a segment's file, full of zeros, in place of one that a failed attempt left behind.

    Its folder exists, and what is there holds nothing that is wanted. If `durable`, size and name
    are on the disk on return.

    Raises:
        DiskFull, DiskFailed: The file is not there, if it could be removed.
    Threads: any.
    """
    if disk.exists(path):
        disk.remove(path)
    try:
        file = disk.open(path, write=True, create=True, size=segment_bytes)
        try:
            if durable:
                file.sync()
                disk.sync_folder(os.path.dirname(path))
        finally:
            file.close()
    except (DiskFull, DiskFailed):
        with contextlib.suppress(DiskFailed):
            disk.remove(path)
        raise
