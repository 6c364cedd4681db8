"""What a broker has answered about topics and groups outlives a power cut, whatever it takes."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.unit.rocketmq.conftest import RawClient, message_ext

from sprocket.base.place import Place
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import (
    BrokerSettings,
    GroupSettings,
    ServerSettings,
    Settings,
    TopicSettings,
)
from sprocket.runtime import driver
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import Choose, SimulatedDisk

OUTCOMES: list[Choose] = [
    lambda _: 0,
    lambda count: count - 1,
    *(Random(seed).randrange for seed in range(20)),
]


def run(scenario: Callable[[RawClient, SimulatedDisk], Awaitable[None]]) -> None:
    """Run a scenario against a broker without a NameServer."""

    async def main() -> None:
        disk = SimulatedDisk()
        settings = Settings(server=ServerSettings(nameserver_port=0, broker_port=0))
        node = await Node.start(
            settings, "/s", disk=disk, geometry=Geometry.small(), has_nameserver=False
        )
        client = await RawClient.open(node.addresses.broker)
        await scenario(client, disk)
        client.peer.close()
        await node.stop()

    driver.run(main())


def tables(disk: SimulatedDisk) -> tuple[Topics, Groups]:
    """Open both tables on a disk."""
    topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings())
    return topics, Groups(Place(disk, "/s", FakeClock()), GroupSettings())


def topic_ext(name: str) -> dict[str, Any]:
    """Return the ext fields that make a topic."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 3,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }


def test_an_answered_topic_or_group_is_there_after_a_power_cut() -> None:
    """Made, changed or removed by an administrator."""

    async def scenario(client: RawClient, disk: SimulatedDisk) -> None:
        for number in range(3):
            assert (await client.call(17, topic_ext(f"T{number}"))).code == 0
            body = b'{"groupName":"g%d","retryMaxTimes":%d}' % (number, number)
            assert (await client.call(200, body=body)).code == 0
            for choose in OUTCOMES:
                topics, groups = tables(disk.crash(choose))
                for made in range(number + 1):
                    assert topics.get(f"T{made}") is not None
                    group = groups.get(f"g{made}")
                    assert group is not None
                    assert group.retry_times_max == made
        assert (await client.call(207, {"groupName": "g0"})).code == 0
        assert (await client.call(215, {"topic": "T0"})).code == 0
        for choose in OUTCOMES:
            topics, groups = tables(disk.crash(choose))
            assert (topics.get("T0"), groups.get("g0")) == (None, None)

    run(scenario)


def test_a_topic_that_an_answered_send_made_is_there_after_a_power_cut() -> None:
    """Its message would be there, and nobody could read it."""

    async def scenario(client: RawClient, disk: SimulatedDisk) -> None:
        for number in range(3):
            topic = f"made{number}"
            assert (await client.call(310, message_ext(topic), b"body")).code == 0
            for choose in OUTCOMES:
                topics, _ = tables(disk.crash(choose))
                assert topics.get(topic) is not None

    run(scenario)


def test_a_topic_whose_journal_cannot_be_synced_is_refused() -> None:
    """Nobody is told that it is there for good."""

    async def scenario(client: RawClient, disk: SimulatedDisk) -> None:
        disk.fail("sync", 1)
        assert (await client.call(17, topic_ext("T"))).code == 1

    run(scenario)
