"""A backup of a node under load, of both products, is started elsewhere and compared."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aio_pika
import pytest
from tests import repetition
from tests.interop import peers
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import (
    Admin,
    ClientSettings,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)
from sprocket.rocketmq.model.message import Message

TOPIC = QUEUE = "orders"
LONG_MS = int(LONG_SECONDS * 1000)
CLIENT = ClientSettings(request_timeout_ms=LONG_MS, connect_timeout_ms=LONG_MS)
PATIENT = ProducerSettings(timeout_ms=LONG_MS, try_timeout_ms=LONG_MS)
"""Nothing is sent twice because a machine is busy."""
SPROCKET = [sys.executable, "-m", "sprocket.cli.main"]
SMALL = ["--set", "log.segment_bytes=262144"]


def body(number: int) -> bytes:
    """Return what a message has; every tenth is too large for a queue's index."""
    return b"%d " % number + b"x" * (5000 if number % 10 == 0 else 30)


class Node:
    """`sprocket up` on a folder, on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.nameserver = f"127.0.0.1:{peers.free_port()}"
        amqp = peers.free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{amqp}/"
        ports = {
            "--nameserver-port": self.nameserver.rpartition(":")[2],
            "--broker-port": str(peers.free_port((-2, 0, 1))),
            "--amqp-port": str(amqp),
            "--amqp-http-port": "off",
        }
        words = [word for pair in ports.items() for word in pair]
        self._process = subprocess.Popen(
            [*SPROCKET, "up", "--data", str(folder), *words, *SMALL],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("ready")

    def kill(self) -> None:
        """Kill it with -9."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def running(folder: Path) -> Iterator[Node]:
    """Give a node on a folder, and kill it."""
    node = Node(folder)
    try:
        yield node
    finally:
        node.kill()


class Load:
    """Messages to both products, of which AMQP's consumer takes some."""

    def __init__(self) -> None:
        self.sent: dict[str, set[int]] = {"rocketmq": set(), "amqp": set()}
        self.confirmed: dict[str, set[int]] = {"rocketmq": set(), "amqp": set()}
        self.acked: set[int] = set()
        """What AMQP's consumer has begun to acknowledge."""
        self.gone: set[int] = set()
        """What it had acknowledged before something that was confirmed: that is durable with it."""
        self.is_over = False

    async def to_rocketmq(self, nameserver: str) -> None:
        """Send until it is over."""
        async with Admin(nameserver, client=CLIENT) as admin:
            await admin.create_topic(TOPIC, queues=4)
        async with Producer(nameserver, settings=PATIENT, client=CLIENT) as producer:
            number = 0
            while not self.is_over:
                some = range(number, number + 8)
                self.sent["rocketmq"].update(some)
                sends = (producer.send(Message(topic=TOPIC, body=body(one))) for one in some)
                await asyncio.gather(*sends)
                self.confirmed["rocketmq"].update(some)
                number += 8

    async def to_amqp(self, url: str) -> None:
        """Publish, and take every third message, until it is over."""
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(QUEUE, durable=True)
            number, taken = 0, set[int]()
            while not self.is_over:
                some = range(number, number + 9)
                self.sent["amqp"].update(some)
                await asyncio.gather(
                    *(
                        channel.default_exchange.publish(
                            aio_pika.Message(body(one), delivery_mode=2), QUEUE
                        )
                        for one in some
                    )
                )
                self.confirmed["amqp"].update(some)
                self.gone |= taken
                number += 9
                taken = set()
                for _ in range(3):
                    found = await queue.get()
                    taken.add(int(found.body.split()[0]))
                    self.acked |= taken
                    await found.ack()


async def backed_up(node: Node, folder: Path, target: Path, messages: int) -> Load:
    """Make a backup under load; return what was sent, and as of its beginning what was durable."""
    load = Load()
    work = asyncio.gather(load.to_rocketmq(node.nameserver), load.to_amqp(node.url))
    while min(map(len, load.confirmed.values())) < messages:
        await asyncio.sleep(0.01)
        assert not work.done(), work
    before = Load()
    before.gone = set(load.gone)
    before.confirmed = {name: set(numbers) for name, numbers in load.confirmed.items()}
    made = await asyncio.create_subprocess_exec(
        *SPROCKET, "backup", str(folder), str(target), "--json", stdout=subprocess.PIPE
    )
    out, _ = await made.communicate()
    assert made.returncode == 0
    assert json.loads(out)["was_open"] == ["store", "rabbitmq"]
    before.acked = set(load.acked)
    load.is_over = True
    await work
    before.sent = load.sent
    return before


async def all_of(node: Node, wanted: dict[str, set[int]]) -> dict[str, list[bytes]]:
    """Return the bodies of messages of a node, all that are wanted and more."""
    missing = set(wanted["rocketmq"])
    found: dict[str, list[bytes]] = {"rocketmq": [], "amqp": []}

    async def note(messages: list[ReceivedMessage]) -> None:
        bodies = [one.body for one in messages]
        found["rocketmq"] += bodies
        missing.difference_update(int(one.split()[0]) for one in bodies)

    consumer = PushConsumer(node.nameserver, group="g", listener=note, start="first", client=CLIENT)
    await consumer.subscribe(TOPIC)
    async with consumer, asyncio.timeout(LONG_SECONDS):
        while missing:
            await asyncio.sleep(0.01)
    async with await aio_pika.connect(node.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(QUEUE, passive=True)
        while one := await queue.get(fail=False, no_ack=True):
            found["amqp"].append(one.body)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "messages", repetition.times("SPROCKET_BACKUP_MESSAGES", by_day=1_000, by_night=20_000)
)
def test_a_backup_under_load_has_every_message(tmp_path: Path, messages: int) -> None:
    """On another path and other ports: what was acknowledged before, whole, once and in order."""
    folder, target, moved = tmp_path / "store", tmp_path / "backup", tmp_path / "elsewhere"
    with running(folder) as node:
        before = asyncio.run(backed_up(node, folder, target, messages))
    checked = subprocess.run(
        [*SPROCKET, "check", str(target)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "")
    assert checked.stderr.endswith(f"{target}: nothing is wrong\n")
    target.rename(moved)
    wanted = {
        "rocketmq": before.confirmed["rocketmq"],
        "amqp": before.confirmed["amqp"] - before.acked,
    }
    with running(moved) as node:
        found = asyncio.run(all_of(node, wanted))
    for product, bodies in found.items():
        numbers = [int(one.split()[0]) for one in bodies]
        assert [body(number) for number in numbers] == bodies
        assert max(Counter(numbers).values()) == 1
        assert wanted[product] <= set(numbers) <= before.sent[product]
    numbers = [int(one.split()[0]) for one in found["amqp"]]
    assert numbers == sorted(numbers)
    assert not before.gone & set(numbers)
