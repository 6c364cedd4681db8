"""Where connections come from: ports that are listened on, and servers that are connected to."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from sprocket.base.errors import NotConnected
from sprocket.runtime.driver.addresses import CONNECT_SECONDS_MAX
from sprocket.runtime.driver.admission import ConnectionAdmission, PortAdmission
from sprocket.runtime.driver.bulk import BulkReader
from sprocket.runtime.driver.peer import (
    PLAIN,
    Carried,
    ConnectionSettings,
    E,
    Greet,
    OnEvent,
    Peer,
    PortPolicy,
)

CLOSE_GRACE_SECONDS = 1.0
"""How long a closing server waits for peers to take what was written."""


class Server:
    """Something that listens; made by `listen`.

    `host` and `port` say where, `peers` are its open connections.
    """

    def __init__(self, host: str, port: int, peers: set[Peer], stop: Callable[[], None]) -> None:
        self.host = host
        self.port = port
        self.peers = peers
        self._stop_listening = stop

    async def close(self, grace_seconds: float = CLOSE_GRACE_SECONDS) -> None:
        """Stop listening, write what is queued, close all connections and wait for that.

        Peers that do not read are cut off after `grace_seconds`.
        """
        self._stop_listening()
        for peer in list(self.peers):
            peer.close()
        if not await self._are_gone(grace_seconds):
            for peer in list(self.peers):
                peer.abort("it did not read its answers while the server closed")
            await self._are_gone(None)

    async def _are_gone(self, seconds: float | None) -> bool:
        """Wait until nobody is connected, at most so long; return whether that is so.

        One may have been accepted before and begin only now: it is cut off, and waited for as well.
        """
        try:
            async with asyncio.timeout(seconds):
                while self.peers:
                    await _gone(next(iter(self.peers)))
        except TimeoutError:
            return False
        return True


async def _gone(peer: Peer) -> None:
    """Wait until a peer that is connected is not any more."""
    event = asyncio.Event()
    peer.on_close.append(lambda _: event.set())
    await event.wait()


class Bound:
    """Addresses that are taken and not listened on yet: connections are refused; see `bind`."""

    def __init__(self, host: str, sockets: Sequence[socket.socket]) -> None:
        self.host = host
        self.port: int = sockets[0].getsockname()[1]
        self._sockets = sockets

    def close(self) -> None:
        """Give the addresses up, unless they are listened on; a second call does nothing."""
        for one in self._sockets:
            one.close()
        self._sockets = ()

    def take(self) -> Sequence[socket.socket]:
        """Return the sockets; they are the caller's from now on."""
        sockets, self._sockets = self._sockets, ()
        return sockets


async def bind(host: str, port: int) -> Bound:
    """Take an address without listening on it, so that its port is known before anybody may come.

    Args:
        host: Every address that it stands for is taken.
        port: 0 means any free one; see `Bound.port`.

    Raises:
        OSError: The address cannot be had, or somebody listens there. Of two processes that are
            about to listen the later one is told by `listen`.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            if os.name == "posix":  # elsewhere it would let others take the port as well
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setblocking(False)
            one.bind(address)
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return Bound(host, sockets)


async def listen(
    bound: Bound,
    factory: Callable[[], Carried[E]],
    on_event: OnEvent[E],
    *,
    settings: ConnectionSettings | None = None,
    policy: PortPolicy | None = None,
    greet: Greet | None = None,
    admission: PortAdmission | None = None,
) -> Server:
    """Listen on an address that was taken, and give every connection an object of its own.

    Args:
        bound: Is given up with the server, or if this fails.
        factory: Makes the connection object without I/O.
        on_event: Called for each event, in order, in the turn of the loop that read it.
        settings: Limits; the defaults if None.
        policy: How they are read; the default if None.
        greet: Puts something before a peer until it knows what the connection is.
        admission: Says who may stay; by default as many as the limits allow, for any time.

    Raises:
        OSError: Somebody else listens there.
    """
    peers: set[Peer] = set()
    limits = settings or ConnectionSettings()
    entry = admission
    if entry is None:
        entry = ConnectionAdmission().port("", limits.limits.connections_max)
    policy = policy or PLAIN
    handle = admitting(on_event) if policy.knows_by_event else on_event

    def accept() -> Peer:
        return Peer(factory(), handle, limits, peers, policy, entry)

    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []

    def close() -> None:
        entry.is_shut = True
        for server in servers:
            server.close()

    host, port = bound.host, bound.port
    waiting = list(bound.take())
    try:
        for one in waiting:
            one.listen(
                entry.backlog
            )  # of two who took it one is refused; uvloop would only log that
        while waiting:
            servers.append(
                await loop.create_server(
                    accept if greet is None else lambda: greet(accept()),
                    sock=waiting[0],
                    backlog=entry.backlog,
                )
            )
            del waiting[0]
    except BaseException:
        close()
        for one in waiting:
            one.close()
        raise
    return Server(host, port, peers, close)


def admitting(on_event: OnEvent[E]) -> OnEvent[E]:
    """Return what admits a peer with its first event, and hands all of them on."""

    def handle(peer: Peer, event: E) -> None:
        if peer.admit():
            peer.on_event = cast("OnEvent[object]", on_event)
            on_event(peer, event)
        else:
            peer.abort("there are too many connections already")

    return handle


async def connect(
    factory: Callable[[], Carried[E]],
    on_event: OnEvent[E],
    host: str,
    port: int,
    *,
    settings: ConnectionSettings | None = None,
    timeout_seconds: float = CONNECT_SECONDS_MAX,
    tls: ssl.SSLContext | None = None,
    read_bytes: int = 0,
) -> Peer:
    """Open one connection; `factory`, `on_event` and `settings` are as for `listen`.

    The handshake's time counts, where there is one. `read_bytes` is how much is read at once of a
    connection that brings much; 0 leaves that to the event loop. With it the connection gets views,
    and copies what it keeps.

    Raises:
        NotConnected: Nobody answered within `timeout_seconds`, or the address refused.
    """
    peer = Peer(factory(), on_event, settings or ConnectionSettings(), set())
    protocol = BulkReader(peer, read_bytes) if read_bytes else peer
    try:
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().create_connection(
                lambda: protocol, host, port, ssl=tls
            )
    except (OSError, TimeoutError) as error:
        why = str(error) or "no answer"
        if tls is not None and isinstance(error, ssl.SSLError | ConnectionResetError | EOFError):
            why = f"the TLS handshake failed: {why}; does it speak TLS?"
        raise NotConnected(f"no connection to {host}:{port}: {why}") from error
    return peer
