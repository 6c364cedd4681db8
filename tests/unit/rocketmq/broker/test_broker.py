"""The parts work together, and what happens now and then does not stop when it fails once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.stores import batch_of, new
from tests.waits import LONG_SECONDS

from sprocket.base.disk import NonblockingDisk, read_file, replace_file, steps
from sprocket.base.errors import DiskFull
from sprocket.base.place import Place
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.broker import Broker, Callbacks, OpenFolder
from sprocket.rocketmq.broker.delivery import HeldPull
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.group import Heartbeat, Membership, SubscriptionGroup
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import OffsetSettings, RetentionSettings, Settings, StoreSettings
from sprocket.rocketmq.store.read import OffsetRange
from sprocket.rocketmq.store.store import Store
from sprocket.runtime import driver
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/consumerOffset.json"
HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"

Scenario = Callable[[Broker, SimulatedDisk], Awaitable[None]]


def nobody(_link: object, _group: str) -> None:
    """Tell nobody that its group changed."""


def nobody_asked(_link: object, _question: object) -> None:
    """Ask nobody how a transaction ended."""


def run(
    scenario: Scenario,
    notify: Callable[[Any, str], None] = nobody,
    found: SimulatedDisk | None = None,
) -> None:
    """Run a scenario with a broker that is not started, on an empty disk if none is `found`."""

    async def main() -> None:
        disk, clock = found or SimulatedDisk(), FakeClock()
        settings = Settings(
            store=StoreSettings(fill_ahead_bytes=0), offsets=OffsetSettings(flush_ms=100)
        )
        store = Store.open(disk, "/s", settings.store, clock, Geometry.small())
        broker = Broker(
            OpenFolder(Place(disk, "/s", clock), store, ColdReads(NonblockingDisk(disk), 100), {}),
            settings,
            HERE,
            Callbacks(notify=notify, ask=nobody_asked, topics_changed=lambda _: None),
            Pressure(MIB, MIB),
        )
        try:
            await scenario(broker, disk)
        finally:
            await broker.stop()

    driver.run(main())


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(LONG_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def test_offsets_are_flushed_on_the_thread() -> None:
    """One flush at a time; a failed one is made again and loses nothing."""

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        broker.snapshots.begin()
        assert broker.thread.waiting_count == 0
        broker.offsets.commit("g", "t", 0, 5)
        disk.fail("sync", 1)
        broker.snapshots.begin()
        broker.snapshots.begin()
        assert broker.thread.waiting_count == 1
        await until(lambda: broker.thread.waiting_count == 0)
        assert not disk.exists(FILE)
        broker.snapshots.begin()
        await until(lambda: broker.thread.waiting_count == 0)
        assert b"0:5" in read_file(disk, FILE)

    run(scenario)


def test_the_rounds_go_on() -> None:
    """Flush, maintenance, re-check and expiry run by themselves once the broker is started."""

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        broker.start()
        broker.offsets.commit("g", "t", 0, 5)
        await until(lambda: disk.exists(FILE))
        broker.maintain()
        broker.recheck()
        broker.expire()

    run(scenario)


def test_a_closed_connection_leaves_nothing() -> None:
    """Neither a hold nor a membership."""

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        link: Any = object()
        broker.hold.hold(HeldPull(link, "T", 0, 0, None, lambda: None), 1000)
        broker.left(link)
        assert broker.hold.count == 0
        await broker.quiesce()

    run(scenario)


def test_groups_say_whether_their_members_are_told() -> None:
    """Of members that come; the settings of the group count as they are now."""
    told: list[str] = []

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        for enabled in (False, True):
            broker.groups.put([SubscriptionGroup(name="g", notify_ids_changed_enable=enabled)])
            data = Heartbeat(client_id="c", consumers=[Membership(group="g")])
            link: Any = object()
            broker.members.heartbeat(link, data, "JAVA", 479, data.consumers)
            assert told == ["g", "g"] * enabled

    run(scenario, lambda _, group: told.append(group))


def test_a_round_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held pulls are looked at again once the disk has room."""
    monkeypatch.setattr("sprocket.rocketmq.broker.broker.RECHECK_SECONDS", 0.001)

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        looked = []

        def look(*_: object) -> OffsetRange:
            looked.append(1)
            if len(looked) == 1:
                raise DiskFull("full")
            return OffsetRange(QueueOffset(0), QueueOffset(0))

        broker.start()
        monkeypatch.setattr(broker.store, "queue_range", look)
        link: Any = object()
        assert broker.hold.hold(HeldPull(link, "t", 0, 0, None, lambda: None), 10_000)
        await until(lambda: len(looked) > 1)

    run(scenario)


def test_a_stop_flushes_everything() -> None:
    """Offsets lie in their file and the store is closed."""
    disks: list[SimulatedDisk] = []

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        disks.append(disk)
        broker.offsets.commit("g", "t", 0, 5)

    run(scenario)
    assert b"0:5" in read_file(disks[0], FILE)
    assert not disks[0].exists("/s/abort")


