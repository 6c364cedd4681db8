"""Brokers are tried with growing pauses while somebody waits, and not longer."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from sprocket.rocketmq.client.network import ClientInstance
from sprocket.rocketmq.client.producer.dialing import DOUBT_SECONDS, Dialer
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.runtime.driver import Peer


def dialer(instance: ClientInstance) -> Dialer:
    """Return a dialer of an instance."""
    return Dialer(instance.connections, instance.routes, instance.tasks, instance.settings)


def test_who_waits_is_pumped_once_when_the_broker_is_there(world: Any) -> None:
    """However often it said that it waits; and the error is forgotten."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        await instance.routes.find("t")
        await world.cluster.stop()
        dialing = dialer(instance)
        pumped: list[float] = []

        def pump() -> None:
            pumped.append(world.clock.monotonic())

        dialing.stall("b", pump)
        dialing.stall("b", pump)
        await asyncio.sleep(10)
        assert dialing.channel("b") is None
        assert "nobody listens" in str(dialing.error("b"))
        await world.cluster.start()
        await asyncio.sleep(1.1)
        assert len(pumped) == 1
        assert dialing.channel("b") is not None
        assert dialing.error("b") is None
        await instance.close()

    world.run(main)


def test_pauses_grow_to_their_limit(world: Any) -> None:
    """50 ms, doubling, at most a second: 13 attempts in ten seconds."""

    async def main() -> None:
        instance = world.instance()
        world.cluster.topics["t"] = 1
        await instance.routes.find("t")
        await world.cluster.stop()
        attempts = 0
        real = instance.connections.channel

        async def counting(address: str) -> Any:
            nonlocal attempts
            attempts += address == world.cluster.broker_address
            return await real(address)

        instance.connections.channel = counting
        dialer(instance).stall("b", lambda: None)
        await asyncio.sleep(10)
        assert 12 <= attempts <= 15
        await instance.close()

    world.run(main)


def test_nobody_waits_and_it_ends(world: Any) -> None:
    """`dial` alone makes one attempt; an unknown broker is an error, not a crash."""

    async def main() -> None:
        instance = world.instance()
        dialing = dialer(instance)
        dialing.dial("nobody")
        await asyncio.sleep(1)
        assert len(instance.tasks) == 0
        assert "no route names a master" in str(dialing.error("nobody"))
        await instance.close()

    world.run(main)


def test_a_broker_that_takes_nothing_is_looked_for(world: Any) -> None:
    """Seldom, however much it refuses, until it takes something: it may have been replaced."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        await instance.routes.find("t")
        dialing = dialer(instance)

        def asked() -> int:
            return int(world.cluster.seen.count(RequestCode.GET_ROUTEINFO_BY_TOPIC))

        before = asked()
        for _ in range(100):
            dialing.doubt("b", is_silent=False)
            await asyncio.sleep(DOUBT_SECONDS / 1000)
        assert asked() == before + 1
        await asyncio.sleep(DOUBT_SECONDS)
        assert asked() == before + 2
        dialing.trust("b")
        await asyncio.sleep(10 * DOUBT_SECONDS)
        assert asked() == before + 2
        await instance.close()

    world.run(main)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_broker_that_lives_elsewhere_is_not_waited_for(world: Any, is_silent: bool) -> None:
    """If it does not answer; one that refuses is still read from."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        route = await instance.routes.find("t")
        channel = await instance.connections.channel(world.cluster.broker_address)
        dialing = dialer(instance)
        dialing.doubt("b", is_silent=is_silent)
        dialing.doubt("b", is_silent=False)
        await asyncio.sleep(2 * DOUBT_SECONDS)
        assert channel.peer.is_open
        moved = [structs.replace(one, addresses={0: "10.0.0.9:1"}) for one in route.brokers]
        body = bodies.encode(structs.replace(route, brokers=moved), quoted=True)

        def elsewhere(peer: Peer, command: Command) -> None:
            peer.send(response(command, 0, body=[body]))

        world.cluster.on[RequestCode.GET_ROUTEINFO_BY_TOPIC] = elsewhere
        await asyncio.sleep(2 * DOUBT_SECONDS)
        assert channel.peer.is_open is not is_silent
        assert len(instance.tasks) == 0
        await instance.close()

    world.run(main)
