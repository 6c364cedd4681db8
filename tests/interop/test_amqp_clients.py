"""Unmodified clients of RabbitMQ connect, open channels, declare, send and receive.

What they talk to is the server's side of connections and sessions, over sockets; the vhost behind
it is `tests.amqp_tenant`. So what is judged here is the wire.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import aio_pika
import kombu
import pika
import pika.exceptions
import pytest
from tests import certificates, sockets
from tests.amqp_tenant import Door
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.rabbitmq.server.amqp_server import AmqpServer
from sprocket.rabbitmq.server.connection import WireLimits
from sprocket.rabbitmq.server.greeting import Greeting
from sprocket.runtime import driver
from sprocket.runtime.driver import Greeter, Peer
from sprocket.runtime.turns import Turns

HOST = "127.0.0.1"
HEADERS = {
    "text": "é",
    "number": 5,
    "large": 1 << 40,
    "flag": True,
    "list": [1, "a"],
    "nothing": None,
}


class _Given:
    """What a server that has a certificate encrypts with; see `greeting.Encryption`."""

    is_required = False

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def obtain(self, use: Callable[[ssl.SSLContext], None], _: Callable[[str], None]) -> None:
        """Give it at once."""
        use(self._context)


class Served:
    """A server on a loop and a thread of its own."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.door = Door()
        self._tls = tls
        self.port = 0
        self._loop = driver.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)

    def stop(self) -> None:
        """Take leave of clients, and end; a second call does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = AmqpServer(
            self.door,
            Greeting("sprocket", ("PLAIN", "AMQPLAIN", "EXTERNAL")),
            WireLimits(frame_bytes_max=8192),
            SystemClock(),
            self._loop,
            Turns(self._loop),
        )
        self._socket = await sockets.serve(
            self._server.connection,
            self._server.on_event,
            HOST,
            0,
            policy=self._server.policy(),
            greet=self._greet,
        )
        self.port = self._socket.port

    def _greet(self, peer: Peer) -> asyncio.Protocol:
        return Greeter(peer, _Given(self._tls) if self._tls else None, lambda _: False)

    async def _leave(self) -> None:
        self._server.stop()
        await self._socket.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """Run a server."""
    found = Served()
    found.start()
    yield found
    found.stop()


def pika_connection(served: Served, **given: object) -> pika.BlockingConnection:
    """Connect as pika does."""
    return pika.BlockingConnection(pika.ConnectionParameters(HOST, served.port, **given))


@pytest.mark.parametrize("size", [0, 5, 8184, 8185, 100_000])
def test_pika_sends_and_receives(served: Served, size: int) -> None:
    """With confirms, properties and headers of all kinds, by get and by a consumer."""
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    with pika_connection(served) as connection:
        channel = connection.channel()
        assert channel.queue_declare("q").method.queue == "q"
        channel.exchange_declare("x", "topic", durable=True)
        channel.queue_bind("q", "x", "a.#")
        channel.basic_qos(prefetch_count=10)
        channel.confirm_delivery()
        sent = pika.BasicProperties(
            content_type="text/plain", headers=HEADERS, delivery_mode=2, timestamp=7, priority=3
        )
        for _ in range(2):
            channel.basic_publish("", "q", body, sent, mandatory=True)
        got, found, content = channel.basic_get("q")
        assert (got.message_count, found.headers, content) == (1, HEADERS, body)
        assert vars(found) == vars(sent)
        for deliver, found, content in channel.consume("q", inactivity_timeout=LONG_SECONDS):
            channel.basic_ack(deliver.delivery_tag)
            assert (found.headers, content) == (HEADERS, body)
            break
        channel.cancel()
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nobody", body, sent, mandatory=True)
    assert served.door.inside == []


def test_pika_is_told_why_a_channel_closed(served: Served) -> None:
    """The connection goes on, and the number is free again."""
    with pika_connection(served) as connection:
        channel = connection.channel(1)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("none", passive=True)
        assert caught.value.reply_code == 404
        assert caught.value.reply_text == "NOT_FOUND - no queue 'none' in vhost '/'"
        connection.channel(1).queue_declare("q")


def test_pika_is_told_why_it_may_not_come_in(served: Served) -> None:
    """A wrong password, and a vhost that there is not."""
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        pika_connection(served, credentials=wrong)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"530.*vhost v not found"):
        pika_connection(served, virtual_host="v")


def test_pika_is_told_of_an_error_in_the_server(served: Served) -> None:
    """It is the server's; the connection ends."""
    served.door.fails_at_flow = True
    connection = pika_connection(served)
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="541"):
        channel.flow(True)


