"""A segment and the journal above it, as one: what either of them says of a message holds.

A journal may repeat what a segment has, as a flush writes the segment first: what is in both counts
once. RabbitMQ compares the journal's slots with the segment by a table; adding up comes to the same
for each line of that table, and forgets no ack where RabbitMQ does (publish, deliver and ack in the
journal, publish and deliver in the segment).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sprocket.rabbitmq.codec.index import MessageStates

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


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


def part(journal: MessageStates, number: int, entry_count: int) -> MessageStates:
    """Return what a journal says of the messages of one segment, by relative ids."""
    first = number * entry_count
    start, end = np.searchsorted(journal.ids, (first, first + entry_count)).tolist()
    return MessageStates(
        journal.ids[start:end] - first,
        journal.published_at[start:end],
        journal.is_delivered[start:end],
        journal.is_acked[start:end],
        (),
    )


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
