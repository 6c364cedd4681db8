"""What every command over the wire has: its options, one rule for what is not there, its names."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from tests import certificates
from tests.unit.cli.running import done, refused, rows
from tests.unit.cli.test_main import commands
from typer.core import TyperGroup
from typer.testing import CliRunner

from sprocket.cli.main import app
from sprocket.cli.remote import wire
from sprocket.rocketmq.settings import TlsSettings
from sprocket.testing.local_broker import LocalBroker, small_settings

LOST_ID = "7F00000116CFD27707566BD36F480000"
NOT_THERE = [
    (["topic", "show", "order"], "did you mean orders?"),
    (["topic", "update", "order", "--perm", "r"], "did you mean orders?"),
    (["topic", "update", "orders", "--perm", "r", "--broker", "brokr-a"], "it is on broker-a"),
    (["topic", "delete", "order", "--yes"], "did you mean orders?"),
    (["topic", "delete", "order"], "did you mean orders?"),
    (["topic", "create", "new", "--broker", "brokr-a"], "did you mean broker-a?"),
    (["topic", "create", "new", "--cluster", "Default"], "did you mean DefaultCluster?"),
    (["topic", "ls", "--cluster", "Default"], "did you mean DefaultCluster?"),
    (["group", "show", "kitchn"], "did you mean kitchen?"),
    (["group", "show", "kitchen", "-t", "order"], "did you mean orders?"),
    (["group", "show", "kitchn", "-t", "orders"], "did you mean kitchen?"),
    (["group", "connections", "kitchn"], "did you mean kitchen?"),
    (["group", "delete", "kitchn", "--yes"], "did you mean kitchen?"),
    (["group", "reset", "kitchn", "-t", "orders", "--to", "first"], "did you mean kitchen?"),
    (["group", "reset", "kitchen", "-t", "order", "--to", "first"], "did you mean orders?"),
    (["group", "clone", "kitchn", "bar"], "did you mean kitchen?"),
    (["group", "create", "new", "--broker", "brokr-a"], "did you mean broker-a?"),
    (["consume", "order"], "did you mean orders?"),
    (["consume", "order", "--group", "kitchen"], "did you mean orders?"),
    (["msg", "get", LOST_ID, "-t", "orders"], f"topic orders has no message {LOST_ID}"),
    (["msg", "get", LOST_ID, "-t", "order"], "did you mean orders?"),
    (["msg", "find", "-t", "orders", "--key", "k"], "topic orders has no message with key k"),
    (["msg", "find", "-t", "orders", "--from", "5"], "topic orders has no message with from 5"),
    (["msg", "find", "-t", "order", "--key", "k"], "did you mean orders?"),
    (["msg", "find", "-t", "order", "--from", "5"], "did you mean orders?"),
    (["msg", "resend", LOST_ID, "-t", "orders"], f"topic orders has no message {LOST_ID}"),
    (["msg", "direct", LOST_ID, "-t", "orders", "-g", "kitchen"], "has no message"),
    (["cluster", "status", "brokr-a"], "did you mean broker-a?"),
    (["cluster", "config", "brokr-a"], "did you mean broker-a?"),
    (["cluster", "config", "--set", "fileReservedTim=1"], "did you mean fileReservedTime?"),
]


@pytest.fixture(scope="module")
def kept() -> Iterator[LocalBroker]:
    """A broker with a topic and a group, which no test here changes."""
    with LocalBroker() as running:
        done(running, "topic", "create", "orders", "--queues", 1)
        done(running, "group", "create", "kitchen")
        yield running


@pytest.mark.parametrize(("words", "said"), NOT_THERE, ids=[" ".join(w) for w, _ in NOT_THERE])
def test_what_is_asked_for_by_name_and_not_there(
    kept: LocalBroker, words: list[str], said: str
) -> None:
    """One line that names the nearest, exit code 1, and nothing on stdout."""
    assert said in refused(kept, *words)


def test_none_of_it_left_a_trace(kept: LocalBroker) -> None:
    """No topic and no group was made by asking for one that is not there."""
    assert [row["topic"] for row in rows(kept, "topic", "ls")] == ["orders"]
    assert [row["group"] for row in rows(kept, "group", "ls")] == ["kitchen"]


def test_so_many_are_asked_about_at_a_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with 10,000 topics is not to get 10,000 questions; the answers are in order."""
    monkeypatch.setattr(wire, "ASKED_MAX", 3)
    asked, most = 0, 0

    async def ask(item: int) -> int:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        for _ in range(10 - item):
            await asyncio.sleep(0)
        asked -= 1
        return -item

    assert asyncio.run(wire.each(range(10), ask)) == [-item for item in range(10)]
    assert most == 3


