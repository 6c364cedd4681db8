"""The watch lets silent brokers go and ends with the NameServer."""

import asyncio

from sprocket.rocketmq.codec.headers import RegisterBroker
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.nameserver.nameserver import NameServer
from sprocket.rocketmq.settings import NameServerSettings
from sprocket.testing.clock import FakeClock


def test_the_watch_lets_silent_brokers_go() -> None:
    """What is no connection of ours is only forgotten."""

    async def main() -> None:
        clock = FakeClock()
        nameserver = NameServer(clock, NameServerSettings(broker_expiry_ms=1000))
        nameserver.start()
        header = RegisterBroker(
            broker_name="a", broker_addr="1.1.1.1:1", cluster_name="C", broker_id=0
        )
        topics = [TopicConfig(name="X"), TopicConfig(name="Y")]
        nameserver.routes.register("link", header, DataVersion(1, 1), topics)
        nameserver.scan()
        assert sorted(nameserver.routes.topics()) == ["X", "Y"]
        clock.advance(1001)
        nameserver.scan()
        assert nameserver.routes.topics() == []
        await nameserver.stop()

    asyncio.run(main())
