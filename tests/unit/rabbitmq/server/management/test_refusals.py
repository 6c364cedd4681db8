"""Whoever asks a broker that stores nothing is told so: checks, the node, metrics."""

import asyncio
import errno
from dataclasses import replace

import aio_pika
import pytest
import requests
from aio_pika.exceptions import DeliveryError
from tests.waits import LONG_SECONDS

from sprocket.node.rabbitmq import AmqpNode
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

CHECKS = ("alarms", "local-alarms", "virtual-hosts")
CALLS = [
    ("sync", errno.EIO, False),
    ("write", errno.ENOSPC, True),
]
"""What fails, with which error, and whether all is well again with the next message."""


async def asked(node: AmqpNode, path: str) -> requests.Response:
    """Ask the HTTP API for something."""
    url = f"http://{node.http_address}{path}"
    return await asyncio.to_thread(requests.get, url, auth=("guest", "guest"), timeout=LONG_SECONDS)


async def check(node: AmqpNode, *, is_well: bool) -> None:
    """Hold every answer against what it should be."""
    for name in CHECKS:
        answer = await asked(node, f"/api/health/checks/{name}")
        assert (name, answer.status_code) == (name, 200 if is_well else 503)
    expected = "ok" if is_well else "failed"
    assert (await asked(node, "/api/healthchecks/node")).json()["status"] == expected
    (shown,) = (await asked(node, "/api/nodes")).json()
    assert shown["disk_free_alarm"] is not is_well
    states = (await asked(node, "/api/vhosts/%2F")).json()["cluster_state"].values()
    assert [*states] == ["running" if is_well else "stopped"]
    metrics = (await asked(node, "/metrics")).text
    assert f"rabbitmq_alarms_free_disk_space_watermark {0 if is_well else 1}" in metrics


@pytest.mark.parametrize(("call", "number", "is_passing"), CALLS)
def test_every_check_says_that_nothing_is_stored(call: str, number: int, is_passing: bool) -> None:
    """From the message that was refused on, until one is stored again."""

    async def life() -> None:
        disk = SimulatedDisk()
        settings = small_settings()
        settings = replace(settings, amqp=replace(settings.amqp, port=0))
        node = await AmqpNode.start(settings, "/node", disk=disk)
        connection = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)

        async def publish() -> None:
            message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "q")

        await publish()
        await check(node, is_well=True)
        disk.fail(call, 1, number)
        with pytest.raises(DeliveryError):
            await publish()
        await check(node, is_well=False)
        if is_passing:
            await publish()
            await check(node, is_well=True)
        await connection.close()
        await node.stop()

    asyncio.run(life())


def test_syncs_are_counted_with_the_time_that_they_took() -> None:
    """As RabbitMQ tells it, of the node: publishers with confirms wait for them."""

    async def life() -> None:
        settings = small_settings()
        settings = replace(settings, amqp=replace(settings.amqp, port=0))
        node = await AmqpNode.start(settings, "/node", disk=SimulatedDisk())
        connection = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        (before,) = (await asked(node, "/api/nodes")).json()
        for _ in range(3):
            message = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "q")
        (after,) = (await asked(node, "/api/nodes")).json()
        assert after["io_sync_count"] >= before["io_sync_count"] + 3
        assert after["io_sync_avg_time"] > 0
        syncs = node.broker.syncs
        assert 0 < syncs.ms(0.99) <= syncs.ms_max
        await connection.close()
        await node.stop()

    asyncio.run(life())
