"""Group commit: when it writes, where it syncs, who waits for what, and what a slow disk does.

The log is one that notes what is asked of it, and fails, waits or wants a file when a test says so;
`tests/contract/test_group_commit.py` has real ones on simulated disks.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync
from sprocket.base.durations import DurationHistogram
from sprocket.base.errors import DiskFailed, DiskFull, StoreError, SyncLate
from sprocket.base.errors import StoreFailed as Failed
from sprocket.runtime.group_commit import (
    BATCH_TURNS_MAX,
    FILL_RECORDS_MAX,
    GROUP_ENOUGH,
    READY_BESIDE,
    TRY_SECONDS,
    FlushMode,
    GroupCommit,
    Machine,
)
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock


class NotedJob:
    """A sync or a fill that takes as long as the test says.

    Args:
        log: Whose.
        name: How its end is noted.
    """

    def __init__(self, log: "NotedLog", name: str) -> None:
        self._log = log
        self._name = name

    def start(self) -> None:
        """Leave it to the thread."""

    def run(self) -> None:
        """Take the time, and fail if the test says so."""
        log = self._log
        log.clock.advance(log.job_ms)
        log.while_syncing()
        if log.job_error is not None:
            raise log.job_error

    def finish(self, error: StoreError | None) -> None:
        """End it."""
        log = self._log
        log.done.append(self._name if error is None else f"{self._name} failed")
        if self._name == "fill":
            log.blocks = False
            return
        log.is_syncing = False
        log.has_failed = error is not None


class NotedLog:
    """A log whose bytes are as many as what was appended.

    Attributes:
        done: What was asked of it, in order.
        job_ms: How long a sync or a fill takes.
        job_error: How each ends.
        write_error: How each write ends.
        behind: So much more is not synced than was appended last.
        is_due: Under async flush a sync is.
        fills: Steps that it wants prepared.
        files: Files that it lacks.
        blocks: What is being filled is to be written.
        is_covered: What is written is synced at once.
        given_up: How often it was to forget what was appended.
        while_syncing: Called in each job.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.done: list[str] = []
        self.job_ms = self.behind = self.fills = self.files = self.given_up = self.unwritten = 0
        self.job_error: Exception | None = None
        self.write_error: StoreError | None = None
        self.is_due = True
        self.blocks = self.has_failed = self.has_unsynced = self.is_syncing = False
        self.is_covered = False
        self.while_syncing: Callable[[], None] = lambda: None

    def write(self) -> int:
        """Write, or fail; where it ends matters to nobody."""
        if self.write_error is not None:
            raise self.write_error
        self.done.append("write")
        self.unwritten = 0
        self.has_unsynced = not self.is_covered
        return 0

    def give_up_unwritten(self) -> None:
        """Count it."""
        self.unwritten = 0
        self.given_up += 1

    def begin_sync(self) -> NotedJob | None:
        """Sync what was written."""
        if self.has_failed:
            raise Failed("failed before")
        if not self.has_unsynced:
            return None
        self.has_unsynced = False
        self.is_syncing = True
        return NotedJob(self, "sync")

    def begin_due_sync(self) -> NotedJob | None:
        """Do so if the test says that it is due."""
        return self.begin_sync() if self.is_due else None

    @property
    def is_synced(self) -> bool:
        """Whether nothing is to be synced, and no sync is out."""
        return not (self.has_unsynced or self.is_syncing)

    @property
    def waiting_bytes(self) -> int:
        """What was taken up and is not durable, unless a sync failed."""
        return 0 if self.has_failed else self.unwritten + (not self.is_synced) + self.behind

    def begin_fill(self) -> NotedJob | None:
        """Have a step prepared if the test wants it."""
        if self.fills == 0:
            return None
        self.fills -= 1
        return NotedJob(self, "fill")

    def begin_file(self) -> NotedJob | None:
        """Have a file made if the test wants one."""
        if self.files == 0:
            return None
        self.files -= 1
        self.blocks = True
        return NotedJob(self, "fill")

    def try_room(self) -> None:
        """Fail as the test says."""
        self.done.append("try")
        if self.write_error is not None:
            raise self.write_error

    def fill_blocks_write(self) -> bool:
        """Tell what the test says."""
        return self.blocks

    def close(self) -> None:
        """Do nothing."""


