"""One thing has one name in the JSON of all commands, and the guide lists it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.running import done, rows
from typer.testing import CliRunner

from sprocket.cli.main import app
from sprocket.cli.terminal import output
from sprocket.rocketmq.client import Message, ReceivedMessage, blocking
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.trace import Recalled
from sprocket.testing.local_broker import LocalBroker

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cli.md"
OWN_NAMES = ("properties",)
"""Members whose own names are those of users."""


def listed() -> set[str]:
    """Return the names in the guide's table."""
    text = GUIDE.read_text(encoding="utf-8").partition("## Names in JSON")[2]
    found = set()
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            found.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    return found


def names(value: Any) -> Iterator[str]:
    """Give the names of the members of a value, at any depth."""
    if isinstance(value, list):
        for one in value:
            yield from names(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            if name not in OWN_NAMES:
                yield from names(one)


def of_store(*words: object) -> list[Any]:
    """Run a command of `sprocket store` with --json."""
    ended = CliRunner().invoke(app(), ["store", *map(str, words), "--json"])
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow
def test_every_name_is_one_of_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every command that reports something, and none is listed for nothing."""
    monkeypatch.setattr(output, "end_quietly_with_the_reader", lambda: None)
    got: list[ReceivedMessage] = []
    with LocalBroker() as broker:
        done(broker, "topic", "create", "orders", "--queues", 2)
        found: list[Any] = rows(broker, "produce", "orders", "x", "--key", "k", "--tag", "t")
        unique_key = found[0]["unique_key"]
        with blocking.Producer(broker.nameserver, group="traces") as producer:
            recalled = Recalled(
                at_ms=1, region="", group="p", topic="t", message_id=unique_key, is_success=True
            )
            body = trace.encode([recalled])
            producer.send(Message("RMQ_SYS_TRACE_TOPIC", body, keys=[unique_key]))
            half = {"TRAN_MSG": "true", "PGROUP": "p"}
            producer.send(Message("orders", b"half", properties=half))
        done(broker, "consume", "orders", "--group", "kitchen", "--from", "first", "--count", 1)
        with blocking.PushConsumer(
            broker.nameserver, group="kitchen", listener=got.extend, start="first"
        ) as consumer:
            consumer.subscribe("orders")
            for words in (
                ["group", "connections", "kitchen"],
                ["msg", "direct", unique_key, "-t", "orders", "-g", "kitchen"],
            ):
                found += rows(broker, *words)
        for words in (
            ["topic", "ls", "--all"],
            ["topic", "create", "more"],
            ["topic", "update", "more", "--perm", "r"],
            ["topic", "show", "orders"],
            ["topic", "delete", "more", "--yes"],
            ["group", "ls", "--all"],
            ["group", "create", "bar"],
            ["group", "show", "kitchen"],
            ["group", "reset", "kitchen", "-t", "orders", "--to", "first"],
            ["group", "clone", "kitchen", "bar"],
            ["group", "delete", "bar", "--yes"],
            ["cluster", "ls"],
            ["ha", "status"],
            ["ha", "rejoin", broker.folder, "broker-a", "--dry-run"],
            ["consume", "orders", "--from", "first", "--until-end"],
            ["msg", "get", unique_key, "-t", "orders"],
            ["msg", "find", "-t", "orders", "--key", "k"],
            ["msg", "resend", unique_key, "-t", "orders"],
            ["msg", "trace", unique_key],
            ["msg", "halves"],
        ):
            found += rows(broker, *words)
        for words in (
            ["ls", broker.folder],
            ["ls", broker.folder, "--topics"],
            ["ls", broker.folder, "--files"],
            ["get", broker.folder, "--at", 0],
            ["dump", broker.folder],
        ):
            told = of_store(*words)
            assert told, words
            found += told
    found += [json.loads(CliRunner().invoke(app(), ["settings", "--json"]).stdout.splitlines()[0])]
    used = set(names(found))
    assert used - listed() == set()
    seldom = {"body_base64", "body_error", "stored_body_len", "stored_body_sha256", "crc_ok"}
    of_check = {"rule", "expected", "found", "position"}
    of_health = {"check", "reasons"}
    of_user = {"user", "type", "policy", "decision", "actions", "resource", "sources"}
    assert listed() - used == seldom | of_check | of_health | of_user


def test_a_message_has_the_same_names_wherever_it_is_shown() -> None:
    """From the wire and from a folder; only the wire knows a broker's name, and gives it whole."""
    with LocalBroker() as broker:
        done(broker, "produce", "orders", "x", "--key", "k")
        (live,) = rows(broker, "consume", "orders", "--from", "first", "--until-end")
        (by_key,) = rows(broker, "msg", "find", "-t", "orders", "--key", "k")
        (by_id,) = rows(broker, "msg", "get", live["unique_key"], "-t", "orders")
        assert live == by_key == by_id
        (stored,) = of_store("get", broker.folder, "--at", 0)
    assert {name: live[name] for name in stored} == stored
    assert live.keys() - stored.keys() == {"broker", "body"}