def left_by_a_broker() -> SimulatedDisk:
    """A store with messages in two topics, one of batch queues, and a group that has read one."""
    kept: list[SimulatedDisk] = []

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        batches = {"queue.type": "BatchCQ"}
        broker.topics.put(TopicConfig(name="B", write_queues=2, attributes=batches))
        broker.take_kinds()
        broker.topics.put(TopicConfig(name="T", read_queues=4, write_queues=4))
        for topic, queue_id in (("T", 0), ("T", 3), ("B", 1), ("%LMQ%x", 0)):
            broker.store.append(new(topic, queue_id))
        broker.store.write()
        broker.groups.find("g")
        broker.offsets.commit("g", "T", 0, 1)
        kept.append(disk)

    run(scenario)
    return kept[0]


def without(disk: SimulatedDisk, *tables: str) -> list[str]:
    """Remove tables with their backups and journals; return the names of the files."""
    names = [name for name in disk.list("/s/config") if any(one in name for one in tables)]
    for name in names:
        disk.remove(f"/s/config/{name}")
    return names


@pytest.mark.parametrize("content", [None, b""])
def test_lost_tables_come_back_from_queues_and_offsets(
    content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Missing or empty, without a backup; nothing is deleted, and each is told."""
    disk = left_by_a_broker()
    for name in without(disk, "topics", "subscriptionGroup", "sprocket.groups"):
        if content is not None and name.endswith(".json"):
            replace_file(disk, f"/s/config/{name}", content)

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        found = {topic.name: topic for topic in broker.topics.all()}
        assert (found["T"].read_queues, found["T"].write_queues) == (4, 4)
        assert (found["B"].write_queues, found["B"].takes_batches) == (2, True)
        assert "%LMQ%x" not in found
        assert broker.groups.get("g") is not None
        assert broker.store.queue_range("T", 3) == (0, 1)
        assert [text for text in caplog.messages if "is lost" in text] == caplog.messages[:2]

    run(scenario, found=disk)
    caplog.clear()

    async def again(broker: Broker, _: SimulatedDisk) -> None:
        assert broker.topics.knows("T")
        assert not caplog.messages

    run(again, found=disk)


def test_lost_offsets_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """They are nowhere else, so groups go on as new ones do."""
    disk = left_by_a_broker()
    without(disk, "consumerOffset", "sprocket.offsets")

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        assert broker.offsets.get("g", "T", 0) is None
        assert any("no group has committed" in text for text in caplog.messages)

    run(scenario, found=disk)


def test_a_lost_end_of_the_log_takes_committed_offsets_along() -> None:
    """The log was removed by hand: groups get what comes next, and the report says so."""
    disk = left_by_a_broker()
    for path in ("commitlog", "consumequeue", "batchconsumequeue"):
        disk.remove_tree(f"/s/{path}")

    async def scenario(broker: Broker, _: SimulatedDisk) -> None:
        assert broker.offsets.get("g", "T", 0) == 0
        assert broker.store.report.offsets_set_back == {"T@g": {0: 1}}
        assert broker.topics.knows("T")

    run(scenario, found=disk)


@pytest.mark.parametrize(("topic", "is_kept"), [(TIMER_TOPIC, True), ("topic", False)])
def test_messages_that_wait_for_a_time_are_kept(topic: str, is_kept: bool) -> None:
    """However short others are."""

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        clock = broker.place.clock
        assert isinstance(clock, FakeClock)
        disk.now_ms = clock.now_ms()
        broker.store.append(new(topic))
        while broker.store.end < 3 * Geometry.small().log.segment_bytes:
            broker.store.append(new(body=bytes(700)))
        broker.store.write()
        broker.store.sync()
        broker.upkeep.use(RetentionSettings(keep_hours=1))
        broker.upkeep.begin()
        await until(lambda: not broker.upkeep.is_busy)
        clock.advance(2 * 3_600_000)
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        broker.upkeep.clean(ended.set_result)
        assert await asyncio.wait_for(ended, LONG_SECONDS) is None
        assert (broker.store.first == 0) is is_kept

    run(scenario)


def test_what_a_full_disk_refuses_is_counted() -> None:
    """One by one, and by the messages of a batch; what is too large is not the disk's fault."""

    async def scenario(broker: Broker, disk: SimulatedDisk) -> None:
        disk.used = 0.95
        steps.run(broker.store.clean_steps(RetentionSettings()))
        broker.durable.append([new(), new()], lambda *_: None, [None, None])
        broker.durable.append_batch(batch_of([new(), new(), new()]), lambda *_: None, [None])
        assert broker.stats.refused == 5
        disk.used = 0.1
        steps.run(broker.store.clean_steps(RetentionSettings()))
        broker.durable.append([new(body=bytes(5 << 20))], lambda *_: None, [None])
        assert broker.stats.refused == 5

    run(scenario)
