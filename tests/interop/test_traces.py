"""Traces of our clients are shown by the real `mqadmin` 5.3.3, those of Java's and Go's by ours."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import mqadmin, peers
from tests.interop.go_client import GoClient
from tests.interop.java_client import JavaClient
from tests.interop.test_transactions import create
from tests.waits import LONG_SECONDS
from typer.testing import CliRunner

from sprocket.cli.main import app
from sprocket.rocketmq.client import (
    ConsumerSettings,
    Message,
    ProducerSettings,
    ReceivedMessage,
    blocking,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-traces"),
]


def test_mqadmin_shows_traces_of_our_clients(jars: Path, tmp_path: Path) -> None:
    """Who sent the message, how that ended, and what each group that got it made of it."""
    got = threading.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        got.set()

    with peers.Sprocket(tmp_path, tmp_path / "store", ()) as broker:
        with blocking.Producer(
            broker.nameserver, group="shop", settings=ProducerSettings(trace=True)
        ) as producer:
            sent = producer.send(Message("orders", b"coffee", tag="new", keys=["order-7"]))
        with blocking.PushConsumer(
            broker.nameserver,
            group="kitchen",
            listener=listener,
            start="first",
            settings=ConsumerSettings(trace=True),
        ) as consumer:
            consumer.subscribe("orders")
            assert got.wait(LONG_SECONDS)
        (text,) = mqadmin.run(
            jars, tmp_path, broker.nameserver, [[["queryMsgTraceById", "-i", sent.message_id]]]
        )
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert [(row[:3], row[-1]) for row in rows] == [
        (["Pub", "shop", "127.0.0.1"], "success"),
        (["Sub", "kitchen", "127.0.0.1"], "success"),
    ]


def shown(broker: peers.Broker, message_id: str) -> list[tuple[str, str, str]]:
    """Return what our command shows of a message: events, groups, what came of each."""
    words = ["msg", "trace", message_id, "--nameserver", broker.nameserver, "--json"]
    ended = CliRunner().invoke(app(), words)
    assert ended.exit_code == 0, ended.output
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    return [(row["event"], row["group"], row["result"]) for row in rows]


@pytest.mark.parametrize("version", peers.CLIENTS)
def test_we_show_traces_of_java(
    version: str, java_of: Callable[[str], JavaClient], tmp_path: Path
) -> None:
    """Who sent a message, where it was stored, and each delivery, also the one that failed."""
    with peers.Sprocket(tmp_path, tmp_path / "store", ()) as broker:
        first, second = java_of(version).trace(broker.nameserver, "Traced", group="kitchen")
        sent = [("sent (normal)", "kitchen_producer", "success"), ("stored", "", "")]
        once = [("delivery 1 began", "kitchen", ""), ("delivery 1 ended", "kitchen", "success")]
        assert shown(broker, first) == [*sent, *once]
        assert [event for event, *_ in shown(broker, second)] == [
            *("sent (normal)", "stored", "delivery 1 began", "delivery 1 ended"),
            *("delivery 2 began", "delivery 2 ended"),
        ]


def test_we_show_traces_of_go(go: GoClient, tmp_path: Path) -> None:
    """As Java's. Its client makes no topic for them, so that ours is the first."""
    with peers.Sprocket(tmp_path, tmp_path / "store", ()) as broker:
        with blocking.Producer(broker.nameserver, settings=ProducerSettings(trace=True)) as first:
            first.send(Message("Other", b"makes the topic of traces"))
        create(broker, "Traced")
        (message_id,) = go.trace(broker.nameserver, "Traced", group="kitchen")
        # Go's times are those of the answer.
        assert sorted(shown(broker, message_id)) == [
            ("delivery 1 began", "kitchen", ""),
            ("delivery 1 ended", "kitchen", "success"),
            ("sent (normal)", "kitchen_producer", "success"),
            ("stored", "", ""),
        ]
