"""Delivers messages at the time that they say, to the millisecond.

Theory of operation

A message that says a time waits in queue 0 of the wheel topic. Three pieces of work take turns on
the loop, each in batches; what they read is read on another thread if only the disk has it:

    the topic → follow → timer log and wheel → walk → waiting → deliver → a copy, where it was to go

*Follow* reads what is new in the topic and puts it into the slot of its time (`store.timer`); what
is due beyond the roll window into an earlier one, from which it comes into the topic again. *Walk*
reads each slot a second before its time, from the end of its chain to the beginning, and slots that
were read once more when something came into them. *Deliver* appends copies of what is due, through
`broker.messages` like any send.

A message is due when as much time has passed since it was stored as it asked for, by the log's
clock: setting the machine's clock brings none early and delays none. The wait for what was read is
measured on the monotonic clock.

The checkpoint says up to which slot everything is delivered and stored, up to where the timer log
has the topic, and from where on the log may have copies of what is in later slots. After a crash
those copies are looked for, and what has one is not delivered again.

Invariants

1. Every message of the topic before `_offset` has a record in the timer log, in a slot that is not
   before the present one.
2. A slot before `_next` was read, and is in `_open` as long as something of it is not delivered or
   something may yet come.
3. The checkpoint is true of what the disk has: it waits for the log that it speaks of.
4. A message counts as delivered only after its copy is stored as the flush mode says.

Source: RocketMQ `TimerMessageStore`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

from msgspec import Struct

from sprocket.base import log
from sprocket.base.disk import Steps, gather, steps
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    DiskRefused,
    MessageTooLarge,
    StoreError,
    WireError,
)
from sprocket.base.place import Place
from sprocket.rocketmq.broker.messages import DurableAppender, Release
from sprocket.rocketmq.broker.timers import recovery, timed_records
from sprocket.rocketmq.broker.timers.due_messages import Due, DueMessages, OpenSlot
from sprocket.rocketmq.broker.timers.timed_records import TimedMessage
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.hashes import cached_hash32
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import (
    DEFAULT,
    DELETE,
    ROLL,
    NewTimer,
    TimerCheckpoint,
    TimerFiles,
    TimerRecord,
)
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

FOLLOW_BATCH = 256
"""Messages of the topic that are put into the wheel in one go; about 3 ms of the loop."""
CHAIN_BATCH = 256
"""Records of a slot's chain that are read in one go."""
DELIVER_BATCH = 64
"""Messages that are delivered in one go; about 2 ms of the loop."""

LOOK_AHEAD_MS = 1000
"""How long before its time a slot is read."""
POLL_SECONDS_MIN = 0.01
"""What is due one after the other within this time shares a sync; it comes so much late."""
POLL_SECONDS_MAX = 1.0
"""How often the topic and the wheel are looked at when nothing is known to come."""
EXPECT_SECONDS = 1.0
"""For how long after a message was sent the topic is looked at every `POLL_SECONDS_MIN`."""
RETRY_SECONDS = 1.0
"""How long a piece of work pauses after a failure; the disk may be full."""
UNREADABLE_LOOKS_MAX = 30
"""Looks, a second apart, after which a message that the disk does not give counts as lost."""
IDLE_BYTES = 16 << 20
"""The checkpoint is written again when the log has grown by this, if nothing else has changed."""

ROUNDING_MS = 0.001
"""What seconds as a float may be off by."""

_UNREADABLE = (*recovery.UNREADABLE, ValueError)
_REFUSED_FOR_GOOD = (MessageTooLarge, MessageIllegal, CorruptRecord)
"""The copy itself cannot be appended, now or later."""


class _Reading(Struct, gc=False):
    """A slot that is being read: from `top` back, as far as `position`."""

    slot: OpenSlot
    top: int
    position: int
    due_ms: list[int]
    positions: list[int]


