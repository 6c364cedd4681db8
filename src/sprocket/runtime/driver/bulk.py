"""Large reads for a connection that brings much: each costs what a small one does.

The event loop reads 256 KiB at most for a protocol that takes bytes. One that gives a buffer gets
what the system has, up to its size.
"""

import asyncio
from typing import cast

from sprocket.runtime.driver.peer import Peer


class BulkReader(asyncio.BufferedProtocol):
    """Stands before a peer, and gives it what comes in pieces of up to `read_bytes`.

    They are not copied: the connection that reads them gets a view, which the next read overwrites,
    and has copied what it keeps when it returns.
    """

    def __init__(self, peer: Peer, read_bytes: int) -> None:
        self._peer = peer
        self._buffer = memoryview(bytearray(read_bytes))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the event loop."""
        self._peer.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; called by the event loop."""
        self._peer.connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the peer does not read; called by the event loop."""
        self._peer.pause_writing()

    def resume_writing(self) -> None:
        """Go on, the peer has read; called by the event loop."""
        self._peer.resume_writing()

    def get_buffer(self, _: int, /) -> memoryview:
        """Return where to read to; called by the event loop."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what was read; called by the event loop."""
        # A view is read as bytes are. The side that has opened a connection never keeps any.
        self._peer.data_received(cast("bytes", self._buffer[:nbytes]))
