"""Encrypted and plain connections on one port; each fails alone."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import certificates, sockets
from tests.certificates import Certificate
from tests.contract.test_drivers import HOST, Lines, Side, until
from tests.waits import LONG_SECONDS

from sprocket.base.errors import NotConnected, WireError
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Greeter, Peer, Server, tls
from sprocket.runtime.settings import ClientLimits


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Return one for all tests."""
    return certificates.make(tmp_path_factory.mktemp("tls"))


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """Return the server's side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    return context


def client_context(certificate: Certificate) -> ssl.SSLContext:
    """Return a client that trusts this server only, and knows its address."""
    return ssl.create_default_context(cafile=certificate.cert)


class Something(Lines):
    """Lines that must never be given nothing: a layer that went round for ever would do so."""

    empty_count = 0

    def receive(self, data: bytes) -> list[bytes]:
        """Break where nothing came, so that the layer stops; the test looks at the count."""
        if not data:
            Something.empty_count += 1
            raise WireError("nothing came")
        return super().receive(data)


def echo(peer: Peer, line: bytes) -> None:
    """Send a line back."""
    peer.send([line, b"\n"])


@dataclass(frozen=True)
class Given:
    """What a server that has a certificate encrypts with."""

    context: ssl.SSLContext
    is_required: bool

    def obtain(self, use: Callable[[ssl.SSLContext], None], _: Callable[[str], None]) -> None:
        """Give it at once."""
        use(self.context)


Body = Callable[[Server], Awaitable[None]]


def run(
    certificate: Certificate,
    body: Body,
    *,
    is_required: bool = False,
    limits: ConnectionSettings | None = None,
) -> None:
    """Run a test against a server that greets."""
    context = server_context(certificate)

    async def main() -> None:
        server = await sockets.serve(
            Something,
            echo,
            HOST,
            0,
            settings=limits,
            greet=lambda peer: Greeter(peer, Given(context, is_required), lambda _: False),
        )
        async with asyncio.timeout(LONG_SECONDS):
            await body(server)
            await server.close()

    driver.run(main())
    assert Something.empty_count == 0


def test_both_kinds_on_one_port(certificate: Certificate) -> None:
    """Lines of any size come back, over TLS as without; both sides know each other's address."""

    async def body(server: Server) -> None:
        for context in (client_context(certificate), None):
            side = Side()
            peer = await driver.connect(Lines, side, HOST, server.port, tls=context)
            lines = [b"one", b"x" * 1_000_000, b"three"]
            for line in lines:
                peer.send([line, b"\n"])
            await side.count(3)
            assert side.lines == lines
            assert peer.local_address in {far.address for far in server.peers}

    run(certificate, body)


def test_plain_connections_pay_nothing_after_the_first_byte(certificate: Certificate) -> None:
    """The peer itself is then what the transport calls."""

    async def body(server: Server) -> None:
        side = Side()
        peer = await driver.connect(Lines, side, HOST, server.port)
        peer.send([b"x\n"])
        await side.count(1)
        (far,) = server.peers
        assert far.transport.get_protocol() is far

    run(certificate, body)


def test_plain_connections_can_be_refused(certificate: Certificate) -> None:
    """Encrypted ones are served."""

    async def body(server: Server) -> None:
        plain = await driver.connect(Lines, Side(), HOST, server.port)
        plain.send([b"x\n"])
        await until(lambda: not plain.is_open)
        side = Side()
        context = client_context(certificate)
        peer = await driver.connect(Lines, side, HOST, server.port, tls=context)
        peer.send([b"x\n"])
        await side.count(1)

    run(certificate, body, is_required=True)


def test_a_server_that_is_not_trusted(certificate: Certificate) -> None:
    """The client says so, and the server goes on."""

    async def body(server: Server) -> None:
        with pytest.raises(NotConnected, match="certificate verify failed"):
            await driver.connect(Lines, Side(), HOST, server.port, tls=ssl.create_default_context())
        await until(lambda: not server.peers)

    run(certificate, body)


