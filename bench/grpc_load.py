"""Raw calls of RocketMQ's gRPC service: what a server takes, whatever a client costs.

A connection sends frames that are made beforehand and counts the ends of calls. An answer that does
not say OK ends the load.

Header fields are indexed from the second call on. Those of SDKs are not all: one is an id of the
call, and some libraries send the fields of their users as they are each time, as that of the SDK
for Python does. A `Shape` with `has_ids` does so.
"""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

import hpack
from tests.grpc_client import SIMPLE, GrpcClient, consumer_settings

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.messages import Message, Resource, SystemProperties
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.runtime import driver
from sprocket.runtime.http2 import frames

END_STREAM, END_HEADERS, ACK = 1, 4, 1
DATA, HEADERS, RST, SETTINGS, PING, GO_AWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
OK: Final = b"\x08\xa0\x9c\x01"
"""Code 20000 in any status."""
WINDOW_BYTES: Final = 1 << 30
PATH: Final = "/apache.rocketmq.v2.MessagingService/"
CLIENT_ID: Final = "bench@4711@0@ke3bmq4f"
FIELDS: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "127.0.0.1:8081"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "23S"),
)
OWN_FIELDS: Final = (
    ("x-mq-client-id", CLIENT_ID),
    ("x-mq-language", "PYTHON"),
    ("x-mq-client-version", "5.1.2"),
    ("x-mq-protocol", "GRPC_V2"),
    ("x-mq-date-time", "20261120T055820Z"),
)
REQUEST_ID: Final = "5a3bd3a1-36bb-4b6a-9e2f-000000000000"
"""Its digits are others in each call."""

_FRAME: Final = struct.Struct(">BHBBI")
_STREAM: Final = struct.Struct(">I")


class LoadError(Exception):
    """The server did not do what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many calls are under way: connections, and calls on each; what each says of itself."""

    connections: int
    depth: int
    has_ids: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.connections} × {self.depth}{' ids' if self.has_ids else ''}"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(payload)
    return _FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def _text(text: str) -> bytes:
    """Return a short text as a header block has it."""
    return bytes((len(text),)) + text.encode()


def enveloped(message: bytes) -> bytes:
    """Return a message as gRPC sends it, in the only frame of its call but for the stream."""
    data = struct.pack(">BI", 0, len(message)) + message
    return frame(DATA, END_STREAM, 0, data)


def sent(topic: str, body: bytes, number: int) -> bytes:
    """Return a send of one message."""
    said = SystemProperties(message_id=f"{number:034X}", message_type=1, body_encoding=1)
    said.born_timestamp.FromMilliseconds(1_700_000_000_000 + number)
    said.born_host = "bench"
    one = Message(topic=Resource(name=topic), system_properties=said, body=body)
    return messages.SendMessageRequest(messages=[one]).SerializeToString()


