"""Every append is answered exactly once, and "stored" only when the flush mode allows it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync
from sprocket.base.errors import DiskFailed, DiskFull, MessageTooLarge, StoreError, SyncLate
from sprocket.base.errors import StoreFailed as Failed
from sprocket.rocketmq.broker.messages import (
    Commits,
    DurableAppender,
    DurableLog,
    ReputRounds,
    pending_acks,
)
from sprocket.rocketmq.broker.messages.reput_rounds import (
    DISPATCH_BYTES_ENOUGH,
    DISPATCH_ENOUGH,
    DISPATCH_SECONDS,
    INDEX_ROUND,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.reput import Arrival, Fresh
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.group_commit import (
    FILL_RECORDS_MAX,
    GATHER_TURNS_MAX,
    READY_BESIDE,
    FlushMode,
    GroupCommit,
    Machine,
)
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock

ROUND_MS = round(DISPATCH_SECONDS * 1000)


class FakeJob:
    """A sync or a fill that takes as long as the test says."""

    def __init__(self, store: "FakeStore") -> None:
        self._store = store

    def start(self) -> None:
        """Leave it to the thread."""

    def run(self) -> None:
        """Take the time, and fail if the test says so."""
        self._store.clock.advance(self._store.sync_ms)
        self._store.while_syncing()
        if self._store.sync_error is not None:
            raise self._store.sync_error


class FakeStore:
    """The part of the store that `GroupCommit` sees, with what it did written down."""

    def __init__(self, clock: FakeClock, flush: str) -> None:
        self.settings = StoreSettings(flush=cast("Any", flush))
        self.clock = clock
        self.done: list[str] = []
        self.sync_ms = 0
        self.write_error: StoreError | None = None
        self.sync_error: StoreError | None = None
        self.failed = False
        self.given_up = self.unwritten = 0
        self.unsynced = False
        self.is_syncing = False
        self.is_due = True
        self.arrivals: list[Arrival] = []
        self.dispatched = self.behind = 0
        self.index_left = self.dispatch_parts = self.dispatch_ms = 0
        self.fills = self.files = 0
        self.blocks = False
        self.while_syncing: Callable[[], None] = lambda: None
        self.answered: Callable[[], int] = lambda: 0
        self.answered_before_memory: list[int] = []

    def append(self, record: str) -> str:
        """Take a record up."""
        if self.failed:
            raise Failed("failed before")
        if record == "big":
            raise MessageTooLarge("big")
        self.unwritten += 1
        return record

    def append_all(self, records: Sequence[str]) -> list[str]:
        """Take records up."""
        return [self.append(record) for record in records]

    append_batch = append_all

    def write(self) -> None:
        """Write, or fail."""
        if self.write_error is not None:
            raise self.write_error
        self.done.append("write")
        self.unwritten = 0
        self.unsynced = True

    def begin_sync(self) -> FakeJob | None:
        """Begin a sync if something was written."""
        if self.failed:
            raise Failed("failed before")
        if not self.unsynced:
            return None
        self.unsynced = False
        self.is_syncing = True
        return FakeJob(self)

    def begin_async_sync(self) -> FakeJob | None:
        """Begin one if the test says that it is due."""
        return self.begin_sync() if self.is_due else None

    @property
    def written(self) -> int:
        """More than `synced` while something is to be synced."""
        return self.dispatched + int(self.unsynced or self.is_syncing) + self.behind

    @property
    def end(self) -> int:
        """One more for each record that was taken up and not written."""
        return self.written + self.unwritten

    @property
    def waiting_bytes(self) -> int:
        """What was taken up and is not durable, unless a sync failed."""
        return 0 if self.failed else self.end - self.synced

    def give_up_unwritten(self) -> None:
        """Count it."""
        self.unwritten = 0
        self.given_up += 1

    @property
    def synced(self) -> int:
        """See `written`."""
        return self.dispatched

    def finish_sync(self, _: FakeJob, error: StoreError | None) -> None:
        """End it."""
        self.done.append("sync" if error is None else "sync failed")
        self.is_syncing = False
        self.failed = error is not None

    @property
    def is_dispatched(self) -> bool:
        """Whether the test wants no further part of a round."""
        return self.dispatch_parts == 0

    def dispatch(self, *, someone_waits: bool, max_queues: int) -> Fresh:
        """Give what arrived, if somebody waits for it."""
        assert max_queues > 0
        self.done.append("dispatch")
        self.clock.advance(self.dispatch_ms)
        self.dispatch_parts = max(0, self.dispatch_parts - 1)
        arrivals, self.arrivals = self.arrivals, []
        return Fresh([], arrivals if someone_waits else [])

    def dispatch_index(self, limit: int) -> int:
        """Index what is left, up to the limit."""
        count = min(limit, self.index_left)
        self.index_left -= count
        return count

    @property
    def page_cache(self) -> "FakeStore":
        """Whose memory is given back."""
        return self

    def give_back(self) -> None:
        """Note who has an answer by then."""
        self.answered_before_memory.append(self.answered())

    def begin_fill(self) -> FakeJob | None:
        """Begin a fill if the test wants one."""
        if self.fills == 0:
            return None
        self.fills -= 1
        return FakeJob(self)

    def begin_file(self) -> FakeJob | None:
        """Begin to make a file if the test wants one."""
        if self.files == 0:
            return None
        self.files -= 1
        self.blocks = True
        return FakeJob(self)

    def finish_fill(self, _: FakeJob, error: StoreError | None) -> None:
        """End it."""
        self.blocks = False
        self.done.append("fill" if error is None else "fill failed")

    def fill_blocks_write(self) -> bool:
        """Tell what the test says."""
        return self.blocks


class FakeThread:
    """A disk thread that works when the test says so, or when somebody waits for a while.

    Attributes:
        waited: How long somebody was ready to wait, in seconds, for each job that was waited for.
        stalls: A job that is waited for is not done then either.
    """

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []
        self.waited: list[float] = []
        self.stalls = False

    def run_within(
        self,
        seconds: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """Do a job and hand it back, unless the test says otherwise."""
        self.waited.append(seconds)
        assert start() is None
        self.submit(job, done)
        if beside is not None:
            beside()
        if not self.stalls:
            self.work()

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Keep a job."""
        self.jobs.append((job, done))

    def work(self) -> None:
        """Do the oldest job and hand it back."""
        job, done = self.jobs.pop(0)
        try:
            result = job()
        except StoreError as error:
            done(None, error)
        else:
            done(result, None)


