"""A broker of either kind for the tests that run against both: Sprocket, and RocketMQ 5.3.3.

Both have short delay levels, a second each, so that what comes later comes soon.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.interop import peers
from tests.waits import LONG_SECONDS

from sprocket.runtime import driver

SECONDS_MAX = LONG_SECONDS
"""Longest wait for anything but the restart of a broker."""
DELAY_LEVELS = " ".join(["1s"] * 18)


class Peer(Protocol):
    """A NameServer and a broker; the broker can be killed and come back on its port."""

    nameserver: str
    address: str

    def kill_broker(self) -> None:
        """End the broker with SIGKILL."""

    def start_broker(self) -> None:
        """Start it again, on the same store and port."""


class OurPeer(peers.Sprocket):
    """`sprocket up` on ports that it keeps; its NameServer dies and comes back with the broker."""

    def __init__(self, folder: Path) -> None:
        ports = (peers.free_port(), peers.free_port())
        options = ["--nameserver-port", str(ports[0]), "--broker-port", str(ports[1])]
        options += ["--set", f"store.delay_levels={DELAY_LEVELS}"]
        options += ["--set", "server.proxies=127.0.0.1"]  # as the original believes everybody
        super().__init__(folder, folder / "store", options)

    def kill_broker(self) -> None:
        """End the process with SIGKILL."""
        self.kill()

    def start_broker(self) -> None:
        """Start the process again."""
        self.start()


@dataclass(kw_only=True)
class RealPeer(peers.RocketMQ):
    """RocketMQ, whose broker can be started again with the settings that it had."""

    _last: tuple[str, str, Mapping[str, object]] = field(default=("", "", {}), init=False)

    def _run(self, main: str, heap: str, settings: Mapping[str, object]) -> peers.Process:
        self._last = main, heap, settings
        return super()._run(main, heap, settings)

    def kill_broker(self) -> None:
        """End the broker with SIGKILL; the NameServer goes on."""
        self._processes.pop().end(signal.SIGKILL)

    def start_broker(self) -> None:
        """Start the broker again and wait until the NameServer knows it."""
        self._run(*self._last)
        peers.wait_until(self._is_ready, "the RocketMQ broker after its restart")


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in an event loop, no longer than `SECONDS_MAX` beyond what restarts take."""

    async def bounded() -> None:
        async with asyncio.timeout(4 * SECONDS_MAX):
            await main()

    driver.run(bounded())


async def until(holds: Callable[[], bool], what: str) -> None:
    """Let the clients work until something holds."""
    deadline = asyncio.get_running_loop().time() + SECONDS_MAX
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, f"waited {SECONDS_MAX} s for {what}"
        await asyncio.sleep(0.02)
