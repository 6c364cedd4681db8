"""Offsets rise, are stored when they have changed, and again when storing failed."""

import asyncio
from collections.abc import Mapping
from typing import Any

from sprocket.rocketmq.client.consumer.queues import BrokerLedger, Offsets
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue


def test_a_lower_offset_is_ignored_unless_the_queue_has_moved(world: Any) -> None:
    """`note` never goes back; `overwrite` does; `forget` drops."""

    async def main() -> None:
        instance = world.instance()
        offsets = Offsets("g", BrokerLedger("g", instance.brokers))
        queue = world.queue(0)
        assert offsets.get(queue) is None
        offsets.note(queue, QueueOffset(5))
        offsets.note(queue, QueueOffset(3))
        assert offsets.get(queue) == 5
        offsets.overwrite(queue, QueueOffset(3))
        assert offsets.get(queue) == 3
        offsets.forget(queue)
        assert offsets.get(queue) is None
        await instance.close()

    world.run(main)


def test_only_changes_are_stored_and_failures_are_repeated(world: Any) -> None:
    """A broker that is away costs nothing but time."""

    async def main() -> None:
        world.cluster.topics["t"] = 2
        instance = world.instance()
        await instance.routes.find("t")
        offsets = Offsets("g", BrokerLedger("g", instance.brokers))
        assert await offsets.store(world.queue(0))
        offsets.note(world.queue(0), QueueOffset(1))
        offsets.note(world.queue(1), QueueOffset(2))
        await offsets.store()
        await offsets.store()
        assert world.cluster.seen.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 2
        offsets.note(world.queue(1), QueueOffset(3))
        await world.cluster.stop()
        assert not await offsets.store(world.queue(1))
        await world.cluster.start()
        await offsets.store()
        assert world.cluster.committed == {("g", "t", 0): 1, ("g", "t", 1): 3}
        await instance.close()

    world.run(main)


class Book:
    """A ledger that notes what is written, and may be told to wait with it."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def read(self, _: MessageQueue) -> QueueOffset | None:
        """Say that there is none."""
        return None

    async def write(
        self, offsets: Mapping[MessageQueue, QueueOffset]
    ) -> Mapping[MessageQueue, str]:
        """Note them."""
        self.written += offsets.values()
        await self.go_on.wait()
        return {}


def test_what_was_read_once_more_is_stored_once_more(world: Any) -> None:
    """After a reset by an operator, up to the offset that was stored before it."""

    async def main() -> None:
        book, queue = Book(), world.queue(0)
        offsets = Offsets("g", book)
        offsets.note(queue, QueueOffset(20))
        await offsets.store()
        for _ in range(2):
            offsets.moved(queue)
            offsets.overwrite(queue, QueueOffset(0))
            offsets.note(queue, QueueOffset(20))
            await offsets.store()
        assert book.written == [20, 20, 20]
        await offsets.store()
        assert book.written == [20, 20, 20]

    world.run(main)


def test_a_reset_while_the_offset_is_being_stored(world: Any) -> None:
    """The broker ignores what it was sent; what follows is stored, though it is the same."""

    async def main() -> None:
        book, queue = Book(), world.queue(0)
        offsets = Offsets("g", book)
        offsets.note(queue, QueueOffset(20))
        book.go_on.clear()
        storing = asyncio.ensure_future(offsets.store())
        await asyncio.sleep(0)
        offsets.moved(queue)
        offsets.overwrite(queue, QueueOffset(0))
        offsets.note(queue, QueueOffset(20))
        book.go_on.set()
        await storing
        await offsets.store()
        assert book.written == [20, 20]

    world.run(main)