class NotedThread:
    """A thread that works when the test says so, or when somebody waits for a while.

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
        except Exception as error:  # as a thread hands back whatever it was
            done(None, error)
        else:
            done(result, None)


class Asker:
    """Somebody who waits for some records."""

    waiting_count = 1

    def __init__(self, name: str, records: int = 1) -> None:
        self.name = name
        self.records = records


class Scene:
    """Group commit between its log, its threads and those who wait; it is their responder.

    Attributes:
        answers: What was said to whom, in order: why it is not stored, or nothing.
        made: How many answers were made, said or not.
        taken: What was taken up of those who only asked, each time.
        beside: What is to be done while a sync is waited for.
    """

    def __init__(
        self,
        *,
        is_sync: bool = True,
        ms_max: float = 1.0,
        bytes_max: int = 1,
        is_followed: bool = True,
    ) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.log = NotedLog(self.clock)
        self.sync_thread, self.fill_thread = NotedThread(), NotedThread()
        self.answers: list[tuple[str, str | None]] = []
        self.made = 0
        self.taken: list[list[str]] = []
        self.pressure = Pressure(bytes_max, 1)
        self.beside: Callable[[], None] | None = None
        self._asked: list[str] = []
        mode = FlushMode(
            is_sync=is_sync, wait_seconds_max=ms_max / 1000, timeout_seconds=5, look_seconds=0.5
        )
        self.syncs = DurationHistogram()
        machine = Machine(self.timers, self.clock, self.fill_thread, self.sync_thread, self.syncs)
        self.commit: GroupCommit[Asker, list[tuple[str, str | None]]] = GroupCommit(
            self.log, self, machine, mode, self.pressure, self if is_followed else None
        )

    def store(self, *names: str) -> None:
        """Have records stored, each for somebody."""
        for name in names:
            self.log.unwritten += 1
            self.commit.wait(Asker(name))

    def store_many(self, name: str, records: int) -> None:
        """Have records stored for one."""
        self.log.unwritten += records
        self.commit.wait(Asker(name, records))

    def group(self, *names: str) -> None:
        """Have records stored, and the loop turn until nothing is left to do."""
        self.store(*names)
        self.timers.drain()

    # -- a source, a responder and a follower

    def ask(self, name: str) -> None:
        """Have a record stored with others."""
        if not self._asked:
            self.commit.enqueue(self)
        self._asked.append(name)

    @property
    def waiting_count(self) -> int:
        """How many have only asked."""
        return len(self._asked)

    def append(self) -> None:
        """Append what was asked for."""
        asked, self._asked = self._asked, []
        self.taken.append(asked)
        self.store(*asked)

    def ready(
        self, group: Sequence[Asker], error: StoreError | None
    ) -> list[tuple[str, str | None]]:
        """Make answers."""
        self.made += len(group)
        return [(one.name, None if error is None else type(error).__name__) for one in group]

    def send(self, answers: list[tuple[str, str | None]]) -> None:
        """Note them."""
        self.answers += answers

    def refuse(self, group: Sequence[Asker], error: StoreError) -> None:
        """Tell each."""
        self.send(self.ready(group, error))

    def wrote(self, count: int) -> None:
        """Do nothing."""

    def refused(self, count: int) -> None:
        """Do nothing."""

    def answered(self, *, waits_for_syncs: bool) -> None:
        """Do nothing."""

    def work_beside(self) -> Callable[[], None] | None:
        """Have what is done while a sync is waited for, nothing as a rule."""
        return self.beside

    def close(self) -> None:
        """Do nothing."""


LATE = SyncLate.__name__
FAILED = Failed.__name__


def test_a_group_waits_while_turns_bring_more_but_not_for_ever() -> None:
    """Two turns that bring something are one group; an endless stream is cut into groups."""
    scene = Scene()
    scene.store("a")
    scene.timers.turn()
    scene.group("b")
    assert scene.log.done == ["write", "sync"]
    scene.log.done.clear()
    for turn in range(2 * BATCH_TURNS_MAX + 2):
        scene.store(str(turn))
        scene.timers.turn()
    scene.timers.drain()
    assert scene.log.done.count("sync") == 2


def test_as_many_as_shared_the_last_sync_are_waited_for_but_not_for_ever() -> None:
    """Turns that bring nothing do not end a group that is smaller than the last; enough do."""
    scene = Scene()
    scene.group("a", "b", "c")
    scene.store("d")
    for _ in range(BATCH_TURNS_MAX - 2):
        scene.timers.turn()
    scene.group("e", "f")
    assert scene.log.done.count("sync") == 2
    scene.store("g")
    for _ in range(BATCH_TURNS_MAX):
        scene.timers.turn()
    assert scene.log.done.count("sync") == 2
    scene.timers.turn()
    assert scene.log.done.count("sync") == 3
    scene.store("h")
    scene.timers.turn()
    scene.timers.turn()
    assert scene.log.done.count("sync") == 4


def test_a_group_that_is_large_enough_waits_for_no_more() -> None:
    """The first of a turn is looked at in the next one: there it is written, whatever comes."""
    scene = Scene()
    scene.store_many("a", GROUP_ENOUGH)
    scene.timers.turn()
    assert scene.log.done == ["write", "sync"]
    scene.log.done.clear()
    scene.store_many("b", GROUP_ENOUGH - 1)
    scene.timers.turn()
    assert scene.log.done == []


def test_async_flush_syncs_behind() -> None:
    """The sync follows on the thread, looked for every half second, once for everything."""
    scene = Scene(is_sync=False, bytes_max=100)
    scene.group("a")
    assert scene.answers == [("a", None)]
    assert scene.log.done == ["write"]
    scene.log.is_due = False
    scene.group("b")
    scene.timers.advance(500)
    assert len(scene.sync_thread.jobs) == 0
    scene.log.is_due = True
    scene.timers.advance(500)
    assert len(scene.sync_thread.jobs) == 1
    scene.sync_thread.work()
    scene.timers.advance(5000)
    assert len(scene.sync_thread.jobs) == 0
    assert scene.log.done.count("sync") == 1


@pytest.mark.parametrize("is_sync", [False, True])
def test_what_is_asked_in_some_turns_is_taken_up_at_once(is_sync: bool) -> None:
    """In order, and before the write."""
    scene = Scene(is_sync=is_sync)
    scene.ask("a")
    scene.ask("b")
    assert scene.taken == []
    scene.timers.turn()
    scene.ask("c")
    assert scene.commit.waiting_count == 3
    assert scene.answers == []
    scene.timers.drain()
    assert scene.taken == [["a", "b", "c"]]
    assert scene.log.done == ["write", "sync"][: 1 + is_sync]
    assert scene.answers == [("a", None), ("b", None), ("c", None)]
    assert scene.commit.waiting_count == 0
    scene.ask("d")
    scene.commit.append_now()
    scene.group("e")
    assert scene.answers[3:] == [("d", None), ("e", None)]


def test_a_failed_sync_on_the_thread_refuses_those_behind_it_too() -> None:
    """What was written while the failing sync was out is refused as well."""
    scene = Scene(ms_max=0)
    scene.log.job_ms = 3
    scene.group("a")
    scene.group("b")
    scene.log.job_error = DiskFailed("EIO")
    scene.group("c")
    scene.group("d")
    scene.sync_thread.work()
    assert scene.answers == [(name, FAILED) for name in "abcd"]


def test_a_slow_disk_moves_the_sync_to_the_thread_and_a_quick_one_back() -> None:
    """While one sync is out, what is written waits for the next, one for all of it."""
    scene = Scene()
    scene.log.job_ms = 50
    scene.group("a")
    assert scene.answers == [("a", None)]
    scene.group("b")
    assert len(scene.sync_thread.jobs) == 1
    scene.group("c")
    scene.group("d")
    assert len(scene.answers) == 1
    scene.log.job_ms = 0
    scene.sync_thread.work()
    assert scene.answers[1:] == [("b", None)]
    scene.sync_thread.work()
    assert scene.answers[2:] == [("c", None), ("d", None)]
    for number in range(40):
        scene.group(str(number))
        if scene.sync_thread.jobs:
            scene.sync_thread.work()
    assert len(scene.answers) == 44
    scene.group("quick again")
    assert scene.sync_thread.jobs == []
    assert scene.answers[-1] == ("quick again", None)


def test_each_sync_that_takes_too_long_is_answered_late_and_only_once() -> None:
    """Those behind the one that is out, too: stored, but perhaps not on the disk."""
    scene = Scene(ms_max=0)
    scene.group("a")
    scene.group("b")
    scene.timers.advance(4999)
    assert scene.answers == []
    scene.timers.advance(1)
    assert scene.answers == [("a", LATE)]
    scene.timers.advance(5000)
    assert scene.answers[1:] == [("b", LATE)]
    scene.sync_thread.work()
    assert len(scene.answers) == 2


@pytest.mark.parametrize("records", [1, READY_BESIDE])
def test_a_sync_that_stalls_on_a_quick_disk_lets_the_loop_go_on(records: int) -> None:
    """It is waited for a moment; then senders are told in time, and what comes waits for the next.

    The loop stood still for as long as the disk did, with all that it serves.
    """
    scene = Scene()
    scene.sync_thread.stalls = True
    names = [str(number) for number in range(records)]
    scene.group(*names)
    assert scene.sync_thread.waited == [0.001]
    assert scene.answers == []
    scene.group("behind")
    assert len(scene.sync_thread.jobs) == 1
    scene.timers.advance(5000)
    assert scene.answers == [(name, LATE) for name in names]
    scene.sync_thread.work()
    assert len(scene.answers) == records
    scene.sync_thread.work()
    assert scene.answers[records:] == [("behind", None)]


@pytest.mark.parametrize("records", [1, READY_BESIDE])
def test_what_follows_is_done_while_a_sync_is_waited_for(records: int) -> None:
    """Whether answers are made beside it, too, or not."""
    scene = Scene()
    done: list[str] = []
    scene.beside = lambda: done.append("followed")
    names = [str(number) for number in range(records)]
    scene.group(*names)
    assert done == ["followed"]
    assert scene.answers == [(name, None) for name in names]


def test_a_stalled_sync_that_ends_before_the_limit_is_a_success() -> None:
    """Answers that were made beside it are sent then, once."""
    scene = Scene()
    scene.sync_thread.stalls = True
    names = [str(number) for number in range(READY_BESIDE)]
    scene.group(*names)
    scene.timers.advance(4000)
    scene.sync_thread.work()
    assert scene.answers == [(name, None) for name in names]
    scene.timers.advance(5000)
    assert len(scene.answers) == READY_BESIDE


def test_what_a_stalled_fill_keeps_from_being_written_is_refused_in_time() -> None:
    """It is nowhere, so nothing of it may be there later; what comes then is stored again."""
    scene = Scene()
    scene.log.fills = 1
    scene.commit.start()
    scene.log.blocks = True
    scene.group("a")
    scene.timers.advance(4999)
    scene.group("b")
    assert scene.pressure.is_full
    scene.timers.advance(1)
    assert scene.answers == [("a", "DiskFailed"), ("b", "DiskFailed")]
    assert scene.log.given_up == 1
    assert not scene.pressure.is_full
    scene.fill_thread.work()
    scene.group("c")
    assert scene.answers[2:] == [("c", None)]
    assert scene.log.done[-3:] == ["fill", "write", "sync"]


def test_under_async_flush_what_waits_for_the_disk_has_a_limit() -> None:
    """From half of it on a sync does not wait for its time; at the limit senders hear so.

    Nothing was weighed, so a slow disk let memory fill up until the system stopped the broker.
    """
    scene = Scene(is_sync=False, bytes_max=4)
    scene.log.behind = 1  # there is one byte more behind each write
    scene.group("a")
    assert scene.answers == [("a", None)]
    assert len(scene.sync_thread.jobs) == 1  # two of four bytes
    assert not scene.pressure.is_full
    scene.log.behind = 3
    scene.group("b")
    assert scene.pressure.is_full
    scene.log.behind = 0
    scene.sync_thread.work()
    assert not scene.pressure.is_full
    scene.log.job_error = DiskFailed("EIO")
    scene.log.behind = 9
    scene.group("c")
    assert scene.pressure.is_full
    scene.sync_thread.work()
    assert not scene.pressure.is_full, "what failed waits no more: the log says so"


def test_zeros_are_filled_one_step_after_the_other() -> None:
    """The next step begins when the last one has ended; a failed one stops nothing."""
    scene = Scene()
    scene.log.fills = 2
    scene.commit.start()
    assert len(scene.fill_thread.jobs) == 1
    scene.log.job_error = DiskFull("full")
    scene.fill_thread.work()
    assert scene.log.done[-1] == "fill failed"
    scene.log.job_error = None
    scene.fill_thread.work()
    assert scene.log.done[-1] == "fill"
    assert scene.fill_thread.jobs == []


@pytest.mark.parametrize("batched", [False, True])
def test_zeros_wait_while_many_share_a_sync(batched: bool) -> None:
    """They cost the CPU more than they save then; with few they go on."""
    scene = Scene()

    def group(size: int) -> None:
        if batched:
            scene.store_many("batch", size)
        else:
            scene.store(*[str(number) for number in range(size)])
        scene.timers.drain()

    for _ in range(30):
        group(FILL_RECORDS_MAX + 10)
    scene.log.fills = 1
    group(FILL_RECORDS_MAX + 10)
    assert scene.fill_thread.jobs == []
    for _ in range(30):
        group(1)
    assert len(scene.fill_thread.jobs) == 1


def test_under_async_flush_the_log_is_prepared_however_many_write() -> None:
    """There is no sync to share."""
    scene = Scene(is_sync=False)
    for _ in range(30):
        scene.store_many("batch", FILL_RECORDS_MAX + 10)
        scene.timers.drain()
    scene.log.fills = 1
    scene.group("last")
    assert len(scene.fill_thread.jobs) == 1
    scene.fill_thread.work()
    assert scene.log.done[-1] == "fill"


def test_a_write_waits_for_a_fill_of_the_same_bytes() -> None:
    """It is made when the fill has ended, without another record."""
    scene = Scene()
    scene.log.fills = 1
    scene.commit.start()
    scene.log.blocks = True
    scene.group("a")
    assert scene.log.done == []
    scene.fill_thread.work()
    assert scene.log.done == ["fill", "write", "sync"]
    assert scene.answers == [("a", None)]


def test_the_end_of_a_fill_leaves_a_group_to_gather() -> None:
    """If it kept nothing from being written."""
    scene = Scene()
    scene.log.fills = 1
    scene.commit.start()
    scene.store("a")
    scene.fill_thread.work()
    assert scene.log.done == ["fill"]
    scene.group("b")
    assert scene.log.done == ["fill", "write", "sync"]


def test_closing_refuses_those_whose_sync_is_out() -> None:
    """And those behind them; when it ends nothing runs any more."""
    scene = Scene(ms_max=0)
    scene.log.job_ms = 3
    scene.group("a")
    scene.store("b")
    scene.ask("c")
    scene.commit.close()
    assert scene.answers == [(name, FAILED) for name in "abc"]
    scene.log.fills = 1
    scene.timers.advance(10_000)
    scene.sync_thread.work()
    assert len(scene.answers) == 3
    assert scene.fill_thread.jobs == []


def test_answers_made_while_the_disk_syncs_are_sent_after_the_sync() -> None:
    """Of a group of more than one; nothing is out while it runs, and the order is kept."""
    scene = Scene()
    names = [str(number) for number in range(READY_BESIDE)]
    found: list[tuple[int, int]] = []
    scene.log.while_syncing = lambda: found.append((scene.made, len(scene.answers)))
    scene.group(*names)
    assert found == [(READY_BESIDE, 0)]
    assert scene.answers == [(name, None) for name in names]
    scene.store_many("batch", READY_BESIDE)
    scene.timers.drain()
    assert found[1:] == [(READY_BESIDE + 1, READY_BESIDE)]


def test_answers_made_while_the_disk_syncs_are_dropped_if_it_fails() -> None:
    """Everybody is refused, once."""
    scene = Scene()
    scene.log.job_error = Failed("no")
    scene.group(*[str(number) for number in range(READY_BESIDE)])
    assert scene.answers == [(str(number), FAILED) for number in range(READY_BESIDE)]


@pytest.mark.parametrize("ms_max", [0, 1])
def test_a_mistake_in_a_sync_is_no_answer(ms_max: int) -> None:
    """It goes on to who runs the loop; nobody hears that something is stored."""
    scene = Scene(ms_max=ms_max)
    scene.log.job_error = ValueError("a mistake")

    def store_and_sync() -> None:
        scene.group("a")
        scene.sync_thread.work()

    with pytest.raises(ValueError, match="a mistake"):
        store_and_sync()
    assert scene.answers == []


@pytest.mark.parametrize("failure", [None, Failed("gone")])
def test_what_waits_for_a_slow_disk_is_weighed(failure: StoreError | None) -> None:
    """From the group behind the sync that is out until it is synced too, or refused."""
    scene = Scene(ms_max=0)
    seen = []
    for name in ("a", "b"):
        scene.group(name)
        seen.append(scene.pressure.is_full)
    assert seen == [False, True]
    scene.log.job_error = failure
    scene.sync_thread.work()
    assert scene.pressure.is_full is (failure is None)
    if failure is None:
        scene.sync_thread.work()
        assert scene.pressure.is_full is False


def test_nothing_is_weighed_once_the_disk_is_quick_again() -> None:
    """What waited for the thread's last sync is synced on the loop, and sends are taken again."""
    scene = Scene()
    scene.log.job_ms = 9  # the mean of all syncs is just above 1 ms
    scene.group("a")
    scene.log.job_ms = 0
    for name in "bcdefghi":
        scene.group(name)
        if not scene.sync_thread.jobs:
            break
        scene.group("behind")
        assert scene.pressure.is_full
        while scene.sync_thread.jobs:
            scene.sync_thread.work()
        assert not scene.pressure.is_full
    assert not scene.sync_thread.jobs, "it did not come back to the loop"
    assert scene.commit.waiting_count == 0


