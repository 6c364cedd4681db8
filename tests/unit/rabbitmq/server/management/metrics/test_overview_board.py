"""RabbitMQ's Grafana board gets an answer for every panel, the right one after known traffic."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
import requests
from tests.promql import Scrape, evaluate
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow

BOARD = Path(__file__).parents[5] / "data" / "rabbitmq-3.10.8" / "overview-board.tsv"
IDENTITY = 'rabbitmq_identity_info{rabbitmq_cluster="@name", namespace=""}'
"""Grafana puts in the name of the cluster, and nothing for the namespace if no series has one."""
JOINS = {
    "@cluster": f"* on(instance) group_left(rabbitmq_cluster) {IDENTITY}",
    "@node": f"* on(instance) group_left(rabbitmq_cluster, rabbitmq_node) {IDENTITY}",
}
SECONDS = 60
PERSISTENT = pika.BasicProperties(delivery_mode=2)
Connect = Callable[..., pika.BlockingConnection]

RATES = {
    "Incoming messages / s": 26,
    "Outgoing messages / s": 6 + 4 + 5 + 4 + 1,
    "Messages published / s": 26,
    "Messages confirmed to publishers / s": 15,
    "Messages routed to queues / s": 21,
    "Messages unconfirmed to publishers / s": 0,
    "Unroutable messages dropped / s": 3,
    "Unroutable messages returned to publishers / s": 2,
    "Messages delivered / s": 6 + 4,
    "Messages redelivered / s": 1,
    "Messages delivered with manual ack / s": 4,
    "Messages delivered auto ack / s": 6,
    "Messages acknowledged / s": 3 + 2,
    "Polling operations with auto ack / s": 5,
    "Polling operations that yield no result / s": 7,
    "Polling operations with manual ack / s": 4,
    "Queues declared / s": 4,
    "Queues created / s": 3,
    "Queues deleted / s": 1,
    "Channels opened / s": 4,
    "Channels closed / s": 1,
    "Connections opened / s": 2,
    "Connections closed / s": 1,
}
"""How often what a panel tells of happens in `traffic`, within a minute."""
NOW = {
    "Ready messages": 3,
    "Messages ready to be delivered to consumers": 3,
    "Unacknowledged messages": 2,
    "Messages pending consumer acknowledgement": 2,
    "Publishers": 3 - 2,
    "Connections": 1,
    "Total connections": 1,
    "Queues": 2,
    "Total queues": 2,
    "Consumers": 2,
    "Channels": 3,
    "Total channels": 3,
    "Nodes": 1,
    "Nodes (table)": 1,
}
"""How much there is after it."""
MEASURED = {
    "Memory available before publishers blocked",
    "Disk space available before publishers blocked",
    "File descriptors available",
    "TCP sockets available",
}
"""What the machine says: some, at least."""


def board(cluster: str) -> Mapping[str, str]:
    """Return the expression of each panel by its title, for a cluster of that name."""
    found = {}
    for line in BOARD.read_text().splitlines():
        if not line.startswith("#"):
            title, _, expression = line.partition("\t")
            assert title not in found
            for short, join in JOINS.items():
                expression = expression.replace(short, join.replace("@name", cluster))
            found[title] = expression
    return found


def scrape(url: str) -> Scrape:
    """Return what Prometheus gets."""
    text = requests.get(url, timeout=LONG_SECONDS).text
    return Scrape.of(text, instance="127.0.0.1:15692", job="rabbitmq")


@contextmanager
def traffic(connect: Connect) -> Iterator[None]:
    """Do what `RATES` tells of; while it is held, there is what `NOW` tells of."""
    connection = connect()
    confirming, plain, consuming = channels = [connection.channel() for _ in range(3)]
    confirming.confirm_delivery()
    for queue, is_durable in (("q", True), ("q2", False), ("deleted", False), ("q", True)):
        plain.queue_declare(queue, durable=is_durable)
    plain.queue_delete("deleted")
    for number in range(15):
        confirming.basic_publish("", "q", b"%d" % number, PERSISTENT)
    for number in range(6):
        plain.basic_publish("", "q2", b"%d" % number)
    for _ in range(3):
        plain.basic_publish("", "nowhere", b"dropped")
    for _ in range(2):
        plain.basic_publish("", "nowhere", b"returned", mandatory=True)
    automatic: list[int] = []
    consuming.basic_consume("q2", lambda *_: automatic.append(0), auto_ack=True)
    while len(automatic) < 6:
        connection.process_data_events(time_limit=1)
    for _ in range(7):
        assert plain.basic_get("q2") == (None, None, None)
    tags = [plain.basic_get("q")[0].delivery_tag for _ in range(4)]
    for tag in tags[:3]:
        plain.basic_ack(tag)
    plain.basic_reject(tags[3], requeue=True)
    redelivered = [plain.basic_get("q", auto_ack=True)[0].redelivered for _ in range(5)]
    assert redelivered == [True, False, False, False, False]
    consuming.basic_qos(prefetch_count=2)
    manual: list[int] = []
    consuming.basic_consume("q", lambda _, method, *__: manual.append(method.delivery_tag))
    while len(manual) < 4:
        connection.process_data_events(time_limit=1)
        if len(manual) == 2:
            consuming.basic_ack(manual[1], multiple=True)
    with connect() as other:
        other.channel()
    for channel in channels:
        channel.basic_qos(prefetch_count=2)  # is answered after all that was before it
    yield
    connection.close()


def require_answers(before: Scrape, after: Scrape) -> None:
    """Check every panel's names, labels that joins need, and values.

    Args:
        before: From before `traffic`.
        after: From `SECONDS` later, while it is held.
    """
    (identity,) = after.families["rabbitmq_identity_info"].series
    node, cluster = (dict(identity)[name] for name in ("rabbitmq_node", "rabbitmq_cluster"))
    found = {}
    for title, expression in board(cluster).items():
        vector = evaluate(expression, [before, after], SECONDS)
        assert len(vector) == 1, title
        ((labels, value),) = vector.items()
        assert dict(labels).get("rabbitmq_node", node) == node, title
        found[title] = value
    for title in MEASURED:
        assert found.pop(title) > 0, title
    rates = {title: round(value * SECONDS, 6) for title, value in found.items() if title in RATES}
    assert rates == RATES
    assert {title: value for title, value in found.items() if title not in RATES} == NOW


@pytest.fixture
def metrics(broker: LocalAmqp) -> str:
    """The URL that Prometheus asks."""
    return broker.http_url.removesuffix("/api") + "/metrics"


def test_every_panel_has_its_answer(broker: LocalAmqp, metrics: str, connect: Connect) -> None:
    """Each as the board's expression computes it; so it is of RabbitMQ itself (tests/interop)."""
    before = scrape(metrics)
    with traffic(connect):
        broker.advance(seconds=SECONDS)
        require_answers(before, scrape(metrics))


def test_the_newest_board_finds_its_names(
    broker: LocalAmqp, metrics: str, connect: Connect
) -> None:
    """What it asks for beyond this one, of what RabbitMQ 3.10.8 has."""
    with traffic(connect):
        broker.advance(seconds=SECONDS)
        found = scrape(metrics)
    target = {"instance": "127.0.0.1:15692", "job": "rabbitmq"}
    assert found.value("rabbitmq_erlang_uptime_seconds", **target) == SECONDS
    assert found.value("rabbitmq_global_publishers", protocol="amqp091", **target) == 2
    assert found.value("rabbitmq_global_consumers", protocol="amqp091", **target) == 2
