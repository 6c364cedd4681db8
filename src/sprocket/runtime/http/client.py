"""HTTP/1.1 for what asks a server: requests on connections that are used again.

`HttpAnswers` reads without I/O, `h11` doing the protocol. `HttpClient` asks one server: each
request has a connection for itself while it is under way, an idle one if there is one. `ask` gives
a whole answer, `stream` the pieces of one as they come.

Invariants

1. A connection whose request did not end as it should is closed: what comes late is read by nobody.
2. An answer has a limit of size, a stream one for what waits to be read.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

import h11
from msgspec import Struct

from sprocket.base.errors import NotConnected, RequestTimeout, WireError
from sprocket.base.units import KIB, MIB
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer, address
from sprocket.runtime.tasks import is_set_within

ANSWER_BYTES_MAX: Final = 16 * MIB
"""A larger answer is an error; and so is as much of a stream that nobody reads."""
IDLE_MAX: Final = 4
"""So many connections are kept that no request uses."""
_OK: Final = 200


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """A whole answer."""

    status: int
    body: bytes


class AnswerHead(Struct, frozen=True):
    """An answer has begun."""

    status: int


class AnswerPart(Struct, frozen=True):
    """Some of its body."""

    data: bytes


class AnswerEnd(Struct, frozen=True):
    """It is whole."""

    can_go_on: bool
    """Whether the connection takes another request."""


AnswerEvent = AnswerHead | AnswerPart | AnswerEnd


class HttpAnswers:
    """One connection to a server, without I/O; a `runtime.driver.Carried`."""

    def __init__(self) -> None:
        self.broken: WireError | None = None
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * KIB)

    def request(self, target: str, headers: Mapping[str, str], body: bytes) -> Sequence[bytes]:
        """Return the octets of a request (POST)."""
        told = [*headers.items(), ("content-length", str(len(body)))]
        head = h11.Request(method="POST", target=target, headers=told)
        parts = (head, h11.Data(data=body), h11.EndOfMessage())
        return [octets for one in parts if (octets := self._h11.send(one))]

    def receive(self, data: bytes) -> Sequence[AnswerEvent]:
        """Take bytes and return what they complete. Raises WireError."""
        found: list[AnswerEvent] = []
        try:
            self._h11.receive_data(data)
            while (event := self._h11.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                match event:
                    case h11.Response():
                        found.append(AnswerHead(event.status_code))
                    case h11.Data():
                        found.append(AnswerPart(bytes(event.data)))
                    case h11.EndOfMessage():
                        found.append(AnswerEnd(self._begin_next()))
                    case h11.ConnectionClosed():
                        break
        except h11.RemoteProtocolError as error:
            self.broken = WireError(f"this is not an answer of HTTP: {error}")
            if not found:
                raise self.broken from error
        return found

    def _begin_next(self) -> bool:
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True


class _Exchange:
    """What comes on one connection, for whoever waits for it."""

    def __init__(self) -> None:
        self.events: list[AnswerEvent] = []
        self.waiting_bytes = 0
        self.news = asyncio.Event()
        self.is_closed = False

    def received(self, peer: Peer, event: AnswerEvent) -> None:
        """Take what the server has sent."""
        self.events.append(event)
        if isinstance(event, AnswerPart):
            self.waiting_bytes += len(event.data)
            if self.waiting_bytes > ANSWER_BYTES_MAX:
                peer.abort(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        self.news.set()

    def closed(self, _: Peer) -> None:
        """Note that nothing more comes."""
        self.is_closed = True
        self.news.set()

    async def next(self, quiet_seconds: float) -> AnswerEvent | None:
        """Return what comes next, None if nothing does within the time. Raises NotConnected."""
        while not self.events:
            if self.is_closed:
                raise NotConnected("the server closed the connection")
            self.news.clear()
            if not await is_set_within(quiet_seconds, self.news):
                return None
        event = self.events.pop(0)
        if isinstance(event, AnswerPart):
            self.waiting_bytes -= len(event.data)
        return event


class _Line(Struct, eq=False):
    """A connection and what comes on it."""

    peer: Peer
    exchange: _Exchange


class HttpClient:
    """See the head of the module.

    Args:
        host: Of the server.
        port: The same.
        tls: What connections are encrypted with; None if they are not.

    Threads: event loop only.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.address = address(host, port)
        self._host, self._port, self._tls = host, port, tls
        self._idle: list[_Line] = []
        self._is_closed = False

    async def ask(
        self, target: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> HttpAnswer:
        """Send a request, and return the answer to it.

        Raises:
            NotConnected: There was no connection within the time; nothing was sent.
            RequestTimeout: There was no whole answer; it may have been carried out.
        """
        try:
            async with asyncio.timeout(seconds):
                line = await self._line(seconds)
                try:
                    return await self._asked(line, target, headers, body, seconds)
                except NotConnected as error:
                    raise RequestTimeout(f"{self.address}: {error}") from error
                except BaseException:
                    line.peer.close()
                    raise
        except TimeoutError:
            raise RequestTimeout(f"{self.address} did not answer within {seconds:g} s") from None

    async def stream(
        self, target: str, headers: Mapping[str, str], body: bytes, quiet_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Send a request, and give the pieces of the answer as they come, until it ends.

        An empty piece is given whenever nothing has come for so many seconds.

        Raises:
            NotConnected: There is no connection, or not any more.
            WireError: The answer is an error.
        """
        line = await self._line(driver.CONNECT_SECONDS_MAX)
        line.peer.keep_when_quiet()
        try:
            line.peer.send(_codec(line.peer).request(target, self._headers(headers), body))
            while not isinstance(event := await line.exchange.next(quiet_seconds), AnswerEnd):
                match event:
                    case None:
                        yield b""
                    case AnswerHead(status) if status != _OK:
                        raise WireError(f"{self.address} answers with status {status}")
                    case AnswerPart(data):
                        yield data
        finally:
            line.peer.close()

    def close(self) -> None:
        """Close all connections that no request uses, and keep none."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().peer.close()

    async def _asked(
        self, line: _Line, target: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> HttpAnswer:
        line.peer.send(_codec(line.peer).request(target, self._headers(headers), body))
        status, parts = 0, bytearray()
        while not isinstance(event := await line.exchange.next(seconds), AnswerEnd):
            match event:
                case None:
                    raise RequestTimeout(f"{self.address} does not answer")
                case AnswerHead(found):
                    status = found
                case AnswerPart(data):
                    parts += data
        if event.can_go_on and len(self._idle) < IDLE_MAX and not self._is_closed:
            self._idle.append(line)
        else:
            line.peer.close()
        return HttpAnswer(status=status, body=bytes(parts))

    async def _line(self, seconds: float) -> _Line:
        """Return a connection that nobody uses. Raises NotConnected."""
        while self._idle:
            line = self._idle.pop()
            if line.peer.is_open and not line.exchange.events:
                return line
            line.peer.close()
        exchange = _Exchange()
        peer = await driver.connect(
            HttpAnswers,
            exchange.received,
            self._host,
            self._port,
            timeout_seconds=seconds,
            tls=self._tls,
        )
        peer.when_closed(exchange.closed)
        return _Line(peer, exchange)

    def _headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return {"host": self.address, **headers}


def _codec(peer: Peer) -> HttpAnswers:
    assert isinstance(peer.connection, HttpAnswers)
    return peer.connection
