"""What the files of one queue say of its messages, all together: segments, journal.jif, and log.

What a queue of version 2 has counts as if its journal had it, too.

Nothing is changed here. `load` reads the journal, `LoadedIndex.segments` one segment after the
other, as a queue may be larger than memory. What is read of a segment knows which messages are
left, and what must be appended so that its file alone says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sprocket.base.disk import Buffer, Disk, read_file
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.index import (
    IndexedMessages,
    IndexRecords,
    IndexStop,
    MessageStates,
)
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.layout import SEGMENT, QueueLayout, numbers
from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.joined import (
    JoinedStates,
    Mask,
    Places,
    QueueIndexFile,
    joined,
)
from sprocket.rabbitmq.store.queue_index.version_2 import FilesV2, files_v2
from sprocket.rabbitmq.store.write_ahead import QueueTail

TRUE_ENDINGS = b"d\0\4true", b"w\4true"
"""How the term of a persistent message ends, by OTP 25 and by OTP 26."""


@dataclass(frozen=True, slots=True)
class _LiveMessages:
    """Messages left whose publish records are in one file, and the rows of their states."""

    rows: Places
    data: Buffer
    messages: IndexedMessages


class _Lacking(NamedTuple):
    """What a segment's file does not say of a message: its publish record, if any, and marks."""

    relative_id: int
    record: bytes
    is_delivered: bool
    is_acked: bool


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    """A segment and what the journal says of its messages.

    Attributes:
        number: Of the segment.
        has_file: It has a file.
        file_bytes: Length of that; 0 if there is none.
        whole_bytes: Up to where that is good; what is after is to be cut.
        covered_bytes: Up to where its checksums cover it without a gap.
        summed_bytes: The end of what the last of them covers, whether those bytes are there or not.
        is_sound: There is nothing in it that RabbitMQ would not start with, or that the checksums
            know better.
        has_damage: There are messages in it that are not what was stored.
        journal: Records of the journal.
        records: Records of its file.
        states: What both say of each message.
        live: Messages left, of those in the file and of those in the journal.
        lost_count: Persistent messages of version 2 that cannot be read.
    """

    number: int
    has_file: bool
    file_bytes: int
    whole_bytes: int
    covered_bytes: int
    summed_bytes: int
    is_sound: bool
    has_damage: bool
    journal: IndexRecords
    records: IndexRecords
    states: JoinedStates
    live: list[_LiveMessages]
    lost_count: int = 0

    @property
    def message_count(self) -> int:
        """Messages left."""
        return int(np.count_nonzero(self.states.is_live))

    @property
    def body_bytes(self) -> int:
        """Bytes of their bodies."""
        found = 0
        for live in self.live:
            found += int(live.messages.body_sizes[~self.states.is_acked[live.rows]].sum())
        return found

    def stored_ids(self) -> list[bytes]:
        """Return the ids of messages left that are persistent and in the message store.

        One for each reference; 16 bytes each.
        """
        found: list[bytes] = []
        for live in self.live:
            chosen = live.messages.is_persistent & (live.messages.term_sizes == 0)
            if chosen.any():
                found += [row.tobytes() for row in live.messages.message_ids[chosen]]
        return found

    def resolve(self, has_stored: Callable[[bytes], bool]) -> int:
        """Acknowledge what is not to come back, and deliver the rest: nobody knows who had it.

        Transient messages go, and those which the message store should have and has not.

        Args:
            has_stored: Says whether the persistent store has a message.

        Returns:
            How many persistent messages are lost, because the store has them not, they cannot be
            read, or a journal has them and they are not what was stored.
        """
        lost = self.lost_count
        states = self.states
        for live in self.live:
            messages = live.messages
            keep = messages.is_persistent & _say_true(live.data, messages)
            if live.data is self.journal.data:
                damaged = messages.is_persistent & _are_damaged(live.data, messages)
                keep &= ~damaged  # a RabbitMQ does not start with such a term in a segment
                lost += int(np.count_nonzero(damaged))
            for row in np.flatnonzero(messages.is_persistent & (messages.term_sizes == 0)):
                keep[row] = has_stored(messages.message_ids[row].tobytes())
                lost += not keep[row]
            states.is_acked[live.rows[~keep]] = True
        np.logical_or(states.is_delivered, states.is_live, out=states.is_delivered)
        return lost

    def missing(self) -> bytes:
        """Return what must be appended to the file so that it says all by itself.

        As a flush has it: relative ids descending; publish, deliver, ack of each.
        """
        parts: list[bytes] = []
        for one in self._lacking():
            mark = index.segment_mark(one.relative_id)
            if one.record:
                parts.append(index.segment_publish(one.relative_id, one.record))
            parts.append((one.is_delivered + one.is_acked) * mark)
        return b"".join(parts)

    def missing_records(self, first: int) -> bytes:
        """Return the same as records of a journal, sequence ids ascending.

        Args:
            first: The sequence id of relative id 0.
        """
        parts: list[bytes] = []
        for one in reversed(self._lacking()):
            seq_id = first + one.relative_id
            parts.append(one.record)
            if one.is_delivered:
                parts.append(index.deliver(seq_id))
            if one.is_acked:
                parts.append(index.ack(seq_id))
        return b"".join(parts)

    def _lacking(self) -> "list[_Lacking]":
        """Return what the file does not say of messages, relative ids descending."""
        states = self.states
        has = states.in_segment >= 0
        publish = ~has & (states.in_journal >= 0) & ~states.is_acked
        deliver = publish & states.is_delivered
        deliver |= has & ~states.was_delivered & (states.is_delivered | states.is_acked)
        ack = has & ~states.was_acked & states.is_acked
        chosen = np.flatnonzero(publish | deliver | ack)[::-1]
        if not len(chosen):
            return []
        starts, ends = _extents(self.journal, states.in_journal[chosen])
        data = self.journal.data
        columns = (states.ids, publish, deliver, ack)
        values = [column[chosen].tolist() for column in columns]
        return [
            _Lacking(relative_id, bytes(data[start:end]) if is_new else b"", is_delivered, is_acked)
            for relative_id, is_new, is_delivered, is_acked, start, end in zip(
                *values, starts.tolist(), ends.tolist(), strict=True
            )
        ]


