"""What clients of AMQP send, frame by frame, and connections that have got that far."""

from sprocket.rabbitmq.codec.amqp import frames, methods
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.server.connection import (
    Acknowledged,
    AmqpConnection,
    Event,
    Memo,
    Published,
    WireLimits,
)


def frame(kind: int, channel: int, payload: bytes, end: int = frames.END) -> bytes:
    """Return a frame, whatever is in it."""
    return frames.HEAD.pack(kind, channel, len(payload)) + payload + bytes((end,))


def method(channel: int, value: AmqpMethod) -> bytes:
    """Return the frame of a method."""
    return frames.encode_method(channel, value)


def header(channel: int, size: int, properties: bytes = bytes(2), *, of: int = 60) -> bytes:
    """Return a content header."""
    return frame(2, channel, frames.CONTENT_HEAD.pack(of, 0, size) + properties)


def publish(channel: int, key: str = "key", exchange: str = "x") -> bytes:
    """Return the method that a message begins with."""
    return method(channel, methods.BasicPublish(0, exchange, key, False, False))


def message(
    channel: int,
    body: bytes,
    key: str = "key",
    properties: bytes = bytes(2),
    *,
    exchange: str = "x",
) -> bytes:
    """Return a whole message, its body in one frame."""
    content = frame(3, channel, body) if body else b""
    return publish(channel, key, exchange) + header(channel, len(body), properties) + content


LOGIN = method(0, methods.ConnectionStartOk(NO_FIELDS, "PLAIN", b"\x00guest\x00guest", "en_US"))


def handshake(limits: WireLimits, vhost: str = "/") -> bytes:
    """Return everything that a client says until it is in; it takes the limits as offered."""
    chosen = methods.ConnectionTuneOk(
        limits.channel_max, limits.frame_bytes_max, limits.heartbeat_seconds
    )
    opening = method(0, methods.ConnectionOpen(vhost))
    return frames.PROTOCOL_HEADER + LOGIN + method(0, chosen) + opening


def connection(limits: WireLimits | None = None, memo: Memo | None = None) -> AmqpConnection:
    """Return a connection that nothing has come on."""
    return AmqpConnection(limits or WireLimits(), memo or Memo())


def running(limits: WireLimits | None = None, channels: int = 1) -> AmqpConnection:
    """Return a connection of a client that is in and has opened channels, from 1 on."""
    limits = limits or WireLimits()
    found = connection(limits)
    found.receive(handshake(limits))
    for number in range(1, channels + 1):
        found.receive(method(number, methods.ChannelOpen()))
    return found


def heard(buffers: list[frames.Buffer] | bytes) -> list[tuple[int, AmqpMethod]]:
    """Return channel and method of every frame that a server has sent, but content."""
    data = buffers if isinstance(buffers, bytes) else b"".join(buffers)
    found, at = [], 0
    while at < len(data):
        kind, channel, size = frames.HEAD.unpack_from(data, at)
        start, at = at + frames.HEAD_BYTES, at + frames.OVERHEAD_BYTES + size
        assert data[at - 1] == frames.END
        if kind == frames.FrameKind.METHOD:
            found.append((channel, methods.decode(data, start, at - 1)))
    return found


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return bytes in pieces that begin at these places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def said(events: list[Event]) -> list[tuple[object, ...]]:
    """Return what events say, so that they can be compared; each message and each tag by itself."""
    found: list[tuple[object, ...]] = []
    for event in events:
        match event:
            case Published():
                found += [("Published", event.channel.number, one) for one in event.messages]
            case Acknowledged():
                about = ("Acknowledged", event.channel.number, event.is_multiple)
                found += [(*about, tag) for tag in event.tags]
            case _:
                found.append(_said(event))
    return found


def _said(event: Event) -> tuple[object, ...]:
    values = []
    for name in event.__struct_fields__:
        value = getattr(event, name)
        value = getattr(value, "number", value)
        values.append((str(value), getattr(value, "method", None)) if name == "error" else value)
    return (type(event).__name__, *values)
