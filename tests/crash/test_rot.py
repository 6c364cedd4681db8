"""A bit of any file of a node's folder is wrong, after a stop and after a kill.

The start is not refused, nothing is handed out that is not what was stored, and whatever is
missing, or is there again, is told.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, replace

import aio_pika
import pytest
from tests.crash.test_broker_copies import FOLDER, QUEUES, body, declared

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed
from sprocket.base.progress import unwatched
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import AmqpNodeSettings
from sprocket.rabbitmq.store.delayed import DelayedMessage, DelayedStore
from sprocket.testing.disk import SimulatedDisk
from sprocket.testing.local_amqp import small_settings

MESSAGES = 24
LOST_MAX = 1
"""So many messages one bit may cost at most,"""
BLOCK_LOST_MAX = MESSAGES // 2
"""but for one in the head of a block of delayed messages, which says where they are."""


@dataclass(frozen=True)
class Found:
    """What a folder holds: numbers of messages with how often each is there, and declarations."""

    numbers: Counter[int]
    declared: frozenset[str]


async def left(*, is_killed: bool, starts: int) -> tuple[AmqpNodeSettings, SimulatedDisk]:
    """Return the disk of a node that has worked, and was started so often."""
    disk = SimulatedDisk()
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    for start in range(starts):
        node = await AmqpNode.start(settings, FOLDER, disk=disk)
        opened = await aio_pika.connect(f"amqp://guest:guest@{node.address}/")
        channel = await opened.channel()
        if not start:
            await declared(channel)
        for number in range(start * MESSAGES, (start + 1) * MESSAGES):
            exchange, key = [("", "bound"), ("", "due"), ("later", "k"), ("one", "k")][number % 4]
            target = await channel.get_exchange(exchange, ensure=False)
            delay = {"x-delay": 3_600_000} if exchange == "later" else {}
            message = aio_pika.Message(body(number), delivery_mode=2, headers={**delay})
            await target.publish(message, key, mandatory=False)
        await opened.close()
        if is_killed and start == starts - 1:
            killed = disk.kill()
            await node.stop()
            return settings, killed
        await node.stop()
    return settings, disk.kill()


def look(disk: SimulatedDisk, settings: AmqpNodeSettings) -> tuple[Found, bool]:
    """Open a folder; say what it holds, and whether the recovery reports tell of something."""
    folder = NodeFolder.open(disk, f"{FOLDER}/rabbitmq", settings, unwatched)
    messages: list[BasicMessage] = []
    names: set[str] = set()
    is_told = False
    for topology in folder.vhosts:
        vhost = topology.vhost.name
        names |= {f"queue {one.name}" for one in topology.queues()}
        names |= {f"exchange {one.name}" for one in topology.exchanges()}
        names |= {f"binding {one}" for one in topology.bindings()}
        store = folder.stores[vhost]
        report = store.report
        is_told |= bool(report.damage or report.lost or report.cut_bytes)
        for name in QUEUES:
            queue = store.queue(QueueName(vhost, name))
            messages += [one.message for one in steps.run(queue.read(0, 1 << 40))]
            is_told |= bool(queue.unreadable)
        messages += [one.message for one in waiting(store.delayed)]
    numbers = Counter(int(one.body.split()[0]) for one in messages)
    for one in messages:
        assert one.body == body(int(one.body.split()[0]))
    names |= {f"user {one.name}" for one in folder.users}
    folder.close()
    return Found(numbers, frozenset(names)), is_told


def waiting(delayed: DelayedStore) -> list[DelayedMessage]:
    """Return what an exchange has kept; what cannot be read is tried twice, as when it is due."""
    found: list[DelayedMessage] = []
    while delayed.next_due_us is not None:
        with contextlib.suppress(DiskFailed):
            some = steps.run(delayed.take_steps(1 << 60, 1 << 20))
            found += some
            if not some:
                break
    return found


KINDS = {
    "stopped": (False, 1),
    "killed": (True, 1),
    "stopped twice": (False, 2),
    "killed after a stop": (True, 2),
}


def flipped_everywhere(kind: str, step: int, caplog: pytest.LogCaptureFixture) -> int:
    """Flip a bit of every so manieth byte of every file; return how many there were."""
    is_killed, starts = KINDS[kind]
    work = left(is_killed=is_killed, starts=starts)
    settings, disk = asyncio.run(asyncio.wait_for(work, 300))
    expected, _ = look(disk.kill(), settings)
    assert expected.numbers == Counter(range(starts * MESSAGES))
    tried = 0
    faults: list[str] = []
    for path, data in disk.contents().items():
        whole = len(data.rstrip(b"\0"))
        for at in range(0, whole, step):
            found = disk.kill()
            file = found.open(path, write=True)
            file.write([bytes((data[at] ^ 1 << at % 8,))], at)
            file.close()
            caplog.clear()
            try:
                held, is_told = look(found, settings)
            except Exception as error:
                faults.append(f"{path} at {at}: {error!r}")
                continue
            is_told |= any(one.levelno >= logging.WARNING for one in caplog.records)
            if held != expected and not is_told:
                faults.append(f"{path} at {at}: something else is there, and nothing is told")
            lost = expected.numbers - held.numbers
            block_at = data.rfind(delayed.MAGIC, 0, at + len(delayed.MAGIC))
            in_head = path.endswith(".run") and at < block_at + delayed.HEAD_BYTES
            if len(lost) > (BLOCK_LOST_MAX if in_head else LOST_MAX):
                faults.append(f"{path} at {at}: {len(lost)} messages are missing")
            tried += 1
    assert not faults
    return tried


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_bit_at_every_97th_byte(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of every file."""
    assert flipped_everywhere(kind, 97, caplog) > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_bit_here_and_there(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of every file."""
    assert flipped_everywhere(kind, 2999, caplog) > 20