class Link(asyncio.Protocol):
    """One connection that keeps some calls under way.

    Args:
        method: Which is called.
        shape: How many calls are under way, and what they say.
        request: Gives the next message that is sent, `enveloped`; None when there are no more.
        taken: Gets what a call was answered, messages with what is around them.
        must_be_ok: Whether each answer must say OK.
    """

    def __init__(
        self,
        method: str,
        shape: Shape,
        request: Callable[[], bytes | None],
        taken: Callable[[bytes], None],
        *,
        must_be_ok: bool,
    ) -> None:
        encoder = hpack.Encoder()
        fields = [(":path", PATH + method), *FIELDS]
        own = [*OWN_FIELDS, ("x-mq-request-id", REQUEST_ID)]
        plain = b"".join(b"\0" + _text(name) + _text(value) for name, value in own)
        if not shape.has_ids:
            fields, plain = [*fields, *OWN_FIELDS], b""
        first, following = encoder.encode(fields), encoder.encode(fields)
        self._head = frame(HEADERS, END_HEADERS, 0, first + plain)
        self._next_head = frame(HEADERS, END_HEADERS, 0, following + plain)
        self._has_ids = shape.has_ids
        self._depth, self._request, self._taken = shape.depth, request, taken
        self._must_be_ok = must_be_ok
        self._stream = 1
        self._open = 0
        self._data = b""
        self._answers: dict[int, bytes] = {}
        self._owed = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.WriteTransport", transport)
        opened = struct.pack(">HI", 4, WINDOW_BYTES)
        hello = frames.PREFACE + frame(SETTINGS, 0, 0, opened)
        self._transport.write(hello + frame(WINDOW, 0, 0, struct.pack(">I", WINDOW_BYTES)))
        self._fill()

    def _fill(self) -> None:
        out: list[bytes] = []
        while self._open < self._depth:
            request = self._request()
            if request is None:
                break
            stream = _STREAM.pack(self._stream)
            head = self._head
            if self._has_ids:
                head = head[: -len(REQUEST_ID)] + b"%036x" % self._stream
            out += (head[:5], stream, head[9:], request[:5], stream, request[9:])
            self._head = self._next_head
            self._stream += 2
            self._open += 1
        if out:
            self._transport.write(b"".join(out))
        elif not self._open and not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        data = self._data + data
        at, end = 0, len(data)
        while end - at >= 9:
            high, low, kind, flags, stream = _FRAME.unpack_from(data, at)
            size = high << 16 | low
            if end - at < 9 + size:
                break
            self._take(kind, flags, stream, data[at + 9 : at + 9 + size])
            at += 9 + size
        self._data = data[at:]
        self._fill()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            before = self._answers.get(stream)
            self._answers[stream] = payload if before is None else before + payload
            self._owed += len(payload)
            if self._owed > WINDOW_BYTES // 2:
                self._transport.write(frame(WINDOW, 0, 0, struct.pack(">I", self._owed)))
                self._owed = 0
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._transport.write(frame(PING, ACK, 0, payload))
        elif kind in (RST, GO_AWAY):
            self._fail(f"the server ended a call: frame {kind}, {payload!r}")
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            answer = self._answers.pop(stream, b"")
            if self._must_be_ok and OK not in answer:
                self._fail(f"a call was answered {answer[:200]!r}")
            self._open -= 1
            self._taken(answer)

    def _fail(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(LoadError(why))

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so, if it was not to end."""
        self._fail(f"the connection is lost: {exc}")


async def _load(
    port: int,
    shape: Shape,
    method: str,
    request: Callable[[], bytes | None],
    taken: Callable[[bytes], None],
    *,
    must_be_ok: bool = True,
) -> float:
    loop = asyncio.get_running_loop()
    begun = time.monotonic()
    links = []
    for _ in range(shape.connections):
        _, link = await loop.create_connection(
            lambda: Link(method, shape, request, taken, must_be_ok=must_be_ok),
            "127.0.0.1",
            port,
        )
        links.append(link)
    for link in links:
        await link.ended
    seconds = time.monotonic() - begun
    for link in links:
        link._transport.abort()
    return seconds


def send(port: int, shape: Shape, topic: str, *, count: int, body_bytes: int) -> float:
    """Send so many messages, one a call; return how long it took, in seconds."""
    body = bytes(body_bytes)
    requests = [enveloped(sent(topic, body, number)) for number in range(min(count, 4_096))]
    left = iter(range(count))

    def following() -> bytes | None:
        number = next(left, None)
        return None if number is None else requests[number % len(requests)]

    return driver.run(_load(port, shape, "SendMessage", following, lambda _: None))


def received(answer: bytes) -> list[Message]:
    """Return the messages of the answer to a receive. Raises LoadError if that says why not."""
    found: list[Message] = []
    at = 0
    while at < len(answer):
        (size,) = struct.unpack_from(">I", answer, at + 1)
        one = messages.ReceiveMessageResponse.FromString(answer[at + 5 : at + 5 + size])
        if one.HasField("message"):
            found.append(one.message)
        elif one.HasField("status") and one.status.code not in (Code.OK, Code.MESSAGE_NOT_FOUND):
            raise LoadError(f"a receive was answered {one.status}")
        at += 5 + size
    return found


def receive_request(topic: str, group: str) -> bytes:
    """Return a request for up to 32 messages."""
    request = messages.ReceiveMessageRequest(
        group=Resource(name=group),
        message_queue=messages.MessageQueue(topic=Resource(name=topic)),
        batch_size=32,
        invisible_duration=duration(60_000),
        long_polling_timeout=duration(5_000),
    )
    return enveloped(request.SerializeToString())


@asynccontextmanager
async def _consumer(port: int, topic: str, group: str) -> AsyncIterator[None]:
    """Say that there is a consumer: the proxy refuses receives of whoever has not."""
    client = GrpcClient(f"127.0.0.1:{port}", CLIENT_ID)
    try:
        async with client.telemetry(consumer_settings(group, topic, kind=SIMPLE)):
            yield
    finally:
        await client.close()


async def _join(port: int, topic: str, group: str) -> None:
    requests = iter([receive_request(topic, group)])
    async with _consumer(port, topic, group):
        await _load(
            port,
            Shape(connections=1, depth=1),
            "ReceiveMessage",
            lambda: next(requests, None),
            lambda answer: received(answer).clear(),
            must_be_ok=False,
        )


def join(port: int, topic: str, group: str) -> None:
    """Have a group begin where its topic ends now: a new one does so at its first receive."""
    driver.run(_join(port, topic, group))


async def _consume(port: int, shape: Shape, topic: str, group: str, count: int) -> float:
    asked = receive_request(topic, group)
    got: list[Message] = []

    def again() -> bytes | None:
        return asked if len(got) < count else None

    async with _consumer(port, topic, group):
        seconds = await _load(
            port,
            shape,
            "ReceiveMessage",
            again,
            lambda answer: got.extend(received(answer)),
            must_be_ok=False,
        )
        acks = iter([ack_request(topic, group, one) for one in got])
        return seconds + await _load(
            port, shape, "AckMessage", lambda: next(acks, None), lambda _: None
        )


def ack_request(topic: str, group: str, message: Message) -> bytes:
    """Return an acknowledgement of one message."""
    said = message.system_properties
    entry = messages.AckMessageEntry(message_id=said.message_id, receipt_handle=said.receipt_handle)
    request = messages.AckMessageRequest(
        group=Resource(name=group), topic=Resource(name=topic), entries=[entry]
    )
    return enveloped(request.SerializeToString())


def receive_and_acknowledge(
    port: int, shape: Shape, topic: str, group: str, *, count: int
) -> float:
    """Receive so many messages, 32 a call, then acknowledge each; return the seconds."""
    return driver.run(_consume(port, shape, topic, group, count))
