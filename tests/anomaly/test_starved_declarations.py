"""A node that has no file descriptor left refuses what it cannot do then, and nothing later."""

import asyncio
from dataclasses import replace

import aio_pika
import pytest
from aio_pika.exceptions import AMQPError, DeliveryError
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskRefused
from sprocket.node.rabbitmq import AmqpNode
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

OPENING = "open", "create", "sync_folder"
"""Calls that need a descriptor."""
TRIES = 4
"""As many queues are declared while there is none."""


async def is_done(node: AmqpNode, name: str) -> bool:
    """Declare a durable queue, and have a message in it confirmed; say whether both were done."""
    try:
        await declare_and_publish(node, name)
    except (AMQPError, DeliveryError):
        return False
    return True


async def declare_and_publish(node: AmqpNode, name: str) -> None:
    """Do so. Raises AMQPError, DeliveryError: one of both was refused."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(name, durable=True)
        message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, name)
        assert (await queue.get(no_ack=True)).body == b"x"


@pytest.mark.parametrize("skipped", range(4))
def test_a_queue_can_be_declared_once_there_are_descriptors_again(skipped: int) -> None:
    """From whichever call on there was none: of journals, folders or the log's next file.

    `queue.declare` was answered with 541 until a restart, and every publish refused.
    """

    async def life() -> list[int]:
        disk = SimulatedDisk()
        settings = small_settings()
        limits = replace(
            settings.amqp_durability, confirm_timeout_ms=100
        )  # what waits for a descriptor is refused soon
        settings = replace(settings, amqp=replace(settings.amqp, port=0), amqp_durability=limits)
        node = await AmqpNode.start(settings, "/node", disk=disk)
        while not await is_done(node, "before"):
            pass
        left = skipped
        is_starved = True

        def refuse(call: str, path: str) -> None:
            nonlocal left
            if not is_starved or call not in OPENING:
                return
            left -= 1
            if left < 0:
                raise DiskRefused(f"{call} {path}: Too many open files", path)

        disk.before = refuse
        refused = [number for number in range(TRIES) if not await is_done(node, f"q{number}")]
        is_starved = False
        for name in [*(f"q{number}" for number in range(TRIES)), "after"]:
            while not await is_done(node, name):  # what is confirmed late is not at first
                pass
        assert node.broker.refusals == {}
        await node.stop()
        return refused

    assert asyncio.run(asyncio.wait_for(life(), LONG_SECONDS))
