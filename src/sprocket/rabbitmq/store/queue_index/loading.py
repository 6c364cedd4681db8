"""What the files of one queue say of its messages, all together: segments, journal.jif, and log.

Nothing is changed here. `load` reads the journal, `LoadedIndex.segments` one segment after the
other, as a queue may be larger than memory. What is read of a segment knows which messages are
left, and what must be appended so that its file alone says so.

A journal may repeat what a segment has, as a flush writes the segment first: what is in both counts
once. RabbitMQ compares the journal's slots with the segment by a table; here whatever either of
them says of a message holds, which comes to the same for each line of that table, and forgets no
ack where RabbitMQ does (publish, deliver and ack in the journal, publish and deliver in the
segment).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer, Disk, read_file
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import (
    IndexedMessages,
    IndexFinding,
    IndexRecords,
    IndexStop,
    MessageStates,
)
from sprocket.rabbitmq.codec.write_ahead import SegmentAppend
from sprocket.rabbitmq.store.layout import SEGMENT, QueueLayout, numbers
from sprocket.rabbitmq.store.write_ahead import QueueTail

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_TRUE_ENDINGS = b"d\0\4true", b"w\4true"
"""How the term of a persistent message ends, by OTP 25 and by OTP 26."""


@dataclass(frozen=True, slots=True)
class IndexDamage:
    """Something in a queue's files that should not be there.

    Attributes:
        path: The file.
        position: Bytes into it.
        what: A sentence.
    """

    path: str
    position: int
    what: str


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    """A segment and what the journal says of its messages. Arrays have an element a relative id.

    Attributes:
        number: Of the segment.
        file_bytes: Length of its file; 0 if there is none.
        whole_bytes: Up to where that is good; what is behind is to be cut.
        is_sound: There is nothing in it that RabbitMQ would not start with.
        journal: Records of the journal.
        records: Records of its file.
        in_segment: Where its publish record is in the file; -1 for nowhere.
        in_journal: Where it is in the journal.
        was_delivered: The file says so.
        was_acked: The file says so.
        is_delivered: The file or the journal says so.
        is_acked: The file or the journal says so.
    """

    number: int
    file_bytes: int
    whole_bytes: int
    is_sound: bool
    journal: IndexRecords
    records: IndexRecords
    in_segment: Places
    in_journal: Places
    was_delivered: Mask
    was_acked: Mask
    is_delivered: Mask
    is_acked: Mask

    @property
    def is_live(self) -> Mask:
        """Which messages are in the queue."""
        live: Mask = ((self.in_segment >= 0) | (self.in_journal >= 0)) & ~self.is_acked
        return live

    def stored_ids(self) -> list[bytes]:
        """Return the ids of messages left that are persistent and in the message store.

        One for each reference; 16 bytes each.
        """
        found: list[bytes] = []
        for live in self._live_messages():
            chosen = live.messages.is_persistent & (live.messages.term_sizes == 0)
            found += [row.tobytes() for row in live.messages.message_ids[chosen]]
        return found

    def settle(self, has_stored: Callable[[bytes], bool]) -> int:
        """Acknowledge what is not to come back, and deliver the rest: nobody knows who had it.

        Transient messages go, and those which the message store should have and has not.

        Args:
            has_stored: Says whether the persistent store has a message.

        Returns:
            How many persistent messages are lost because the store has them not.
        """
        lost = 0
        for live in self._live_messages():
            messages = live.messages
            keep = messages.is_persistent & _say_true(live.data, messages)
            for row in np.flatnonzero(messages.is_persistent & (messages.term_sizes == 0)):
                keep[row] = has_stored(messages.message_ids[row].tobytes())
                lost += not keep[row]
            self.is_acked[live.relative_ids[~keep]] = True
        np.logical_or(self.is_delivered, self.is_live, out=self.is_delivered)
        return lost

    def missing(self) -> bytes:
        """Return what must be appended to the file so that it says all by itself.

        As a flush has it: relative ids descending; publish, deliver, ack of each.
        """
        has = self.in_segment >= 0
        publish = ~has & (self.in_journal >= 0) & ~self.is_acked
        deliver = publish & self.is_delivered
        deliver |= has & ~self.was_delivered & (self.is_delivered | self.is_acked)
        ack = has & ~self.was_acked & self.is_acked
        parts: list[bytes] = []
        starts, ends = _extents(self.journal, self.in_journal)
        data = self.journal.data
        for relative_id in np.flatnonzero(publish | deliver | ack)[::-1].tolist():
            if publish[relative_id]:
                record = data[int(starts[relative_id]) : int(ends[relative_id])]
                parts.append(index.segment_publish(relative_id, record))
            marks = int(deliver[relative_id]) + int(ack[relative_id])
            parts.append(marks * index.segment_mark(relative_id))
        return b"".join(parts)

    def _live_messages(self) -> "list[_LiveMessages]":
        """Return the fields of messages left, of those in the file and those in the journal."""
        live, has = self.is_live, self.in_segment >= 0
        found = []
        for ids, records, places in (
            (np.flatnonzero(live & has), self.records, self.in_segment),
            (np.flatnonzero(live & ~has), self.journal, self.in_journal),
        ):
            if len(ids):
                some = index.messages(records, places[ids])
                found.append(_LiveMessages(ids, records.data, some))
        return found


@dataclass(frozen=True, slots=True)
class _LiveMessages:
    """Messages left whose publish records are in one file."""

    relative_ids: Places
    data: Buffer
    messages: IndexedMessages


def _say_true(data: Buffer, messages: IndexedMessages) -> Mask:
    """Say of which messages the term ends as that of a persistent message does."""
    ends = messages.term_starts + messages.term_sizes
    view = np.frombuffer(data, np.uint8)
    say = np.zeros(len(ends), np.bool_)
    for ending in _TRUE_ENDINGS:
        there = np.flatnonzero(messages.term_sizes >= len(ending))
        rows = view[(ends[there] - len(ending))[:, None] + np.arange(len(ending))]
        say[there] |= (rows == np.frombuffer(ending, np.uint8)).all(axis=1)
    return say


def _extents(records: IndexRecords, places: Places) -> tuple[Places, Places]:
    """Return where publish records begin and end; nothing of use where there is none."""
    starts = np.append(records.starts, records.stopped_at)
    rows = np.searchsorted(records.starts, places)
    return starts[rows], starts[np.minimum(rows + 1, len(starts) - 1)]


@dataclass(slots=True)
class LoadedIndex:
    """What is known of one queue's messages.

    Attributes:
        layout: Its paths.
        journal: Records of journal.jif and log together.
        journal_file_bytes: Length of its journal.jif.
        journal_counts: So many bytes of that count.
        damage: What should not be there, as far as it was read.
    """

    disk: Disk
    layout: QueueLayout
    entry_count: int
    journal: IndexRecords
    journal_file_bytes: int
    journal_counts: int
    states: MessageStates
    in_files: frozenset[int]
    appends: Sequence[SegmentAppend]
    damage: list[IndexDamage] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its segments, ascending."""
        if not len(self.states):
            return sorted(self.in_files)
        return sorted({*self.in_files, *np.unique(self.states.ids // self.entry_count).tolist()})

    def segments(self) -> Iterator[LoadedSegment]:
        """Yield each segment, read anew.

        Raises:
            DiskFailed: A file cannot be read.
        """
        split = self.states.ids // self.entry_count
        for number in self.numbers:
            path = self.layout.segment(number)
            data = read_file(self.disk, path) if number in self.in_files else b""
            segment = self._segment(number, path, data)
            mine = split == number
            ids = self.states.ids[mine] - number * self.entry_count
            segment.in_journal[ids] = self.states.published_at[mine]
            segment.is_delivered[ids] |= self.states.is_delivered[mine]
            segment.is_acked[ids] |= self.states.is_acked[mine]
            yield segment

    def _segment(self, number: int, path: str, data: bytes) -> LoadedSegment:
        """Read one segment's file; what a flush has left half done does not count."""
        whole = len(data)
        for one in self.appends:
            end = one.position + one.size
            if one.number != number:
                continue
            if end > whole or crc32(memoryview(data)[one.position : end]) != one.crc:
                whole = min(whole, one.position)
                break
        records = index.read_segment(data[:whole])
        whole = records.stopped_at
        said = index.states(records, self.entry_count)
        self.damage += [*_early_end(path, records), *(_damage(path, one) for one in said.findings)]
        count = self.entry_count
        in_segment = np.full(count, -1, np.int64)
        in_segment[said.ids] = said.published_at
        delivered, acked = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        delivered[said.ids], acked[said.ids] = said.is_delivered, said.is_acked
        return LoadedSegment(
            number=number,
            file_bytes=len(data),
            whole_bytes=whole,
            is_sound=not said.findings,
            journal=self.journal,
            records=records,
            in_segment=in_segment,
            in_journal=np.full(count, -1, np.int64),
            was_delivered=delivered,
            was_acked=acked,
            is_delivered=delivered.copy(),
            is_acked=acked.copy(),
        )


def load(
    disk: Disk,
    layout: QueueLayout,
    entry_count: int,
    tail: QueueTail | None,
    *,
    is_journal_void: bool,
) -> LoadedIndex:
    """Read the files of a queue, and what the log has of it.

    Args:
        disk: Where they lie.
        layout: Their paths.
        entry_count: Entries of a segment.
        tail: What the log has of the queue; None if nothing.
        is_journal_void: Without a tail its journal.jif does not count.

    Raises:
        DiskFailed: A file cannot be read.
    """
    names = disk.sizes(layout.root) if tail is None or not tail.is_gone else {}
    length = names.get(layout.journal.rpartition("/")[2], 0)
    counts = tail.journal_bytes if tail is not None else 0 if is_journal_void else length
    journal = _read_journal(disk, layout, min(length, counts), tail)
    records = index.read_journal(journal)
    states = index.states(records)
    damage = [*_early_end(layout.journal, records)]
    damage += [_damage(layout.journal, one) for one in states.findings]
    return LoadedIndex(
        disk=disk,
        layout=layout,
        entry_count=entry_count,
        journal=records,
        journal_file_bytes=length,
        journal_counts=counts,
        states=states,
        in_files=frozenset(numbers(names, SEGMENT)),
        appends=tail.appends if tail is not None else (),
        damage=damage,
    )


def sound(data: bytes, entry_count: int) -> bytes:
    """Return a segment that says of messages left what another says, and nothing else."""
    records = index.read_segment(data)
    said = index.states(records, entry_count)
    live = np.flatnonzero((said.published_at >= 0) & ~said.is_acked)[::-1]
    starts, ends = _extents(records, said.published_at)
    parts: list[bytes] = []
    for row in live.tolist():
        parts.append(data[int(starts[row]) : int(ends[row])])
        parts.append(int(said.is_delivered[row]) * index.segment_mark(int(said.ids[row])))
    return b"".join(parts)


def _read_journal(disk: Disk, layout: QueueLayout, size: int, tail: QueueTail | None) -> bytes:
    """Return the records of journal.jif that count, and those of the log behind them."""
    data = read_file(disk, layout.journal)[:size] if size else b""
    if tail is None or not tail.records:
        return data
    return b"".join([_whole(data), *tail.records])


def _whole(data: bytes) -> bytes:
    """Return a journal up to the end of its last whole record, so that more can follow."""
    return data[: index.read_journal(data).stopped_at]


def _early_end(path: str, records: IndexRecords) -> list[IndexDamage]:
    """Return where a file ends early; zeros at the end of one are what any crash may leave."""
    if records.stop in (IndexStop.END, IndexStop.ZEROS):
        rest = bytes(records.data[records.stopped_at :])
        if not rest.strip(b"\0"):
            return []
    left = len(records.data) - records.stopped_at
    what = f"{records.stop.value}: {left} bytes do not count"
    return [IndexDamage(path, records.stopped_at, what)]


def _damage(path: str, finding: IndexFinding) -> IndexDamage:
    return IndexDamage(path, finding.position, finding.what)
