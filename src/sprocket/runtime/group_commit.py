"""From what was appended to its answer: one write and one sync for everybody who waits.

It knows a `Log` that can be written and synced, those who wait for it, and a `Responder` that
answers them. What is in the log, and what is said, is their business.

Theory of operation

Whatever appends to the log says so with `wait`. The first of a turn of the loop schedules `_batch`
for the next one; whatever else arrives joins, as long as more is to be expected. A `Source`
collects requests, and calls `enqueue` for the first of them: when the group is complete, and before
it is written, the source appends all that it has, as one among many costs two thirds of one alone.
`_commit` writes all of it with one call, then:

* async flush: answers at once; a timer looks every half second whether a sync is due. What is not
  synced has a limit (`pressure`); at half of it a sync waits for no timer.
* sync flush, quick disk: has the system sync by itself, or the sync thread where it cannot, makes
  the answers meanwhile, and stands still until it has. What arrives meanwhile waits in the sockets
  and is the next group. No call back into the loop, no timer. If it takes longer than
  `wait_seconds_max`, the loop continues without it: a disk may stall at any time.
* sync flush, slow disk: stands still for nothing. Groups written meanwhile are collected, and one
  sync covers them all when the first is done.

"Quick" is a running mean of the last syncs' durations, with some distance between leaving the
loop and coming back to it. The sync thread does nothing else, so that a sync waits for no other
work of the disk, and a stalled one holds none of that up.

Outcomes. A group is *written* when the file system has it, and *synced* when the disk has it.
The loop learns of both, in `_commit` and in the callback of `_run_sync`; the sync thread knows only
its job. The flush mode says which of them is the last that a group waits for, and `_answer` is the
one place where it is through. Where there are `Replicas`, it goes on from there to be *replicated*:
it is kept with the end of its bytes until enough of them have these, so that one round trip is
shared by all who wait, as one sync is. See decision 0037.

When answers were sent the `Follower`, if there is one, does what may come after them; where the
loop waits for a sync, a part of that is done meanwhile.

Invariants

1. Everybody who waits is answered exactly once. Without an error only when the flush mode allows
   it: after the write (async), or after a sync that began after the write (sync).
2. After a failed write what it was to write is taken back and refused, and the log continues. After
   a failed sync everybody who waits is refused, and the log refuses all that follows. A sync that
   could not begin (`DiskRefused`), as a file that it needs cannot be opened, is begun again until
   it can, or until those who wait for it have waited too long.
3. With `SyncLate` something is stored, but no sync was seen to end in `timeout_seconds` (for a
   group that was written while that sync was out already: in at most twice that time). What a
   stalled fill has kept from being written by then is given up and refused.
4. The loop creates no file of the log: whatever needs the next one waits until the disk thread has
   made it, and is refused if it cannot.
5. `failed_write` says why nothing can be written, until something has been: after a write that
   failed the disk is tried each second, since whoever was refused may not come back.
6. With `ReplicaLate` or `ReplicaMissing` something is as durable as the flush mode asks, but not on
   as many machines as it should be. Groups leave this stage in the order of the log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import PendingSync
from sprocket.base.durations import DurationHistogram
from sprocket.base.errors import (
    DiskFailed,
    DiskRefused,
    ReplicaLate,
    ReplicaMissing,
    StoreError,
    StoreFailed,
    SyncLate,
)
from sprocket.runtime.offload import yield_core
from sprocket.runtime.pressure import Pressure, PressureShare
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)

T = TypeVar("T")
W = TypeVar("W", bound="Asker")
W_contra = TypeVar("W_contra", bound="Asker", contravariant=True)
R = TypeVar("R")

BATCH_TURNS_MAX = 8
"""Turns of the loop for which a group may wait. One that brings nothing costs some 2 µs, a sync
200; with 16 connections × 1 outstanding nearly all of them share each sync then."""

GROUP_ENOUGH = 4096
"""With so many records a group waits for no more: what those would save does not count, and the
disk could work meanwhile."""

WRITE_ENOUGH = 32
"""Messages that are written without waiting for more when there is no sync to share: a write costs
some 12 µs, and a message in such a group a third of one."""

THREAD_RECORDS = 100
"""Records from which on the sync thread syncs, though the system could by itself: to hand over so
much to the disk is work for the CPU, which the thread does on another core."""

READY_BESIDE = 2
"""Records from which on answers are made while the disk syncs what they answer. One alone is made
sooner than the core is left to whatever begins the sync."""

SETTLE_SECONDS = 0.001
"""How often a stopping broker looks whether everybody has an answer."""

FILL_RECORDS_MAX = 40
"""Mean number of records that share a sync up to which the log is zeroed ahead of it."""

REFUSED_SECONDS = 0.05
"""After how long a sync is begun again that could not begin; new records begin it sooner."""

TRY_SECONDS = 1.0
"""How often it is tried whether the disk takes something again after a write that failed."""

_MEAN_WEIGHT = 1 / 8
"""How much the newest sync counts in the mean: one hiccup of 10 ms moves it past 1 ms."""


class Asker(Protocol):
    """Those who wait for what was appended together."""

    @property
    def records(self) -> int:
        """How many things that were; a measure of how much the group writes."""

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""


class Source(Protocol):
    """A source that collects requests to append together: many cost less than one by one."""

    @property
    def waiting_count(self) -> int:
        """How many requests it has."""

    def append(self) -> None:
        """Append what all of them carry, in order."""


class Job(Protocol):
    """Work for the disk."""

    def run(self) -> None:
        """Do it, on any thread; raises StoreError."""

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended, on the loop."""


