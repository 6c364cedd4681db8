"""Connections by address, and the matching of answers with requests.

Invariants:

1. There is at most one open connection to an address.
2. Every request has exactly one outcome: its answer, `RequestTimeout`, or `NotConnected`.
3. When a connection is lost, it is out of the table before its requests learn of it, so what they
   do next finds no connection rather than a dead one.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    NotConnected,
    RequestRefused,
    RequestTimeout,
    WireError,
)
from sprocket.base.units import GIB
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import Header
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Peer
from sprocket.runtime.tasks import Tasks

_log = log.get_logger(__name__)
T = TypeVar("T")

Outcome = Callable[[Any, Command | None, ClientError | None], None]
"""Called once with the context that was given, and an answer or an error."""

OnRequest = Callable[[Peer, Command], None]
"""Takes a request that a broker sent by itself."""

_LIMITS = ConnectionSettings(write_bytes_high=GIB, write_bytes_max=GIB)
"""A client limits what it has unanswered, and must go on reading while it writes: if both sides
waited for the other to read, neither would ever."""
_SWEEP_S = 0.1
"""How late a timeout may be noticed; one timer for all requests instead of one each."""
_OUTAGE_S = 1.0
"""An address that cannot be reached for so long is told of, however long somebody waits for it."""
_SILENCE_S = 5.0
"""A connection on which an answer is late and nothing at all came for this long is given up: the
peer's machine may be gone, and TCP would take minutes to say so. A peer that is only busy should
not lose its connections: RocketMQ may keep the lost one as a second member of the group."""


class Connect(Protocol):
    """How to open a connection; see `runtime.driver.connect`."""

    async def __call__(
        self,
        factory: Callable[[], Connection],
        on_event: OnRequest,
        host: str,
        port: int,
        *,
        settings: ConnectionSettings | None = None,
        timeout_seconds: float = 3.0,
    ) -> Peer:
        """Return the open connection, or raise NotConnected."""


class Channel:
    """One connection and the requests on it that wait for an answer.

    Args:
        address: The peer, `host:port` as the route or the user wrote it.
        clock: Tells when something was last heard.
        on_request: Takes what the peer asks by itself.
        on_wait: Called when a request waits and none did before.

    Threads: event loop only.
    """

    def __init__(
        self,
        address: str,
        clock: Clock,
        on_request: "OnRequest",
        on_wait: Callable[[], None],
    ) -> None:
        self.address = address
        self._clock = clock
        self._on_request = on_request
        self._on_wait = on_wait
        self._pending: dict[int, tuple[float, Outcome, Any]] = {}
        self._earliest = math.inf
        """Not after the deadline of any request that waits."""
        self._heard_at = clock.monotonic()
        self._peer = cast("Peer", None)
        self.is_answered = False
        """Whether anything ever came from the peer."""
        self.write: Callable[[Sequence[Buffer]], None] = _not_attached
        """Queues buffers without waiting for an answer; they leave in this turn of the loop."""
        self.next_opaque: Callable[[], int] = _not_attached
        """Numbers the next request."""

    def attach(self, peer: Peer) -> None:
        """Begin to use the connection that the driver has made."""
        self._peer = peer
        self.write = peer.send
        assert isinstance(peer.connection, Connection)
        self.next_opaque = peer.connection.next_opaque

    def received(self, peer: Peer, command: Command) -> None:
        """Take one command from the driver; an answer that nobody waits for is dropped."""
        self._heard_at = self._clock.monotonic()
        self.is_answered = True
        if not command.is_response:
            self._on_request(peer, command)
            return
        found = self._pending.pop(command.opaque, None)
        if found is not None:
            found[1](found[2], command, None)

    @property
    def is_open(self) -> bool:
        """Whether requests can be written."""
        return self._peer.is_open

    def send(
        self, buffers: list[Buffer], opaque: int, deadline: float, outcome: Outcome, context: Any
    ) -> None:
        """Write one request.

        Args:
            buffers: Its frame, made with `opaque`.
            opaque: From `next_opaque`.
            deadline: On the monotonic clock.
            outcome: Called once, on the loop, with `context` and what came.
            context: Anything.
        """
        if not self._peer.is_open:
            outcome(context, None, NotConnected(f"the connection to {self.address} is closed"))
            return
        if not self._pending:
            self._on_wait()
        if deadline < self._earliest:
            self._earliest = deadline
        self._pending[opaque] = (deadline, outcome, context)
        self.write(buffers)

    def forget(self, opaque: int) -> None:
        """Drop a request whose sender does not wait any more; its answer will be ignored."""
        self._pending.pop(opaque, None)

    def sweep(self, now: float) -> None:
        """End the requests whose deadline has passed; close a connection that has gone dead."""
        if now < self._earliest:
            return
        late = [opaque for opaque, entry in self._pending.items() if entry[0] <= now]
        for opaque in late:
            found = self._pending.pop(opaque, None)
            if found is not None:
                found[1](found[2], None, RequestTimeout(f"{self.address} did not answer in time"))
        self._earliest = min((entry[0] for entry in self._pending.values()), default=math.inf)
        if late and now - self._heard_at >= _SILENCE_S:
            self._peer.abort("an answer is late and nothing else came")

    def fail_all(self, error: ClientError) -> None:
        """Tell everybody who waits that the connection was lost."""
        pending, self._pending = self._pending, {}
        for _, outcome, context in pending.values():
            outcome(context, None, error)

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._pending)

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()


class Connections:
    """Everything this client says over the network goes through here.

    Args:
        settings: Timeouts.
        clock: For deadlines.
        tasks: Owns the attempts to connect.
        on_request: Called with requests that a broker sends by itself.
        on_open: Called with the address of each new connection.
        connect: The driver's `connect`, or a double of it.

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
        if settings.tls is not None:
            self._connect = cast("Connect", partial(cast("Any", connect), tls=settings.tls))
        self._open: dict[str, Channel] = {}
        self._opening: dict[str, asyncio.Task[Channel | ClientError]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._outages: dict[str, asyncio.TimerHandle] = {}
        """Addresses that could not be reached, with the timer that tells of each, once."""
        self._errors: dict[str, ClientError] = {}
        """Why, by address."""
        self._is_closed = False

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
        except asyncio.CancelledError:
            if opening.cancelled() and not _is_cancelled():
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
        extra: Mapping[str, str] | None = None,
    ) -> Command:
        """Send one request and return its answer, whatever its code.

        Args:
            address: `host:port`; connected to if it is not yet.
            code: What is asked.
            header: The declared header of that code.
            body: Bytes after the header.
            timeout_ms: Longest wait for the answer; by default that of the settings.
            extra: More ext fields.

        Raises:
            NotConnected: No connection could be made, or it was lost.
            RequestTimeout: No answer came in time.
        """
        channel = await self.channel(address)
        wait_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        reply: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        opaque = channel.next_opaque()
        buffers = request(code, opaque, header, body, extra=extra)
        deadline = self._clock.monotonic() + wait_ms / 1000
        channel.send(buffers, opaque, deadline, _reply, reply)
        try:
            return await reply
        except RequestTimeout:
            raise RequestTimeout(
                f"{address} did not answer {code.name} within {wait_ms} ms"
            ) from None
        finally:
            channel.forget(opaque)

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Command:
        """Like `request`, but an answer other than success is an error.

        Raises:
            BrokerRefused: With the answer's code and remark.
        """
        command = await self.request(
            address, code, header, body, timeout_ms=timeout_ms, extra=extra
        )
        if command.code != ResponseCode.SUCCESS:
            raise refused(address, code, command)
        return command

    def close(self) -> None:
        """Close every connection; what waits for an answer gets `NotConnected`."""
        self._is_closed = True
        for channel in list(self._open.values()):
            channel.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for timer in self._outages.values():
            timer.cancel()

    async def _dial(self, address: str) -> Channel | ClientError:
        """Connect; an error is returned, as several may wait for it."""
        if address not in self._outages:
            loop = asyncio.get_running_loop()
            self._outages[address] = loop.call_later(_OUTAGE_S, self._tell_outage, address)
        channel = Channel(address, self._clock, self._on_request, self._begin_sweeping)
        try:
            host, port = split_address(address)
            peer = await self._connect(
                Connection,
                channel.received,
                host,
                port,
                settings=_LIMITS,
                timeout_seconds=self._settings.connect_timeout_ms / 1000,
            )
        except ClientError as error:
            self._errors[address] = error
            return error
        finally:
            self._opening.pop(address, None)
        self._outages.pop(address).cancel()
        self._errors.pop(address, None)
        if self._is_closed:
            peer.close()
            return NotConnected("this client is closed")
        channel.attach(peer)
        self._open[address] = channel
        peer.on_close.append(lambda _: self._lost(channel))
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
        channel.fail_all(NotConnected(text))

    def _begin_sweeping(self) -> None:
        if self._sweeper is None and not self._is_closed:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._clock.monotonic()
        channels = list(self._open.values())
        for channel in channels:
            channel.sweep(now)
        if any(channel.waiting for channel in channels):
            self._begin_sweeping()


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[host]:port`.

    Raises:
        NotConnected: It is neither.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise NotConnected(f"address {address!r}: expected host:port")
    return host.strip("[]"), int(port)


def refused(address: str, code: RequestCode, command: Command) -> BrokerRefused:
    """Return the error for an answer that is none of those expected."""
    remark = command.remark or "no reason given"
    return BrokerRefused(command.code, f"{address} refused {code.name}: {remark}")


def read(source: str, decode: Callable[[], T]) -> T:
    """Return what `decode` makes of an answer.

    Raises:
        BrokerRefused: It cannot be read; the text names `source`.
    """
    try:
        return decode()
    except (WireError, RequestRefused) as wrong:
        raise BrokerRefused(
            ResponseCode.SYSTEM_ERROR, f"unreadable answer of {source}: {wrong}"
        ) from wrong


def _is_cancelled() -> bool:
    """Whether the task that asks is to end, and not only what it waited for."""
    task = asyncio.current_task()
    assert task is not None, "who waits is a task"
    return bool(task.cancelling())


def _reply(
    reply: "asyncio.Future[Command]", command: Command | None, error: ClientError | None
) -> None:
    if reply.done():
        return
    if error is not None:
        reply.set_exception(error)
    else:
        assert command is not None, "an answer or an error"
        reply.set_result(command)


def _not_attached(*_: object) -> Any:
    raise AssertionError("the channel has no connection yet")
