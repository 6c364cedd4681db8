"""Keeps trying to reach the brokers that messages wait for."""

import asyncio
from collections.abc import Callable
from typing import Final

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.network import Backoff, Connections, Routes
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.remoting import Channel
from sprocket.runtime.tasks import Tasks

DOUBT_SECONDS: Final = 0.5
"""How often it is asked where a broker lives that does not take messages: its slave may take its
place within a second, and NameServers answer in less than a millisecond."""


class Dialer:
    """Connections to brokers by name, and who waits for them.

    While one cannot be reached the NameServers are asked again where it lives; and when one does
    not take messages, as it may not be the master any more.
    """

    def __init__(
        self, connections: Connections, routes: Routes, tasks: Tasks, settings: ClientSettings
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._tasks = tasks
        self._settings = settings
        self._stalled: dict[str, dict[Callable[[], None], None]] = {}
        self._dialing: set[str] = set()
        self._doubted: dict[str, bool] = {}
        """Brokers that did not take a message lately, and whether they did not even answer."""
        self._errors: dict[str, ClientError] = {}

    def channel(self, broker_name: str) -> Channel | None:
        """Return the open connection to the master of a broker, or None."""
        address = self._routes.master_address(broker_name)
        return None if address is None else self._connections.open_channel(address)

    def error(self, broker_name: str) -> ClientError | None:
        """Return why the broker cannot be reached, or None if it can, or was not tried."""
        return self._errors.get(broker_name)

    def stall(self, broker_name: str, pump: Callable[[], None]) -> None:
        """Call `pump` once when the broker can be reached."""
        self._stalled.setdefault(broker_name, {})[pump] = None
        self.dial(broker_name)

    def dial(self, broker_name: str) -> None:
        """Begin to connect, unless that is under way."""
        if broker_name not in self._dialing:
            self._dialing.add(broker_name)
            self._tasks.spawn(self._dial(broker_name), f"dial {broker_name}")

    def doubt(self, broker_name: str, *, is_silent: bool) -> None:
        """Ask from time to time where the broker lives, as it did not take a message.

        Args:
            broker_name: It.
            is_silent: It did not answer. Then it is not waited for if it lives elsewhere: what it
                was sent is sent again.
        """
        is_known = broker_name in self._doubted
        self._doubted[broker_name] = is_silent or self._doubted.get(broker_name, False)
        if not is_known:
            self._tasks.spawn(self._look_again(broker_name), f"look for {broker_name}")

    def trust(self, broker_name: str) -> None:
        """Note that the broker has taken a message."""
        if self._doubted:
            self._doubted.pop(broker_name, None)

    async def _look_again(self, broker_name: str) -> None:
        before = self._routes.master_address(broker_name)
        try:
            while broker_name in self._doubted:
                await self._routes.refresh_broker(broker_name)
                if before is not None and self._routes.master_address(broker_name) != before:
                    if self._doubted.get(broker_name):
                        self._leave(before)
                    break
                await asyncio.sleep(DOUBT_SECONDS)
        finally:
            self._doubted.pop(broker_name, None)

    def _leave(self, address: str) -> None:
        channel = self._connections.open_channel(address)
        if channel is not None:
            channel.peer.abort("it does not answer, and another machine is the master")

    async def _dial(self, broker_name: str) -> None:
        """Connect to one broker, with growing pauses, for as long as somebody waits for it."""
        pauses = Backoff(self._settings)
        try:
            while True:
                try:
                    await self._connections.channel(self._routes.require_master(broker_name))
                    break
                except ClientError as error:
                    self._errors[broker_name] = error
                await pauses.pause()
                if broker_name not in self._stalled:
                    return
                await self._routes.refresh_broker(broker_name)
        finally:
            self._dialing.discard(broker_name)
        self._errors.pop(broker_name, None)
        for pump in self._stalled.pop(broker_name, {}):
            pump()
