"""At no port of any product does a stranger stay who does not say who it is."""

import asyncio
import base64
import contextlib
import socket
import ssl
from pathlib import Path

from tests.amqp import LOGIN, handshake, method
from tests.waits import LONG_SECONDS

from sprocket.base import settings
from sprocket.base.settings import Loaded
from sprocket.node.host import Host, settings_of
from sprocket.node.products import PRODUCTS
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.server.connection import WireLimits
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.runtime import driver

SECONDS = 0.3
"""The bound. A known client that came before a stranger is there after that was cut off."""

Address = tuple[str, int]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def request() -> bytes:
    """A request that both servers of RocketMQ read; not all have it."""
    return b"".join(command.request(int(RequestCode.GET_BROKER_CLUSTER_INFO), 1))


def http(path: str, login: bytes = b"") -> bytes:
    """A request of the HTTP API."""
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\n".encode()
    if login:
        head += b"authorization: Basic " + base64.b64encode(login) + b"\r\n"
    return head + b"\r\n"


HALVES = {
    "nothing": b"",
    "half a frame": request()[:7],
    "half a head": http("/api/whoami")[:20],
    "half an AMQP header": b"AMQP\0",
    "a login without an end": b"AMQP\0\0\x09\x01" + LOGIN[:-3],
    "half a hello": b"\x16\x03\x01\x02\x00\x01\x00",
    "half a PROXY header": b"PROXY TCP4 1.2",
    "a wrong password": http("/api/whoami", b"guest:wrong"),
    "no name": http("/api/whoami"),
}
"""What strangers say; nothing of it shows who they are at the port where it belongs."""


KNOWN = {
    "nameserver": request(),
    "broker": request(),
    "amqp": handshake(WireLimits(heartbeat_seconds=0)),
    "amqp-http": http("/api/whoami", b"guest:guest"),
    "amqp-metrics": http("/metrics"),
}
"""What shows at each port who somebody is."""


async def rest(reader: asyncio.StreamReader) -> None:
    """Read until the connection ends, however it does."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while await reader.read(4096):
            pass


async def stranger(where: Address, says: bytes) -> None:
    """Come, say something, and wait until the server ends the connection."""
    reader, writer = await asyncio.open_connection(*where)
    writer.write(says)
    await rest(reader)
    writer.close()


def encrypted_stranger(where: Address, says: bytes, tls: ssl.SSLContext) -> None:
    """Do so over TLS, in a thread; on a busy machine the end may come before the handshake's."""
    with (
        contextlib.suppress(ConnectionError, ssl.SSLError),  # and not TimeoutError
        socket.create_connection(where, timeout=LONG_SECONDS) as plain,
        tls.wrap_socket(plain) as one,
    ):
        one.sendall(says)
        while one.recv(4096):
            pass


async def come_in(where: Address, says: bytes) -> Streams:
    """Become known; whoever is cut off before they are, on a busy machine, comes again."""
    while True:
        reader, writer = await asyncio.open_connection(*where)
        writer.write(says)
        with contextlib.suppress(ConnectionError):
            if await reader.read(1):
                return reader, writer


def test_strangers_are_cut_off_at_every_port_and_others_are_not(tmp_path: Path) -> None:
    """Whatever they say, plain or over TLS; a client of each port that came before them stays."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    overrides = [f"server.handshake_seconds={SECONDS}", "server.nameserver_port=0"]
    overrides += ["server.idle_close_seconds=86400"]  # so that nothing else ends a connection
    overrides += ["server.broker_port=0", "amqp.port=0", "amqp_http.port=0"]

    async def body(where: dict[str, Address]) -> None:
        known = {}
        for name, says in KNOWN.items():
            known[name] = await come_in(where[name], says)
        async with asyncio.TaskGroup() as group:
            for name in KNOWN:
                for says in HALVES.values():
                    group.create_task(stranger(where[name], says))
                for says in (b"", HALVES["half a frame"], HALVES["no name"]):
                    run = asyncio.to_thread(encrypted_stranger, where[name], says, tls)
                    group.create_task(run)
        for name, (_, writer) in known.items():
            writer.write(KNOWN[name] if name != "amqp" else method(1, methods.ChannelOpen()))
        ends = {name: asyncio.ensure_future(rest(reader)) for name, (reader, _) in known.items()}
        await stranger(where["amqp"], b"")
        assert [name for name, end in ends.items() if end.done()] == []
        for name, end in ends.items():
            end.cancel()
            known[name][1].close()

    async def main() -> None:
        loaded: Loaded[object] = settings.load(settings_of(PRODUCTS), overrides=overrides)
        host = await Host.start(PRODUCTS, loaded, str(tmp_path))
        ready = {name: text for one in host.running.values() for name, text in one.ready.items()}
        try:
            async with asyncio.timeout(LONG_SECONDS):
                await body({name: address_of(ready[name]) for name in KNOWN})
        finally:
            await host.stop()

    driver.run(main())


def address_of(text: str) -> Address:
    """Host and port of `host:port`."""
    host, _, port = text.partition(":")
    return host, int(port)
