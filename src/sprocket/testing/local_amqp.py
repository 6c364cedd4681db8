"""A node that speaks AMQP 0-9-1 inside the test process, on a clock that the test moves.

    with LocalAmqp() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

What is like `sprocket up`, and what is not

* Same code from the socket down to the files, a sync before each confirm included. Only the disk's
  syncs are noted instead of made (`twin_disk`), and files are small.
* The broker's clock stands still until `advance`: the times to live of messages and queues follow
  it.
* No heartbeats are offered, since clients live in the machine's time; one that insists on them is
  cut off when `advance` goes further.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from sprocket.base.clock import SystemClock
from sprocket.base.units import KIB
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.settings import (
    AmqpNodeSettings,
    AmqpSettings,
    VhostGeometry,
    VhostStoreSettings,
)
from sprocket.rabbitmq.store.recovery import VhostReport
from sprocket.testing.clock import FakeClock
from sprocket.testing.local_process import free_port, running
from sprocket.testing.local_server import LocalServer
from sprocket.testing.quiet import NotQuiet
from sprocket.testing.twin_disk import TwinDisk

LOOK_SECONDS = 0.005
"""Between two looks whether it is quiet."""
QUIET_LOOKS = 3
"""This many in a row: what a client has just sent may be on its way."""


def small_settings() -> AmqpNodeSettings:
    """Return settings for a broker of one test: small files, no heartbeats, no memory alarm."""
    return AmqpNodeSettings(
        amqp=AmqpSettings(heartbeat_seconds=0, memory_used_ratio_max=0),
        vhost_store=VhostStoreSettings(store_file_bytes=64 * KIB, log_file_bytes=64 * KIB),
        vhost_geometry=VhostGeometry(segment_entries=256),
    )


class LocalAmqp(LocalServer[AmqpNode, Mapping[str, VhostReport]]):
    """A broker for tests; a start returns what was found, by virtual host.

    After `settle` everything is durable, and queues that have consumers have nothing that those
    could take, and nothing that they have not acknowledged.

    Args:
        folder: Where its files lie; by default a temporary folder, gone when it stops.
        settings: As for `sprocket up`, but that the usual port stands for any free one; by default
            `small_settings()`.
        now_ms: What its clock shows first; by default the machine's time.

    Threads: any but the broker's own, one at a time.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        settings: AmqpNodeSettings | None = None,
        now_ms: int | None = None,
    ) -> None:
        self.host = ""
        self.port = 0
        self._settings = settings or small_settings()
        super().__init__("sprocket-test-amqp", self._begin, _settle, folder, now_ms)

    @property
    def url(self) -> str:
        """The address for clients, with the default user, in the default virtual host."""
        return f"amqp://guest:guest@{self.host}:{running(self.port or None)}/%2F"

    @property
    def http_url(self) -> str:
        """The address of RabbitMQ's HTTP API, with the path `/api`; another one at each start."""
        return f"http://{self._process.node.http_address}/api"

    def start(self) -> Mapping[str, VhostReport]:
        """See `LocalServer.start`."""
        if not self.port:
            self.host, port = self._settings.server.host, self._settings.amqp.port
            self.port = free_port(self.host) if port in (0, AmqpSettings().port) else port
        return self._process.start().reports

    def message_count(self, queue: str, vhost: str = "/") -> int:
        """Return how many messages of a queue are ready.

        Raises:
            KeyError: There is no such queue, or virtual host.
        """
        return self._process.call(_message_count, self._process.node, queue, vhost)

    async def _begin(self, disk: TwinDisk, folder: str, clock: FakeClock) -> AmqpNode:
        settings = replace(self._settings, amqp=replace(self._settings.amqp, port=self.port))
        return await AmqpNode.start(settings, folder, disk=disk, clock=clock)


async def _message_count(node: AmqpNode, queue: str, vhost: str) -> int:
    if vhost not in node.broker.vhosts:
        raise KeyError(f"there is no virtual host {vhost!r}")
    found = {one.label: one for one in node.broker.vhosts[vhost].queues}
    if queue not in found:
        there = ", ".join(sorted(found)) or "no queue"
        raise KeyError(f"there is no queue {queue!r} in {vhost!r}, but {there}")
    return found[queue].depth().ready


async def _settle(node: AmqpNode, seconds: float) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    looks = 0
    while looks < QUIET_LOOKS:
        why = _busy(node)
        looks = 0 if why else looks + 1
        if why and clock.monotonic() > deadline:
            raise NotQuiet(f"not quiet after {seconds:g} s: {why}")
        for vhost in node.broker.vhosts.values():
            vhost.turns.run()
            vhost.upkeep()
        await asyncio.sleep(LOOK_SECONDS)


def _busy(node: AmqpNode) -> str:
    """Say what is going on, nothing if nothing is."""
    if not node.broker.is_quiet:
        return "something waits for the disk"
    for session in node.server.sessions.values():
        if session.peer.pending_bytes:
            return f"{session.peer.address} has not read what it was sent"
    for vhost in node.broker.vhosts.values():
        for queue in vhost.queues:
            if queue.unacked_count and queue.depth().consumers:
                return f"consumers of {queue.label} have {queue.unacked_count} messages"
    return ""
