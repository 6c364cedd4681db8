"""An address space of bytes cut into files of one size, as RocketMQ's MappedFileQueue names them.

A file's name is the offset of its first byte in 20 decimal digits. The CommitLog and every
ConsumeQueue are kept so. A file has its full length from its creation, so its length says nothing
about how much was written to it.

Invariants

1. Starts are multiples of the segment size and follow each other without a gap.
2. No file is opened before it is needed.
"""

import contextlib
import os
from functools import lru_cache, partial
from typing import NamedTuple

from sprocket.base.disk import Disk, File
from sprocket.base.errors import DiskFailed, DiskFull, ForeignStore, OffsetTooLarge, OffsetTooSmall
from sprocket.base.files import remove_if_there
from sprocket.base.steps import Steps

NAME_DIGITS = 20


@lru_cache(maxsize=4096)
def segment_name(start: int) -> str:
    """Return the file name for the segment that begins at `start` bytes."""
    return f"{start:020d}"


class Window(NamedTuple):
    """The written part of one file: `view` is `[start, end)` of the set."""

    view: memoryview
    start: int
    end: int


class Segment:
    """One file of the set; `start` is the offset of its first byte."""

    __slots__ = ("_disk", "_file", "_view", "_write", "path", "size", "start")

    def __init__(self, disk: Disk, path: str, start: int, size: int, *, write: bool) -> None:
        self.path = path
        self.start = start
        self.size = size
        self._disk = disk
        self._write = write
        self._file: File | None = None
        self._view: memoryview | None = None

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
            self._file = self._disk.open(self.path, write=self._write)
        return self._file

    @property
    def view(self) -> memoryview:
        """A read-only view of the whole file that sees later writes; mapped at first use."""
        if self._view is None:
            self._view = self.file.view()
        return self._view

    def release(self) -> None:
        """Close the handle and forget the view; the next use opens the file again."""
        self._view = None
        if self._file is not None:
            self._file.close()
            self._file = None


class SegmentFiles:
    """The files of one folder, in order.

    Args:
        disk: Where they lie.
        folder: Their folder; made when the first file is added.
        segment_bytes: Length of every file.
        write: Whether files are opened for writing; if not, nothing is changed on the disk.
    Threads: one at a time.
    """

    def __init__(self, disk: Disk, folder: str, segment_bytes: int, *, write: bool = True) -> None:
        assert segment_bytes > 0
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._disk = disk
        self._write = write
        self._segments: list[Segment] = []
        self._is_drop_unsynced = False

    def load(self, *, derived: bool = False) -> list[str]:
        """Take up the files that are there; return the names that were not taken.

        An empty last file is the trace of a crash between creating and lengthening; it is removed.

        Args:
            derived: The files can be made again from elsewhere: from the first one that is too
                short or follows a gap on, all are removed instead of refused.

        Raises:
            ForeignStore: A name is no offset, a length is not the segment size, or files are
                missing in between.
        """
        self.close()
        self._segments = []
        names = [
            name
            for name in self._disk.list(self.folder)
            if len(name) == NAME_DIGITS or not self._disk.is_folder(self._path(name))
        ]
        if names and self._disk.size(self._path(names[-1])) == 0:
            self._discard([names[-1]])
            dropped = [names.pop()]
        else:
            dropped = []
        for position, name in enumerate(names):
            wrong = self._defect(name)
            if wrong is None:
                self._segments.append(self._segment(int(name)))
            elif derived and wrong[1]:
                self._discard(names[position:])
                return dropped + names[position:]
            else:
                raise ForeignStore(f"{self._path(name)}: {wrong[0]}")
        return dropped

    def _defect(self, name: str) -> tuple[str, bool] | None:
        """Say what is wrong with a file and whether a crash could have done it."""
        if len(name) != NAME_DIGITS or not (name.isascii() and name.isdigit()):
            return "the name is not an offset of 20 digits", False
        start = int(name)
        if start % self.segment_bytes:
            return f"the name is no multiple of the file size {self.segment_bytes}", False
        size = self._disk.size(self._path(name))
        if size != self.segment_bytes:
            short = size < self.segment_bytes
            return f"expected {self.segment_bytes} bytes, found {size}", short
        if self._segments and start != self.end_of_files:
            return f"expected the file {segment_name(self.end_of_files)} before it", True
        return None

    def _discard(self, names: list[str]) -> None:
        if self._write:
            for name in names:
                self._disk.remove(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _segment(self, start: int) -> Segment:
        path = self._path(segment_name(start))
        return Segment(self._disk, path, start, self.segment_bytes, write=self._write)

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
            OffsetTooLarge: It lies behind the newest one.
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
            durable: Return when its size and its name are on the disk.
        """
        assert start % self.segment_bytes == 0
        assert not self._segments or start == self.end_of_files
        assert self._write
        self._disk.make_folder(self.folder)
        segment = self._segment(start)
        create_segment(self._disk, segment.path, self.segment_bytes, durable=durable)
        self._segments.append(segment)
        return segment

    def adopt(self, start: int) -> Segment:
        """Take up the next file, which somebody made with `create_segment`."""
        assert not self._segments or start == self.end_of_files
        segment = self._segment(start)
        self._segments.append(segment)
        return segment

    def drop_from(self, offset: int, *, durable: bool = False) -> list[int]:
        """Delete the files that begin at `offset` or later, newest first; return their starts.

        Args:
            offset: Where the first file to delete may begin.
            durable: Each deletion is on the disk before the next one, so that no crash leaves a
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
            _ = segment.view  # who reads it while it goes needs no name
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


def lengthen_last(disk: Disk, folder: str, segment_bytes: int) -> None:
    """Give the last file of a set its length back, if it was cut off; zeros stand for the rest.

    Only for a set whose segment size is known for certain: one of smaller files looks the same.
    """
    name = next(iter(disk.list(folder)[-1:]), "")
    path = f"{folder}/{name}"
    if len(name) == NAME_DIGITS and name.isdigit() and 0 < disk.size(path) < segment_bytes:
        file = disk.open(path, write=True)
        try:
            file.resize(segment_bytes)
        finally:
            file.close()


def create_segment(disk: Disk, path: str, segment_bytes: int, *, durable: bool) -> None:
    """Create a segment's file, in place of one that a failed attempt left behind.

    Args:
        disk: Where.
        path: The file, in an existing folder; it holds nothing that is wanted.
        segment_bytes: Its length; its content is zeros.
        durable: Return when size and name are on the disk.

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
