"""From an appended record to its answer: one write and one sync for everybody who waits.

Theory of operation

A send handler is a `Source`: it collects requests, and calls `gather` for the first of them. That
schedules `_gather` for the next turn of the loop; whatever else arrives joins, as long as more is
to be expected. Then the source makes records of all that it has, as one among many costs two thirds
of one alone, and appends them; who has a record ready may append it at any time. `_commit` writes
all of it with one call, then:

* async flush: answers at once; a timer looks every half second whether a sync is due. What is not
  synced has a limit (`pressure`); at half of it a sync waits for no timer.
* sync flush, quick disk: has the sync thread sync, and stands still for it. What arrives meanwhile
  waits in the sockets and is the next group. No call back into the loop, no timer. If it takes
  longer than `sync_wait_ms_max`, the loop goes on without it: a disk may stall at any time.
* sync flush, slow disk: stands still for nothing. Groups written meanwhile are collected, and one
  sync covers them all when the first is done.

"Quick" is a running mean of the last syncs' durations, with some distance between leaving the
loop and coming back to it. The sync thread does nothing else, so that a sync waits for no other
work of the disk, and a stalled one holds none of that up.

Invariants

1. Exactly one answer is sent for each record or batch. One without an error only when the flush
   mode allows it: after the write (async), or after a sync that began after the write (sync).
2. After a failed write its records are taken back and refused, and the broker goes on. After a
   failed sync everybody who waits is refused, and the store refuses all appends until reopened.
3. What a send has changed in tables, a new topic above all, is as durable as its record: the sync
   of a group takes the tables' journals along.
4. With `SyncLate` the record is stored, but no sync was seen to end in `sync_timeout_ms` (for a
   group that was written while that sync was out already: in at most twice that time). What a
   stalled fill has kept from being written by then is given up and refused.
5. The loop makes no file of the log: who needs the next one waits until the disk thread has made
   it, and is refused if it cannot.
6. Consumers see a record only after its answer was queued; see `Store.dispatch`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import DiskFailed, StoreError, StoreFailed, SyncLate
from sprocket.rocketmq.broker.messages import pending_acks
from sprocket.rocketmq.broker.messages.pending_acks import (
    Answer,
    Answers,
    Asker,
    PendingAcks,
    Ready,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.store.log import KEPT_BYTES_MAX, FillJob, LogSync
from sprocket.rocketmq.store.reput import Arrival
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P", bound=Asker)

GATHER_TURNS_MAX = 8
"""Turns of the loop for which a group may wait. One that brings nothing costs some 2 µs, a sync
200; with 16 connections × 1 outstanding nearly all of them share each sync then."""

WRITE_ENOUGH = 32
"""Messages that are written without waiting for more when there is no sync to share: a write costs
some 12 µs, and a message in such a group a third of one."""

DISPATCH_SECONDS = 0.05
"""How long queue units and index entries may wait for more of them: a round costs some 0.2 ms even
if little is in it. A read first dispatches what is due."""

DISPATCH_ENOUGH, DISPATCH_BYTES_ENOUGH = 2048, KEPT_BYTES_MAX // 2
"""With so many records, or bytes of the log, a round waits no longer; it takes about 2 ms. Its half
for the index waits until the next answers are sent: otherwise it would make the longest waits of
clients that send one message at a time. What the log's tail has dropped by then, after twice so
many bytes, has to be read again."""

QUEUES_AT_ONCE = 32
"""Queues that are written before the clock is looked at: 0.4 ms, or 2 if all are new."""

DISPATCH_HOLD_SECONDS = 0.003
"""How long units are written before others have their turn. For 2,000 queues in one round they take
25 ms, and 120 where the queues are new."""

READY_BESIDE = 32
"""Records from which on answers are made while the disk writes what they answer. Having it begin
early costs some 27 µs, and saves the sync what answers take, or the writing of a large batch."""

BESIDE_SECONDS = DISPATCH_SECONDS / 2
"""What waits for so long already is put into the queues while the loop waits for a sync, and into
the index while it waits for the next: who sends one message at a time would wait for it later."""

INDEX_ROUND = 4096
"""Records indexed in one go; bounds how long the loop is away (about 2 ms)."""

SETTLE_SECONDS = 0.001
"""How often a stopping broker looks whether everybody has an answer."""

FILL_RECORDS_MAX = 40
"""Mean number of records that share a sync up to which the log is zeroed ahead of it."""

_MEAN_WEIGHT = 1 / 8
"""How much the newest sync counts in the mean: one hiccup of 10 ms moves it past 1 ms."""


class Source(Protocol):
    """Who collects requests that become records together: many cost less than one by one."""

    @property
    def waiting_count(self) -> int:
        """How many requests it has."""

    def take_up(self) -> None:
        """Append the records of all of them, in order."""


class JobThread(Protocol):
    """A thread that may wait for the disk; `runtime.offload.DiskThread` is one."""

    def submit(
        self, job: Callable[[], T], done: Callable[[T | None, BaseException | None], None]
    ) -> None:
        """Run `job` on the thread, then `done` on the loop."""

    def run_within(
        self,
        seconds: float,
        job: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        beside: Callable[[], None] | None = None,
    ) -> None:
        """Do so before this returns, unless that takes longer than `seconds`.

        `beside` is called meanwhile.
        """


class TableSyncJob(Protocol):
    """Makes durable what tables have noted; `runtime.snapshots.TableSync` is it."""

    def run(self) -> None:
        """Do it, on any thread; raises StoreError."""

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended, on the loop."""