class FakeHold:
    """Consumers that wait if the test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.arrivals: list[Arrival] = []

    def arrived(self, arrival: Arrival) -> None:
        """Write it down."""
        self.arrivals.append(arrival)


class Bench:
    """The way of records into a store, between fakes."""

    def __init__(self, flush: str = "sync", *, ms_max: float = 1.0, unsynced_max: int = 1) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.store = FakeStore(self.clock, flush)
        self.thread = FakeThread()
        self.fill_thread = FakeThread()
        self.answers: list[tuple[Any, ...]] = []
        self.made = 0
        self.tables_changed = False
        self.table_error: StoreError | None = None
        self.stats = Stats(self.clock)
        self.hold = FakeHold()
        self.arrived = self.hold.arrivals
        self.pressure = Pressure(unsynced_max, 1)
        store = cast("Store", self.store)
        self.rounds = ReputRounds(store, self.timers, self.clock, self.hold, self.stats)
        self.commits: Commits = GroupCommit(
            DurableLog(store, self.begin_table_sync),
            pending_acks,
            self.rounds,
            Machine(self.timers, self.clock, self.fill_thread, self.thread),
            FlushMode(
                is_sync=flush == "sync",
                wait_seconds_max=ms_max / 1000,
                timeout_seconds=5,
                look_seconds=0.5,
            ),
            self.pressure,
        )
        self.durable = DurableAppender(store, self.commits, self.pressure)

    def start(self) -> None:
        """Begin to fill ahead, and to dispatch."""
        self.commits.start()
        self.rounds.start()

    def begin_table_sync(self) -> "Bench | None":
        """Say whether tables have changed."""
        if self.table_error is not None:
            raise self.table_error
        return self if self.tables_changed else None

    def run(self) -> None:
        """Make the tables durable."""
        self.store.done.append("tables")

    def finish(self, error: StoreError | None) -> None:
        """Note the end of that."""
        assert error is None
        self.tables_changed = False

    def append(self, record: str) -> None:
        """Append and note the answer."""
        self.durable.append([cast("NewRecord", record)], self._one_answer, [record])

    def append_batch(self, *records: str) -> None:
        """Append as one and note the answer."""
        self.durable.append_batch(cast("NewBatch", records), self._batch_answer, [records])

    def _one_answer(self, asked: Any, stored: Any, error: StoreError | None, ready: Any) -> None:
        (request,) = asked
        ready[self] += self._answer(self, request, stored and stored[0], error)

    def _batch_answer(self, asked: Any, stored: Any, error: StoreError | None, ready: Any) -> None:
        (request,) = asked
        ready[self] += self._answer(self, request, stored, error)

    def answer_all(self, asked: Any, stored: Any, error: StoreError | None, ready: Any) -> None:
        """Answer many with what was asked for, what was stored, and why not."""
        self.made += len(asked)
        why = None if error is None else type(error).__name__
        ready[self] += [(one, stored and stored[n], why) for n, one in enumerate(asked)]

    def _answer(self, asker: object, request: Any, stored: Any, error: StoreError | None) -> Any:
        assert asker is self
        self.made += 1
        assert stored in (None, request) or stored == list(request)
        return [(stored, None if error is None else type(error).__name__)]

    def send_now(self, buffers: Sequence[Any]) -> None:
        """Note answers; it asks for all of them."""
        self.answers += buffers


class FakeSource:
    """Collects records for a bench.

    Attributes:
        taken: What was taken up at once, each time.
    """

    def __init__(self, bench: Bench) -> None:
        self.taken: list[list[str]] = []
        self._bench = bench
        self._asked: list[str] = []

    @property
    def waiting_count(self) -> int:
        """How many it has."""
        return len(self._asked)

    def ask(self, record: str) -> None:
        """Have a record appended with others."""
        if not self._asked:
            self._bench.durable.gather(self)
        self._asked.append(record)

    def take_up(self) -> None:
        """Append them."""
        asked, self._asked = self._asked, []
        self.taken.append(asked)
        for record in asked:
            self._bench.append(record)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_memory_is_given_back_when_all_have_their_answers(flush: str) -> None:
    """Once for each write, and after nothing that failed."""
    bench = Bench(flush)
    bench.store.answered = lambda: len(bench.answers)
    for record in "ab":
        bench.append(record)
        bench.timers.drain()
    assert bench.store.answered_before_memory == [1, 2]
    bench.store.write_error = DiskFull("full")
    bench.append("c")
    bench.timers.drain()
    assert bench.store.answered_before_memory == [1, 2]


def test_one_write_and_one_sync_for_all_of_a_turn() -> None:
    """Nobody is answered before both; then everybody, in order."""
    bench = Bench()
    bench.append("a")
    bench.append_batch("b", "c")
    assert bench.answers == []
    assert bench.store.done == []
    bench.timers.drain()
    assert bench.store.done == ["write", "sync"]
    assert bench.answers == [("a", None), (["b", "c"], None)]
    bench.timers.drain()
    assert bench.store.done == ["write", "sync"]


def test_a_group_waits_while_turns_bring_more_but_not_for_ever() -> None:
    """Two turns that bring something are one group; an endless stream is cut into groups."""
    bench = Bench()
    bench.append("a")
    bench.timers.turn()
    bench.append("b")
    bench.timers.drain()
    assert bench.store.done == ["write", "sync"]
    bench.store.done.clear()
    for turn in range(2 * GATHER_TURNS_MAX + 2):
        bench.append(str(turn))
        bench.timers.turn()
    bench.timers.drain()
    assert bench.store.done.count("sync") == 2


def test_as_many_as_shared_the_last_sync_are_waited_for_but_not_for_ever() -> None:
    """Turns that bring nothing do not end a group that is smaller than the last; enough do."""
    bench = Bench()
    for record in "abc":
        bench.append(record)
    bench.timers.drain()
    bench.append("d")
    for _ in range(GATHER_TURNS_MAX - 2):
        bench.timers.turn()
    bench.append("e")
    bench.append("f")
    bench.timers.drain()
    assert bench.store.done.count("sync") == 2
    bench.append("g")
    for _ in range(GATHER_TURNS_MAX):
        bench.timers.turn()
    assert bench.store.done.count("sync") == 2
    bench.timers.turn()
    assert bench.store.done.count("sync") == 3
    bench.append("h")
    bench.timers.turn()
    bench.timers.turn()
    assert bench.store.done.count("sync") == 4


def test_async_flush_answers_after_the_write_and_syncs_behind() -> None:
    """The sync follows on the thread, looked for every half second, once for everything."""
    bench = Bench("async", unsynced_max=100)
    bench.append("a")
    bench.timers.drain()
    assert bench.answers == [("a", None)]
    assert bench.store.done == ["write"]
    bench.store.is_due = False
    bench.append("b")
    bench.timers.drain()
    bench.timers.advance(500)
    assert len(bench.thread.jobs) == 0
    bench.store.is_due = True
    bench.timers.advance(500)
    assert len(bench.thread.jobs) == 1
    bench.thread.work()
    bench.timers.advance(5000)
    assert len(bench.thread.jobs) == 0
    assert bench.store.done.count("sync") == 1


@pytest.mark.parametrize("flush", ["async", "sync"])
def test_what_is_asked_in_some_turns_is_taken_up_at_once(flush: str) -> None:
    """In order, and before the write."""
    bench = Bench(flush)
    source = FakeSource(bench)
    source.ask("a")
    source.ask("b")
    assert source.taken == []
    bench.timers.turn()
    source.ask("c")
    assert bench.commits.waiting_count == 3
    assert bench.answers == []
    bench.timers.drain()
    assert source.taken == [["a", "b", "c"]]
    assert bench.store.done == ["write", "sync"][: 1 + (flush == "sync")]
    assert bench.answers == [("a", None), ("b", None), ("c", None)]
    assert bench.commits.waiting_count == 0
    source.ask("d")
    bench.durable.take_up_now()
    bench.append("e")
    bench.timers.drain()
    assert bench.answers[3:] == [("d", None), ("e", None)]


def test_what_is_asked_of_a_broker_that_stops_is_answered() -> None:
    """It is taken up, so that who asked hears that it was not stored."""
    bench = Bench()
    FakeSource(bench).ask("a")
    bench.commits.close()
    assert bench.answers == [(None, "StoreFailed")]


def test_one_of_many_that_is_refused_disturbs_nobody() -> None:
    """Each of the others is stored, in order, with the answers that many get."""
    bench = Bench()
    records = ["a", "big", "b"]
    bench.durable.append(cast("Any", records), bench.answer_all, records)
    assert bench.answers == [("big", None, "MessageTooLarge")]
    bench.timers.drain()
    assert bench.answers[1:] == [("a", "a", None), ("b", "b", None)]


def test_what_the_store_refuses_is_answered_at_once() -> None:
    """A record that is too large waits for nobody and disturbs nobody."""
    bench = Bench()
    bench.append("a")
    bench.append("big")
    bench.append_batch("b", "big")
    assert bench.answers == [(None, "MessageTooLarge"), (None, "MessageTooLarge")]
    bench.timers.drain()
    assert bench.answers[2:] == [("a", None)]


@pytest.mark.parametrize("error", [DiskFull("full"), DiskFailed("EIO")])
def test_a_failed_write_refuses_its_records_and_the_broker_goes_on(error: StoreError) -> None:
    """Nothing is synced for them, and the next turn stores again."""
    bench = Bench()
    bench.store.write_error = error
    bench.append("a")
    bench.append("b")
    bench.timers.drain()
    assert bench.answers == [(None, type(error).__name__)] * 2
    assert "sync" not in bench.store.done
    bench.store.write_error = None
    bench.append("c")
    bench.timers.drain()
    assert bench.answers[2:] == [("c", None)]


def test_a_failed_sync_refuses_everybody_from_then_on() -> None:
    """What reached the disk is unknown, so nothing counts as stored until the store is reopened."""
    bench = Bench()
    bench.store.sync_error = DiskFailed("EIO")
    bench.append("a")
    bench.timers.drain()
    assert bench.answers == [(None, "StoreFailed")]
    bench.append("b")
    bench.timers.drain()
    assert bench.answers[1:] == [(None, "StoreFailed")]


def test_a_failed_sync_on_the_thread_refuses_those_behind_it_too() -> None:
    """What was written while the failing sync was out is refused as well."""
    bench = Bench(ms_max=0)
    bench.store.sync_ms = 3
    bench.append("a")
    bench.timers.drain()
    bench.append("b")
    bench.timers.drain()
    bench.store.sync_error = DiskFailed("EIO")
    bench.append("c")
    bench.timers.drain()
    bench.append("d")
    bench.timers.drain()
    bench.thread.work()
    assert bench.answers[1:] == [(None, "StoreFailed")] * 3


def test_a_slow_disk_moves_the_sync_to_the_thread_and_a_quick_one_back() -> None:
    """While one sync is out, what is written waits for the next, one for all of it."""
    bench = Bench()
    bench.store.sync_ms = 50
    bench.append("a")
    bench.timers.drain()
    assert bench.answers == [("a", None)]
    bench.append("b")
    bench.timers.drain()
    assert len(bench.thread.jobs) == 1
    bench.append("c")
    bench.timers.drain()
    bench.append("d")
    bench.timers.drain()
    assert len(bench.answers) == 1
    bench.store.sync_ms = 0
    bench.thread.work()
    assert bench.answers[1:] == [("b", None)]
    bench.thread.work()
    assert bench.answers[2:] == [("c", None), ("d", None)]
    for number in range(40):
        bench.append(str(number))
        bench.timers.drain()
        if bench.thread.jobs:
            bench.thread.work()
    assert len(bench.answers) == 44
    bench.append("quick again")
    bench.timers.drain()
    assert bench.thread.jobs == []
    assert bench.answers[-1] == ("quick again", None)


def test_a_sync_that_takes_too_long_is_answered_late_and_only_once() -> None:
    """After the limit the sender hears that the record is stored but perhaps not on the disk."""
    bench = Bench(ms_max=0)
    bench.append("a")
    bench.timers.drain()
    bench.append("b")
    bench.timers.drain()
    bench.timers.advance(4999)
    assert bench.answers == []
    bench.timers.advance(1)
    assert bench.answers == [("a", SyncLate.__name__)]
    bench.timers.advance(5000)
    assert bench.answers[1:] == [("b", SyncLate.__name__)]
    bench.thread.work()
    assert len(bench.answers) == 2


@pytest.mark.parametrize("records", [1, READY_BESIDE])
def test_a_sync_that_stalls_on_a_quick_disk_lets_the_loop_go_on(records: int) -> None:
    """It is waited for a moment; then senders are told in time, and what comes waits for the next.

    The loop stood still for as long as the disk did, with all that it serves.
    """
    bench = Bench()
    bench.thread.stalls = True
    for number in range(records):
        bench.append(str(number))
    bench.timers.drain()
    assert bench.thread.waited == [0.001]
    assert bench.answers == []
    bench.append("behind")
    bench.timers.drain()
    assert len(bench.thread.jobs) == 1
    bench.timers.advance(5000)
    assert bench.answers == [(str(number), SyncLate.__name__) for number in range(records)]
    bench.thread.work()
    assert len(bench.answers) == records
    bench.thread.work()
    assert bench.answers[records:] == [("behind", None)]


def test_a_stalled_sync_that_ends_before_the_limit_is_a_success() -> None:
    """Answers that were made beside it are sent then, once."""
    bench = Bench()
    bench.thread.stalls = True
    texts = [str(number) for number in range(READY_BESIDE)]
    for text in texts:
        bench.append(text)
    bench.timers.drain()
    bench.timers.advance(4000)
    bench.thread.work()
    assert bench.answers == [(text, None) for text in texts]
    bench.timers.advance(5000)
    assert len(bench.answers) == READY_BESIDE


def test_what_a_stalled_fill_keeps_from_being_written_is_refused_in_time() -> None:
    """It is nowhere, so nothing of it may be there later; what comes then is stored again."""
    bench = Bench()
    bench.store.fills = 1
    bench.start()
    bench.store.blocks = True
    bench.append("a")
    bench.timers.drain()
    bench.timers.advance(4999)
    bench.append("b")
    bench.timers.drain()
    assert bench.durable.pressure.is_full
    bench.timers.advance(1)
    assert bench.answers == [(None, "DiskFailed"), (None, "DiskFailed")]
    assert bench.store.given_up == 1
    assert not bench.durable.pressure.is_full
    bench.fill_thread.work()
    bench.append("c")
    bench.timers.drain()
    assert bench.answers[2:] == [("c", None)]
    assert bench.store.done[-3:] == ["fill", "write", "sync"]


def test_under_async_flush_what_waits_for_the_disk_has_a_limit() -> None:
    """From half of it on a sync does not wait for its time; at the limit senders hear so.

    Nothing was weighed, so a slow disk let memory fill up until the system stopped the broker.
    """
    bench = Bench("async", unsynced_max=4)
    bench.store.behind = 1  # there is one byte more behind each write
    bench.append("a")
    bench.timers.drain()
    assert bench.answers == [("a", None)]
    assert len(bench.thread.jobs) == 1  # two of four bytes
    assert not bench.durable.pressure.is_full
    bench.store.behind = 3
    bench.append("b")
    bench.timers.drain()
    assert bench.durable.pressure.is_full
    bench.store.behind = 0
    bench.thread.work()
    assert not bench.durable.pressure.is_full
    bench.store.sync_error = DiskFailed("EIO")
    bench.store.behind = 9
    bench.append("c")
    bench.timers.drain()
    assert bench.durable.pressure.is_full
    bench.thread.work()
    assert not bench.durable.pressure.is_full, "what failed waits no more: the store says so"


def test_who_waits_is_woken_in_the_same_turn() -> None:
    """With somebody waiting queues are written at once, else with the next round."""
    bench = Bench()
    arrival = Arrival("t", 0, QueueOffset(1), [0])
    bench.append("a")
    bench.timers.drain()
    assert "dispatch" not in bench.store.done
    bench.timers.advance(ROUND_MS)
    assert "dispatch" in bench.store.done
    bench.append("b")
    bench.store.arrivals = [arrival]
    bench.timers.drain()
    bench.hold.count = 1  # before the round of those it came too late for
    bench.timers.advance(ROUND_MS)
    assert bench.arrived == [arrival]
    bench.hold.count = 1
    bench.store.arrivals = [arrival]
    bench.append("b")
    bench.timers.drain()
    assert bench.arrived == [arrival, arrival]


def test_a_long_index_backlog_is_worked_off_in_rounds() -> None:
    """No round takes more than its limit, and rounds go on until nothing is left."""
    bench = Bench()
    bench.store.index_left = 3 * INDEX_ROUND + 1
    bench.append("a")
    bench.timers.drain()
    bench.timers.advance(ROUND_MS)
    assert bench.store.index_left == 2 * INDEX_ROUND + 1
    for _ in range(3):
        bench.timers.advance(ROUND_MS)
    assert bench.store.index_left == 0


def test_a_round_is_done_while_the_disk_syncs() -> None:
    """Not between an answer and the next message of who sends one at a time: that would wait."""
    bench = Bench()
    bench.store.index_left = 5
    bench.append("a")
    bench.timers.drain()
    assert bench.store.done == ["write", "sync"]
    bench.timers.advance(ROUND_MS // 2)
    for record in "bc":
        bench.append(record)
        bench.timers.drain()
    assert bench.store.done == ["write", "sync", "write", "dispatch", "sync", "write", "sync"]
    assert bench.store.index_left == 0
    bench.timers.advance(ROUND_MS)
    assert bench.store.done[-1] == "dispatch"  # what came since


def test_the_index_does_not_wait_for_ever_for_a_sync() -> None:
    """If nobody sends any more the end of the next round writes it."""
    bench = Bench()
    bench.append("a")
    bench.timers.drain()
    bench.timers.advance(ROUND_MS // 2)
    bench.store.index_left = 5
    bench.append("b")
    bench.timers.drain()
    assert bench.store.done[2:] == ["write", "dispatch", "sync"]
    assert bench.store.index_left == 5
    bench.timers.advance(ROUND_MS)
    assert bench.store.index_left == 0


def test_enough_bytes_are_dispatched_at_once() -> None:
    """Though they are few records; and once, whatever came of it."""
    bench = Bench("async")
    for bench.store.behind in (DISPATCH_BYTES_ENOUGH - 2, DISPATCH_BYTES_ENOUGH - 1):
        assert "dispatch" not in bench.store.done
        bench.append("a")
        bench.timers.drain()
    assert bench.store.done.count("dispatch") == 1
    bench.store.behind += 10
    bench.append("b")
    bench.timers.drain()
    assert bench.store.done.count("dispatch") == 1


def test_enough_records_are_dispatched_at_once() -> None:
    """A round under load is neither late nor long."""
    bench = Bench("async")
    for _ in range(DISPATCH_ENOUGH - 1):
        bench.append("a")
    bench.timers.drain()
    assert "dispatch" not in bench.store.done
    bench.append("b")
    bench.timers.drain()
    assert bench.store.done.count("dispatch") == 1
    bench.timers.advance(2 * ROUND_MS)
    assert bench.store.done.count("dispatch") == 1 + 1, "the timer began anew"
    bench.append("c")
    bench.timers.drain()
    assert bench.store.done.count("dispatch") == 2


def test_zeros_are_filled_one_step_after_the_other() -> None:
    """The next step begins when the last one has ended; a failed one stops nothing."""
    bench = Bench()
    bench.store.fills = 2
    bench.start()
    assert len(bench.fill_thread.jobs) == 1
    bench.store.sync_error = DiskFull("full")
    bench.fill_thread.work()
    assert bench.store.done[-1] == "fill failed"
    bench.store.sync_error = None
    bench.fill_thread.work()
    assert bench.store.done[-1] == "fill"
    assert bench.fill_thread.jobs == []


@pytest.mark.parametrize("batched", [False, True])
def test_zeros_wait_while_many_share_a_sync(batched: bool) -> None:
    """They cost the CPU more than they save then; with few they go on."""
    bench = Bench()

    def group(size: int) -> None:
        numbers = [str(number) for number in range(size)]
        if batched:
            bench.append_batch(*numbers)
        else:
            for number in numbers:
                bench.append(number)
        bench.timers.drain()

    for _ in range(30):
        group(FILL_RECORDS_MAX + 10)
    bench.store.fills = 1
    group(FILL_RECORDS_MAX + 10)
    assert bench.fill_thread.jobs == []
    for _ in range(30):
        group(1)
    assert len(bench.fill_thread.jobs) == 1


def test_under_async_flush_the_log_is_prepared_however_many_write() -> None:
    """There is no sync to share."""
    bench = Bench("async")
    for _ in range(30):
        bench.append_batch(*[str(number) for number in range(FILL_RECORDS_MAX + 10)])
        bench.timers.drain()
    bench.store.fills = 1
    bench.append("last")
    bench.timers.drain()
    assert len(bench.fill_thread.jobs) == 1
    bench.fill_thread.work()
    assert bench.store.done[-1] == "fill"


def test_a_write_waits_for_a_fill_of_the_same_bytes() -> None:
    """It is made when the fill has ended, without another append."""
    bench = Bench()
    bench.store.fills = 1
    bench.start()
    bench.store.blocks = True
    bench.append("a")
    bench.timers.drain()
    assert bench.store.done == []
    bench.fill_thread.work()
    assert bench.store.done == ["fill", "write", "sync"]
    assert bench.answers == [("a", None)]
    bench.store.fills = 1
    bench.start()
    bench.append("b")
    bench.fill_thread.work()
    assert bench.store.done[3:] == ["fill"]


def test_the_end_of_a_fill_leaves_a_group_to_gather() -> None:
    """If it kept nothing from being written."""
    bench = Bench()
    bench.store.fills = 1
    bench.start()
    bench.append("a")
    bench.fill_thread.work()
    assert bench.store.done == ["fill"]
    bench.append("b")
    bench.timers.drain()
    assert bench.store.done == ["fill", "write", "sync"]


def test_closing_refuses_who_still_waits() -> None:
    """Nobody is left without an answer, and nothing runs afterwards."""
    bench = Bench(ms_max=0)
    bench.store.sync_ms = 3
    bench.append("quick")
    bench.timers.drain()
    bench.append("a")
    bench.timers.drain()
    bench.append("b")
    bench.commits.close()
    assert bench.answers[1:] == [(None, "StoreFailed"), (None, "StoreFailed")]
    bench.timers.advance(10_000)
    bench.thread.work()
    assert len(bench.answers) == 3


def test_an_answer_that_fails_keeps_nobody_waiting() -> None:
    """The others of its group are answered."""
    bench = Bench()

    def broken(*_: object) -> Any:
        raise ValueError("a bug")

    bench.append("a")
    bench.durable.append([cast("NewRecord", "b")], broken, ["b"])
    bench.append("c")
    bench.timers.drain()
    assert bench.answers == [("a", None), ("c", None)]


def test_answers_made_while_the_disk_syncs_are_sent_after_the_sync() -> None:
    """Of a group of more than one; nothing is out while it runs, and the order is kept."""
    bench = Bench()
    texts = [str(number) for number in range(READY_BESIDE)]
    for text in texts:
        bench.append(text)
    found: list[tuple[int, int]] = []
    bench.store.while_syncing = lambda: found.append((bench.made, len(bench.answers)))
    bench.timers.drain()
    assert found == [(READY_BESIDE, 0)]
    assert bench.answers == [(text, None) for text in texts]
    bench.append_batch(*texts)
    bench.timers.drain()
    assert found[1:] == [(READY_BESIDE + 1, READY_BESIDE)]


def test_answers_made_while_the_disk_syncs_are_dropped_if_it_fails() -> None:
    """Everybody is refused, once."""
    bench = Bench()
    for number in range(READY_BESIDE):
        bench.append(str(number))
    bench.store.sync_error = Failed("no")
    bench.timers.drain()
    assert bench.answers == [(None, "StoreFailed")] * READY_BESIDE


def test_what_was_written_is_counted() -> None:
    """Each message of a batch, and none that was refused."""
    bench = Bench()
    bench.append("a")
    bench.append_batch("b", "c", "d")
    bench.timers.drain()
    bench.append("e")
    bench.append_batch("f", "g")
    bench.store.write_error = Failed("no")
    bench.timers.drain()
    bench.store.write_error = None
    bench.append("h")
    bench.timers.drain()
    assert bench.stats.put == 5


@pytest.mark.parametrize("failure", [None, Failed("gone")])
def test_what_waits_for_a_slow_disk_is_weighed(failure: StoreError | None) -> None:
    """From the group behind the sync that is out until it is synced too, or refused."""
    bench = Bench(ms_max=0)
    seen = []
    for record in ("a", "b"):
        bench.append(record)
        bench.timers.drain()
        seen.append(bench.durable.pressure.is_full)
    assert seen == [False, True]
    bench.store.sync_error = failure
    bench.thread.work()
    assert bench.durable.pressure.is_full is (failure is None)
    if failure is None:
        bench.thread.work()
        assert bench.durable.pressure.is_full is False


def test_nothing_is_weighed_once_the_disk_is_quick_again() -> None:
    """What waited for the thread's last sync is synced on the loop, and sends are taken again."""
    bench = Bench()
    bench.store.sync_ms = 9  # the mean of all syncs is just above 1 ms
    bench.append("a")
    bench.timers.drain()
    bench.store.sync_ms = 0
    for record in ("b", "c", "d", "e", "f", "g", "h", "i"):
        bench.append(record)
        bench.timers.drain()
        if not bench.thread.jobs:
            break
        bench.append("behind")
        bench.timers.drain()
        assert bench.durable.pressure.is_full
        while bench.thread.jobs:
            bench.thread.work()
        assert not bench.durable.pressure.is_full
    assert not bench.thread.jobs, "it did not come back to the loop"
    assert bench.commits.waiting_count == 0


