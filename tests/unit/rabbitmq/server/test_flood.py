"""Clients that ask for far more work than they send bytes: a turn of the loop has a bound.

Turns and work are counted, not time: that holds on any machine.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest
from tests.amqp import header, method, publish
from tests.amqp_socket import RawClient
from tests.waits import LONG_SECONDS

from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.topology import Requester
from sprocket.rabbitmq.codec.amqp import methods, properties
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.server import amqp_server
from sprocket.runtime.turns import SHARE_WORK, TURN_WORK, Turns
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

QUEUES = 300
PUBLISHERS = 8
MESSAGES = 150
"""Of each publisher: read at once, they are work for 45,000 queues."""
PROPERTIES = properties.encode(
    BasicProperties(content_type="text/plain", delivery_mode=2, priority=0, message_id="7f3a")
)
SECONDS_MAX = LONG_SECONDS
TURNS_MAX = 4
"""Turns until somebody hears an answer; those of their socket and of ours included."""


@dataclass
class Watch:
    """What turns have done."""

    most_work: int = 0
    turns: list[Turns] = field(default_factory=list)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Look at each turn of each `Turns`: at what came before it, and at what it did."""
    found = Watch()
    run = Turns.run

    def watched(self: Turns) -> None:
        found.most_work = max(found.most_work, TURN_WORK - self.work_left)
        run(self)
        found.most_work = max(found.most_work, TURN_WORK - self.work_left)

    monkeypatch.setattr(Turns, "run", watched)
    return found


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a server that stops wait as long as we do, on a machine that is slow."""
    monkeypatch.setattr(amqp_server, "SETTLE_SECONDS_MAX", SECONDS_MAX)


async def with_node(do: Callable[[AmqpNode], Awaitable[None]]) -> None:
    """Run a node with many queues that one exchange leads to."""
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    node = await AmqpNode.start(settings, "/node", disk=SimulatedDisk(), clock=FakeClock())
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await do(node)
    finally:
        await node.stop()


async def bind_queues(client: RawClient, *, are_exclusive: bool = False) -> None:
    """Declare queues and bind them to `amq.fanout`."""
    for number in range(QUEUES):
        declare = methods.QueueDeclare(
            0, f"q{number}", False, False, are_exclusive, False, False, NO_FIELDS
        )
        assert isinstance(await client.ask(declare), methods.QueueDeclareOk)
        bind = methods.QueueBind(0, f"q{number}", "amq.fanout", "", False, NO_FIELDS)
        assert isinstance(await client.ask(bind), methods.QueueBindOk)


def flood() -> bytes:
    """Return empty messages to all queues, as many as fit into one read."""
    return MESSAGES * (publish(1, "", "amq.fanout") + header(1, 0, PROPERTIES))


def arrived(node: AmqpNode) -> int:
    """Return how many messages have got into the first of the queues."""
    queue = node.broker.vhosts["/"].find("q0")
    assert queue is not None
    return queue.storage_depth().published_count


@pytest.mark.slow
def test_a_flood_keeps_nobody_from_being_heard(watch: Watch) -> None:
    """A new client, a heartbeat and a small publisher wait for a few turns, each of them short."""

    async def do(node: AmqpNode) -> None:
        turns = node.broker.turns
        consumer = await RawClient.connect(node)
        await bind_queues(consumer)
        assert isinstance(
            await consumer.ask(
                methods.QueueDeclare(0, "own", False, False, False, False, False, NO_FIELDS)
            ),
            methods.QueueDeclareOk,
        )
        for number in range(QUEUES // 2):
            consume = methods.BasicConsume(0, f"q{number}", "", False, True, False, True, NO_FIELDS)
            consumer.writer.write(method(1, consume))
        small = await RawClient.connect(node)
        assert isinstance(await small.ask(methods.ConfirmSelect(False)), methods.ConfirmSelectOk)
        publishers = [await RawClient.connect(node) for _ in range(PUBLISHERS)]
        data = flood()
        drained = asyncio.ensure_future(_read_all(consumer))
        for one in publishers:
            one.writer.write(data)
        while not arrived(node):
            await asyncio.sleep(0)
        began = turns.number
        newcomer = await RawClient.connect(node)
        steps = 4  # header, login and vhost, channel: the client waits for none of them
        assert turns.number - began <= steps * TURNS_MAX
        assert arrived(node) < PUBLISHERS * MESSAGES, "the flood is over already"
        began = turns.number
        small.writer.write(publish(1, "own", "") + header(1, 0, PROPERTIES))
        assert isinstance(await small.answer(), methods.BasicAck)
        assert turns.number - began <= TURNS_MAX + PUBLISHERS
        assert arrived(node) < PUBLISHERS * MESSAGES, "the flood is over already"
        assert isinstance(await newcomer.ask(methods.BasicQos(0, 1, False)), methods.BasicQosOk)
        while arrived(node) < PUBLISHERS * MESSAGES or not turns.is_idle:
            await asyncio.sleep(0)
        drained.cancel()
        for one in (consumer, newcomer, small, *publishers):
            one.writer.close()

    asyncio.run(with_node(do))
    assert TURN_WORK <= watch.most_work < TURN_WORK + (1 + PUBLISHERS) * (SHARE_WORK + QUEUES)


async def _read_all(client: RawClient) -> None:
    while await client.reader.read(1 << 16):
        pass


@pytest.mark.slow
def test_who_leaves_much_behind_ends_in_turns(watch: Watch) -> None:
    """Its messages come back and its queues go before it is told that its channel is closed."""

    async def do(node: AmqpNode) -> None:
        owner, publisher = await RawClient.connect(node), await RawClient.connect(node)
        await bind_queues(owner, are_exclusive=True)
        declare = methods.QueueDeclare(0, "back", False, False, False, False, False, NO_FIELDS)
        assert isinstance(await owner.ask(declare), methods.QueueDeclareOk)
        consume = methods.BasicConsume(0, "back", "c", False, False, False, False, NO_FIELDS)
        assert isinstance(await owner.ask(consume), methods.BasicConsumeOk)
        count = 3 * TURN_WORK
        publisher.writer.write(count * (publish(1, "back", "") + header(1, 0, PROPERTIES)))
        for _ in range(count):
            assert isinstance(await owner.answer(), methods.BasicDeliver)
        queue = node.broker.vhosts["/"].find("back")
        assert queue is not None
        assert queue.unacked_count == count
        began = node.broker.turns.number
        closed = await owner.ask(methods.ChannelClose(200, "bye", 0, 0))
        assert isinstance(closed, methods.ChannelCloseOk)
        assert node.broker.turns.number > began
        assert (queue.unacked_count, queue.depth().ready) == (0, count)
        began = node.broker.turns.number
        owner.writer.write(method(0, methods.ConnectionClose(200, "bye", 0, 0)))
        assert isinstance(await owner.answer(), methods.ConnectionCloseOk)
        assert node.broker.turns.number > began
        assert node.broker.vhosts["/"].queues == [queue]
        for one in (owner, publisher):
            one.writer.close()

    asyncio.run(with_node(do))
    assert watch.most_work < 2 * TURN_WORK


@pytest.mark.slow
def test_a_server_that_stops_under_a_flood_takes_leave(watch: Watch) -> None:
    """Whoever floods is told why, and the stop waits for nobody's messages."""

    async def do(node: AmqpNode) -> None:
        owner = await RawClient.connect(node)
        await bind_queues(owner)
        publishers = [await RawClient.connect(node) for _ in range(PUBLISHERS)]
        for one in publishers:
            one.writer.write(flood())
        while not arrived(node):
            await asyncio.sleep(0)
        began = node.broker.turns.number
        node.server.stop()
        await node.server.settle()
        assert node.broker.turns.number <= began + TURNS_MAX
        for one in publishers:
            closed = await one.answer()
            assert isinstance(closed, methods.ConnectionClose)
            assert closed.reply_code == 320
        for one in (owner, *publishers):
            one.writer.close()

    asyncio.run(with_node(do))
    assert watch.most_work < 3 * TURN_WORK + PUBLISHERS * SHARE_WORK


