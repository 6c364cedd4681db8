"""Long work on the loop lets others go on, and waits for the disk without holding them up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import NonblockingDisk
from sprocket.base.errors import DiskBusy, DiskFailed
from sprocket.runtime import driver, slices
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.slices import Sliced, Slicer, Slices
from sprocket.runtime.turns import Turns
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

TICK_MS = round(1000 * slices.SLICE_SECONDS / 2)


class Bench:
    """Slices over a disk, and a clock that goes on with each call."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.below = SimulatedDisk()
        disk = NonblockingDisk(self.below)
        file = self.below.open("/f", write=True, create=True)
        file.write([b"0123"], 0)
        file.give_back(0, 4)
        self.file = disk.open("/f")
        self.reads = ColdReads(disk, 10)
        self.slices = Slices(
            self.reads, Turns(asyncio.get_running_loop(), slices.SLICE_WORK), self.clock
        )
        self.told: list[object] = []

    def call(self, what: object) -> object:
        """Take half a slice."""
        self.clock.advance(TICK_MS)
        self.told.append(what)
        return what

    def work(self, name: str, calls: int) -> Sliced[str]:
        """Make some calls; each is told."""
        for number in range(calls):
            assert (yield partial(self.call, f"{name}{number}")) == f"{name}{number}"
        return f"{name} is done"

    def begin(self, work: Sliced[object]) -> None:
        """Run it; what comes of it is told."""
        self.slices.run(work, self.told.append, lambda error: self.told.append(repr(error)))

    async def until(self, count: int) -> None:
        """Wait until so much was told."""
        async with asyncio.timeout(LONG_SECONDS):
            while len(self.told) < count:
                await asyncio.sleep(0)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    """Run it on a loop."""

    async def main() -> None:
        bench = Bench()
        try:
            await scenario(bench)
        finally:
            await bench.reads.stop()

    driver.run(main())


def test_others_go_on_between_slices() -> None:
    """Each slice has as many calls as fit into its time."""

    async def scenario(bench: Bench) -> None:
        bench.begin(bench.work("a", 5))
        for turn in range(4):
            await asyncio.sleep(0)
            bench.told.append(turn)
        assert bench.told == ["a0", "a1", 0, "a2", "a3", 1, "a4", "a is done", 2, 3]

    run(scenario)


def test_works_take_turns() -> None:
    """A short one that came later does not wait for the end of a long one."""

    async def scenario(bench: Bench) -> None:
        bench.begin(bench.work("a", 5))
        bench.begin(bench.work("b", 1))
        await bench.until(8)
        assert bench.told == ["a0", "a1", "b0", "b is done", "a2", "a3", "a4", "a is done"]

    run(scenario)


def test_what_only_the_disk_has_is_waited_for_by_its_work_alone() -> None:
    """The other one goes on meanwhile; the call is made anew when the disk has answered."""

    async def scenario(bench: Bench) -> None:
        go_on = threading.Event()

        def before(call: str, _: str) -> None:
            if call == "read":
                assert go_on.wait(LONG_SECONDS)

        bench.below.before = before

        def reading() -> Sliced[bytes]:
            return bytes((yield partial(bench.file.read, 1, 2)))

        bench.begin(reading())
        bench.begin(bench.work("b", 3))
        await bench.until(4)
        assert bench.told == ["b0", "b1", "b2", "b is done"]
        go_on.set()
        await bench.until(5)
        assert bench.told[4] == b"12"

    run(scenario)


@pytest.mark.parametrize("is_cold", [False, True])
def test_an_error_goes_through_the_work_to_who_asked(is_cold: bool) -> None:
    """Whether it comes at once or from the disk; the work may clean up."""

    async def scenario(bench: Bench) -> None:
        def fail() -> None:
            if is_cold:
                bench.file.read(0, 1)
            raise DiskFailed("no such luck")

        def work() -> Sliced[None]:
            try:
                yield fail
            finally:
                bench.told.append("cleaned")

        bench.begin(work())
        await bench.until(2)
        assert bench.told == ["cleaned", "DiskFailed('no such luck')"]

    run(scenario)


def test_not_too_much_is_under_way() -> None:
    """What is refused is told so; when others have ended there is room again."""

    async def scenario(bench: Bench) -> None:
        for _ in range(slices.WORKS_MAX):
            bench.begin(bench.work("a", 1))
        with pytest.raises(DiskBusy, match="100 long answers"):
            bench.begin(bench.work("b", 1))
        await bench.until(2 * slices.WORKS_MAX)
        bench.begin(bench.work("b", 1))
        await bench.until(2 * slices.WORKS_MAX + 2)

    run(scenario)


def test_stopped_work_is_closed_and_nobody_is_told() -> None:
    """Nor does anything begin after that."""

    async def scenario(bench: Bench) -> None:
        def work() -> Sliced[None]:
            try:
                while True:
                    yield partial(bench.call, "a")
            finally:
                bench.told.append("closed")

        bench.begin(work())
        await asyncio.sleep(0)
        bench.slices.stop()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.told == ["a", "a", "closed"]
        with pytest.raises(DiskBusy):
            bench.begin(work())

    run(scenario)


def test_a_coroutine_lets_others_have_their_turns() -> None:
    """After each slice; what it took counts in the turn, and an error ends it."""
    clock = FakeClock()

    async def scenario() -> None:
        counted: list[float] = []

        class Counting(Turns):
            def count_time(self, seconds: float) -> None:
                counted.append(seconds)
                super().count_time(seconds)

        turns = Counting(asyncio.get_running_loop())
        slicer = Slicer(turns, clock)
        seen: list[str] = []

        class Other:
            def turn(self) -> None:
                seen.append("other")

        def call(name: str) -> str:
            seen.append(name)
            turns.mark(Other())
            clock.advance(2)
            return name

        def work() -> Sliced[list[str]]:
            found = []
            for name in ("a", "b", "c", "d"):
                found.append((yield partial(call, name)))
            return found

        assert await slicer.run(work()) == ["a", "b", "c", "d"]
        assert seen == ["a", "b", "other", "other", "c", "d", "other", "other"]
        assert counted == pytest.approx([0.004, 0.004])

        def fails() -> Sliced[None]:
            yield lambda: None
            raise DiskFailed("x")

        with pytest.raises(DiskFailed):
            await slicer.run(fails())

    driver.run(scenario())
