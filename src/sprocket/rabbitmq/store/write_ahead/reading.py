"""What a process has left in the write-ahead log: for each queue, what its own files lack.

Reading changes nothing. The log ends where no batch follows any more. What is not a batch and has
batches after it is damage if a later batch says that it was durable: it is reported and skipped. If
it may never have been, a crash has kept what was written later and not this, and the log ends
there, as what came later may rest on it: an acknowledgement on the copy that a dead letter is.

For the same reason it ends at a batch that names a message of the message store which is not there
whole, unless that is known to have been durable.

Opening a virtual host removes recovery.dets before the log's first file is made, and writes it
when the last one is gone. So where both are, a RabbitMQ has run on what a kill has left, and has
changed the files that the log is about: the log is void.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, sync_file
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import checksums, index, write_ahead
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.index import RecordKind
from sprocket.rabbitmq.codec.write_ahead import (
    EntryKind,
    SegmentAppend,
    WriteAheadBatch,
    WriteAheadEntry,
    WriteAheadGap,
)
from sprocket.rabbitmq.store.layout import (
    DELAYED_ORIGIN,
    STORE_ORIGIN,
    MessageStoreLayout,
    VhostLayout,
    void_log_file,
    void_log_files,
    write_ahead_file,
    write_ahead_files,
)
from sprocket.rabbitmq.store.write_ahead.named_messages import missing_messages

_PUBLISH = RecordKind.PUBLISH_PERSISTENT, RecordKind.PUBLISH_TRANSIENT
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
        """Return the records of a journal.jif that count, and those of the log after them."""
        written = data[: self.journal_bytes]
        if not self.records:
            return written
        whole = written[: index.read_journal(written).stopped_at]  # so that more can follow
        return b"".join([whole, *self.records])

    def journal_fault(self, data: bytes) -> JournalFault | None:
        """Return what a journal.jif lacks that the log's records come after; None if nothing.

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
        cut_bytes: Of its end, which does not count: what a crash has cut, and what is after that.
        void_sums: Checksums of messages of the store that batches name which do not count: other
            files may have the messages.
    """

    tails: dict[str, QueueTail]
    are_journals_void: bool
    numbers: list[int]
    next_number: int
    next_sequence: int
    findings: tuple[str, ...]
    is_void: bool = False
    cut_bytes: int = 0
    void_sums: bytes = b""

    @property
    def store_sums(self) -> bytes:
        """Checksums of messages of the store, in the form of `codec.checksums`."""
        tail = self.tails.get(STORE_ORIGIN)
        return b"".join([*(tail.records if tail is not None else ()), self.void_sums])

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
    listed = disk.list(folder)
    numbers = write_ahead_files(listed)
    next_number = max([*numbers, *void_log_files(listed)], default=-1) + 1
    if numbers and disk.exists(VhostLayout(folder).recovery_terms):
        return WriteAheadContents({}, False, numbers, next_number, 0, (), is_void=True)
    found = _Scanned()
    for number in numbers:
        path = write_ahead_file(folder, number)
        found.add(path, write_ahead.scan(read_file(disk, path), number, found.next_sequence))
    counted = _counted(found, disk, VhostLayout(folder).persistent)
    tails: dict[str, QueueTail] = {}
    are_void = False
    for path, batch in counted.batches:
        for entry in batch.entries:
            if entry.kind == EntryKind.PLACE:
                continue
            if entry.kind >= EntryKind.RECOVERED:
                tails = {}
                are_void = entry.kind == EntryKind.RECOVERED
                continue
            try:
                _take(entry, found.names[path], tails)
            except CorruptRecord as error:
                counted.findings.append(f"{path}: {error}")
    return WriteAheadContents(
        tails,
        are_void,
        numbers,
        next_number,
        counted.batches[-1].batch.sequence + 1 if counted.batches else 0,
        tuple(counted.findings),
        cut_bytes=counted.cut_bytes,
        void_sums=b"".join([*found.void_sums, *counted.void_sums]),
    )


class _Batch(NamedTuple):
    """A batch, and the file that it is in."""

    path: str
    batch: WriteAheadBatch


class _Gap(NamedTuple):
    """What is not a batch, and the file that it is in."""

    path: str
    gap: WriteAheadGap


@dataclass(slots=True)
class _Scanned:
    """What all files have.

    Attributes:
        items: In order.
        names: What the numbers of origins stand for, by file: a name may be in a damaged batch,
            and stand there once more.
        next_sequence: What the next batch's number should be; None if there is no batch.
        void_sums: Checksums of messages of the store that batches name which were left out.
    """

    items: list[_Batch | _Gap] = field(default_factory=list)
    names: dict[str, dict[int, str]] = field(default_factory=dict)
    next_sequence: int | None = None
    void_sums: list[bytes] = field(default_factory=list)

    def add(self, path: str, scanned: Iterable[WriteAheadBatch | WriteAheadGap]) -> None:
        """Add what one more file has."""
        names = self.names.setdefault(path, {})
        is_first = True
        for one in scanned:
            if isinstance(one, WriteAheadGap):
                self.items.append(_Gap(path, one))
                continue
            if is_first:
                self._cut(one.sequence)
                is_first = False
            self.items.append(_Batch(path, one))
            self.next_sequence = one.sequence + 1
            for entry in one.entries:
                if entry.kind == EntryKind.NAME:
                    with contextlib.suppress(CorruptRecord):
                        names[entry.origin] = write_ahead.decode_name(entry.content).folder

    def _cut(self, sequence: int) -> None:
        """Leave out what recovery has not counted: it has gone on in a new file from there."""
        if self.next_sequence is None or self.next_sequence <= sequence:
            return
        while self.items:
            last = self.items[-1]
            if isinstance(last, _Batch):
                if last.batch.sequence < sequence:
                    return
                self.void_sums += _sums(last.batch, self.names[last.path])
            self.items.pop()


@dataclass(slots=True)
class _Counted:
    """Which batches count, what is damaged, and how much of the end does not count."""

    batches: list[_Batch] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    cut_bytes: int = 0
    void_sums: list[bytes] = field(default_factory=list)


def _counted(found: _Scanned, disk: Disk, store: MessageStoreLayout) -> _Counted:
    """Say which batches count: up to the first that is missing and may never have been durable.

    So does one that names a message of the store which is not there.
    """
    batches = [one for one in found.items if isinstance(one, _Batch)]
    synced = max((one.batch.synced for one in batches), default=0)
    named = {
        message_id: known
        for one in batches
        if one.batch.sequence >= synced
        for message_id, known in _stored(one.batch, found.names[one.path]).items()
    }
    missing = missing_messages(disk, store, named) if named else set()
    result = _Counted()
    gaps: list[_Gap] = []
    expected: int | None = None
    is_end = False
    for one in found.items:
        if isinstance(one, _Gap):
            gaps.append(one)
            continue
        batch = one.batch
        first = max(batch.sequence - bool(gaps), 0) if expected is None else expected
        if not is_end and first < batch.sequence:
            is_end = batch.sequence > synced
            if not is_end:
                result.findings += _damage(one, batch.sequence - first, gaps, found.names)
        is_end = is_end or (
            batch.sequence >= synced
            and not missing.isdisjoint(_stored(batch, found.names[one.path]))
        )
        if is_end:
            result.cut_bytes += batch.end - batch.start
            result.void_sums += _sums(batch, found.names[one.path])
            continue
        gaps, expected = [], batch.sequence + 1
        result.batches.append(one)
    result.cut_bytes += sum(one.gap.end - one.gap.start for one in gaps)
    return result


def _sums(batch: WriteAheadBatch, names: dict[int, str]) -> list[bytes]:
    """Return the checksums of messages of the store that a batch names."""
    return [
        entry.content
        for entry in batch.entries
        if entry.kind == EntryKind.RECORDS and names.get(entry.origin) == STORE_ORIGIN
    ]


def _stored(batch: WriteAheadBatch, names: dict[int, str]) -> dict[bytes, TermSum]:
    """Return the same by the messages' ids."""
    return checksums.decode(b"".join(_sums(batch, names)))