def _live(
    states: JoinedStates, segment: IndexRecords, journal: IndexRecords
) -> list[_LiveMessages]:
    """Return the fields of messages left, of those in the file and those in the journal."""
    live, has = states.is_live, states.in_segment >= 0
    found = []
    for rows, records, places in (
        (np.flatnonzero(live & has), segment, states.in_segment),
        (np.flatnonzero(live & ~has), journal, states.in_journal),
    ):
        if len(rows):
            some = index.messages(records, places[rows])
            found.append(_LiveMessages(rows, records.data, some))
    return found


def _say_true(data: Buffer, messages: IndexedMessages) -> Mask:
    """Say of which messages the term ends as that of a persistent message does, or is damaged."""
    ends = messages.term_starts + messages.term_sizes
    view = np.frombuffer(data, np.uint8)
    say = np.zeros(len(ends), np.bool_)
    for ending in TRUE_ENDINGS:
        there = np.flatnonzero(~say & (messages.term_sizes >= len(ending)))
        if len(there):
            rows = view[(ends[there] - len(ending))[:, None] + np.arange(len(ending))]
            say[there] |= (rows == np.frombuffer(ending, np.uint8)).all(axis=1)
    if not say.all():
        say |= _are_damaged(data, messages)  # nobody knows
    return say


def _are_damaged(data: Buffer, messages: IndexedMessages) -> Mask:
    """Say which messages are known not to be what was stored."""
    damaged = messages.term_sizes > 0
    rows = np.flatnonzero(damaged)
    first = np.frombuffer(data, np.uint8)[messages.term_starts[rows]]
    damaged[rows] = first == message_term.DAMAGED[0]
    return damaged


def _records(journal: IndexRecords, states: MessageStates, first: int) -> bytes:
    """Return what a journal says of the messages of one segment, and nothing of others."""
    starts, ends = _extents(journal, states.published_at)
    parts: list[bytes] = []
    for row, relative_id in enumerate(states.ids.tolist()):
        if states.published_at[row] >= 0:
            parts.append(bytes(journal.data[int(starts[row]) : int(ends[row])]))
        if states.is_delivered[row]:
            parts.append(index.deliver(first + relative_id))
        if states.is_acked[row]:
            parts.append(index.ack(first + relative_id))
    return b"".join(parts)


