"""A running node that lacks something, and twenty clients of each product that work meanwhile.

A cause takes something away from a node in a process of its own: descriptors, memory, room on the
disk, whoever reads its log; or it keeps the node busy with frames and logins of strangers. While it
lasts a client may be refused, be told to wait, or lose its connection; then it tries again, as its
program would. What must hold:

1. What was acknowledged is there in the end.
2. Once the cause is gone every client stores again, and nobody has restarted anything.
3. The node heeds SIGTERM and ends well.
"""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import aio_pika
from aio_pika.exceptions import AMQPError
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import Admin, Message, Producer, Puller
from sprocket.rocketmq.codec.record import batch

CLIENTS = 20
"""Of each product."""
LASTS_SECONDS = 5.0
PAUSE_SECONDS = 0.02
"""Between two messages of a client: a thousand clients' worth of load is not what is asked."""
DESCRIPTORS = 256
NAME = "starved"
"""The topic, and the queue."""
PROGRAM = """
import resource, sys
count = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
from sprocket.cli.main import main
main()
"""
SETTINGS = (
    "log.segment_bytes=4194304",
    "queue.units_per_file=2000",
    "index.slots=1000",
    "index.units=4000",
    "store.fill_ahead_bytes=0",
)


@dataclass(slots=True)
class Node:
    """`sprocket up` in a process of its own, with both products.

    Args:
        folder: Its data folder.
        stderr: Where its log goes.
        descriptors: How many it may have open.
        settings: More of its settings.
    """

    folder: Path
    stderr: int | IO[bytes]
    descriptors: int = 4096
    settings: tuple[str, ...] = ()
    process: "subprocess.Popen[str]" = field(init=False)
    ports: dict[str, tuple[str, int]] = field(init=False, default_factory=dict)

    def start(self) -> None:
        """Start it, and return when it is ready."""
        named = [word for one in (*SETTINGS, *self.settings) for word in ("--set", one)]
        ports = [f"--{name}-port=0" for name in ("nameserver", "broker", "amqp")]
        program = [sys.executable, "-c", PROGRAM, str(self.descriptors), "up"]
        self.process = subprocess.Popen(
            [*program, "--data", str(self.folder), *ports, *named],
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
        )
        assert self.process.stdout is not None
        for word in self.process.stdout.readline().split()[1:]:
            name, _, place = word.partition("=")
            host, colon, port = place.rpartition(":")
            if colon and port.isdecimal():
                self.ports[name] = (host, int(port))
        assert "amqp" in self.ports, "the node did not come up"

    def address(self, name: str) -> str:
        """Return where one of its ports is."""
        host, port = self.ports[name]
        return f"{host}:{port}"

    def stop(self) -> int:
        """End it by SIGTERM, and return how it ended."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(LONG_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


@dataclass(slots=True)
class Clients:
    """Twenty clients of each product; each sends one message after the other.

    Attributes:
        acknowledged: By product, the bodies of what was acknowledged.
        seconds: By product, how long each acknowledgement took that came while `is_measured`.
        refused: By product, how often a client was refused, or lost its connection.
    """

    node: Node
    acknowledged: dict[str, set[bytes]] = field(
        default_factory=lambda: {"rocketmq": set(), "rabbitmq": set()}
    )
    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {"rocketmq": [], "rabbitmq": []}
    )
    refused: dict[str, int] = field(default_factory=lambda: {"rocketmq": 0, "rabbitmq": 0})
    is_measured: bool = False
    _last: dict[str, int] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Have them work meanwhile."""
        async with Admin(self.node.address("nameserver")) as admin:
            await admin.create_topic(NAME, queues=4)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work(number))
                for number in range(CLIENTS)
                for work in (self._rocketmq, self._rabbitmq)
            ]
            await self.everybody_stores()
            yield
            for task in tasks:
                task.cancel()

    async def everybody_stores(self) -> None:
        """Return when each of them has had another acknowledgement."""
        before = dict(self._last)
        async with asyncio.timeout(LONG_SECONDS):
            while len(self._last) < 2 * CLIENTS or any(
                self._last[name] <= before.get(name, 0) for name in self._last
            ):
                await asyncio.sleep(PAUSE_SECONDS)

    def _note(self, product: str, client: int, body: bytes, took: float) -> None:
        self.acknowledged[product].add(body)
        if self.is_measured:
            self.seconds[product].append(took)
        name = f"{product} {client}"
        self._last[name] = self._last.get(name, 0) + 1

    async def _rocketmq(self, client: int) -> None:
        where = self.node.address("nameserver")
        async with Producer(where, group=f"{NAME}-{client}") as producer:
            for number in _counted():
                body = b"rocketmq %d %d" % (client, number)
                began = time.monotonic()
                try:
                    await producer.send(Message(NAME, body))
                except ClientError:
                    self.refused["rocketmq"] += 1
                else:
                    self._note("rocketmq", client, body, time.monotonic() - began)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _rabbitmq(self, client: int) -> None:
        numbers = _counted()
        while True:
            try:
                connection = await aio_pika.connect(
                    f"amqp://guest:guest@{self.node.address('amqp')}/"
                )
                async with connection:
                    channel = await connection.channel()
                    await channel.declare_queue(NAME, durable=True)
                    await self._publish(channel, client, numbers)
            except (AMQPError, OSError, RuntimeError):
                self.refused["rabbitmq"] += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _publish(
        self, channel: aio_pika.abc.AbstractChannel, client: int, numbers: Iterator[int]
    ) -> None:
        for number in numbers:
            body = b"rabbitmq %d %d " % (client, number) + bytes(5_000 * (number % 2))
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            began = time.monotonic()
            await channel.default_exchange.publish(message, NAME)
            self._note("rabbitmq", client, body, time.monotonic() - began)
            await asyncio.sleep(PAUSE_SECONDS)

    async def stored(self) -> dict[str, set[bytes]]:
        """Return what the node has, by product."""
        return {"rocketmq": await self._of_topic(), "rabbitmq": await self._of_queue()}

    async def _of_topic(self) -> set[bytes]:
        found: set[bytes] = set()
        async with Puller(self.node.address("nameserver")) as puller:
            for queue in await puller.queues(NAME):
                at, end = await puller.min_offset(queue), await puller.max_offset(queue)
                while at < end:
                    answer = await puller.pull(queue, at, 1024)
                    found |= {message.body for message in batch.decode_messages(answer.body)}
                    at = answer.next_offset
        return found

    async def _of_queue(self) -> set[bytes]:
        found: set[bytes] = set()
        where = f"amqp://guest:guest@{self.node.address('amqp')}/"
        async with await aio_pika.connect(where) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(NAME, durable=True)
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                found.add(message.body)
        return found


