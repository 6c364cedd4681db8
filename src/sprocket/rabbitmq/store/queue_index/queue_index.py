"""The index of one queue: which messages it has, in order, and the small ones whole.

Theory of operation

Each publish, deliver and ack is a record. It goes to the write-ahead log (`store/write_ahead`),
which makes it durable with those of all other queues, and changes the message's slot here. A flush
brings the slots into the segment files, in RabbitMQ's order and form:

1. `begin_flush` takes the slots away, says in the log what will be appended to which segment, and
   finds the segments without messages. The log is synced.
2. The appends are written, then synced. Until they are written `segment_steps` sees the slots that
   were taken.
3. Segments without messages and the journal.jif of the last clean stop are removed, and the log is
   told that the flush is done.

A message that is published, delivered and acknowledged between two flushes comes into no segment.
What a purge has made void is removed by the next flush, before it appends anything. A failed flush
is tried again as it was begun. After a crash `recovery` finds in the log what the
segments may lack, and cuts what the crash has left of an append.

`journal.jif` is written at a clean stop only (`close_steps`), and then holds what RabbitMQ's would:
the records since the last flush. The `.queue_name` comes with the first file of either kind; until
then the log says what the queue is called.

Invariants

1. `unacked` of a segment is the number of its messages without an ack, in its file or in slots.
2. A slot changes as `slots.TRANSITIONS` says.
3. One flush is under way at a time.

Source: RabbitMQ 3.10.8 `rabbit_queue_index`; docs/formats/rabbitmq-queue-index.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import (
    Buffer,
    Disk,
    Steps,
    StepsTo,
    read_file,
    remove_if_there,
    sync_file,
)
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import IndexStop, PublishRecord, RecordKind
from sprocket.rabbitmq.codec.write_ahead import SegmentAppend
from sprocket.rabbitmq.store.layout import QueueLayout
from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.joined import QueueIndexFile
from sprocket.rabbitmq.store.queue_index.slots import EVENTS, Slot, SlotEvent, after
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog

_PUBLISH, _DELIVER, _ACK = map(int, SlotEvent)
_ABSENT, _DELIVERED = int(Slot.ABSENT), int(Slot.DELIVERED)


@dataclass(slots=True)
class SegmentSlots:
    """What the journal has of the messages of one segment, by relative id."""

    slots: dict[int, int] = field(default_factory=dict)
    """Numbers of `Slot`."""
    records: dict[int, bytes] = field(default_factory=dict)
    """The journal's publish records."""

    def encode(self) -> bytes:
        """Return what a flush appends: relative ids descending; publish, deliver, ack of each."""
        parts: list[bytes] = []
        for relative_id in sorted(self.slots, reverse=True):
            slot = self.slots[relative_id]
            if slot & _PUBLISH:
                parts.append(index.segment_publish(relative_id, self.records[relative_id]))
            if slot & _DELIVER:
                parts.append(index.segment_mark(relative_id))
            if slot & _ACK:
                parts.append(index.segment_mark(relative_id))
        return b"".join(parts)


@dataclass(slots=True)
class _Segment:
    """A segment of which something is known.

    Attributes:
        unacked: Messages without an ack.
        file_bytes: Length of its file; 0 if there is none.
        journal: Its slots.
    """

    unacked: int = 0
    file_bytes: int = 0
    journal: SegmentSlots = field(default_factory=SegmentSlots)


class IndexEntry(Struct, frozen=True, gc=False):
    """A message of a queue.

    Attributes:
        seq_id: Its sequence id.
        record: What its publish record says.
        is_delivered: There is a deliver record.
    """

    seq_id: int
    record: PublishRecord
    is_delivered: bool


@dataclass(frozen=True, slots=True)
class KnownSegment:
    """What recovery or a clean stop says of a segment.

    Attributes:
        unacked: Messages of its file without an ack there.
        file_bytes: Length of its file.
    """

    unacked: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class _Append:
    segment: int
    position: int
    data: bytes


@dataclass(slots=True)
class _Flush:
    """A flush that is under way.

    Attributes:
        appends: What it puts into segments.
        removed: Segments without messages.
        taken: The slots that it takes away.
        has_void_files: All files that there were are void, and go first.
        name: What it writes as the .queue_name, if it appends; empty for nothing.
        is_written: What it appends is in the files.
        is_void: A purge came meanwhile; whatever it still does is for nothing.
    """

    appends: list[_Append]
    removed: list[int]
    taken: dict[int, SegmentSlots]
    has_void_files: bool
    name: bytes = b""
    is_written: bool = False
    is_void: bool = False

    def appended(self, number: int) -> int:
        """Return how much it puts into a segment."""
        return sum(len(one.data) for one in self.appends if one.segment == number)


