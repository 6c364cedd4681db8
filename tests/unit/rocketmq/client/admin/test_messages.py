"""Messages are found by key and by both their ids."""

from typing import Any

import pytest

from sprocket.base.errors import (
    BrokerRefused,
)
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.producer import Producer
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.model.message import Message


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


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