def test_who_has_waited_for_longest_comes_first() -> None:
    """Those whose sync is out, those who missed it, those who are not written yet."""
    bench = Bench(ms_max=0)
    for records in ("bc", "d", "efg"):
        bench.append_batch(*records)
        if records != "efg":
            bench.timers.drain()
    assert [one.records for one in bench.commits.unanswered] == [2, 1, 3]
    assert bench.commits.waiting_count == 3
    while bench.thread.jobs:
        bench.thread.work()
    assert [one.records for one in bench.commits.unanswered] == [3]
    bench.timers.drain()
    while bench.thread.jobs:
        bench.thread.work()
    assert [stored for stored, _ in bench.answers] == [["b", "c"], ["d"], ["e", "f", "g"]]


@pytest.mark.parametrize("is_taken_up", [True, False])
def test_a_stop_waits_for_who_waits_but_not_for_who_comes(is_taken_up: bool) -> None:
    """Under load somebody always waits; what was only asked for yet counts as well."""
    bench = Bench()

    async def come() -> None:
        for number in range(1000):
            bench.append(f"later {number}")
            await asyncio.sleep(0)
            bench.timers.turn()

    async def stop() -> None:
        if is_taken_up:
            bench.append("a")
        else:
            FakeSource(bench).ask("a")
        coming = asyncio.ensure_future(come())
        await bench.commits.settle()
        assert ("a", None) in bench.answers
        assert bench.commits.waiting_count
        coming.cancel()

    asyncio.run(stop())


