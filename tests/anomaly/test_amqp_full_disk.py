"""What clients see while the disk is full, and once there is room again; nobody meets silence.

Two things may come: the free space falls below the limit, which clients are told
(`connection.blocked`); and every write fails, which whoever wants something stored is told by the
protocol: a nack, or an error that closes the channel or the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import chain

import aio_pika
import pytest
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aio_pika.exceptions import AMQPError, DeliveryError
from tests.amqp import message, method
from tests.amqp_socket import RawClient
from tests.waits import LONG_SECONDS

from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.codec.amqp import methods, properties
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

SECONDS_MAX = LONG_SECONDS
FREE_MIN = 50_000_000
PROPERTIES = properties.encode(
    BasicProperties(content_type="application/json", delivery_mode=2, message_id="task-1")
)


def letter(number: int) -> aio_pika.Message:
    """Return a message as Celery sends it."""
    return aio_pika.Message(
        b'[[%d], {}, {"callbacks": null}]' % number,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        content_type="application/json",
        content_encoding="utf-8",
        message_id=f"task-{number}",
        headers={"lang": "py", "task": "flights.arrive", "retries": 0, "root_id": f"task-{number}"},
    )


class Scene:
    """A node on a simulated disk, with a durable queue."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.clock = FakeClock()

    async def begin(self) -> None:
        """Start a node on what the disk has."""
        settings = small_settings()
        amqp = replace(settings.amqp, port=0, disk_free_bytes_min=FREE_MIN)
        settings = replace(settings, amqp=amqp)
        self.node = await AmqpNode.start(settings, "/node", disk=self.disk, clock=self.clock)

    async def connect(self) -> AbstractConnection:
        """Return a new connection."""
        return await aio_pika.connect(f"amqp://guest:guest@{self.node.address}/")

    async def publish(self, channel: AbstractChannel, *numbers: int) -> list[int]:
        """Publish to `q` and return what was confirmed."""

        async def one(number: int) -> list[int]:
            try:
                await channel.default_exchange.publish(letter(number), "q", mandatory=False)
            except DeliveryError:
                return []
            return [number]

        return list(chain.from_iterable(await asyncio.gather(*map(one, numbers))))


async def drained(queue: AbstractQueue) -> list[int]:
    """Take everything out of a queue."""
    found = []
    while (got := await queue.get(fail=False)) is not None:
        found.append(int(got.message_id.removeprefix("task-")))
        await got.ack()
    return found


async def ignored(_: AbstractIncomingMessage) -> None:
    """Do nothing with a message."""


def play(act: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a test's coroutine with a node."""

    async def main() -> None:
        scene = Scene(SimulatedDisk())
        await scene.begin()
        async with asyncio.timeout(SECONDS_MAX):
            await act(scene)
        await scene.node.stop()

    asyncio.run(main())


def test_a_publisher_with_confirms_gets_nacks_and_then_acks_again() -> None:
    """Without a restart; what was confirmed is there after a kill, what was not may be."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        assert await scene.publish(channel, 1, 2) == [1, 2]
        scene.disk.is_full = True
        assert await scene.publish(channel, 3, 4) == []
        assert await scene.publish(channel, 5) == []
        scene.disk.is_full = False
        assert await scene.publish(channel, 6, 7) == [6, 7]
        scene.disk = scene.disk.kill()
        await opened.close()
        await scene.node.stop()
        await scene.begin()
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True, passive=True)
        left = await drained(queue)
        assert left == sorted(left)
        assert {1, 2, 6, 7} <= set(left) <= set(range(1, 8))
        await opened.close()

    play(act)


def test_consumers_and_acks_go_on() -> None:
    """What was acknowledged while the disk was full is not delivered again while it runs."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        assert await scene.publish(channel, *range(5)) == list(range(5))
        scene.disk.is_full = True
        assert await drained(queue) == list(range(5))
        scene.node.broker.upkeep()
        await scene.node.broker.settle()
        assert await drained(queue) == []
        scene.disk.is_full = False
        scene.node.broker.upkeep()
        await scene.node.broker.settle()
        assert await scene.publish(channel, 6) == [6]
        scene.disk = scene.disk.kill()
        await opened.close()
        await scene.node.stop()
        await scene.begin()
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True, passive=True)
        assert await drained(queue) == [6]
        await opened.close()

    play(act)


@pytest.mark.parametrize("what", ["queue", "exchange", "binding", "deletion"])
def test_a_declarer_is_told(what: str) -> None:
    """By an error that says what is wrong; nothing of it is there, and later it works."""

    async def act(scene: Scene) -> None:
        async def ask(channel: AbstractChannel) -> None:
            match what:
                case "queue":
                    await channel.declare_queue("new", durable=True)
                case "exchange":
                    await channel.declare_exchange("new", durable=True)
                case "binding":
                    queue = await channel.get_queue("q", ensure=False)
                    await queue.bind("amq.direct", "key")
                case "deletion":
                    await channel.queue_delete("q")

        opened = await scene.connect()
        await (await opened.channel()).declare_queue("q", durable=True)
        scene.disk.is_full = True
        with pytest.raises(AMQPError, match="INTERNAL_ERROR"):
            await ask(await opened.channel())
        before = [one.label for one in scene.node.broker.vhosts["/"].queues]
        assert before == ["q"]
        scene.disk.is_full = False
        again = await scene.connect()
        await ask(await again.channel())
        await again.close()

    play(act)


@pytest.mark.slow
def test_a_publisher_without_confirms_is_blocked() -> None:
    """It hears that before the disk is full, and when there is room; nothing it sent is lost."""

    async def act(scene: Scene) -> None:
        client = await RawClient.connect(scene.node, understands=["connection.blocked"])
        declare = methods.QueueDeclare(0, "q", False, True, False, False, False, NO_FIELDS)
        assert isinstance(await client.ask(declare), methods.QueueDeclareOk)
        scene.disk.used = 1 - (FREE_MIN - 1_000_000) / (1 << 30)
        while not scene.node.server.alarms.low:
            await asyncio.sleep(0.05)
        for number in range(3):
            client.writer.write(message(1, b"[%d]" % number, "q", PROPERTIES, exchange=""))
        assert await client.answer() == methods.ConnectionBlocked("low on disk")
        scene.disk.is_full = True
        consumer = await RawClient.connect(scene.node)
        get = methods.BasicGet(0, "q", False)
        assert isinstance(await consumer.ask(get), methods.BasicGetOk)
        scene.disk.is_full, scene.disk.used = False, 0.0
        assert await client.answer() == methods.ConnectionUnblocked()
        client.writer.write(method(1, methods.ConfirmSelect(False)))
        assert isinstance(await client.answer(), methods.ConfirmSelectOk)
        client.writer.write(message(1, b"[3]", "q", PROPERTIES, exchange=""))
        assert await client.answer() == methods.BasicAck(1, False)
        queue = scene.node.broker.vhosts["/"].find("q")
        assert queue is not None
        assert (queue.depth().ready, queue.unacked_count) == (3, 1)
        for one in (client, consumer):
            one.writer.close()

    play(act)


def test_who_goes_away_while_the_disk_is_full_leaves_nothing_behind() -> None:
    """A durable queue that ends with its last consumer goes when there is room again."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("last", durable=True, auto_delete=True)
        await queue.consume(ignored)
        scene.disk.is_full = True
        await opened.close()
        node = scene.node
        assert [one.label for one in node.broker.vhosts["/"].queues] == ["last"]
        scene.disk.is_full = False
        node.broker.upkeep()
        await node.broker.settle()
        assert node.broker.vhosts["/"].queues == []

    play(act)
