"""`sprocket topic` lists and creates topics of a running broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sprocket.cli.main import app
from sprocket.node.run import Node
from sprocket.rocketmq.settings import Geometry, ServerSettings, Settings
from sprocket.runtime.blocking import Portal


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    """A node on free ports; the address of its NameServer."""
    portal = Portal()
    settings = Settings(server=ServerSettings(nameserver_port=0, broker_port=0))

    async def start() -> Node:
        return await Node.start(settings, str(tmp_path / "data"), geometry=Geometry.small())

    node = portal.call(start)
    try:
        yield node.addresses.nameserver
    finally:
        portal.call(node.stop)
        portal.close()


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app(), ["topic", *(str(a) for a in arguments)])


@pytest.mark.slow
def test_create_then_list(nameserver: str) -> None:
    """What was created is listed with its queues."""
    created = run("create", "orders", "--queues", 3, "--nameserver", nameserver)
    assert created.exit_code == 0, created.stderr
    assert created.stdout == "topic orders: 3 queues on broker-a\n"
    listed = run("ls", "--json", "-n", nameserver)
    rows = {row["topic"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert rows["orders"] == {
        "topic": "orders",
        "broker": "broker-a",
        "read_queues": 3,
        "write_queues": 3,
    }
    assert "orders" in run("ls", "-n", nameserver).stdout


@pytest.mark.slow
def test_create_as_json(nameserver: str) -> None:
    """One object a broker."""
    created = run("create", "orders", "--json", "-n", nameserver)
    assert json.loads(created.stdout)["write_queues"] == 8


@pytest.mark.slow
def test_an_illegal_name_is_one_line(nameserver: str) -> None:
    """Exit code 1 and what was wrong."""
    ended = run("create", "no blanks", "-n", nameserver)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("sprocket: ")
    assert ended.stderr.count("\n") == 1
