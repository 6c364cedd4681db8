"""What a process has left in the write-ahead log: for each queue, what its own files lack.

Reading changes nothing. It ends in each file at the first batch that is not whole: in the newest
one because a crash has cut it, or because an earlier use of the file begins there. In any other one
that is damage, and told; what is in later files counts all the same.

Who opens a virtual host removes recovery.dets before the log's first file is made, and writes it
when the last one is gone. So where both are, a RabbitMQ has run on what a kill has left, and has
changed the files that the log is about: the log is void.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, sync_file
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index, write_ahead
from sprocket.rabbitmq.codec.write_ahead import EntryKind, SegmentAppend, WriteAheadEntry
from sprocket.rabbitmq.store.layout import (
    VhostLayout,
    void_log_file,
    void_log_files,
    write_ahead_file,
    write_ahead_files,
)

_ALL_BYTES = 1 << 62


class JournalFault(NamedTuple):
    """What is wrong with a journal.jif, and from which byte on."""

    position: int
    what: str


@dataclass(slots=True)
class QueueTail:
    """What the log has of one queue.

    Attributes:
        journal_bytes: So much of its journal.jif counts, and comes first.
        records: Records of its journal, in order.
        appends: What flushes that may not be complete were to append to segments, in order.
        is_gone: Whatever files the queue has are void.
        queue_name: What its .queue_name holds, or would hold; empty if the log does not say.
    """

    journal_bytes: int = _ALL_BYTES
    records: list[bytes] = field(default_factory=list)
    appends: list[SegmentAppend] = field(default_factory=list)
    is_gone: bool = False
    queue_name: bytes = b""
    _records_before_flush: int | None = None

    def take(self, entry: WriteAheadEntry) -> None:
        """Add what an entry says."""
        match entry.kind:
            case EntryKind.RECORDS:
                self.records.append(entry.content)
            case EntryKind.FLUSH:
                self.appends += write_ahead.decode_flush(entry.content)
                self._records_before_flush = len(self.records)
            case EntryKind.APPENDS:
                self.appends += write_ahead.decode_flush(entry.content)
            case EntryKind.FLUSHED if self._records_before_flush is not None:
                del self.records[: self._records_before_flush]
                self.appends, self._records_before_flush = [], None
                self.journal_bytes, self.is_gone = 0, False
            case EntryKind.GONE:
                self.records, self.appends, self._records_before_flush = [], [], None
                self.journal_bytes, self.is_gone = 0, True

    @property
    def has_records_only(self) -> bool:
        """Whether it is these records that there are, if the queue has no folder."""
        is_other = self.journal_bytes or self.appends or self.is_gone
        return not is_other and self._records_before_flush is None

    def journal(self, data: bytes) -> bytes:
        """Return the records of a journal.jif that count, and those of the log behind them."""
        written = data[: self.journal_bytes]
        if not self.records:
            return written
        whole = written[: index.read_journal(written).stopped_at]  # so that more can follow
        return b"".join([whole, *self.records])

    def journal_fault(self, data: bytes) -> JournalFault | None:
        """Return what a journal.jif lacks that the log's records come behind; None if nothing.

        A flush that is under way may have emptied it.
        """
        size = self.journal_bytes
        if size == _ALL_BYTES or self._records_before_flush is not None:
            return None
        written = data[:size]
        if len(written) < size:
            what = f"expected {size} bytes, as the log says, found {len(written)}"
            return JournalFault(len(written), what)
        whole = index.read_journal(written).stopped_at if self.records else size
        if whole < size:
            return JournalFault(whole, f"{size - whole} bytes do not count")
        return None

    def whole_bytes(self, number: int, data: bytes) -> int:
        """Return up to where a segment counts: not what a flush was cut short in appending."""
        whole = len(data)
        for one in self.appends:
            end = one.position + one.size
            if one.number == number and (
                end > whole or crc32(memoryview(data)[one.position : end]) != one.crc
            ):
                return min(whole, one.position)
        return whole


@dataclass(frozen=True, slots=True)
class WriteAheadContents:
    """What was read.

    Attributes:
        tails: By what the queue's folder is called.
        are_journals_void: A journal.jif counts as far as its queue's tail says, and without one not
            at all; else one without a tail counts whole.
        numbers: Of the files.
        next_number: What the next file's number must be at least.
        next_sequence: What the next batch's number must be at least.
        findings: Sentences about damage.
        is_void: Nothing of it counts, as a RabbitMQ has run since; then there are no tails.
    """

    tails: dict[str, QueueTail]
    are_journals_void: bool
    numbers: list[int]
    next_number: int
    next_sequence: int
    findings: tuple[str, ...]
    is_void: bool = False

    def tail(self, folder: str) -> QueueTail:
        """Return what there is of a queue; of one that the log has not, how its journal counts."""
        found = self.tails.get(folder)
        if found is None:
            found = QueueTail(0 if self.are_journals_void else _ALL_BYTES)
        return found


NO_LOG = WriteAheadContents({}, False, [], 0, 0, ())
"""What is read where there is no log."""


def read_log(disk: Disk, folder: str) -> WriteAheadContents:
    """Read the whole log in a folder.

    Raises:
        DiskFailed: A file cannot be read.
    """
    tails: dict[str, QueueTail] = {}
    findings: list[str] = []
    listed = disk.list(folder)
    numbers = write_ahead_files(listed)
    next_number = max([*numbers, *void_log_files(listed)], default=-1) + 1
    if numbers and disk.exists(VhostLayout(folder).recovery_terms):
        return WriteAheadContents({}, False, numbers, next_number, 0, (), is_void=True)
    sequence: int | None = None
    are_void = False
    for number in numbers:
        path = write_ahead_file(folder, number)
        data = read_file(disk, path)
        expected = sequence
        names: dict[int, QueueTail] = {}
        found = next(iter(write_ahead.batches(data, None)), None)
        if found is not None and sequence is not None and found.sequence > sequence:
            findings.append(f"{path}: {found.sequence - sequence} batches before it are lost")
            expected = found.sequence
        for batch in write_ahead.batches(data, expected):
            sequence = batch.sequence + 1
            for entry in batch.entries:
                if entry.kind >= EntryKind.RECOVERED:
                    tails, names = {}, {}
                    are_void = entry.kind == EntryKind.RECOVERED
                    continue
                try:
                    _take(entry, names, tails)
                except CorruptRecord as error:
                    findings.append(f"{path}: {error}")
    return WriteAheadContents(tails, are_void, numbers, next_number, sequence or 0, tuple(findings))


def sync_log(disk: Disk, folder: str, numbers: Sequence[int]) -> None:
    """Make the log durable, as far as it was read.

    Raises:
        DiskFailed: It is not.
    """
    for number in numbers:
        sync_file(disk, write_ahead_file(folder, number))
    if numbers:
        disk.sync_folder(folder)


def set_aside(disk: Disk, folder: str, numbers: Sequence[int]) -> list[str]:
    """Give the files of a log that is void names that no log has, durably; return these.

    Raises:
        DiskFailed: Some have their old names still.
    """
    renamed = []
    for number in numbers:
        path = void_log_file(folder, number)
        disk.rename(write_ahead_file(folder, number), path)
        renamed.append(path)
    disk.sync_folder(folder)
    return renamed


def _take(entry: WriteAheadEntry, names: dict[int, QueueTail], tails: dict[str, QueueTail]) -> None:
    """Give an entry to the queue that it is about."""
    if entry.kind == EntryKind.NAME:
        named = write_ahead.decode_name(entry.content)
        tail = names[entry.origin] = tails.setdefault(named.folder, QueueTail())
        tail.journal_bytes = named.journal_bytes
        tail.queue_name = named.queue_name or tail.queue_name
        return
    if entry.origin not in names:
        raise CorruptRecord(f"an entry of origin {entry.origin}, which has no name")
    names[entry.origin].take(entry)
