"""Puts messages where their group gets them again that were popped and not settled in time.

    a pop is due ── its messages are read ── copies to the group's retry topic ── stored ── settled

A copy counts one more delivery. What is not in the log any more is settled, as nobody can get it. A
process that dies between the copy and the note that it is settled has the message come twice.

Source: RocketMQ `PopReviveService.reviveRetry`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from sprocket.base import log
from sprocket.base.clock import LogClock
from sprocket.base.errors import CorruptRecord, LessSafe, StoreError, WireError
from sprocket.rocketmq.broker.messages import DurableAppender, Release, copy_of
from sprocket.rocketmq.broker.pop.in_flight import InFlight, Pop, PopId, PoppedQueue
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.pop import retry_topic_v1
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timer, Timers

LOOK_SECONDS: Final = 0.1
"""How often it is looked whether a pop is due; messages come again this much late at most."""
POPS_AT_ONCE: Final = 16
"""Looked at in one go: some 500 messages, which take about 10 ms of the loop."""
AGAIN_MS: Final = 1_000
"""After how long what failed is tried again."""
FIRST_POP_TIME: Final = "1ST_POP_TIME"

_log = log.get_limited_logger(__name__)


class _Due(NamedTuple):
    """A message of a pop that is due."""

    key: PoppedQueue
    pop: Pop
    offset: int


@dataclass(slots=True, eq=False)
class Reviver:
    """See the head of the module.

    Threads: event loop only.
    """

    _store: Store
    _reads: Reads
    _durable: DurableAppender
    _in_flight: InFlight
    _topics: Topics
    _store_host: bytes
    _clock: LogClock
    """That by which messages were popped: a wall clock that is set changes no invisible time."""
    _timers: Timers
    _timer: Timer | None = field(default=None, init=False)
    _is_working: bool = field(default=False, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def start(self) -> None:
        """Begin to look for pops that are due."""
        self._is_stopped = False
        self._look()

    def stop(self) -> None:
        """Look for nothing more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._is_stopped:
            return
        self._timer = self._timers.call_later(LOOK_SECONDS, self._look)
        if self._is_working:
            return
        due = [
            (key, pop)
            for key, pop in self._in_flight.take_due(self._clock.furthest_ms(), POPS_AT_ONCE)
            if self._is_due(key, pop)
        ]
        if due:
            self._is_working = True
            self._reads.run(partial(self._revive, due), partial(self._failed, due))

    def _is_due(self, key: PoppedQueue, pop: Pop) -> bool:
        """Tell whether the time of a pop is over; if not, have it looked at again then."""
        left_ms = pop.invisible_ms - self._clock.elapsed_ms(pop.id.popped_at_ms)
        if left_ms > 0:
            self._in_flight.put_back(key, pop, self._clock.furthest_ms() + left_ms)
        return left_ms <= 0

    def _failed(self, due: Sequence[tuple[PoppedQueue, Pop]], error: Exception) -> None:
        """Try all of it again later."""
        self._is_working = False
        at_ms = self._clock.furthest_ms() + AGAIN_MS
        for key, pop in due:
            self._in_flight.put_back(key, pop, at_ms)
        if not isinstance(error, StoreError):
            raise error
        _log.error("messages cannot be given again now; trying again", why=str(error))

    def _revive(self, due: Sequence[tuple[PoppedQueue, Pop]]) -> None:
        """Copy what is open of some pops; all of it is read before anything changes."""
        found: list[tuple[_Due, NewRecord | None]] = [
            (_Due(key, pop, offset), self._copy(key, pop, offset))
            for key, pop in due
            for offset in pop.open_offsets
        ]
        for one, copy in found:
            if copy is None:
                self._settle(one)
        copied = [(one, copy) for one, copy in found if copy is not None]
        if copied:
            asked = [one for one, _ in copied]
            self._durable.append([copy for _, copy in copied], self._told, asked)
            self._note_copies(asked, self._store.end)
        else:
            self._is_working = False

    def _note_copies(self, asked: Sequence[_Due], end: int) -> None:
        """Note copies that are about to be written, or with 0 that they were not."""
        offsets: dict[tuple[PoppedQueue, PopId], list[int]] = {}
        for one in asked:
            offsets.setdefault((one.key, one.pop.id), []).append(one.offset)
        for (key, of), several in offsets.items():
            try:
                self._in_flight.note_copies(key, of, several, end)
            except StoreError as error:
                _log.error("a message may be given once more after a kill", why=str(error))

    def _copy(self, key: PoppedQueue, pop: Pop, offset: int) -> NewRecord | None:
        """Return a message as its group is to get it again; None if it is gone."""
        result = self._store.get_messages(key.topic, key.queue_id, offset, max_count=1)
        try:
            message = record.decode(result.records[0])
        except (IndexError, CorruptRecord, WireError):
            return None
        if message.queue_offset != offset:
            return None
        is_retry = key.topic.startswith(RETRY_PREFIX)
        name = key.topic if is_retry else retry_topic_v1(key.topic, key.group)
        self._topics.make_internal(name, 1)
        message.properties.setdefault(FIRST_POP_TIME, str(pop.id.popped_at_ms))
        return copy_of(message, name, 0, self._store_host, more_reconsume_times=1)

    def _told(
        self, asked: Sequence[_Due], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        is_stored = stored is not None and (error is None or isinstance(error, LessSafe))
        return partial(self._release, asked, error, is_stored=is_stored)

    def _release(self, asked: Sequence[_Due], error: StoreError | None, *, is_stored: bool) -> None:
        """Settle what was copied; what was not is tried again later."""
        self._is_working = False
        if is_stored:
            for one in asked:
                self._settle(one)
            return
        self._note_copies(asked, 0)
        pops: dict[tuple[PoppedQueue, PopId], Pop] = {
            (one.key, one.pop.id): one.pop for one in asked
        }
        at_ms = self._clock.furthest_ms() + AGAIN_MS
        for (key, _), pop in pops.items():
            self._in_flight.put_back(key, pop, at_ms)
        _log.error("messages cannot be given again now; trying again", why=str(error))

    def _settle(self, one: _Due) -> None:
        try:
            self._in_flight.settle(one.key, one.pop.id, [one.offset])
        except StoreError as error:
            _log.error("a message may be given once more after the next start", why=str(error))
