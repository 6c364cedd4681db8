"""What RabbitMQ says of a message that dies again and again, and what we say.

So that one start of it serves all, other corners of messages are compared here, too: what matches
in a headers exchange, and a table with an unknown sign.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pika
import pytest
from tests.amqp import frame, message, method
from tests.amqp_socket import RawClient
from tests.interop import rabbitmq_node
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import RabbitNode

from sprocket.rabbitmq.codec.amqp import frames, methods
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.interop

QUEUES = 10
DEATHS = 60


EMPTIES: list[Any] = [[], {}, [1], {"a": 1}, "", None]
"""Values of a header; those of no length are of several kinds."""

Death = tuple[str, Any]


def deaths(
    connection: pika.BlockingConnection, pass_time: Callable[[], None]
) -> list[list[list[Death]]]:
    """Return what `x-death` says after each death of a message, but for the time.

    It is rejected, or expires, or is too much for its queue.
    """
    channel = connection.channel()
    kinds: dict[str, dict[str, Any]] = {
        "rejects": {},
        "expires": {"x-message-ttl": 1},
        "overflows": {"x-max-length": 0},
    }
    for number in range(QUEUES):
        for kind, limits in kinds.items():
            letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare(f"{kind}-{number}", arguments={**letters, **limits})
    channel.queue_declare("dead")
    random = Random(1)
    properties = pika.BasicProperties(headers={})
    found: list[list[list[Death]]] = []
    for _ in range(DEATHS):
        kind = random.choice([*kinds])
        name = f"{kind}-{random.randrange(QUEUES)}"
        if kind == "rejects" and random.random() < 0.5:
            properties.expiration = "60000"
        channel.basic_publish("", name, b"x", properties)
        if kind == "rejects":
            got, _, _ = waited(channel, name)
            channel.basic_reject(got.delivery_tag, requeue=False)
        pass_time()
        _, properties, _ = waited(channel, "dead")
        told: Sequence[dict[str, Any]] = properties.headers["x-death"]
        found.append([[item for item in one.items() if item[0] != "time"] for one in told])
    connection.close()
    return found


def matches(connection: pika.BlockingConnection) -> list[tuple[int, int]]:
    """Return which bindings of a headers exchange match which headers, by their places."""
    channel = connection.channel()
    channel.exchange_declare("h", "headers")
    found = []
    for bound in range(len(EMPTIES)):
        channel.queue_declare("h-queue")
        arguments = {"x-match": "all", "k": EMPTIES[bound]}
        channel.queue_bind("h-queue", "h", arguments=arguments)
        for sent, value in enumerate(EMPTIES):
            properties = pika.BasicProperties(headers={"k": value})
            channel.basic_publish("h", "", b"%d" % sent, properties)
        channel.basic_publish("", "h-queue", b"end")
        while (body := waited(channel, "h-queue")[2]) != b"end":
            found.append((bound, int(body)))
        channel.queue_delete("h-queue")
    connection.close()
    return found


async def refusals(address: str) -> list[tuple[str, int]]:
    """Return how a table with an unknown sign is refused: in a method, and in a message.

    `lost` is the end of the connection without a word.
    """
    table = b"\x01kz\0\0\0\0"
    table = len(table).to_bytes(4, "big") + table
    declared = method(1, methods.QueueDeclare(0, "u", False, False, False, True, False, NO_FIELDS))
    payload = declared[frames.HEAD_BYTES : -1][: -len(bytes(4))]
    properties = b"\x20\0" + table  # nothing but headers
    found = []
    for sent in (frame(1, 1, payload + table), message(1, b"x", "u", properties, exchange="")):
        client = await RawClient.open(address)
        client.writer.write(sent)
        client.writer.write(method(1, methods.BasicQos(0, 1, False)))
        try:
            told = await client.answer()
        except (ConnectionError, asyncio.IncompleteReadError):
            found.append(("lost", 0))
        else:
            found.append((type(told).__name__, getattr(told, "reply_code", 0)))
        client.writer.close()
    return found


def waited(channel: Any, name: str) -> Any:
    """Return the first message of a queue, when there is one."""
    while True:
        found = channel.basic_get(name, auto_ack=name == "dead")
        if found[0] is not None:
            return found
        channel.connection.process_data_events(0.01)


def test_corners_of_messages_are_as_in_rabbitmq(tmp_path: Path) -> None:
    """Deaths of all kinds over many queues, empty values in headers, and unknown signs."""
    try:
        root = rabbitmq_node.installed()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")

    def told(url: str, pass_time: Callable[[], None]) -> tuple[Any, Any, Any]:
        asked = pika.URLParameters(url)
        return (
            deaths(pika.BlockingConnection(asked), pass_time),
            matches(pika.BlockingConnection(asked)),
            asyncio.run(asyncio.wait_for(refusals(f"{asked.host}:{asked.port}"), 60)),
        )

    with LocalAmqp() as broker:
        ours = told(broker.url, lambda: broker.advance(10))
    with RabbitNode(root, tmp_path / "node") as node:
        node.start()
        theirs = told(f"amqp://guest:guest@127.0.0.1:{node.port}/", lambda: None)
    assert max(map(len, theirs[0])) > QUEUES // 2
    assert {one for death in theirs[0] for one in death[0] if one[0] == "reason"} == {
        ("reason", reason) for reason in ("rejected", "expired", "maxlen")
    }
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    # A method's makes RabbitMQ's reader crash, which tells nobody; a message's its channel.
    assert theirs[2] == [("lost", 0), ("ConnectionClose", 541)]
    assert ours[2] == [("ConnectionClose", 541)] * 2
