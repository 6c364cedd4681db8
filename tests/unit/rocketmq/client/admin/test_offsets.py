"""Offsets of single queues are told and set."""

from typing import Any

import pytest

from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.headers import TimestampAnswer
from sprocket.rocketmq.errors import NoRoute


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


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


def test_what_a_group_has_committed_is_told_and_set(world: Any) -> None:
    """None for nothing; and how old the oldest message is, None for none."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        queue = world.queue(0)
        ages = iter((7, -1))
        world.cluster.on[RequestCode.GET_EARLIEST_MSG_STORETIME] = lambda peer, command: peer.send(
            response(command, 0, TimestampAnswer(timestamp=next(ages)))
        )
        async with admin(world) as looking:
            assert await looking.offset.committed("g", queue) is None
            await looking.offset.commit("g", queue, 5)
            assert await looking.offset.committed("g", queue) == 5
            assert await looking.offset.earliest_at_ms(queue) == 7
            assert await looking.offset.earliest_at_ms(queue) is None

    world.run(main)
