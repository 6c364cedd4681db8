"""Tables are written in the background, and who waits for the disk is told once it has them."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from sprocket.base.disk import Steps
from sprocket.base.errors import DiskFailed, DiskRefused, StoreError, StoreFailed
from sprocket.base.tables import Journal
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.snapshots import Snapshots
from sprocket.testing.disk import SimulatedDisk


class Table:
    """A table that notes when it is written."""

    def __init__(self, disk: SimulatedDisk, name: str) -> None:
        disk.make_folder("/t")
        decode: Callable[[bytes], tuple[int, str]] = msgspec.json.Decoder(tuple[int, str]).decode
        self.journal: Journal[Any] = Journal(disk, f"/t/{name}", decode)
        self.journal.replay(0)
        self.written: list[str] = []
        self.error: BaseException | None = None

    def flush_steps(self) -> Steps:
        """Write it in two steps."""
        covered = self.journal.roll()
        yield lambda: self.written.append("a")
        if self.error is not None:
            raise self.error
        yield lambda: self.written.append("b")
        yield from self.journal.retire_steps(covered)


class Bench:
    """Two tables, of which one is to be durable before it is answered."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.plain, self.durable = Table(self.disk, "plain"), Table(self.disk, "durable")
        self.thread = DiskThread()
        self.snapshots = Snapshots(
            self.thread, self.thread, {"plain": self.plain, "durable": self.durable}, [self.durable]
        )
        self.told: list[StoreError | None] = []

    async def settle(self) -> None:
        """Wait until the thread has nothing to do."""
        while self.thread.waiting_count:
            await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    """Run a scenario with a bench of its own."""

    async def main() -> None:
        bench = Bench()
        try:
            await scenario(bench)
        finally:
            await bench.thread.stop()

    driver.run(main())


def test_every_table_is_written_one_snapshot_at_a_time() -> None:
    """A second beginning while one is under way is none."""

    async def scenario(bench: Bench) -> None:
        bench.snapshots.begin()
        bench.snapshots.begin()
        await bench.settle()
        assert bench.plain.written == bench.durable.written == ["a", "b"]
        bench.snapshots.begin_one("plain")
        await bench.settle()
        assert bench.plain.written == ["a", "b", "a", "b"]

    run(scenario)


def test_a_snapshot_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Other tables are written all the same."""

    async def scenario(bench: Bench) -> None:
        bench.plain.error = DiskFailed("no disk")
        bench.snapshots.begin()
        await bench.settle()
        assert (bench.plain.written, bench.durable.written) == (["a"], ["a", "b"])
        bench.plain.error = None
        bench.snapshots.begin_one("plain")
        await bench.settle()
        assert bench.plain.written == ["a", "a", "b"]

    run(scenario)
    assert "no disk" in caplog.text
    assert "plain" in caplog.text


def test_a_stop_cuts_a_snapshot_off() -> None:
    """Between two steps; the owner writes it when it closes."""

    async def scenario(bench: Bench) -> None:
        bench.snapshots.begin_one("plain")
        await bench.thread.stop()
        bench.snapshots.begin_one("plain")
        assert bench.plain.written == ["a"]

    run(scenario)


def test_one_sync_tells_everybody_who_waits() -> None:
    """What comes while it is under way waits for the next; without a change nobody waits."""

    async def scenario(bench: Bench) -> None:
        bench.snapshots.when_durable(bench.told.append)
        assert bench.told == [None]
        bench.durable.journal.append("x")
        for _ in range(3):
            bench.snapshots.when_durable(bench.told.append)
        bench.durable.journal.append("y")
        assert bench.told == [None]
        await bench.settle()
        assert bench.told == [None] * 4
        assert bench.durable.journal.durable == 2
        assert bench.disk.calls["sync"] == 2
        assert bench.snapshots.begin_sync() is None

    run(scenario)


def test_a_sync_that_fails_is_told_until_a_snapshot_is_there() -> None:
    """It is told to who waits for it, and to who asks later."""

    async def scenario(bench: Bench) -> None:
        bench.durable.journal.append("x")
        bench.disk.fail("sync", 1)
        bench.snapshots.when_durable(bench.told.append)
        await bench.settle()
        bench.snapshots.when_durable(bench.told.append)
        assert [type(error) for error in bench.told] == [DiskFailed, StoreFailed]
        with pytest.raises(StoreFailed):
            bench.snapshots.begin_sync()
        bench.snapshots.begin()
        await bench.settle()
        bench.snapshots.when_durable(bench.told.append)
        assert bench.told[2:] == [None]

    run(scenario)


def test_a_sync_that_could_not_begin_leaves_no_doubt() -> None:
    """Without a file descriptor: who waits is refused, and the next one is synced as ever."""

    async def scenario(bench: Bench) -> None:
        bench.durable.journal.append("x")
        bench.disk.fail("open", 1, errno.EMFILE)
        for _ in range(2):
            bench.snapshots.when_durable(bench.told.append)
            await bench.settle()
        assert [type(error) for error in bench.told] == [DiskRefused, type(None)]
        assert bench.durable.journal.is_durable

    run(scenario)


def test_tables_of_which_nobody_waits_are_not_synced() -> None:
    """Their journals are there for a kill only."""

    async def scenario(bench: Bench) -> None:
        bench.plain.journal.append("x")
        assert bench.snapshots.begin_sync() is None
        bench.durable.journal.append("x")
        job = bench.snapshots.begin_sync()
        assert job is not None
        job.run()
        job.finish(None)
        assert (bench.plain.journal.is_durable, bench.durable.journal.is_durable) == (False, True)

    run(scenario)
