"""What may come before the first frame: a PROXY header, then the beginning of a TLS handshake.

    first bytes ─┬─ PROXY header, from a peer that is believed ── its address becomes the peer's ─┐
                 └─ none ─────────────────────────────────────────────────────────────────────────┤
                          ┌───────────────────────────────────────────────────────────────────────┘
                          ├─ 22: a handshake ── TlsLayer ── Peer
                          └─ anything else ── Peer, if plain connections are taken

Each peer has a `Greeter` until that is known. A plain peer is then connected to its transport
directly, at no cost.

Invariants

1. A peer is counted, limited and swept from the moment its connection is made; bytes that decide
   nothing yet are not a sign of life.
2. Nothing is written before all is decided, except for the alert that ends a handshake.
3. A PROXY header is accepted only from a peer that is believed: whoever may send one can claim any
   address.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from sprocket.base import log
from sprocket.base.errors import WireError
from sprocket.runtime.driver import tls
from sprocket.runtime.driver.peer import Peer
from sprocket.runtime.driver.proxy_header import ProxyHeaderReader

_log = log.get_limited_logger(__name__)


class Encryption(Protocol):
    """The server's side of TLS."""

    @property
    def is_required(self) -> bool:
        """Whether plain connections are closed."""

    def obtain(self, use: Callable[[ssl.SSLContext], None], refuse: Callable[[str], None]) -> None:
        """Call `use`, now or later, with what new handshakes use, or `refuse` with why not."""


class Greeter(asyncio.Protocol):
    """Decides from its first bytes whose a connection is, and whether it is encrypted.

    Without `encryption` those that want it are refused. `believes` says of an IP address whether a
    PROXY header from there counts.

    Threads: event loop only.
    """

    def __init__(
        self, peer: Peer, encryption: Encryption | None, believes: Callable[[str], bool]
    ) -> None:
        self._peer = peer
        self._encryption = encryption
        self._believes = believes
        self._transport = cast("asyncio.Transport", None)
        self._header: ProxyHeaderReader | None = ProxyHeaderReader()
        self._first = b""
        """The beginning of a handshake, until there is a certificate."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take the first bytes and stand aside; called by the event loop."""
        if not self._peer.is_open:
            return
        if self._header is None:
            self._begin(data)
        else:
            self._read_header(self._header, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the peer; called by the event loop."""
        self._peer.connection_lost(exc)

    def _read_header(self, header: ProxyHeaderReader, data: bytes) -> None:
        try:
            opening = header.receive(data)
        except WireError as error:
            self._peer.abort(str(error))
            return
        if opening is None:
            return
        if opening.has_header and not self._believes(self._peer.host):
            self._peer.abort("its PROXY header counts from nobody there, see server.proxies")
            return
        self._header = None
        if opening.origin is not None:
            self._peer.speak_for(opening.origin.host, opening.origin.port)
        elif opening.has_header:
            self._peer.speak_for_nobody()
        if opening.rest:
            self._begin(opening.rest)

    def _begin(self, data: bytes) -> None:
        """Take the first bytes of what is a frame or a handshake."""
        if data[0] == tls.HANDSHAKE:
            self._first = data
            self._transport.pause_reading()
            if self._encryption is None:
                self._refuse("tls.mode is off")
            else:
                self._encryption.obtain(self._encrypt, self._refuse)
        elif self._encryption is not None and self._encryption.is_required:
            self._peer.abort("it is not encrypted, and must be")
        else:
            self._transport.set_protocol(self._peer)
            self._peer.data_received(data)

    def _encrypt(self, context: ssl.SSLContext) -> None:
        """Continue after TLS, unless the client has left meanwhile."""
        if not self._peer.is_open:
            return
        layer = tls.TlsLayer(self._peer, self._transport, context)
        self._transport.set_protocol(layer)
        self._peer.rewire(layer)
        self._transport.resume_reading()
        layer.data_received(self._first)

    def _refuse(self, reason: str) -> None:
        """End a handshake as TLS has it, so that the client hears more than a closed connection."""
        _log.warning(
            "a client that wants TLS is refused", peer=self._peer.told_address, reason=reason
        )
        self._peer.send([tls.HANDSHAKE_FAILURE])
        self._peer.close()
