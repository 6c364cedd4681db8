"""The NameServer as a whole: its tables and the watch over who is still there."""

import asyncio

from sprocket.base.clock import Clock
from sprocket.rocketmq.nameserver.routes import Routes
from sprocket.rocketmq.settings import NameServerSettings
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks

SCAN_SECONDS = 5.0
"""How often silent brokers are looked for; RocketMQ's `scanNotActiveBrokerInterval`."""


class NameServer:
    """Routes, and the task that lets silent brokers go."""

    def __init__(self, clock: Clock, settings: NameServerSettings) -> None:
        self.routes = Routes(clock, settings.broker_expiry_ms)
        self._tasks = Tasks("nameserver")

    def start(self) -> None:
        """Begin the watch."""
        self._tasks.spawn(self._watch(), "watch")

    async def stop(self) -> None:
        """End the watch."""
        await self._tasks.close()

    def scan(self) -> None:
        """Let go who has been silent for too long, and close the connection."""
        for link in self.routes.expire():
            if isinstance(link, Peer):
                link.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            self.scan()
