"""A NameServer and a broker inside the test process, on a clock that the test moves.

They run in a thread of their own, so that any test can use them: a plain function with the blocking
clients, a coroutine with the async ones, or a client in another process.

What is like `sprocket up`, and what is not

* Same code from the socket down to the files, sync flush included. Only the disk's syncs are
  noted instead of made (`twin_disk`), and files are small.
* The broker's clock stands still until `advance`: delays, retries, retention and every time stamp
  follow it. Its pauses of seconds and less (long polls, the index that follows the log) pass by
  themselves too, and faster with `advance`.
* Clients do not expire by `advance` alone, since theirs is the machine's clock; for a test of that
  lower `members.expiry_ms`.
"""

import asyncio
import contextlib
import random
import shutil
import socket
import tempfile
from dataclasses import replace
from typing import Self

from sprocket.base.clock import SystemClock
from sprocket.base.errors import StoreError
from sprocket.base.units import MIB
from sprocket.node.run import Node
from sprocket.rocketmq.settings import (
    IndexGeometry,
    LogGeometry,
    MemberSettings,
    NameServerSettings,
    QueueGeometry,
    ServerSettings,
    Settings,
    StoreSettings,
)
from sprocket.rocketmq.store.recovery import RecoveryReport
from sprocket.runtime.blocking import Portal
from sprocket.runtime.carrier import carrier
from sprocket.testing.clock import FakeClock
from sprocket.testing.shifted_loop import ShiftedLoop
from sprocket.testing.twin_disk import TwinDisk

TURNS = 25
"""Turns of the loop after a jump: more than any chain of callbacks in the broker is long."""
YEAR_MS = 366 * 24 * 3600 * 1000
PORTS = range(20_000, 32_000)
"""Below those that outgoing connections are given, which could hold one at a restart."""


def small_settings() -> Settings:
    """Return settings for a broker that serves one test: small files, patient with clients."""
    return Settings(
        store=StoreSettings(fill_ahead_bytes=0),
        members=MemberSettings(expiry_ms=YEAR_MS),
        nameserver=NameServerSettings(broker_expiry_ms=YEAR_MS),
        log=LogGeometry(segment_bytes=8 * MIB),
        queue=QueueGeometry(units_per_file=1_000, batch_units_per_file=1_000),
        index=IndexGeometry(slots=1_000, units=4_000),
    )


class LocalBroker:
    """A broker for tests; a context manager, with `with` and `async with` alike.

    Args:
        folder: Where the store lies; by default a temporary folder, gone when it stops.
        settings: As for `sprocket up`, but that its usual ports stand for any free ones; by
            default `small_settings()`.
        now_ms: What its clock shows first; by default the machine's time.

    Threads: any but the broker's own, one at a time.
    """

    def __init__(
        self,
        folder: str | None = None,
        *,
        settings: Settings | None = None,
        now_ms: int | None = None,
    ) -> None:
        self.nameserver = ""
        """The NameServer's address, for clients."""
        self.address = ""
        """The broker's address."""
        self.folder = folder or ""
        """The store's folder, which other programs may read."""
        self.clock = FakeClock(SystemClock().now_ms() if now_ms is None else now_ms)
        """Read it; `advance` moves it."""
        self._is_folder_ours = folder is None
        self._settings = settings or small_settings()
        self._disk: TwinDisk | None = None
        self._portal: Portal | None = None
        self._loop: ShiftedLoop | None = None
        self._node: Node | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def start(self) -> RecoveryReport:
        """Start it, again on its ports if it ran before; return what recovery did.

        Raises:
            StoreError: The folder is another's, locked or damaged.
            SettingsError: The settings do not fit together, or a port is in use.
        """
        assert self._node is None, "it runs already"
        if not self.folder:
            self.folder = tempfile.mkdtemp(prefix="sprocket-")
        if self._disk is None:
            self._disk = TwinDisk(self.folder)
        if not self.address:
            self._settings = replace(self._settings, server=_with_ports(self._settings.server))
        if self._portal is None:
            self._portal = Portal("sprocket-test-broker", self._make_loop)
        self._node = self._portal.call(self._start, self._disk)
        self.nameserver = self._node.addresses.nameserver
        self.address = self._node.addresses.broker
        return self._node.report

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does; folder, ports and clock stay for `start`."""
        if self._node is not None and self._portal is not None:
            node, self._node = self._node, None
            self._portal.call(node.stop)

    def restart(self) -> RecoveryReport:
        """Stop it cleanly and start it again."""
        self.stop()
        return self.start()

    def crash(self) -> RecoveryReport:
        """Kill it as `kill -9` does and start it again; return what recovery did.

        What it had in memory only is gone, what it had written is there, synced or not. Nothing
        that waited is answered: clients see their connections break.
        """
        assert self._disk is not None
        successor = self._disk.kill()
        self._fall()
        self._disk = successor
        return self.start()

    def power_cut(self, seed: int | None = None) -> RecoveryReport:
        """Cut the power and start again; return what recovery did.

        Args:
            seed: By default nothing that was not synced is found; a number draws which of the
                blocks of 512 bytes and which names are found after all, the same each time.
        """
        assert self._disk is not None
        choose = _nothing if seed is None else random.Random(seed).randrange  # noqa: S311
        self._disk.kill()
        self._fall()
        self._disk = self._disk.cut(choose)
        return self.start()

    def advance(self, ms: int = 0, *, seconds: float = 0) -> None:
        """Move the broker's clock, and let all happen that is due by then.

        What becomes due is done when this returns; clients hear of it a moment later, so wait for
        what should arrive.
        """
        assert self._portal is not None, "it has not been started"
        self._portal.call(self._advance, ms + round(seconds * 1000))

    def close(self) -> None:
        """Stop it for good; a temporary folder is removed. May be called again."""
        try:
            self.stop()
        finally:
            portal, self._portal = self._portal, None
            if portal is not None:
                portal.close()
            if self._is_folder_ours and self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        self._loop = ShiftedLoop()
        return self._loop

    async def _start(self, disk: TwinDisk) -> Node:
        settings = self._settings
        return await Node.start(
            settings, self.folder, disk=disk, clock=self.clock, geometry=settings.geometry
        )

    async def _advance(self, ms: int) -> None:
        assert self._loop is not None
        await _turns()  # what is under way now ends before the time in which it might be too late
        self.clock.advance(ms)
        self._loop.jump(ms / 1000)
        await _turns()

    def _fall(self) -> None:
        """End what runs without a word to anybody; its disk refuses every change by now."""
        node, self._node = self._node, None
        if node is not None and self._portal is not None:
            self._portal.call(_kill, node)


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _kill(node: Node) -> None:
    carrier().abort_all("the broker was killed")
    with contextlib.suppress(StoreError):  # its last words find a dead disk
        await node.stop()


def _nothing(_count: int) -> int:
    """Choose, of what a loss of power may leave, the least."""
    return 0


def _with_ports(server: ServerSettings) -> ServerSettings:
    """Give each port that is 0, or the one of `sprocket up`, a number that is free and may stay."""
    chance = random.SystemRandom()
    usual = ServerSettings()
    names = [
        name
        for name in ("nameserver_port", "broker_port")
        if getattr(server, name) in (0, getattr(usual, name))
    ]
    found: dict[str, int] = {}
    while len(found) < len(names):
        port = chance.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((server.host, port))
            if port not in found.values():
                found[names[len(found)]] = port
    if "broker_port" in found:  # nobody would find its twin, two below, which may be taken
        server = replace(server, vip_port=False)
    return replace(server, **found)  # type: ignore[arg-type]
