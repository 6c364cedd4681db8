"""Any bytes on the ports of a running node (for tests/fuzz/; needs node and broker).

Invariant: whatever bytes arrive, each request is answered at most once, with a frame of its own
opaque; a connection on which something cannot be read is closed by the node; no handler fails
unexpectedly; and afterwards the node serves as before, and holds nothing of who sent it: no
connection, no task, no memory beyond what its tables take, no rule of its store's files broken.

A failure names its seed: `mutated_frames(seed, count)` gives the same frames.
"""

import asyncio
import contextlib
import dataclasses
import gc
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.frames import mutated_frames
from tests.own_memory import own_bytes
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.client import Admin, Message, Producer, Puller, PullStatus
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.settings import Settings
from sprocket.rocketmq.store.consistency import Rule
from sprocket.rocketmq.store.repair import check
from sprocket.runtime import driver
from sprocket.runtime.driver import carrier

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20260118"))
SENT_COUNT = 50_000
"""Frames at the sockets by night; a tenth of them in every run."""
WHOLE_COUNT = 20_000
"""Frames of which those that can be read are sent once more, to every port."""
FRAMES_MAX = 20
"""On one connection."""
GROWTH_BYTES_MAX = 32 * MIB
"""What the process may have more after the last nine tenths: topics, groups and offsets that the
frames made, and the allocator's share."""
SECONDS_MAX = LONG_SECONDS
"""How long one connection may take: nothing hangs."""
NAMESERVER_EVERY = 4
"""Which share of the connections goes to the NameServer."""


class Burst:
    """Frames for one connection, of which all but the last can be read."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.asked: Counter[int] = Counter()
        """How many answers each opaque may get."""
        self.is_broken = False
        """Whether the node must close the connection by itself."""
        self._connection = Connection()

    def add(self, frame: bytes) -> bool:
        """Add a frame; tell whether a next one would be read from its own beginning."""
        self.frames.append(frame)
        try:
            for one in self._connection.receive(frame):
                if not one.is_response and not one.is_oneway:
                    self.asked[one.opaque] += 1
        except WireError:
            self.is_broken = True
        self.is_broken = self.is_broken or self._connection.broken is not None
        return not self.is_broken and not self._connection.pending_bytes


def bursts(frames: Iterable[bytes]) -> Iterator[Burst]:
    """Put frames on connections so that the node reads each of them."""
    burst = Burst()
    for frame in frames:
        if not burst.add(frame) or len(burst.frames) == FRAMES_MAX:
            yield burst
            burst = Burst()
    if burst.frames:
        yield burst


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(30, id="thirtieth", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_a_node_goes_on(tmp_path: Path, failures: list[Any], share: int) -> None:
    """Mutated frames at broker and NameServer; then it serves as before, and nothing is left."""
    driver.run(_attack_and_use(tmp_path, failures, SENT_COUNT // share))
    assert not failures, f"seed {SEED}: {failures[0]}"
    found = check.check(RealDisk(), str(tmp_path))
    # A client may commit any offset, as in RocketMQ.
    findings = [one for one in found if one.rule is not Rule.OFFSET_BEYOND]
    assert not findings, f"seed {SEED}: {findings[0]}"


@pytest.mark.slow
def test_handlers_go_on(tmp_path: Path, failures: list[Any]) -> None:
    """Frames whose values are odd but that can be read, every one at broker and NameServer."""

    async def main() -> None:
        node = await _start(tmp_path, failures)
        frames = [frame for frame in mutated_frames(SEED, WHOLE_COUNT) if Burst().add(frame)]
        for address in (node.addresses.broker, node.addresses.nameserver):
            for burst in bursts(frames):
                await _send(address, burst)
            await _use(node)
        await node.stop()

    driver.run(main())
    assert not failures, f"seed {SEED}: {failures[0]}"


async def _start(folder: Path, failures: list[Any]) -> Node:
    """Start a node on free ports; what its loop has to complain of is a failure."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    settings = Settings()
    server = dataclasses.replace(settings.server, nameserver_port=0, broker_port=0)
    settings = dataclasses.replace(settings, server=server)
    return await Node.start(settings, str(folder), geometry=Geometry.small())


async def _attack_and_use(folder: Path, failures: list[Any], count: int) -> None:
    node = await _start(folder, failures)
    await _use(node)
    gc.collect()  # what other tests have left open in this process
    before = _left()
    addresses = (node.addresses.broker, node.addresses.nameserver)
    sent = settled = 0
    for number, burst in enumerate(bursts(mutated_frames(SEED, count))):
        if sent >= count // 10 and not settled:
            settled = own_bytes()
        try:
            await _send(addresses[number % NAMESERVER_EVERY == 0], burst)
        except BaseException as error:
            error.add_note(f"seed {SEED}, connection {number}, after frame {sent}")
            raise
        sent += len(burst.frames)
    assert count == sent
    await _use(node)
    async with asyncio.timeout(SECONDS_MAX):
        while _left() != before:  # the last connections close a turn or two later
            await asyncio.sleep(0)
    assert own_bytes() - settled < GROWTH_BYTES_MAX
    await node.stop()


async def _send(address: str, burst: Burst) -> None:
    """Send frames on a connection of their own until the node has closed it, and look at answers.

    If something in them cannot be read, the node closes it; else we do, and it drops what still
    waits, such as pulls.
    """
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(SECONDS_MAX):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.writelines(burst.frames)
            if not burst.is_broken:
                writer.write_eof()
            said = await reader.read()
        finally:
            writer.close()
    connection = Connection()
    heard = connection.receive(said)
    assert connection.broken is None
    assert not connection.pending_bytes
    # What else a broker says is notices, such as of who came into a group.
    assert all(one.is_response or one.is_oneway for one in heard)
    assert Counter(one.opaque for one in heard if one.is_response) <= burst.asked


async def _use(node: Node) -> None:
    """Send a message, find its topic's route, pull it; and be refused what nobody does."""
    where = node.addresses.nameserver
    async with Producer(where) as producer, Puller(where) as puller, Admin(where) as admin:
        sent = await producer.send(Message("plain", b"body"))
        found = await puller.pull(sent.queue, sent.queue_offset)
        assert (found.status, found.next_offset) == (PullStatus.FOUND, sent.queue_offset + 1)
        route = await admin.route("plain")
        assert [{0: node.addresses.broker}] == [one.addresses for one in route.brokers]
    for address in (node.addresses.broker, node.addresses.nameserver):
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.writelines(command.request(9999, 1))
        (answer,) = Connection().receive(await reader.read(1000))
        assert answer.code == 3
        writer.close()


def _left() -> tuple[int, int, int]:
    """Return how many connections, tasks and open sockets there are."""
    sockets = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder itself, while it was listed
            sockets += os.readlink(file).startswith("socket:")
    return len(carrier().peers), len(asyncio.all_tasks()), sockets
