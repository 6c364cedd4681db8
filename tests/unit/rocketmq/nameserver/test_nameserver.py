"""The watch lets silent brokers go and ends with the NameServer."""

import asyncio

from sprocket.rocketmq.codec.config import DataVersion, RegisterBrokerBody
from sprocket.rocketmq.codec.headers import RegisterBroker
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.nameserver.key_values import KeyValues
from sprocket.rocketmq.nameserver.nameserver import NameServer
from sprocket.rocketmq.settings import NameServerSettings, ServerSettings
from sprocket.testing.clock import FakeClock


def test_the_watch_lets_silent_brokers_go() -> None:
    """What is no connection of ours is only forgotten."""

    async def main() -> None:
        clock = FakeClock()
        nameserver = NameServer(
            clock,
            NameServerSettings(broker_expiry_ms=1000),
            ServerSettings(),
            KeyValues({}, lambda _: None),
        )
        nameserver.start()
        header = RegisterBroker(
            broker_name="a", broker_addr="1.1.1.1:1", cluster_name="C", broker_id=0
        )
        topics = [TopicConfig(name="X"), TopicConfig(name="Y")]
        body = RegisterBrokerBody(version=DataVersion(1, 1), topics=topics)
        nameserver.routes.register("link", header, body)
        nameserver.scan()
        assert sorted(nameserver.lookup.topics()) == ["X", "Y"]
        clock.advance(1001)
        nameserver.scan()
        assert nameserver.lookup.topics() == []
        await nameserver.stop()

    asyncio.run(main())
