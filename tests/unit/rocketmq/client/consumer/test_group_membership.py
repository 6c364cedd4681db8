"""Rounds change nothing about which they could not learn everything."""

import asyncio
from typing import Any

from sprocket.rocketmq.client.consumer import PushConsumer
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode


def consumer(world: Any) -> PushConsumer:
    """Return a consumer in the world."""
    return PushConsumer(world.names, group="g", listener=lambda _: None, **world.reach)


def test_a_list_without_us_changes_nothing(world: Any) -> None:
    """A broker that has forgotten us is told who we are, and the queues stay meanwhile."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        async with consumer(world) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 4)
            world.cluster.members["g"] = ["stranger"]
            await asyncio.sleep(25)
            assert len(world.cluster.members["g"]) == 2
            await world.until(lambda: len(reader.queues) == 2)

    world.run(main)


def test_a_broker_that_does_not_say_changes_nothing(world: Any) -> None:
    """Queues stay while the list of members cannot be had."""

    async def main() -> None:
        world.cluster.topics["t"] = 4
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        async with consumer(world) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 4)
            for answer in (ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR):
                world.cluster.on[code] = lambda peer, command, code=answer: world.cluster.refuse(
                    peer, command, code, "do not know"
                )
                await asyncio.sleep(30)
                assert len(reader.queues) == 4

    world.run(main)


def test_a_topic_unsubscribed_while_its_queues_are_taken_is_not_kept(world: Any) -> None:
    """Or nobody would read it, even when it is subscribed to again."""

    async def main() -> None:
        got: list[Any] = []
        held: list[Any] = []
        code = RequestCode.QUERY_CONSUMER_OFFSET
        world.cluster.topics["t"] = 1
        world.cluster.on[code] = lambda *asked: held.append(asked)
        async with PushConsumer(
            world.names, group="g", listener=got.extend, start="first", **world.reach
        ) as reader:
            await reader.subscribe("t")
            await world.until(lambda: held)
            await reader.unsubscribe("t")
            del world.cluster.on[code]
            for asked in held:
                world.cluster.usual(code)(*asked)
            await asyncio.sleep(2)
            assert reader.queues == []
            world.cluster.store("t", 0, b"x")
            await reader.subscribe("t")
            await world.until(lambda: got)

    world.run(main)


def test_more_queues_are_shared_out_when_the_route_tells_of_them(world: Any) -> None:
    """At the next refresh of routes, without waiting for a round."""

    async def main() -> None:
        world.cluster.topics["t"] = 2
        async with consumer(world) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 2)
            world.cluster.topics["t"] = 6
            await world.until(lambda: len(reader.queues) == 6, seconds=31)

    world.run(main)


def test_rounds_come_every_twenty_seconds(world: Any) -> None:
    """Also when nobody calls for one."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with consumer(world) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 1)
            await asyncio.sleep(1)
            code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            before = world.cluster.seen.count(code)
            await asyncio.sleep(60)
            assert world.cluster.seen.count(code) - before == 3

    world.run(main)
