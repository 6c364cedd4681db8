"""Who is behind a load balancer is told before the first frame, and believed of few."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable

import pytest
from tests import sockets
from tests.contract.test_drivers import HOST, Lines, until
from tests.waits import LONG_SECONDS

from sprocket.runtime import driver
from sprocket.runtime.driver import Greeter, Peer, Server
from sprocket.runtime.driver.proxy_header import BINARY_START
from sprocket.runtime.driver.tls import HANDSHAKE_FAILURE

FOUR = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 10911\r\n"
SIX = b"PROXY TCP6 2001:db8::7 ::1 4711 10911\r\n"
HELLO = b"\x16\x03\x01\x00\x05hello"


class Late:
    """Encryption whose certificate comes, or does not, when the test says so."""

    is_required = False

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[ssl.SSLContext], None], Callable[[str], None]]] = []

    def obtain(self, use: Callable[[ssl.SSLContext], None], refuse: Callable[[str], None]) -> None:
        """Let the client wait."""
        self.waiting.append((use, refuse))


def name(peer: Peer, line: bytes) -> None:
    """Tell a peer its address, with and without a port, and what it said."""
    peer.send([f"{peer.address} {peer.host} ".encode(), line, b"\n"])


def run(
    body: Callable[[Server], Awaitable[None]],
    *,
    believes: Callable[[str], bool] = lambda _: True,
    encryption: Late | None = None,
    on_event: Callable[[Peer, bytes], None] = name,
) -> None:
    """Run a test against a server that greets."""

    async def main() -> None:
        server = await sockets.serve(
            Lines, on_event, HOST, 0, greet=lambda peer: Greeter(peer, encryption, believes)
        )
        async with asyncio.timeout(LONG_SECONDS):
            await body(server)
            await server.close()

    driver.run(main())


async def say(server: Server, *parts: bytes) -> bytes:
    """Send bytes, in parts that arrive apart; return the line that comes back, or none."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    for part in parts:
        writer.write(part)
        for _ in range(5):
            await asyncio.sleep(0)
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize(
    ("header", "address", "host"),
    [
        (FOUR, b"203.0.113.7:4711", "203.0.113.7"),
        (SIX, b"[2001:db8::7]:4711", "2001:db8::7"),
    ],
)
def test_the_client_behind_a_balancer_is_the_peer(header: bytes, address: bytes, host: str) -> None:
    """A broker behind one had the balancer's address everywhere, and closed its connections."""

    async def body(server: Server) -> None:
        expected = address + b" " + host.encode() + b" hello\n"
        assert await say(server, header + b"hello\n") == expected
        assert await say(server, header, b"hello\n") == expected
        assert (
            await say(server, header[:3], header[3:-1], header[-1:] + b"he", b"llo\n") == expected
        )

    run(body)


def test_a_balancer_that_speaks_for_itself_keeps_its_address() -> None:
    """It looks whether we live; so does one that does not know whom it serves."""

    async def body(server: Server) -> None:
        for header in (b"PROXY UNKNOWN\r\n", BINARY_START + b"\x20\0\0\0", b""):
            assert (await say(server, header + b"hello\n")).startswith(b"127.0.0.1:")

    run(body)


def test_a_claimed_address_is_told_as_that() -> None:
    """In logs and lists, with the socket's own other end; nobody can take it for what was seen."""

    async def body(server: Server) -> None:
        told = await say(server, FOUR + b"hello\n")
        assert re.fullmatch(rb"203\.0\.113\.7:4711 \(claimed by 127\.0\.0\.1:\d+\)\n", told)
        told = await say(server, b"PROXY UNKNOWN\r\nhello\n")
        assert re.fullmatch(rb"127\.0\.0\.1:\d+ \(for somebody it does not name\)\n", told)
        assert re.fullmatch(rb"127\.0\.0\.1:\d+\n", await say(server, b"hello\n"))

    run(body, on_event=lambda peer, _: peer.send([peer.told_address.encode(), b"\n"]))


def test_this_machine_only_means_both_ends() -> None:
    """A proxy here that speaks for somebody elsewhere, or for it does not say whom, is not here."""
    local = b"PROXY TCP4 127.0.0.1 10.0.0.1 4711 10911\r\n"

    async def body(server: Server) -> None:
        for header, expected in (
            (b"", True),
            (local, True),
            (FOUR, False),
            (SIX, False),
            (b"PROXY UNKNOWN\r\n", False),
            (BINARY_START + b"\x20\0\0\0", False),
        ):
            told = await say(server, header + b"hello\n")
            assert told.split()[-1] == (b"here" if expected else b"elsewhere"), header

    def place(peer: Peer, _: bytes) -> None:
        peer.send([peer.address.encode(), b" here\n" if peer.is_local else b" elsewhere\n"])

    run(body, on_event=place)


def test_a_header_from_who_is_not_believed_ends_the_connection() -> None:
    """Else everybody could take any address; others are served on."""
    asked: list[str] = []

    def believes(address: str) -> bool:
        asked.append(address)
        return False

    async def body(server: Server) -> None:
        assert await say(server, FOUR + b"hello\n") == b""
        assert asked == ["127.0.0.1"]
        assert await say(server, b"hello\n") != b""

    run(body, believes=believes)


def test_a_broken_header_ends_the_connection() -> None:
    """With the reason in the log; a second header is a line as any other."""

    async def body(server: Server) -> None:
        assert await say(server, b"PROXY TCP4 300.0.0.1 1.1.1.1 1 1\r\nhello\n") == b""
        twice = await say(server, FOUR + FOUR)
        assert twice.endswith(FOUR.rstrip(b"\n") + b"\n")

    run(body)


def test_a_header_that_is_never_finished_is_idle() -> None:
    """Its bytes are not a sign of life, however many come."""

    async def body(server: Server) -> None:
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(FOUR[:9])
        await until(lambda: len(server.peers) == 1)
        (far,) = server.peers
        far.sweep(119.0)
        writer.write(FOUR[9:20])
        for _ in range(20):
            await asyncio.sleep(0)
        far.sweep(1.0)
        await until(lambda: not server.peers)
        writer.close()

    run(body)


def test_a_refused_handshake_is_told_in_its_own_words() -> None:
    """The client hears `handshake failure`; with TLS off at once, else when the reason is known."""

    async def body(server: Server) -> None:
        for header in (b"", FOUR):
            assert await say(server, header + HELLO) == HANDSHAKE_FAILURE
        await until(lambda: not server.peers)

    run(body)
    late = Late()

    async def later(server: Server) -> None:
        said = asyncio.ensure_future(say(server, HELLO))
        await until(lambda: bool(late.waiting))
        late.waiting[0][1]("no certificate")
        assert await said == HANDSHAKE_FAILURE

    run(later, encryption=late)


def test_a_client_that_left_before_there_was_a_certificate_is_forgotten() -> None:
    """What comes then is for nobody."""
    late = Late()

    async def body(server: Server) -> None:
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(HELLO)
        await until(lambda: bool(late.waiting))
        (far,) = server.peers
        far.abort("the test ends it")
        await until(lambda: not server.peers)
        ((use, refuse),) = late.waiting
        use(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        refuse("no certificate")
        writer.close()

    run(body, encryption=late)
