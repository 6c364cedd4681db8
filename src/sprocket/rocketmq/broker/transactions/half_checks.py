"""Asks producers how their transactions ended, where nobody has said so in time.

Theory of operation

A round, every half minute, goes on in the queue of half messages where the last one stopped. It
passes over those that have ended, and stops at the first that is too young to be asked about. One
that may be asked about is stored again at the queue's end, `BATCH` together with the op message
that ends those before them; then a producer of its group is asked. So the next round comes to it
again, unless it has ended by then. After `check_count_max` rounds, or when the log will not keep it
any longer, it is given up: a copy goes to `TRANS_CHECK_MAX_TIME_TOPIC`, and nobody consumes it.

A half whose answer was lost is sent once more, with its id. So before a producer is asked it is
looked, in the index, whether a message with that id was committed; then this half has ended, too.

A half message may say for how long nobody is to be asked about it. Those that are too young for
that reason wait in a heap, so that a round costs what is due in it, however much is not.

RocketMQ goes by the producer's clock, ours by the time that has passed since the half was stored.

Source: RocketMQ `TransactionalMessageServiceImpl.check`.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import islice

from msgspec import Struct, structs

from sprocket.base import log
from sprocket.base.clock import LogClock
from sprocket.base.disk import gather
from sprocket.base.errors import DiskFailed, OffsetTooSmall, StoreError
from sprocket.rocketmq.broker.groups import ClientManager, Link
from sprocket.rocketmq.broker.messages import Release
from sprocket.rocketmq.broker.transactions.half_records import HalfRecords, StoredHalf
from sprocket.rocketmq.broker.transactions.recovery import UNREADABLE, Half
from sprocket.rocketmq.broker.transactions.transactions import Transactions
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.transaction import TransactionQuestion
from sprocket.rocketmq.settings import TransactionSettings
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timers

_log = log.get_limited_logger(__name__)

BATCH = 64
"""Half messages that are looked at in one go; takes about 2 ms of the loop."""

FAILED_ROUNDS_MAX = 3
"""Rounds in a row that could not read something, after which that counts as lost: one bad sector
must not keep all others from being asked about."""

Ask = Callable[[Link, TransactionQuestion], None]
"""Asks a producer; what it says comes as any other end of a transaction."""


class _Fate(Enum):
    """What a round does with a half message."""

    ASK = auto()
    GIVE_UP = auto()
    WAIT = auto()
    """For as long as the message itself wants."""
    STOP = auto()
    """It is too young, and so are those behind it."""
    END = auto()
    """Its message was committed with another half that has its id."""
    ASK_ONLY = auto()
    """It has no room for what another copy of it would say, so that it stays where it is."""
    LOST = auto()


class _Judged(Struct, frozen=True, gc=False):
    """A half message and what is done with it."""

    offset: int
    fate: _Fate
    half: StoredHalf | None = None
    wait_ms: int = 0


@dataclass(slots=True, eq=False)
class HalfChecks:
    """The rounds.

    Threads: event loop only.
    """

    _transactions: Transactions
    _records: HalfRecords
    _reads: Reads
    """Asks the disk for messages that are not in memory."""
    _clock: LogClock
    """The log's clock."""
    _timers: Timers
    _members: ClientManager
    _send: Ask
    _settings: TransactionSettings
    _: KW_ONLY
    keep_ms: int
    """For how long the log keeps a message."""
    make_topic: Callable[[str, int], object]
    """Makes a topic of the broker's own, of so many queues, unless it is there."""
    _next: int = field(default=0, init=False)
    """The first half message at which no round has looked."""
    _immune: list[tuple[int, int]] = field(default_factory=list, init=False)
    """A heap: when those may be asked about that are immune, by the log's clock, and which."""
    _due: list[int] = field(default_factory=list, init=False)
    """Those of them that may be asked about now."""
    _asked: int = field(default=0, init=False)
    """How many questions were asked, so that each producer of a group has its share."""
    _begun_at_ms: int = field(default=0, init=False)
    _failed_rounds: int = field(default=0, init=False)
    """How many in a row could not read something."""
    _is_running: bool = field(default=False, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin a round, unless one goes on."""
        if self._is_running or self._is_stopped:
            return
        self._is_running = True
        self._begun_at_ms = self._clock.now_ms()
        self._go_on()

    def stop(self) -> None:
        """Look at nothing more."""
        self._is_stopped = True

    def _go_on(self) -> None:
        """Look at the next half messages."""
        if self._is_stopped:
            self._is_running = False
            return
        try:
            self._reads.run(self._look, self._failed)
        except StoreError as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """End the round; the next one begins where this could not go on."""
        self._is_running = False
        if not isinstance(error, StoreError):
            raise error
        self._failed_rounds += 1
        _log.error("half messages cannot be checked; trying again", why=str(error))

    def _look(self) -> None:
        """Judge the next ones; all of them are read before anything changes."""
        floor, end = self._transactions.half_range()
        ended = self._transactions.ended
        self._next = max(self._next, floor)
        self._take_due()
        self._due = [offset for offset in self._due if offset not in ended]
        waited = self._due[:BATCH]
        fresh = list(islice(ended.pending(self._next, end), BATCH - len(waited)))
        judged = gather([partial(self._judge, offset) for offset in waited + fresh])
        self._failed_rounds = 0
        is_over = len(judged) < BATCH
        chosen: list[_Judged] = []
        for number, one in enumerate(judged):
            if number >= len(waited) and one.fate is _Fate.STOP:
                is_over = True
                break
            chosen.append(one)
        self._do(chosen, is_over=is_over)

    def _take_due(self) -> None:
        """Take from the heap what is immune no more."""
        now_ms = self._clock.now_ms()
        while self._immune and self._immune[0][0] <= now_ms:
            self._due.append(heapq.heappop(self._immune)[1])

    def _judge(self, offset: int) -> _Judged:
        """Read a half message and say what is to be done with it."""
        try:
            half = self._transactions.half_at(offset)
        except OffsetTooSmall:
            return _Judged(offset, _Fate.LOST)
        except UNREADABLE as error:
            return _lost(offset, error)
        except DiskFailed as error:
            if self._failed_rounds < FAILED_ROUNDS_MAX:
                raise
            return _lost(offset, error)
        age_ms, checks = self._clock.elapsed_ms(half.stored_at_ms), half.check_count
        if checks >= self._settings.check_count_max or age_ms >= self.keep_ms:
            return _Judged(offset, _Fate.GIVE_UP, half)
        if checks > 0 and half.stored_at_ms >= self._begun_at_ms:
            return _Judged(offset, _Fate.STOP, half)
        own_ms = half.immunity_ms
        wait_ms = (self._settings.timeout_ms if own_ms is None else own_ms) - age_ms
        if wait_ms > 0 and not checks:
            return _Judged(offset, _Fate.STOP if own_ms is None else _Fate.WAIT, half, wait_ms)
        if self._transactions.has_copy(half):
            return _Judged(offset, _Fate.END, half)
        asked = _Fate.ASK if self._records.has_room(half) else _Fate.ASK_ONLY
        return _Judged(offset, asked, half, self._settings.check_interval_ms)

    def _do(self, chosen: Sequence[_Judged], *, is_over: bool) -> None:
        """Do what was decided; goes on, or ends the round, when that is stored."""
        renewed = [one.half for one in chosen if one.half and one.fate is _Fate.ASK]
        given_up = [one.half for one in chosen if one.half and one.fate is _Fate.GIVE_UP]
        committed = [one.half for one in chosen if one.half and one.fate is _Fate.END]
        if renewed or given_up or committed:
            self._follow(renewed, given_up, committed, is_over=is_over)
        now_ms = self._clock.now_ms()
        for one in chosen:
            self._next = max(self._next, one.offset + 1)
            if one.fate in (_Fate.WAIT, _Fate.ASK_ONLY):
                heapq.heappush(self._immune, (now_ms + one.wait_ms, one.offset))
            if one.fate is _Fate.ASK_ONLY and one.half is not None:
                self._ask(_question(one.half, one.half.record, one.half.place, one.offset))
            elif one.fate is _Fate.LOST:
                self._transactions.ended.add(one.offset)
        if not (renewed or given_up or committed):
            self._end_or_go_on(is_over=is_over)

    def _follow(
        self,
        renewed: Sequence[StoredHalf],
        given_up: Sequence[StoredHalf],
        committed: Sequence[StoredHalf],
        *,
        is_over: bool,
    ) -> None:
        """Append what follows half messages; those that are stored again are asked about then."""
        halves = [*renewed, *given_up, *committed]
        ended = [Half(one.offset, one.place, one.root) for one in halves]
        records = [self._records.renewed(half) for half in renewed]
        records += [self._records.given_up(half) for half in given_up]
        asked: list[TransactionQuestion] = []

        def told(error: Exception | None) -> Release:
            return partial(self._stored, ended[0].offset, asked, is_over, error)

        if given_up:
            self.make_topic(CHECKED_TOO_OFTEN_TOPIC, 1)
        stored = self._transactions.append_with_op(records, ended, told)
        places = zip(stored.physical_offsets, stored.queue_offsets, strict=True)
        for half, again, (place, offset) in zip(renewed, records, places, strict=False):
            self._transactions.follow(Half(offset, place, half.root))
            asked.append(_question(half, again, place, offset))
        if committed:
            _log.info(
                "halves of messages that were committed already have ended", count=len(committed)
            )
        for half in given_up:
            _log.warning(
                "nobody knew how a transaction ended; it is given up",
                message=half.message_id,
                checks=half.check_count,
            )

    def _stored(
        self,
        first: int,
        asked: Sequence[TransactionQuestion],
        is_over: bool,
        error: Exception | None,
    ) -> None:
        """Ask about those that are stored again."""
        if error is not None:
            self._next = min(self._next, first)
            self._failed(error)
            return
        for question in asked:
            self._ask(question)
        self._end_or_go_on(is_over=is_over)

    def _ask(self, question: TransactionQuestion) -> None:
        """Ask any producer of the group that is there."""
        links = list(self._members.producers(question.group))
        if links:
            self._asked += 1
            self._send(links[self._asked % len(links)], question)

    def _end_or_go_on(self, *, is_over: bool) -> None:
        if is_over:
            self._is_running = False
        else:
            self._timers.call_soon(self._go_on)


def _lost(offset: int, why: Exception) -> _Judged:
    _log.error("a half message is lost and passed over", queue_offset=offset, why=str(why))
    return _Judged(offset, _Fate.LOST)


def _question(half: StoredHalf, stored: NewRecord, place: int, offset: int) -> TransactionQuestion:
    """Return what a producer is asked about a half message, as it is stored now."""
    topic, queue_id = half.target()
    return TransactionQuestion(
        group=half.group,
        message=structs.replace(stored, topic=topic, queue_id=queue_id),
        message_id=half.record.unique_key,
        stored_at_ms=half.stored_at_ms,
        place=place,
        half_offset=offset,
    )
