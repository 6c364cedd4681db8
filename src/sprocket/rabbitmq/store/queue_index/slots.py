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
    SETTLED = 6
    """Delivered and acknowledged; the publish is in the segment."""


TRANSITIONS = {
    (Slot.ABSENT, SlotEvent.PUBLISH): Slot.PUBLISHED,
    (Slot.ABSENT, SlotEvent.DELIVER): Slot.DELIVERED_ONLY,
    (Slot.ABSENT, SlotEvent.ACK): Slot.ACKED_ONLY,
    (Slot.PUBLISHED, SlotEvent.DELIVER): Slot.DELIVERED,
    (Slot.DELIVERED_ONLY, SlotEvent.ACK): Slot.SETTLED,
    (Slot.DELIVERED, SlotEvent.ACK): Slot.ABSENT,
}
"""Any other pair is a mistake of the caller."""


def after(slot: Slot, event: SlotEvent, seq_id: int) -> Slot:
    """Return what a slot becomes.

    Raises:
        CorruptRecord: The event cannot follow, as when a message is acknowledged twice.
    """
    found = TRANSITIONS.get((slot, event))
    if found is None:
        raise CorruptRecord(f"message {seq_id}: {event.name} cannot follow {slot.name}")
    return found
