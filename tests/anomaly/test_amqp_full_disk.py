"""What clients see while the disk is full, and once there is room again; nobody meets silence.

Two things may come: the free space falls below the limit, which clients are told
(`connection.blocked`); and every write fails, which whoever wants something stored is told by the
protocol: a nack, or an error that closes the channel or the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError, DeliveryError
from tests.amqp import message, method
from tests.amqp_socket import RawClient
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFull
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.codec.amqp import methods, properties
from sprocket.rabbitmq.model.binding import Destination
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.resource import ResourceKind
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

    def depth(self, name: str) -> tuple[int, int]:
        """Return how many messages of a queue are ready, and with consumers."""
        queue = self.node.broker.vhosts["/"].find(name)
        assert queue is not None
        return queue.depth().ready, queue.unacked_count

    async def again(self) -> AbstractChannel:
        """Kill the node, start it on what the disk has, and return a channel."""
        self.disk = self.disk.kill()
        await self.node.stop()
        await self.begin()
        return await (await self.connect()).channel()

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
    """Without a restart; what was confirmed is there after a kill, what was refused is nowhere."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        assert await scene.publish(channel, 1, 2) == [1, 2]
        scene.disk.is_full = True
        assert await scene.publish(channel, 3, 4) == []
        assert await scene.publish(channel, 5) == []
        assert scene.depth("q") == (2, 0)
        assert scene.node.broker.vhosts["/"].store.log.pending_bytes == 0
        scene.disk.is_full = False
        assert await scene.publish(channel, 6, 7) == [6, 7]
        scene.disk = scene.disk.kill()
        await opened.close()
        await scene.node.stop()
        await scene.begin()
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True, passive=True)
        assert await drained(queue) == [1, 2, 6, 7]
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


def nack_count(answers: Sequence[object]) -> int:
    """Return how many of some publishes were refused."""
    return sum(isinstance(one, DeliveryError) for one in answers)


async def publish(
    channel: AbstractChannel,
    exchange: str,
    numbers: Iterable[int],
    size: int = 0,
    **headers: aio_pika.abc.FieldValue,
) -> list[object]:
    """Publish to an exchange, with the key `q`; return what became of each."""
    target = await channel.get_exchange(exchange, ensure=False)
    answers: list[object] = await asyncio.gather(
        *(
            target.publish(
                aio_pika.Message(
                    b"%d" % number + bytes(size),
                    delivery_mode=2,
                    message_id=f"task-{number}",
                    headers=headers,
                ),
                "q",
                mandatory=False,
            )
            for number in numbers
        ),
        return_exceptions=True,
    )
    return answers


def test_what_a_consumer_was_given_and_is_refused_comes_to_nobody() -> None:
    """Who has it may acknowledge it, or give it back, or go: nothing becomes of it."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        consumers = await opened.channel()
        mine = await consumers.get_queue("q")
        got: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await mine.consume(got.put)
        scene.disk.is_full = True
        assert await scene.publish(channel, *range(4)) == []
        given = [await got.get() for _ in range(4)]
        assert scene.depth("q") == (0, 4)
        await given[0].ack()
        await given[1].reject(requeue=True)
        await given[2].reject(requeue=False)
        await consumers.close()
        assert scene.depth("q") == (0, 0)
        scene.disk.is_full = False
        assert await scene.publish(channel, 9) == [9]
        assert await drained(queue) == [9]
        channel = await scene.again()
        assert await drained(await channel.get_queue("q")) in ([], [9])

    play(act)


def test_what_was_consumed_before_it_could_be_refused_is_confirmed() -> None:
    """As RabbitMQ does: nobody needs it any more."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        await queue.consume(ignored, no_ack=True)
        scene.disk.is_full = True
        assert await scene.publish(channel, 1, 2) == [1, 2]
        assert scene.depth("q") == (0, 0)
        scene.disk.is_full = False
        channel = await scene.again()
        assert await drained(await channel.get_queue("q")) == []

    play(act)


