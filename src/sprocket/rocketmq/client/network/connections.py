"""Connections by address.

Invariants:

1. There is at most one open connection to an address.
2. When a connection is lost, it is out of the table before its requests learn of it, so what they
   do next finds no connection rather than a dead one.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, NotConnected
from sprocket.base.units import GIB
from sprocket.rocketmq.client.network.answers import granted
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, request
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.signed_request import SignedRequests
from sprocket.rocketmq.remoting import Channel, Connect, MakeRequest, OnRequest, open_channel
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings
from sprocket.runtime.settings import ClientLimits
from sprocket.runtime.tasks import Tasks, is_end_of

_log = log.get_logger(__name__)
T = TypeVar("T")

_LIMITS = ConnectionSettings(limits=ClientLimits(answer_bytes_high=GIB, answer_bytes_max=GIB))
"""A client limits what it has unanswered, and must go on reading while it writes: if both sides
waited for the other to read, neither would ever."""
_OUTAGE_S = 1.0
"""An address that cannot be reached for so long is told of, however long somebody waits for it."""
_SILENCE_S = 5.0
"""A connection on which an answer is late and nothing at all came for this long is given up: the
peer's machine may be gone, and TCP would take minutes to say so. A peer that is only busy should
not lose its connections: RocketMQ may keep the lost one as a second member of the group."""


class Connections:
    """Everything this client says over the network goes through here.

    `on_request` is called with what a broker asks by itself, `on_open` with the address of each new
    connection.

    Threads: event loop only.
    """

    def __init__(
        self,
        settings: ClientSettings,
        clock: Clock,
        tasks: Tasks,
        *,
        on_request: OnRequest,
        on_open: Callable[[str], None],
        connect: Connect = driver.connect,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self._on_request = on_request
        self._on_open = on_open
        self._connect = connect
        self._open: dict[str, Channel] = {}
        self._opening: dict[str, asyncio.Task[Channel | ClientError]] = {}
        self._outages: dict[str, asyncio.TimerHandle] = {}
        """Addresses that could not be reached, with the timer that tells of each, once."""
        self._errors: dict[str, ClientError] = {}
        """Why, by address."""
        self._is_closed = False
        credentials = settings.credentials
        self.make_request: MakeRequest = request
        """Makes the frames of requests; signs them if there are credentials."""
        if credentials is not None:
            self.make_request = SignedRequests(credentials)

    def open_channel(self, address: str) -> Channel | None:
        """Return the open connection to an address, or None."""
        return self._open.get(address)

    async def channel(self, address: str) -> Channel:
        """Return the connection to `host:port`, opening it if there is none.

        Raises:
            NotConnected: The address is malformed, nobody listens there, or it took too long.
        """
        found = self._open.get(address)
        if found is not None:
            return found
        if self._is_closed:
            raise NotConnected("this client is closed")
        opening = self._opening.get(address)
        if opening is None:
            opening = self._tasks.spawn(self._dial(address), f"connect {address}")
            self._opening[address] = opening
        try:
            outcome = await asyncio.shield(opening)
        except asyncio.CancelledError as error:
            if opening.cancelled() and not is_end_of(asyncio.current_task(), error):
                raise NotConnected("this client was closed while it connected") from None
            raise
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    async def request(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Send one request to `host:port` and return its answer, whatever its code.

        The wait for the answer is that of the settings unless `timeout_ms` says another.

        Raises:
            NotConnected: No connection could be made, or it was lost.
            RequestTimeout: No answer came in time.
        """
        channel = await self.channel(address)
        wait_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        return await channel.ask(code, header, body, timeout_ms=wait_ms)

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Like `request`, but an answer other than success is an error.

        Raises:
            BrokerRefused: With the answer's code and remark.
        """
        command = await self.request(address, code, header, body, timeout_ms=timeout_ms)
        granted(address, code, command)
        return command

    def close(self) -> None:
        """Close every connection; what waits for an answer gets `NotConnected`."""
        self._is_closed = True
        for channel in list(self._open.values()):
            channel.close()
        for timer in self._outages.values():
            timer.cancel()

    async def _dial(self, address: str) -> Channel | ClientError:
        """Connect; an error is returned, as several may wait for it."""
        if address not in self._outages:
            loop = asyncio.get_running_loop()
            self._outages[address] = loop.call_later(_OUTAGE_S, self._tell_outage, address)
        try:
            channel = await open_channel(
                address,
                self._clock,
                connect=self._connect,
                on_request=self._on_request,
                settings=_LIMITS,
                timeout_seconds=self._settings.connect_timeout_ms / 1000,
                silence_seconds=_SILENCE_S,
                tls=self._settings.tls,
                make_request=self.make_request,
            )
        except ClientError as error:
            self._errors[address] = error
            return error
        finally:
            self._opening.pop(address, None)
        self._outages.pop(address).cancel()
        self._errors.pop(address, None)
        if self._is_closed:
            channel.close()
            return NotConnected("this client is closed")
        self._open[address] = channel
        channel.peer.on_close.append(lambda _: self._lost(channel))
        self._on_open(address)
        return channel

    def _tell_outage(self, address: str) -> None:
        """Tell, once, that an address cannot be reached; whoever wants it may wait for longer."""
        error = self._errors.get(address)
        _log.warning(
            "no connection after 1 s", address=address, error=str(error or "no answer yet")
        )

    def _lost(self, channel: Channel) -> None:
        if self._open.get(channel.address) is channel:
            del self._open[channel.address]
        text = f"the connection to {channel.address} was lost"
        if not channel.is_answered and self._settings.tls is None:
            text += (
                " before it answered anything; if it wants TLS, encrypt"
                " (ClientSettings(tls=…), --tls)"
            )
        channel.lost(NotConnected(text))