def test_who_has_waited_for_longest_comes_first() -> None:
    """Those whose sync is out, those who missed it, those who are not written yet."""
    scene = Scene(ms_max=0)
    scene.group("a")
    scene.group("b")
    scene.store("c")
    assert [one.name for one in scene.commit.unanswered] == ["a", "b", "c"]
    assert scene.commit.waiting_count == 3
    while scene.sync_thread.jobs:
        scene.sync_thread.work()
    assert [one.name for one in scene.commit.unanswered] == ["c"]
    scene.timers.drain()
    while scene.sync_thread.jobs:
        scene.sync_thread.work()
    assert scene.answers == [("a", None), ("b", None), ("c", None)]


@pytest.mark.parametrize("is_taken_up", [True, False])
def test_a_stop_waits_for_who_waits_but_not_for_who_comes(is_taken_up: bool) -> None:
    """Under load somebody always waits; what was only asked for yet counts as well."""
    scene = Scene()

    async def come() -> None:
        for number in range(1000):
            scene.store(f"later {number}")
            await asyncio.sleep(0)
            scene.timers.turn()

    async def stop() -> None:
        if is_taken_up:
            scene.store("a")
        else:
            scene.ask("a")
        coming = asyncio.ensure_future(come())
        await scene.commit.settle()
        assert ("a", None) in scene.answers
        assert scene.commit.waiting_count
        coming.cancel()

    asyncio.run(stop())


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_log_file_that_is_not_there_is_made_by_the_disk_thread(is_sync: bool) -> None:
    """Senders wait for it; nothing is written before, and nothing of it on the loop."""
    scene = Scene(is_sync=is_sync)
    scene.log.files = 2
    scene.group("a")
    assert scene.log.done == []
    assert scene.answers == []
    scene.group("b")
    scene.fill_thread.work()
    assert scene.log.done == ["fill"]  # what was appended needs another one
    scene.fill_thread.work()
    assert scene.log.done[:3] == ["fill", "fill", "write"]
    assert scene.answers == [("a", None), ("b", None)]


