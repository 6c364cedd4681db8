"""A topic goes with everything that is kept about it, now or when the broker starts again."""

import asyncio
from functools import partial
from typing import Any, cast

from tests.stores import new, open_store
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed, StoreError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.admin import Removal, Upkeep
from sprocket.rocketmq.broker.delivery import HeldPull, PullHold
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups, Link
from sprocket.rocketmq.broker.pop import InFlight, Orders
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import (
    BrokerSettings,
    GroupSettings,
    PullSettings,
    RetentionSettings,
    TopicSettings,
)
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FOLDER = "/store"


class Scene:
    """The parts of a broker that know of topics."""

    def __init__(self, disk: SimulatedDisk) -> None:
        clock = FakeClock()
        self.disk = disk
        self.store = open_store(disk, clock=clock)
        self.thread = DiskThread()
        self.upkeep = Upkeep(self.store, self.thread, RetentionSettings(), dict, lambda: None)
        self.topics = Topics(Place(disk, FOLDER, clock), BrokerSettings(), TopicSettings())
        self.groups = Groups(Place(disk, FOLDER, clock), GroupSettings())
        self.offsets = ConsumerOffsets(Place(disk, FOLDER, clock))
        self.stats = Stats(clock)
        self.hold = PullHold(asyncio.get_running_loop(), PullSettings())
        self.in_flight = InFlight(Place(disk, FOLDER, clock), self.offsets, 0)
        self.orders = Orders(Place(disk, FOLDER, clock), self.offsets, self.store.log_clock)
        self.removal = Removal(
            self.store,
            self.upkeep,
            self.topics,
            self.groups,
            self.offsets,
            self.stats,
            self.hold,
            self.in_flight,
            self.orders,
        )

    def fill(self, *topics: str) -> None:
        """Give topics two messages each, and a group that has consumed one."""
        for topic in topics:
            self.topics.put(TopicConfig(name=topic))
            for _ in range(2):
                self.store.append(new(topic))
            self.offsets.commit("g", topic, 0, 1)
        self.store.write()
        self.store.sync()

    async def done(self, begin: Any, *arguments: Any) -> StoreError | None:
        """Begin a deletion and return how it ended."""
        ended: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        begin(*arguments, ended.set_result)
        return await asyncio.wait_for(ended, LONG_SECONDS)

    def of(self, topic: str) -> tuple[bool, int, int | None]:
        """Return whether a topic is there, its messages, and what the group has committed."""
        count = self.store.queue_range(topic, 0).max
        return self.topics.get(topic) is not None, count, self.offsets.get("g", topic, 0)


def run(scenario: Any) -> None:
    """Run a scenario with an event loop."""
    driver.run(scenario())


def test_nothing_of_a_topic_is_left() -> None:
    """With the retry topics that POP has for it; a kill brings nothing back."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t", "tt", "%RETRY%g_t", "%RETRY%g+t", "%RETRY%h_t")
        assert await scene.done(scene.removal.delete_topic, "t") is None
        for scene_ in (scene, Scene(scene.disk.kill())):
            for gone in ("t", "%RETRY%g_t", "%RETRY%g+t"):
                assert (gone, scene_.of(gone)) == (gone, (False, 0, None))
            for left in ("tt", "%RETRY%h_t"):
                assert (left, scene_.of(left)) == (left, (True, 2, 1))
            await scene_.thread.stop()

    run(scenario)


def test_a_power_loss_brings_no_offsets_back() -> None:
    """They are gone on the disk when the deletion is answered."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t")
        scene.offsets.table.flush()
        assert await scene.done(scene.removal.delete_topic, "t") is None
        for choice in (lambda _: 0, lambda count: count - 1):
            again = Scene(scene.disk.crash(choice))
            assert again.of("t") == (False, 0, None)
            await again.thread.stop()
        await scene.thread.stop()

    run(scenario)


def test_what_is_not_there_leaves_no_trace() -> None:
    """Or anybody could make the list of deleted topics as long as they like."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t")
        for name in ("u", "../t", "x" * 300):
            assert await scene.done(scene.removal.delete_topic, name) is None
        assert scene.store.deletions.ends == {}
        assert scene.of("t") == (True, 2, 1)
        await scene.thread.stop()

    run(scenario)


def test_what_a_crash_cut_off_is_finished() -> None:
    """But not for a topic that has messages again."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t", "u")
        for topic in "tu":
            scene.store.deletions.begin(topic, PhysicalOffset(scene.store.end))
        scene.store.close()
        again = Scene(scene.disk)
        again.store.append(new("u"))
        again.store.write()
        again.store.sync()
        again.removal.finish()
        assert again.of("t") == (False, 0, None)
        assert again.topics.get("u") is not None
        assert again.store.deletions.pending == ()
        await scene.thread.stop()
        await again.thread.stop()

    run(scenario)


def test_it_is_said_when_it_cannot_be_done() -> None:
    """And it may be done again."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t")
        scene.disk.fail("create", 1)
        assert isinstance(await scene.done(scene.removal.delete_topic, "t"), DiskFailed)
        assert scene.of("t") == (True, 2, 1)
        assert await scene.done(scene.removal.delete_topic, "t") is None
        assert scene.of("t") == (False, 0, None)
        await scene.thread.stop()

    run(scenario)


def test_unused_queues_are_deleted() -> None:
    """Those of topics that are not in the table; the system's and light queues stay."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t")
        for topic in ("lost", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "%LMQ%x"):
            scene.store.append(new(topic))
        scene.store.write()
        scene.store.sync()
        assert await scene.done(scene.removal.delete_unused) is None
        assert [topic for topic, _, _ in scene.store.queues()] == [
            "%LMQ%x",
            "SCHEDULE_TOPIC_XXXX",
            "rmq_sys_x",
            "t",
        ]
        await scene.thread.stop()

    run(scenario)


def test_a_group_goes_with_or_without_its_offsets() -> None:
    """As the administrator says."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("t")
        for clean_offset, left in ((False, 1), (True, None)):
            scene.groups.put([SubscriptionGroup(name="g")])
            scene.removal.delete_group("g", clean_offset=clean_offset)
            assert scene.groups.get("g") is None
            assert scene.offsets.get("g", "t", 0) == left
        await scene.thread.stop()

    run(scenario)


def test_whoever_waits_for_a_deleted_topic_is_answered() -> None:
    """Made again, it would have grown past their offset before they asked once more."""

    async def scenario() -> None:
        scene = Scene(SimulatedDisk())
        scene.fill("T", "U")
        woken: list[str] = []
        for topic in ("T", "U"):
            wake = partial(woken.append, topic)
            pull = HeldPull(cast("Link", topic), topic, 0, 2, None, wake)
            assert scene.hold.hold(pull, 1000)
        await scene.done(scene.removal.delete_topic, "T")
        assert woken == ["T"]
        scene.hold.end_all()
        await scene.thread.stop()

    run(scenario)
