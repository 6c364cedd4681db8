"""Group commit over another log than RocketMQ's: a service that echoes lines once they are safe."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.contract.echo_log import EchoLog
from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync
from sprocket.base.errors import DiskFull, StoreError, StoreFailed, SyncLate
from sprocket.runtime.group_commit import (
    BATCH_TURNS_MAX,
    REFUSED_SECONDS,
    THREAD_RECORDS,
    WRITE_ENOUGH,
    FlushMode,
    GroupCommit,
    Machine,
)
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

PATH = "/echo/log"


class Line:
    """A line that somebody waits for."""

    records = waiting_count = 1

    def __init__(self, text: bytes) -> None:
        self.text = text


class Echo:
    """The service; it is its own responder and its own follower.

    Attributes:
        said: What it has answered, in order: a line, or why it is not safe.
        jobs: What the threads have to do, with whom to tell.
        is_quick: The disk does everything at once.
        by_system: Of each sync that was waited for, whether the system did it by itself.
        counted: Whether what was collected is stored with a line more, which says how much it was.
    """

    def __init__(self, *, is_sync: bool = True) -> None:
        self.disk = SimulatedDisk()
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.log = EchoLog(self.disk, "/echo")
        self.said: list[bytes | str] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []
        self.is_quick = True
        self.written: list[int] = []
        self.yields = 0
        self.by_system: list[bool] = []
        self.counted = False
        self._collected: list[bytes] = []
        mode = FlushMode(is_sync=is_sync, wait_seconds_max=1, timeout_seconds=5, look_seconds=1)
        machine = Machine(self.timers, self.clock, self, self, yield_core=self.yield_core)
        self.commit: GroupCommit[Line, list[bytes | str]] = GroupCommit(
            self.log, self, machine, mode, Pressure(1000, 1000), self
        )
        self.commit.start()

    def store(self, *lines: bytes) -> None:
        """Have lines stored and echoed."""
        for line in lines:
            self.log.append(line)
            self.commit.wait(Line(line))

    def yield_core(self) -> None:
        """Count it."""
        self.yields += 1

    def collect(self, line: bytes) -> None:
        """Do so, but append it with others."""
        if not self._collected:
            self.commit.enqueue(self)
        self._collected.append(line)

    @property
    def waiting_count(self) -> int:
        """How many lines it has collected."""
        return len(self._collected)

    def append(self) -> None:
        """Append them."""
        lines, self._collected = self._collected, []
        self.store(*lines, *([b"%d" % len(lines)] if self.counted else []))

    def ready(self, group: Sequence[Line], error: StoreError | None) -> list[bytes | str]:
        """Echo each line, or say what is wrong with it."""
        return [line.text if error is None else type(error).__name__ for line in group]

    def refuse(self, group: Sequence[Line], error: StoreError) -> None:
        """Say so to each."""
        self.send(self.ready(group, error))

    def send(self, answers: list[bytes | str]) -> None:
        """Note them."""
        self.said += answers

    def wrote(self, count: int) -> None:
        """Note it."""
        self.written.append(count)

    def refused(self, count: int) -> None:
        """Do nothing."""

    def answered(self, *, waits_for_syncs: bool) -> None:
        """Do nothing."""

    def work_beside(self) -> Callable[[], None] | None:
        """Have nothing to do."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Keep a job until `work`."""
        self.jobs.append((job, done))

    def run_within(
        self,
        seconds: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """Do a job at once, or if the disk is slow later."""
        assert seconds == 1
        pending = start()
        self.by_system.append(pending is not None)
        if pending is not None:
            job = _nothing_from(pending.wait)
        self.submit(job, done)
        if beside is not None:
            beside()
        if self.is_quick:
            self.work()

    def work(self) -> None:
        """Do the oldest job."""
        job, done = self.jobs.pop(0)
        try:
            done(job(), None)
        except StoreError as error:
            done(None, error)

    @property
    def safe(self) -> list[bytes]:
        """What a loss of power leaves if it takes all that it can."""
        return self.disk.crash(lambda _: 0).contents()[PATH].split(b"\n")[:-1]


def _nothing_from(work: Callable[[], object]) -> Callable[[], None]:
    def job() -> None:
        work()

    return job


def test_much_is_synced_by_the_thread() -> None:
    """It is work for another core; little is synced by the system, without a thread of ours."""
    echo = Echo()
    for count in (1, THREAD_RECORDS - 1, THREAD_RECORDS):
        echo.store(*[b"%d" % number for number in range(count)])
        echo.timers.drain()
        assert len(echo.safe) == len(echo.said)
    assert echo.by_system == [True, True, False]
    assert len(echo.said) == 2 * THREAD_RECORDS


def test_a_sync_of_the_system_that_fails_refuses_all_that_follows() -> None:
    """Answers that were made beside it are not sent."""
    echo = Echo()
    echo.disk.fail("sync", 1)
    echo.store(b"a", b"b")
    echo.timers.drain()
    echo.store(b"c")
    echo.timers.drain()
    assert echo.by_system == [True]
    assert echo.said == [StoreFailed.__name__] * 3


def test_lines_of_some_turns_share_a_write_and_a_sync() -> None:
    """And are safe when they are echoed, those that were collected too."""
    echo = Echo()
    echo.store(b"a")
    echo.collect(b"b")
    echo.timers.turn()
    echo.collect(b"c")
    assert (echo.said, echo.commit.waiting_count) == ([], 3)
    echo.timers.drain()
    assert (echo.said, echo.commit.waiting_count) == ([b"a", b"b", b"c"], 0)
    assert echo.safe == [b"a", b"b", b"c"]
    assert (echo.disk.calls["write"], echo.disk.calls["sync"], echo.written) == (1, 1, [3])


@pytest.mark.parametrize("is_sync", [True, False])
def test_who_is_waited_for_may_run(is_sync: bool) -> None:
    """Each turn that waits for those of the last group leaves them the core; no other does.

    They were often on the same core, and sent nothing until the sync let go of it.
    """
    echo = Echo(is_sync=is_sync)
    echo.store(b"a", b"b", b"c")
    echo.timers.drain()
    assert echo.yields == 0
    for _ in range(2):  # the second time nobody is missing
        echo.store(b"d", b"e")
        echo.timers.drain()
        assert echo.yields == (BATCH_TURNS_MAX if is_sync else 1)


def test_under_async_flush_the_first_to_come_back_is_not_written_alone() -> None:
    """Where three shared the last write, it waits for a turn that brings nothing."""
    echo = Echo(is_sync=False)
    echo.store(b"a", b"b", b"c")
    echo.timers.drain()
    echo.store(b"d")
    echo.timers.turn()
    assert echo.written == [3]
    echo.store(b"e")
    echo.timers.turn()
    assert echo.written == [3]
    echo.timers.turn()
    assert echo.written == [3, 2]


def test_under_async_flush_nobody_is_waited_for_when_all_are_back() -> None:
    """As many as shared a write are written in the turn after them; more may be even more."""
    echo = Echo(is_sync=False)
    for count, turns in ((3, 2), (3, 1), (4, 2), (4, 1), (WRITE_ENOUGH, 1)):
        echo.store(*[b"%d" % number for number in range(count)])
        for _ in range(turns):
            before = len(echo.written)
            echo.timers.turn()
        assert (len(echo.written) - before, echo.written[-1]) == (1, count)


def test_under_async_flush_those_who_are_gone_are_waited_for_no_longer() -> None:
    """After each write one fewer is expected; who is alone from the beginning never waits."""
    echo = Echo(is_sync=False)
    turns = []
    for count in (1, 3, 1, 1, 1, 1):
        echo.store(*[b"a"] * count)
        before = len(echo.written)
        turns.append(0)
        while len(echo.written) == before:
            echo.timers.turn()
            turns[-1] += 1
    assert turns == [1, 2, 2, 2, 1, 1]


@pytest.mark.parametrize(("is_sync", "turns"), [(True, 2), (False, 1)])
def test_nobody_is_waited_for_who_has_asked_for_nothing(is_sync: bool, turns: int) -> None:
    """A line that a source adds to those of three senders is not from a fourth one."""
    echo = Echo(is_sync=is_sync)
    echo.counted = True
    for _ in range(3):
        before = len(echo.written)
        for line in (b"a", b"b", b"c"):
            echo.collect(line)
        taken = 0
        while len(echo.written) == before:
            echo.timers.turn()
            taken += 1
    assert (echo.written, taken, echo.yields) == ([4, 4, 4], turns, 0)


def test_under_async_flush_lines_are_echoed_before_they_are_safe() -> None:
    """The sync follows."""
    echo = Echo(is_sync=False)
    echo.store(b"a")
    echo.timers.drain()
    assert (echo.said, echo.safe) == ([b"a"], [])
    echo.timers.advance(1000)
    echo.work()
    assert echo.safe == [b"a"]


def test_lines_that_find_no_space_are_refused_and_later_ones_are_stored() -> None:
    """What was to be written is forgotten."""
    echo = Echo()
    echo.disk.fail("write", error=28)
    echo.store(b"a", b"b")
    echo.timers.drain()
    assert echo.said == [DiskFull.__name__] * 2
    echo.store(b"c")
    echo.timers.drain()
    assert (echo.said[2:], echo.safe) == ([b"c"], [b"c"])


@pytest.mark.parametrize("is_quick", [True, False])
def test_after_a_failed_sync_no_line_is_echoed_any_more(is_quick: bool) -> None:
    """Neither those it was for, nor those that came while it was out, nor later ones."""
    echo = Echo()
    echo.is_quick = is_quick
    echo.disk.fail("sync")
    echo.store(b"a")
    echo.timers.drain()
    echo.store(b"b")
    echo.timers.drain()
    while echo.jobs:
        echo.work()
    echo.store(b"c")
    echo.timers.drain()
    assert echo.said == [StoreFailed.__name__] * 3


@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("at_begin", [True, False])
def test_a_sync_that_cannot_begin_is_begun_again(is_quick: bool, at_begin: bool) -> None:
    """As no file can be opened: nobody is refused, and those who come meanwhile share it."""
    echo = Echo()
    echo.is_quick = is_quick
    echo.log.refusals = 3
    echo.log.refuses_at_begin = at_begin

    def turn() -> None:
        echo.timers.drain()
        while echo.jobs:
            echo.work()

    echo.store(b"a")
    turn()
    echo.store(b"b")
    turn()
    assert (echo.said, echo.safe) == ([], [])
    for _ in range(3):
        echo.timers.advance(int(1000 * REFUSED_SECONDS))
        turn()
    assert (echo.said, echo.safe) == ([b"a", b"b"], [b"a", b"b"])
    echo.store(b"c")
    turn()
    assert echo.said[2:] == [b"c"]


def test_who_waits_too_long_for_a_sync_that_cannot_begin_is_told() -> None:
    """What they stored is synced all the same, as soon as it can."""
    echo = Echo()
    echo.log.refusals = 1000
    echo.store(b"a")
    echo.timers.drain()
    echo.timers.advance(5000)
    assert (echo.said, echo.safe) == ([SyncLate.__name__], [])
    echo.log.refusals = 0
    echo.timers.advance(int(1000 * REFUSED_SECONDS))
    echo.timers.drain()
    assert (echo.said, echo.safe) == ([SyncLate.__name__], [b"a"])


def test_under_async_flush_a_sync_that_cannot_begin_comes_later() -> None:
    """Nobody waits for it."""
    echo = Echo(is_sync=False)
    echo.log.refusals = 2
    echo.log.refuses_at_begin = True
    echo.store(b"a")
    echo.timers.drain()
    for _ in range(3):
        echo.timers.advance(1000)
        while echo.jobs:
            echo.work()
    assert (echo.said, echo.safe) == ([b"a"], [b"a"])


def test_a_sync_that_takes_too_long_is_said_once() -> None:
    """Who came meanwhile waits for the next one; that it ended then is not a second answer."""
    echo = Echo()
    echo.is_quick = False
    echo.store(b"a")
    echo.timers.drain()
    echo.store(b"b")
    echo.timers.advance(5000)
    assert echo.said == [SyncLate.__name__]
    echo.work()
    assert echo.said == [SyncLate.__name__]
    echo.work()
    assert (echo.said[1:], echo.safe) == ([b"b"], [b"a", b"b"])


def test_who_waits_when_it_closes_is_refused() -> None:
    """Those who were only collected as well."""
    echo = Echo()
    echo.store(b"a")
    echo.collect(b"b")
    echo.commit.close()
    assert echo.said == [StoreFailed.__name__] * 2