def _damage(
    later: _Batch, count: int, gaps: Sequence[_Gap], names: dict[str, dict[int, str]]
) -> list[str]:
    """Say which batches are lost before one that is there."""
    if not gaps:
        return [f"{later.path}: {count} batches before it are lost"]
    first = gaps[0]
    messages = 0
    for path, gap in gaps:
        folders = names[path]
        messages += sum(
            sum(row.kind in _PUBLISH for row in index.journal_rows(entry.content).rows)
            for entry in gap.entries
            if entry.kind == EntryKind.RECORDS
            and folders.get(entry.origin) not in (STORE_ORIGIN, DELAYED_ORIGIN)
        )
    what = f"{count} batches before that of number {later.batch.sequence} are damaged"
    known = f"with {messages} messages as far as can be seen"
    return [f"{first.path} at {first.gap.start}: {what}, {known}"]


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


def _take(entry: WriteAheadEntry, names: dict[int, str], tails: dict[str, QueueTail]) -> None:
    """Give an entry to the queue that it is about."""
    if entry.kind == EntryKind.NAME:
        named = write_ahead.decode_name(entry.content)
        tail = tails.setdefault(named.folder, QueueTail())
        tail.journal_bytes = named.journal_bytes
        tail.queue_name = named.queue_name or tail.queue_name
        return
    folder = names.get(entry.origin)
    if folder is None:
        raise CorruptRecord(f"an entry of origin {entry.origin}, which has no name")
    tails.setdefault(folder, QueueTail()).take(entry)
