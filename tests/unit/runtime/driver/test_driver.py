"""What the contract of all carriers (tests/contract/test_drivers.py) leaves open."""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable

import pytest
import structlog
from tests import sockets
from tests.waits import LONG_SECONDS

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime import driver


@pytest.mark.parametrize(
    ("name", "text", "host"),
    [
        (("10.0.0.1", 9), "10.0.0.1:9", "10.0.0.1"),
        (("::ffff:10.0.0.1", 9, 0, 0), "10.0.0.1:9", "10.0.0.1"),
        (("fe80::1%eth0", 1, 0, 2), "[fe80::1]:1", "fe80::1"),
        (None, "0.0.0.0:0", "0.0.0.0"),  # noqa: S104 - as text only
    ],
)
def test_addresses_with_a_port_and_without(
    name: tuple[str, int] | tuple[str, int, int, int] | None, text: str, host: str
) -> None:
    """IPv4, IPv4 that came through IPv6, IPv6 with a zone, and a peer that has gone already."""
    assert driver.address_of(name) == (text, host)


def test_addresses_are_written_as_clients_read_them() -> None:
    """IPv6 in brackets."""
    assert driver.address("1.2.3.4", 5) == "1.2.3.4:5"
    assert driver.address("::1", 5) == "[::1]:5"


def test_the_own_address_falls_back() -> None:
    """A name instead of an address, or a machine without a network, gives the loopback address."""
    assert driver.local_ip("127.0.0.1") == "127.0.0.1"
    assert driver.local_ip("some.host") == "127.0.0.1"


def test_a_connection_that_is_not_accepted_in_time_is_an_error() -> None:
    """Its text says where to."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        port = full.getsockname()[1]

        async def main() -> None:
            with pytest.raises(NotConnected, match=f"127.0.0.1:{port}"):
                await driver.connect(
                    Connection, lambda *_: None, "127.0.0.1", port, timeout_seconds=0.01
                )

        asyncio.run(main())


def test_an_address_in_use_cannot_be_listened_on() -> None:
    """The caller learns of it."""

    async def main() -> None:
        server = await sockets.serve(Connection, lambda *_: None, "127.0.0.1", 0)
        with pytest.raises(OSError, match="in use"):
            await sockets.serve(Connection, lambda *_: None, "127.0.0.1", server.port)
        await server.close()

    asyncio.run(main())


def test_idle_connections_are_looked_for_without_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sweep runs by itself while there are connections."""
    monkeypatch.setattr("sprocket.runtime.driver.peer.SWEEP_SECONDS", 0.001)

    async def main() -> None:
        settings = driver.ConnectionSettings(idle_seconds_max=0.003)
        server = await sockets.serve(Connection, lambda *_: None, "127.0.0.1", 0, settings=settings)
        peer = await driver.connect(Connection, lambda *_: None, "127.0.0.1", server.port)
        closed = asyncio.Event()
        peer.on_close.append(lambda _: closed.set())
        async with asyncio.timeout(LONG_SECONDS):
            await closed.wait()
        await server.close()

    asyncio.run(main())


def test_a_connection_that_is_reset_is_lost_with_a_reason() -> None:
    """It is noted in the log, and the close callbacks run."""

    async def main() -> None:
        server = await sockets.serve(Connection, lambda *_: None, "127.0.0.1", 0)
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            while not server.peers:
                await asyncio.sleep(0)
            (peer,) = server.peers
            closed = asyncio.Event()
            peer.on_close.append(lambda _: closed.set())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        async with asyncio.timeout(LONG_SECONDS):
            await closed.wait()
        assert not server.peers
        await server.close()

    with structlog.testing.capture_logs() as logs:
        asyncio.run(main())
    assert [entry["event"] for entry in logs] == ["connection lost"]


def test_all_connections_of_a_loop_can_be_cut_off() -> None:
    """Both ends, at once, and what was queued is dropped."""

    async def main() -> tuple[int, bool]:
        server = await sockets.serve(Connection, lambda *_: None, "127.0.0.1", 0)
        peer = await driver.connect(Connection, lambda *_: None, "127.0.0.1", server.port)
        while not server.peers:
            await asyncio.sleep(0)
        driver.carrier().abort_all("the test ends")
        while server.peers:
            await asyncio.sleep(0)
        left = len(server.peers), peer.is_open
        await server.close()
        return left

    assert asyncio.run(main()) == (0, False)


def test_who_was_accepted_when_the_server_closed_does_not_come_in() -> None:
    """A loop accepts a connection in one turn and begins it in another; between them it closes."""

    async def main() -> None:
        closing: list[asyncio.Task[None]] = []

        def factory() -> Connection:
            closing.append(asyncio.ensure_future(server.close()))
            return Connection()

        bound = await driver.bind("127.0.0.1", 0)
        server = await driver.listen(bound, factory, lambda *_: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while not closing:
            await asyncio.sleep(0)
        await closing[0]
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), LONG_SECONDS)
        assert server.peers == set()
        writer.close()

    driver.run(main())


def test_run_gives_what_main_returns_in_a_quick_loop() -> None:
    """With uvloop where it is installed."""

    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert driver.run(main()).startswith("uvloop")


def test_asyncio_serves_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no wheel for every machine."""
    monkeypatch.setitem(sys.modules, "uvloop", None)

    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert driver.run(main()).startswith("asyncio")


def test_who_asks_twice_to_be_told_of_the_end_is_told_once() -> None:
    """And not of other connections."""

    async def main() -> None:
        gone: list[driver.Peer] = []
        server = await sockets.serve(Connection, lambda *_: None, "127.0.0.1", 0)
        first = await driver.connect(Connection, lambda *_: None, "127.0.0.1", server.port)
        second = await driver.connect(Connection, lambda *_: None, "127.0.0.1", server.port)
        for peer in (first, first, second):
            peer.when_closed(gone.append)
        first.close()
        while not gone:
            await asyncio.sleep(0)
        assert gone == [first]
        second.close()
        await server.close()

    driver.run(main())


class Leaving:
    """A peer of a server: gone some turns of the loop after it was closed or cut off."""

    def __init__(self, peers: "set[Leaving]", joins: "Leaving | None" = None) -> None:
        self.on_close: list[Callable[[Leaving], None]] = []
        self._peers = peers
        self._joins = joins

    def close(self) -> None:
        """Go, after another one has come that was accepted before."""
        loop = asyncio.get_running_loop()
        if self._joins is not None:
            self._peers.add(self._joins)
            loop.call_later(0.02, self._joins.leave)
        loop.call_soon(self.leave)

    def abort(self, _reason: str) -> None:
        """Go."""

    def leave(self) -> None:
        """Be gone."""
        self._peers.discard(self)
        for told in self.on_close:
            told(self)


def test_a_server_closes_that_has_just_accepted_somebody() -> None:
    """Who was accepted before and begins when the others are closed is waited for as well."""

    async def main() -> None:
        peers: set[Leaving] = set()
        peers.add(Leaving(peers, joins=Leaving(peers)))
        server = driver.Server("127.0.0.1", 1, peers, lambda: None)  # type: ignore[arg-type]
        async with asyncio.timeout(LONG_SECONDS):
            await server.close()
        assert not peers

    asyncio.run(main())