def test_pika_is_told_that_the_server_stops(served: Served) -> None:
    """Before the socket closes."""
    connection = pika_connection(served)
    served.stop()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(30)
    assert caught.value.reply_code == 320
    assert caught.value.reply_text == (
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    )


def test_pika_logs_in_by_its_certificate(tmp_path: Path) -> None:
    """Over TLS, on the port of plain connections; without a certificate it is refused."""
    own, theirs = (certificates.make(tmp_path, name) for name in ("server", "client"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    context.load_verify_locations(theirs.cert)
    context.verify_mode = ssl.CERT_OPTIONAL
    trusting = ssl.create_default_context(cafile=own.cert)
    external = pika.credentials.ExternalCredentials()
    served = Served(context)
    served.start()
    try:
        options = pika.SSLOptions(trusting, HOST)
        with pika_connection(served, ssl_options=options) as connection:
            connection.channel().queue_declare("q")
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika_connection(served, ssl_options=options, credentials=external)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika_connection(served, credentials=external)
        trusting.load_cert_chain(theirs.cert, theirs.key)
        with pika_connection(served, ssl_options=options, credentials=external) as connection:
            connection.channel().queue_declare("q")
            assert served.door.inside == ["CN=client"]
    finally:
        served.stop()


def test_aio_pika_sends_and_receives(served: Served) -> None:
    """With confirms, which it asks for by itself, a consumer, and many channels."""

    async def main() -> None:
        url = f"amqp://guest:guest@{HOST}:{served.port}/"
        connection = await aio_pika.connect(url)
        async with connection:
            channels = [await connection.channel() for _ in range(20)]
            channel = channels[-1]
            queue = await channel.declare_queue("q")
            for number in range(50):
                message = aio_pika.Message(b"%d" % number, headers={"n": number, "t": "é"})
                await channel.default_exchange.publish(message, routing_key="q")
            found = []
            async with queue.iterator() as messages:
                async for one in messages:
                    found.append((one.body, one.headers["n"], one.headers["t"]))
                    await one.ack()
                    if len(found) == 50:
                        break
            assert found == [(b"%d" % number, number, "é") for number in range(50)]
            with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
                await channel.declare_queue("none", passive=True)

    asyncio.run(main())


def test_aio_pika_is_told_why_it_may_not_come_in(served: Served) -> None:
    """A wrong password."""

    async def main() -> None:
        with pytest.raises(aio_pika.exceptions.ProbableAuthenticationError):
            await aio_pika.connect(f"amqp://guest:wrong@{HOST}:{served.port}/")

    asyncio.run(main())


@pytest.mark.parametrize("login_method", ["PLAIN", "AMQPLAIN"])
def test_kombu_sends_and_receives(served: Served, login_method: str) -> None:
    """By py-amqp; it logs in both ways."""
    url = f"amqp://guest:guest@{HOST}:{served.port}//"
    with kombu.Connection(url, login_method=login_method, heartbeat=60) as connection:
        queue = kombu.Queue("q", kombu.Exchange("x", "direct"), "q")
        found: list[object] = []

        def on_message(body: object, message: kombu.Message) -> None:
            found.append((body, message.headers["k"], message.content_type))
            message.ack()

        with connection.Producer() as producer:
            producer.publish({"a": [1, "é"]}, routing_key="q", declare=[queue], headers={"k": "v"})
        with connection.Consumer(queue, callbacks=[on_message]):
            connection.drain_events(timeout=LONG_SECONDS)
        assert found == [({"a": [1, "é"]}, "v", "application/json")]
        connection.heartbeat_check()
    assert served.door.secrets == [b"guest"]


def test_kombu_is_told_why_it_may_not_come_in(served: Served) -> None:
    """A wrong password."""
    connection = kombu.Connection(f"amqp://guest:wrong@{HOST}:{served.port}//")
    with pytest.raises(Exception, match=r"403.*ACCESS_REFUSED"):
        connection.connect()
