"""Copies that the broker itself makes, and a power cut at any call to the disk.

Dead letters (rejected, expired, too many), delayed messages, what is given back, by a client or by
the next start of a broker that was killed, those of an alternate exchange and of one that is bound
to another, transactions. Whatever part of what was not
synced the disk has kept: what was confirmed is there once, and what was acknowledged in a
transaction that was answered is not.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from sprocket.base.disk import steps
from sprocket.base.progress import unwatched
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import AmqpNodeSettings
from sprocket.testing.disk import CHANGES, SimulatedDisk
from sprocket.testing.local_amqp import small_settings

FOLDER = "/node"
LARGE_BYTES = 5000
"""More than is kept in a queue's index."""
SOURCE_MAX = 5
TTL_MS = 1
QUEUES = "source", "dead", "due", "alternate", "bound", "short"


@dataclass
class State:
    """What a power cut has left, and what was known when it came.

    Attributes:
        disk: What it has left.
        confirmed: Numbers of messages that were confirmed.
        gone: Those whose acknowledgement was answered.
        going: Those that were acknowledged.
    """

    disk: SimulatedDisk
    confirmed: set[int]
    gone: set[int]
    going: set[int]


@dataclass
class Cuts:
    """Cuts the power at each call to a disk, in some ways, while everything goes on."""

    disk: SimulatedDisk
    random: Random
    tries: int
    confirmed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)
    states: list[State] = field(default_factory=list)

    def look(self, call: str, _path: str) -> None:
        """Cut the power before a call."""
        if call not in CHANGES:
            return
        self.disk.before = None
        for _ in range(self.tries):
            found = self.disk.crash(self.random.randrange)
            known = set(self.confirmed), set(self.gone), set(self.going)
            self.states.append(State(found, *known))
        self.disk.before = self.look


def body(number: int) -> bytes:
    """Return what a message says."""
    return (b"%d " % number).ljust(LARGE_BYTES if number % 3 else 10, b"x")


async def crashed(seed: int, messages: int, tries: int) -> tuple[AmqpNodeSettings, list[State]]:
    """Return the states of a broker that makes copies, is killed, and goes on with what it has."""
    cuts = Cuts(SimulatedDisk(), Random(seed), tries)
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    for first in (0, messages):
        await life(settings, cuts, range(first, first + messages))
    return settings, cuts.states


async def life(settings: AmqpNodeSettings, cuts: Cuts, numbers: range) -> None:
    """Work from the start of a node to its kill, which comes while somebody has messages."""
    if numbers.start:
        cuts.disk.before = cuts.look
    node = await AmqpNode.start(settings, FOLDER, disk=cuts.disk)
    opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    channel = await opened.channel()
    await declared(channel)
    cuts.disk.before = cuts.look

    async def publish(number: int) -> None:
        exchange, key = [
            ("", "source"),
            ("", "source"),
            ("later", "k"),
            ("front", "unknown"),
            ("one", "k"),
            ("", "short"),
        ][number % 6]
        headers: dict[str, aio_pika.abc.FieldValue] = {"x-delay": 1} if exchange == "later" else {}
        message = aio_pika.Message(body(number), delivery_mode=2, headers=headers)
        target = await channel.get_exchange(exchange, ensure=False)
        await target.publish(message, key, mandatory=False)
        cuts.confirmed.add(number)

    for first in numbers[::10]:
        await asyncio.gather(*(publish(number) for number in range(first, first + 10)))
        await settled(opened, cuts, 1000 + first)
    holding = await opened.channel()
    for name in ("source", "dead"):
        assert await (await holding.get_queue(name)).get(fail=False) is not None
    cuts.disk.before = None
    left = cuts.disk.kill()
    await opened.close()
    await node.stop()
    cuts.disk = left


async def declared(channel: AbstractChannel) -> None:
    """Declare everything."""
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    dying = {
        "source": {**letters, "x-max-length": SOURCE_MAX},
        "short": {**letters, "x-message-ttl": TTL_MS},
    }
    for name in QUEUES:
        await channel.declare_queue(name, durable=True, arguments=dying.get(name))
    later = await channel.declare_exchange(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )
    back = await channel.declare_exchange("back", "fanout", durable=True)
    await channel.declare_exchange(
        "front", "direct", durable=True, arguments={"alternate-exchange": "back"}
    )
    one = await channel.declare_exchange("one", "fanout", durable=True)
    two = await channel.declare_exchange("two", "fanout", durable=True)
    await two.bind(one)
    for exchange, name in ((later, "due"), (back, "alternate"), (two, "bound")):
        await (await channel.get_queue(name)).bind(exchange)


async def settled(opened: aio_pika.abc.AbstractConnection, cuts: Cuts, number: int) -> None:
    """Reject one message, give one back, and acknowledge and publish in one transaction."""
    channel = await opened.channel(publisher_confirms=False)
    source = await channel.get_queue("source")
    rejected = await source.get(fail=False)
    assert rejected is not None
    await rejected.reject(requeue=False)
    returned = await source.get(fail=False)
    assert returned is not None
    await returned.reject(requeue=True)
    taken = await source.get(fail=False)
    assert taken is not None
    done = int(taken.body.split()[0])
    async with channel.transaction():
        message = aio_pika.Message(body(number), delivery_mode=2)
        await channel.default_exchange.publish(message, "source", mandatory=False)
        cuts.going.add(done)
        await taken.ack()
    cuts.gone.add(done)
    cuts.confirmed.add(number)
    await channel.close()


def check(settings: AmqpNodeSettings, state: State) -> None:
    """Open what a power cut has left, and compare."""
    folder = NodeFolder.open(state.disk, f"{FOLDER}/rabbitmq", settings, unwatched)
    store = folder.stores["/"]
    found: list[BasicMessage] = []
    for name in QUEUES:
        queue = store.queue(QueueName("/", name))
        some = steps.run(queue.read(0, 1 << 40))
        assert len(some) == queue.unacked_count()
        found += [one.message for one in some]
    found += [one.message for one in steps.run(store.delayed.take_steps(1 << 60, 1 << 20))]
    counts = Counter(int(one.body.split()[0]) for one in found)
    for one in found:
        assert one.body == body(int(one.body.split()[0]))
    doubles = {number for number, count in counts.items() if count > 1}
    assert not doubles, f"there twice: {doubles}"
    lost = state.confirmed - state.going - set(counts)
    assert not lost, f"lost: {lost}"
    assert not state.gone & set(counts), f"back: {state.gone & set(counts)}"
    assert store.report.damage == []
    folder.close()


def run(seed: int, messages: int, tries: int) -> int:
    """Check all states of one seed; return how many."""
    settings, states = asyncio.run(asyncio.wait_for(crashed(seed, messages, tries), 300))
    for number, state in enumerate(states):
        try:
            check(settings, state)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, state {number}: {error}") from error
    return len(states)


@pytest.mark.slow
def test_copies_outlive_power_cuts() -> None:
    """Whatever part of what was not synced is there."""
    assert run(1, messages=10, tries=2) > 50


@pytest.mark.nightly
def test_copies_outlive_many_power_cuts() -> None:
    """2,000 states and more."""
    count = seed = 0
    while count < 2000:
        seed += 1
        count += run(seed, messages=10, tries=12)
