"""A delayed exchange is deleted and declared again, and the power goes at any call to the disk.

If the new one is there, nothing is that the old one has kept.
"""

import asyncio
from dataclasses import replace
from random import Random

import aio_pika
import pytest

from sprocket.base.progress import unwatched
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.model.exchange import DIRECT
from sprocket.rabbitmq.settings import AmqpNodeSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk
from sprocket.testing.local_amqp import small_settings

FOLDER = "/node"
TRIES = 12
"""So many ways in which one loss of power may end."""


async def crashed() -> tuple[AmqpNodeSettings, list[SimulatedDisk]]:
    """Return what losses of power leave, at each call from the deletion on."""
    found: list[SimulatedDisk] = []
    disk = SimulatedDisk()
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    node = await AmqpNode.start(settings, FOLDER, disk=disk, clock=FakeClock())
    opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    channel = await opened.channel()
    kept = {"x-delayed-type": "fanout"}
    later = await channel.declare_exchange(
        "later", "x-delayed-message", durable=True, arguments=kept
    )
    old = aio_pika.Message(b"old", headers={"x-delay": 3_600_000}, delivery_mode=2)
    await later.publish(old, "k", mandatory=False)

    def look(call: str, _path: str) -> None:
        if call in CHANGES:
            disk.before = None
            found.extend(disk.crash(Random(len(found) + n).randrange) for n in range(TRIES))
            disk.before = look

    disk.before = look
    wire = await channel.get_underlay_channel()
    await asyncio.gather(  # both are there before the first is done
        wire.exchange_delete("later", nowait=True),
        wire.exchange_declare(
            exchange="later",
            exchange_type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "direct"},
        ),
    )
    look(next(iter(CHANGES)), "")
    disk.before = None
    await opened.close()
    await node.stop()
    return settings, found


@pytest.mark.slow
def test_what_a_deleted_exchange_has_kept_does_not_come_back() -> None:
    """Whatever part of what was not synced is there."""
    settings, disks = asyncio.run(asyncio.wait_for(crashed(), 120))
    new = 0
    for disk in disks:
        folder = NodeFolder.open(disk, f"{FOLDER}/rabbitmq", settings, unwatched)
        (topology,) = folder.vhosts
        exchange = topology.find_exchange("later")
        if exchange is not None and exchange.routing_type == DIRECT:
            new += 1
            assert folder.stores["/"].delayed.counts == {}
        folder.close()
    assert new > TRIES // 2
    assert len(disks) > new
