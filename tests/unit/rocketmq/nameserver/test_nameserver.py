"""The watch lets silent brokers go and ends with the NameServer."""

import asyncio
from dataclasses import replace

from tests.unit.rocketmq.nameserver.test_routes import FakeLink, registration

from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.nameserver import KeyValues, NameServer
from sprocket.rocketmq.settings import NameServerSettings, Settings
from sprocket.testing.clock import FakeClock


def test_the_watch_lets_silent_brokers_go() -> None:
    """And closes their connections."""

    async def main() -> None:
        clock = FakeClock()
        settings = Settings(nameserver=NameServerSettings(broker_expiry_ms=1000))
        nameserver = NameServer(clock, settings, KeyValues({}, lambda _: None))
        nameserver.start()
        topics = [TopicConfig(name="X"), TopicConfig(name="Y")]
        link = FakeLink()
        nameserver.routes.register(link, replace(registration(), topics=topics))
        nameserver.routes.expire()
        assert sorted(nameserver.lookup.topics()) == ["X", "Y"]
        clock.advance(1001)
        nameserver.routes.expire()
        assert nameserver.lookup.topics() == []
        assert link.is_closed
        await nameserver.stop()

    asyncio.run(main())
