"""A served queue on a disk that is full, or fails, from any call on.

A publisher with confirms, an acknowledgement, delayed messages and upkeep, over the wire. Whatever
the moment: what was confirmed is there after a kill, what cannot be stored is refused and is not
there; and when there is room again the same process stores as before.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import aio_pika
import pytest
from aio_pika.exceptions import DeliveryError
from tests.waits import LONG_SECONDS

from sprocket.base.disk import steps
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostStoreSettings
from sprocket.rabbitmq.store.layout import vhost_folder
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

FOLDER = "/node"
SECONDS_MAX = LONG_SECONDS
"""How long one life may take: nothing hangs."""
LARGE_BYTES = 600
HOUR_MS = 3_600_000


@dataclass
class Life:
    """One process's life with a fault.

    Attributes:
        confirmed: What the publisher was told is stored.
        refused: What it was told is not.
        acked: What it has acknowledged.
        was_met: The fault has come.
        call: The kind of the call that met it.
        has_failed: A sync has failed, so nothing is stored until a restart.
        disk: As a kill left it.
    """

    confirmed: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    was_met: bool = False
    call: str = ""
    has_failed: bool = False
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)


def fill_up(disk: SimulatedDisk, nth: int) -> None:
    """Have a disk be full from its nth call on."""
    left = [nth]

    def look(_call: str, _path: str) -> None:
        left[0] -= 1
        disk.is_full = disk.is_full or left[0] == 0

    disk.before = look


def fail(disk: SimulatedDisk, nth: int) -> None:
    """Have the nth call fail."""
    disk.fail("any", nth)


async def live(spoil: Callable[[SimulatedDisk, int], None], nth: int) -> Life:
    """Publish while the disk has a fault, then when it has none any more."""
    life = Life()
    disk = life.disk
    settings = small_settings()
    settings = replace(
        settings,
        amqp=replace(settings.amqp, port=0),
        vhost_store=replace(VhostStoreSettings.small(), log_file_bytes=4096),
    )
    node = await AmqpNode.start(settings, FOLDER, disk=disk, clock=FakeClock())
    vhost = node.broker.vhosts["/"]
    opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
    channel = await opened.channel()
    queue = await channel.declare_queue("q", durable=True)
    later = await channel.declare_exchange(
        "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
    )

    async def publish(number: int) -> None:
        body = b"%d " % number + bytes(LARGE_BYTES if number % 3 == 0 else 0)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        if number % 4 == 0:
            message.headers["x-delay"] = HOUR_MS
        exchange = later if number % 4 == 0 else channel.default_exchange
        try:
            await exchange.publish(message, queue.name, mandatory=False)
        except DeliveryError:
            life.refused.add(number)
        else:
            life.confirmed.add(number)

    calls = disk.calls["any"]
    spoil(disk, nth)
    fill = disk.before

    def note(call: str, path: str) -> None:
        if disk.calls["any"] + 1 == calls + nth:
            life.call = call
        if fill is not None:
            fill(call, path)

    disk.before = note
    for first in (0, 5, 10):
        await asyncio.gather(*map(publish, range(first, first + 5)))
        got = await queue.get(fail=False, no_ack=False)
        if got is not None:
            life.acked.add(int(got.body.split()[0]))
            await got.ack()
        node.broker.upkeep()
        await node.broker.settle()
    disk.heal()  # how many calls there were before depends on how threads took turns
    disk.before = None
    life.was_met = disk.calls["any"] - calls >= nth
    life.has_failed = vhost.store.log.failure is not None
    await publish(20)
    await publish(21)
    life.disk = disk.kill()
    await opened.close()
    await node.stop()
    return life


def found(disk: SimulatedDisk) -> list[int]:
    """Return the messages that a start finds, those that wait behind those in the queue."""
    folder = f"{FOLDER}/rabbitmq/msg_stores/vhosts/{vhost_folder('/')}"
    settings = small_settings()
    place = VhostPlace(disk, folder, "/")
    store = VhostStore.open(place, VhostStoreSettings.small(), settings.vhost_geometry)
    assert not [one for one in store.report.damage if ".rdq" not in one]
    queue = store.queue(QueueName("/", "q"))
    bodies = [one.message.body for one in steps.run(queue.read(0, queue.next_seq_id))]
    bodies += [one.message.body for one in steps.run(store.delayed.take_steps(1 << 60, 1000))]
    store.close()
    return [int(body.split()[0]) for body in bodies]


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [fill_up, pytest.param(fail, marks=pytest.mark.nightly)])
def test_nothing_confirmed_is_lost_and_service_goes_on(
    spoil: Callable[[SimulatedDisk, int], None],
) -> None:
    """From each call on; only a sync that failed ends the service, with a refusal."""
    refused = 0
    for nth in count(1):
        life = asyncio.run(asyncio.wait_for(live(spoil, nth), SECONDS_MAX))
        left = found(life.disk)
        assert life.confirmed - life.acked <= set(left), f"call {nth}"
        assert len(set(left)) == len(left), f"call {nth}"
        assert life.confirmed.isdisjoint(life.refused)
        assert life.confirmed | life.refused == {*range(15), 20, 21}
        if not life.has_failed:  # else nobody knows what reached the disk
            assert life.refused.isdisjoint(left), f"call {nth}"
        refused += len(life.refused)
        if not life.was_met:  # a call that fails may still come
            assert nth > 20
            break
        assert life.has_failed <= (spoil is fail and life.call == "sync"), life.call
        last = life.refused if life.has_failed else life.confirmed
        assert {20, 21} <= last, f"call {nth}"
    assert refused > 0
