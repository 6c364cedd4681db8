"""Options that several commands share."""

import pytest
from typer.testing import CliRunner

from sprocket.cli.main import app


@pytest.mark.parametrize("command", ["topic ls", "produce", "consume", "msg find", "msg get"])
def test_each_command_that_talks_to_a_broker_has_them(command: str) -> None:
    """The NameServer, also by the variable that RocketMQ's own tools know, and --json."""
    said = CliRunner().invoke(app(), [*command.split(), "--help"], env={"COLUMNS": "200"}).stdout
    for wanted in ("--nameserver", "-n", "NAMESRV_ADDR", "127.0.0.1:9876", "--json"):
        assert wanted in said
