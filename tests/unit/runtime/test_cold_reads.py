"""Work that lacks something waits for it, and the loop for nothing."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import NonblockingDisk, WouldBlock
from sprocket.base.errors import DiskBusy, DiskFailed
from sprocket.runtime import driver
from sprocket.runtime.cold_reads import READ_THREADS, ColdReads
from sprocket.testing.disk import SimulatedDisk


class Harness:
    """A file that only the disk has, and what came of reading it."""

    def __init__(self, waiting_max: int = 100) -> None:
        self.below = SimulatedDisk()
        file = self.below.open("/f", write=True, create=True)
        file.write([b"0123456789"], 0)
        file.give_back(0, 10)
        disk = NonblockingDisk(self.below)
        self.file = disk.open("/f")
        self.reads = ColdReads(disk, waiting_max)
        self.found: list[bytes | str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.below.before = self._before

    def _before(self, call: str, _: str) -> None:
        if call == "read":
            assert threading.current_thread().name == "sprocket-read"
            assert self.go_on.wait(LONG_SECONDS)

    def ask(self, position: int = 0) -> None:
        """Read two bytes, the second where the first says."""

        def work() -> None:
            first = self.file.read(position, 1)
            self.found.append(first + self.file.read(9 - int(first), 1))

        self.reads.run(work, lambda error: self.found.append(f"{type(error).__name__}: {error}"))

    async def until(self, count: int) -> None:
        """Wait until so much came of it."""
        async with asyncio.timeout(LONG_SECONDS):
            while len(self.found) < count:
                await asyncio.sleep(0)


def run(scenario: Callable[[Harness], object], waiting_max: int = 100) -> None:
    """Run a coroutine function on a loop with a harness."""

    async def main() -> None:
        harness = Harness(waiting_max)
        await scenario(harness)  # type: ignore[misc]
        await harness.reads.stop()

    driver.run(main())


def test_work_is_done_at_once_or_when_the_disk_has_answered() -> None:
    """The loop goes on meanwhile."""

    async def scenario(harness: Harness) -> None:
        harness.go_on.clear()
        harness.ask(3)
        await asyncio.sleep(0)
        assert harness.found == []
        harness.go_on.set()
        await harness.until(1)
        harness.ask(3)
        assert harness.found == [b"36", b"36"]

    run(scenario)


def test_work_whose_first_attempt_was_made_alone_goes_on_from_there() -> None:
    """What one piece of work was fetched is nothing that the first attempt of another finds."""

    async def scenario(harness: Harness) -> None:
        def read(position: int, size: int) -> bytes:
            return harness.file.read(position, size)

        def again() -> None:
            harness.found.append(read(3, 2))

        with pytest.raises(WouldBlock) as stop:
            harness.reads.attempt(read, 3, 2)
        harness.reads.go_on(stop.value, again, lambda error: harness.found.append(str(error)))
        await harness.until(1)
        assert harness.found == [b"34"]
        assert harness.reads.attempt(read, 3, 2) == b"34"
        harness.file.give_back(0, 10)
        with pytest.raises(WouldBlock):
            harness.reads.attempt(read, 3, 2)

    run(scenario)


def test_what_goes_wrong_is_told_once() -> None:
    """At the first attempt to who calls, later to `failed`."""

    async def scenario(harness: Harness) -> None:
        harness.below.fail("read")
        harness.ask(3)
        await harness.until(1)
        assert str(harness.found.pop()).startswith("DiskFailed: read /f")

        def fail() -> None:
            raise DiskFailed("at once")

        with pytest.raises(DiskFailed, match="at once"):
            harness.reads.run(fail, lambda _: harness.found.append("told"))
        assert harness.found == []

    run(scenario)


def test_one_read_that_stalls_holds_up_no_other() -> None:
    """Until as many stall as there are threads."""

    async def scenario(harness: Harness) -> None:
        held = threading.Event()
        stalls = list(range(READ_THREADS - 1))

        def before(call: str, _: str) -> None:
            if call == "read" and stalls:
                stalls.pop()
                assert held.wait(LONG_SECONDS)

        harness.below.before = before
        for _ in range(READ_THREADS):
            harness.ask(3)
        await harness.until(1)
        assert harness.found == [b"36"]
        held.set()
        await harness.until(READ_THREADS)

    run(scenario)


def test_not_too_many_may_wait() -> None:
    """Whoever comes then hears so, and so does who would have to wait again once it is to stop."""

    async def scenario(harness: Harness) -> None:
        harness.go_on.clear()
        harness.ask(3)
        harness.ask(4)
        with pytest.raises(DiskBusy, match="2 reads wait"):
            harness.ask(5)
        stopping = asyncio.ensure_future(harness.reads.stop())
        await asyncio.sleep(0)
        harness.go_on.set()
        await stopping
        assert len(harness.found) == 2
        assert all(str(one).startswith("DiskBusy") for one in harness.found)
        with pytest.raises(DiskBusy):
            harness.ask(5)

    run(scenario, waiting_max=2)
