"""Offsets rise, are stored when they have changed, and again when storing failed."""

from typing import Any

from sprocket.rocketmq.client.consumer.queues import BrokerLedger, Offsets
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.model.offsets import QueueOffset


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
