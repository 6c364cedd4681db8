"""Messages that the disk does not give back: they are told, and nobody waits for them."""

import asyncio
import logging
from dataclasses import replace

import aio_pika
import pytest
from tests.waits import LONG_SECONDS

from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

BODY_BYTES = 5000
"""More than is kept in a queue's index."""
SETTINGS = small_settings()


async def started(disk: SimulatedDisk) -> tuple[AmqpNode, BrokerQueue | None]:
    """Start a node on what the disk has; return it, and its queue."""
    settings = replace(SETTINGS, amqp=replace(SETTINGS.amqp, port=0))
    node = await AmqpNode.start(settings, "/node", disk=disk)
    return node, node.broker.vhosts["/"].find("q")


async def published() -> SimulatedDisk:
    """Return the disk of a node that was stopped, with three messages in a queue."""
    disk = SimulatedDisk()
    node, _ = await started(disk)
    opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    channel = await opened.channel()
    await channel.declare_queue("q", durable=True)
    for number in range(3):
        body = b"body %d " % number + bytes(BODY_BYTES)
        message = aio_pika.Message(body, delivery_mode=2)
        await channel.default_exchange.publish(message, "q")
    await opened.close()
    await node.stop()
    return disk.kill()


def damage(disk: SimulatedDisk, number: int) -> None:
    """Flip a bit of a message's body."""
    (path,) = (path for path in disk.contents() if path.endswith("persistent/0.rdq"))
    at = disk.contents()[path].index(b"body %d " % number)
    file = disk.open(path, write=True)
    file.write([b"B"], at)
    file.close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_message_is_told_and_not_counted(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is first, or last, or between others: they are delivered, and nothing is left."""

    async def scene() -> None:
        disk = await published()
        damage(disk, number)
        node, queue = await started(disk)
        assert queue is not None
        opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
        channel = await opened.channel()
        mine = await channel.get_queue("q")
        first = await mine.get()
        while queue.depth().ready > 1:  # as soon as it was to be read
            await asyncio.sleep(0.001)
        await first.ack()
        got = [int(first.body[5:6])]
        while (one := await mine.get(fail=False)) is not None:
            got.append(int(one.body[5:6]))
            await one.ack()
        assert got == [one for one in range(3) if one != number]
        assert queue.depth()[:2] == (0, 0)
        assert (queue.depth().ready_bytes, queue.storage_depth().durable_count) == (0, 0)
        for _ in range(2):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        assert queue.depth()[:2] == (2, 0)
        await opened.close()
        await node.stop()

    asyncio.run(asyncio.wait_for(scene(), LONG_SECONDS))
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert sum("cannot be given out" in one for one in told) == 1
    assert any("another checksum" in one and "queue='q'" in one for one in told)
