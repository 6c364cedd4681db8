"""The HTTP API of the real RabbitMQ and ours: the same requests, and its own rabbitmqadmin."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tests.interop import rabbitmq_node
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import RabbitNode
from tests.management import comparison
from tests.management.requests import STEPS

from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.interop

STATISTICS_SECONDS = 6.0
"""RabbitMQ gathers its statistics every five seconds."""

COMMANDS = [
    "declare vhost name=v1",
    "declare user name=u password=p tags=monitoring",
    "declare permission vhost=v1 user=u configure=.* write=.* read=.*",
    "declare exchange name=x type=topic",
    "declare queue name=q durable=true",
    "declare binding source=x destination=q routing_key=a.#",
    'declare policy name=p pattern=^q definition={"max-length":5} apply-to=queues',
    'declare operator_policy name=o pattern=^q definition={"max-length":4} apply-to=queues',
    "declare vhost_limit vhost=v1 name=max-queues value=3",
    "publish exchange=x routing_key=a.b payload=hello",
    "get queue=q ackmode=ack_requeue_true",
    "list users name tags",
    "list vhosts name",
    "list connections",
    "list channels",
    "list consumers",
    "list exchanges",
    "list queues name durable",
    "list bindings",
    "list permissions",
    "list policies",
    "list operator_policies",
    "list parameters",
    "list vhost_limits",
    "show overview rabbitmq_version",
    "purge queue name=q",
    "delete binding source=x destination_type=queue destination=q properties_key=a.%23",
    "delete policy name=p",
    "delete operator_policy name=o",
    "delete vhost_limit vhost=v1 name=max-queues",
    "delete queue name=q",
    "delete queue name=q",
    "delete exchange name=x",
    "delete permission vhost=v1 user=u",
    "delete user name=u",
    "delete vhost name=v1",
    "close connection name=nothing",
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RabbitNode]:
    """Run a real RabbitMQ with its HTTP API; without one the test is skipped by name."""
    try:
        root = rabbitmq_node.installed()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    with RabbitNode(root, tmp_path / "node", has_api=True) as running:
        running.start()
        yield running


def test_both_answer_alike(node: RabbitNode) -> None:
    """Every request; what differs is named with its reason."""
    base = f"http://127.0.0.1:{node.api_port}/api"
    wrong = []
    with LocalAmqp() as broker, requests.Session() as one, requests.Session() as other:
        for step in STEPS:
            if step.waits:
                time.sleep(STATISTICS_SECONDS)
            theirs = comparison.ask(one, base, step, tries=3)
            ours = comparison.ask(other, broker.http_url, step)
            wrong += [
                (step.method, step.path, found)
                for found in comparison.differences(theirs, ours)
                if not comparison.is_known(step, found)
            ]
    assert wrong == []


def test_rabbitmqadmin_says_the_same_of_both(node: RabbitNode) -> None:
    """Exit codes and what it prints."""

    def run(port: str, command: str) -> tuple[int, str]:
        words = [sys.executable, str(node.rabbitmqadmin), "--host", "127.0.0.1", "--port", port]
        done = subprocess.run([*words, *command.split(" ")], capture_output=True, text=True)
        return done.returncode, done.stdout

    with LocalAmqp() as broker:
        ours = broker.http_url.removesuffix("/api").rpartition(":")[2]
        theirs = str(node.api_port)
        wrong = []
        for command in COMMANDS:
            found = run(theirs, command), run(ours, command)
            if found[0] != found[1]:
                wrong.append((command, *found))
        assert wrong == []