class GroupCommit:
    """The way of every record into the store.

    Args:
        store: Where they go.
        thread: Fills ahead.
        sync_thread: Syncs the log, and does nothing else.
        timers: The event loop's.
        clock: Says how long a sync took.
        arrived: Is told what consumers may see.
        stats: Counts what is stored.
        pressure: Told how much waits for a sync.
        sync_wait_ms_max: So long the loop stands still for a sync.
        sync_timeout_ms: So long a sender waits for one.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        thread: JobThread,
        sync_thread: JobThread,
        timers: Timers,
        clock: Clock,
        arrived: Callable[[Arrival], None],
        stats: Stats,
        pressure: Pressure,
        begin_table_sync: Callable[[], TableSyncJob | None],
        *,
        sync_wait_ms_max: float,
        sync_timeout_ms: int,
    ) -> None:
        self._store = store
        self._thread = thread
        self._sync_thread = sync_thread
        self._timers = timers
        self._clock = clock
        self._arrived = arrived
        self._stats = stats
        self.pressure = pressure
        self._begin_table_sync = begin_table_sync
        self._is_sync = store.settings.flush == "sync"
        self._wait_seconds = sync_wait_ms_max / 1000
        self._timeout_seconds = sync_timeout_ms / 1000
        self._sources: list[Source] = []
        self._new: list[PendingAcks[object]] = []
        self._written: list[PendingAcks[object]] = []
        self._syncing: list[PendingAcks[object]] = []
        self._late_timer: Timer | None = None
        self._commit_is_due = False
        self._undispatched, self._round_to = 0, store.written
        self._is_index_due = self._is_rest_due = False
        self._gathered = self._gather_turns = self._committed = 0
        self._round_timer: Timer | None = None
        self._round_begun_at: float | None = None
        self._sync_timer: Timer | None = None
        self._is_filling = self._is_held_up = False
        self._is_slow, self._job_is_out = sync_wait_ms_max == 0, False
        self._mean_seconds = self._mean_records = 0.0
        self._is_closed = False
        self.someone_waits: Callable[[], bool] = lambda: False

    def start(self) -> None:
        """Begin to fill ahead, and dispatch what recovery left."""
        self._fill()
        self._begin_round()

    def gather(self, source: Source) -> None:
        """Have a source take up what it has, with all that it gets in these turns of the loop."""
        self._sources.append(source)
        if not self._commit_is_due:
            self._commit_is_due = True
            self._timers.call_soon(self._gather)

    def take_up_now(self) -> None:
        """Have taken up what was asked for, so that what comes next is behind it in its queue."""
        while self._sources:
            self._sources.pop(0).take_up()

    def append(self, record: NewRecord, answer: Answer[P, R], asker: P, request: R) -> None:
        """Append one record; it is answered once, when it may be acknowledged or is refused.

        Args:
            record: What to append.
            answer: Makes the answer.
            asker: Gets it.
            request: What is answered; only passed on, as a closure would cost three times as much.

        Durability: as the flush mode says, see invariant 1.
        """
        self.append_all([record], pending_acks.one, [(answer, asker, request)])

    def append_all(
        self, records: Sequence[NewRecord], answers: Answers[A], asked: Sequence[A]
    ) -> None:
        """Append records, each by itself, and each answered as `append` says.

        Args:
            records: What to append, in order.
            answers: Makes the answers.
            asked: What `answers` gets of each.
        """
        try:
            stored = self._store.append_all(records)
        except StoreError as error:
            if len(records) == 1:
                refused = PendingAcks(answers, asked, None, 1)
                pending_acks.tell([refused], error)
                return
            for number in range(len(records)):
                part = slice(number, number + 1)
                self.append_all(records[part], answers, asked[part])
            return
        new = PendingAcks(answers, asked, stored, len(records))
        self._wait(new)

    def append_batch(self, batch: NewBatch, answers: Answers[A], asked: Sequence[A]) -> None:
        """Append messages as one: all of them are stored, at consecutive offsets, or none.

        There is one answer, of which `answers` gets the only element of `asked`.
        """
        try:
            stored = self._store.append_batch(batch)
        except StoreError as error:
            refused = PendingAcks(answers, asked, None, 1)
            pending_acks.tell([refused], error)
            return
        new = PendingAcks(answers, asked, stored, len(stored))
        self._wait(new)

    def _wait(self, one: PendingAcks[object]) -> None:
        self._new.append(one)
        if not self._commit_is_due:
            self._commit_is_due = True
            self._timers.call_soon(self._gather)

    @property
    def waiting_count(self) -> int:
        """How many sends wait for their answer."""
        return self._source_count + sum(len(one.asked) for one in self.unanswered)

    @property
    def _source_count(self) -> int:
        return sum([one.waiting_count for one in self._sources])

    @property
    def unanswered(self) -> list[PendingAcks[object]]:
        """Who waits with records that were appended, the oldest first."""
        return self._syncing + self._written + self._new

    async def settle(self) -> None:
        """Wait until everybody who waits now has an answer: used when stopping.

        Who comes meanwhile is not waited for: under load somebody always does.
        """
        self.take_up_now()
        for last in self.unanswered[-1:]:
            while any(one is last for one in self.unanswered):
                await asyncio.sleep(SETTLE_SECONDS)

    def close(self) -> None:
        """Stop timers; what still waits is refused. The store itself is closed by its owner."""
        self.take_up_now()
        self._is_closed = True
        for timer in (self._late_timer, self._round_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        left = self.unanswered
        self._new, self._written, self._syncing = [], [], []
        pending_acks.refuse(left, StoreFailed("the broker stops"))

    def _gather(self) -> None:
        """Commit once a turn of the loop has brought nothing more, or they were enough.

        A sync is worth waiting for: as many as shared the last one will soon be back. Without one,
        fewer are enough, since who has answers sends the sooner; or one, as nobody else is busy.
        """
        count = self._source_count + sum([one.records for one in self._new])
        if self._is_sync:
            is_more_due = count > self._gathered or count < self._committed
        else:
            is_more_due = count > self._gathered and 1 < count < WRITE_ENOUGH
        if is_more_due and self._gather_turns < GATHER_TURNS_MAX:
            self._gathered = count
            self._gather_turns += 1
            self._timers.call_soon(self._gather)
            return
        self._gathered = self._gather_turns = 0
        self._commit()

    def _commit(self) -> None:
        """Write what was appended since the last turn, then see to its sync."""
        self.take_up_now()
        self._commit_is_due = False
        group = self._new
        if not group:
            return
        if not self._is_filling:
            job = self._store.begin_file()
            if job is not None:
                self._run_fill(job, self._give_up)
        if self._is_filling and self._store.fill_blocks_write():
            self._is_held_up = True  # the end of the fill commits
            self._weigh()
            if self._late_timer is None:
                self._late_timer = self._timers.call_later(self._timeout_seconds, self._late)
            return
        self._new, self._is_held_up = [], False
        self._committed = count = sum([one.records for one in group])
        self._mean_records += (count - self._mean_records) * _MEAN_WEIGHT
        try:
            self._store.write()
        except StoreError as error:
            _log.error("a write failed; its records are refused", records=count, why=str(error))
            self._stats.refused += count
            pending_acks.refuse(group, error)
            return
        self._stats.put += count
        self._undispatched += count
        if not self._is_sync:
            pending_acks.tell(group, None)
            self._after_answers()
            self._weigh()
            if self.pressure.is_high:
                self._sync_behind()
            elif self._sync_timer is None:
                self._sync_behind_later()
            return
        self._written += group
        if not self._job_is_out:
            self._sync()
            return
        self._weigh()
        if self._late_timer is None:
            self._late_timer = self._timers.call_later(self._timeout_seconds, self._late)

    def _sync(self) -> None:
        """Sync what is written: on the loop while that is quick, else on the thread."""
        group, self._written = self._written, []
        try:
            tables = self._begin_table_sync()
        except StoreError as caught:
            pending_acks.refuse(group, caught)
            return
        try:
            job = self._store.begin_sync()
        except StoreError as caught:
            self._answer(group, caught)
            return
        if job is None and tables is None:
            self._answer(group, None)
            return
        ready = None
        if not self._is_slow and sum([one.records for one in group]) >= READY_BESIDE:
            if job is not None:
                job.start_writing()
            ready = pending_acks.ready(group, None)
        self._run_sync(job, tables, group, ready, 0 if self._is_slow else self._wait_seconds)

    def _run_sync(
        self,
        job: LogSync | None,
        tables: TableSyncJob | None,
        group: list[PendingAcks[object]],
        ready: Ready | None,
        wait_seconds: float,
    ) -> None:
        """Have the thread run a sync, and perhaps wait for that.

        Args:
            job: The sync of the log; None if the disk has it.
            tables: That of the tables; None if nothing of them was changed.
            group: Who waits for it.
            ready: Their answers, if they are made already.
            wait_seconds: How long the loop may stand still.
        """
        self._job_is_out = True
        self._syncing = group

        def timed() -> float:
            started = self._clock.monotonic()
            _run(job, tables)
            return self._clock.monotonic() - started

        def done(seconds: float | None, caught: BaseException | None) -> None:
            error = _as_store_error(caught)
            if seconds is not None:
                self._measure(seconds)
            self._job_is_out = False
            if self._late_timer is not None and not self._is_held_up:
                self._late_timer.cancel()
                self._late_timer = None
            if job is not None:
                self._store.finish_sync(job, error)
            if tables is not None:
                tables.finish(error)
            answered, self._syncing = self._syncing, []
            self._answer(answered, error, ready if answered else None)
            if self._written and not self._is_closed:
                self._sync()  # after a failure it is refused, and so are they
            self._weigh()

        if wait_seconds:
            self._sync_thread.run_within(wait_seconds, timed, done, self._work_beside())
        else:
            self._sync_thread.submit(timed, done)
        if self._job_is_out and group and self._late_timer is None:
            self._late_timer = self._timers.call_later(self._timeout_seconds, self._late)

    def _answer(
        self, group: list[PendingAcks[object]], error: StoreError | None, ready: Ready | None = None
    ) -> None:
        if error is not None:
            _log.critical(
                "a sync failed: what reached the disk is unknown, so the broker stores nothing "
                "more until it is restarted",
                why=str(error),
            )
            pending_acks.refuse(group, StoreFailed(f"a sync failed: {error}"))
            return
        pending_acks.send(pending_acks.ready(group, None) if ready is None else ready)
        self._after_answers()

    def _late(self) -> None:
        """Tell those whose sync takes longer than the limit that they are stored but not synced.

        Who could not even be written, as a fill of the same bytes stalls, is refused.
        """
        self._late_timer = None
        seconds = self._timeout_seconds
        _log.warning("the disk is slow: a sync takes longer than its limit", seconds=seconds)
        left, self._syncing = self._syncing, []
        if not left:
            left, self._written = self._written, []
        pending_acks.tell(left, SyncLate(f"stored, but not synced within {seconds:g} s"))
        if not left and self._is_held_up:
            left, self._new = self._new, []
            self._is_held_up = False
            self._store.give_up_unwritten()
            pending_acks.refuse(
                left, DiskFailed(f"not written within {seconds:g} s: the disk stalls")
            )
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
        _log.error(
            "a log file could not be made; its records are refused", records=count, why=str(error)
        )
        self._store.give_up_unwritten()
        self._stats.refused += count
        pending_acks.refuse(group, error)
        self._weigh()

    def _weigh(self) -> None:
        """Say how much waits for a sync: with sync flush nothing, unless one is under way."""
        waits = self._job_is_out or self._is_held_up or not self._is_sync
        is_counted = waits and not self._store.has_failed
        self.pressure.weigh(self._store.end - self._store.synced if is_counted else 0)

    def _measure(self, seconds: float) -> None:
        """Note how long a sync took, and decide where the next one runs."""
        self._stats.synced(seconds)
        self._mean_seconds += (seconds - self._mean_seconds) * _MEAN_WEIGHT
        limit = self._wait_seconds / 2 if self._is_slow else self._wait_seconds
        self._is_slow = self._mean_seconds > limit

    def _after_answers(self) -> None:
        """Give consumers what has just become theirs, and keep disk and memory prepared."""
        self._store.page_cache.give_back()
        if not self._is_sync or self._is_slow:  # else it is done beside the next sync
            self._index()
        if self._is_round_enough(times=1 if not self._is_sync or self._is_slow else 2):
            self._half_round()
        elif self.someone_waits():
            self._dispatch()
        self._begin_round()
        if not self._is_filling:
            self._fill()

    def _is_round_enough(self, times: int = 1) -> bool:
        """Say whether so many records wait for queues and index that they wait no longer."""
        fresh = self._store.written - self._round_to
        return (
            self._undispatched >= times * DISPATCH_ENOUGH or fresh >= times * DISPATCH_BYTES_ENOUGH
        )

    def _work_beside(self) -> Callable[[], None] | None:
        """Return what to do while the loop waits for a sync: half of a round, if one is due."""
        if self._is_index_due:
            return self._index
        waits_since = self._round_begun_at
        is_due = waits_since is not None and (
            self._clock.monotonic() - waits_since >= BESIDE_SECONDS or self._is_round_enough()
        )
        return self._half_round if is_due else None

    def _dispatch(self) -> None:
        """Write queue units, for some milliseconds; what is left comes in the next turns."""
        until = self._clock.monotonic() + DISPATCH_HOLD_SECONDS
        while True:
            try:
                fresh = self._store.dispatch(
                    someone_waits=self.someone_waits(), max_queues=QUEUES_AT_ONCE
                )
            except StoreError as error:
                _log.error("queues could not be written; trying again", why=str(error))
                return
            for put in fresh.puts:
                self._stats.arrived(put)
            for arrival in fresh.arrivals:
                self._arrived(arrival)
            if self._store.is_dispatched:
                return
            if self._clock.monotonic() >= until:
                break
        if not self._is_rest_due:
            self._is_rest_due = True
            self._timers.call_soon(self._dispatch_rest)

    def _dispatch_rest(self) -> None:
        self._is_rest_due = False
        if not self._is_closed:
            self._half_round()
            self._begin_round()

    def _begin_round(self) -> None:
        if self._round_timer is None:
            self._round_begun_at = self._clock.monotonic()
            self._round_timer = self._timers.call_later(DISPATCH_SECONDS, self._round)

    def _round(self) -> None:
        """Write queue units and index entries of what has gathered."""
        self._half_round()
        self._index()

    def _half_round(self) -> None:
        """Write queue units; the index is due next."""
        if self._round_timer is not None:
            self._round_timer.cancel()
            self._round_timer = self._round_begun_at = None
        self._undispatched, self._round_to = 0, self._store.written
        if not self._is_closed:
            self._is_index_due = True
            self._dispatch()

    def _index(self) -> None:
        if not self._is_index_due or self._is_closed:
            return
        self._is_index_due = False
        try:
            if self._store.dispatch_index(INDEX_ROUND) >= INDEX_ROUND:
                self._begin_round()
        except StoreError as error:
            _log.error("the index could not be written; trying again", why=str(error))

    def _sync_behind_later(self) -> None:
        seconds = self._store.settings.flush_interval_ms / 1000
        self._sync_timer = self._timers.call_later(seconds, self._sync_behind)

    def _sync_behind(self) -> None:
        """Async flush: sync what has been written, if it is due, on the thread; nobody waits."""
        if self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None
        if self._is_closed:
            return
        try:
            job = self._store.begin_async_sync()
        except StoreError:
            return  # it failed before and was said then
        if job is not None:
            tables = None
            with contextlib.suppress(StoreError):  # whoever waits for them is told
                tables = self._begin_table_sync()
            self._run_sync(job, tables, [], None, 0)
        if self._store.synced < self._store.written:
            self._sync_behind_later()

    def _fill(self) -> None:
        """Have the next stretch of the log prepared, if that pays and the store wants it.

        Zeros make a sync cheaper, but cost the CPU a second write of everything. When many share a
        sync they are not worth it: with 64 connections × 1 the broker spends 29 µs a message with
        them and 24 without, for 11 % fewer messages/s; with 16 × 1 they bring 35 % more, with a
        batch of 32 at a time 13 %. Under async flush nobody waits for a sync, and it is only room.
        """
        if self._is_closed or (self._is_sync and self._mean_records > FILL_RECORDS_MAX):
            return
        job = self._store.begin_fill()
        if job is not None:
            self._run_fill(job, lambda _: None)

    def _run_fill(self, job: FillJob, failed: Callable[[StoreError], None]) -> None:
        """Have the thread run a step ahead of the writer, and go on with what has waited for it."""
        self._is_filling = True

        def done(_: object, caught: BaseException | None) -> None:
            self._is_filling = False
            error = _as_store_error(caught)
            self._store.finish_fill(job, error)
            if error is not None:
                failed(error)
            if self._is_held_up:
                self._commit()
            if not self._is_filling:
                self._fill()

        self._thread.submit(job.run, done)


def _run(job: LogSync | None, tables: TableSyncJob | None) -> None:
    """Sync what a group needs: its records, and before them what it changed in tables."""
    if tables is not None:
        tables.run()
    if job is not None:
        job.run()


def _as_store_error(caught: BaseException | None) -> StoreError | None:
    """Return `caught` if it is the store's; anything else is our mistake and goes on."""
    if caught is None or isinstance(caught, StoreError):
        return caught
    raise caught
