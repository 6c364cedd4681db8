"""Writes records behind each other into the files of a compacted queue, and a unit for each.

Records are on the disk before their units are written, and units before anybody is told of them.
So a unit that a crash has left says of a record that is there, and what is told of survives it.

Threads: any, one at a time.
"""

from collections.abc import Iterator

from sprocket.base.disk import Buffer, Disk, File, create_segment
from sprocket.base.errors import MessageTooLarge
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.record import Entry, keyed, record
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES
from sprocket.rocketmq.store.compaction.compacted_file import (
    END_UNIT,
    UNIT_BYTES,
    CompactedFile,
    unit_of,
)
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders

WAITING_BYTES_MAX = 4 * MIB
"""Records that wait to be written at most, unless one is larger."""


def following_starts(last: CompactedFile | None, count: int, log_bytes: int) -> Iterator[int]:
    """Give the addresses at which new files begin behind the last one.

    Before each is room for as many files as there are then, which a round may make of them.

    Args:
        last: The last file; None if there is none.
        count: How many there are.
        log_bytes: The length of one.
    """
    if last is None:
        start, count = 0, 1
        yield start
    else:
        start = last.start
    while True:
        start += (count + 1) * log_bytes
        count += 1
        yield start


class CompactedWriter:
    """See the head of the module.

    Args:
        disk: Where the files lie.
        folders: Of the queue; those for a new file must be there.
        last: The file that is continued, unless it is closed; None if the first record makes one.
        starts: Where new files begin.

    Attributes:
        files: What was written to, in order, as it is on the disk after `flush`.
    """

    def __init__(
        self,
        disk: Disk,
        folders: QueueFolders,
        last: CompactedFile | None,
        starts: Iterator[int],
    ) -> None:
        self.files: list[CompactedFile] = []
        self._disk = disk
        self._folders = folders
        self._file = None if last is None or last.is_closed else last
        self._kept = self._file
        self._starts = starts
        self._handles: tuple[File, File] | None = None
        self._records: list[bytes] = []
        self._units: list[bytes] = []
        self._waiting_bytes = 0

    def add(self, stored: Buffer, entry: Entry) -> None:
        """Write a record behind the last one.

        Args:
            stored: The whole record, with the place of another log.
            entry: What its unit says.

        Raises:
            MessageTooLarge: No file has room for it.
            DiskFull, DiskFailed: Nothing since the last `flush` counts.
        """
        folders, file = self._folders, self._file
        if entry.size + BLANK_BYTES > folders.log_bytes:
            raise MessageTooLarge(
                f"a record of {entry.size} bytes does not fit into a file of {folders.log_bytes}"
            )
        if (
            file is None
            or file.count >= folders.count_max
            or file.bytes + entry.size + BLANK_BYTES > folders.log_bytes
        ):
            self.close_file()
            file = self._begin_file(next(self._starts))
        self._records.append(keyed.moved(stored, file.end))
        self._units.append(unit_of(entry, file.end))
        self._file = file.with_entry(entry)
        self._waiting_bytes += entry.size
        if self._waiting_bytes >= WAITING_BYTES_MAX:
            self.flush()

    def begin_anew(self) -> None:
        """Have the next record begin a new file."""
        self.close_file()

    def flush(self) -> None:
        """Write what waits, records first.

        Raises:
            DiskFull, DiskFailed: Nothing since the last call counts.
        Durability: all of it, on return.
        """
        file, kept = self._file, self._kept
        if file is None or not self._records:
            return
        log, units = self._opened(file)
        log.write(self._records, kept.bytes if kept is not None else 0)
        log.sync()
        units.write([b"".join(self._units)], (kept.count if kept is not None else 0) * UNIT_BYTES)
        units.sync()
        self._keep(file)
        self._records, self._units, self._waiting_bytes = [], [], 0

    def close_file(self) -> None:
        """Write what waits, and that the file is full; do nothing without a file. As `flush`."""
        self.flush()
        file = self._file
        if file is None:
            return
        log, units = self._opened(file)
        log.write([record.blank(self._folders.log_bytes - file.bytes)], file.bytes)
        log.sync()
        units.write([END_UNIT], file.count * UNIT_BYTES)
        units.sync()
        self._keep(
            CompactedFile(
                file.start, file.bytes, file.count, file.first, file.next_offset, is_closed=True
            )
        )
        self.close()
        self._file = self._kept = None

    def _begin_file(self, start: int) -> CompactedFile:
        folders = self._folders
        for path, size in (
            (folders.log_path(start), folders.log_bytes),
            (folders.units_path(start), folders.units_bytes),
        ):
            create_segment(self._disk, path, size, durable=True)
        file = CompactedFile(start)
        self._kept = None
        self._file = file
        return file

    def _opened(self, file: CompactedFile) -> tuple[File, File]:
        if self._handles is None:
            log = self._disk.open(self._folders.log_path(file.start), write=True)
            try:
                units = self._disk.open(self._folders.units_path(file.start), write=True)
            except BaseException:
                log.close()
                raise
            self._handles = log, units
        return self._handles

    def _keep(self, file: CompactedFile) -> None:
        """Note what is on the disk."""
        if self.files and self.files[-1].start == file.start:
            self.files.pop()
        self.files.append(file)
        self._kept = file

    def close(self) -> None:
        """Close what is open."""
        if self._handles is not None:
            for handle in self._handles:
                handle.close()
            self._handles = None