class Sync(Job, Protocol):
    """Makes durable what was written before it was begun."""

    def start(self) -> PendingSync | None:
        """Have the system do by itself what `run` does; None where it cannot."""


class Log(Protocol):
    """What groups are written to."""

    def write(self) -> int:
        """Hand all that was appended to the file system; return up to where that is.

        Raises:
            StoreError: None of it is stored.
        """

    def give_up_unwritten(self) -> None:
        """Forget what was appended and not written."""

    def begin_sync(self) -> Sync | None:
        """Return what makes durable all that is written; None if it is. Raises StoreError."""

    def begin_due_sync(self) -> Sync | None:
        """Do so if nobody waits for it and it is due all the same."""

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is durable."""

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable; 0 if that is past hope."""

    def begin_fill(self) -> Job | None:
        """Return the next step ahead of the writer; None if none is needed now."""

    def begin_file(self) -> Job | None:
        """Return what makes the file that `write` needs next; None if it is there."""

    def fill_blocks_write(self) -> bool:
        """Say whether `write` must wait for the end of such a job."""

    def try_room(self) -> None:
        """Find out, on any thread, whether the disk would take a write. Raises StoreError."""


class Responder(Protocol[W_contra, R]):
    """Answers those who wait."""

    def ready(self, group: Sequence[W_contra], error: StoreError | None) -> R:
        """Make the answers; none that fails keeps the others waiting.

        Args:
            group: The waiters that get them.
            error: Why it is not durable; None if it is, or is to be when they are sent.
        """

    def send(self, answers: R, /) -> None:
        """Give everybody their answers."""

    def refuse(self, group: Sequence[W_contra], error: StoreError) -> None:
        """Tell everybody why nothing was stored."""


class Follower(Protocol):
    """What follows the log while it is written, and keeps count."""

    def wrote(self, count: int) -> None:
        """Note how many records were written."""

    def refused(self, count: int) -> None:
        """Note how many could not be."""

    def answered(self, *, waits_for_syncs: bool) -> None:
        """Do what may come after answers.

        Args:
            waits_for_syncs: There is time for a part of it while the loop waits for the next sync.
        """

    def work_beside(self) -> Callable[[], None] | None:
        """Return what to do while the loop waits for a sync; None for nothing."""

    def close(self) -> None:
        """Do nothing more."""


