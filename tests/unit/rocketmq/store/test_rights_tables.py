"""Users and policies on the disk: what a real 5.3.3 wrote, and what it must be able to read."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, StoreLocked
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    ResourcePattern,
    ResourceType,
    UserStatus,
    UserType,
)
from sprocket.rocketmq.store.queue import Database, read_all
from sprocket.rocketmq.store.rights_tables import FAMILIES, RightsTables
from sprocket.testing.disk import SimulatedDisk

DATA = Path(__file__).parents[3] / "data" / "rocketmq-5.3.3"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The folder that a real broker left, which had opened one of ours, and what it answered."""
    with tarfile.open(DATA / "rights-store.tar.xz") as archive:
        archive.extractall(tmp_path / "config")  # noqa: S202 - an archive of our own
    return tmp_path


def told(acl: Acl) -> dict[str, Any]:
    """Return policies as tools print them."""
    policies = []
    for policy in acl.policies:
        entries = []
        for one in policy.entries:
            entry: dict[str, Any] = {
                "actions": [action.value for action in one.actions],
                "decision": one.decision.value,
                "resource": str(one.resource),
            }
            if one.source_ips:
                entry["sourceIps"] = list(one.source_ips)
            entries.append(entry)
        policies.append({"entries": entries, "policyType": policy.type.value})
    return {"policies": policies, "subject": acl.subject}


def test_what_a_real_broker_wrote_is_read(recorded: Path) -> None:
    """All of it, but that `Unknown`, which allows nothing there, is left out."""
    expected = json.loads((DATA / "rights-store.json").read_text())
    tables = RightsTables(RealDisk(), str(recorded))
    users = [
        {
            "password": user.password,
            "userStatus": user.status.value,
            "userType": user.type.value,
            "username": user.name,
        }
        for user in tables.users()
    ]
    assert expected["users"] == users
    found = [told(acl) for acl in tables.acls()]
    tables.close()
    assert expected["acls"][:2] == found[:2]
    assert expected["acls"][2]["policies"][0]["entries"] == [
        {"actions": ["Unknown", "Pub"], "decision": "Allow", "resource": "Topic:u"},
        {"actions": ["Pub"], "decision": "Allow", "resource": "Unknown:x"},
    ]
    assert found[2]["policies"][0]["entries"] == [
        {"actions": ["Pub"], "decision": "Allow", "resource": "Topic:u"}
    ]


def test_what_is_written_again_is_what_the_real_broker_wrote(recorded: Path) -> None:
    """Byte for byte."""
    disk, folder = RealDisk(), str(recorded)
    before = [dict(read_all(disk, f"{folder}/config/{name}")) for name in ("users", "acls")]
    tables = RightsTables(disk, folder)
    for user in tables.users():
        tables.delete_user(user.name)
        tables.put_user(user)
    for acl in tables.acls()[:2]:
        tables.delete_acl(acl.subject)
        tables.put_acl(acl)
    tables.close()
    after = [dict(read_all(disk, f"{folder}/config/{name}")) for name in ("users", "acls")]
    assert before == after
    assert len(before[0]) == 6
    assert len(before[1]) == 3


def test_a_change_is_on_the_disk_when_it_is_made(tmp_path: Path) -> None:
    """A copy of the folder that nobody has closed has it."""
    user = AclUser("alice", "secret", UserType.SUPER, UserStatus.DISABLED)
    entry = PolicyEntry(
        resource=AclResource(ResourceType.ANY, None, ResourcePattern.ANY),
        actions=(Action.ALL,),
        decision=Decision.DENY,
    )
    acl = Acl("User:alice", (AclPolicy(PolicyType.DEFAULT, (entry,)),))
    tables = RightsTables(RealDisk(), str(tmp_path / "a"))
    tables.put_user(user)
    tables.put_acl(acl)
    copy = tmp_path / "b" / "config"
    for name in ("users", "acls"):
        (copy / name).mkdir(parents=True)
        for file in (tmp_path / "a" / "config" / name).iterdir():
            (copy / name / file.name).write_bytes(file.read_bytes())
    tables.close()
    tables = RightsTables(RealDisk(), str(tmp_path / "b"))
    assert (tables.users(), tables.acls()) == ([user], [acl])
    tables.close()


def test_rocketmqs_families_are_there(tmp_path: Path) -> None:
    """It opens all three; a database without them is not one that it made."""
    RightsTables(RealDisk(), str(tmp_path)).close()
    for name in ("users", "acls"):
        Database(RealDisk(), f"{tmp_path}/config/{name}", FAMILIES, write=True).close()


def test_two_brokers_cannot_have_them(tmp_path: Path) -> None:
    """The second one is told, and gives up what it had opened by then."""
    first = RightsTables(RealDisk(), str(tmp_path))
    with pytest.raises(StoreLocked):
        RightsTables(RealDisk(), str(tmp_path))
    first.close()
    first.close()
    RightsTables(RealDisk(), str(tmp_path)).close()


def test_a_simulated_disk_has_none() -> None:
    """RocksDB opens its own files."""
    with pytest.raises(EngineMissing):
        RightsTables(SimulatedDisk(), "/store")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b'{"policies":1}',
        b'{"policies":[{"entries":[{}]}]}',
        b'{"policies":[{"entries":[{"resource":{"resourceType":9,"resourcePattern":1}}]}]}',
        b'{"policies":[{"policyType":3}]}',
        (
            b'{"policies":[{"entries":[{"actions":[77],"decision":1,"resource":'
            b'{"resourceType":4,"resourcePattern":1}}]}]}'
        ),
        (
            b'{"policies":[{"entries":[{"actions":[3],"decision":0,"resource":'
            b'{"resourceType":4,"resourcePattern":1}}]}]}'
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, value: bytes) -> None:
    """With its key; nobody's rights are guessed."""
    database = Database(RealDisk(), f"{tmp_path}/config/acls", FAMILIES, write=True)
    batch = database.batch()
    batch.put(b"User:bob", value)
    database.write(batch)
    database.close()
    tables = RightsTables(RealDisk(), str(tmp_path))
    with pytest.raises(CorruptRecord, match="User:bob"):
        tables.acls()
    tables.close()


def test_names_of_members_are_read_too(tmp_path: Path) -> None:
    """As RocketMQ's reader takes them."""
    database = Database(RealDisk(), f"{tmp_path}/config/acls", FAMILIES, write=True)
    batch = database.batch()
    batch.put(
        b"User:bob",
        b'{"policies":[{"policyType":"DEFAULT","entries":[{"actions":["PUB","Sub"],"decision":'
        b'"Allow","resource":{"resourceType":"TOPIC","resourcePattern":"ANY"}}]}]}',
    )
    database.write(batch)
    database.close()
    tables = RightsTables(RealDisk(), str(tmp_path))
    (acl,) = tables.acls()
    tables.close()
    assert told(acl)["policies"] == [
        {
            "entries": [{"actions": ["Pub", "Sub"], "decision": "Allow", "resource": "Topic:*"}],
            "policyType": "Default",
        }
    ]
