"""From the wheel into memory: each slot is read a second before its time.

Its chain of records is read from the end to the beginning, in batches. A slot that was read is read
once more, as far as it is new, when something came into it.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from sprocket.base.disk import gather
from sprocket.rocketmq.broker.timers import timed_records
from sprocket.rocketmq.broker.timers.due_messages import DueMessages, OpenSlot
from sprocket.rocketmq.broker.timers.first_copies import FirstCopies
from sprocket.rocketmq.broker.timers.polling import Polling
from sprocket.rocketmq.broker.timers.timed_records import UNREADABLE
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import DELETE, ROLL, TimerFiles, TimerRecord

CHAIN_BATCH = 256
"""Records of a slot's chain that are read in one go."""

LOOK_AHEAD_MS = 1000
"""How long before its time a slot is read."""


class _Reading(Struct, gc=False):
    """A slot that is being read: from `top` back, as far as `position`."""

    slot: OpenSlot
    top: int
    position: int
    due_ms: "array[int]"
    positions: "array[int]"


class SlotReader:
    """Reads slots whose time is near.

    Args:
        store: The open store.
        files: Timer log and wheel.
        waiting: Gets what is read.
        first_copies: Is told how far the slots were read.
        polling: Says when.
        first: The first slot of which something may not be delivered.

    Attributes:
        next: A slot before it was read, and is open as long as something of it is not delivered or
            something may yet come.
        is_busy: Whether it waits for the disk.
        is_damaged: Whether a chain was broken, so that the wheel is to be made again.
    """

    def __init__(
        self,
        store: Store,
        files: TimerFiles,
        waiting: DueMessages,
        first_copies: FirstCopies,
        polling: Polling,
        first: int,
    ) -> None:
        self._store = store
        self._clock = store.log_clock
        self._files = files
        self._waiting = waiting
        self._first_copies = first_copies
        self._polling = polling
        self._precision_ms = files.precision_ms
        self.next = first
        self.is_busy = self.is_damaged = False
        self._open: dict[int, OpenSlot] = {}
        self._dirty: set[int] = set()
        """Slots before `next` into which something came since they were read."""
        self._reading: _Reading | None = None

    @property
    def present(self) -> int:
        """The slot of this moment."""
        return self._clock.now_ms() // self._precision_ms

    @property
    def is_behind(self) -> bool:
        """Whether something came into a slot since it was read."""
        return bool(self._dirty)

    def next_ms(self) -> int:
        """Return how long until the next slot is to be read, in use or not."""
        return self._until(self.next)

    def next_used_ms(self) -> int | None:
        """Return how long until the next slot in use is to be read; None without any.

        Raises:
            DiskFailed: The wheel cannot be read.
        """
        end = self.next + self._files.wheel.slots
        number = self._files.next_used(self.next, end)
        return self._until(number) if number < end else None

    def _until(self, number: int) -> int:
        return number * self._precision_ms - LOOK_AHEAD_MS - self._clock.furthest_ms()

    def note(self, numbers: Iterable[int]) -> None:
        """Take note of slots into which something came."""
        being_read = self.next if self._reading is None else self._reading.slot.number + 1
        read_to = max(self.next, being_read)
        self._dirty.update(number for number in numbers if number < read_to)

    def oldest(self) -> int:
        """Return the first slot of which something is not delivered, or may yet come."""
        present = self.present
        reading = None if self._reading is None else self._reading.slot.number
        over = [
            number
            for number, slot in self._open.items()
            if not slot.left and number < present and number not in self._dirty
            if number != reading
        ]
        for number in over:
            del self._open[number]
        return min([self.next, present, *self._open, *self._dirty])

    def begin(self) -> None:
        """Begin to read a part of a slot, if there is one to be read."""
        if self.is_busy:
            return
        target = (self._clock.furthest_ms() + LOOK_AHEAD_MS) // self._precision_ms + 1
        if self._reading is None and not self._dirty and self.next >= target:
            return
        self.is_busy = True
        self._polling.run(partial(self._read, target), self._failed)

    def _failed(self, error: Exception) -> None:
        self.is_busy = False
        self._polling.pause("the timer wheel cannot be read", error)

    def _read(self, target: int) -> None:
        """Read a part of a slot's chain; all of that before anything changes."""
        reading = self._reading
        if reading is None:
            # Nothing was put a round of the wheel further.
            end = min(target, self.next + self._files.wheel.slots)
            number = min(self._dirty) if self._dirty else self._files.next_used(self.next, end)
            if number == end and not self._dirty:
                self._advance(target)
                self.is_busy = False
                return
            slot = self._open.get(number) or OpenSlot(number)
            top = self._files.slot(number).last
            reading = _Reading(slot, top, top, array("q"), array("q"))
        number = reading.slot.number
        try:
            chain, position = self._files.log.chain(
                reading.position, reading.slot.read_to, CHAIN_BATCH
            )
        except UNREADABLE as error:
            where = f"before {reading.position} of slot {number} of the timer wheel"
            timed_records.report_lost(where, error)
            self.is_damaged = True
            chain, position = [], reading.slot.read_to
        keys = gather([partial(self._deleted, one) for _, one in chain if _takes_back(one)])
        if self._reading is None:
            self._dirty.discard(number)
        self._reading = reading
        self._take_up(reading, chain, keys)
        reading.position = position
        if position == reading.slot.read_to:
            self._reading = None
            reading.slot.read_to = reading.top
            self._open[number] = reading.slot
            self._waiting.add(reading.slot, reading.due_ms[::-1], reading.positions[::-1])
            if number >= self.next:
                self._advance(number + 1)
        self.is_busy = False
        self._polling.succeeded()
        self._polling.soon()

    def _advance(self, number: int) -> None:
        """Note that all slots before a number were read."""
        self._first_copies.note(self.next)
        self.next = number

    def _take_up(
        self,
        reading: _Reading,
        chain: Sequence[tuple[int, TimerRecord]],
        keys: Sequence[str | None],
    ) -> None:
        present_ms = self._polling.now_ms(up=True)
        elapsed: dict[int, int] = {}
        for position, one in chain:
            if _takes_back(one):
                continue
            passed_ms = elapsed.get(one.enqueued_at_ms)
            if passed_ms is None:
                passed_ms = self._clock.elapsed_ms(one.enqueued_at_ms)
                elapsed[one.enqueued_at_ms] = passed_ms
            reading.due_ms.append(present_ms + one.delay_ms - passed_ms)
            reading.positions.append(position)
        deleted = [key for key in keys if key is not None]
        if deleted:
            reading.slot.deleted = {*(reading.slot.deleted or ()), *deleted}

    def _deleted(self, one: TimerRecord) -> str | None:
        """Return the key of the message that another one takes back; None if that is not there."""
        try:
            message = timed_records.stored_message(self._store, one)
        except UNREADABLE as error:
            timed_records.report_lost(f"at {one.place}, which takes another back,", error)
            return None
        return message.properties.get(properties.TIMER_DEL_UNIQKEY)


def _takes_back(one: TimerRecord) -> bool:
    """Tell whether a record is one that takes another back, and is in that one's slot."""
    return bool(one.magic & DELETE) and not one.magic & ROLL