@pytest.mark.parametrize("size", [10, 6000])
def test_what_goes_to_many_queues_is_refused_in_all(size: int) -> None:
    """Also in a queue that is only in memory; what the message store has is as before."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        names = ["q", "r", "s"]
        for name in names:
            queue = await channel.declare_queue(name, durable=name != "s")
            await queue.bind("amq.fanout")
        assert nack_count(await publish(channel, "amq.fanout", [1], size)) == 0
        scene.disk.is_full = True
        for first in range(2, 20, 3):
            assert (
                nack_count(await publish(channel, "amq.fanout", range(first, first + 3), size)) == 3
            )
        store = scene.node.broker.vhosts["/"].store
        assert [scene.depth(name) for name in names] == [(1, 0)] * 3
        assert store.log.pending_bytes == 0
        scene.disk.is_full = False
        assert nack_count(await publish(channel, "amq.fanout", [30, 31], size)) == 0
        channel = await scene.again()
        for name in names[:2]:
            assert await drained(await channel.get_queue(name)) == [1, 30, 31]
        assert scene.node.broker.vhosts["/"].store.report.damage == []

    play(act)


def test_a_transaction_that_is_refused_has_done_nothing() -> None:
    """What was published in it is nowhere, and what was acknowledged in it comes again."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        await channel.declare_queue("q", durable=True)
        await channel.declare_queue("r", durable=True)
        assert await scene.publish(channel, 1, 2) == [1, 2]
        await channel.close()
        channel = await opened.channel(publisher_confirms=False)
        queue = await channel.get_queue("q")
        taken = await queue.get()
        scene.disk.is_full = True
        await channel.transaction().select()
        await channel.default_exchange.publish(letter(3), "r", mandatory=False)
        await taken.ack()
        with pytest.raises(AMQPError):
            await channel.transaction().commit()
        while scene.depth("q") != (2, 0):
            await asyncio.sleep(0.001)
        assert scene.depth("r") == (0, 0)
        scene.disk.is_full = False
        channel = await scene.again()
        assert await drained(await channel.get_queue("q")) == [1, 2]
        assert await drained(await channel.get_queue("r")) == []

    play(act)


def test_a_dead_letter_stays_where_it_is_while_the_disk_is_full() -> None:
    """On the disk: a kill brings it back. When there is room it is where it was passed on to."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        queue = await channel.declare_queue("q", durable=True, arguments=letters)
        dead = await channel.declare_queue("dead", durable=True)
        assert await scene.publish(channel, *range(5)) == [*range(5)]
        scene.disk.is_full = True
        assert await scene.publish(channel, 9) == []
        for _ in range(3):
            await (await queue.get()).reject(requeue=False)
        assert await scene.publish(channel, 9) == []
        assert scene.depth("q") == (2, 0)
        before = scene.disk.kill()
        scene.disk.is_full = False
        assert await scene.publish(channel, 6) == [6]
        while scene.depth("dead") != (3, 0):
            scene.clock.advance(100)
            await asyncio.sleep(0.01)
        assert await drained(dead) == [0, 1, 2]
        assert await drained(queue) == [3, 4, 6]
        await opened.close()
        await scene.node.stop()
        scene.disk = before
        scene.disk.is_full = False
        await scene.begin()
        channel = await (await scene.connect()).channel()
        assert await drained(await channel.get_queue("q")) == [*range(5)]

    play(act)


def test_a_full_queue_keeps_what_it_would_drop_for_what_is_refused() -> None:
    """What is at its head goes when what came instead is stored."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True, arguments={"x-max-length": 3})
        assert await scene.publish(channel, *range(5)) == [*range(5)]
        assert scene.depth("q") == (3, 0)
        scene.disk.is_full = True
        assert await scene.publish(channel, 7, 8) == []
        assert await scene.publish(channel, 9, 10, 11, 12) == []
        assert scene.depth("q") == (3, 0)
        scene.disk.is_full = False
        assert await scene.publish(channel, 5) == [5]
        assert await drained(queue) == [3, 4, 5]

    play(act)


