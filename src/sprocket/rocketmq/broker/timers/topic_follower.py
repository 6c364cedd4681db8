"""From the wheel topic into the wheel: each message into the slot of its time.

What is due beyond the roll window goes into an earlier slot, from which it comes into the topic
again.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import structs

from sprocket.base.disk import gather
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rocketmq.broker.timers import timed_records
from sprocket.rocketmq.broker.timers.polling import POLL_SECONDS_MIN, Polling
from sprocket.rocketmq.broker.timers.recovery import Delivered
from sprocket.rocketmq.broker.timers.slot_reader import SlotReader
from sprocket.rocketmq.broker.timers.timed_records import UNREADABLE, TimedMessage
from sprocket.rocketmq.broker.timers.waiting_counts import WaitingCounts
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.hashes import cached_hash32
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import DEFAULT, DELETE, ROLL, NewTimer, TimerFiles

FOLLOW_BATCH = 256
"""Messages of the topic that are put into the wheel in one go; about 3 ms of the loop."""


class TopicFollower:
    """Puts what is new in the wheel topic into the wheel.

    Args:
        store: The open store.
        files: Timer log and wheel.
        reader: Reads the slots, and is told of those to be read once more.
        polling: Says when.
        counts: Is told of messages that wait.
        offset: The first message of the topic that is not in the timer log.
        delivered: What had a copy already when the store was opened.
        roll_ms: What waits longer than this comes into the topic again in between.

    Attributes:
        offset: Every message of the topic before it has a record in the timer log, in a slot that
            was not before the present one.
        is_busy: Whether it waits for the disk.
        last_slot: The last slot that has messages; once it is over, none waits.
        copied_slot: The last slot into which a message was put that had a copy already.
    """

    def __init__(
        self,
        store: Store,
        files: TimerFiles,
        reader: SlotReader,
        polling: Polling,
        counts: WaitingCounts,
        offset: int,
        delivered: Delivered,
        roll_ms: int,
    ) -> None:
        self._store = store
        self._clock = store.log_clock
        self._files = files
        self._reader = reader
        self._polling = polling
        self._counts = counts
        self._precision_ms = files.precision_ms
        self.offset = offset
        self._roll_ms = roll_ms
        self.is_busy = False
        self.last_slot = files.wheel.last_used()
        self._delivered = delivered
        self._found_end = store.queue_end(TIMER_TOPIC, 0)
        self.copied_slot = 0

    @property
    def is_behind(self) -> bool:
        """Whether something is in the topic and not in the wheel."""
        return self.behind_count > 0

    @property
    def behind_count(self) -> int:
        """How many messages are in the topic and not in the wheel."""
        return max(0, self._store.queue_end(TIMER_TOPIC, 0) - self.offset)

    @property
    def is_past_found(self) -> bool:
        """Whether what was in the topic when the store was opened is in the wheel."""
        return self.offset >= self._found_end

    def begin(self) -> None:
        """Begin to put the next messages into the wheel, if there are any."""
        if self.is_busy or not self.is_behind:
            return
        self.is_busy = True
        self._polling.run(self._read, self._failed)

    def _failed(self, error: Exception) -> None:
        self.is_busy = False
        self._polling.pause("timed messages cannot be read", error)

    def _read(self) -> None:
        """Read what is new in the topic; all of that before anything changes."""
        low, high = self._store.queue_range(TIMER_TOPIC, 0)
        units = self._store.units(TIMER_TOPIC, 0, max(self.offset, low), FOLLOW_BATCH)
        found = gather(
            [
                partial(self._message_or_error, offset, place)
                for offset, place, size, *_ in units
                if size != FILLER_SIZE
            ]
        )
        end = units[-1][0] + units[-1][4] if units else high
        self._polling.next_turn(partial(self._put, end, found))

    def _message_or_error(self, offset: int, place: int) -> tuple[int, TimedMessage | Exception]:
        try:
            stored = self._store.record_at(PhysicalOffset(place))
            message = timed_records.read(stored, offset, self._precision_ms)
            if offset < self._found_end and self._delivered.has(record.decode(stored)):
                message = structs.replace(message, has_copy=True)
            return offset, message
        except UNREADABLE as error:
            return offset, error
        except DiskFailed as error:
            if not self._polling.is_hopeless:
                raise
            return offset, error

    def _put(self, end: int, found: Sequence[tuple[int, TimedMessage | Exception]]) -> None:
        """Put messages into the slots of their times."""
        self.is_busy = False
        if self._polling.is_stopped:
            return
        wheel_ms = self._clock.now_ms() // self._precision_ms * self._precision_ms
        messages = [one for _, one in found if isinstance(one, TimedMessage)]
        links = [self._link(one, wheel_ms) for one in messages]
        if any(number >= self._reader.next + self._files.wheel.slots for number, _ in links):
            self._polling.within(POLL_SECONDS_MIN)  # slots of the round before are read first
            return
        try:
            if links:
                self._files.put(links)
        except StoreError as error:
            self._polling.pause("timed messages cannot be put into the wheel", error)
            return
        for message in messages:
            if not message.is_delete:
                self._counts.came(message.topic)
        for offset, one in found:
            if isinstance(one, Exception):
                timed_records.report_lost(f"at {offset} of the wheel topic", one)
        self.offset = end
        copied = [at for (at, _), one in zip(links, messages, strict=True) if one.has_copy]
        self.copied_slot = max([self.copied_slot, *copied])
        if self.is_past_found:
            self._delivered = Delivered()
        self._polling.succeeded()
        self.last_slot = max([self.last_slot, *(number for number, _ in links)])
        self._reader.note(number for number, _ in links)
        self._polling.soon()

    def _link(self, message: TimedMessage, wheel_ms: int) -> tuple[int, NewTimer]:
        due = timed_records.due_at_ms(self._clock, message.stored_at_ms, message.out_at_ms)
        due = max(due, wheel_ms)
        magic = DEFAULT | (DELETE if message.is_delete else 0)
        if due - wheel_ms >= self._roll_ms:
            magic |= ROLL
            # Never so that less than a third of the window is left for the last wait.
            is_short = due - wheel_ms - self._roll_ms < self._roll_ms // 3
            due = wheel_ms + (self._roll_ms // 2 if is_short else self._roll_ms)
        return due // self._precision_ms, NewTimer(
            magic=magic,
            enqueued_at_ms=wheel_ms,
            delay_ms=due - wheel_ms,
            place=message.place,
            size=message.size,
            topic_hash=cached_hash32(message.topic),
        )
