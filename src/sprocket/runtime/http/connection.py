"""One connection of HTTP/1.1, without I/O: bytes to requests, answers to bytes.

Invariants

1. A request is given out whole, and the next one only when it is answered.
2. Head and body have limits. Any bytes give requests or an `HttpFailure`, after which nothing more
   is read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import h11
from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.base.units import KIB

HEAD_BYTES_MAX: Final = 64 * KIB
"""Request line and headers together."""


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request, with all of its body."""

    method: str
    target: str
    """Path and query, as they came."""
    headers: Mapping[str, str]
    """By names in small letters; of one name the last counts."""
    body: bytes = b""


class HttpResponse(Struct, frozen=True, kw_only=True):
    """An answer; its size is added when it is written."""

    status: int
    headers: Mapping[str, str] = {}
    body: Sequence[bytes] = ()
    """In pieces, which are written as they are: a long answer is never joined."""


class HttpFailure(Struct, frozen=True):
    """Nothing more can be read: what is to be answered, before the connection is closed."""

    status: int
    why: str


class BodyBegun(Struct, frozen=True):
    """The headers of a request are there, and its body is not whole yet."""

    headers: Mapping[str, str]
    octets: bytes
    """What tells the client that it may send the body; nothing if it does not wait for that."""


Event = HttpRequest | HttpFailure | BodyBegun
BodyLimit = Callable[[Mapping[str, str]], int]
"""Gives the largest body that is taken after some headers."""


class HttpConnection:
    """See the head of the module; a `runtime.driver.Carried`.

    Args:
        body_limit: Says how large a body may be, by the headers before it.
    """

    def __init__(self, body_limit: BodyLimit) -> None:
        self.broken: WireError | None = None
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._body_limit = body_limit
        self._request: h11.Request | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._body_bytes_max = 0
        self._is_told = True
        """Whether it was said that the body has begun, or there is none to come."""
        self._is_failed = False

    def receive(self, data: bytes) -> Sequence[Event]:
        """Take bytes and return what they complete: one request at most."""
        if self._is_failed or not data:  # nothing means the end to h11
            return ()
        self._h11.receive_data(data)
        return self.read_on()

    def read_on(self) -> Sequence[Event]:
        """Return what has been read already, once the request before is answered."""
        found: list[Event] = []
        try:
            while (event := self._h11.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                match event:
                    case h11.Request():
                        self._begin(event)
                    case h11.Data():
                        self._body += event.data
                    case h11.EndOfMessage():
                        found.append(self._complete())
                if len(self._body) > self._body_bytes_max:
                    return [*found, self._fail(413, "the body is too large")]
        except h11.RemoteProtocolError as error:
            found.append(self._fail(error.error_status_hint, str(error)))
        if not (self._is_told or self._is_failed):
            self._is_told, octets = True, None
            if self._h11.they_are_waiting_for_100_continue:
                octets = self._h11.send(h11.InformationalResponse(status_code=100, headers=[]))
            found.append(BodyBegun(self._headers, octets or b""))
        return found

    def answer(self, response: HttpResponse) -> Sequence[bytes]:
        """Return the octets of an answer to the request that was given out, or to a failure.

        The pieces of the body are among them, not copied.
        """
        headers = list(response.headers.items())
        if response.status not in (204, 304):
            headers.append(("content-length", str(sum(map(len, response.body)))))
        if self._is_failed:
            headers.append(("connection", "close"))
        head = h11.Response(status_code=response.status, headers=headers)
        octets = [self._h11.send(head) or b""]
        if not (self._request and self._request.method == b"HEAD"):
            for piece in response.body:
                octets += self._h11.send_with_data_passthrough(h11.Data(data=piece)) or ()
        octets.append(self._h11.send(h11.EndOfMessage()) or b"")
        self._request = None
        if not self.is_over:
            self._h11.start_next_cycle()
        return [one for one in octets if one]

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after the last answer."""
        return self._is_failed or self._h11.our_state in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)

    @property
    def can_answer(self) -> bool:
        """Whether an answer has not begun."""
        return self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    def _begin(self, request: h11.Request) -> None:
        self._request = request
        self._headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers
        }
        self._body_bytes_max = self._body_limit(self._headers)
        self._is_told = False

    def _complete(self) -> HttpRequest:
        assert self._request is not None, "the end of a request that has not begun"
        body, self._body = bytes(self._body), bytearray()
        self._is_told = True
        return HttpRequest(
            method=self._request.method.decode("latin-1"),
            target=self._request.target.decode("latin-1"),
            headers=self._headers,
            body=body,
        )

    def _fail(self, status: int, why: str) -> HttpFailure:
        self._is_failed = True
        self._body.clear()
        return HttpFailure(status, why)
