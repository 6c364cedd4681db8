"""A node on free ports, and raw connections to it: every request of a test is bytes on a socket."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import Disk
from sprocket.base.units import KIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.settings import ServerSettings, Settings, StoreSettings
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

ANSWER_SECONDS = LONG_SECONDS


class RawClient:
    """One connection that sends requests and keeps what comes back."""

    def __init__(self) -> None:
        self.peer: Peer
        self.pushed: asyncio.Queue[Command] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[Command]] = {}

    @classmethod
    async def open(cls, address: str) -> "RawClient":
        """Connect to `host:port`."""
        client = cls()
        host, _, port = address.rpartition(":")
        client.peer = await driver.connect(Connection, client.on_command, host, int(port))
        return client

    def send(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        oneway: bool = False,
        serialize: int = 0,
        version: int | None = None,
    ) -> "asyncio.Future[Command]":
        """Send a request and return the future of its answer."""
        assert isinstance(self.peer.connection, Connection)
        opaque = self.peer.connection.next_opaque()
        extra = {name: str(value) for name, value in (ext or {}).items()}
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        buffers = command.request(
            code, opaque, None, body, oneway=oneway, serialize=serialize, extra=extra
        )
        if version is not None:
            whole = b"".join(buffers)
            buffers = [whole.replace(b'"version":479', b'"version":%d' % version)]
        self.peer.send(buffers)
        return answer

    async def call(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        """Send a request and wait for its answer."""
        return await asyncio.wait_for(self.send(code, ext, body, **more), ANSWER_SECONDS)

    def on_command(self, _: Peer, received: Command) -> None:
        """Give an answer to who waits for it; keep all else."""
        waiting = self._waiting.pop(received.opaque, None) if received.is_response else None
        if waiting is None:
            self.pushed.put_nowait(received)
        elif not waiting.done():
            waiting.set_result(received)


class Lab:
    """A running node with one connection to each of its servers."""

    def __init__(self, node: Node, clock: FakeClock, names: RawClient, broker: RawClient) -> None:
        self.node = node
        self.clock = clock
        self.names = names
        self.broker = broker

    async def connect(self) -> RawClient:
        """Open another connection to the broker."""
        return await RawClient.open(self.node.addresses.broker)

    async def message(
        self, topic: str = "T", body: bytes = b"hello", *, via: RawClient | None = None, **ext: Any
    ) -> Command:
        """Send one message with code 310 and return the answer."""
        return await (via or self.broker).call(310, message_ext(topic, **ext), body)


def message_ext(topic: str = "T", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a send with short names."""
    ext: dict[str, Any] = {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": "UNIQ_KEY\x01U1\x02",
        "j": 0,
        "k": "false",
        "m": "false",
    }
    return ext | changes


Scenario = Callable[[Lab], Awaitable[None]]


@pytest.fixture
def on_node() -> Callable[..., None]:
    """Return a function that runs a scenario against a node of small files.

    Its disk is a simulated one unless another is given.
    """

    def run(
        scenario: Scenario,
        *,
        disk: Disk | None = None,
        folder: str = "/store",
        log_bytes: int = 256 * KIB,
        queue: QueueGeometry | None = None,
        **groups: Any,
    ) -> None:
        async def main() -> None:
            clock = FakeClock()
            wanted: dict[str, Any] = {
                "server": ServerSettings(nameserver_port=0, broker_port=0),
                "store": StoreSettings(fill_ahead_bytes=0),
            }
            node = await Node.start(
                Settings(**wanted | groups),
                folder,
                disk=disk or SimulatedDisk(),
                clock=clock,
                geometry=Geometry(
                    log=LogGeometry(segment_bytes=log_bytes),
                    queue=queue or QueueGeometry.small(),
                    index=IndexGeometry.small(),
                ),
            )
            try:
                names = await RawClient.open(node.addresses.nameserver)
                broker = await RawClient.open(node.addresses.broker)
                await scenario(Lab(node, clock, names, broker))
            finally:
                await node.stop()

        driver.run(main())

    return run
