"""Rounds come one at a time, on the disk thread where they wait, and outlive what fails in them."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest
from tests.stores import new, open_store
from tests.waits import LONG_SECONDS

from sprocket.base.disk import Steps
from sprocket.base.errors import DiskFailed, DiskFull, StoreError, StoreFailed
from sprocket.rocketmq.broker.admin import Upkeep, upkeep
from sprocket.rocketmq.broker.admin.upkeep import CLEAN_ROUNDS
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.recovery import checkpoint
from sprocket.rocketmq.store.store import Store
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000


class Scene:
    """A store with something to keep, and its upkeep."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = FakeClock()
        self.store: Store = open_store(self.disk, clock=self.clock)
        self.thread = DiskThread()
        self.reserve_hours: dict[str, int] = {}
        self.upkeep = Upkeep(
            self.store,
            self.thread,
            RetentionSettings(),
            lambda: self.reserve_hours,
            lambda: self.store.refusal,
        )

    def fill(self) -> None:
        """Write three log files."""
        while self.store.end < 3 * 4096:
            self.store.append(new(body=bytes(700)))
        self.store.write()
        self.store.sync()

    async def round(self) -> None:
        """Do a whole round."""
        self.upkeep.begin()
        async with asyncio.timeout(LONG_SECONDS):
            while self.upkeep.is_busy:
                await asyncio.sleep(0)

    def saved_at_ms(self) -> int:
        """The time in the checkpoint."""
        return checkpoint.load(self.disk, "/store/checkpoint").queues_at_ms


def run(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a scenario on a loop."""

    async def main() -> None:
        scene = Scene()
        await scenario(scene)
        await scene.thread.stop()
        scene.upkeep.close()
        scene.store.close()

    driver.run(main())


def test_a_round_makes_derived_files_durable_on_the_thread() -> None:
    """Nothing of it is done when `begin` returns."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.upkeep.begin()
        assert scene.saved_at_ms() == 0
        scene.upkeep.begin()  # the first is under way
        assert scene.thread.waiting_count == 1
        await scene.round()
        assert scene.saved_at_ms() == AT_MS

    run(scenario)


def test_every_tenth_round_deletes() -> None:
    """What the disk has no room for."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.disk.used = 0.89
        for _ in range(CLEAN_ROUNDS - 1):
            await scene.round()
        assert scene.store.first == 0
        await scene.round()
        assert scene.store.first == 3 * 4096

    run(scenario)


def test_a_round_that_fails_is_said_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The next one does what it left, and deletes even if it could not sync."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.disk.fail("rename")
        await scene.round()
        assert scene.saved_at_ms() == 0
        await scene.round()
        assert scene.saved_at_ms() == AT_MS

    run(scenario)


def test_a_deletion_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the round in which the next one is due."""
    monkeypatch.setattr(upkeep, "CLEAN_ROUNDS", 1)

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.disk.used = 0.89
        scene.disk.fail("remove")
        await scene.round()
        assert scene.store.first == 0
        await scene.round()
        assert scene.store.first == 3 * 4096

    run(scenario)


def test_a_round_cut_off_by_the_stop_leaves_nothing_unsynced() -> None:
    """What it took to sync and did not is synced by the clean stop."""
    scenes: list[Scene] = []

    async def scenario(scene: Scene) -> None:
        scenes.append(scene)
        for queue_id in range(40):
            scene.store.append(new(queue_id=queue_id))
        scene.store.write()
        scene.store.sync()
        scene.upkeep.begin()

    run(scenario)
    again = open_store(scenes[0].disk.crash(lambda _: 0))
    assert again.report.clean
    assert len(list(again.queues())) == 40


def test_other_work_takes_its_turn() -> None:
    """Not during a round; in the order in which it was asked for, with how it ended."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        done: list[object] = []

        def work(name: str, error: StoreError | None = None) -> Callable[[], Steps]:
            def steps() -> Steps:
                done.append(name)
                yield lambda: None
                if error is not None:
                    raise error

            return steps

        failure = DiskFailed("no")
        scene.upkeep.begin()
        scene.upkeep.do(work("a"), done.append)
        scene.upkeep.do(work("b", failure), lambda error: again(error))

        def again(error: StoreError | None) -> None:
            done.append(error)
            scene.upkeep.do(work("c"), done.append)

        assert done == []
        async with asyncio.timeout(LONG_SECONDS):
            while scene.upkeep.is_busy:
                await asyncio.sleep(0)
        assert done == ["a", None, "b", failure, "c", None]
        assert scene.saved_at_ms() == AT_MS, "the round was done as well"

    run(scenario)


def test_what_waits_is_told_that_it_is_not_done() -> None:
    """When the broker stops."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        told: list[StoreError | None] = []
        scene.upkeep.begin()
        scene.upkeep.clean(told.append)
        await scene.thread.stop()
        scene.upkeep.close()
        assert [type(error) for error in told] == [StoreFailed]

    run(scenario)


def test_cleaning_can_be_asked_for() -> None:
    """Whatever the hour, by the settings as they are now."""

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.upkeep.use(RetentionSettings(keep_hours=1))
        scene.clock.advance(2 * 3600 * 1000)
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        await scene.round()
        scene.upkeep.clean(ended.set_result)
        assert await asyncio.wait_for(ended, LONG_SECONDS) is None
        assert scene.store.first > 0

    run(scenario)


def test_topics_are_asked_in_each_round_for_how_long_they_are_kept() -> None:
    """The attribute `reserve.time` may change; it was refused."""

    async def scenario(scene: Scene) -> None:
        scene.disk.now_ms = scene.clock.now_ms()
        scene.fill()
        scene.upkeep.use(RetentionSettings(keep_hours=1))
        await scene.round()
        scene.clock.advance(2 * 3600 * 1000)
        for hours, is_kept in ((3, True), (2, False)):
            scene.reserve_hours = {"topic": hours}
            ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            scene.upkeep.clean(ended.set_result)
            assert await asyncio.wait_for(ended, LONG_SECONDS) is None
            assert (scene.store.first == 0) is is_kept

    run(scenario)


def test_a_store_that_refuses_is_told_once_and_once_that_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full disk, and a failed write that can be undone only when there is room again."""

    def told() -> list[str]:
        return [text for text in caplog.messages if "the store" in text]

    async def scenario(scene: Scene) -> None:
        scene.fill()
        scene.store.append(new())
        scene.disk.fail("write", 1, errno.ENOSPC)
        scene.disk.is_full = True
        with pytest.raises(DiskFull):
            scene.store.write()
        for _ in range(2):
            await scene.round()
        assert [text for text in told() if "refuses" in text] == told()[:1]
        assert "undone" in told()[0]
        scene.disk.is_full = False
        await scene.round()
        assert "takes messages again" in told()[-1]
        scene.store.append(new())
        scene.store.write()
        caplog.clear()
        scene.disk.used = 0.95
        for _ in range(2 * CLEAN_ROUNDS):
            await scene.round()
        assert len(told()) == 1
        assert "95 % full" in told()[0]
        scene.disk.used = 0.5
        for _ in range(2 * CLEAN_ROUNDS):
            await scene.round()
        assert len(told()) == 2

    run(scenario)