@pytest.mark.slow
def test_a_commit_of_a_lost_client_is_whole_when_the_server_stops() -> None:
    """Its socket is gone, so that nobody waits for its session: turns are waited for."""

    async def do(node: AmqpNode) -> None:
        client = await RawClient.connect(node)
        await bind_queues(client)
        assert isinstance(await client.ask(methods.TxSelect()), methods.TxSelectOk)
        client.writer.write(4 * flood() + method(1, methods.TxCommit()))
        while not arrived(node):
            await asyncio.sleep(0)
        assert arrived(node) < 4 * MESSAGES
        for session in list(node.server.sessions.values()):
            session.drop("its socket is lost")
        while node.server.sessions:
            await asyncio.sleep(0)
        assert arrived(node) < 4 * MESSAGES, "the commit is over already"
        node.server.stop()
        await node.server.settle()
        assert arrived(node) == 4 * MESSAGES
        client.writer.close()

    asyncio.run(with_node(do))


def test_who_leaves_takes_no_queue_with_it_that_is_anothers_by_then() -> None:
    """One of its queues may be gone before it has its turn, and somebody else have the name."""

    async def do(node: AmqpNode) -> None:
        vhost = node.broker.vhosts["/"]
        access = node.broker.users.access("guest", "/")

        def declare(name: str, connection: int) -> None:
            wanted = DeclaredQueue(vhost="/", name=name, is_durable=False, owner=connection)
            vhost.declare(wanted, Requester(access, connection))

        for name in ("first", "second", "third"):
            declare(name, 1001)
        vhost.turns.work_left = 0
        work = vhost.delete_in_turns(1001)
        next(work)
        second = vhost.find("second")
        assert second is not None
        vhost.unused(second)  # it has expired
        declare("second", 1002)
        for _ in work:
            pass
        assert [one.label for one in vhost.queues] == ["second"]

    asyncio.run(with_node(do))
