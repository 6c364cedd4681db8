"""What is done every day is with the admin itself, the rest with its subject."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from sprocket.base.errors import (
    ClientError,
)
from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.producer import Producer
from sprocket.rocketmq.model.message import Message

GUIDE = Path(__file__).parents[5] / "docs" / "guides" / "client.md"


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


def test_the_guide_lists_what_there_is() -> None:
    """Every part of the admin with each of its methods, and no other."""
    looking = Admin("10.0.0.1:9876")
    rows = re.findall(r"^\| `admin(\.\w+)?`[^|]*\| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    told = {part[1:]: set(re.findall(r"`(\w+)`", text)) for part, text in rows}
    subjects = {name for name in vars(looking) if not name.startswith("_")}
    assert subjects | {""} == told.keys()
    for part, names in told.items():
        found = inspect.getmembers(getattr(looking, part) if part else looking, inspect.ismethod)
        there = {name for name, _ in found if not name.startswith("_")}
        assert names == there - {"start", "close"}, part
