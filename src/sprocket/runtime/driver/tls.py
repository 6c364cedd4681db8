"""TLS between a peer and its socket.

    socket ── transport ── TlsLayer (OpenSSL in memory) ── Peer

The layer is the socket's protocol and the peer's transport. OpenSSL works on memory alone, between
bytes of the socket and bytes of the peer. `greeting` says which connections get one.

Invariants

1. Nothing is written before the handshake is over: servers answer, they do not begin.
2. Whatever bytes come, a handshake or record that OpenSSL does not take ends this connection only.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable

from sprocket.base.units import KIB
from sprocket.runtime.driver.peer import Buffer, Peer

HANDSHAKE = 22
"""The content type of a TLS record that begins a connection; no protocol
may that is served here. Frames that begin with their length do not: it would be over 350 MB."""
HANDSHAKE_FAILURE = bytes.fromhex("15 0303 0002 02 28")
"""The alert by which a server that cannot encrypt ends a handshake: fatal, handshake failure."""
READ_BYTES = 256 * KIB
"""Plain bytes handed to the peer at once, as much as a socket gives."""


class TlsLayer(asyncio.Transport, asyncio.Protocol):
    """The protocol of an encrypted socket and the transport of its peer.

    Threads: event loop only.
    """

    def __init__(self, peer: Peer, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._peer = peer
        self._transport = transport
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_ready = False

    # What the event loop calls.

    def data_received(self, data: bytes) -> None:
        """Decrypt what came and hand it to the peer."""
        self._incoming.write(data)
        try:
            if not self._is_ready:
                self._session.do_handshake()
                self._is_ready = True
            self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the client
            self._peer.abort(f"TLS failed: {error.reason or error}")
        self._flush()

    def pause_writing(self) -> None:
        """Pass on that the other side does not read."""
        self._peer.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the other side reads again."""
        self._peer.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on the end."""
        self._peer.connection_lost(exc)

    # What the peer calls.

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Encrypt buffers and write them; joined first, or each would be a record of its own."""
        rest = memoryview(b"".join(list_of_data))
        while rest:
            rest = rest[self._session.write(rest) :]
        self._flush()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what is known of the encryption, `cipher` and `peercert`, or of the socket."""
        if name == "cipher":
            return self._session.cipher()
        if name == "peercert":
            return self._session.getpeercert() if self._is_ready else default
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Return the encrypted bytes that the operating system has not taken yet."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Read no more from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Write what is left and a notice of the end, then close."""
        if self._is_ready:
            # The other side has not said its own farewell yet, and need not.
            with contextlib.suppress(ssl.SSLError):
                self._session.unwrap()
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _read(self) -> None:
        """Hand the peer everything that can be decrypted; ends with SSLWantReadError."""
        while self._peer.is_open:
            data = self._session.read(READ_BYTES)
            if not data:  # the other side said farewell
                self._peer.close()
                return
            self._peer.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())
