"""Timer log, wheel and checkpoint together.

Theory of operation. A message is put by appending its record to the log, where it leads to the one
before it in its slot, and having the slot of the wheel end with it. Many go down together: one
write of the log, one for each run of slots. What is due in a slot is read from its chain, from the
end to the beginning.

Invariants

1. The checkpoint is written after the log was synced, and after that the wheel: what it covers is
   in both of them.
2. After a crash only what the checkpoint covers counts: the log is cut there, and the wheel made
   again from the log. The owner puts the messages that follow once more.
3. After a failed write the log ends where it did, and slots are as they were.
4. Files that are not as they were when the checkpoint was written, by its checksums, count for
   nothing: the owner puts all messages of the topic again.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import structs

from sprocket.base import log
from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.timer import timer_checkpoint, timer_counts
from sprocket.rocketmq.store.timer.timer_checkpoint import KnownCheckpoint, TimerCheckpoint
from sprocket.rocketmq.store.timer.timer_counts import TimerCounts
from sprocket.rocketmq.store.timer.timer_log import (
    DELETE,
    FILE_BYTES,
    RECORD_BYTES,
    TimerLog,
    TimerRecord,
)
from sprocket.rocketmq.store.timer.timer_wheel import SLOTS, TimerWheel, TimeSlot

_log = log.get_logger(__name__)


class NewTimer(NamedTuple):
    """A message to be put into a slot; see `TimerRecord`."""

    magic: int
    enqueued_at_ms: int
    delay_ms: int
    place: int
    size: int
    topic_hash: int


class TimerFiles:
    """The files of one store, opened and whole.

    Args:
        disk: Where they lie.
        layout: Their paths.
        precision_ms: What a slot takes.
        is_whole: The store was closed when it was opened, so that they may count as they are.
        log_bytes: The length of a file of the log, where there are none yet.
        slots: The wheel's, where it is yet to be made.

    Attributes:
        log: The timer log.
        wheel: The wheel; read it by `slot`.
        checkpoint: The one that was found; all zeros if it was none, or none that fits the log.
        counts: How many messages waited then.

    Threads: one at a time, but for the calls of steps.
    """

    def __init__(
        self,
        disk: Disk,
        layout: StoreLayout,
        precision_ms: int,
        *,
        is_whole: bool,
        log_bytes: int = FILE_BYTES,
        slots: int = SLOTS,
    ) -> None:
        self._disk = disk
        self._path = layout.timer_checkpoint
        self.precision_ms = precision_ms
        self.log = TimerLog(disk, layout.timer_log, log_bytes)
        self.wheel = TimerWheel(disk, layout.timer_wheel, slots)
        self._before: dict[int, TimeSlot] = {}
        """Slots of which a write failed, as they were before it."""
        known = timer_checkpoint.load_with_sums(disk, self._path)
        found, sums = known.checkpoint, known.sums
        is_damaged = sums is not None and not self.log.agrees(sums)
        if is_damaged:
            _log.warning("the timer log is damaged; it is made again from the wheel topic")
        if is_damaged or not self.log.is_place(found.log_end):
            found = TimerCheckpoint()
        self.checkpoint = found
        self._counts_path = layout.timer_counts
        self.counts = timer_counts.load(disk, self._counts_path)
        if not found.log_end:
            self.counts = structs.replace(self.counts, topics={})  # all come again
        self.log.end = max(found.log_end, self.log.first)
        same = found.precision_ms in (0, precision_ms)
        is_there = self.wheel.is_there or self.log.end == self.log.first
        is_whole = is_whole and same and is_there and not is_damaged
        if not (is_whole and self._has_wheel(known)) or self.log.goes_on():
            self.log.cut(self.log.end if found.log_end else 0)
            self._make_wheel(found.read_at_ms // precision_ms)

    def _has_wheel(self, known: KnownCheckpoint) -> bool:
        """Tell whether the wheel is that of the checkpoint; RocketMQ's has no checksum."""
        if known.sums is None or not known.is_ours:
            return True
        return known.sums.wheel == self.wheel.checksum()

    def slot(self, number: int) -> TimeSlot:
        """Return a slot by its number: time divided by what a slot takes."""
        return self._before.get(number) or self.wheel.read(number)

    def next_used(self, number: int, end: int) -> int:
        """Return the first slot from a number on that has records; `end` if none before it has."""
        found = self.wheel.next_used(number, end)
        return min([found, *(one for one in self._before if number <= one < end)])

    def put(self, links: Sequence[tuple[int, NewTimer]]) -> None:
        """Put messages into slots, in their order.

        Args:
            links: Each with the number of its slot.

        Raises:
            DiskFull, DiskFailed: None was put.
        Durability: after `keep_steps`.
        """
        slots: dict[int, TimeSlot] = {}
        before: dict[int, TimeSlot] = {}
        records: list[TimerRecord] = []
        end = self.log.end
        for number, link in links:
            position = self.log.next_position(end)
            end = position + RECORD_BYTES
            slot = slots.get(number)
            if slot is None:
                slot = before[number] = self.slot(number)
            records.append(TimerRecord(slot.last, *link))
            slots[number] = TimeSlot(
                position if slot.first < 0 else slot.first,
                position,
                slot.waiting + (-1 if link.magic & DELETE else 1),
            )
        appended = self.log.append(records)
        assert end == appended, "records lie where their slots say"
        try:
            self.wheel.write({**self._before, **slots})
        except (DiskFull, DiskFailed):
            self._before = {**before, **self._before}
            raise
        self._before = {}
        self.log.end = end

    def keep_steps(
        self,
        checkpoint: TimerCheckpoint,
        counts: TimerCounts | None = None,
        *,
        is_last: bool = False,
    ) -> Steps:
        """Make durable what was put, and say so.

        Args:
            checkpoint: True of what was put already, as far as the commit log is durable.
            counts: How many messages wait; None if that is the same as before.
            is_last: Nothing is put any more, so that the wheel as it is now counts at the next
                opening.

        Raises:
            DiskFull, DiskFailed: The checkpoint says less.
        """
        yield from self.log.sync_steps()
        yield from self.wheel.sync_steps()
        sums = yield from self.log.sum_steps(checkpoint.log_end)
        if is_last:
            sums = structs.replace(sums, wheel=self.wheel.checksum())
        yield partial(timer_checkpoint.save, self._disk, self._path, checkpoint, sums)
        self.checkpoint = checkpoint
        if counts is not None and counts.version != self.counts.version:
            yield partial(timer_counts.save, self._disk, self._counts_path, counts)
            self.counts = counts

    def doubt(self) -> None:
        """Have the next opening make the wheel again.

        Raises:
            DiskFailed: It could not be removed.
        """
        self.wheel.remove()

    def close(self) -> None:
        """Close the files."""
        self.log.close()
        self.wheel.close()

    def _make_wheel(self, number: int) -> None:
        """Make the wheel from the log: slots from a number on. Costs 0.2 µs a record."""
        self.wheel.remove()
        slots: dict[int, TimeSlot] = {}
        for position, rows in self.log.rows():
            due = rows["enqueued_at_ms"].astype(np.int64) + rows["delay_ms"]
            numbers = due // self.precision_ms
            wanted = np.flatnonzero((numbers >= number) & (rows["size"] == RECORD_BYTES))
            order = wanted[np.argsort(numbers[wanted], kind="stable")]
            if not len(order):
                continue
            ordered = numbers[order]
            starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
            ends = np.r_[starts[1:], len(order)] - 1
            counts = np.add.reduceat(np.where(rows["magic"][order] & DELETE, -1, 1), starts)
            for one, first, last, count in zip(
                ordered[starts].tolist(),
                (position + RECORD_BYTES * order[starts]).tolist(),
                (position + RECORD_BYTES * order[ends]).tolist(),
                counts.tolist(),
                strict=True,
            ):
                slot = slots.get(one)
                slots[one] = TimeSlot(
                    first if slot is None else slot.first,
                    last,
                    count if slot is None else slot.waiting + count,
                )
        if slots:
            self.wheel.write(slots)
            steps.run(self.wheel.sync_steps())
