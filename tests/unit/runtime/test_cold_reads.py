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


class Desk:
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


def run(scenario: Callable[[Desk], object], waiting_max: int = 100) -> None:
    """Run a coroutine function on a loop with a desk."""

    async def main() -> None:
        desk = Desk(waiting_max)
        await scenario(desk)  # type: ignore[misc]
        await desk.reads.stop()

    driver.run(main())


def test_work_is_done_at_once_or_when_the_disk_has_answered() -> None:
    """The loop goes on meanwhile."""

    async def scenario(desk: Desk) -> None:
        desk.go_on.clear()
        desk.ask(3)
        await asyncio.sleep(0)
        assert desk.found == []
        desk.go_on.set()
        await desk.until(1)
        desk.ask(3)
        assert desk.found == [b"36", b"36"]

    run(scenario)


def test_work_whose_first_attempt_was_made_alone_goes_on_from_there() -> None:
    """What one piece of work was fetched is nothing that the first attempt of another finds."""

    async def scenario(desk: Desk) -> None:
        def read(position: int, size: int) -> bytes:
            return desk.file.read(position, size)

        def again() -> None:
            desk.found.append(read(3, 2))

        with pytest.raises(WouldBlock) as stop:
            desk.reads.attempt(read, 3, 2)
        desk.reads.go_on(stop.value, again, lambda error: desk.found.append(str(error)))
        await desk.until(1)
        assert desk.found == [b"34"]
        assert desk.reads.attempt(read, 3, 2) == b"34"
        desk.file.give_back(0, 10)
        with pytest.raises(WouldBlock):
            desk.reads.attempt(read, 3, 2)

    run(scenario)


def test_what_goes_wrong_is_told_once() -> None:
    """At the first attempt to who calls, later to `failed`."""

    async def scenario(desk: Desk) -> None:
        desk.below.fail("read")
        desk.ask(3)
        await desk.until(1)
        assert str(desk.found.pop()).startswith("DiskFailed: read /f")

        def fail() -> None:
            raise DiskFailed("at once")

        with pytest.raises(DiskFailed, match="at once"):
            desk.reads.run(fail, lambda _: desk.found.append("told"))
        assert desk.found == []

    run(scenario)


def test_one_read_that_stalls_holds_up_no_other() -> None:
    """Until as many stall as there are threads."""

    async def scenario(desk: Desk) -> None:
        held = threading.Event()
        stalls = list(range(READ_THREADS - 1))

        def before(call: str, _: str) -> None:
            if call == "read" and stalls:
                stalls.pop()
                assert held.wait(LONG_SECONDS)

        desk.below.before = before
        for _ in range(READ_THREADS):
            desk.ask(3)
        await desk.until(1)
        assert desk.found == [b"36"]
        held.set()
        await desk.until(READ_THREADS)

    run(scenario)


def test_not_too_many_may_wait() -> None:
    """Whoever comes then hears so, and so does who would have to wait again once it is to stop."""

    async def scenario(desk: Desk) -> None:
        desk.go_on.clear()
        desk.ask(3)
        desk.ask(4)
        with pytest.raises(DiskBusy, match="2 reads wait"):
            desk.ask(5)
        stopping = asyncio.ensure_future(desk.reads.stop())
        await asyncio.sleep(0)
        desk.go_on.set()
        await stopping
        assert len(desk.found) == 2
        assert all(str(one).startswith("DiskBusy") for one in desk.found)
        with pytest.raises(DiskBusy):
            desk.ask(5)

    run(scenario, waiting_max=2)
