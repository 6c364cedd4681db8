"""What a port of HTTP is listened on with: each request is handled in a task.

    event ── task: handle ── answer ── what was read meanwhile

A connection is not read while a request of it is handled.
"""

from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.runtime.driver import Peer
from sprocket.runtime.http.connection import (
    BodyBegun,
    BodyLimit,
    Event,
    HttpConnection,
    HttpFailure,
    HttpRequest,
    HttpResponse,
)
from sprocket.runtime.tasks import Tasks

Handle = Callable[[HttpRequest, Peer], Awaitable[HttpResponse]]

_log = log.get_limited_logger(__name__)


class HttpServer:
    """See the head of the module; `connection` is the factory, `on_event` the handler.

    Args:
        handle: Answers requests; what it raises is answered with 500, and logged.
        body_limit: Says how large a body may be, by the headers before it.
        is_known: Says whether headers show who somebody is: they have time to send a body then.
            Of others `handle` says so, by `Peer.admit`.
        clock: Of the machine.

    Threads: event loop only.
    """

    def __init__(
        self,
        handle: Handle,
        body_limit: BodyLimit,
        is_known: Callable[[Mapping[str, str], Peer], bool],
        clock: Clock,
    ) -> None:
        self._handle = handle
        self._body_limit = body_limit
        self._is_known = is_known
        self._clock = clock
        self._tasks = Tasks("http")

    def connection(self) -> HttpConnection:
        """Return what reads a new client."""
        return HttpConnection(self._body_limit)

    def on_event(self, peer: Peer, event: Event) -> None:
        """Handle what a client has sent."""
        match event:
            case HttpRequest():
                peer.stop_reading()
                self._tasks.spawn(self._serve(peer, event), event.method)
            case HttpFailure():
                _log.info("a request cannot be read", peer=peer.told_address, why=event.why)
                assert isinstance(peer.connection, HttpConnection)
                if peer.connection.can_answer:
                    self._answer(peer, HttpResponse(status=event.status))
                peer.close()
            case BodyBegun():
                if self._is_known(event.headers, peer):
                    peer.admit()
                if event.octets:
                    peer.send([event.octets])

    async def stop(self) -> None:
        """End what is under way; whoever waits for it is not answered."""
        await self._tasks.close()

    async def _serve(self, peer: Peer, request: HttpRequest) -> None:
        try:
            response = await self._handle(request, peer)
        except Exception:  # the client is told, and others are served
            _log.exception("a request failed", method=request.method, target=request.target)
            response = HttpResponse(status=500)
        if not peer.is_open:
            return
        assert isinstance(peer.connection, HttpConnection)
        self._answer(peer, response)
        if peer.connection.is_over:
            peer.close()
            return
        peer.start_reading()
        for event in peer.connection.read_on():
            self.on_event(peer, event)

    def _answer(self, peer: Peer, response: HttpResponse) -> None:
        assert isinstance(peer.connection, HttpConnection)
        now = formatdate(self._clock.now_ms() / 1000, usegmt=True)
        dated = HttpResponse(
            status=response.status,
            headers={"date": now, **response.headers},
            body=response.body,
        )
        peer.send(peer.connection.answer(dated))
