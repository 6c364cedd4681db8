"""What RabbitMQ says of a message that dies again and again, and what we say."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pika
import pytest
from tests.interop import rabbitmq_node
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import RabbitNode

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.interop

QUEUES = 10
DEATHS = 30


def deaths(connection: pika.BlockingConnection) -> list[list[tuple[str, str, int]]]:
    """Return what `x-death` says after each death of a message: queue, reason and count."""
    channel = connection.channel()
    names = [f"dies-{number}" for number in range(QUEUES)]
    for name in names:
        channel.queue_declare(
            name,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
        )
    channel.queue_declare("dead")
    random = Random(1)
    properties = pika.BasicProperties(headers={})
    found: list[list[tuple[str, str, int]]] = []
    for _ in range(DEATHS):
        name = random.choice(names)
        channel.basic_publish("", name, b"x", properties)
        method, _, _ = waited(channel, name)
        channel.basic_reject(method.delivery_tag, requeue=False)
        _, properties, _ = waited(channel, "dead")
        told: Sequence[dict[str, Any]] = properties.headers["x-death"]
        found.append([(one["queue"], one["reason"], one["count"]) for one in told])
    connection.close()
    return found


def waited(channel: Any, name: str) -> Any:
    """Return the first message of a queue, when there is one."""
    while True:
        found = channel.basic_get(name, auto_ack=name == "dead")
        if found[0] is not None:
            return found
        channel.connection.process_data_events(0.01)


def test_deaths_are_listed_in_the_same_order(tmp_path: Path) -> None:
    """Over ten queues and thirty deaths."""
    try:
        root = rabbitmq_node.installed()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    with LocalAmqp() as broker:
        ours = deaths(pika.BlockingConnection(pika.URLParameters(broker.url)))
    with RabbitNode(root, tmp_path / "node") as node:
        node.start()
        url = f"amqp://guest:guest@127.0.0.1:{node.port}/"
        theirs = deaths(pika.BlockingConnection(pika.URLParameters(url)))
    assert max(map(len, theirs)) > QUEUES // 2
    assert ours == theirs