def test_a_log_file_that_cannot_be_made_refuses_who_needs_it() -> None:
    """It is not tried again for them, and what comes next is stored where it can be."""
    scene = Scene()
    scene.log.files = 1
    scene.group("a")
    scene.log.job_error = DiskFull("full")
    scene.fill_thread.work()
    scene.log.job_error = None
    assert scene.answers == [("a", "DiskFull")]
    assert scene.log.given_up == 1
    assert not scene.pressure.is_full
    scene.group("b")
    assert scene.answers[1:] == [("b", None)]
    scene.timers.advance(5000)
    assert len(scene.answers) == 2


def test_who_comes_after_a_file_that_could_not_be_made_has_all_their_time() -> None:
    """What was to tell those before that they are late tells nobody."""
    scene = Scene()
    scene.log.files = 1
    scene.group("a")
    scene.timers.advance(4000)
    scene.log.job_error = DiskFull("full")
    scene.fill_thread.work()
    scene.sync_thread.stalls = True
    scene.group("b")
    scene.timers.advance(4999)
    assert scene.answers == [("a", "DiskFull")]
    scene.timers.advance(1)
    assert scene.answers[1:] == [("b", LATE)]


def test_what_another_sync_has_covered_is_answered() -> None:
    """The log says that there is nothing to sync."""
    scene = Scene()
    scene.log.is_covered = True
    scene.group("a")
    assert (scene.answers, scene.log.done) == ([("a", None)], ["write"])