@pytest.mark.parametrize(
    "junk", [b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" * 100_000, b"\x16\x03\x01\xff\xff"]
)
def test_what_only_begins_like_a_handshake(certificate: Certificate, junk: bytes) -> None:
    """Costs its own connection, at once or when it leaves; nothing is kept of it."""

    async def body(server: Server) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(junk)
        writer.write_eof()
        await reader.read()
        writer.close()
        await until(lambda: not server.peers)

    run(certificate, body)


def test_a_handshake_may_come_byte_by_byte(certificate: Certificate) -> None:
    """However TCP splits it, and the request behind it."""

    async def body(server: Server) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(certificate)
        session = context.wrap_bio(incoming, outgoing, server_hostname=HOST)

        async def exchange(step: Callable[[], object]) -> object:
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    result = None
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                if result is not None:
                    return result
                incoming.write(await reader.read(1000))

        def shake_hands() -> bool:
            session.do_handshake()
            return True

        await exchange(shake_hands)
        await exchange(lambda: session.write(b"hello\n"))
        assert await exchange(lambda: session.read(100)) == b"hello\n"
        writer.close()

    run(certificate, body)


def test_a_farewell_closes_the_connection(certificate: Certificate) -> None:
    """On both sides: what was sent before arrives."""

    async def body(server: Server) -> None:
        side = Side()
        context = client_context(certificate)
        peer = await driver.connect(Lines, side, HOST, server.port, tls=context)
        peer.send([b"x\n"])
        await side.count(1)
        peer.close()
        await until(lambda: not server.peers)
        other = await driver.connect(Lines, side, HOST, server.port, tls=context)
        other.send([b"bad\n"])
        await until(lambda: not other.is_open)

    run(certificate, body)


def test_who_does_not_read_is_not_read_from(certificate: Certificate) -> None:
    """The layer has no buffer of its own: what waits is bounded as on a plain connection."""
    limits = ConnectionSettings(limits=ClientLimits(answer_bytes_high=100_000))

    async def body(server: Server) -> None:
        side = Side()
        context = client_context(certificate)
        peer = await driver.connect(Lines, side, HOST, server.port, tls=context)
        peer.transport.pause_reading()
        total = 40_000
        peer.send([(b"x" * 999 + b"\n") * total])
        most = 0
        for _ in range(2000):
            await asyncio.sleep(0)
            most = max([most, *(far.pending_bytes for far in server.peers)])
        assert most < 2 * 100_000 + 2 * tls.READ_BYTES
        assert any(far.is_held for far in server.peers)
        peer.transport.resume_reading()
        await side.count(total)

    run(certificate, body, limits=limits)


def test_a_handshake_that_is_never_finished_is_idle(certificate: Certificate) -> None:
    """It is counted and swept as any connection."""

    async def body(server: Server) -> None:
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(b"\x16\x03\x01")
        await until(lambda: len(server.peers) == 1)
        (far,) = server.peers
        far.sweep(119.0)
        assert far.is_open
        far.sweep(1.0)
        await until(lambda: not server.peers)
        writer.close()

    run(certificate, body)


def test_paths_are_of_this_test(certificate: Certificate) -> None:
    """Nothing of it is in the repository."""
    assert not Path(certificate.key).is_relative_to(Path(__file__).parent)


def test_a_clients_certificate_is_known(certificate: Certificate, tmp_path: Path) -> None:
    """Whom it names, if its authority is one that the server trusts; nothing of plain clients."""
    theirs = certificates.make(tmp_path, "client")
    context = server_context(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(theirs.cert)
    known: list[tuple[bool, tuple[tuple[str, str], ...]]] = []

    def note(peer: Peer, _: bytes) -> None:
        known.append((peer.is_encrypted, peer.certificate_subject))
        peer.send([b"seen\n"])

    async def main() -> None:
        server = await sockets.serve(
            Lines, note, HOST, 0, greet=lambda peer: Greeter(peer, Given(context, False), bool)
        )
        shown = client_context(certificate)
        shown.load_cert_chain(theirs.cert, theirs.key)
        for given in (None, client_context(certificate), shown):
            side = Side()
            peer = await driver.connect(Lines, side, HOST, server.port, tls=given)
            peer.send([b"hello\n"])
            await side.count(1)
        await server.close()

    driver.run(main())
    assert known == [(False, ()), (True, ()), (True, (("commonName", "client"),))]