def test_a_delayed_message_that_is_refused_never_comes() -> None:
    """Also if it is due before that is known."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        queue = await channel.declare_queue("q", durable=True)
        later = await channel.declare_exchange(
            "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
        )
        await queue.bind(later)
        scene.disk.is_full = True
        delay = {"x-delay": 1}
        assert nack_count(await publish(channel, "later", range(5), **delay)) == 5
        vhost = scene.node.broker.vhosts["/"]
        assert (vhost.delays.counts(), vhost.store.log.pending_bytes) == ({}, 0)
        scene.disk.is_full = False
        assert nack_count(await publish(channel, "later", [7], **delay)) == 0
        scene.clock.advance(1000)
        while scene.depth("q") != (1, 0):
            await asyncio.sleep(0.01)
        assert await drained(queue) == [7]

    play(act)


def test_a_delayed_exchange_is_not_made_anew_before_the_old_one_is_gone() -> None:
    """That is, before what the old one has kept cannot come back: there is no room to say so."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        arguments = {"x-delayed-type": "fanout"}
        await channel.declare_exchange(
            "later", "x-delayed-message", durable=True, arguments=arguments
        )
        delay = {"x-delay": 3_600_000}
        assert nack_count(await publish(channel, "later", range(5), **delay)) == 0
        vhost = scene.node.broker.vhosts["/"]
        going = Destination(ResourceKind.EXCHANGE, "later")
        wal = f"{vhost.store.log.folder}/sprocket.wal."

        def look(call: str, path: str) -> None:
            scene.disk.is_full = call == "write" and path.startswith(wal)

        scene.disk.before = look
        await channel.exchange_delete("later")
        await scene.node.broker.settle()
        assert vhost.is_going(going)
        scene.disk.before, scene.disk.is_full = None, False
        again = await channel.declare_exchange(
            "later", "x-delayed-message", durable=True, arguments=arguments
        )
        assert again is not None
        await scene.again()
        assert scene.node.broker.vhosts["/"].delays.counts() == {}

    play(act)


def test_a_publisher_without_confirms_is_stopped_before_memory_is() -> None:
    """What nobody waits for is kept; from some bytes on its sender has to go."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel(publisher_confirms=False)
        await channel.declare_queue("q", durable=True)
        scene.disk.is_full = True
        body = bytes(1 << 20)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while sent < 100:
                sent += 1
                message = aio_pika.Message(body, delivery_mode=2)
                await channel.default_exchange.publish(message, "q", mandatory=False)
                await asyncio.sleep(0.01)

        with pytest.raises((AMQPError, ChannelInvalidStateError)):
            await flood()
        assert sent < 40
        assert scene.depth("q")[0] < 40
        scene.disk.is_full = False

    play(act)


def test_a_node_starts_on_a_full_disk() -> None:
    """After a kill, with the room that it has kept back; there is nothing left of that then."""

    async def act(scene: Scene) -> None:
        opened = await scene.connect()
        channel = await opened.channel()
        await channel.declare_queue("q", durable=True)
        assert await scene.publish(channel, 1, 2) == [1, 2]
        await opened.close()
        disk = scene.disk = scene.disk.kill()
        await scene.node.stop()
        disk.is_full = True

        def look(call: str, path: str) -> None:
            if call == "remove" and path.endswith("sprocket.reserve"):
                disk.is_full, disk.before = False, None

        disk.before = look
        await scene.begin()
        assert not disk.is_full
        channel = await (await scene.connect()).channel()
        assert await drained(await channel.get_queue("q")) == [1, 2]

    play(act)


def test_a_node_without_room_that_was_kept_back_says_that_the_disk_is_full() -> None:
    """And starts when there is room."""

    async def act(scene: Scene) -> None:
        disk = scene.disk = scene.disk.kill()
        await scene.node.stop()
        disk.remove("/node/rabbitmq/sprocket.reserve")
        disk.is_full = True
        with pytest.raises(DiskFull):
            await scene.begin()
        disk.is_full = False
        await scene.begin()

    play(act)
