"""A node whose log is on the disk only."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sprocket.base.errors import DiskFailed
from sprocket.base.units import KIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.testing.disk import SimulatedDisk

SEND_EXT = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0} | {
    "i": "UNIQ_KEY\x01U\x02KEYS\x01k\x02"
}
LOG = "/store/commitlog/" + "0" * 20
LOG_BYTES = 256 * KIB
NOTHING_NEAR = StoreSettings(fill_ahead_bytes=0, bytes_in_memory=1)
"""All of the log counts as far behind its end."""


class ColdDisk(SimulatedDisk):
    """A disk that notes which thread reads how often from the log, once that is forgotten.

    Attributes:
        threads: Who has read.
        go_on: Reads wait for it.
        is_reading: A read has begun.
        is_broken: Reads fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.is_reading, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.is_broken = False

    def forget(self) -> None:
        """Have all of the log, what comes later included, in no memory, and watch its reads."""
        self.before = self._note
        self.open(LOG).give_back(0, LOG_BYTES)

    def _note(self, call: str, path: str) -> None:
        if call == "read" and path == LOG:
            self.threads.append(threading.current_thread().name)
            self.is_reading.set()
            assert self.go_on.wait(10)
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
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0)
