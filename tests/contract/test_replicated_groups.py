"""Group commit keeps groups until replicas have them: one round trip for all who wait."""

from collections.abc import Sequence

import pytest
from tests.contract.test_group_commit import Echo, Line

from sprocket.base.errors import ReplicaLate, ReplicaMissing, StoreError, StoreFailed
from sprocket.runtime.group_commit import FlushMode, GroupCommit, Machine
from sprocket.runtime.pressure import Pressure

LATE, MISSING = ReplicaLate.__name__, ReplicaMissing.__name__


class Others:
    """Replicas that have what a test says.

    Attributes:
        ends: Up to where the log was written, each time.
    """

    def __init__(self) -> None:
        self.confirmed = 0
        self.are_missing = False
        self.ends: list[int] = []

    def wrote(self, end: int) -> None:
        """Note it."""
        self.ends.append(end)


def echo_with(others: Others, *, is_sync: bool = True) -> Echo:
    """Return a service whose lines replicas must have."""
    echo = Echo(is_sync=is_sync)
    mode = FlushMode(
        is_sync=is_sync, wait_seconds_max=1, timeout_seconds=5, look_seconds=1, replica_seconds=3
    )
    machine = Machine(echo.timers, echo.clock, echo, echo, yield_core=echo.yield_core)
    echo.commit = GroupCommit(
        echo.log, echo, machine, mode, Pressure(1000, 1000), echo, replicas=others
    )
    echo.commit.start()
    return echo


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_line_is_echoed_when_replicas_have_it(is_sync: bool) -> None:
    """They get it when it is written; one word of theirs is for all groups up to there."""
    others = Others()
    echo = echo_with(others, is_sync=is_sync)
    for line in (b"a", b"bb", b"ccc"):
        echo.store(line)
        echo.timers.drain()
    assert (echo.said, others.ends) == ([], [2, 5, 9])
    assert echo.commit.waiting_count == 3
    others.confirmed = 8
    echo.commit.replicated()
    assert echo.said == [b"a", b"bb"]
    others.confirmed = 100
    echo.commit.replicated()
    assert echo.said == [b"a", b"bb", b"ccc"]
    echo.store(b"d")
    echo.timers.drain()
    assert echo.said[3:] == [b"d"]
    assert echo.commit.waiting_count == 0


def test_what_was_made_while_the_disk_synced_is_what_is_echoed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group of several; it is made again only if something else is to be told."""
    others = Others()
    echo = echo_with(others)
    made: list[int] = []
    ready = echo.ready

    def counted(group: Sequence[Line], error: StoreError | None) -> list[bytes | str]:
        made.append(len(group))
        return ready(group, error)

    monkeypatch.setattr(echo, "ready", counted)
    for lines in ((b"a", b"b"), (b"c", b"d")):
        for line in lines:
            echo.store(line)
        echo.timers.drain()
    assert (made, echo.said) == ([2, 2], [])
    others.confirmed = 4
    echo.commit.replicated()
    assert (made, echo.said) == ([2, 2], [b"a", b"b"])
    others.are_missing = True
    echo.commit.replicated()
    assert (made, echo.said) == ([2, 2, 2], [b"a", b"b", MISSING, MISSING])


def test_what_is_not_synced_here_is_not_echoed() -> None:
    """Even if replicas have it already."""
    others = Others()
    echo = echo_with(others)
    echo.is_quick = False
    echo.store(b"a")
    echo.timers.drain()
    others.confirmed = 2
    echo.commit.replicated()
    assert echo.said == []
    echo.work()
    assert echo.said == [b"a"]


def test_who_waits_too_long_is_told() -> None:
    """Each group by its own time; it is stored all the same, and others go on."""
    others = Others()
    echo = echo_with(others)
    echo.store(b"a")
    echo.timers.drain()
    echo.timers.advance(2000)
    echo.store(b"b")
    echo.timers.drain()
    echo.timers.advance(1000)
    assert echo.said == [LATE]
    others.confirmed = 4
    echo.commit.replicated()
    assert echo.said == [LATE, b"b"]
    echo.timers.advance(5000)
    assert echo.said == [LATE, b"b"]
    assert echo.safe == [b"a", b"b"]


def test_nobody_waits_for_replicas_that_are_not_there() -> None:
    """Neither who comes then, nor who waits already."""
    others = Others()
    echo = echo_with(others)
    echo.store(b"a")
    echo.timers.drain()
    others.are_missing = True
    echo.commit.replicated()
    assert echo.said == [MISSING]
    echo.store(b"b")
    echo.timers.drain()
    assert echo.said == [MISSING] * 2
    others.are_missing = False
    echo.store(b"c")
    echo.timers.drain()
    assert len(echo.said) == 2


def test_the_end_tells_who_waits() -> None:
    """What is stored is not refused as if it were not."""
    others = Others()
    echo = echo_with(others)
    echo.store(b"a")
    echo.timers.drain()
    echo.store(b"b")
    echo.commit.close()
    assert echo.said == [LATE, StoreFailed.__name__]
    echo.timers.advance(10_000)
    assert len(echo.said) == 2
