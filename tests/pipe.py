"""A network in memory: the same peers as `runtime.driver`, without sockets.

Bytes sent on one side arrive on the other in a later turn of the loop, in the pieces that
`chunk_bytes` allows. A side that does not read makes the other's write buffer grow, with the same
water marks as a socket's.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from sprocket.base.errors import NotConnected
from sprocket.base.units import KIB
from sprocket.runtime.driver import (
    Buffer,
    Carried,
    ConnectionAdmission,
    ConnectionSettings,
    E,
    OnEvent,
    Peer,
    PortAdmission,
    PortPolicy,
    Server,
    admitting,
)

READ_BYTES = 256 * KIB
"""Largest piece that one call of `data_received` gets, as uvloop has it."""

_FIRST_PORT = 20_000


class PipeNetwork:
    """Addresses and connections that exist in this object only.

    `serve` and `connect` take what those of `runtime.driver` take.

    Args:
        chunk_bytes: How many bytes arrive at once.
    """

    def __init__(self, chunk_bytes: int = READ_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._listeners: dict[tuple[str, int], Callable[[], Peer]] = {}
        self._next_port = _FIRST_PORT

    async def serve(
        self,
        factory: Callable[[], Carried[E]],
        on_event: OnEvent[E],
        host: str,
        port: int,
        *,
        settings: ConnectionSettings | None = None,
        policy: PortPolicy | None = None,
        admission: PortAdmission | None = None,
    ) -> Server:
        """Listen at an address of this network; 0 means any free port."""
        peers: set[Peer] = set()
        limits = settings or ConnectionSettings()
        place = (host, port or self._free_port())
        if place in self._listeners:
            raise OSError(f"{host}:{port} is listened on already")
        entry = admission
        if entry is None:
            entry = ConnectionAdmission().port("", limits.limits.connections_max)
        policy = policy or PortPolicy()
        handle = admitting(on_event) if policy.knows_by_event else on_event
        self._listeners[place] = lambda: Peer(factory(), handle, limits, peers, policy, entry)
        return Server(host, place[1], peers, lambda: self._forget(place))

    async def connect(
        self,
        factory: Callable[[], Carried[E]],
        on_event: OnEvent[E],
        host: str,
        port: int,
        *,
        settings: ConnectionSettings | None = None,
        timeout_seconds: float = 0.0,  # noqa: ARG002 - as the other network has it
        tls: ssl.SSLContext | None = None,
    ) -> Peer:
        """Connect to an address of this network.

        Raises:
            NotConnected: Nobody listens there.
        """
        assert tls is None, "pipes carry no TLS"
        accept = self._listeners.get((host, port))
        if accept is None:
            raise NotConnected(f"no connection to {host}:{port}: nobody listens")
        near = Peer(factory(), on_event, settings or ConnectionSettings(), set())
        far = accept()
        near_name = (host, self._free_port())
        near_end = PipeTransport(near, near_name, (host, port), self._chunk_bytes)
        far_end = PipeTransport(far, (host, port), near_name, self._chunk_bytes)
        near_end.other, far_end.other = far_end, near_end
        far.connection_made(far_end)
        near.connection_made(near_end)
        return near

    def _forget(self, place: tuple[str, int]) -> None:
        self._listeners.pop(place, None)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class PipeTransport(asyncio.Transport):
    """One end of a connection in memory."""

    def __init__(
        self,
        protocol: asyncio.Protocol,
        name: tuple[str, int],
        other_name: tuple[str, int],
        chunk_bytes: int,
    ) -> None:
        super().__init__({"sockname": name, "peername": other_name})
        self.other = cast("PipeTransport", None)
        self.protocol = protocol
        self._chunk_bytes = chunk_bytes
        self._sent: deque[memoryview] = deque()
        self._sent_bytes = 0
        self._high = READ_BYTES
        self.reads_on = True
        self._is_paused = False
        self._is_closing = False
        self._is_scheduled = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the size above which the protocol is told to pause; `low` is a quarter of it."""
        del low
        self._high = READ_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the other side has not read yet."""
        return self._sent_bytes

    def write(self, data: Buffer) -> None:
        """Queue bytes for the other side."""
        if data and not self._is_closing:
            self._sent.append(memoryview(bytes(data)))
            self._sent_bytes += len(data)
            if self._sent_bytes > self._high and not self._is_paused:
                self._is_paused = True
                self.protocol.pause_writing()
            self.schedule()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Queue buffers for the other side."""
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """Take nothing more from the other side."""
        self.reads_on = False

    def resume_reading(self) -> None:
        """Take again what the other side has sent."""
        self.reads_on = True
        self.other.schedule()

    def is_closing(self) -> bool:
        """Return whether this end was closed."""
        return self._is_closing

    def close(self) -> None:
        """Close once the other side has read everything."""
        self._is_closing = True
        self.schedule()

    def abort(self) -> None:
        """Close at once."""
        self._sent.clear()
        self._sent_bytes = 0
        self.close()

    def schedule(self) -> None:
        """Have the next piece moved in a later turn, unless that is to happen anyway."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        """Move one piece to the other side, or end the connection when all has been moved."""
        self._is_scheduled = False
        if self._sent and self.other.protocol is not _GONE:
            if not self.other.reads_on:
                return
            piece = self._take()
            self.schedule()
            if not self.other.is_closing():
                self.other.protocol.data_received(piece)
            if self._is_paused and self._sent_bytes <= self._high // 4:
                self._is_paused = False
                self.protocol.resume_writing()
        elif self._is_closing and self.protocol is not _GONE:
            self.abort()
            protocol, self.protocol = self.protocol, _GONE
            protocol.connection_lost(None)
            if not self.other.is_closing():
                self.other.abort()

    def _take(self) -> bytes:
        piece = self._sent.popleft()
        if len(piece) > self._chunk_bytes:
            self._sent.appendleft(piece[self._chunk_bytes :])
            piece = piece[: self._chunk_bytes]
        self._sent_bytes -= len(piece)
        return bytes(piece)


_GONE = asyncio.Protocol()
"""Stands for the protocol of an end whose connection was lost."""
