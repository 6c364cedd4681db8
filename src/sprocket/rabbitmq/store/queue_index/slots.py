"""What the journal has of a message, and how that changes: RabbitMQ's table of slots."""

from enum import IntEnum

from sprocket.base.errors import CorruptRecord


class SlotEvent(IntEnum):
    """A record of a journal."""

    PUBLISH = 1
    DELIVER = 2
    ACK = 4


class Slot(IntEnum):
    """Which records the journal has of a message since the last flush."""

    ABSENT = 0
    PUBLISHED = 1
    DELIVERED_ONLY = 2
    DELIVERED = 3
    ACKED_ONLY = 4
    DELIVERED_AND_ACKED = 6
    """The publish is in the segment."""


EVENTS = tuple(map(int, (SlotEvent.PUBLISH, SlotEvent.PUBLISH, SlotEvent.DELIVER, SlotEvent.ACK)))
"""What a record says, as a number, by its kind."""

TRANSITIONS = {
    (Slot.ABSENT, SlotEvent.PUBLISH): Slot.PUBLISHED,
    (Slot.ABSENT, SlotEvent.DELIVER): Slot.DELIVERED_ONLY,
    (Slot.ABSENT, SlotEvent.ACK): Slot.ACKED_ONLY,
    (Slot.PUBLISHED, SlotEvent.DELIVER): Slot.DELIVERED,
    (Slot.DELIVERED_ONLY, SlotEvent.ACK): Slot.DELIVERED_AND_ACKED,
    (Slot.DELIVERED, SlotEvent.ACK): Slot.ABSENT,
}
"""Any other pair is a mistake of the caller."""

_AFTER = {int(slot) << 3 | int(event): int(after) for (slot, event), after in TRANSITIONS.items()}
"""The same in plain numbers: to hash a member of an enum takes longer than all the rest."""


def after(slot: int, event: int, seq_id: int) -> int:
    """Return what a slot becomes.

    Raises:
        CorruptRecord: The event cannot follow, as when a message is acknowledged twice.
    """
    found = _AFTER.get(slot << 3 | event)
    if found is None:
        names = SlotEvent(event).name, Slot(slot).name
        raise CorruptRecord(f"message {seq_id}: {names[0]} cannot follow {names[1]}")
    return found
