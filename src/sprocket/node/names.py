"""A NameServer that runs, by itself or beside a broker.

It stores only what tools give it, in `kvConfig.json`; routes come from the brokers.
"""

from contextlib import AsyncExitStack
from typing import Any

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.disk import Disk, RealDisk
from sprocket.node.listening import Listening, address, told_host
from sprocket.rocketmq.nameserver import key_values
from sprocket.rocketmq.nameserver.key_values import KeyValues
from sprocket.rocketmq.nameserver.nameserver import NameServer
from sprocket.rocketmq.remoting import Dispatcher
from sprocket.rocketmq.server.handlers.nameserver import (
    NameConfigHandlers,
    NameHandlers,
    NameLookupHandlers,
)
from sprocket.rocketmq.settings import Settings
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.runtime.driver import Bound


class NameServerNode:
    """A NameServer that listens; made by `start`.

    Threads: event loop only.
    """

    def __init__(self, told: str, port: int, parts: AsyncExitStack) -> None:
        self.address = told
        """Where it can be reached, `host:port`."""
        self.port = port
        self._parts = parts

    @classmethod
    async def start(
        cls,
        settings: Settings,
        folder: str,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        bound: Bound | None = None,
    ) -> "NameServerNode":
        """Listen.

        Args:
            settings: All groups.
            folder: Where `kvConfig.json` lies; made when there is something to keep.
            disk: Where that is; the machine's by default.
            clock: The machine's by default.
            bound: Its port, if that was taken already.

        Raises:
            StoreError: `kvConfig.json` cannot be read.
            SettingsError: The port is in use, or the address none of this machine.
        """
        disk = disk or RealDisk()
        clock = clock or SystemClock()
        async with AsyncExitStack() as parts:
            kept = _key_values(disk, folder)
            nameserver = NameServer(clock, settings.nameserver, settings.server, kept)
            dispatcher = Dispatcher(
                [
                    *NameHandlers(nameserver.routes, kept, nameserver.config).rows(),
                    *NameLookupHandlers(nameserver.lookup, nameserver.config).rows(),
                    *NameConfigHandlers(kept, nameserver.config).rows(),
                ]
            )
            nameserver.start()
            parts.push_async_callback(nameserver.stop)
            listening = Listening.of(settings, disk, clock)
            bound = bound or await listening.bind(settings.server.nameserver_port)
            server = await listening.open(dispatcher, bound)
            parts.push_async_callback(server.close)
            told = address(told_host(settings.server), server.port)
            return cls(told, server.port, parts.pop_all())
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """Close every connection and end."""
        await self._parts.aclose()


def _key_values(disk: Disk, folder: str) -> KeyValues:
    """Return what was kept in a folder, and keep changes there."""
    file = ConfigFile(disk, f"{folder}/kvConfig.json")

    def keep(content: dict[str, Any]) -> None:
        disk.make_folder(folder)
        file.replace(content)

    return KeyValues(file.load(key_values.from_json), keep)