@dataclass(frozen=True, slots=True)
class SegmentMessages:
    """The messages of a segment that have no ack, in its file or in slots. Columns, ascending.

    Attributes:
        first: The sequence id of relative id 0.
        relative_ids: Which they are.
        sources: What has the publish record of each: the file, or the record itself.
        starts: Where that begins in the file; -1 in a record.
        is_delivered: There is a deliver record.
    """

    first: int
    relative_ids: list[int]
    sources: list[Buffer]
    starts: list[int]
    is_delivered: list[bool]

    def between(self, start: int, end: int) -> list[IndexEntry]:
        """Return those from one sequence id up to, not including, another."""
        ids = self.relative_ids
        rows = range(bisect_left(ids, start - self.first), bisect_left(ids, end - self.first))
        return [self.entry(row) for row in rows]

    def entry(self, row: int) -> IndexEntry:
        """Return one of them."""
        start = self.starts[row]
        record = index.decode_publish(self.sources[row], max(start, 0), is_segment=start >= 0)
        return IndexEntry(self.first + self.relative_ids[row], record, self.is_delivered[row])


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """What is the same for all queues of a virtual host.

    Attributes:
        entry_count: Entries of a segment; RabbitMQ's segment_entry_count.
        journal_records_max: Records after which a flush is due; queue_index_max_journal_entries.
    """

    entry_count: int
    journal_records_max: int = 32768