def test_a_command_leaves_nothing_open(kept: LocalBroker) -> None:
    """Neither when it has answered nor when it failed; the admin has a thread of its own."""
    rows(kept, "cluster", "ls")
    refused(kept, "topic", "show", "order")
    assert "sprocket-admin" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("words", [["consume", "orders"], ["consume", "orders", "--group", "g"]])
def test_sql_is_no_tag(kept: LocalBroker, words: list[str]) -> None:
    """It would match nothing, and wait for ever."""
    said = refused(kept, *words, "--tag", "price > 5")
    assert "'price > 5' reads like SQL92, and stands for tags" in said


def test_where_the_cluster_is_stands_in_a_variable(
    kept: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as RocketMQ's."""
    monkeypatch.setenv("NAMESRV_ADDR", kept.nameserver)
    ended = CliRunner().invoke(app(), ["topic", "ls"])
    assert (ended.exit_code, "orders" in ended.stdout) == (0, True)


def test_a_broker_s_port_is_no_nameserver_s(kept: LocalBroker) -> None:
    """The error says so, whatever is asked there."""
    for words in (["topic", "ls"], ["produce", "orders", "x"], ["consume", "orders"]):
        ended = CliRunner().invoke(app(), [*words, "-n", kept.address])
        assert ended.exit_code == 1
        assert ended.stderr.startswith(f"sprocket: {kept.address} is no")
        assert "NameServer: it does not know" in ended.stderr
        assert ended.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalBroker, str]]:
    """A broker that takes encrypted connections only, from clients with its own certificate."""
    made = certificates.make(tmp_path_factory.mktemp("tls"))
    tls = TlsSettings(
        mode="enforcing",
        cert_path=made.cert,
        key_path=made.key,
        trust_path=made.cert,
        client_auth="optional",
    )
    with LocalBroker(settings=replace(small_settings(), tls=tls)) as running:
        yield running, made.cert


@pytest.mark.slow
@pytest.mark.parametrize("words", [["topic", "ls"], ["cluster", "ls"], ["group", "ls"]])
def test_a_plain_command_at_an_encrypted_port_hears_of_tls(
    encrypted: tuple[LocalBroker, str], words: list[str]
) -> None:
    """Instead of a connection that was lost for no reason."""
    said = refused(encrypted[0], *words)
    assert "if it wants TLS, encrypt (ClientSettings(tls=…), --tls)" in said


@pytest.mark.slow
def test_every_command_speaks_tls(
    encrypted: tuple[LocalBroker, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an option, with or without an authority, and by a variable."""
    broker, cert = encrypted
    done(broker, "topic", "create", "orders", "--tls")
    (sent,) = rows(broker, "produce", "orders", "x", "--tls-trust", cert)
    key = cert.removesuffix("crt") + "key"
    own = ["--tls-cert", cert, "--tls-key", key]
    for words in (
        ["topic", "show", "orders"],
        ["group", "ls"],
        ["cluster", "ls"],
        ["consume", "orders", "--from", "first", "--until-end"],
        ["consume", "orders", "--from", "first", "--group", "g", "--count", "1"],
        ["msg", "get", sent["unique_key"], "-t", "orders"],
        ["msg", "find", "-t", "orders", "--from", "5"],
        ["msg", "resend", sent["unique_key"], "-t", "orders"],
    ):
        done(broker, *words, *own)
    monkeypatch.setenv("SPROCKET_TLS", "1")
    assert "orders" in done(broker, "topic", "ls")
    monkeypatch.setenv("SPROCKET_TLS_TRUST", key)
    assert "cannot be used" in refused(broker, "topic", "ls")


@pytest.mark.slow
def test_an_authority_that_signed_another_is_not_believed(
    encrypted: tuple[LocalBroker, str], tmp_path: Path
) -> None:
    """The error names the handshake."""
    other = certificates.make(tmp_path, "other")
    said = refused(encrypted[0], "topic", "ls", "--tls-trust", other.cert)
    assert "the TLS handshake failed" in said


def test_every_command_over_the_wire_has_the_same_options() -> None:
    """Whatever has a NameServer has TLS."""
    root = typer.main.get_command(app())
    assert isinstance(root, TyperGroup)
    found = {
        name: {word for one in command.params for word in one.opts}
        for name, command in commands(root)
    }
    over = {name for name, options in found.items() if "--nameserver" in options}
    assert over - {"broker"} == {name for name, options in found.items() if "--tls" in options}
    assert len(over) > 20
