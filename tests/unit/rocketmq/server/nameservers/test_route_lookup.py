"""Queues of all brokers are asked for once in half a minute, of whoever answers."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests import sockets
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import GetRoute
from sprocket.rocketmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute
from sprocket.rocketmq.remoting import Channel, Connection, open_channel
from sprocket.rocketmq.server.nameservers import FRESH_SECONDS, RouteLookup
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.testing.clock import FakeClock

ROUTE = TopicRoute(
    queues=[
        QueueData(broker_name="a", read_queues=2, write_queues=1, perm=6),
        QueueData(broker_name="b", read_queues=1, write_queues=1, perm=4),
        QueueData(broker_name="shut", read_queues=1, write_queues=1, perm=2),
    ],
    brokers=[BrokerData(cluster="c", name="a", addresses={0: "h:1"})],
)
QUEUES = [MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0)]


class Names:
    """A NameServer that answers as the test says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.peers: set[Peer] = set()
        self.body: bytes | None = bodies.encode(ROUTE, quoted=True)

    def __call__(self, peer: Peer, request: Command) -> None:
        """Answer one request."""
        self.peers.add(peer)
        self.asked.append(request.header(GetRoute).topic)
        if self.body is None:
            peer.send(response(request, 17, remark="none"))
        else:
            peer.send(response(request, 0, body=(self.body,)))


async def opened(port: int, clock: FakeClock) -> Channel:
    """Return a connection to a port; one that nobody listens on is lost by now."""
    if port:
        return await open_channel(f"127.0.0.1:{port}", clock)
    server = await sockets.serve(Connection, Names(), "127.0.0.1", 0)
    channel = await open_channel(f"127.0.0.1:{server.port}", clock)
    channel.close()
    await server.close()
    return channel


def run(scenario: Callable[[RouteLookup, Names, FakeClock], Any], *before: int) -> None:
    """Run a scenario with a NameServer, and others before it; port 0 is one that has gone."""

    async def main() -> None:
        names, clock = Names(), FakeClock()
        server = await sockets.serve(Connection, names, "127.0.0.1", 0)
        channels = [await opened(port, clock) for port in [*before, server.port]]
        lookup = RouteLookup(lambda: channels, clock)
        try:
            await scenario(lookup, names, clock)
        finally:
            await lookup.stop()
            for channel in channels:
                channel.close()
            await server.close()

    driver.run(main())


async def found(lookup: RouteLookup, topic: str = "T") -> list[MessageQueue] | None:
    """Wait for the queues of a topic."""
    told: asyncio.Future[list[MessageQueue] | None] = asyncio.get_running_loop().create_future()
    lookup.queues(topic, told.set_result)
    return await asyncio.wait_for(told, LONG_SECONDS)


def test_an_answer_counts_for_a_while() -> None:
    """Then it is asked for again; queues that may not be read are left out."""

    async def scenario(lookup: RouteLookup, names: Names, clock: FakeClock) -> None:
        for _ in range(2):
            assert await found(lookup) == QUEUES
        assert names.asked == ["T"]
        clock.advance(int(FRESH_SECONDS * 1000))
        names.body = None
        assert await found(lookup) == QUEUES
        assert names.asked == ["T", "T"]

    run(scenario)


def test_a_topic_that_nobody_knows_is_none() -> None:
    """Neither a refusal nor nonsense is an answer."""

    async def scenario(lookup: RouteLookup, names: Names, _: FakeClock) -> None:
        names.body = None
        assert await found(lookup) is None
        names.body = b"nonsense"
        assert await found(lookup) is None

    run(scenario)


def test_who_asks_together_is_answered_by_one_question() -> None:
    """Each of them."""

    async def scenario(lookup: RouteLookup, names: Names, _: FakeClock) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(found(lookup)) for _ in range(3)]
        assert [task.result() for task in tasks] == [QUEUES] * 3
        assert names.asked == ["T"]

    run(scenario)


def test_a_nameserver_that_is_away_is_passed_over() -> None:
    """And with nobody left there is nothing to say."""

    async def scenario(lookup: RouteLookup, _names: Names, _: FakeClock) -> None:
        assert await found(lookup) == QUEUES

    run(scenario, 0)

    async def nobody() -> None:
        lookup = RouteLookup(list, FakeClock())
        assert await found(lookup) is None
        await lookup.stop()

    driver.run(nobody())
