"""Delivers messages that wait for their delay level, each at its time.

Theory of operation

A message sent with a level waits in the level's queue of `SCHEDULE_TOPIC_XXXX`, and the unit there
holds the time of its delivery; see `broker.delay_levels`. Each level has one timer. When it fires,
`_poll` reads the next units and what is due of their messages, `BATCH` at the most, on another
thread if only the disk has them (`runtime.cold_reads`), and appends a copy of each,
through `broker.messages` like any send, which shares its write and sync with whatever else comes.
When all copies are answered the level's progress is noted (`broker.delay_progress`), and it looks
again: at once if more may be due, at the time of the next message, or, with nothing waiting, after
the level's own delay, since what comes meanwhile cannot be due before.

A message is due when its delay has really passed since it was stored, by the log's clock: setting
the machine's clock, in either direction, brings no message early or twice and delays none. What an
earlier process stored is due by its times, or, if the clock was set back meanwhile, when its delay
has passed once more.

A copy keeps everything of the message, `DELAY`, `REAL_TOPIC` and `REAL_QID` included, as those of
RocketMQ do. Its topic is not looked up: one that was deleted meanwhile gets its message all the
same, as there, and shows it when it is made again.

Invariants

1. A message is noted as delivered only after its copy is stored as the flush mode says: whatever
   happens, it is delivered at least once.
2. A message that cannot be read, or that no log can take, is logged with its place, and the level
   continues behind it; if the disk cannot read it, after half a minute. Any other failure keeps the
   level where it is and is tried again.
3. A level has at most one batch under way.

Source: RocketMQ `ScheduleMessageService`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sprocket.base import log
from sprocket.base.disk import gather
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    MessageTooLarge,
    OffsetTooLarge,
    OffsetTooSmall,
    StoreError,
    WireError,
)
from sprocket.rocketmq.broker.delay.delay_progress import DelayProgress
from sprocket.rocketmq.broker.messages import DelayLevels, DurableAppender, Release, copy_of
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.internal import HALF_TOPIC, SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

BATCH = 64
"""Messages that a level delivers in one go; takes about 2 ms of the loop."""

POLL_SECONDS_MIN = 0.01
"""How long a level waits at least, so that messages which are due one after the other share a sync;
they come so much late."""

POLL_SECONDS_MAX = 1.0
"""How long a level waits at most: all levels together cost some 60 µs a second."""

RETRY_SECONDS = 1.0
"""How long a level pauses after a failure; the disk may be full."""

UNREADABLE_LOOKS_MAX = 30
"""Looks, a second apart, after which a message that the disk does not give counts as lost: a sector
that stays bad must not hold up all messages of its level."""

_UNREADABLE = (CorruptRecord, OffsetTooSmall, OffsetTooLarge, WireError, ValueError)
"""The message that waits is not there, or damaged; another try would find the same."""

_REFUSED_FOR_GOOD = (MessageTooLarge, MessageIllegal, CorruptRecord)
"""The copy itself cannot be appended, now or later."""


@dataclass(slots=True, eq=False)
class _Level:
    """One delay level and where its delivery is."""

    number: int
    """From 1; its waiting queue is one less."""
    offset: int
    """The first message that was not delivered."""
    end: int = 0
    """Where the batch under way ends."""
    failed_at: int | None = None
    """The first message of it that has to be tried again, None without one."""
    pending: int = 0
    """Copies of it that are not answered yet."""
    failed_looks: int = 0
    """How often in a row it could not be read."""
    wait_ms: int | None = None
    """How long the first message behind it has to wait, None if it is not known."""
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Delays:
    """The delivery of all levels.

    Threads: event loop only.
    """

    _store: Store
    _reads: Reads
    """Asks the disk for messages that are not in memory."""
    _durable: DurableAppender
    _progress: DelayProgress
    _delays: DelayLevels
    _store_host: bytes
    _timers: Timers
    _levels: list[_Level] = field(default_factory=list, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def start(self) -> None:
        """Begin to deliver, where the last process stopped.

        Levels that the settings do not have any more are delivered as long as something waits.
        """
        waiting = [
            queue_id + 1 for topic, queue_id, _ in self._store.queues() if topic == SCHEDULE_TOPIC
        ]
        for number in range(1, max([self._delays.count, *waiting]) + 1):
            level = _Level(number, self._progress.get(number))
            self._levels.append(level)
            self._into_range(level)
            self._timers.call_soon(partial(self._poll, level))

    def next_due_ms(self) -> int | None:
        """Return how long until the next message is due, at most 0 if one is; None without any.

        Raises:
            StoreError: A level cannot be read.
        """
        waits = [self._next_due_ms(level) for level in self._levels]
        return min((one for one in waits if one is not None), default=None)

    def _next_due_ms(self, level: _Level) -> int | None:
        if level.pending:
            return 0
        units = self._store.units(SCHEDULE_TOPIC, level.number - 1, level.offset, 1)
        return self._wait_ms(level, units[0][3]) if units else None

    def stop(self) -> None:
        """Begin no further batch; group commit, when it stops, answers the one under way."""
        self._is_stopped = True
        for level in self._levels:
            if level.timer is not None:
                level.timer.cancel()
                level.timer = None

    def _poll(self, level: _Level) -> None:
        """Deliver what is due in one level, and see to the next look."""
        if level.timer is not None:
            level.timer.cancel()
            level.timer = None
        if self._is_stopped or level.pending:
            return
        level.pending = 1  # this poll, so that no other begins, and no answer within it ends it
        try:
            self._reads.run(partial(self._deliver, level), partial(self._unreadable, level))
        except StoreError as error:
            self._unreadable(level, error)

    def _unreadable(self, level: _Level, error: Exception) -> None:
        """Try a level again later."""
        level.pending = 0
        if not isinstance(error, StoreError):
            raise error
        level.failed_looks += 1
        _log.error("a delay level cannot be read", level=level.number, why=str(error))
        self._later(level, RETRY_SECONDS)

    def _deliver(self, level: _Level) -> None:
        """Append copies of what is due; all of that is read before anything changes."""
        units = self._store.units(SCHEDULE_TOPIC, level.number - 1, level.offset, BATCH)
        end, wait_ms = level.offset, None
        copies: list[Callable[[], tuple[int, NewRecord | Exception]]] = []
        for offset, place, size, due_at_ms, count in units:
            wait = self._wait_ms(level, due_at_ms)
            if wait > 0:
                wait_ms = wait
                break
            end = offset + count
            if size != FILLER_SIZE:
                copies.append(partial(self._copy_or_error, level, offset, place))
        found = gather(copies)
        if not units or self._is_stopped:
            level.pending = 0
            self._into_range(level)
            self._later(level, self._delays.delay_ms(level.number) / 1000)
            return
        level.end, level.failed_at, level.wait_ms = end, None, wait_ms
        level.failed_looks = 0
        records: list[NewRecord] = []
        offsets: list[int] = []
        for offset, copy in found:
            if isinstance(copy, Exception):
                _lost(level, offset, copy)
            else:
                records.append(copy)
                offsets.append(offset)
        level.pending += len(records)
        if records:
            self._durable.append(records, partial(self._stored, level), offsets)
        self._answered(level, 1)

    def _wait_ms(self, level: _Level, due_at_ms: int) -> int:
        """Return how long a message has to wait yet, at most 0 if it is due."""
        delay_ms = self._delays.delay_ms(level.number)
        if due_at_ms > self._store.log_clock.now_ms() + delay_ms:
            return 0  # the level was longer when it was stored, or the unit is damaged
        return delay_ms - self._store.log_clock.elapsed_ms(due_at_ms - delay_ms)

    def _copy_or_error(
        self, level: _Level, offset: int, place: int
    ) -> tuple[int, NewRecord | Exception]:
        """Return a message's queue offset, and its copy or why there can be none."""
        try:
            return offset, self._copy(level, offset, place)
        except _UNREADABLE as error:
            return offset, error
        except DiskFailed as error:
            if level.failed_looks < UNREADABLE_LOOKS_MAX:
                raise
            return offset, error

    def _copy(self, level: _Level, offset: int, place: int) -> NewRecord:
        """Return the copy of a message that is due. Raises one of `_UNREADABLE`."""
        found = record.decode(self._store.record_at(PhysicalOffset(place)))
        here = (SCHEDULE_TOPIC, level.number - 1, offset)
        if (found.topic, found.queue_id, found.queue_offset) != here:
            raise WireError("another record lies where the queue says")
        topic = found.properties.get(properties.REAL_TOPIC, "")
        queue_id = int(found.properties.get(properties.REAL_QID, ""))
        # To one of the last two it would be no message of ours.
        if topic in ("", HALF_TOPIC, SCHEDULE_TOPIC) or queue_id < 0:
            raise WireError(f"it wants to go to queue {queue_id} of {topic!r}")
        return copy_of(found, topic, queue_id, self._store_host)

    def _stored(
        self,
        level: _Level,
        offsets: Sequence[int],
        stored: AppendedBatch | None,
        error: StoreError | None,
    ) -> Release:
        """Take note of copies that were not stored; asked once more if their sync fails."""
        for offset in offsets if stored is None else ():
            if isinstance(error, _REFUSED_FOR_GOOD):
                _lost(level, offset, error)
            elif level.failed_at is None or offset < level.failed_at:
                level.failed_at = offset
                _log.warning(
                    "delayed messages could not be delivered; trying again",
                    level=level.number,
                    why=str(error),
                )
        return partial(self._answered, level, len(offsets))

    def _answered(self, level: _Level, count: int) -> None:
        """End the batch when nothing of it is under way any more."""
        level.pending -= count
        if level.pending:
            return
        reached = level.end if level.failed_at is None else level.failed_at
        if reached != level.offset:
            level.offset = reached
            try:
                self._progress.note(level.number, reached)
            except StoreError as error:
                _log.error(
                    "the progress of a delay level could not be noted; a kill would have its "
                    "messages delivered again",
                    level=level.number,
                    why=str(error),
                )
        if level.failed_at is not None:
            self._later(level, RETRY_SECONDS)
        elif level.wait_ms is not None:
            self._later(level, (level.wait_ms + 1) / 1000)
        elif not self._is_stopped:
            self._timers.call_soon(partial(self._poll, level))

    def _later(self, level: _Level, seconds: float) -> None:
        if not self._is_stopped:
            seconds = min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
            level.timer = self._timers.call_later(seconds, partial(self._poll, level))

    def _into_range(self, level: _Level) -> None:
        """Move a level to where its queue is: old messages may be deleted, or a log cut."""
        low, high = self._store.queue_range(SCHEDULE_TOPIC, level.number - 1)
        level.offset = min(max(level.offset, low), high)


def _lost(level: _Level, offset: int, why: Exception | None) -> None:
    _log.error(
        "a delayed message cannot be delivered and is passed over",
        level=level.number,
        queue_offset=offset,
        why=str(why),
    )