def test_a_log_file_that_takes_too_long_to_make_refuses_who_needs_it() -> None:
    """In the time that a sender waits for a sync at most."""
    scene = Scene()
    scene.log.files = 1
    scene.group("a")
    scene.timers.advance(5000)
    assert scene.answers == [("a", "DiskFailed")]
    scene.fill_thread.work()
    scene.group("b")
    assert scene.answers[1:] == [("b", None)]


def test_after_a_failed_write_the_disk_is_tried_until_it_takes_something() -> None:
    """Nobody need come back who was refused: `failed_write` does not outlive what it says."""
    scene = Scene()
    scene.log.write_error = Failed("No space left on device")
    scene.group("a")
    scene.log.unwritten = 0  # as a log takes back what it could not write
    assert str(scene.commit.failed_write) == "No space left on device"
    scene.log.write_error = Failed("still none")
    scene.timers.advance(int(1000 * TRY_SECONDS))
    scene.fill_thread.work()
    assert str(scene.commit.failed_write) == "still none"
    scene.log.write_error = None
    scene.timers.advance(int(1000 * TRY_SECONDS))
    assert scene.commit.failed_write is not None
    scene.fill_thread.work()
    assert scene.commit.failed_write is None
    scene.timers.advance(int(5000 * TRY_SECONDS))
    assert not scene.fill_thread.jobs