class Replicas(Protocol):
    """Other machines that have the log as well."""

    @property
    def confirmed(self) -> int:
        """Up to where enough of them have it, as `Log.write` counts."""

    @property
    def are_missing(self) -> bool:
        """Whether there are too few of them, so that nobody is to wait for them."""

    def wrote(self, end: int) -> None:
        """Note up to where the file system has the log."""


class _Replicating(NamedTuple, Generic[W, R]):
    """A group that waits for replicas.

    Attributes:
        end: Where its bytes end in the log.
        group: Who waits.
        deadline: When they are told that it takes too long, on the monotonic clock.
        answers: What they get if it does not, where it was made while the disk synced.
    """

    end: int
    group: list[W]
    deadline: float
    answers: R | None


class JobThread(Protocol):
    """A thread that may wait for the disk; `runtime.offload.DiskThread` is one."""

    def submit(
        self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """See `DiskThread.submit`."""

    def run_within(
        self,
        seconds: float,
        job: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """See `DiskThread.run_within`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What group commit runs on; the thread that syncs the log does nothing else.

    Attributes:
        syncs: Where it is counted how long syncs took.
    """

    timers: Timers
    clock: Clock
    fill_thread: JobThread
    sync_thread: JobThread
    syncs: DurationHistogram = field(default_factory=DurationHistogram)
    yield_core: Callable[[], None] = yield_core


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushMode:
    """When somebody is answered.

    Attributes:
        is_sync: After a sync, else after the write.
        wait_seconds_max: So long the loop stands still for a sync.
        timeout_seconds: So long somebody waits for one.
        replica_seconds: So long somebody waits for replicas.
        look_seconds: How often the log is asked whether a sync is due for which nobody waits.
    """

    is_sync: bool
    wait_seconds_max: float
    timeout_seconds: float
    look_seconds: float
    replica_seconds: float = 3.0


class GroupCommit(Generic[W, R]):
    """See the head of the module; `pressure` is told how much waits for a sync.

    Threads: event loop only.
    """

    def __init__(
        self,
        log: Log,
        responder: Responder[W, R],
        machine: Machine,
        mode: FlushMode,
        pressure: Pressure | PressureShare,
        follower: Follower | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self._log = log
        self._replicas = replicas
        self._replicating: deque[_Replicating[W, R]] = deque()
        self._replica_timer: Timer | None = None
        self._written_end = 0
        self._responder = responder
        self._follower = follower
        self._fill_thread, self._sync_thread = machine.fill_thread, machine.sync_thread
        self._timers = machine.timers
        self._clock = machine.clock
        self._count_sync = machine.syncs.add
        self._yield_core = machine.yield_core
        self._mode = mode
        self._is_sync = mode.is_sync
        self._pressure = pressure
        self._sources: list[Source] = []
        self._new: list[W] = []
        self._written: list[W] = []
        self._syncing: list[W] = []
        self._late_timer: Timer | None = None
        self._sync_timer: Timer | None = None
        self._again_timer: Timer | None = None
        self._try_timer: Timer | None = None
        self._commit_is_due = False
        self._batched = self._batch_turns = self._committed = 0
        self._shared_lately = 1  # at most; one fewer after each write that fewer shared
        self._is_filling = self._is_held_up = False
        self._is_slow, self._job_is_out = mode.wait_seconds_max == 0, False
        self._mean_seconds = self._mean_records = 0.0
        self._is_closed = False
        self.failed_write: StoreError | None = None
        """Why nothing can be written: the last write failed, or the last try after that; else None.
        """

    def start(self) -> None:
        """Begin to fill ahead."""
        self._fill()

    def enqueue(self, source: Source) -> None:
        """Have a source append what it has, with all that it gets in these turns of the loop."""
        self._sources.append(source)
        if not self._commit_is_due:
            self._commit_is_due = True
            self._timers.call_soon(self._batch)

    def append_now(self) -> None:
        """Have sources append what they have, so that what comes next is after it."""
        while self._sources:
            self._sources.pop(0).append()

    def wait(self, asker: W) -> None:
        """Answer somebody when what they appended may be acknowledged, or is refused.

        Durability: as the flush mode says, see invariant 1.
        """
        self._new.append(asker)
        if not self._commit_is_due:
            self._commit_is_due = True
            self._timers.call_soon(self._batch)

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""
        waiting: list[Source | W] = [*self._sources, *self.unanswered]
        return sum([one.waiting_count for one in waiting])

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable."""
        return self._log.waiting_bytes

    @property
    def unanswered(self) -> list[W]:
        """The waiters, with what they appended, the oldest first."""
        replicating = [one for each in self._replicating for one in each.group]
        return replicating + self._syncing + self._written + self._new

    async def settle(self) -> None:
        """Wait until everybody who waits now has an answer: used when stopping.

        Waiters that come meanwhile are not waited for: under load there is always one.
        """
        self.append_now()
        for last in self.unanswered[-1:]:
            while any(one is last for one in self.unanswered):
                await asyncio.sleep(SETTLE_SECONDS)

    def close(self) -> None:
        """Stop timers; what still waits is refused. The log itself is closed by its owner."""
        self.append_now()
        self._is_closed = True
        if self._follower is not None:
            self._follower.close()
        timers = self._late_timer, self._sync_timer, self._again_timer, self._try_timer
        for timer in (*timers, self._replica_timer):
            if timer is not None:
                timer.cancel()
        for each in self._replicating:
            self._tell(each.group, ReplicaLate("stored here, but the broker stops"))
        self._replicating.clear()
        left = self.unanswered
        self._new, self._written, self._syncing = [], [], []
        self._responder.refuse(left, StoreFailed("the broker stops"))

    def _batch(self) -> None:
        """Commit once a turn of the loop has brought nothing more, or they were enough.

        A sync is worth waiting for: as many as shared the last one will soon be back. Without one,
        fewer are enough, since who has answers sends the sooner; or just as many as lately shared a
        write at most, as nobody else is busy. A turn that brings nothing costs some 7 µs, a write
        for one alone 40.

        A sender that shared the last one and is not back may wait for this very core, which the
        scheduler gave them when they were woken from it; if it were kept, turns would bring nothing
        until the sync releases it.
        """
        count = self._gathered()
        if self._is_sync:
            is_more_due = count > self._batched or count < self._committed
        else:
            is_more_due = self._batched < count < WRITE_ENOUGH and count != self._shared_lately
        if is_more_due and count < GROUP_ENOUGH and self._batch_turns < BATCH_TURNS_MAX:
            self._batched = count
            self._batch_turns += 1
            if count < self._committed:
                self._yield_core()
            self._timers.call_soon(self._batch)
            return
        self._batched = self._batch_turns = 0
        self._commit()

    def _gathered(self) -> int:
        """Return how much there is for the next group: requests, or what is appended of them."""
        count = sum([one.waiting_count for one in self._sources])
        return count + sum([one.records for one in self._new])

    def _commit(self) -> None:
        """Write what was appended since the last turn, then see to its sync."""
        gathered = self._gathered()
        self.append_now()
        self._commit_is_due = False
        group = self._new
        if not group:
            return
        if not self._is_filling:
            job = self._log.begin_file()
            if job is not None:
                self._run_fill(job, self._give_up)
        if self._is_filling and self._log.fill_blocks_write():
            self._is_held_up = True  # the end of the fill commits
            self._weigh()
            self._expect_end()
            return
        self._new, self._is_held_up = [], False
        count = sum([one.records for one in group])
        self._committed = gathered  # what a source appends may be more, or less
        self._shared_lately = max(gathered, self._shared_lately - 1)
        self._mean_records += (count - self._mean_records) * _MEAN_WEIGHT
        try:
            self._written_end = self._log.write()
        except StoreError as error:
            _limited_log.error(
                "a write failed; its records are refused", records=count, why=str(error)
            )
            self._refuse(group, count, error)
            return
        self.failed_write = None
        if self._replicas is not None:
            self._replicas.wrote(self._written_end)
        if self._follower is not None:
            self._follower.wrote(count)
        if not self._is_sync:
            self._answer(group, self._written_end)
            self._weigh()
            if self._pressure.is_high:
                self._sync_behind()
            elif self._sync_timer is None:
                self._sync_behind_later()
            return
        self._written += group
        if not self._job_is_out:
            self._sync()
            return
        self._weigh()
        self._expect_end()

    def _sync_again(self, group: list[W], error: DiskRefused) -> None:
        """Have those who wait go on waiting: their sync has not begun, and is begun again."""
        self._written = group + self._written
        if self._again_timer is None:
            _limited_log.warning("a sync could not begin; trying again", why=str(error))
        else:
            self._again_timer.cancel()
        self._again_timer = self._timers.call_later(REFUSED_SECONDS, self._again)
        if self._written:
            self._expect_end()
        self._weigh()

    def _again(self) -> None:
        """Begin a sync that could not begin; under async flush not before it is due."""
        if self._is_sync and not self._job_is_out and not self._is_closed:
            self._sync()

    def _expect_end(self) -> None:
        """Tell who waits if what they wait for takes too long."""
        if self._late_timer is None:
            self._late_timer = self._timers.call_later(self._mode.timeout_seconds, self._late)

    def _sync(self) -> None:
        """Sync what is written: on the loop while that is quick, else on the thread."""
        group, self._written = self._written, []
        try:
            job = self._log.begin_sync()
        except DiskRefused as caught:
            self._sync_again(group, caught)
            return
        except StoreError as caught:
            self._responder.refuse(group, caught)
            return
        if job is None:
            self._answer(group, self._written_end)
            return
        self._run_sync(job, group, 0 if self._is_slow else self._mode.wait_seconds_max)

    def _run_sync(self, job: Sync, group: list[W], wait_seconds: float) -> None:
        """Have a sync run for a group; the loop may stand still for `wait_seconds`."""
        self._job_is_out = True
        self._syncing = group
        end = self._written_end
        answers: R | None = None
        began = self._clock.monotonic()

        def timed() -> float:
            started = self._clock.monotonic()
            job.run()
            return self._clock.monotonic() - started

        def done(seconds: float | None, caught: BaseException | None) -> None:
            error = _as_store_error(caught)
            if error is None:
                self._measure(self._clock.monotonic() - began if seconds is None else seconds)
            self._job_is_out = False
            job.finish(error)
            answered, self._syncing = self._syncing, []
            if isinstance(error, DiskRefused):
                self._sync_again(answered, error)
                return
            if self._late_timer is not None and not self._is_held_up:
                self._late_timer.cancel()
                self._late_timer = None
            if error is None:
                self._again_timer = None
                self._answer(answered, end, answers if answered else None)
            else:
                self._refuse_all(answered, error)
            if self._written and not self._is_closed:
                self._sync()  # after a failure it is refused, and so are they
            self._weigh()

        if wait_seconds:
            work = None if self._follower is None else self._follower.work_beside()
            records = sum([one.records for one in group])
            start = job.start if records < THREAD_RECORDS else _nothing
            if records >= READY_BESIDE:
                follow = work

                def work() -> None:
                    nonlocal answers
                    answers = self._responder.ready(group, None)
                    if follow is not None:
                        follow()

            self._sync_thread.run_within(wait_seconds, timed, done, work, start)
        else:
            self._sync_thread.submit(timed, done)
        if self._job_is_out and group:
            self._expect_end()

    def _refuse_all(self, group: list[W], error: StoreError) -> None:
        """Refuse those whose sync has failed."""
        _log.critical(
            "a sync failed: what reached the disk is unknown, so nothing more is stored until this "
            "is restarted",
            why=str(error),
        )
        self._responder.refuse(group, StoreFailed(f"a sync failed: {error}"))

    def _answer(self, group: list[W], end: int, answers: R | None = None) -> None:
        """Answer a group that is as durable as its flush mode asks, as was prepared if it was.

        Every group that is not refused or late comes here, in the order of the log: see "Outcomes".

        Args:
            group: Who waits.
            end: Where the log ended when its sync began.
            answers: What was prepared.
        """
        replicas = self._replicas
        if replicas is None or not group or replicas.confirmed >= end:
            self._send(group, answers)
        elif replicas.are_missing:
            self._tell(group, _missing())
        else:
            self._replicate(group, end, answers)
        self._go_on()

    def _send(self, group: list[W], answers: R | None) -> None:
        """Tell a group that it is stored, by the answers that were made for it if any were."""
        self._responder.send(self._responder.ready(group, None) if answers is None else answers)

    def _go_on(self) -> None:
        """Do what comes after answers."""
        if self._follower is not None:
            self._follower.answered(waits_for_syncs=self._is_sync and not self._is_slow)
        if not self._is_filling:
            self._fill()

    def _tell(self, group: list[W], error: StoreError) -> None:
        """Tell a group that it is stored, but less safe than it should be."""
        self._responder.send(self._responder.ready(group, error))

    def _replicate(self, group: list[W], end: int, answers: R | None) -> None:
        """Keep a group until replicas have it."""
        seconds = self._mode.replica_seconds
        deadline = self._clock.monotonic() + seconds
        self._replicating.append(_Replicating(end, group, deadline, answers))
        if self._replica_timer is None:
            self._replica_timer = self._timers.call_later(seconds, self._replicas_late)

    def replicated(self) -> None:
        """Answer those whose messages enough replicas have now, or will not have soon."""
        replicas, waiting = self._replicas, self._replicating
        if replicas is None or not waiting:
            return
        while waiting and waiting[0].end <= replicas.confirmed:
            one = waiting.popleft()
            self._send(one.group, one.answers)
        while waiting and replicas.are_missing:
            self._tell(waiting.popleft().group, _missing())
        self._go_on()

    def _replicas_late(self) -> None:
        """Tell those who have waited too long for replicas."""
        self._replica_timer = None
        waiting, now = self._replicating, self._clock.monotonic()
        seconds = self._mode.replica_seconds
        while waiting and waiting[0].deadline <= now:
            late = ReplicaLate(f"stored, but not seen on enough replicas within {seconds:g} s")
            self._tell(waiting.popleft().group, late)
        if waiting:
            left = max(0.0, waiting[0].deadline - now)
            self._replica_timer = self._timers.call_later(left, self._replicas_late)

    def _late(self) -> None:
        """Tell those whose sync takes longer than the limit that they are stored but not synced.

        Waiters whose bytes could not even be written, since a fill of the same bytes stalls, are
        refused.
        """
        self._late_timer = None
        seconds = self._mode.timeout_seconds
        _log.warning("the disk is slow: a sync takes longer than its limit", seconds=seconds)
        left, self._syncing = self._syncing, []
        if not left:
            left, self._written = self._written, []
        late = SyncLate(f"stored, but not synced within {seconds:g} s")
        self._responder.send(self._responder.ready(left, late))
        if not left and self._is_held_up:
            left, self._new = self._new, []
            self._is_held_up = False
            self._log.give_up_unwritten()
            stalled = DiskFailed(f"not written within {seconds:g} s: the disk stalls")
            self._note_failed_write(stalled)
            self._responder.refuse(left, stalled)
            self._weigh()
        if self._written or self._is_held_up:
            self._late_timer = self._timers.call_later(seconds, self._late)

    def _give_up(self, error: StoreError) -> None:
        """Refuse what cannot be written, as the log file for it could not be made."""
        group, self._new = self._new, []
        self._is_held_up = False
        if self._late_timer is not None and not self._job_is_out:
            self._late_timer.cancel()
            self._late_timer = None
        count = sum([one.records for one in group])
        _limited_log.error(
            "a log file could not be made; its records are refused", records=count, why=str(error)
        )
        self._log.give_up_unwritten()
        self._refuse(group, count, error)
        self._weigh()

    def _refuse(self, group: list[W], count: int, error: StoreError) -> None:
        """Refuse a group that cannot be written, and note why."""
        self._note_failed_write(error)
        if self._follower is not None:
            self._follower.refused(count)
        self._responder.refuse(group, error)

    def _note_failed_write(self, error: StoreError) -> None:
        """Say why nothing can be written, and try from time to time whether it can again."""
        self.failed_write = error
        if self._try_timer is None and not self._is_closed:
            self._try_timer = self._timers.call_later(TRY_SECONDS, self._try_room)

    def _try_room(self) -> None:
        def done(_: None, caught: BaseException | None) -> None:
            error = _as_store_error(caught)
            self._try_timer = None
            if self.failed_write is None:  # something was written meanwhile
                return
            if error is not None or self._log.waiting_bytes:  # that is to be written first
                self._note_failed_write(error or self.failed_write)
            else:
                self.failed_write = None

        if self.failed_write is None:
            self._try_timer = None
        else:
            self._fill_thread.submit(self._log.try_room, done)

    def _weigh(self) -> None:
        """Say how much waits for a sync: with sync flush nothing, unless one is under way."""
        waits = self._job_is_out or self._is_held_up or not self._is_sync or self._written
        self._pressure.weigh(self._log.waiting_bytes if waits else 0)

    def _measure(self, seconds: float) -> None:
        """Note how long a sync took, and decide where the next one runs."""
        self._count_sync(seconds)
        self._mean_seconds += (seconds - self._mean_seconds) * _MEAN_WEIGHT
        limit = self._mode.wait_seconds_max
        self._is_slow = self._mean_seconds > (limit / 2 if self._is_slow else limit)

    def _sync_behind_later(self) -> None:
        self._sync_timer = self._timers.call_later(self._mode.look_seconds, self._sync_behind)

    def _sync_behind(self) -> None:
        """Async flush: sync what has been written, if it is due, on the thread; nobody waits."""
        if self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None
        if self._is_closed:
            return
        try:
            job = self._log.begin_due_sync()
        except DiskRefused as error:
            _limited_log.warning("a sync could not begin; trying again", why=str(error))
            job = None
        except StoreError:
            return  # it failed before and was said then
        if job is not None:
            self._run_sync(job, [], 0)
        if not self._log.is_synced:
            self._sync_behind_later()

    def _fill(self) -> None:
        """Have the next stretch of the log prepared, if that pays and the log wants it.

        Zeros make a sync cheaper, but cost the CPU a second write of everything. When many share a
        sync they are not worth it: with 64 connections × 1 the broker spends 29 µs a message with
        them and 24 without, for 11 % fewer messages/s; with 16 × 1 they bring 35 % more, with a
        batch of 32 at a time 13 %. Under async flush nobody waits for a sync, and it is only room.
        """
        if self._is_closed or (self._is_sync and self._mean_records > FILL_RECORDS_MAX):
            return
        job = self._log.begin_fill()
        if job is not None:
            self._run_fill(job, lambda _: None)

    def _run_fill(self, job: Job, failed: Callable[[StoreError], None]) -> None:
        """Have the thread run a step ahead of the writer, then continue with what waited for it."""
        self._is_filling = True

        def done(_: None, caught: BaseException | None) -> None:
            self._is_filling = False
            error = _as_store_error(caught)
            job.finish(error)
            if error is not None:
                failed(error)
            if self._is_held_up:
                self._commit()
            if not self._is_filling:
                self._fill()

        self._fill_thread.submit(job.run, done)


def _missing() -> ReplicaMissing:
    return ReplicaMissing("stored, but too few replicas follow this machine closely")


def _nothing() -> None:
    """Begin no sync."""


def _as_store_error(caught: BaseException | None) -> StoreError | None:
    """Return `caught` if it is the store's; anything else is our mistake and goes on."""
    if caught is None or isinstance(caught, StoreError):
        return caught
    raise caught
