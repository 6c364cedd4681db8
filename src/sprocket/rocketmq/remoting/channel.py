"""A connection, and the requests of this side that wait on it for their answers.

Invariants:

1. Every request has exactly one outcome: its answer, `RequestTimeout`, or `NotConnected`.
2. What was answered, is late, or went with its connection is out of the table before its outcome
   is told.
3. However many requests wait, one timer is set for them: for the earliest deadline, or before it.

Source: RocketMQ `NettyRemotingAbstract`, `Broker2Client`.
"""

import asyncio
import math
import ssl
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, NotConnected, RequestTimeout
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import RESPONSE_FLAG, Command, request
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.remoting.connection import Connection
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Peer
from sprocket.runtime.timers import Timer, Timers

_log = log.get_limited_logger(__name__)

CALLS_MAX = 1024
"""Requests of a server that may wait at a time; one takes about 1 KiB beside its body. RocketMQ
allows 64 asynchronous ones and, of the others, as many as it has threads."""

X = TypeVar("X")

Outcome = Callable[[Command | None, ClientError | None], None]
"""Called once, on the loop, with the answer, or with None and why there is none."""

OutcomeOf = Callable[[X, Command | None, ClientError | None], None]
"""As `Outcome`, after the context that was given with it."""

OnRequest = Callable[[Peer, Command], None]
"""Takes a request that the other side sent by itself."""


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
        timeout_seconds: float = driver.CONNECT_SECONDS_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> Peer:
        """Return the open connection, or raise NotConnected."""


class MakeRequest(Protocol):
    """Makes the frames of requests: `codec.command.request`, or `SignedRequests`."""

    def __call__(
        self,
        code: int,
        opaque: int,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        oneway: bool = False,
    ) -> list[Buffer]:
        """Return the buffers of one request's frame."""


class _Request(Protocol):
    """A request that waits."""

    @property
    def deadline(self) -> float:
        """On the monotonic clock."""

    def end(self, answer: Command | None, error: ClientError | None) -> None:
        """Tell the outcome."""


class _RequestOf(Struct, Generic[X], gc=False):
    """One with its context: one object, which the collector does not look at, for each request."""

    deadline: float
    outcome: OutcomeOf[X]
    context: X

    def end(self, answer: Command | None, error: ClientError | None) -> None:
        """Tell the outcome."""
        self.outcome(self.context, answer, error)


