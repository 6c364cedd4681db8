"""What is done every day is with the admin itself, the rest with its subject."""

from typing import Any

import pytest

from sprocket.base.errors import (
    ClientError,
)
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.producer import Producer
from sprocket.rocketmq.model.message import Message


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def test_an_admin_that_is_not_open_says_so(world: Any) -> None:
    """The error tells what to do."""

    async def main() -> None:
        with pytest.raises(ClientError, match="async with"):
            await admin(world).topics()

    world.run(main)


def test_the_calls_of_every_day(world: Any) -> None:
    """Each gives what the one of its subject gives."""

    async def main() -> None:
        async with admin(world) as looking, Producer(world.names, **world.reach) as sender:
            await looking.create_topic("t", queues=1)
            sent = await sender.send(Message("t", b"x", keys=["k"]))
            (queue,) = await looking.queues("t")
            assert await looking.topics() == await looking.topic.names() == ["t"]
            assert await looking.route("t") == await looking.topic.route("t")
            assert list((await looking.cluster()).brokers) == ["b"]
            assert (await looking.min_offset(queue), await looking.max_offset(queue)) == (0, 1)
            assert await looking.offset_by_time(queue, 0) == 0
            (found,) = await looking.query_by_key("t", "k")
            same = await looking.view(sent.message_id, "t")
            assert same is not None
            assert found.stored == same.stored

    world.run(main)