def test_the_index_keeps_up_when_every_group_is_large() -> None:
    """What was due after one is written with the next, whatever that brings."""
    bench = Bench("async")
    bench.store.index_left = 5 * DISPATCH_ENOUGH
    for _ in range(3):
        bench.append_batch(*["a"] * DISPATCH_ENOUGH)
        bench.timers.drain()
    assert bench.store.index_left == 5 * DISPATCH_ENOUGH - 2 * INDEX_ROUND


@pytest.mark.parametrize("others_come", [True, False])
def test_the_index_of_many_waits_for_the_next_answers(others_come: bool) -> None:
    """Or, if none are to be given, for the end of the round."""
    bench = Bench("async")
    bench.store.index_left = DISPATCH_ENOUGH
    bench.append_batch(*["a"] * DISPATCH_ENOUGH)
    bench.timers.drain()
    assert len(bench.answers) == 1
    assert bench.store.done[-1] == "dispatch"
    assert bench.store.index_left == DISPATCH_ENOUGH
    if others_come:
        bench.append("b")
        bench.timers.drain()
    else:
        bench.timers.advance(ROUND_MS)
    assert bench.store.index_left == 0


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_group_that_changed_tables_takes_them_to_the_disk(flush: str) -> None:
    """Before its records, and nobody is answered between; only when there is a change."""
    bench = Bench(flush)
    bench.tables_changed = True
    for record in "ab":
        bench.append(record)
        bench.timers.drain()
        if flush == "async":
            bench.timers.advance(500)
        while bench.thread.jobs:
            bench.thread.work()
    done = [one for one in bench.store.done if one != "dispatch"]
    assert done == ["write", "tables", "sync", "write", "sync"]


