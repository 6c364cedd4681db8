"""The commands for daily work do the same with Sprocket and with the real RocketMQ 5.3.3.

By default `sprocket up` answers; SPROCKET_INTEROP_BROKER=rocketmq judges the commands.
"""

import json
from typing import Any

import pytest
from tests.interop import peers
from typer.testing import CliRunner

from sprocket.cli.main import app

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-cli"),
]


def run(broker: peers.Broker, *arguments: object) -> str:
    """Run a command that must end well; return what it wrote."""
    words = [*map(str, arguments), "--nameserver", broker.nameserver]
    ended = CliRunner().invoke(app(), words)
    assert ended.exit_code == 0, f"{words}: {ended.output}"
    return ended.stdout


def rows(broker: peers.Broker, *arguments: object) -> list[dict[str, Any]]:
    """Run a command with --json; return what it wrote, a value a line."""
    return [json.loads(line) for line in run(broker, *arguments, "--json").splitlines()]


def test_topics_are_made_changed_shown_and_deleted(broker: peers.Broker) -> None:
    """Created, changed, listed, shown, deleted."""
    run(broker, "topic", "create", "CliTopic", "--queues", 3)
    (row,) = rows(broker, "topic", "update", "CliTopic", "--queues", 5)
    assert (row["read_queues"], row["write_queues"], row["perm"]) == (5, 5, "rw")
    (row,) = rows(broker, "topic", "update", "CliTopic", "--perm", "r")
    assert (row["write_queues"], row["perm"]) == (5, "r")
    assert "CliTopic" in {row["topic"] for row in rows(broker, "topic", "ls")}
    (shown,) = rows(broker, "topic", "show", "CliTopic")
    assert [row["queue_id"] for row in shown["queues"]] == list(range(5))
    run(broker, "topic", "delete", "CliTopic", "--yes")
    assert "CliTopic" not in {row["topic"] for row in rows(broker, "topic", "ls")}


def test_messages_and_groups(broker: peers.Broker) -> None:
    """Sent, consumed by a group, looked up, set back, cloned, sent again."""
    run(broker, "topic", "create", "CliOrders", "--queues", 2)
    given = ["--key", "k", "--tag", "hot", "--sharding-key", "one"]
    sent = rows(broker, "produce", "CliOrders", "coffee", "--count", 5, *given)
    assert [row["queue_offset"] for row in sent] == list(range(5))
    read = ["consume", "CliOrders", "--from", "first"]
    assert len(rows(broker, *read, "--until-end", "--tag", "hot")) == 5
    assert len(rows(broker, *read, "--count", 2, "--group", "CliKitchen")) == 2
    (row,) = [row for row in rows(broker, "group", "show", "CliKitchen") if row["max_offset"]]
    assert (row["committed_offset"], row["max_offset"], row["lag"]) == (2, 5, 3)
    found = rows(broker, "msg", "find", "-t", "CliOrders", "--key", "k")
    assert [row["queue_offset"] for row in found] == list(range(5))
    (one,) = rows(broker, "msg", "get", sent[3]["unique_key"], "-t", "CliOrders")
    assert (one["queue_offset"], one["body"]) == (3, "coffee")
    (again,) = rows(broker, "msg", "resend", sent[3]["offset_id"], "-t", "CliOrders")
    assert again["topic"] == "CliOrders"
    run(broker, "group", "reset", "CliKitchen", "-t", "CliOrders", "--to", "first")
    assert sum(row["lag"] for row in rows(broker, "group", "show", "CliKitchen")) == 6
    run(broker, "group", "clone", "CliKitchen", "CliBar", "-t", "CliOrders")
    assert len(rows(broker, *read, "--count", 6, "--group", "CliBar")) == 6
    run(broker, "group", "create", "CliNew", "--retries", 3)
    assert {"CliKitchen", "CliNew"} <= {row["group"] for row in rows(broker, "group", "ls")}
    run(broker, "group", "delete", "CliNew", "--yes")
    assert "CliNew" not in {row["group"] for row in rows(broker, "group", "ls")}


def test_reading_alone_leaves_no_trace(broker: peers.Broker) -> None:
    """No group that was not there before, the system's own among them."""
    run(broker, "topic", "create", "CliAlone", "--queues", 1)
    run(broker, "produce", "CliAlone", "coffee")
    before = {row["group"] for row in rows(broker, "group", "ls", "--all")}
    run(broker, "consume", "CliAlone", "--from", "first", "--until-end")
    run(broker, "msg", "find", "-t", "CliAlone", "--from", 1)
    assert {row["group"] for row in rows(broker, "group", "ls", "--all")} == before
    (shown,) = rows(broker, "topic", "show", "CliAlone")
    assert shown["groups"] == []


def test_what_is_internal_is_hidden_and_counted(broker: peers.Broker) -> None:
    """Only what users made is listed, with its messages."""
    run(broker, "topic", "create", "CliCounted", "--queues", 2)
    run(broker, "produce", "CliCounted", "coffee", "--count", 3)
    listed = {row["topic"]: row["messages"] for row in rows(broker, "topic", "ls")}
    assert listed["CliCounted"] == 3
    assert not [name for name in listed if not name.startswith("Cli")]
    assert not [row for row in rows(broker, "group", "ls") if not row["group"].startswith("Cli")]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topic", "show", "CliNamd"], "did you mean CliNamed?"),
        (["topic", "delete", "CliNamd", "--yes"], "did you mean CliNamed?"),
        (["consume", "CliNamd"], "did you mean CliNamed?"),
        (["group", "show", "CliNamedGrop"], "did you mean CliNamedGroup?"),
        (["group", "show", "CliNamedGrop", "-t", "CliNamed"], "did you mean CliNamedGroup?"),
        (["group", "connections", "CliNamedGrop"], "did you mean CliNamedGroup?"),
        (["group", "delete", "CliNamedGrop", "--yes"], "did you mean CliNamedGroup?"),
        (["group", "reset", "CliNamedGrop", "-t", "CliNamed", "--to", "first"], "CliNamedGroup?"),
        (["cluster", "status", "broker-b"], "did you mean broker-a?"),
        (["msg", "find", "-t", "CliNamed", "--key", "none"], "has no message with key none"),
    ],
)
def test_what_is_not_there_is_an_error(broker: peers.Broker, words: list[str], meant: str) -> None:
    """With exit code 1 and the nearest name."""
    run(broker, "topic", "create", "CliNamed", "--queues", 1)
    run(broker, "group", "create", "CliNamedGroup")
    ended = CliRunner().invoke(app(), [*words, "--nameserver", broker.nameserver])
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert meant in ended.stderr


def test_a_broker_s_port_is_no_nameserver_s(broker: peers.Broker) -> None:
    """It says so."""
    ended = CliRunner().invoke(app(), ["topic", "ls", "--nameserver", broker.address])
    assert ended.exit_code == 1
    assert "NameServer: it does not know" in ended.stderr


def test_a_broker_is_shown_and_its_settings_are_changed(broker: peers.Broker) -> None:
    """The broker, what it tells, a setting changed while it runs."""
    (row,) = rows(broker, "cluster", "ls")
    assert (row["broker"], row["address"]) == ("broker-a", broker.address)
    (status,) = rows(broker, "cluster", "status")
    assert {"bootTimestamp", "putTps", "commitLogMaxOffset"} <= status.keys()
    (changed,) = rows(broker, "cluster", "config", "--set", "autoCreateTopicEnable=false")
    assert changed == {"broker": "broker-a", "autoCreateTopicEnable": "false"}