class QueueIndex:
    """See the head of the module.

    Args:
        disk: Where its files lie.
        layout: Their paths.
        log: What makes its records durable.
        origin: Its name in the log.
        limits: When it begins a segment, and flushes.
        segments: What there is already, by number.
        is_named: There is its .queue_name.

    Attributes:
        origin: Its name in the log.
        dirty_count: Records since the last flush, those that cancelled out included.
        journal_bytes: Size of the publish records that slots hold, in memory.
    Threads: one at a time; calls that steps give may run elsewhere.
    """

    def __init__(
        self,
        disk: Disk,
        layout: QueueLayout,
        log: WriteAheadLog,
        origin: Origin,
        limits: IndexLimits,
        segments: dict[int, KnownSegment],
        *,
        is_named: bool = False,
    ) -> None:
        self.origin = origin
        self.dirty_count = 0
        self.journal_bytes = 0
        self._disk = disk
        self._layout = layout
        self._log = log
        self._entry_count = limits.entry_count
        self._journal_records_max = limits.journal_records_max
        self._segments = {n: _Segment(one.unacked, one.file_bytes) for n, one in segments.items()}
        self._flush: _Flush | None = None
        self._has_void_files = False
        self._epoch = 0
        """Rises when bytes of files begin to count, or do not count any more."""
        self._is_named = is_named

    # -- what happens to messages

    def publish_all(self, first_seq_id: int, records: Sequence[bytes]) -> None:
        """Note new messages with sequence ids from the first on, and that each was delivered.

        RabbitMQ writes a deliver record right after each publish, too. The records of a turn cost a
        third of what they cost one by one.

        Args:
            first_seq_id: The first one's sequence id; no message of the queue has had one of them.
            records: Publish records, as `codec.index.publishes` makes them.

        Durability: none before the log is synced, as with `ack`.
        """
        self._log.append_all(
            self.origin,
            interleaved(records, index.delivers(first_seq_id, first_seq_id + len(records))),
        )
        self.journal_bytes += sum(map(len, records))
        self.dirty_count += 2 * len(records)
        done = 0
        while done < len(records):
            number, relative_id = divmod(first_seq_id + done, self._entry_count)
            some = records[done : done + self._entry_count - relative_id]
            segment = self._segments.get(number)
            if segment is None:
                segment = self._segments[number] = _Segment()
            journal = segment.journal
            ids = range(relative_id, relative_id + len(some))
            assert journal.slots.keys().isdisjoint(ids), "a sequence id that was used before"
            journal.slots.update(dict.fromkeys(ids, _PUBLISH | _DELIVER))
            journal.records.update(zip(ids, some, strict=True))
            segment.unacked += len(some)
            done += len(some)

    def ack(self, seq_ids: Sequence[int]) -> None:
        """Note that the queue does not have some messages any more, in this order.

        Raises:
            CorruptRecord: One is not there; those before it are noted.
        """
        entry_count, segments = self._entry_count, self._segments
        done = 0
        try:
            for seq_id in seq_ids:
                number, relative_id = divmod(seq_id, entry_count)
                segment = segments[number]
                journal = segment.journal
                slots = journal.slots
                known = slots.get(relative_id, _ABSENT)
                if known == _DELIVERED:  # all three cancel out
                    del slots[relative_id]
                    self.journal_bytes -= len(journal.records.pop(relative_id))
                else:
                    slots[relative_id] = after(known, _ACK, seq_id)
                segment.unacked -= 1
                done += 1
        finally:
            self.dirty_count += done
            self._log.append_all(self.origin, index.acks(seq_ids[:done]))

    def unflushed(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Give the messages from one sequence id up to another that no flush has in segments.

        Each with its publish record; those that were acknowledged are left out.
        """
        flush = self._flush
        taken = {} if flush is None or flush.is_void else flush.taken
        for seq_id in range(start, end):
            number, relative_id = divmod(seq_id, self._entry_count)
            segment = self._segments.get(number)
            if segment is None:
                continue
            journal = segment.journal
            slot = journal.slots.get(relative_id, _ABSENT)
            if slot == _ABSENT and number in taken:
                journal = taken[number]
                slot = journal.slots.get(relative_id, _ABSENT)
            if slot == _DELIVERED:
                yield seq_id, journal.records[relative_id]

    def withdraw(self, seq_ids: Sequence[int]) -> None:
        """Remove messages whose records are not written, as if they had never come.

        A flush that has begun keeps what it has taken; there they are acknowledged.
        """
        begun: list[int] = []
        taken: set[int] = set()
        for seq_id in seq_ids:
            number, relative_id = divmod(seq_id, self._entry_count)
            segment = self._segments[number]
            if relative_id not in segment.journal.slots:
                begun.append(seq_id)
                continue
            del segment.journal.slots[relative_id]
            self.journal_bytes -= len(segment.journal.records.pop(relative_id))
            self.dirty_count -= 2
            segment.unacked -= 1
            taken.add(seq_id)

        def keep(records: bytes) -> bytes:
            rows, stop = index.journal_rows(records)
            assert stop is IndexStop.END, "records of the index are whole"
            return b"".join([record for _, seq_id, record in rows if seq_id not in taken])

        if taken:
            self._log.withdraw(self.origin, keep)
        if begun:
            self.ack(begun)

    def replay_journal(self, data: bytes) -> list[tuple[int, bytes]]:
        """Load the journal.jif of a clean stop, or what recovery has left in the log.

        Called once, before anything else happens; `origin` says how much is journal.jif's. What
        `segments` said of messages left includes it.

        Returns:
            Sequence id and publish record of each message that it has and that is left.

        Raises:
            CorruptRecord: Something is wrong with it, so that it is neither.
        """
        rows, stop = index.journal_rows(data)
        if stop is not IndexStop.END:
            raise CorruptRecord(f"{self._layout.journal}: {stop.value}")
        for kind, seq_id, record in rows:
            number, relative_id = divmod(seq_id, self._entry_count)
            segment = self._segments.get(number)
            if segment is None:
                segment = self._segments[number] = _Segment()
            journal = segment.journal
            slot = after(journal.slots.get(relative_id, _ABSENT), EVENTS[kind], seq_id)
            if slot == _ABSENT:
                del journal.slots[relative_id]
                self.journal_bytes -= len(journal.records.pop(relative_id))
                continue
            journal.slots[relative_id] = slot
            if kind <= RecordKind.PUBLISH_TRANSIENT:
                journal.records[relative_id] = record
                self.journal_bytes += len(record)
        self.dirty_count = len(rows)
        return [
            (number * self._entry_count + relative_id, record)
            for number, segment in self._segments.items()
            for relative_id, record in segment.journal.records.items()
        ]

    # -- what it has

    @property
    def unacked(self) -> dict[int, int]:
        """Messages without an ack, by segment number, as recovery terms have them."""
        return {number: one.unacked for number, one in sorted(self._segments.items())}

    @property
    def known_segments(self) -> dict[int, KnownSegment]:
        """Messages without an ack, and the length of its file, by segment number."""
        return {
            number: KnownSegment(one.unacked, one.file_bytes)
            for number, one in sorted(self._segments.items())
        }

    @property
    def has_void_files(self) -> bool:
        """Whether files are to be removed by the next flush."""
        return self._has_void_files

    def read_journal(self) -> bytes:
        """Return what counts of the journal.jif, on any thread.

        Raises:
            DiskFailed: It cannot be read.
        """
        try:
            return read_file(self._disk, self._layout.journal)
        except FileMissing:
            return b""

    @property
    def is_flush_due(self) -> bool:
        """Whether the journal has more records than it may; RabbitMQ asks after each call."""
        return self.dirty_count > self._journal_records_max

    @property
    def is_flushing(self) -> bool:
        """Whether a flush is under way, or has failed and is to be tried again."""
        return self._flush is not None

    def numbers(self, start: int, end: int) -> list[int]:
        """Return the segments with messages from one sequence id up to another, ascending."""
        first, last = start // self._entry_count, -(-end // self._entry_count)
        if last - first < len(self._segments):
            return [number for number in range(first, last) if number in self._segments]
        return sorted(number for number in self._segments if first <= number < last)

    def segment_steps(self, number: int) -> StepsTo[SegmentMessages]:
        """Return the messages of a segment that have no ack; of one that is gone, none.

        Raises:
            DiskFailed: It cannot be read.
        """
        path = self._layout.segment(number)
        state, file, epoch = self._state(number), _NO_FILE, -1
        while state.file_bytes and epoch != self._epoch:  # a flush or a purge came meanwhile
            epoch = self._epoch
            file = yield partial(_read_segment, self._disk, path, self._entry_count)
            state = self._state(number)
        if len(file.checked.data) > state.file_bytes:  # what is being appended is in slots, too
            file = _parsed(file.checked.data[: state.file_bytes], self._entry_count)
        return _messages(file, state.overlays, number * self._entry_count)

    def _state(self, number: int) -> "SegmentState":
        """Return what is known of a segment, as it is now."""
        segment = self._segments.get(number)
        if segment is None:
            return SegmentState(number, 0, [])
        size, overlays = segment.file_bytes, [segment.journal]
        flush = self._flush
        is_pending = flush is not None and not flush.is_written and not flush.is_void
        if flush is not None and is_pending and number in flush.taken:
            overlays.insert(0, flush.taken[number])
            size -= flush.appended(number)
        return SegmentState(number, size, overlays)

    def void_steps(self, state: "SegmentState") -> StepsTo[SegmentMessages]:
        """Return the messages that a segment had when it was forgotten, while its file is there.

        Raises:
            DiskFailed: It cannot be read.
        """
        file = _NO_FILE
        if state.file_bytes:
            path = self._layout.segment(state.number)
            file = yield partial(_read_segment, self._disk, path, self._entry_count)
            file = _parsed(file.checked.data[: state.file_bytes], self._entry_count)
        return _messages(file, state.overlays, state.number * self._entry_count)

    def published_steps(self, seq_ids: Sequence[int]) -> StepsTo[dict[int, PublishRecord]]:
        """Return what the files say of messages, acknowledged or not; nothing where they do not.

        Raises:
            DiskFailed: A segment cannot be read.
        """
        found: dict[int, PublishRecord] = {}
        for number, some in groupby(sorted(seq_ids), lambda one: one // self._entry_count):
            path = self._layout.segment(number)
            file = yield partial(_read_segment, self._disk, path, self._entry_count)
            rows = dict(
                zip(file.states.ids.tolist(), file.states.published_at.tolist(), strict=True)
            )
            for seq_id in some:
                start = rows.get(seq_id % self._entry_count, -1)
                if start >= 0:
                    found[seq_id] = index.decode_publish(file.checked.data, start, is_segment=True)
        return found

    def forget(self) -> "list[SegmentState]":
        """Remove all messages; files are void from now on, and the next flush removes them.

        Returns:
            What there was.
        """
        states = [self._state(number) for number in sorted(self._segments)]
        self._segments.clear()
        if self._flush is not None:
            self._flush.is_void = True
        self._epoch += 1
        self._has_void_files = True
        self.dirty_count = 1  # so that a flush comes
        self.journal_bytes = 0
        self._log.forget(self.origin)
        return states

    @property
    def is_empty(self) -> bool:
        """Whether there is no message, and no file that a flush is to remove."""
        return not (self._segments or self._has_void_files or self._flush)

    def remove_folder(self) -> None:
        """Remove the queue's folder, durably, when a flush has left nothing in it but its name.

        Threads: any.
        """
        root = self._layout.root
        if self._disk.is_folder(root):
            self._disk.remove_tree(root)
            self._disk.sync_folder(root.rpartition("/")[0])
        self._is_named = False

    @property
    def missing_name(self) -> bytes:
        """What the .queue_name is to hold that there is not; empty if nothing is missing."""
        return b"" if self._is_named else self.origin.queue_name

    # -- flush

    def begin_flush(self) -> None:
        """Take the slots, and say in the log where they go; nothing changes if a flush is begun.

        The log must be synced before the next step.
        """
        if self._flush is not None:
            return
        appends: list[_Append] = []
        removed: list[int] = []
        taken: dict[int, SegmentSlots] = {}
        for number, segment in [*self._segments.items()]:
            if not segment.unacked:
                del self._segments[number]
                if segment.file_bytes:
                    removed.append(number)
            elif segment.journal.slots:
                data = segment.journal.encode()
                appends.append(_Append(number, segment.file_bytes, data))
                segment.file_bytes += len(data)
                taken[number] = segment.journal
                segment.journal = SegmentSlots()
        name = self.missing_name if appends else b""
        self._flush = _Flush(appends, removed, taken, self._has_void_files, name)
        self._has_void_files = False
        self.dirty_count = self.journal_bytes = 0
        self._log.begin_flush(
            self.origin,
            [
                SegmentAppend(one.segment, one.position, len(one.data), crc32(one.data))
                for one in appends
            ],
        )

    def write_flush(self) -> None:
        """Remove what is void, and append to the segments what was begun.

        Raises:
            DiskFull, DiskFailed: It is to be tried again.
        Durability: none before a sync of the queue's files.
        Threads: any.
        """
        flush = self._flush
        assert flush is not None
        root = self._layout.root
        if flush.has_void_files:
            for name in self._disk.list(root):
                if f"{root}/{name}" != self._layout.name:
                    remove_if_there(self._disk, f"{root}/{name}")
            if self._disk.is_folder(root):
                self._disk.sync_folder(root)
        if flush.appends:
            self._disk.make_folder(root)
        if flush.name:
            write_name(self._disk, self._layout, flush.name)
        for one in flush.appends:
            path = self._layout.segment(one.segment)
            _write(self._disk, path, one.data, one.position)
            told = index.index_sum(one.data, one.position, is_segment=True)
            sums.append(self._disk, path, [told])

    def note_written(self) -> None:
        """Note that `write_flush` is done."""
        assert self._flush is not None
        self._flush.is_written = True
        self._epoch += 1

    def sync_flush(self) -> None:
        """Make durable what was appended.

        Raises:
            DiskFailed: It is to be written and synced again.
        Threads: any.
        """
        assert self._flush is not None
        for one in self._flush.appends:
            path = self._layout.segment(one.segment)
            sync_file(self._disk, path)
            sync_file(self._disk, self._layout.sums(path))
        if self._flush.appends:
            if self._flush.name:
                sync_file(self._disk, self._layout.name)
            self._disk.sync_folder(self._layout.root)

    def clean_up_flush(self) -> bool:
        """Remove dead segments, then the journal.jif, whose records are in the others.

        A dead segment may lack the acks that the journal has: it is gone durably before these are.
        The journal goes whole: a file that was cut may come back as long as it was, with zeros.

        Returns:
            Whether there was something to do.

        Raises:
            DiskFailed: It is to be tried again.
        Durability: a journal.jif may still come back; see `sync_clean_up`.
        Threads: any.
        """
        assert self._flush is not None
        for number in self._flush.removed:
            remove_index_file(self._disk, self._layout.segment(number))
        if self.origin.journal_bytes:
            if self._flush.removed:
                self._disk.sync_folder(self._layout.root)
            remove_index_file(self._disk, self._layout.journal)
        return bool(self.origin.journal_bytes or self._flush.removed)

    def sync_clean_up(self) -> None:
        """Make durable what `clean_up_flush` did.

        Threads: any.
        """
        self._disk.sync_folder(self._layout.root)

    def end_flush(self) -> None:
        """Tell the log that the flush is done, unless a purge has made it void."""
        assert self._flush is not None
        if not self._flush.is_void:
            self._log.end_flush(self.origin)
        self._is_named = self._is_named or bool(self._flush.name)
        self._flush = None


def interleaved(one: Sequence[bytes], other: Sequence[bytes]) -> list[bytes]:
    """Return the elements of two sequences of equal length in turns."""
    found = [b""] * (2 * len(one))
    found[::2], found[1::2] = one, other
    return found


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A segment at one moment: how much of its file counts, and the slots above it, oldest first.

    The slots are those of the index, and change with it.
    """

    number: int
    file_bytes: int
    overlays: list[SegmentSlots]


def _read_segment(disk: Disk, path: str, entry_count: int) -> QueueIndexFile:
    """Return a segment that nothing is known of but its checksums; empty if it is not there."""
    try:
        data = read_file(disk, path)
    except FileMissing:
        data = b""
    return QueueIndexFile.segment(path, data, sums.read(disk, path) if data else None, entry_count)


def _parsed(data: bytes, entry_count: int) -> QueueIndexFile:
    return QueueIndexFile.segment("", data, None, entry_count)


_NO_FILE = _parsed(b"", 1)


def _messages(
    file: QueueIndexFile, overlays: Sequence[SegmentSlots], first: int
) -> SegmentMessages:
    """Return the messages of a segment that have no ack, ascending."""
    found = file.states
    live = ~found.is_acked & (found.published_at >= 0)
    starts = dict(zip(found.ids[live].tolist(), found.published_at[live].tolist(), strict=True))
    delivered = set(found.ids[live & found.is_delivered].tolist())
    records: dict[int, bytes] = {}
    for overlay in overlays:
        for relative_id, slot in overlay.slots.items():
            if slot & _ACK:
                starts.pop(relative_id, None)
                records.pop(relative_id, None)
                continue
            if slot & _PUBLISH:
                records[relative_id] = overlay.records[relative_id]
                starts[relative_id] = -1
            if slot & _DELIVER:
                delivered.add(relative_id)
    relative_ids = sorted(starts)
    return SegmentMessages(
        first,
        relative_ids,
        [records.get(one, file.checked.data) for one in relative_ids],
        [starts[one] for one in relative_ids],
        [one in delivered for one in relative_ids],
    )


def _write(disk: Disk, path: str, data: bytes, position: int) -> None:
    file = disk.open(path, write=True, create=True)
    try:
        file.write([data], position)
    finally:
        file.close()


def write_name(disk: Disk, layout: QueueLayout, name: bytes) -> None:
    """Write a .queue_name into the queue's folder, which is there; durable after syncs of both."""
    file = disk.open(layout.name, write=True, create=True)
    try:
        file.resize(len(name))
        file.write([name], 0)
    finally:
        file.close()


def remove_index_file(disk: Disk, path: str) -> None:
    """Remove a segment or a journal, if it is there, and its checksums; durable after a sync."""
    remove_if_there(disk, QueueLayout.sums(path))
    remove_if_there(disk, path)


def flush_steps(log: WriteAheadLog, indexes: Sequence[QueueIndex]) -> Steps:
    """Bring the slots of some queues into their segments; see the head of the module.

    For few queues it syncs each file, for many it has one sync of all below the log's folder.

    Raises:
        DiskFull, DiskFailed, StoreFailed: Nothing is lost; called again it continues where it was.
    """
    for one in indexes:
        one.begin_flush()
    yield from log.commit_steps()
    yield partial(_each, indexes, QueueIndex.write_flush)
    for one in indexes:
        one.note_written()
    yield partial(_sync, log, indexes, QueueIndex.sync_flush)
    cleaned = yield lambda: [one for one in indexes if one.clean_up_flush()]
    if cleaned:
        yield partial(_sync, log, cleaned, QueueIndex.sync_clean_up)
    for one in indexes:
        one.end_flush()


def _each(indexes: Sequence[QueueIndex], call: Callable[[QueueIndex], None]) -> None:
    for one in indexes:
        call(one)


def _sync(
    log: WriteAheadLog, indexes: Sequence[QueueIndex], call: Callable[[QueueIndex], None]
) -> None:
    """Sync the files of each, or all at once."""
    if len(indexes) > SYNC_EACH_MAX:
        log.disk.sync_tree(log.folder)
    else:
        _each(indexes, call)


SYNC_EACH_MAX = 16
"""Queues whose files are synced one by one; from some ten files on, one sync of all costs less."""
