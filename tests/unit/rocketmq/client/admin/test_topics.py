"""Topics are created where they are then found, looked at, changed and deleted."""

from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, InvalidMessage, RequestTimeout
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    GroupNames,
    QueueStats,
    TopicNames,
    TopicStats,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.config import DataVersion, TopicTable
from sprocket.rocketmq.codec.headers import CreateTopic, DeleteTopicInNames, KeyValue
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import ClusterInfo
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.runtime.driver import Peer


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
            empty = bodies.encode(ClusterInfo(brokers={}, clusters={}), quoted=True)
            cluster.on[RequestCode.GET_BROKER_CLUSTER_INFO] = lambda peer, command: peer.send(
                response(command, 0, body=[empty])
            )
            with pytest.raises(NoRoute, match="is one running"):
                await looking.create_topic("t")

    world.run(main)


def answer(world: Any, code: RequestCode, body: bytes = b"", header: Any = None) -> None:
    """Have the cluster answer a code."""
    world.cluster.on[code] = lambda peer, command: peer.send(
        response(command, 0, header, body=[body] if body else [])
    )


def asked(world: Any, code: RequestCode) -> list[Command]:
    """Return the requests with a code."""
    return [one for one in world.cluster.requests if one.code == code]


def test_what_is_said_of_a_topic_reaches_the_broker(world: Any) -> None:
    """Attributes with signs, queues for both sides; an order is fixed in the NameServer."""
    answer(world, RequestCode.PUT_KV_CONFIG)

    async def main() -> None:
        async with admin(world) as looking:
            await looking.topic.create(
                "t", 2, read_queues=3, perm=4, attributes={"+message.type": "FIFO"}, is_ordered=True
            )
            (command,) = asked(world, RequestCode.UPDATE_AND_CREATE_TOPIC)
            header = command.header(CreateTopic)
            assert (header.write_queue_nums, header.read_queue_nums, header.perm) == (2, 3, 4)
            assert (header.attributes, header.order) == ("+message.type=FIFO", True)
            (command,) = asked(world, RequestCode.PUT_KV_CONFIG)
            expected = KeyValue(namespace="ORDER_TOPIC_CONFIG", key="t", value="b:2")
            assert command.header(KeyValue) == expected
            with pytest.raises(NoRoute, match="broker 'x'; there is b"):
                await looking.topic.create("t", broker="x")
            with pytest.raises(NoRoute, match="cluster 'x'; there is c"):
                await looking.topic.create("t", cluster="x")

    world.run(main)


def test_a_permission_is_changed_and_nothing_else(world: Any) -> None:
    """The queues stay as they are."""

    async def main() -> None:
        world.cluster.topics["t"] = 3
        async with admin(world) as looking:
            await looking.topic.set_permission("t", 4)
            (command,) = asked(world, RequestCode.UPDATE_AND_CREATE_TOPIC)
            header = command.header(CreateTopic)
            assert (header.write_queue_nums, header.read_queue_nums, header.perm) == (3, 3, 4)
            with pytest.raises(NoRoute, match="not on broker 'x'"):
                await looking.topic.set_permission("t", 4, broker="x")

    world.run(main)


def test_a_deleted_topic_is_gone_everywhere(world: Any) -> None:
    """From the brokers, the NameServers, their fixed order, and our own routes."""
    for code in (RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.DELETE_KV_CONFIG):
        answer(world, code)

    def delete(peer: Peer, command: Command) -> None:
        del world.cluster.topics["t"]
        peer.send(response(command, 0))

    world.cluster.on[RequestCode.DELETE_TOPIC_IN_BROKER] = delete

    async def main() -> None:
        world.cluster.topics["t"] = 3
        async with admin(world) as looking:
            await looking.topic.queues("t")
            await looking.topic.delete("t", cluster="c")
            assert await looking.topic.names() == []
            with pytest.raises(NoRoute):
                await looking.topic.route("t")
            (command,) = asked(world, RequestCode.DELETE_TOPIC_IN_NAMESRV)
            header = DeleteTopicInNames(topic="t", cluster_name="c")
            assert command.header(DeleteTopicInNames) == header

    world.run(main)


def test_what_a_topic_is_and_holds(world: Any) -> None:
    """Its set-up by broker, its offsets and rate, its groups, the topics of a cluster."""
    config = TopicConfig(name="t", read_queues=2, write_queues=2)
    stats = TopicStats(
        queues={
            world.queue(number): QueueStats(min_offset=0, max_offset=number, last_update_at_ms=5)
            for number in (1, 0)
        },
        put_tps=1.5,
    )
    table = TopicTable(version=DataVersion.new(1), topics=[config, TopicConfig(name="s")])
    answer(world, RequestCode.GET_TOPIC_CONFIG, bodies.encode(config))
    answer(world, RequestCode.GET_TOPIC_STATS_INFO, bodies.encode(stats))
    answer(world, RequestCode.GET_ALL_TOPIC_CONFIG, bodies.encode(table))
    answer(world, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, bodies.encode(GroupNames(["h", "g"])))
    answer(world, RequestCode.GET_TOPICS_BY_CLUSTER, bodies.encode(TopicNames(topics=["u", "t"])))

    async def main() -> None:
        world.cluster.topics["t"] = 2
        async with admin(world) as looking:
            assert await looking.topic.config("t") == {"b": config}
            assert [one.name for one in await looking.topic.configs("b")] == ["s", "t"]
            found = await looking.topic.stats("t")
            assert (list(found.queues), found.put_tps) == ([world.queue(0), world.queue(1)], 1.5)
            assert found == stats
            assert await looking.topic.groups("t") == ["g", "h"]
            assert await looking.topic.names(cluster="c") == ["t", "u"]
            with pytest.raises(NoRoute):
                await looking.topic.stats("unknown")

    world.run(main)
