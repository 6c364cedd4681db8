"""The real `mqadmin` 5.3.3 shows the traces that our clients write."""

import threading
from pathlib import Path

import pytest
from tests.interop import mqadmin, peers
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import (
    ConsumerSettings,
    Message,
    ProducerSettings,
    ReceivedMessage,
    blocking,
)

pytestmark = [pytest.mark.interop, pytest.mark.slow]


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