def _counted() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


@contextlib.asynccontextmanager
async def no_descriptors(node: Node) -> AsyncIterator[None]:
    """Strangers hold more connections than the node has descriptors for."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for number in range(DESCRIPTORS):
            for port in ("amqp", "amqp-http", "broker"):
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(*node.ports[port])
                    writer.write((b"", b"A", b"AMQP\0\0\x09\x01")[number % 3])
                    writers.append(writer)
        yield
    finally:
        for writer in writers:
            writer.close()


@contextlib.asynccontextmanager
async def no_memory(node: Node) -> AsyncIterator[None]:
    """One client fills the memory with messages that nobody consumes; another one drops them.

    Who publishes is not read while memory is short, and so cannot do that itself.
    """
    where = f"amqp://guest:guest@{node.address('amqp')}/"
    async with await aio_pika.connect(where) as other, await aio_pika.connect(where) as connection:
        queue = await (await other.channel()).declare_queue("much")
        channel = await connection.channel(publisher_confirms=False)

        async def fill() -> None:
            while True:
                await channel.default_exchange.publish(
                    aio_pika.Message(bytes(100_000)), "much", mandatory=False
                )

        task = asyncio.create_task(fill())
        try:
            yield
        finally:
            task.cancel()
            await queue.delete(if_unused=False, if_empty=False)


@contextlib.asynccontextmanager
async def no_room(node: Node) -> AsyncIterator[None]:
    """Something else fills the disk, to the last byte."""
    path = node.folder.parent / "filler"
    with path.open("wb", buffering=0) as filler:
        try:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)):
                        await asyncio.sleep(0)
            yield
        finally:
            path.unlink()


async def _flood(node: Node, port: str, texts: list[bytes]) -> None:
    """Say something to a port, read what comes until it closes, again and again."""
    number = 0
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(*node.ports[port])
            writer.write(texts[number % len(texts)])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await reader.read(4096)
                    await reader.read(4096)
            writer.close()
        number += 1


def flood(said: dict[str, list[bytes]]) -> Callable[[Node], AbstractAsyncContextManager[None]]:
    """Return a cause: strangers who say something to some ports, as fast as they can."""

    @contextlib.asynccontextmanager
    async def flooding(node: Node) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(_flood(node, port, texts))
            for port, texts in said.items()
            for _ in range(20)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    return flooding


HEADER = b"AMQP\x00\x00\x09\x01"
BROKEN = {
    "amqp": [
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER + bytes(64),
        HEADER + b"\x01\x00\x00\xff\xff\xff\xff",
    ],
    "broker": [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x08\x00\x00\x00\xff{{{{", b"\xff" * 64],
    "amqp-http": [b"\x16\x03\x01", b"GET /\r\n\r\n", b"\x00" * 100],
}


def start_ok(user: bytes) -> bytes:
    """Return a header and a login with a password that is wrong."""
    response = b"\x00" + user + b"\x00wrong"
    arguments = b"\x00\x00\x00\x00\x05PLAIN" + len(response).to_bytes(4) + response + b"\x05en_US"
    payload = b"\x00\x0a\x00\x0b" + arguments
    return HEADER + b"\x01\x00\x00" + len(payload).to_bytes(4) + payload + b"\xce"


LOGINS = {
    "amqp": [start_ok(b"guest"), start_ok(b"nobody")],
    "amqp-http": [
        b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6eA==\r\n\r\n"
    ],
}
CAUSES: dict[str, Callable[[Node], AbstractAsyncContextManager[None]]] = {
    "no descriptors": no_descriptors,
    "no memory": no_memory,
    "nobody reads the log": flood({"broker": BROKEN["broker"]}),
    "the log fails": flood({"broker": BROKEN["broker"]}),
    "no room on the disk": no_room,
    "broken frames": flood(BROKEN),
    "refused logins": flood(LOGINS),
}


@contextlib.contextmanager
def node_for(cause: str, folder: Path) -> Iterator[Node]:
    """Give a node that a cause can be tried on; the caller stops it."""
    data = folder / "disk" / "data"
    data.parent.mkdir()
    with contextlib.ExitStack() as stack:
        read, write = os.pipe()
        stack.callback(os.close, read)
        os.set_blocking(write, True)
        log: int | IO[bytes] = write
        if cause == "the log fails":
            log = stack.enter_context(open("/dev/full", "wb"))
        elif cause != "nobody reads the log":
            log = stack.enter_context((folder / "log").open("wb"))
        if cause == "no room on the disk":
            mount = ["mount", "-t", "tmpfs", "-o", "size=256m", "none", str(data.parent)]
            subprocess.run(mount, check=True)
            stack.callback(subprocess.run, ["umount", str(data.parent)], check=True)
        settings = ("amqp.memory_used_ratio_max=0.012",) if cause == "no memory" else ()
        count = DESCRIPTORS if cause == "no descriptors" else 4096
        node = Node(data, log, count, settings)
        node.start()
        os.close(write)
        yield node


async def starve(node: Node, cause: str) -> Clients:
    """Have clients work before a cause, beside it and after it, and compare what is stored."""
    clients = Clients(node)
    async with clients.working():
        async with CAUSES[cause](node):
            clients.is_measured = True
            await asyncio.sleep(LASTS_SECONDS)
            clients.is_measured = False
        await clients.everybody_stores()
    stored = await clients.stored()
    for product, bodies in clients.acknowledged.items():
        lost = bodies - stored[product]
        assert not lost, f"{product}: {len(lost)} of {len(bodies)} are lost, as {min(lost)[:40]!r}"
    return clients


def allow_descriptors() -> None:
    """Let this process open as many files as it may, for its clients and strangers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
