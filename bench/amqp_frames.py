"""What a message of 1 KiB costs between bytes and events of AMQP: `python bench/amqp_frames.py`.

Prints microseconds of this process for each message, the best of several rounds, read from pieces
of 256 KiB as a socket gives them. Budget: 2 µs for a message that is published, 4 with headers that
no other message has, 1 for one that is delivered.
"""

import os
import timeit
from collections.abc import Callable

from sprocket.base.units import KIB
from sprocket.rabbitmq.codec.amqp import frames, methods, properties, tables
from sprocket.rabbitmq.model.fields import (
    NO_FIELDS,
    Field,
    FieldKind,
    FieldTable,
    long_string,
)
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.server.connection import AmqpConnection, Memo, WireLimits

COUNT = 10_000
BODY = os.urandom(KIB)
BARE = properties.encode(BasicProperties(delivery_mode=2))
PIECE_BYTES = 256 * KIB


def rich(number: int) -> bytes:
    """Return nine properties and four headers, as a task of Celery has them."""
    headers = FieldTable(
        (
            ("lang", long_string("py")),
            ("task", long_string("flights.tasks.add")),
            ("retries", Field(FieldKind.SIGNED_INT, 0)),
            ("id", long_string(f"{number:032x}")),
        )
    )
    return properties.encode(
        BasicProperties(
            content_type="application/json",
            content_encoding="utf-8",
            headers=headers,
            delivery_mode=2,
            priority=0,
            correlation_id=f"{number:032x}",
            reply_to="0b2c",
            message_id=f"{number:032d}",
            timestamp=1_700_000_000,
        )
    )


def running() -> AmqpConnection:
    """Return a connection with channel 1."""
    found = AmqpConnection(WireLimits(), Memo())
    found.receive(frames.PROTOCOL_HEADER)
    for channel, method in (
        (0, methods.ConnectionStartOk(NO_FIELDS, "PLAIN", b"\x00a\x00b", "en_US")),
        (0, methods.ConnectionTuneOk(2047, 131072, 0)),
        (0, methods.ConnectionOpen("/")),
        (1, methods.ChannelOpen()),
    ):
        found.receive(frames.encode_method(channel, method))
    return found


def reading(data: bytes) -> Callable[[], None]:
    """Return what reads a stream."""

    def read() -> None:
        connection = running()
        for at in range(0, len(data), PIECE_BYTES):
            connection.receive(data[at : at + PIECE_BYTES])

    return read


def published(of: Callable[[int], bytes]) -> bytes:
    """Return a stream of messages."""
    payload = methods.encode(methods.BasicPublish(0, "", "queue-1", False, False))
    found = [frames.encode_content(1, payload, of(n), [BODY], 131072) for n in range(COUNT)]
    return b"".join(b"".join(buffers) for buffers in found)


def deliver() -> None:
    """Make what is sent for messages that are delivered."""
    short = tables.encode_short_string
    consumer, origin, same = short("ctag1.0b2c"), short("") + short("queue-1"), rich(1)
    for number in range(COUNT):
        payload = frames.delivery_payload(consumer, number, False, origin)
        frames.encode_content(1, payload, same, [BODY], 131072)


def main() -> None:
    """Measure and print."""
    alike = rich(1)
    acks = [frames.encode_method(1, methods.BasicAck(n, False)) for n in range(COUNT)]
    steps = {
        "published, delivery mode alone": reading(published(lambda _: BARE)),
        "published, headers all alike": reading(published(lambda _: alike)),
        "published, headers all different": reading(published(rich)),
        "ack": reading(b"".join(acks)),
        "delivered": deliver,
    }
    for name, step in steps.items():
        cost = min(timeit.repeat(step, number=1, repeat=15)) / COUNT * 1e6
        print(f"{name:34} {cost:6.2f} µs")


if __name__ == "__main__":
    main()
