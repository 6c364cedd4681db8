"""The one reader of a queue's index: its files, and a segment with the journal above it as one.

A queue that runs, recovery and whoever looks into a stopped folder read files by `QueueIndexFile`:
which bytes of them count, by the log and by checksums, and what those say. What is wrong is left to
them to report. What a segment or the journal says of a message holds.

A journal may repeat what a segment has, as a flush writes the segment first: what is in both counts
once. RabbitMQ compares the journal's slots with the segment by a table; adding up comes to the same
for each line of that table, and forgets no ack where RabbitMQ does (publish, deliver and ack in the
journal, publish and deliver in the segment).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.codec.index import CheckedIndex, IndexRecords, IndexSum, MessageStates
from sprocket.rabbitmq.store.write_ahead import JournalFault, QueueTail

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueueIndexFile:
    """What counts of one file of an index.

    Attributes:
        path: Which.
        checked: What its checksums have shown.
        records: What it has; a journal with the records that the log has after it.
        states: What they add up to.
        fault: What a journal lacks; None if nothing.
    """

    path: str
    checked: CheckedIndex
    records: IndexRecords
    states: MessageStates
    fault: JournalFault | None = None

    @classmethod
    def segment(
        cls, path: str, data: bytes, known: list[IndexSum] | None, entry_count: int
    ) -> "QueueIndexFile":
        """Return a segment of which these bytes count; its checksums do not if they are None."""
        checked = _checked(data, known, is_segment=True)
        records = index.read_segment(checked.data)
        return cls(path, checked, records, index.states(records, entry_count))

    @classmethod
    def journal(
        cls, path: str, data: bytes, known: list[IndexSum] | None, tail: QueueTail
    ) -> "QueueIndexFile":
        """Return a journal with what the log has of its queue; checksums as for `segment`."""
        checked = _checked(data[: tail.journal_bytes], known, is_segment=False)
        records = index.read_journal(tail.journal(checked.data))
        fault = None if tail.is_gone else tail.journal_fault(checked.data)
        return cls(path, checked, records, index.states(records), fault)

    def part(self, number: int, entry_count: int) -> MessageStates:
        """Return what a journal says of the messages of one segment, by relative ids."""
        journal, first = self.states, number * entry_count
        start, end = np.searchsorted(journal.ids, (first, first + entry_count)).tolist()
        return MessageStates(
            journal.ids[start:end] - first,
            journal.published_at[start:end],
            journal.is_delivered[start:end],
            journal.is_acked[start:end],
            (),
        )


def _checked(data: bytes, known: list[IndexSum] | None, *, is_segment: bool) -> CheckedIndex:
    if known is None or not data:
        return CheckedIndex(data)
    return index.check_index(data, known, is_segment=is_segment)


@dataclass(frozen=True, slots=True)
class JoinedStates:
    """What is known of the messages of one segment. Arrays have an element for each.

    Attributes:
        ids: Relative ids, ascending.
        in_segment: Where its publish record is in the segment's file; -1 for nowhere.
        in_journal: Where it is in the journal.
        was_delivered: The file says so.
        was_acked: The file says so.
        is_delivered: The file or the journal says so.
        is_acked: The file or the journal says so.
    """

    ids: Places
    in_segment: Places
    in_journal: Places
    was_delivered: Mask
    was_acked: Mask
    is_delivered: Mask
    is_acked: Mask

    @property
    def is_published(self) -> Mask:
        """Which of them have a publish record; of others there are stray marks only."""
        published: Mask = (self.in_segment >= 0) | (self.in_journal >= 0)
        return published

    @property
    def is_live(self) -> Mask:
        """Which messages are in the queue."""
        live: Mask = self.is_published & ~self.is_acked
        return live


def joined(segment: MessageStates, journal: MessageStates) -> JoinedStates:
    """Add up what a segment says, and what the journal says of the same segment."""
    if not len(journal):
        return JoinedStates(
            segment.ids,
            segment.published_at,
            np.full(len(segment), -1, np.int64),
            segment.is_delivered,
            segment.is_acked,
            segment.is_delivered.copy(),
            segment.is_acked.copy(),
        )
    if not len(segment):
        nothing = np.zeros(len(journal), np.bool_)
        return JoinedStates(
            journal.ids,
            np.full(len(journal), -1, np.int64),
            journal.published_at,
            nothing,
            nothing,
            journal.is_delivered.copy(),
            journal.is_acked.copy(),
        )
    ids = np.union1d(segment.ids, journal.ids)
    of_segment = np.searchsorted(ids, segment.ids)
    of_journal = np.searchsorted(ids, journal.ids)
    in_segment, in_journal = np.full(len(ids), -1, np.int64), np.full(len(ids), -1, np.int64)
    was_delivered, was_acked = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    in_segment[of_segment], in_journal[of_journal] = segment.published_at, journal.published_at
    was_delivered[of_segment], was_acked[of_segment] = segment.is_delivered, segment.is_acked
    is_delivered, is_acked = was_delivered.copy(), was_acked.copy()
    is_delivered[of_journal] |= journal.is_delivered
    is_acked[of_journal] |= journal.is_acked
    return JoinedStates(
        ids, in_segment, in_journal, was_delivered, was_acked, is_delivered, is_acked
    )
