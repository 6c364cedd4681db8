"""RabbitMQ's own Grafana board over the real RabbitMQ 3.10.8: what the tests expect of ours."""

import time
from pathlib import Path

import pika
import pytest
from tests.interop import rabbitmq_node
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import RabbitNode
from tests.unit.rabbitmq.server.management.metrics import test_overview_board as board

pytestmark = pytest.mark.interop

STATISTICS_SECONDS = 6.0
"""It gathers its statistics every five seconds."""


def test_every_panel_has_the_same_answer(tmp_path: Path) -> None:
    """After the same traffic, with the same expressions."""
    try:
        root = rabbitmq_node.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with RabbitNode(root, tmp_path / "node", has_api=True) as node:
        node.start()
        metrics = f"http://127.0.0.1:{node.metrics_port}/metrics"

        def connect() -> pika.BlockingConnection:
            return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port))

        before = board.scrape(metrics)
        with board.traffic(connect):
            time.sleep(STATISTICS_SECONDS)
            board.require_answers(before, board.scrape(metrics))