class TimedMessages:
    """The delivery of all timed messages.

    Args:
        place: The store's.
        store: The open store, just recovered.
        reads: Asks the disk for what is not in memory.
        durable: The way into the store.
        drive: Does work in steps, its calls on the disk thread.
        store_host: The broker's address, as records hold it.
        timers: The event loop's.
        precision_ms: What a slot of the wheel takes.
        roll_ms: What waits longer than this comes into the topic again in between.
        files: The files of the store, opened; None opens them.

    Threads: event loop only.
    """

    def __init__(
        self,
        place: Place,
        store: Store,
        reads: Reads,
        durable: DurableAppender,
        drive: Callable[[Steps, Callable[[BaseException | None], None]], None],
        store_host: bytes,
        timers: Timers,
        *,
        precision_ms: int,
        roll_ms: int,
        files: TimerFiles | None = None,
    ) -> None:
        self._monotonic = place.clock.monotonic
        self._store = store
        self._clock = store.log_clock
        self._reads = reads
        self._durable = durable
        self._drive = drive
        self._store_host = store_host
        self._timers = timers
        self._precision_ms = precision_ms
        self._roll_ms = roll_ms
        self._files = files or TimerFiles(
            store.disk, StoreLayout(place.folder), precision_ms, is_whole=store.report.clean
        )
        found = self._files.checkpoint
        self._offset = recovery.next_offset(store, self._files)
        self._delivered = recovery.find(store, self._files)
        present = self._clock.now_ms() // precision_ms
        self._next = found.read_at_ms // precision_ms or present
        self._found_to = max(present, self._next) + 2
        """Nothing that was delivered before is in this slot or a later one."""
        self._noted: deque[tuple[int, int]] = deque([(self._next, found.deliveries_from)])
        """Slots, and up to where the disk had the log before anything of them was delivered."""
        self._open: dict[int, OpenSlot] = {}
        self._dirty: set[int] = set()
        """Slots before `_next` into which something came since they were read."""
        self._reading: _Reading | None = None
        self._waiting = DueMessages()
        self._is_following = self._is_walking = self._is_stopped = self._is_soon = False
        self._pending = 0
        self._looks = 0
        self._paused_until = 0.0
        self._expected_until = 0.0
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._deliveries = 0
        self._kept = (found.log_end, found.queue_offset, 0)
        self._unsafe: tuple[TimerCheckpoint, int, tuple[int, int, int]] | None = None
        self._is_keeping = self._is_doubtful = False

    def start(self) -> None:
        """Begin to deliver, where the last process stopped."""
        self._poll_soon()

    def stop(self) -> None:
        """Begin nothing more; group commit, when it stops, answers what is under way."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expect(self) -> None:
        """Look for new messages soon: one was sent."""
        self._expected_until = self._monotonic() + EXPECT_SECONDS
        self._later(POLL_SECONDS_MIN)

    def next_due_ms(self) -> int | None:
        """Return how long until something is to be done, at most 0 if it is now; None if nothing.

        That is when the next message is due, or when the next slot is read.

        Raises:
            StoreError: Topic or wheel cannot be read.
        """
        if self._pending or self._is_walking or self._is_following:
            return 0
        if self._dirty or self._store.queue_end(TIMER_TOPIC, 0) > self._offset:
            return 0
        waits = []
        due_ms = self._waiting.next_ms()
        if due_ms is not None:
            waits.append(due_ms - self._monotonic_ms(up=False))
        end = self._next + self._files.wheel.slots
        number = self._files.next_used(self._next, end)
        if number < end:
            read_at_ms = number * self._precision_ms - LOOK_AHEAD_MS
            waits.append(read_at_ms - self._clock.furthest_ms())
        return min(waits, default=None)

    def waiting_count(self, due_at_ms: int) -> int:
        """Return how many messages wait in the slot of a time."""
        return self._files.slot(due_at_ms // self._precision_ms).waiting

    # When something is to be done.

    def _poll_soon(self) -> None:
        if not self._is_soon and not self._is_stopped:
            self._is_soon = True
            self._timers.call_soon(self._poll)

    def _poll(self) -> None:
        """Begin what can be, and see to the next look."""
        self._is_soon = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_stopped:
            return
        if self._monotonic() >= self._paused_until:
            self._follow()
            self._walk()
        self._deliver()
        if self._is_soon:
            return
        wait = POLL_SECONDS_MAX
        if self._monotonic() < self._expected_until:
            wait = POLL_SECONDS_MIN
        due_ms = self._waiting.next_ms()
        if due_ms is not None and not self._pending:
            wait = min(wait, due_ms / 1000 - self._monotonic())
        until_slot = self._next * self._precision_ms - LOOK_AHEAD_MS - self._clock.furthest_ms()
        self._later(min(wait, until_slot / 1000))

    def _later(self, seconds: float) -> None:
        if self._is_stopped:
            return
        at = self._monotonic() + min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._timers.call_later(at - self._monotonic(), self._poll)

    def _run(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        try:
            self._reads.run(work, failed)
        except StoreError as error:
            failed(error)

    def _pause(self, what: str, error: Exception) -> None:
        """Try a piece of work again later."""
        if not isinstance(error, StoreError):
            raise error
        _log.error(f"{what}; trying again", why=str(error))
        self._looks += 1
        self._paused_until = self._monotonic() + RETRY_SECONDS
        self._later(RETRY_SECONDS)

    def _monotonic_ms(self, *, up: bool) -> int:
        """Return the time of the monotonic clock in whole milliseconds, rounded up or down."""
        ms = self._monotonic() * 1000
        return ceil(ms - ROUNDING_MS) if up else int(ms + ROUNDING_MS)

    # From the topic into the wheel.

    def _follow(self) -> None:
        if self._is_following or self._store.queue_end(TIMER_TOPIC, 0) <= self._offset:
            return
        self._is_following = True
        self._run(self._read_new, self._follow_failed)

    def _follow_failed(self, error: Exception) -> None:
        self._is_following = False
        self._pause("timed messages cannot be read", error)

    def _read_new(self) -> None:
        """Read what is new in the topic; all of that before anything changes."""
        low, high = self._store.queue_range(TIMER_TOPIC, 0)
        units = self._store.units(TIMER_TOPIC, 0, max(self._offset, low), FOLLOW_BATCH)
        found = gather(
            [
                partial(self._message_or_error, offset, place)
                for offset, place, size, *_ in units
                if size != FILLER_SIZE
            ]
        )
        end = units[-1][0] + units[-1][4] if units else high
        self._timers.call_soon(partial(self._put, end, found))

    def _message_or_error(self, offset: int, place: int) -> tuple[int, TimedMessage | Exception]:
        try:
            stored = self._store.record_at(PhysicalOffset(place))
            return offset, timed_records.read(stored, offset, self._precision_ms)
        except _UNREADABLE as error:
            return offset, error
        except DiskFailed as error:
            if self._looks < UNREADABLE_LOOKS_MAX:
                raise
            return offset, error

    def _put(self, end: int, found: Sequence[tuple[int, TimedMessage | Exception]]) -> None:
        """Put messages into the slots of their times."""
        self._is_following = False
        if self._is_stopped:
            return
        wheel_ms = self._clock.now_ms() // self._precision_ms * self._precision_ms
        links = [self._link(one, wheel_ms) for _, one in found if isinstance(one, TimedMessage)]
        if any(number >= self._next + self._files.wheel.slots for number, _ in links):
            self._later(POLL_SECONDS_MIN)  # slots of the round before have to be read first
            return
        try:
            if links:
                self._files.put(links)
        except StoreError as error:
            self._pause("timed messages cannot be put into the wheel", error)
            return
        for offset, one in found:
            if isinstance(one, Exception):
                _lost(f"at {offset} of the wheel topic", one)
        self._offset, self._looks = end, 0
        being_read = self._next if self._reading is None else self._reading.slot.number + 1
        for number, _ in links:
            if number < max(self._next, being_read):
                self._dirty.add(number)
        self._poll_soon()

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

    # From the wheel into memory.

    def _walk(self) -> None:
        if self._is_walking:
            return
        target = (self._clock.furthest_ms() + LOOK_AHEAD_MS) // self._precision_ms + 1
        if self._reading is None and not self._dirty and self._next >= target:
            return
        self._is_walking = True
        self._run(partial(self._read_slot, target), self._walk_failed)

    def _walk_failed(self, error: Exception) -> None:
        self._is_walking = False
        self._pause("the timer wheel cannot be read", error)

    def _read_slot(self, target: int) -> None:
        """Read a part of a slot's chain; all of that before anything changes."""
        reading = self._reading
        if reading is None:
            # Nothing was put a round of the wheel further.
            end = min(target, self._next + self._files.wheel.slots)
            number = min(self._dirty) if self._dirty else self._files.next_used(self._next, end)
            if number == end and not self._dirty:
                self._advance(target)
                self._is_walking = False
                return
            slot = self._open.get(number) or OpenSlot(number)
            top = self._files.slot(number).last
            reading = _Reading(slot, top, top, [], [])
        number = reading.slot.number
        try:
            chain, position = self._files.log.chain(
                reading.position, reading.slot.read_to, CHAIN_BATCH
            )
        except recovery.UNREADABLE as error:
            _lost(f"before {reading.position} of slot {number} of the timer wheel", error)
            self._is_doubtful = True
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
            if number >= self._next:
                self._advance(number + 1)
        self._is_walking, self._looks = False, 0
        self._poll_soon()

    def _take_up(
        self,
        reading: _Reading,
        chain: Sequence[tuple[int, TimerRecord]],
        keys: Sequence[str | None],
    ) -> None:
        present_ms = self._monotonic_ms(up=True)
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
            message = self._message(one)
        except _UNREADABLE as error:
            _lost(f"at {one.place}, which takes another back,", error)
            return None
        return message.properties.get(properties.TIMER_DEL_UNIQKEY)

    def _message(self, one: TimerRecord) -> StoredMessage:
        """Return the message of a record of the timer log. Raises one of `_UNREADABLE`."""
        message = record.decode(self._store.record_at(PhysicalOffset(one.place)))
        if (message.topic, message.queue_id) != (TIMER_TOPIC, 0):
            raise WireError("another record lies where the timer log says")
        return message

    def _advance(self, number: int) -> None:
        """Note that all slots before a number were read."""
        self._noted.append((self._next, self._store.synced))
        self._next = number

    # From memory to where they are to go.

    def _deliver(self) -> None:
        if self._pending:
            return
        batch = self._waiting.take(self._monotonic_ms(up=False), DELIVER_BATCH)
        if batch:
            self._pending = 1  # this call, so that no answer within it ends the batch
            self._run(partial(self._append, batch), partial(self._deliver_failed, batch))

    def _deliver_failed(self, batch: Sequence[Due], error: Exception) -> None:
        self._pending = 0
        self._again(batch)
        self._pause("timed messages that are due cannot be read", error)

    def _again(self, batch: Sequence[Due]) -> None:
        retry_ms = self._monotonic_ms(up=True) + int(RETRY_SECONDS * 1000)
        for due in batch:
            self._waiting.again(due.slot, retry_ms, due.position)

    def _append(self, batch: Sequence[Due]) -> None:
        """Append copies of what is due; all of that is read before anything changes."""
        found = gather([partial(self._copy_or_error, due) for due in batch])
        self._looks = 0
        records: list[NewRecord] = []
        asked: list[Due] = []
        for due, copy in zip(batch, found, strict=True):
            if isinstance(copy, NewRecord):
                records.append(copy)
                asked.append(due)
            elif isinstance(copy, int):
                self._waiting.again(due.slot, copy, due.position)
            else:
                if copy is not None:
                    _lost(f"at {due.position} of the timer log", copy)
                self._done(due)
        self._pending += len(records)
        if records:
            self._durable.append(records, self._stored, asked)
        self._answered(1)

    def _copy_or_error(self, due: Due) -> NewRecord | Exception | int | None:
        """Return a copy, or why there can be none, or when it is due, or None if it is not wanted.

        The time is in milliseconds of the monotonic clock.
        """
        try:
            one = self._files.log.read(due.position)
            if one.place in self._delivered.places:
                return None
            message = self._message(one)
            is_rolled = bool(one.magic & ROLL)
            if self._delivered.has(message):
                return None
            if timed_records.delete_key(message) in (due.slot.deleted or ()):
                return None
            now_ms = self._clock.now_ms()
            if not is_rolled and one.due_at_ms % self._precision_ms:
                return timed_records.delivered(
                    message, one.enqueued_at_ms, now_ms, self._store_host
                )
            out = timed_records.out_at_ms(
                message.properties, message.stored_at_ms, self._precision_ms
            )
            due_ms = timed_records.due_at_ms(self._clock, message.stored_at_ms, out)
            if is_rolled:
                return timed_records.rolled(
                    message, one.enqueued_at_ms, due_ms, now_ms, self._store_host
                )
            if due_ms > now_ms:
                return self._monotonic_ms(up=True) + due_ms - now_ms
            return timed_records.delivered(message, one.enqueued_at_ms, now_ms, self._store_host)
        except _UNREADABLE as error:
            return error
        except DiskFailed as error:
            if self._looks < UNREADABLE_LOOKS_MAX:
                raise
            return error

    def _stored(
        self, asked: Sequence[Due], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Take note of copies that were not stored; asked once more if their sync fails."""
        return partial(self._release, asked, error, is_stored=stored is not None)

    def _release(self, asked: Sequence[Due], error: StoreError | None, *, is_stored: bool) -> None:
        if is_stored:
            for due in asked:
                self._done(due)
        elif isinstance(error, _REFUSED_FOR_GOOD):
            for due in asked:
                _lost(f"at {due.position} of the timer log", error)
                self._done(due)
        else:
            _log.warning("timed messages could not be delivered; trying again", why=str(error))
            self._again(asked)
        self._answered(len(asked))

    def _done(self, due: Due) -> None:
        due.slot.left -= 1
        self._deliveries += 1

    def _answered(self, count: int) -> None:
        self._pending -= count
        if not self._pending:
            self._poll_soon()

    # How far everything is.

    def _oldest(self) -> int:
        """Return the first slot of which something is not delivered, or may yet come."""
        present = self._clock.now_ms() // self._precision_ms
        reading = None if self._reading is None else self._reading.slot.number
        over = [
            number
            for number, slot in self._open.items()
            if not slot.left and number < present and number not in self._dirty
            if number != reading
        ]
        for number in over:
            del self._open[number]
        return min([self._next, present, *self._open, *self._dirty])

    def _checkpoint(self) -> TimerCheckpoint:
        oldest = self._oldest()
        while len(self._noted) > 1 and self._noted[1][0] <= oldest:
            self._noted.popleft()
        if oldest > self._found_to:
            self._delivered = recovery.Delivered()
        before = self._files.checkpoint
        return TimerCheckpoint(
            read_at_ms=oldest * self._precision_ms,
            log_end=self._files.log.end,
            queue_offset=self._offset,
            master_queue_offset=self._offset,
            state_version=before.state_version,
            version_at_ms=self._clock.now_ms(),
            version=before.version + 1,
            deliveries_from=self._noted[0][1],
            precision_ms=self._precision_ms,
        )

    def keep(self) -> None:
        """Begin to make durable how far everything is; wanted about once a second."""
        if self._is_keeping or self._is_doubtful or self._is_stopped:
            return
        if self._unsafe is not None and self._store.synced >= self._unsafe[1]:
            checkpoint, _, kept = self._unsafe
            self._unsafe, self._kept = None, kept
            self._is_keeping = True
            self._drive(self._keep_steps(checkpoint), self._keep_ended)
        if self._unsafe is None:
            reached = (self._files.log.end, self._offset, self._deliveries)
            grown = self._store.synced - self._files.checkpoint.deliveries_from
            if reached != self._kept or (self._offset and grown > IDLE_BYTES):
                self._unsafe = self._checkpoint(), self._store.written, reached

    def _keep_steps(self, checkpoint: TimerCheckpoint) -> Steps:
        try:
            yield from self._files.keep_steps(checkpoint)
            yield from self._files.log.clean_steps(self._store.first)
        except (DiskFull, DiskRefused) as error:
            _log.error("how far timed messages are could not be noted", why=str(error))
        except StoreError as error:
            # What reached the disk is unknown: the next process makes the wheel again.
            self._is_doubtful = True
            _log.error(
                "how far timed messages are cannot be noted any more until a restart",
                why=str(error),
            )

    def _keep_ended(self, error: BaseException | None) -> None:
        self._is_keeping = False
        if error is not None:
            raise error

    def close(self) -> None:
        """Note how far everything is, and close the files; the store is synced, and open.

        Raises:
            StoreError: It could not be noted; the next process delivers from the last note on.
        """
        try:
            if self._is_doubtful:
                self._files.doubt()
            elif self._offset and self._store.is_synced:
                steps.run(self._files.keep_steps(self._checkpoint()))
        finally:
            self._files.close()


def _takes_back(one: TimerRecord) -> bool:
    """Tell whether a record is one that takes another back, and is in that one's slot."""
    return bool(one.magic & DELETE) and not one.magic & ROLL


def _lost(where: str, why: Exception) -> None:
    _log.error(f"a timed message {where} cannot be delivered and is passed over", why=str(why))
