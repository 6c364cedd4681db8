"""What is appended is answered, counted and dispatched.

When, and what a slow disk does, is in `tests/unit/runtime/test_group_commit.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import pytest
from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync
from sprocket.base.errors import DiskFull, MessageTooLarge, StoreError
from sprocket.base.errors import StoreFailed as Failed
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.messages import (
    Commits,
    DurableAppender,
    Release,
    ReputRounds,
    pending_acks,
)
from sprocket.rocketmq.broker.messages.reput_rounds import (
    DISPATCH_BYTES_ENOUGH,
    DISPATCH_ENOUGH,
    DISPATCH_SECONDS,
    FOLLOWED_SECONDS,
    INDEX_ROUND,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.model.message import NewBatch, NewRecord
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.reput import Arrival, Fresh
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import (
    FlushMode,
    GroupCommit,
    Machine,
)
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock

ROUND_MS = round(DISPATCH_SECONDS * 1000)


class FakeJob:
    """A sync."""

    def __init__(self, store: "FakeStore") -> None:
        self._store = store

    def start(self) -> None:
        """Leave it to the thread."""

    def run(self) -> None:
        """Take no time."""

    def finish(self, error: StoreError | None) -> None:
        """End it."""
        assert error is None
        self._store.done.append("sync")
        self._store.is_syncing = False


class FakeStore:
    """The part of the store that `GroupCommit` sees, with what it did written down."""

    is_following = False

    def __init__(self, clock: FakeClock, flush: str) -> None:
        self.settings = StoreSettings(flush=cast("Any", flush))
        self.clock = clock
        self.done: list[Any] = []
        self.old: list[Any] = []
        self.write_error: StoreError | None = None
        self.unsynced = self.is_syncing = False
        self.unwritten = 0
        self.arrivals: list[Arrival] = []
        self.dispatched = self.behind = 0
        self.index_left = self.dispatch_parts = self.dispatch_ms = 0
        self.answered: Callable[[], int] = lambda: 0
        self.answered_before_memory: list[int] = []

    def append(self, record: str) -> str:
        """Take a record up."""
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
        if not self.unsynced:
            return None
        self.unsynced = False
        self.is_syncing = True
        return FakeJob(self)

    begin_due_sync = begin_sync

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
        """What was taken up and is not durable."""
        return self.end - self.synced

    @property
    def synced(self) -> int:
        """See `written`."""
        return self.dispatched

    @property
    def is_synced(self) -> bool:
        """Whether nothing is to be synced."""
        return not (self.unsynced or self.is_syncing)

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

    def take_old(self, _: int) -> list[Any]:
        """Give what is to be given back."""
        old, self.old = self.old, []
        return old

    def give_back(self, _: int = 0) -> None:
        """Note who has an answer by then."""
        self.answered_before_memory.append(self.answered())

    def begin_fill(self) -> None:
        """Want nothing prepared."""

    def begin_file(self) -> None:
        """Lack no file."""

    def fill_blocks_write(self) -> bool:
        """Prepare nothing."""
        return False

    def give_up_unwritten(self) -> None:
        """Keep what was appended."""

    def try_room(self) -> None:
        """Have room."""


class FakeThread:
    """A disk thread that works when the test says so, or when somebody waits for a while."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []

    def run_within(
        self,
        seconds: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """Do a job and hand it back."""
        assert seconds > 0
        assert start() is None
        self.submit(job, done)
        if beside is not None:
            beside()
        self.work()

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Keep a job."""
        self.jobs.append((job, done))

    def work(self) -> None:
        """Do the oldest job and hand it back."""
        job, done = self.jobs.pop(0)
        done(job(), None)


class WriteThread:
    """A disk thread that makes the calls of a write when what is beside them has ended."""

    def __init__(self, done: list[Any], *, is_idle: bool) -> None:
        self.done = done
        self.is_idle = is_idle

    def run_beside(self, job: Callable[[], Any], beside: Callable[[], None]) -> Any:
        """Do both."""
        assert self.is_idle
        self.done.append("begin")
        beside()
        found = job()
        self.done.append("end")
        return found


class FakeFile:
    """A file whose pages are given back."""

    def __init__(self, done: list[Any]) -> None:
        self.done = done

    def give_back(self, position: int, size: int) -> None:
        """Note it."""
        self.done.append((position, size))


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

    def __init__(self, flush: str = "sync") -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.store = FakeStore(self.clock, flush)
        self.thread = FakeThread()
        self.answers: list[tuple[Any, ...]] = []
        self.made = 0
        self.tables_changed = False
        self.table_error: StoreError | None = None
        self.stats = Stats(self.clock)
        self.hold = FakeHold()
        self.arrived = self.hold.arrivals
        self.pressure = Pressure(1, 1)
        store = cast("Store", self.store)
        self.rounds = ReputRounds(store, self.timers, self.clock, [self.hold], self.stats)
        self.commits: Commits = GroupCommit(
            DurableLog(store, self.begin_table_sync),
            pending_acks,
            Machine(self.timers, self.clock, self.thread, self.thread, self.stats.syncs),
            FlushMode(
                is_sync=flush == "sync",
                wait_seconds_max=0.001,
                timeout_seconds=5,
                look_seconds=0.5,
            ),
            self.pressure,
            self.rounds,
        )
        self.durable = DurableAppender(store, self.commits, self.pressure)

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

    def _one_answer(self, asked: Any, stored: Any, error: StoreError | None) -> Release:
        (request,) = asked
        return self._answer(request, stored and stored[0], error)

    def _batch_answer(self, asked: Any, stored: Any, error: StoreError | None) -> Release:
        (request,) = asked
        return self._answer(request, stored, error)

    def answer_all(self, asked: Any, stored: Any, error: StoreError | None) -> Release:
        """Answer many with what was asked for, what was stored, and why not."""
        self.made += len(asked)
        why = None if error is None else type(error).__name__
        found = [(one, stored and stored[n], why) for n, one in enumerate(asked)]
        return partial(self.answers.extend, found)

    def _answer(self, request: Any, stored: Any, error: StoreError | None) -> Release:
        self.made += 1
        assert stored in (None, request) or stored == list(request)
        found = stored, None if error is None else type(error).__name__
        return partial(self.answers.append, found)


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


def test_what_another_log_brings_is_dispatched_in_a_later_turn() -> None:
    """So that the next sync has begun by then; the index of the round before comes first."""
    bench = Bench("async")
    bench.store.is_following = True
    for number in range(2):
        bench.append_batch(*["a"] * DISPATCH_ENOUGH)
        while bench.store.done.count("write") == number:
            bench.timers.turn()
        assert bench.store.done.count("dispatch") == number
        bench.timers.advance(round(FOLLOWED_SECONDS * 1000))
        assert bench.store.done.count("dispatch") == number + 1
        assert bench.store.index_left == 0
        bench.store.index_left = 5


@pytest.mark.parametrize(
    ("size", "is_idle", "is_beside"),
    [(MIB, True, True), (MIB - 1, True, False), (MIB, False, False)],
)
def test_large_writes_of_another_log_are_made_beside_the_dispatch(
    size: int, is_idle: bool, is_beside: bool
) -> None:
    """If the thread has no other work; pages are given back there as well."""
    bench = Bench()
    bench.store.is_following = True
    thread = WriteThread(bench.store.done, is_idle=is_idle)
    run = bench.rounds.beside_writes(cast("DiskThread", thread))
    file = FakeFile(bench.store.done)
    bench.store.old = [(file, 7, MIB)]
    bench.append("a")
    bench.timers.drain()
    bench.store.done.clear()
    assert run(lambda: bench.store.done.append("call") or 5, size) == 5  # type: ignore[func-returns-value]
    if is_beside:
        assert bench.store.done == ["begin", "dispatch", "call", (7, MIB), "end"]
    else:
        assert bench.store.done == ["call"]


def test_what_no_large_write_follows_is_dispatched_soon() -> None:
    """A slave that has caught up gives its queues what came last, and memory back."""
    bench = Bench("async")
    bench.store.is_following = True
    bench.append_batch(*["a"] * DISPATCH_ENOUGH)
    bench.timers.turn()
    bench.timers.turn()
    assert bench.store.done == ["write"]
    bench.timers.advance(round(FOLLOWED_SECONDS * 1000))
    assert bench.store.done == ["write", "dispatch"]
    assert bench.store.answered_before_memory
    bench.append("b")
    bench.timers.drain()
    bench.timers.advance(ROUND_MS)
    assert bench.store.done.count("dispatch") == 2
    bench.append_batch(*["a"] * DISPATCH_ENOUGH)
    bench.timers.turn()
    bench.timers.turn()
    bench.rounds.close()
    bench.timers.advance(ROUND_MS)
    assert bench.store.done.count("dispatch") == 2


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
