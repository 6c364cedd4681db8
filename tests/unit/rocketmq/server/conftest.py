"""A node whose log is on the disk only."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.settings import StoreSettings
from sprocket.testing.disk import SimulatedDisk

SEND_EXT = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0} | {
    "i": "UNIQ_KEY\x01U\x02KEYS\x01k\x02"
}
LOG = "/store/commitlog/" + "0" * 20
NOTHING_NEAR = StoreSettings(fill_ahead_bytes=0, bytes_in_memory=1)
"""All of the log counts as far behind its end."""


class ColdDisk(SimulatedDisk):
    """A disk that notes who waits for what of it, once all that it holds is forgotten.

    Attributes:
        threads: Who has read from the store, its tables left out.
        waits: Reads wait for `go_on` to be released once each, but on the event loop, where nobody
            could do that.
        is_reading: A read has begun.
        is_broken: Reads fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.waits = self.is_broken = False
        self.is_reading, self.go_on = threading.Event(), threading.Semaphore(0)

    def forget(self) -> None:
        """Have all files, with what comes later to them, in no memory, and watch who reads."""
        self.before = self._note
        for path in list(self._files):
            if "/config/" not in path:
                self._files[path].given_back.append((0, 1 << 40))

    def let_go(self) -> None:
        """Let reads wait no more."""
        self.waits = False
        self.go_on.release(100)

    def _note(self, call: str, path: str) -> None:
        if call == "read" and "/config/" not in path:
            thread = threading.current_thread()
            self.threads.append(thread.name)
            self.is_reading.set()
            if self.waits and thread is not threading.main_thread():
                assert self.go_on.acquire(timeout=LONG_SECONDS)
            if self.is_broken:
                raise DiskFailed(path)


@pytest.fixture
def on_cold_node(on_node: Callable[..., None]) -> Callable[..., None]:
    """Run a scenario with a node that has some messages, all on the disk only, and its disk."""

    def run(scenario: Callable[[Any, ColdDisk], Awaitable[None]], count: int = 1) -> None:
        disk = ColdDisk()

        async def cold(lab: Any) -> None:
            for number in range(count):
                await lab.broker.call(310, SEND_EXT, b"m%d" % number)
            disk.forget()
            await scenario(lab, disk)

        on_node(cold, disk=disk, store=NOTHING_NEAR)

    return run


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until something holds, for 5 s at most."""
    async with asyncio.timeout(LONG_SECONDS):
        while not holds():
            await asyncio.sleep(0)