def test_what_is_still_to_be_written_tells_by_itself_whether_there_is_room() -> None:
    """Records that the log keeps after a failed write go down first; then nothing is tried."""
    scene = Scene()
    scene.log.write_error = Failed("No space left on device")
    scene.group("a")
    scene.log.write_error = None
    scene.timers.advance(int(1000 * TRY_SECONDS))
    scene.fill_thread.work()
    assert scene.commit.failed_write is not None
    scene.group("b")
    assert scene.commit.failed_write is None
    scene.timers.advance(int(5000 * TRY_SECONDS))
    assert scene.log.done.count("try") == 1


def test_a_closed_one_tries_nothing() -> None:
    """Its log is closed by then."""
    scene = Scene()
    scene.log.write_error = Failed("No space left on device")
    scene.group("a")
    scene.commit.close()
    scene.timers.advance(int(5000 * TRY_SECONDS))
    assert not scene.fill_thread.jobs


@pytest.mark.parametrize("is_sync", [True, False])
def test_nobody_need_follow_the_log(is_sync: bool) -> None:
    """Groups are answered, refused and given up just the same, and syncs are counted."""
    scene = Scene(is_sync=is_sync, is_followed=False)
    scene.log.job_ms = 3
    scene.group("a", "b")
    scene.log.write_error = DiskFull("full")
    scene.group("c")
    scene.log.write_error = None
    scene.log.files = 1
    scene.group("d")
    scene.log.job_error = DiskFull("full")
    scene.fill_thread.work()
    assert scene.answers == [("a", None), ("b", None), ("c", "DiskFull"), ("d", "DiskFull")]
    assert (scene.syncs.count, scene.syncs.ms_max) == ((1, 3) if is_sync else (0, 0))
    scene.commit.close()


@pytest.mark.parametrize("ms_max", [1.0, 0])
@pytest.mark.parametrize("fails", [False, True])
def test_no_outcome_is_handled_on_the_sync_thread(ms_max: float, fails: bool) -> None:
    """The loop hears how a sync ended, and only then is anybody told: there a stage can follow."""
    scene = Scene(ms_max=ms_max)
    scene.log.job_error = DiskFailed("EIO") if fails else None
    told_in_job: list[int] = []
    scene.log.while_syncing = lambda: told_in_job.append(len(scene.answers))
    scene.group("a")
    if not ms_max:
        job, done = scene.sync_thread.jobs.pop()
        try:
            done(job(), None)
        except DiskFailed as error:
            assert scene.answers == []
            done(None, error)
    assert told_in_job == [0]
    assert scene.answers == [("a", FAILED if fails else None)]