def _extents(records: IndexRecords, places: Places) -> tuple[Places, Places]:
    """Return where publish records begin and end; any places where there is none."""
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
        has_name: There is a .queue_name.
        are_sums_void: What checksums there are say nothing.
        version_2: Its files of version 2; None if it has none.
        damage: What should not be there, as far as it was read.
    """

    disk: Disk
    layout: QueueLayout
    entry_count: int
    tail: QueueTail
    journal: QueueIndexFile
    journal_file_bytes: int
    journal_counts: int
    in_files: frozenset[int]
    has_name: bool
    are_sums_void: bool
    version_2: FilesV2 | None = None
    damage: list[FileDamage] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its segments, ascending."""
        found = set(self.in_files)
        found.update((self.journal.states.ids // self.entry_count).tolist())
        if self.version_2 is not None:
            found |= self.version_2.touched(self.entry_count)
        return sorted(found)

    def segments(self) -> Iterator[LoadedSegment]:
        """Yield each segment, read anew.

        Raises:
            DiskFailed: A file cannot be read.
        """
        for number in self.numbers:
            yield self.segment(number)

    def segment(self, number: int) -> LoadedSegment:
        """Return one segment; what a flush has left half done of it does not count.

        Raises:
            DiskFailed: Its file cannot be read.
        """
        path = self.layout.segment(number)
        data = read_file(self.disk, path) if number in self.in_files else b""
        whole = self.tail.whole_bytes(number, data)
        counted = data if whole == len(data) else data[:whole]
        known = None if self.are_sums_void or not counted else sums.read(self.disk, path)
        file = QueueIndexFile.segment(path, counted, known, self.entry_count)
        checked, records = file.checked, file.records
        if checked.summed > len(counted) and not self.tail.appends:
            what = f"expected {checked.summed} bytes, as the checksums say, found {len(counted)}"
            self.damage.append(FileDamage(path, len(counted), what))
        self.damage += _found(file)
        journal = self.journal
        lost: list[int] = []
        if self.version_2 is not None:
            first = number * self.entry_count
            found = self.version_2.records(first, first + self.entry_count)
            above = journal.part(number, self.entry_count)
            data_v1 = _records(journal.records, above, first)
            journal = QueueIndexFile.journal(journal.path, data_v1 + found.data, None, QueueTail())
            lost = [seq_id - first for seq_id in found.lost]
        states = joined(file.states, journal.part(number, self.entry_count))
        return LoadedSegment(
            number=number,
            has_file=number in self.in_files,
            file_bytes=len(data),
            whole_bytes=records.stopped_at,
            covered_bytes=checked.covered,
            summed_bytes=checked.summed,
            is_sound=not file.states.findings and checked.repaired is None,
            has_damage=bool(checked.damaged),
            journal=journal.records,
            records=records,
            states=states,
            live=_live(states, records, journal.records),
            lost_count=len(set(lost).difference(states.ids[states.is_live].tolist()))
            if lost
            else 0,
        )


def load(
    disk: Disk,
    layout: QueueLayout,
    entry_count: int,
    tail: QueueTail,
    *,
    are_sums_void: bool = False,
) -> LoadedIndex:
    """Read the files of a queue, and what the log has of it.

    Args:
        disk: Where they lie.
        layout: Their paths.
        entry_count: Entries of a segment.
        tail: What the log has of the queue, as `WriteAheadContents.tail` says.
        are_sums_void: Checksums say nothing; see `sums.are_void`.

    Raises:
        DiskFailed: A file cannot be read.
    """
    names = {} if tail.is_gone else disk.sizes(layout.root)
    version_2 = files_v2(disk, layout, names)
    length = names.get(_base(layout.journal), 0)
    counts = min(length, tail.journal_bytes)
    written = read_file(disk, layout.journal) if counts else b""
    known = None if are_sums_void or not written else sums.read(disk, layout.journal)
    journal = QueueIndexFile.journal(layout.journal, written, known, tail)
    return LoadedIndex(
        disk=disk,
        layout=layout,
        entry_count=entry_count,
        tail=tail,
        journal=journal,
        journal_file_bytes=length,
        journal_counts=counts,
        in_files=frozenset(numbers(names, SEGMENT)),
        has_name=_base(layout.name) in names,
        are_sums_void=are_sums_void,
        version_2=version_2,
        damage=_found(journal),
    )


def _base(path: str) -> str:
    return path.rpartition("/")[2]


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


def _found(file: QueueIndexFile) -> list[FileDamage]:
    """Return what is wrong with a file; zeros at the end of one are what any crash may leave."""
    path, records = file.path, file.records
    what = "a message has another checksum: it stays in its queue, and nobody gets it"
    if not records.is_segment:
        what = "a message has another checksum: nobody gets it, and its journal is set aside"
    found = [FileDamage(path, one.position, one.what) for one in file.checked.findings]
    found += [FileDamage(path, position, what) for position in file.checked.damaged]
    rest = records.data[records.stopped_at :]
    if records.stop not in (IndexStop.END, IndexStop.ZEROS) or bytes(rest).strip(b"\0"):
        left = f"{records.stop.value}: {len(rest)} bytes do not count"
        found.append(FileDamage(path, records.stopped_at, left))
    if file.fault is not None:
        found.append(FileDamage(path, *file.fault))
    return found + [FileDamage(path, one.position, one.what) for one in file.states.findings]
