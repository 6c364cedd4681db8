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
from typing import Self

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
from sprocket.testing.local_process import LocalProcess, free_port
from sprocket.testing.quiet import NotQuiet
from sprocket.testing.twin_disk import TwinDisk

SETTLE_SECONDS = 10.0
"""How long a broker may take to become quiet; a consumer that hangs is told of by then."""
LOOK_SECONDS = 0.005
"""Between two looks whether it is quiet."""
QUIET_LOOKS = 3
"""So many in a row: what a client has just sent may be on its way."""


def small_settings() -> AmqpNodeSettings:
    """Return settings for a broker that serves one test: small files, no heartbeats."""
    return AmqpNodeSettings(
        amqp=AmqpSettings(heartbeat_seconds=0),
        vhost_store=VhostStoreSettings(store_file_bytes=64 * KIB, log_file_bytes=64 * KIB),
        vhost_geometry=VhostGeometry(segment_entries=256),
    )


class LocalAmqp:
    """A broker for tests; a context manager, with `with` and `async with` alike.

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
        self._process: LocalProcess[AmqpNode]
        self._process = LocalProcess("sprocket-test-amqp", self._begin, folder, now_ms)

    @property
    def url(self) -> str:
        """The address for clients, with the default user, in the default virtual host."""
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    @property
    def folder(self) -> str:
        """Where its files lie."""
        return self._process.folder

    @property
    def clock(self) -> FakeClock:
        """Read it; `advance` moves it."""
        return self._process.clock

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Mapping[str, VhostReport]:
        """Start it, again on its port if it ran before; return what was found, by virtual host.

        Raises:
            StoreError: The folder is another's, locked or damaged.
            SettingsError: The settings do not fit together, or a port is in use.
        """
        if not self.port:
            self.host, port = self._settings.server.host, self._settings.amqp.port
            self.port = free_port(self.host) if port in (0, AmqpSettings().port) else port
        return self._process.start().reports

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does; folder, port and clock stay for `start`."""
        self._process.stop()

    def restart(self) -> Mapping[str, VhostReport]:
        """Stop it cleanly and start it again."""
        self.stop()
        return self.start()

    def crash(self) -> Mapping[str, VhostReport]:
        """Kill it as `kill -9` does and start it again; return what was found.

        What it had in memory only is gone, what it had written is there, synced or not. Nothing
        that waited is answered: clients see their connections break.
        """
        self._process.kill()
        return self.start()

    def power_cut(self, seed: int | None = None) -> Mapping[str, VhostReport]:
        """Cut the power and start again; return what was found.

        Args:
            seed: See `LocalProcess.cut_power`.
        """
        self._process.cut_power(seed)
        return self.start()

    def advance(self, ms: int = 0, *, seconds: float = 0) -> None:
        """Move the broker's clock, and let all happen that is due by then.

        What becomes due is done when this returns; clients hear of it a moment later, so wait for
        what should arrive.
        """
        self._process.advance(ms + round(seconds * 1000))

    def settle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until nothing more happens by itself.

        Afterwards everything is durable, and queues that have consumers have nothing that those
        could take, and nothing that they have not acknowledged. Clients of the calling thread's
        event loop cannot go on meanwhile; a coroutine awaits `asettle`.

        Args:
            seconds: How long at most, of the machine's time; a consumer may never acknowledge.

        Raises:
            NotQuiet: Something was still going on then; the text says what.
        """
        self._process.call(_settle, self._process.node, seconds)

    async def asettle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Do what `settle` does, while the calling event loop goes on."""
        begun = self._process.portal.begin(_settle, self._process.node, seconds)
        await asyncio.wrap_future(begun)

    def message_count(self, queue: str, vhost: str = "/") -> int:
        """Return how many messages of a queue are ready.

        Raises:
            KeyError: There is no such queue.
        """
        return self._process.call(_message_count, self._process.node, queue, vhost)

    def close(self) -> None:
        """Stop it permanently; a temporary folder is removed. May be called again."""
        self._process.close()

    async def _begin(self, disk: TwinDisk, folder: str, clock: FakeClock) -> AmqpNode:
        settings = replace(self._settings, amqp=replace(self._settings.amqp, port=self.port))
        return await AmqpNode.start(settings, folder, disk=disk, clock=clock)


async def _message_count(node: AmqpNode, queue: str, vhost: str) -> int:
    found = {one.label: one for one in node.broker.vhosts[vhost].queues}
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
