"""`sprocket rabbit limits` and `connections close`, against a broker that runs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.rabbit_api import run
from typer.testing import Result

import amqp
from sprocket.testing.local_amqp import LocalAmqp

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalAmqp]:
    """Run one broker."""
    with LocalAmqp() as running:
        yield running


def ask(broker: LocalAmqp, *words: str, stdin: bytes = b"") -> Result:
    """Run a command."""
    return run(broker.http_url.removesuffix("/api"), words, stdin)


def rows(broker: LocalAmqp, *words: str) -> list[dict[str, Any]]:
    """Return what a command that ends well writes with --json."""
    ended = ask(broker, *words, "--json")
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_limits_are_set_listed_and_cleared(broker: LocalAmqp) -> None:
    """Of virtual hosts and of users, together and each alone."""
    for words in (
        ("max-queues", "2", "--vhost", "/"),
        ("max-connections", "100", "--vhost", "/"),
        ("max-channels", "1000", "--user", "guest"),
    ):
        ended = ask(broker, "limits", "set", *words)
        assert (ended.exit_code, ended.stdout) == (0, ""), ended.output
    assert "max-channels of user guest is 1,000" in ended.stderr
    found = [tuple(row.values()) for row in rows(broker, "limits")]
    of_vhost = [("vhost", "/", "max-connections", 100), ("vhost", "/", "max-queues", 2)]
    of_user = [("user", "guest", "max-channels", 1000)]
    assert found == of_vhost + of_user
    assert [tuple(row.values()) for row in rows(broker, "limits", "--user", "guest")] == of_user
    assert [tuple(row.values()) for row in rows(broker, "limits", "ls", "-v", "/")] == of_vhost
    for queue, code in (("one", 0), ("two", 0), ("three", 1)):
        assert ask(broker, "queues", "create", queue).exit_code == code
    (cleared,) = rows(broker, "limits", "clear", "max-queues", "--vhost", "/")
    assert cleared == {"kind": "vhost", "name": "/", "limit": "max-queues", "value": None}
    assert ask(broker, "queues", "create", "three").exit_code == 0
    for limit in (("max-connections", "--vhost", "/"), ("max-channels", "--user", "guest")):
        assert ask(broker, "limits", "clear", *limit).exit_code == 0
    assert rows(broker, "limits") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("set", "max-queues", "1"), "whose limit?"),
        (("set", "max-queues", "1", "--vhost", "/", "--user", "guest"), "whose limit?"),
        (("set", "max-queues", "1", "--user", "guest"), "not a limit of a user"),
        (("set", "max-channel", "1", "--user", "guest"), "did you mean max-channels?"),
        (("clear", "max-queues", "--vhost", "nowhere"), "no virtual host 'nowhere'"),
        (("ls", "--user", "gest"), "did you mean guest?"),
    ],
)
def test_what_is_wrong_is_one_line(broker: LocalAmqp, words: tuple[str, ...], why: str) -> None:
    """Found before anything is changed."""
    ended = ask(broker, "limits", *words)
    assert (ended.exit_code, ended.stdout) == (1, ""), ended.output
    assert why in ended.stderr
    assert rows(broker, "limits") == []


def test_several_connections_are_closed_if_that_is_meant(broker: LocalAmqp) -> None:
    """By name, by user, by virtual host; one is closed without a question, more are not."""
    assert ask(broker, "vhosts", "create", "v").exit_code == 0
    every = ("--configure", ".*", "--write", ".*", "--read", ".*", "--vhost", "v")
    assert ask(broker, "permissions", "set", "guest", *every).exit_code == 0
    clients = [
        amqp.Connection(f"{broker.host}:{broker.port}", virtual_host=vhost)
        for vhost in ("/", "/", "/", "v", "v")
    ]
    for client in clients:
        client.connect()

    def names(vhost: str) -> list[str]:
        return [row["connection"] for row in rows(broker, "connections", "--vhost", vhost)]

    first, *others = names("/")
    for words, stdin, code in (
        (("--user", "guest"), b"n\n", 0),
        ((first, others[0]), b"", 1),
        ((), b"", 1),
        ((first, "--user", "guest"), b"", 1),
        ((first, "nobody", "--yes"), b"", 1),
    ):
        ended = ask(broker, "connections", "close", *words, stdin=stdin)
        assert ended.exit_code == code, ended.output
        assert (len(names("/")), len(names("v"))) == (3, 2), words
    assert rows(broker, "connections", "close", first) == [{"connection": first, "closed": True}]
    ended = ask(broker, "connections", "close", *others, stdin=b"y\n")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert "2 connections are closed" in ended.stderr
    broker.settle()
    assert (names("/"), len(names("v"))) == ([], 2)
    closed = rows(broker, "connections", "close", "--vhost", "v", "--user", "guest", "--yes")
    assert [row["closed"] for row in closed] == [True, True]
    broker.settle()
    assert names("v") == []
    assert rows(broker, "connections", "close", "--vhost", "v") == []
    for client in clients:
        client.collect()
