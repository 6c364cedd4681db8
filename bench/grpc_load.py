"""Raw calls of RocketMQ's gRPC service: what a server takes, whatever a client costs.

A connection sends frames that are made beforehand and counts the ends of calls. Header fields are
indexed, as those of every client are from its second call on. An answer that does not say OK ends
the load.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import hpack

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.messages import Message, Resource, SystemProperties
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.runtime.http2 import frames

END_STREAM, END_HEADERS, ACK = 1, 4, 1
DATA, HEADERS, RST, SETTINGS, PING, GO_AWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
OK: Final = b"\x08\xa0\x9c\x01"
"""Code 20000 in any status."""
WINDOW_BYTES: Final = 1 << 30
PATH: Final = "/apache.rocketmq.v2.MessagingService/"


class LoadError(Exception):
    """The server did not do what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many calls are under way: connections, and calls on each."""

    connections: int
    depth: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.connections} × {self.depth}"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(payload)
    return struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def enveloped(message: bytes) -> bytes:
    """Return a message as gRPC sends it."""
    return struct.pack(">BI", 0, len(message)) + message


def sent(topic: str, body: bytes, number: int) -> bytes:
    """Return a send of one message."""
    said = SystemProperties(message_id=f"{number:034X}", message_type=1, body_encoding=1)
    said.born_timestamp.FromMilliseconds(1_700_000_000_000)
    said.born_host = "bench"
    one = Message(topic=Resource(name=topic), system_properties=said, body=body)
    return messages.SendMessageRequest(messages=[one]).SerializeToString()


class Link(asyncio.Protocol):
    """One connection that keeps some calls under way.

    Args:
        method: Which is called.
        depth: How many calls are under way.
        request: Gives the next message that is sent; None when there are no more.
        taken: Gets what a call was answered, messages with what is around them.
        must_be_ok: Whether each answer must say OK.
    """

    def __init__(
        self,
        method: str,
        depth: int,
        request: Callable[[], bytes | None],
        taken: Callable[[bytes], None],
        *,
        must_be_ok: bool,
    ) -> None:
        encoder = hpack.Encoder()
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", PATH + method),
            (":authority", "127.0.0.1:8081"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("x-mq-client-id", "bench"),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.1.2"),
        ]
        self._first, self._head = encoder.encode(fields), encoder.encode(fields)
        self._depth, self._request, self._taken = depth, request, taken
        self._must_be_ok = must_be_ok
        self._stream = 1
        self._open = 0
        self._data = b""
        self._answers: dict[int, bytes] = {}
        self._owed = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        opened = struct.pack(">HI", 4, WINDOW_BYTES)
        hello = frames.PREFACE + frame(SETTINGS, 0, 0, opened)
        transport.write(hello + frame(WINDOW, 0, 0, struct.pack(">I", WINDOW_BYTES)))
        self._fill()

    def _fill(self) -> None:
        out = []
        while self._open < self._depth:
            request = self._request()
            if request is None:
                break
            head = self._first if self._stream == 1 else self._head
            out.append(frame(HEADERS, END_HEADERS, self._stream, head))
            out.append(frame(DATA, END_STREAM, self._stream, enveloped(request)))
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
            high, low, kind, flags, stream = struct.unpack_from(">BHBBI", data, at)
            size = high << 16 | low
            if end - at < 9 + size:
                break
            self._take(kind, flags, stream, data[at + 9 : at + 9 + size])
            at += 9 + size
        self._data = data[at:]
        self._fill()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self._answers[stream] = self._answers.get(stream, b"") + payload
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
            lambda: Link(method, shape.depth, request, taken, must_be_ok=must_be_ok),
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
    requests = [sent(topic, body, number) for number in range(min(count, 4_096))]
    left = iter(range(count))

    def following() -> bytes | None:
        number = next(left, None)
        return None if number is None else requests[number % len(requests)]

    return asyncio.run(_load(port, shape, "SendMessage", following, lambda _: None))


def received(answer: bytes) -> list[Message]:
    """Return the messages of the answer to a receive."""
    found: list[Message] = []
    at = 0
    while at < len(answer):
        (size,) = struct.unpack_from(">I", answer, at + 1)
        one = messages.ReceiveMessageResponse.FromString(answer[at + 5 : at + 5 + size])
        if one.WhichOneof("content") == "message":
            found.append(one.message)
        at += 5 + size
    return found


def receive_request(topic: str, group: str) -> bytes:
    """Return a request for up to 32 messages."""
    return messages.ReceiveMessageRequest(
        group=Resource(name=group),
        message_queue=messages.MessageQueue(topic=Resource(name=topic)),
        batch_size=32,
        invisible_duration=duration(60_000),
        long_polling_timeout=duration(5_000),
    ).SerializeToString()


def join(port: int, topic: str, group: str) -> None:
    """Have a group begin where its topic ends now: a new one does so at its first receive."""
    requests = iter([receive_request(topic, group)])
    shape = Shape(connections=1, depth=1)
    asked = _load(
        port,
        shape,
        "ReceiveMessage",
        lambda: next(requests, None),
        lambda _: None,
        must_be_ok=False,
    )
    asyncio.run(asked)


def receive_and_acknowledge(
    port: int, shape: Shape, topic: str, group: str, *, count: int
) -> float:
    """Receive so many messages, 32 a call, then acknowledge each; return the seconds."""
    asked = receive_request(topic, group)
    got: list[Message] = []

    def again() -> bytes | None:
        return asked if len(got) < count else None

    receiving = _load(
        port,
        shape,
        "ReceiveMessage",
        again,
        lambda answer: got.extend(received(answer)),
        must_be_ok=False,
    )
    seconds = asyncio.run(receiving)
    acks = iter(
        [
            messages.AckMessageRequest(
                group=Resource(name=group),
                topic=Resource(name=topic),
                entries=[
                    messages.AckMessageEntry(
                        message_id=one.system_properties.message_id,
                        receipt_handle=one.system_properties.receipt_handle,
                    )
                ],
            ).SerializeToString()
            for one in got
        ]
    )
    settling = _load(port, shape, "AckMessage", lambda: next(acks, None), lambda _: None)
    return seconds + asyncio.run(settling)
