"""What is damaged in a log, and what is kept of it where it is left out.

Damage is bytes that hold no record where one should be, or a record that does not fit a checksum of
its own. All readers report both in the same words.
"""

import dataclasses
from collections.abc import Iterator

import msgspec
import numpy as np

from sprocket.base import log
from sprocket.rocketmq.codec.columns import Records

_log = log.get_logger(__name__)

NAMED_MAX = 1000
"""Places that are kept of those that are left out; the others are counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class DamagedRange:
    """A range of the log that is damaged.

    Args:
        where: The file, or the queue of a live topic.
        start: Physical offset of its first byte; -1 if it is not known.
        size: Bytes up to the next record, or to where reading ends.
        why: What was found there.
    """

    where: str
    start: int
    size: int
    why: str

    def __str__(self) -> str:
        """Say what an error says of it."""
        place = "" if self.start < 0 else f"at physical offset {self.start}: "
        return f"{self.where}: {place}{self.why}"


class LeftOut(msgspec.Struct):
    """Damage that somebody has left out, since they were asked to.

    Attributes:
        count: Places.
        bytes: Their bytes.
        named: The first of them, `NAMED_MAX` at most.
    """

    count: int = 0
    bytes: int = 0
    named: list[DamagedRange] = []

    def add(self, damage: DamagedRange) -> None:
        """Take up a place; the log of the process names some of them."""
        self.count += 1
        self.bytes += damage.size
        if len(self.named) < NAMED_MAX:
            self.named.append(damage)
            _log.warning("damage is left out", place=str(damage), bytes=damage.size)
        elif self.count == NAMED_MAX + 1:
            _log.warning("further damage is left out, and not named")

    def join(self, other: "LeftOut") -> None:
        """Take up what another one has."""
        self.count += other.count
        self.bytes += other.bytes
        self.named = [*self.named, *other.named][:NAMED_MAX]


def wrong_records(records: Records, where: str) -> list[DamagedRange]:
    """Return what is wrong with records that do not fit a checksum of theirs.

    The report has what such a record says of itself, which is mostly right and says what is lost.
    """
    is_body = records.bad_bodies()
    offsets, sizes = records.number("physical_offset"), records.number("size")
    queues, places = records.number("queue_id"), records.number("queue_offset")
    found: list[DamagedRange] = []
    for row in range(len(records)):
        part = "body" if is_body[row] else "record"
        topic = records.topic_names[int(records.topic_number[row])]
        why = (
            f"the {part} does not fit its checksum; by its own words it is message {places[row]}"
            f" of queue {queues[row]} of topic {topic!r}"
        )
        found.append(DamagedRange(where, int(offsets[row]), int(sizes[row]), why))
    return found


def without_wrong(records: Records, where: str) -> Iterator[Records | DamagedRange]:
    """Give records in their order, and damage in the place of those that do not fit a checksum."""
    bad = records.wrong_sums()
    if not bad.any():
        yield records
        return
    first = 0
    for row in np.flatnonzero(bad).tolist():
        if first < row:
            yield records.part(first, row)
        yield from wrong_records(records.part(row, row + 1), where)
        first = row + 1
    if first < len(records):
        yield records.part(first, len(records))
