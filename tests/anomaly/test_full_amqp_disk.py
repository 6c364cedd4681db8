"""A disk that is full while clients publish over AMQP: nothing is kept that was refused."""

import asyncio
from dataclasses import replace

import aio_pika
import pytest
from aio_pika.exceptions import DeliveryError

from sprocket.base.progress import unwatched
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.model.names import QueueName
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

FOLDER = "/node"
REFUSED = 20
"""After so many refusals there is room again."""


async def published() -> tuple[SimulatedDisk, int, int, int]:
    """Publish while the disk is full; return it, and what was confirmed, refused and counted."""
    disk = SimulatedDisk()
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    node = await AmqpNode.start(settings, FOLDER, disk=disk)
    opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    channel = await opened.channel()
    await channel.declare_queue("q", durable=True)
    counts = [0, 0]

    async def publish(number: int) -> None:
        size = 5000 if number % 2 else 10
        message = aio_pika.Message(bytes(size), delivery_mode=2)
        try:
            await channel.default_exchange.publish(message, "q", mandatory=False)
            counts[0] += 1
        except DeliveryError:
            counts[1] += 1

    disk.is_full = True
    waiting: list[asyncio.Task[None]] = []
    while counts[1] < REFUSED:
        waiting.append(asyncio.ensure_future(publish(len(waiting))))
        await asyncio.sleep(0.001)
    assert counts[0] == 0
    disk.is_full = False
    await asyncio.gather(*waiting)
    found = await channel.declare_queue("q", passive=True)
    counted = found.declaration_result.message_count
    await opened.close()
    killed = disk.kill()
    await node.stop()
    assert counted is not None
    return killed, counts[0], counts[1], counted


@pytest.mark.slow
def test_what_a_full_disk_refuses_is_nowhere() -> None:
    """What was taken before waits until there is room; the rest is refused, and is not stored."""
    disk, confirmed, refused, counted = asyncio.run(asyncio.wait_for(published(), 120))
    assert refused >= REFUSED
    assert counted == confirmed > 0
    folder = NodeFolder.open(disk, f"{FOLDER}/rabbitmq", small_settings(), unwatched)
    assert folder.stores["/"].queue(QueueName("/", "q")).unacked_count() == confirmed
    folder.close()