class Channel:
    """What waits on one connection; made by `open_channel` and by `Channels`.

    Args:
        peer: The connection.
        address: How errors name the other side.
        clock: For deadlines.
        timers: The event loop's.
        on_request: Takes what the other side asks by itself; without it that is dropped.
        silence_seconds: A connection on which an answer is late, and nothing at all came for so
            long, is given up: the peer's machine may be gone, and TCP would take minutes to say so.
        make_request: Makes the frames of requests.

    Threads: event loop only.
    """

    def __init__(
        self,
        peer: Peer,
        address: str,
        clock: Clock,
        timers: Timers,
        on_request: OnRequest | None = None,
        silence_seconds: float = math.inf,
        make_request: MakeRequest = request,
    ) -> None:
        assert isinstance(peer.connection, Connection)
        self.peer = peer
        self.address = address
        self.write: Callable[[Sequence[Buffer]], None] = peer.send
        """Queues buffers without waiting for an answer; they leave in this turn of the loop."""
        self.next_opaque: Callable[[], int] = peer.connection.next_opaque
        """Numbers the next request."""
        self.make_request = make_request
        """Makes the frame of one."""
        self.is_answered = False
        """Whether anything ever came from the peer."""
        self._clock = clock
        self._timers = timers
        self._on_request = on_request
        self._silence_seconds = silence_seconds
        self._heard_at = clock.monotonic()
        self._pending: dict[int, _Request] = {}
        self._timer: Timer | None = None
        self._timer_at = math.inf

    @property
    def is_open(self) -> bool:
        """Whether requests can be written."""
        return self.peer.is_open

    @property
    def waiting_count(self) -> int:
        """Requests without an outcome."""
        return len(self._pending)

    def send(
        self,
        buffers: Sequence[Buffer],
        opaque: int,
        deadline: float,
        outcome: OutcomeOf[X],
        context: X,
    ) -> None:
        """Write one request, a frame made with `opaque`, a number from `next_opaque`.

        `outcome` is called once, with `context`, before this returns if the connection is closed.
        The deadline is on the monotonic clock.
        """
        if not self.peer.is_open:
            error = NotConnected(f"the connection to {self.address} is closed")
            outcome(context, None, error)
            return
        if deadline < self._timer_at:
            self._wait_until(deadline)
        self._pending[opaque] = _RequestOf(deadline, outcome, context)
        self.write(buffers)

    def call(
        self, code: int, header: Header | None, body: Buffer, seconds: float, outcome: Outcome
    ) -> None:
        """Ask something; see `send`."""
        opaque = self.next_opaque()
        deadline = self._clock.monotonic() + seconds
        buffers = self.make_request(code, opaque, header, body)
        self.send(buffers, opaque, deadline, _tell, outcome)

    async def ask(
        self,
        code: RequestCode,
        header: Header | None = None,
        body: Buffer = b"",
        *,
        timeout_ms: int,
    ) -> Command:
        """Ask something and return the answer, whatever its code.

        Raises:
            NotConnected: The connection is closed, or was lost.
            RequestTimeout: No answer came in time.
        """
        reply: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

        opaque = self.next_opaque()
        buffers = self.make_request(code, opaque, header, body)
        self.send(buffers, opaque, self._clock.monotonic() + timeout_ms / 1000, _reply, reply)
        try:
            return await reply
        except RequestTimeout:
            raise RequestTimeout(
                f"{self.address} did not answer {code.name} within {timeout_ms} ms"
            ) from None
        finally:
            self._pending.pop(opaque, None)

    def received(self, peer: Peer, command: Command) -> None:
        """Take what came; an answer that nobody waits for, or no longer, is dropped."""
        self._heard_at = self._clock.monotonic()
        self.is_answered = True
        if not command.flag & RESPONSE_FLAG:
            if self._on_request is not None:
                self._on_request(peer, command)
            return
        found = self._pending.pop(command.opaque, None)
        if found is not None:
            found.end(command, None)

    def lost(self, error: ClientError) -> None:
        """Tell everybody who waits that the connection was lost."""
        if self._timer is not None:
            self._timer.cancel()
        pending, self._pending = self._pending, {}
        for one in pending.values():
            one.end(None, error)

    def close(self) -> None:
        """Close the connection."""
        self.peer.close()

    def _wait_until(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        seconds = max(0.0, deadline - self._clock.monotonic())
        self._timer = self._timers.call_later(seconds, self._end_late)

    def _end_late(self) -> None:
        """End the requests whose deadline has passed; give up a connection that has gone dead."""
        now = self._clock.monotonic()
        passed = max(now, self._timer_at)  # a loop counts in milliseconds, and may be early
        self._timer, self._timer_at = None, math.inf
        late = [opaque for opaque, one in self._pending.items() if one.deadline <= passed]
        for opaque in late:
            found = self._pending.pop(opaque, None)
            if found is not None:
                found.end(None, RequestTimeout(f"{self.address} did not answer in time"))
        if late and now - self._heard_at >= self._silence_seconds:
            self.peer.abort("an answer is late and nothing else came")
        elif self._pending:
            self._wait_until(min(one.deadline for one in self._pending.values()))


def _tell(outcome: Outcome, answer: Command | None, error: ClientError | None) -> None:
    outcome(answer, error)


def _reply(
    reply: "asyncio.Future[Command]", answer: Command | None, error: ClientError | None
) -> None:
    if reply.done():
        return
    if answer is not None:
        reply.set_result(answer)
    elif error is not None:
        reply.set_exception(error)


async def open_channel(
    address: str,
    clock: Clock,
    *,
    connect: Connect = driver.connect,
    on_request: OnRequest | None = None,
    settings: ConnectionSettings | None = None,
    timeout_seconds: float = driver.CONNECT_SECONDS_MAX,
    silence_seconds: float = math.inf,
    tls: ssl.SSLContext | None = None,
    make_request: MakeRequest = request,
) -> Channel:
    """Connect to `host:port`, within a time that covers the handshake; see `Channel`.

    Raises:
        NotConnected: The address is malformed, nobody listens there, or it took too long.
    """
    channel: Channel | None = None

    def received(peer: Peer, command: Command) -> None:
        if channel is not None:  # else it answers nothing, and who we are it cannot know yet
            channel.received(peer, command)

    host, port = split_address(address)
    peer = await connect(
        Connection,
        received,
        host,
        port,
        settings=settings,
        timeout_seconds=timeout_seconds,
        tls=tls,
    )
    loop = asyncio.get_running_loop()
    channel = Channel(peer, address, clock, loop, on_request, silence_seconds, make_request)
    return channel


class Channels:
    """What a server asks of its clients, on the connections that they have opened.

    At most `waiting_max` requests wait for an answer on all of them together. Above that one fails
    at once, and that is logged.

    Args:
        clock: For deadlines.
        timers: The event loop's.
        waiting_max: How many requests may wait.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock, timers: Timers, waiting_max: int = CALLS_MAX) -> None:
        self._clock = clock
        self._timers = timers
        self._waiting_max = waiting_max
        self._channels: dict[Peer, Channel] = {}
        self.waiting_count = 0
        """Requests without an outcome."""

    def call(
        self, peer: Peer, code: int, header: Header, body: Buffer, seconds: float, outcome: Outcome
    ) -> None:
        """Ask a client something; the outcome is told once, after this has returned."""
        if not peer.is_open or self.waiting_count >= self._waiting_max:
            why = "the connection is closed"
            if peer.is_open:
                why = f"{self._waiting_max} calls to clients are under way already"
                _log.warning("a client is not asked", code=code, peer=peer.told_address, why=why)
            self._timers.call_soon(lambda: outcome(None, NotConnected(why)))
            return

        def ended(answer: Command | None, error: ClientError | None) -> None:
            self.waiting_count -= 1
            if isinstance(error, RequestTimeout):
                error = RequestTimeout(f"no answer within {seconds:g} s")
            outcome(answer, error)

        self.waiting_count += 1
        channel = self._channels.get(peer)
        if channel is None:
            channel = Channel(peer, peer.address, self._clock, self._timers)
            self._channels[peer] = channel
            peer.when_closed(self._closed)
        channel.call(code, header, body, seconds, ended)

    def answered(self, peer: Peer, answer: Command) -> None:
        """Take a client's answer; one that nobody waits for is dropped."""
        channel = self._channels.get(peer)
        if channel is not None:
            channel.received(peer, answer)

    def _closed(self, peer: Peer) -> None:
        self._channels.pop(peer).lost(NotConnected("the connection closed before the answer"))


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[host]:port`.

    Raises:
        NotConnected: It is neither.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise NotConnected(f"address {address!r}: expected host:port")
    return host.strip("[]"), int(port)
