"""Large reads for a connection that brings much: each costs what a small one does.

The event loop reads 256 KiB at most for a protocol that takes bytes. One that gives a buffer gets
what the system has, up to its size. That is 1.5 MiB mostly, as the other side needs a core to bring
more; so what comes in such pieces is put together for as long as each turn brings another one.
"""

import asyncio
from typing import cast

from sprocket.base.units import MIB
from sprocket.runtime.driver.peer import Peer

MORE_COMES_BYTES = MIB
"""After so much at once there is more to come in the next turn; after less nothing waits for it."""


class BulkReader(asyncio.BufferedProtocol):
    """Stands before a peer, and gives it what comes in pieces of up to `read_bytes`.

    They are not copied: the connection that reads them gets a view, which the next read overwrites,
    and has copied what it keeps when it returns.
    """

    def __init__(self, peer: Peer, read_bytes: int) -> None:
        self._peer = peer
        self._buffer = memoryview(bytearray(read_bytes))
        self._filled = self._seen = 0
        self._is_waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the event loop."""
        self._peer.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; called by the event loop."""
        self._hand_on()
        self._peer.connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the peer does not read; called by the event loop."""
        self._peer.pause_writing()

    def resume_writing(self) -> None:
        """Go on, the peer has read; called by the event loop."""
        self._peer.resume_writing()

    def get_buffer(self, _: int, /) -> memoryview:
        """Return where to read to; called by the event loop."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what was read, or wait for more of it; called by the event loop."""
        self._filled += nbytes
        if nbytes < MORE_COMES_BYTES or len(self._buffer) - self._filled < MORE_COMES_BYTES:
            self._hand_on()
        elif not self._is_waiting:
            self._is_waiting, self._seen = True, 0
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Hand on what was read, unless more of it came since the last look."""
        self._is_waiting = False
        if self._filled == self._seen:
            self._hand_on()
        elif self._filled:
            self._is_waiting, self._seen = True, self._filled
            asyncio.get_running_loop().call_soon(self._look)

    def _hand_on(self) -> None:
        filled, self._filled = self._filled, 0
        if filled:
            # A view is read as bytes are. The side that has opened a connection never keeps any.
            self._peer.data_received(cast("bytes", self._buffer[:filled]))
