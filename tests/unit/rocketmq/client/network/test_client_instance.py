"""What all clients share: who they are, and how they stay known."""

import asyncio
import os
import re
from typing import Any

import pytest

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.client.network import ClientInstance, JoinedGroup
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerData
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import request


def test_ids_tell_instances_apart(world: Any) -> None:
    """Address, process and a number that no other instance of the process has."""

    async def main() -> None:
        one, two = world.instance(), world.instance()
        assert re.fullmatch(rf"[\d.]+@{os.getpid()}#\d+", one.client_id)
        assert one.client_id != two.client_id
        await one.close()
        await two.close()

    world.run(main)


def test_nameservers_may_be_a_list(world: Any) -> None:
    """Or a text; what is none is refused at once."""

    async def main() -> None:
        instance = ClientInstance([world.names, "10.0.0.9:9876"], None, **world.reach)
        assert instance.names.addresses == [world.names, "10.0.0.9:9876"]
        await instance.close()
        with pytest.raises(SettingsError, match="expected host:port"):
            ClientInstance("nonsense", None, **world.reach)

    world.run(main)


def test_a_new_connection_to_a_broker_begins_with_an_introduction(world: Any) -> None:
    """And who waits for that is told."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        told: list[float] = []
        instance.on_broker_open.append(lambda: told.append(world.clock.monotonic()))
        instance.join_as_producer("p")
        await instance.routes.find("t")
        await instance.connections.channel(world.cluster.broker_address)
        await asyncio.sleep(1)
        assert world.cluster.seen.count(RequestCode.HEART_BEAT) == 1
        assert len(told) == 1
        data = bodies.decode_heartbeat(world.cluster.requests[-1].body)
        assert (data.client_id, data.producers) == (instance.client_id, ["p"])
        await instance.close()

    world.run(main)


def test_a_heartbeat_that_fails_is_survived(world: Any) -> None:
    """It is logged; the next comes at its time."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        instance.join_as_producer("p")
        await instance.routes.find("t")
        await world.cluster.stop()
        await asyncio.sleep(31)
        await world.cluster.start()
        await asyncio.sleep(30)
        assert RequestCode.HEART_BEAT in world.cluster.seen
        await instance.close()

    world.run(main)


def test_what_a_broker_asks_is_heard_or_refused(world: Any) -> None:
    """News of members wakes whoever waits for it; an unknown request gets an answer, by number."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        news: list[str] = []
        instance.join_as_producer("p")
        await instance.routes.find("t")
        await instance.heartbeat_all()
        await asyncio.sleep(1)
        peer = world.cluster.peers[instance.client_id]
        world.cluster.notify_ids_changed(instance.client_id, "g")
        await asyncio.sleep(1)

        def take(_: object, command: Any) -> bool:
            news.append(f"g was sent {command.code}")
            return bool(command.is_oneway)

        data = ConsumerData(group="g")
        instance.join_as_consumer("g", JoinedGroup(lambda: data, take))
        world.cluster.notify_ids_changed(instance.client_id, "g")
        world.cluster.notify_ids_changed(instance.client_id, "another")
        await asyncio.sleep(1)
        assert news == ["g was sent 40"]
        answers: list[Any] = []
        world.cluster.handle = lambda *_: None
        peer.on_event = lambda _, command: answers.append(command)
        peer.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO, 5))
        await asyncio.sleep(1)
        (answer,) = answers
        assert (answer.code, answer.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)
        assert answer.remark == " request type 307 not supported"
        peer.on_event = world.cluster.usual
        await world.cluster.stop()
        await instance.close()

    world.run(main)


def test_the_unit_is_a_part_of_the_id(world: Any) -> None:
    """Two units of one installation can be told apart."""

    async def main() -> None:
        instance = world.instance(unit_name="north")
        assert instance.client_id.endswith("@north")
        await instance.close()

    world.run(main)
