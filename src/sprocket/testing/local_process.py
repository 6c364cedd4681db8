"""A server inside the test process, which can be killed and lose its power, on a clock of the test.

It runs in a thread of its own, so that any test can use it. Its folder is a real one, on a disk
that remembers what was synced (`twin_disk`).
"""

import asyncio
import contextlib
import random
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import Generic, ParamSpec, TypeVar

from sprocket.base.clock import SystemClock
from sprocket.base.errors import StoreError
from sprocket.node.process import Stoppable
from sprocket.runtime.blocking import Portal
from sprocket.runtime.driver import carrier
from sprocket.testing.clock import FakeClock
from sprocket.testing.shifted_loop import ShiftedLoop
from sprocket.testing.twin_disk import TwinDisk

TURNS = 25
"""Turns of the loop after a jump: more than any chain of callbacks in a server is long."""
PORTS = range(20_000, 32_000)
"""Below those that outgoing connections are given, which could hold one at a restart."""


N = TypeVar("N", bound=Stoppable)
P = ParamSpec("P")
T = TypeVar("T")

Begin = Callable[[TwinDisk, str, FakeClock], Awaitable[N]]
"""Starts a server on a disk, in a folder, with its clock."""


class LocalProcess(Generic[N]):
    """See the head of the module.

    Args:
        name: Of the thread.
        begin: Starts the server on a disk, in a folder.
        folder: Where its files lie; by default a temporary folder, gone when it is closed.
        now_ms: What its clock shows first; by default the machine's time.

    Threads: any but the server's own, one at a time.
    """

    def __init__(
        self,
        name: str,
        begin: Begin[N],
        folder: str | None,
        now_ms: int | None,
    ) -> None:
        self.folder = folder or ""
        self.clock = FakeClock(SystemClock().now_ms() if now_ms is None else now_ms)
        self._name = name
        self._begin = begin
        self._is_folder_ours = folder is None
        self._disk: TwinDisk | None = None
        self._portal: Portal | None = None
        self._loop: ShiftedLoop | None = None
        self._node: N | None = None

    def start(self) -> N:
        """Start the server and return it."""
        if self._node is not None:
            raise RuntimeError("the broker runs already; `with` has started it")
        if not self.folder:
            self.folder = tempfile.mkdtemp(prefix="sprocket-")
        if self._disk is None:
            self._disk = TwinDisk(self.folder)
        if self._portal is None:
            self._portal = Portal(self._name, self._make_loop)
        self._node = self._portal.call(self._start, self._disk)
        return self._node

    def stop(self) -> None:
        """Stop it cleanly; folder and clock stay."""
        if self._node is not None and self._portal is not None:
            node, self._node = self._node, None
            self._portal.call(node.stop)

    def kill(self) -> None:
        """End it as `kill -9` does: what it had written is there, synced or not."""
        successor = running(self._disk).kill()
        self._fall()
        self._disk = successor

    def cut_power(self, seed: int | None = None) -> None:
        """End it as a loss of power does.

        Args:
            seed: By default nothing that was not synced is found; a number draws which of the
                blocks of 512 bytes and which names are found after all, the same each time.
        """
        disk = running(self._disk)
        choose = _nothing if seed is None else random.Random(seed).randrange  # noqa: S311
        disk.kill()
        self._fall()
        self._disk = disk.cut(choose)

    def advance(self, ms: int) -> None:
        """Move its clock and let all happen that is due by then."""
        if ms < 0:
            raise ValueError(f"time cannot go on by {ms} ms; clock.step_wall sets the clock back")
        self.portal.call(self._advance, ms)

    def call(
        self, what: Callable[P, Coroutine[object, None, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine in its thread and return what that returns."""
        return self.portal.call(what, *args, **kwargs)

    @property
    def node(self) -> N:
        """What runs."""
        return running(self._node)

    @property
    def portal(self) -> Portal:
        """The way into its thread."""
        return running(self._portal)

    def close(self) -> None:
        """Stop it permanently; a temporary folder is removed. May be called again."""
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

    async def _start(self, disk: TwinDisk) -> N:
        return await self._begin(disk, self.folder, self.clock)

    async def _advance(self, ms: int) -> None:
        assert self._loop is not None
        await _turns()  # what is under way now ends before the time in which it might be too late
        self.clock.advance(ms)
        self._loop.jump(ms / 1000)
        await _turns()

    def _fall(self) -> None:
        """End what runs without notifying anybody; its disk refuses every change by now."""
        node, self._node = self._node, None
        if node is not None and self._portal is not None:
            self._portal.call(_kill, node)


def running(part: T | None) -> T:
    """Return what there is of a broker once it runs; raise RuntimeError if it does not."""
    if part is None:
        raise RuntimeError("the broker does not run: use it under `with`, or start() it")
    return part


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _kill(node: Stoppable) -> None:
    carrier().abort_all("the broker was killed")
    with contextlib.suppress(StoreError):  # its last words find a dead disk
        await node.stop()


def _nothing(_count: int) -> int:
    """Choose, of what a loss of power may leave, the least."""
    return 0


def free_port(host: str, taken: Container[int] = ()) -> int:
    """Return a port that nobody has, and that nobody is given for an outgoing connection."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            if port not in taken:
                return port
