"""Runs commands in this process against a broker, and reads what they wrote."""

import json
from typing import Any, Protocol

from typer.testing import CliRunner, Result

from sprocket.cli.main import app


class Served(Protocol):
    """A cluster that commands talk to."""

    @property
    def nameserver(self) -> str:
        """Where its NameServer listens."""


def run(broker: Served, *arguments: object, stdin: bytes = b"") -> Result:
    """Run a command with the broker's NameServer."""
    words = [*map(str, arguments), "--nameserver", broker.nameserver]
    return CliRunner().invoke(app(), words, input=stdin)


def done(broker: Served, *arguments: object, stdin: bytes = b"") -> str:
    """Run a command that must end well; return what it wrote."""
    ended = run(broker, *arguments, stdin=stdin)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def rows(broker: Served, *arguments: object, stdin: bytes = b"") -> list[dict[str, Any]]:
    """Run a command with --json; return what it wrote, a value a line."""
    return [
        json.loads(line) for line in done(broker, *arguments, "--json", stdin=stdin).splitlines()
    ]


def refused(broker: Served, *arguments: object) -> str:
    """Run a command that must fail with code 1 and one line; return the line."""
    ended = run(broker, *arguments)
    assert ended.exit_code == 1, ended.output
    assert ended.stderr.startswith("sprocket: ")
    assert ended.stderr.count("\n") == 1
    return ended.stderr
