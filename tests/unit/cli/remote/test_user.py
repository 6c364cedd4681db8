"""`sprocket user`: users and what they may do, as commands make and show them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.unit.cli.running import done, refused, rows
from tests.unit.cli.test_json_names import listed

from sprocket.node.rocketmq import Node
from sprocket.rocketmq.settings import RightsSettings, ServerSettings
from sprocket.runtime.blocking import Portal
from sprocket.testing.local_broker import small_settings

RIGHTS = RightsSettings(
    authentication=True,
    authorization=True,
    initial_user="root",
    initial_password="root-secret",  # noqa: S106
)
ALICE = ("--access-key", "alice", "--secret-key", "alice-secret")


@dataclass(frozen=True)
class Guarded:
    """A broker that wants signatures."""

    nameserver: str


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Guarded]:
    """One that runs, and a shell in which its first user works."""
    monkeypatch.setenv("SPROCKET_ACCESS_KEY", "root")
    monkeypatch.setenv("SPROCKET_SECRET_KEY", "root-secret")
    server = ServerSettings(nameserver_port=0, broker_port=0)
    settings = replace(small_settings(), rights=RIGHTS, server=server)
    with Portal("guarded broker") as portal:
        node = portal.call(Node.start, settings, str(tmp_path / "store"))
        yield Guarded(node.addresses.nameserver)
        portal.call(node.stop)


def test_users_are_made_changed_and_deleted(guarded: Guarded) -> None:
    """What is told of them never has a password."""
    (made,) = rows(guarded, "user", "create", "alice", "--new-password", "alice-secret")
    assert made == {
        "broker": "broker-a",
        "user": "alice",
        "type": "Normal",
        "status": "enable",
    }
    assert [row["user"] for row in rows(guarded, "user", "ls")] == ["alice", "root"]
    (changed,) = rows(guarded, "user", "set", "alice", "--super", "--disable")
    assert (changed["type"], changed["status"]) == ("Super", "disable")
    assert "User:alice is disabled" in refused(guarded, "user", "ls", *ALICE)
    done(guarded, "user", "set", "alice", "--enable")
    assert len(rows(guarded, "user", "ls", *ALICE)) == 2
    done(guarded, "user", "passwd", "alice", "--new-password", "other-secret")
    assert "check signature failed" in refused(guarded, "user", "ls", *ALICE)
    assert rows(guarded, "user", "delete", "alice", "--yes") == [{"user": "alice", "deleted": True}]
    assert [row["user"] for row in rows(guarded, "user", "ls")] == ["root"]


def test_what_users_may_do_is_said_and_taken_back(guarded: Guarded) -> None:
    """An entry a row; a topic is made by a user who may do just that."""
    done(guarded, "user", "create", "alice", "--new-password", "alice-secret")
    assert "no matched policies" in refused(guarded, "topic", "create", "orders", *ALICE)
    done(guarded, "user", "allow", "alice", "Topic:or*", "Create", "get")
    done(guarded, "user", "allow", "alice", "Group:g", "All", "--deny", "--source", "10.0.0.0/8")
    done(guarded, "user", "allow", "alice", "*", "List", "--default")
    entries = [
        {
            "broker": "broker-a",
            "user": "alice",
            "policy": "Custom",
            "decision": "Allow",
            "actions": "Create, Get",
            "resource": "Topic:or*",
            "sources": "",
        },
        {
            "broker": "broker-a",
            "user": "alice",
            "policy": "Custom",
            "decision": "Deny",
            "actions": "All",
            "resource": "Group:g",
            "sources": "10.0.0.0/8",
        },
        {
            "broker": "broker-a",
            "user": "alice",
            "policy": "Default",
            "decision": "Allow",
            "actions": "List",
            "resource": "*",
            "sources": "",
        },
    ]
    assert rows(guarded, "user", "rights") == entries
    assert {name for row in entries for name in row} <= listed()
    assert rows(guarded, "user", "rights", "--resource", "Group") == entries[1:2]
    done(guarded, "topic", "create", "orders", *ALICE)
    assert rows(guarded, "user", "forget", "alice", "Topic:or*") == entries[1:]
    assert "no matched policies" in refused(guarded, "topic", "create", "orders", *ALICE)
    assert rows(guarded, "user", "forget", "alice", "*", "--default") == entries[1:2]
    assert rows(guarded, "user", "forget", "alice") == []


def test_what_cannot_be_is_one_line(guarded: Guarded) -> None:
    """Of what was given wrongly, and of what the broker says."""
    make = ("user", "create", "alice", "--new-password", "alice-secret")
    done(guarded, *make)
    assert "The user is existed" in refused(guarded, *make)
    assert "is not a resource" in refused(guarded, "user", "allow", "alice", "orders", "Pub")
    assert "there is All, Pub" in refused(guarded, "user", "allow", "alice", "Topic:a", "Publish")
    odd = ("user", "allow", "alice", "Topic:a", "Pub", "--source", "somewhere")
    assert "is not an address" in refused(guarded, *odd)
    assert "say --super" in refused(guarded, "user", "set", "alice")
    assert "there is no user bob" in refused(guarded, "user", "delete", "bob", "--yes")
    assert "is not exist" in refused(guarded, "user", "allow", "bob", "Topic:a", "Pub")
    assert "is not a resource" in refused(guarded, "user", "forget", "alice", "orders")


def test_credentials_come_from_a_file(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """That of RocketMQ's tools."""
    monkeypatch.delenv("SPROCKET_ACCESS_KEY")
    monkeypatch.delenv("SPROCKET_SECRET_KEY")
    path = tmp_path_factory.mktemp("tools") / "tools.yml"
    path.write_text("accessKey: root\nsecretKey: root-secret\n")
    assert "username cannot be null" in refused(guarded, "user", "ls")
    assert [row["user"] for row in rows(guarded, "user", "ls", "--credentials", path)] == ["root"]