def test_tables_that_cannot_be_synced_refuse_the_group() -> None:
    """The log itself is in order, and the next group may be stored."""
    bench = Bench()
    bench.table_error = Failed("doubtful")
    bench.append("a")
    bench.timers.drain()
    bench.table_error = None
    bench.append("b")
    bench.timers.drain()
    assert bench.answers == [(None, "StoreFailed"), ("b", None)]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_log_file_that_is_not_there_is_made_by_the_disk_thread(flush: str) -> None:
    """Senders wait for it; nothing is written before, and nothing of it on the loop."""
    bench = Bench(flush)
    bench.store.files = 2
    bench.append("a")
    bench.timers.drain()
    assert bench.store.done == []
    assert bench.answers == []
    bench.append("b")
    bench.timers.drain()
    bench.fill_thread.work()
    assert bench.store.done == ["fill"]  # what was appended needs another one
    bench.fill_thread.work()
    assert bench.store.done[:3] == ["fill", "fill", "write"]
    assert bench.answers == [("a", None), ("b", None)]


def test_a_log_file_that_cannot_be_made_refuses_who_needs_it() -> None:
    """It is not tried again for them, and what comes next is stored where it can be."""
    bench = Bench()
    bench.store.files = 1
    bench.append("a")
    bench.timers.drain()
    bench.store.sync_error = DiskFull("full")
    bench.fill_thread.work()
    bench.store.sync_error = None
    assert bench.answers == [(None, "DiskFull")]
    assert bench.store.given_up == 1
    assert not bench.durable.pressure.is_full
    bench.append("b")
    bench.timers.drain()
    assert bench.answers[1:] == [("b", None)]
    bench.timers.advance(5000)
    assert len(bench.answers) == 2


def test_a_log_file_that_takes_too_long_to_make_refuses_who_needs_it() -> None:
    """In the time that a sender waits for a sync at most."""
    bench = Bench()
    bench.store.files = 1
    bench.append("a")
    bench.timers.drain()
    bench.timers.advance(5000)
    assert bench.answers == [(None, "DiskFailed")]
    bench.fill_thread.work()
    bench.append("b")
    bench.timers.drain()
    assert bench.answers[1:] == [("b", None)]


def test_a_round_for_many_queues_lets_others_go_on() -> None:
    """It ends after some milliseconds; the next turn of the loop goes on."""
    bench = Bench()
    bench.append("a")
    bench.timers.drain()
    bench.store.dispatch_parts, bench.store.dispatch_ms = 5, 2
    bench.store.done.clear()
    turns: list[int] = []
    bench.timers.call_later(ROUND_MS / 1000, lambda: turns.append(len(bench.store.done)))
    bench.timers.advance(ROUND_MS)
    bench.timers.drain()
    assert turns == [2]
    assert bench.store.done == ["dispatch"] * 5
