"""Groups are set up, watched, and moved."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, InvalidMessage
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClientConnection,
    ConsumerConnection,
    DirectOutcome,
    GroupTable,
    ProducerConnection,
    QueueInfo,
    QueueOffsets,
    RunningInfo,
    TopicInfo,
    TopicNames,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.codec.headers import (
    CloneOffsets,
    ConsumeMessageDirectly,
    DeleteGroup,
    ResetOffset,
)
from sprocket.rocketmq.errors import NoSuchGroup
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.progress import ConsumeStats, QueueProgress


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def answer(world: Any, code: RequestCode, body: bytes = b"", header: Any = None) -> None:
    """Have the cluster answer a code."""
    world.cluster.on[code] = lambda peer, command: peer.send(
        response(command, 0, header, body=[body] if body else [])
    )


def known(world: Any, *names: str) -> None:
    """Have the cluster know groups."""
    groups = [SubscriptionGroup(name=name) for name in names]
    table = GroupTable(version=DataVersion.new(1), groups=groups)
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    answer(world, code, bodies.encode(table))


def asked(world: Any, code: RequestCode) -> list[Command]:
    """Return the requests with a code."""
    return [one for one in world.cluster.requests if one.code == code]


def test_a_group_is_created_found_and_deleted(world: Any) -> None:
    """As it was said to be, and with what it has committed."""
    group = SubscriptionGroup(name="g", retry_times_max=3)
    table = GroupTable(version=DataVersion.new(1), groups=[group])
    topics = TopicNames(broker_address="", topics=["u", "%RETRY%g", "t"])
    answer(world, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    answer(world, RequestCode.DELETE_SUBSCRIPTIONGROUP)
    answer(
        world,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        bodies.encode(table),
    )
    answer(world, RequestCode.QUERY_TOPICS_BY_CONSUMER, bodies.encode(topics))

    async def main() -> None:
        async with admin(world) as looking:
            await looking.group.create(group)
            await looking.group.create("plain")
            sent = [
                bodies.decode_group(one.body)
                for one in asked(world, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
            ]
            assert sent == [group, SubscriptionGroup(name="plain")]
            with pytest.raises(InvalidMessage):
                await looking.group.create("a b")
            assert await looking.group.names() == ["g"]
            assert await looking.group.get("g") == {"b": group}
            with pytest.raises(NoSuchGroup, match="'gg' set up; did you mean g"):
                await looking.group.get("gg")
            assert await looking.group.topics("g") == ["t", "u"]
            await looking.group.delete("g")
            (command,) = asked(world, RequestCode.DELETE_SUBSCRIPTIONGROUP)
            assert command.header(DeleteGroup) == DeleteGroup(group_name="g", clean_offset=True)

    world.run(main)


def test_how_far_a_group_is_and_who_is_in_it(world: Any) -> None:
    """Progress with its lag, members or None, producers or none."""
    one = QueueProgress(broker_offset=9, consumer_offset=4)
    stats = ConsumeStats(queues={world.queue(1): one, world.queue(0): one}, consume_tps=2.0)
    client = ClientConnection(client_id="i", address="a:1", language="PYTHON", version=1)
    members = ConsumerConnection(
        connections=[client],
        subscriptions=[],
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
    )
    answer(world, RequestCode.GET_CONSUME_STATS, bodies.encode(stats))
    known(world, "g")

    async def main() -> None:
        async with admin(world) as looking:
            found = await looking.group.progress("g")
            assert (found.lag, found.consume_tps) == (10, 2.0)
            assert list(found.queues) == [world.queue(0), world.queue(1)]
            for code, number in (
                (RequestCode.GET_CONSUMER_CONNECTION_LIST, ResponseCode.CONSUMER_NOT_ONLINE),
                (RequestCode.GET_PRODUCER_CONNECTION_LIST, ResponseCode.SYSTEM_ERROR),
            ):
                world.cluster.on[code] = lambda peer, command, number=number: world.cluster.refuse(
                    peer, command, number, "nobody"
                )
            assert await looking.group.consumers("g") is None
            with pytest.raises(NoSuchGroup, match="no producer of group 'p' is connected"):
                await looking.group.producers("p")
            code = RequestCode.GET_CONSUMER_CONNECTION_LIST
            answer(world, code, bodies.encode(members))
            code = RequestCode.GET_PRODUCER_CONNECTION_LIST
            answer(world, code, bodies.encode(ProducerConnection([client])))
            there = await looking.group.consumers("g")
            assert there is not None
            assert list(there.connections) == [client]
            assert await looking.group.producers("p") == [client]

    world.run(main)


def test_a_consumer_is_asked_by_way_of_a_broker(world: Any) -> None:
    """What it does, and to consume one message now; a refusal is an error."""
    info = RunningInfo(
        properties={"a": "b"},
        queues={world.queue(0): QueueInfo(commit_offset=3, is_locked=True)},
        topics={"t": TopicInfo(consume_rate=1.5, failures=2)},
    )
    direct = bodies.encode(DirectOutcome(result="CR_LATER", orderly=True, spent_ms=4, remark="no"))

    async def main() -> None:
        async with admin(world) as looking:
            with pytest.raises(BrokerRefused, match="GET_CONSUMER_RUNNING_INFO: not here"):
                await looking.group.running_info("g", "i")
            answer(
                world,
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                bodies.encode(info),
            )
            answer(world, RequestCode.CONSUME_MESSAGE_DIRECTLY, direct)
            found = await looking.group.running_info("g", "i")
            assert (found.properties, found.queues, found.topics) == (
                info.properties,
                info.queues,
                info.topics,
            )
            world.cluster.store("t", 0, b"x", world.encoded(KEYS="k"))
            (message,) = await looking.query_by_key("t", "k")
            outcome = await looking.group.consume_directly("g", "i", message)
            assert outcome == DirectOutcome(
                result="CR_LATER", orderly=True, spent_ms=4, remark="no"
            )
            (command,) = asked(world, RequestCode.CONSUME_MESSAGE_DIRECTLY)
            header = command.header(ConsumeMessageDirectly)
            assert header.msg_id == message.stored.offset_message_id
            assert (header.broker_name, header.client_id) == ("b", "i")

    world.run(main)


@pytest.mark.parametrize(
    ("to", "at_ms"),
    [
        ("first", 0),
        ("last", -1),
        (77, 77),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1000),
    ],
)
def test_a_group_goes_on_from_another_place(world: Any, to: Any, at_ms: int) -> None:
    """The broker is asked by time and says where each queue goes on."""
    offsets = {world.queue(1): 4, world.queue(0): 3}
    answer(
        world,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        bodies.encode(QueueOffsets(offsets)),
    )
    known(world, "g")

    async def main() -> None:
        world.cluster.topics["t"] = 2
        async with admin(world) as looking:
            found = await looking.group.reset_offsets("g", "t", to)
            assert list(found.items()) == [(world.queue(0), 3), (world.queue(1), 4)]
            (command,) = asked(world, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
            header = command.header(ResetOffset)
            assert (header.timestamp, header.is_force, header.group) == (at_ms, True, "g")

    world.run(main)


def test_an_old_broker_resets_a_group_of_which_nobody_is_there(world: Any) -> None:
    """By committing what the time stands for; other refusals and places are errors."""
    known(world, "g")

    async def main() -> None:
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        world.cluster.on[code] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.CONSUMER_NOT_ONLINE, "nobody"
        )
        world.cluster.topics["t"] = 1
        world.cluster.store("t", 0, b"x")
        async with admin(world) as looking:
            assert await looking.group.reset_offsets("g", "t", "last") == {world.queue(0): 1}
            assert world.cluster.committed["g", "t", 0] == 1
            assert await looking.group.reset_offsets("g", "t", 0) == {world.queue(0): 0}
            assert world.cluster.committed["g", "t", 0] == 0
            del world.cluster.on[code]
            with pytest.raises(BrokerRefused, match="not here"):
                await looking.group.reset_offsets("g", "t", "last")
            wrong: Any
            for wrong in (-5, "middle"):
                with pytest.raises(InvalidMessage, match="expected"):
                    await looking.group.reset_offsets("g", "t", wrong)

    world.run(main)


def test_offsets_are_cloned_topic_by_topic(world: Any) -> None:
    """All in which the source has committed, as RocketMQ does nothing without a topic."""
    topics = TopicNames(broker_address="", topics=["u", "t"])
    answer(world, RequestCode.QUERY_TOPICS_BY_CONSUMER, bodies.encode(topics))
    answer(world, RequestCode.CLONE_GROUP_OFFSET)
    known(world, "g")

    async def main() -> None:
        world.cluster.topics |= {"t": 1, "u": 1}
        async with admin(world) as looking:
            await looking.group.clone_offsets("g", "h")
            sent = [
                one.header(CloneOffsets) for one in asked(world, RequestCode.CLONE_GROUP_OFFSET)
            ]
            assert [(one.src_group, one.dest_group, one.topic) for one in sent] == [
                ("g", "h", "t"),
                ("g", "h", "u"),
            ]
            none = TopicNames(broker_address="", topics=[])
            answer(
                world,
                RequestCode.QUERY_TOPICS_BY_CONSUMER,
                bodies.encode(none),
            )
            with pytest.raises(NoSuchGroup, match="committed in no topic"):
                await looking.group.clone_offsets("g", "h")

    world.run(main)
