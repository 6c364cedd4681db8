"""`sprocket rabbit …` looks after a real RabbitMQ 3.10.8, by its management plugin."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.peers import PeerMissing
from tests.interop.rabbitmq_node import RabbitNode, installed
from tests.rabbit_api import played, recorded

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("rabbitmq"),
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RabbitNode]:
    """Run the real one."""
    try:
        root = installed()
    except PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    with RabbitNode(root, tmp_path / "node", has_api=True) as found:
        found.start()
        yield found


def test_every_command_does_what_was_recorded(node: RabbitNode) -> None:
    """Each asks the same, is answered with the same codes, and ends as it did."""
    for one, found, ended in played(node):
        before = recorded(one.name)
        if not one.connects:  # the name of a connection has its port in it
            asked = [(own.method, own.path, own.body, own.status) for own in found.exchanges]
            wanted = [(own.method, own.path, own.body, own.status) for own in before.exchanges]
            assert asked == wanted, one.name
        assert found.exit_code == before.exit_code, ended.output
