"""Topics are created where they are then found; messages are found by key and by id."""

from typing import Any

import pytest

from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    InvalidMessage,
    NoRoute,
    RequestTimeout,
)
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.producer import Producer
from sprocket.rocketmq.codec import bodies, ids
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.model.message import Message


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def test_a_created_topic_has_a_route_when_the_call_returns(world: Any) -> None:
    """With as many queues as asked for, and it is in the list of topics."""

    async def main() -> None:
        async with admin(world) as looking:
            await looking.create_topic("t", queues=3)
            assert await looking.queues("t") == [world.queue(number) for number in range(3)]
            assert [queue.write_queues for queue in (await looking.route("t")).queues] == [3]
            assert await looking.topics() == ["t"]
            assert list((await looking.cluster()).brokers) == ["b"]

    world.run(main)


def test_creating_a_topic_can_fail_in_four_ways(world: Any) -> None:
    """An illegal name, no broker, a refusal, a NameServer that does not learn of it."""

    async def main() -> None:
        cluster = world.cluster
        async with admin(world) as looking:
            with pytest.raises(InvalidMessage, match="topic 'a b'"):
                await looking.create_topic("a b")
            with pytest.raises(InvalidMessage, match="at least 1"):
                await looking.create_topic("t", queues=0)
            cluster.on[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda peer, command: cluster.refuse(
                peer, command, ResponseCode.INVALID_PARAMETER, "no"
            )
            with pytest.raises(BrokerRefused, match="UPDATE_AND_CREATE_TOPIC: no"):
                await looking.create_topic("t")
            cluster.on[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda peer, command: peer.send(
                response(command, 0)
            )
            with pytest.raises(RequestTimeout, match="was created, but"):
                await looking.create_topic("t")
            empty = bodies.encode_cluster_info(
                bodies.ClusterInfo(brokers={}, clusters={}), standard=True
            )
            cluster.on[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda peer, command: peer.send(
                response(command, 0, body=[empty])
            )
            with pytest.raises(NoRoute, match="is one running"):
                await looking.create_topic("t")

    world.run(main)


def test_offsets_of_a_queue(world: Any) -> None:
    """Lowest, next, and that of a time, without asking for the route before."""

    async def main() -> None:
        world.cluster.store("t", 0, b"a")
        at_ms = world.clock.now_ms()
        async with admin(world) as looking:
            assert await looking.max_offset(world.queue(0)) == 1
            assert await looking.min_offset(world.queue(0)) == 0
            assert await looking.offset_by_time(world.queue(0), at_ms) == 0
            assert await looking.offset_by_time(world.queue(0), at_ms + 1) == 1
            with pytest.raises(NoRoute):
                await looking.max_offset(world.queue(0, "other"))

    world.run(main)


def test_messages_are_found_by_key(world: Any) -> None:
    """Those whose hash alone is equal are left out; none is an empty list."""

    async def main() -> None:
        async with Producer(world.names, **world.reach) as sender:
            await sender.send(Message("t", b"1", keys=["k"]))
            await sender.send(Message("t", b"other", keys=["collides"]))
            await sender.send(Message("t", b"2", keys=["j", "k"]))
        async with admin(world) as looking:
            found = await looking.query_by_key("t", "k")
            assert [one.body for one in found] == [b"1", b"2"]
            assert found[0].queue.broker_name == "b"
            world.cluster.log.clear()
            assert await looking.query_by_key("t", "k") == []

    world.run(main)


def test_a_query_that_every_broker_refuses_is_an_error(world: Any) -> None:
    """With the broker's words."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.QUERY_MESSAGE] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "broken index"
        )
        async with admin(world) as looking:
            with pytest.raises(BrokerRefused, match="broken index"):
                await looking.query_by_key("t", "k")

    world.run(main)


def test_a_message_is_found_by_both_its_ids(world: Any) -> None:
    """By place and by unique key; ids of nothing, or of brokers that we do not know, give None."""

    async def main() -> None:
        async with Producer(world.names, **world.reach) as sender:
            sent = await sender.send(Message("t", b"1"))
            mine = await sender.send(Message("t", b"2", properties={"UNIQ_KEY": "mine"}))
        async with admin(world) as looking:
            for message_id in (sent.message_id, sent.offset_message_id):
                found = await looking.view(message_id, "t")
                assert found is not None
                assert found.body == b"1"
            found = await looking.view(mine.message_id, "t")
            assert found is not None
            assert found.body == b"2"
            nowhere = ids.offset_message_id(ids.host_bytes("10.0.0.2", 10911), 10**6)
            assert await looking.view(nowhere, "t") is None
            stranger = ids.offset_message_id(ids.host_bytes("10.6.6.6", 1), 0)
            assert await looking.view(stranger, "t") is None

    world.run(main)


def test_an_admin_that_is_not_open_says_so(world: Any) -> None:
    """The error tells what to do."""

    async def main() -> None:
        with pytest.raises(ClientError, match="async with"):
            await admin(world).topics()

    world.run(main)
