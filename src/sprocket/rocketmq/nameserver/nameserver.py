"""The NameServer as a whole: makes its parts, and removes brokers that are gone."""

import asyncio

from sprocket.base.clock import Clock
from sprocket.rocketmq import live_settings
from sprocket.rocketmq.nameserver.key_values import KeyValues
from sprocket.rocketmq.nameserver.lookup import Lookup
from sprocket.rocketmq.nameserver.routes import RouteTables
from sprocket.rocketmq.settings import Settings
from sprocket.runtime.tasks import Tasks

SCAN_SECONDS = 5.0
"""How often silent brokers are looked for; RocketMQ's `scanNotActiveBrokerInterval`."""


class NameServer:
    """Tables, what changes and what reads them, and the task that lets silent brokers go."""

    def __init__(self, clock: Clock, settings: Settings, key_values: KeyValues) -> None:
        self.settings = live_settings.of_nameserver(settings, clock)
        self.routes = RouteTables(clock, self.settings)
        self.lookup = Lookup(self.routes, key_values, self.settings)
        self._tasks = Tasks("nameserver")

    def start(self) -> None:
        """Begin the watch."""
        self._tasks.spawn(self._watch(), "watch")

    async def stop(self) -> None:
        """End the watch."""
        await self._tasks.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            self.routes.expire()
