"""What a process has left in the write-ahead log: for each queue, what its own files lack.

Reading changes nothing. It ends in each file at the first batch that is not whole: in the newest
one because a crash has cut it, or because an earlier use of the file begins there. In any other one
that is damage, and told; what is in later files counts all the same.
"""

from dataclasses import dataclass, field

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import write_ahead
from sprocket.rabbitmq.codec.write_ahead import EntryKind, SegmentAppend, WriteAheadEntry
from sprocket.rabbitmq.store.layout import write_ahead_file, write_ahead_files


@dataclass(slots=True)
class QueueTail:
    """What the log has of one queue.

    Attributes:
        journal_bytes: So much of its journal.jif counts, and comes first.
        records: Records of its journal, in order.
        appends: What flushes that may not be complete were to append to segments, in order.
        is_gone: Whatever files the queue has are void.
    """

    journal_bytes: int = 0
    records: list[bytes] = field(default_factory=list)
    appends: list[SegmentAppend] = field(default_factory=list)
    is_gone: bool = False
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


@dataclass(frozen=True, slots=True)
class WriteAheadContents:
    """What was read.

    Attributes:
        tails: By what the queue's folder is called.
        are_journals_void: A journal.jif counts as far as its queue's tail says, and without one not
            at all; else one without a tail counts whole.
        numbers: Of the files.
        next_sequence: What the next batch's number must be at least.
        findings: Sentences about damage.
    """

    tails: dict[str, QueueTail]
    are_journals_void: bool
    numbers: list[int]
    next_sequence: int
    findings: tuple[str, ...]


def read_log(disk: Disk, folder: str) -> WriteAheadContents:
    """Read the whole log in a folder.

    Raises:
        DiskFailed: A file cannot be read.
    """
    tails: dict[str, QueueTail] = {}
    findings: list[str] = []
    numbers = write_ahead_files(disk.list(folder))
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
    return WriteAheadContents(tails, are_void, numbers, sequence or 0, tuple(findings))


def _take(entry: WriteAheadEntry, names: dict[int, QueueTail], tails: dict[str, QueueTail]) -> None:
    """Give an entry to the queue that it is about."""
    if entry.kind == EntryKind.NAME:
        folder, journal_bytes = write_ahead.decode_name(entry.content)
        tail = names[entry.origin] = tails.setdefault(folder, QueueTail(journal_bytes))
        tail.journal_bytes = journal_bytes
        return
    if entry.origin not in names:
        raise CorruptRecord(f"an entry of origin {entry.origin}, which has no name")
    names[entry.origin].take(entry)
