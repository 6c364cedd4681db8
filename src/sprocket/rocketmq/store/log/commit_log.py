"""The log: every record of every topic, one after the other, in files of one size.

A record is encoded when it is appended, so its offset is known at once, and held in memory until
`write` hands everything appended since then to the file system, one call per file touched. When a
record and the 8 bytes of a blank record do not fit into the rest of a file, a blank ends the file
and the record begins the next one.

Invariants

1. `written` ≤ `end`; both lie inside a file or at the beginning of one that is yet to be made.
2. Behind each record at least 8 bytes of its file are left, for the blank.
3. After a failed `write` nothing that was appended since the last good one exists: `end` is back at
   `written` and what reached the files is overwritten with zeros. Where even that fails, nothing is
   written before `undo` has done it. If the sync of the zeros fails, the log refuses to go on.

Source: RocketMQ `CommitLog`, `MappedFileQueue`; see docs/formats/record.md.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TypeAlias

from sprocket.base.disk import File, Segment, SegmentFiles, SegmentWindow, written_ranges
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    DiskRefused,
    MessageTooLarge,
    OffsetTooLarge,
    StoreFailed,
    WireError,
)
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, parts
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.log.log_stream import StoredRecords
from sprocket.rocketmq.store.log.tail import Run, Tail

Range: TypeAlias = tuple[File, int, int]
"""File, position in it, and size."""

RunWrite: TypeAlias = Callable[[Callable[[], int], int], int]
"""Makes a call that writes about so many bytes to one file; returns what it says, or raises it. Any
thread may make it, but it has ended when this returns."""

_ZERO_CHUNK = bytes(256 * KIB)


class CommitLog:
    """Appends to and reads from the log's files.

    Args:
        files: Its files, loaded.
        end: Where the next record goes, as recovery found it.
        crc_tail: Whether records get a checksum over all of them.

    Attributes:
        end: Where the next record goes.
        failure: Why nothing more can be written, until it is opened anew.
        undo_failure: Why nothing can be written before `undo` succeeds.
        written: Up to where the files hold what was appended.
        run_write: Makes the calls of a write; None if `write` does.
        warm_from: What lies behind this place was written by this process a while ago at most, and
            is in memory. Only that is read through a map of its file, where a bad sector would
            kill the process.
    Threads: one at a time; `sync` of its files may run elsewhere (see `flush`).
    """

    def __init__(self, files: SegmentFiles, end: int, *, crc_tail: bool) -> None:
        self.files = files
        self.tail = Tail(files)
        self.failure: str | None = None
        self.undo_failure: str | None = None
        self._undo_end = 0
        self.crc_tail = crc_tail
        self.run_write: RunWrite | None = None
        self._segment_bytes = files.segment_bytes
        self._runs: list[tuple[int, list[record.Encoded]]] = []
        self._batches: list[RecordBatch] = []
        self.written = PhysicalOffset(end)
        self.warm_from: int = end
        self._go_to(end)

    def _go_to(self, end: int) -> None:
        """Set the place of the next record."""
        self.end = PhysicalOffset(end)
        self._room = self._segment_bytes - end % self._segment_bytes - BLANK_BYTES
        self._buffers: list[record.Encoded] | None = None

    @property
    def first(self) -> PhysicalOffset:
        """The beginning of the oldest file."""
        return PhysicalOffset(self.files.first)

    def append(
        self,
        records: Sequence[NewRecord],
        queue_offsets: Sequence[int],
        stored_at_ms: int,
        *,
        together: bool = False,
    ) -> list[int]:
        """Take records up, in memory.

        Args:
            records: What to append, in order.
            queue_offsets: The place of each in its queue.
            stored_at_ms: Wall time.
            together: They must lie in one file.

        Returns:
            The place of each in the log.

        Raises:
            MessageTooLarge: One of them, or all of them `together`, fit into no file, or a part
                exceeds its limit; nothing changed.
        Durability: none before `write` and a sync.
        """
        encoded, physical_offsets = record.encode_all(
            records, queue_offsets, self.end, stored_at_ms, self.crc_tail
        )
        if len(encoded) <= self._room:
            self._take([encoded], len(encoded))
            physical_offsets.pop()
            return physical_offsets
        sizes = [then - place for place, then in pairwise(physical_offsets)]
        self._check_fits(len(encoded) if together else max(sizes))
        count = 0 if together else bisect_right(physical_offsets, self.end + self._room) - 1
        fitting = encoded[: physical_offsets[count] - self.end]
        self._take([fitting], len(fitting))
        self._roll()
        rest = self.append(records[count:], queue_offsets[count:], stored_at_ms, together=together)
        return physical_offsets[:count] + rest

    def append_batch(self, batch: NewBatch, queue_offset: int, stored_at_ms: int) -> list[int]:
        """Take up messages that must lie in one file; see `append`.

        Args:
            batch: What to append.
            queue_offset: The place of the first in its queue; the others follow.
            stored_at_ms: Wall time.
        """
        encoded, physical_offsets = record.encode_batch(
            batch, queue_offset, self.end, stored_at_ms, self.crc_tail
        )
        whole = physical_offsets.pop() - self.end
        if whole > self._room:
            self._check_fits(whole)
            self._roll()
            return self.append_batch(batch, queue_offset, stored_at_ms)
        self._take(encoded, whole)
        return physical_offsets

    def append_stored(self, stored: StoredRecords) -> None:
        """Take up records as another log has them, at the same place; see `append`."""
        assert stored.start == self.end, (stored.start, self.end)
        self._take([stored.data], len(stored.data))
        if stored.batch is not None:
            self._batches.append(stored.batch)
        if stored.end != self.end or not stored.end % self._segment_bytes:
            self._go_to(stored.end)

    def begin_at(self, start: int) -> None:
        """Let a log that has no files begin where a file does; what is before was never here."""
        assert not self.files, "the log has begun"
        assert not self._runs, "the log has begun"
        assert start % self._segment_bytes == 0, start
        self.written = PhysicalOffset(start)
        self.warm_from = start
        self._go_to(start)

    def _take(self, data: Sequence[record.Encoded], size: int) -> None:
        buffers = self._buffers
        if buffers is None:
            buffers = self._buffers = []
            self._runs.append((self.end, buffers))
        buffers += data
        self.end = PhysicalOffset(self.end + size)
        self._room -= size

    def _check_fits(self, size: int) -> None:
        if size + BLANK_BYTES > self._segment_bytes:
            raise MessageTooLarge(
                f"{size} bytes of records do not fit into a log file of {self._segment_bytes}"
            )

    def _roll(self) -> None:
        """End the file with a blank."""
        left = self._room + BLANK_BYTES
        self._take([record.blank(left)], BLANK_BYTES)
        self._go_to(self.end - BLANK_BYTES + left)

    def write(self) -> PhysicalOffset:
        """Hand everything appended to the file system; return the new `written`.

        Raises:
            DiskFull: There is no space. Nothing appended since the last good write is stored.
            DiskFailed: A file refused; as above.
            StoreFailed: As above, and the sync of what undid it failed.
        Durability: none before a sync; see `flush`.
        """
        if self._runs:
            assert self.undo_failure is None, "what a failed write left is still there"
            runs: list[Run] = []
            touched_end: int = self.written
            try:
                for start, encoded in self._runs:
                    buffers = record.finish(encoded)
                    segment = self._segment_to_write(start)
                    call = partial(segment.file.write, buffers, start - segment.start)
                    touched_end = segment.end
                    # The next file is not made before: it says that this one is full.
                    make = self.run_write
                    size = call() if make is None else make(call, self.end - start)
                    runs.append((start, start + size, buffers))
            except (DiskFull, DiskFailed) as error:
                self._take_back(error, touched_end)
                raise
            for batch in self._batches:
                self.tail.add_batch(batch)
            for run in runs:
                self.tail.add(run)
            self._runs, self._batches = [], []
            self._buffers = None
            self.written = self.end
        return self.written

    def _segment_to_write(self, offset: int) -> Segment:
        end = self.files.end_of_files
        if offset < end:
            return self.files.segment(offset)
        start = end if self.files else offset - offset % self._segment_bytes
        return self.files.add(start, durable=True)

    def give_up_unwritten(self) -> None:
        """Forget what was appended since the last write."""
        self._runs, self._batches = [], []
        self._go_to(self.written)

    def _take_back(self, error: DiskFull | DiskFailed, touched_end: int) -> None:
        """Forget what was appended since the last good write, in the files as well.

        Nothing of it lies behind `touched_end`; where no file could be opened, nowhere.
        """
        self._undo_end = min(self.end, touched_end)
        self.give_up_unwritten()
        try:
            self.undo()
        except (DiskFull, DiskFailed) as second:
            self.undo_failure = f"a failed write could not be undone yet: {error}; {second}"
            kind = DiskFull if isinstance(error, DiskFull) else DiskFailed
            raise kind(self.undo_failure) from second

    def undo(self) -> None:
        """Overwrite with zeros what a failed write has left, if it has.

        Raises:
            DiskFull, DiskFailed: It is still there; to be called again.
            StoreFailed: The sync of the zeros failed.
        """
        if self._undo_end > self.written:
            self.zero(self.written, self._undo_end)
            # Other records will get these places and queue offsets; were the zeros not on the disk
            # before them, a crash could bring both back.
            for segment in self.segments_between(self.written, self._undo_end):
                try:
                    segment.file.sync()
                except DiskRefused:
                    raise
                except (DiskFull, DiskFailed) as error:
                    self.failure = f"the sync that undoes a failed write failed: {error}"
                    raise StoreFailed(self.failure) from error
        self._undo_end = 0
        self.undo_failure = None

    def zero(self, start: int, end: int) -> int:
        """Overwrite what is not zero in a range; return the bytes written.

        Blocks that were never written stay so: no space is needed.
        """
        zeroed = 0
        while start < end:
            segment = self.files.segment(start)
            size = min(end, segment.end, start + len(_ZERO_CHUNK)) - start
            position = start - segment.start
            data = segment.read(position, size)
            for part in () if data == _ZERO_CHUNK else written_ranges(data, position):
                segment.file.write([_ZERO_CHUNK[: part.end - part.start]], part.start)
                zeroed += part.end - part.start
            start += size
        return zeroed

    def segments_between(self, start: int, end: int) -> list[Segment]:
        """Return the files that hold bytes of `[start, end)`."""
        return [s for s in self.files.segments if s.start < end and start < s.end]

    def ranges(self, start: int, end: int) -> list[Range]:
        """Return what each file has of `[start, end)`; nothing of what no file has."""
        found = []
        start, end = max(start, self.files.first), min(end, self.files.end_of_files)
        while start < end:
            segment = self.files.segment(start)
            size = min(end, segment.end) - start
            found.append((segment.file, start - segment.start, size))
            start += size
        return found

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return a part of the log from `offset` on, in one file.

        What is warm is not copied, and comes with all that its file has. All else is read, by a
        call that can fail, and comes alone: `size` bytes, or what the file has of them.

        Raises:
            OffsetTooSmall: It was cleaned away.
            OffsetTooLarge: It is past what has been written.
            DiskFailed: It cannot be read.
        """
        written = self.written
        if offset >= written:
            raise OffsetTooLarge(offset, written)
        segment = self.files.segment(offset)
        end = min(segment.end, written)
        if offset >= self.warm_from:
            return SegmentWindow(segment.view, segment.start, end)
        # Records are where something was written: to ask whether it is a hole would cost more.
        size = min(end - offset, size)
        data = segment.file.read_view(offset - segment.start, size)
        if len(data) < size:
            data = memoryview(bytes(data).ljust(size, b"\0"))
        return SegmentWindow(data, offset, offset + size)

    def slice(self, offset: int, size: int) -> memoryview:
        """Return `size` stored bytes from `offset`, without a look at them; errors as `window`.

        Raises:
            OffsetTooLarge: They reach beyond a file as well.
        """
        view, start, end = self.window(offset, size)
        if offset + size > end:
            raise OffsetTooLarge(offset + size, end)
        return view[offset - start : offset - start + size]

    def records(
        self, scan: Iterable[Entry], end: int | None = None
    ) -> Iterator[tuple[PhysicalOffset, memoryview]]:
        """Give the records of a scan that are written now and begin before `end`, as stored."""
        limit = self.written if end is None else min(end, self.written)
        for entry in scan:
            if entry.physical_offset >= limit:
                return
            offset = PhysicalOffset(entry.physical_offset)
            yield offset, self.slice(offset, entry.size)

    def record_at(self, offset: int) -> memoryview:
        """Return one whole record; its lengths and its place are checked, not its checksums.

        Raises:
            OffsetTooSmall: It was cleaned away.
            OffsetTooLarge: It is past what has been written.
            CorruptRecord: No record begins there.
        """
        head = self.slice(offset, BLANK_BYTES)
        size = int.from_bytes(head[:4], "big", signed=True)
        segment = self.files.segment(offset)
        if 0 < size <= min(segment.end, self.written) - offset:
            stored = self.slice(offset, size)
            with suppress(WireError):
                fields, *_ = parts(stored, 0)
                if fields[6] == offset:  # its place, as it says itself
                    return stored
        raise CorruptRecord(f"{segment.path}: no record begins at {offset}")
