"""Rules of RocketMQ 4 become users and policies, as RocketMQ 5.3.3 makes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.broker.rights import migration, open_tables, rule_files
from sprocket.rocketmq.model.rights import AclUser, UserType
from sprocket.rocketmq.settings import RightsSettings
from sprocket.rocketmq.store.rights_tables import RightsTables

FILE = """
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  - groupA=DENY
  - groupB=PUB|SUB
- accessKey: rocketmq2
  secretKey: "87654321"
  whiteRemoteAddress: 192.168.1.*
  admin: true
"""
ENTRIES = [
    ("Custom", "Topic:topicA", "Deny", ["All"]),
    ("Custom", "Topic:topicB", "Allow", ["Pub", "Sub"]),
    ("Custom", "Topic:topicC", "Allow", ["Sub"]),
    ("Custom", "Group:groupA", "Deny", ["All"]),
    ("Custom", "Group:groupB", "Allow", ["Pub", "Sub"]),
    ("Default", "Topic:*", "Deny", ["All"]),
    ("Default", "Group:*", "Allow", ["Sub"]),
]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[RightsTables]:
    """Of nobody yet."""
    found = RightsTables(RealDisk(), str(tmp_path / "store"))
    yield found
    found.close()


def entries_of(tables: RightsTables, subject: str) -> list[tuple[str, str, str, list[str]]]:
    """Return the entries of a subject."""
    return [
        (policy.type.value, str(one.resource), one.decision.value, [a.value for a in one.actions])
        for acl in tables.acls()
        if acl.subject == subject
        for policy in acl.policies
        for one in policy.entries
    ]


def test_accounts_become_users(
    tables: RightsTables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With policies; what is not taken over is in the log."""
    caplog.set_level("INFO")
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    migration.migrate(RealDisk(), str(path), tables)
    assert tables.users() == [
        AclUser("RocketMQ", "12345678"),
        AclUser("rocketmq2", "87654321", UserType.SUPER),
    ]
    assert entries_of(tables, "User:RocketMQ") == ENTRIES
    assert entries_of(tables, "User:rocketmq2") == []
    assert caplog.text.count("addresses that need no signature are not taken over") == 2
    assert "12345678" not in caplog.text


def test_users_that_are_there_stay_as_they_are(tables: RightsTables, tmp_path: Path) -> None:
    """Once taken over they are changed by requests, not by the file."""
    mine = AclUser("RocketMQ", "changed", UserType.SUPER)
    tables.put_user(mine)
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    migration.migrate(RealDisk(), str(path), tables)
    assert tables.users()[0] == mine
    assert entries_of(tables, "User:RocketMQ") == []


def test_a_folder_has_a_file_and_more_in_acl(tables: RightsTables, tmp_path: Path) -> None:
    """Of an account that is in two of them the first counts: those in `acl`, by name."""
    (tmp_path / "acl").mkdir()
    one = "accounts: [{accessKey: NAME, secretKey: SECRET}]"
    (tmp_path / "plain_acl.yml").write_text(one.replace("NAME", "a").replace("SECRET", "1111111"))
    (tmp_path / "acl" / "2.yaml").write_text(one.replace("NAME", "a").replace("SECRET", "3333333"))
    (tmp_path / "acl" / "1.yml").write_text(one.replace("NAME", "a").replace("SECRET", "2222222"))
    (tmp_path / "acl" / "notes.txt").write_text("none of ours")
    (tmp_path / "tools.yml").write_text("accessKey: tools\nsecretKey: none of ours\n")
    migration.migrate(RealDisk(), str(tmp_path), tables)
    assert tables.users() == [AclUser("a", "2222222")]


@pytest.mark.parametrize("text", ["", "accounts:\n", "globalWhiteRemoteAddresses: []\n"])
def test_a_file_may_have_no_accounts(tables: RightsTables, tmp_path: Path, text: str) -> None:
    """Then there is nobody to take over."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    migration.migrate(RealDisk(), str(path), tables)
    assert tables.users() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "the file"),
        ("accounts: {a: b}\n", "accounts"),
        ("accounts: [{accessKey: a}]\n", "'a' has no accessKey or no secretKey"),
        ("accounts: [{secretKey: hunter2}]\n", "'' has no accessKey or no secretKey"),
        (
            "accounts: [{accessKey: a, secretKey: hunter2, topicPerms: [t]}]\n",
            "account 'a': topicPerms has 't', expected name=PERMISSION",
        ),
        (
            "accounts: [{accessKey: a, secretKey: hunter2, groupPerms: ['g=PUBLISH']}]\n",
            "groupPerms of 'g' is 'PUBLISH', expected DENY, PUB",
        ),
        (
            "accounts: [{accessKey: a, secretKey: hunter2, defaultTopicPerm: ALL}]\n",
            "defaultTopicPerm is 'ALL', expected DENY",
        ),
        ("accounts: [{accessKey: a, secretKey: hunter2\n", "line 2 is not YAML"),
    ],
)
def test_a_rule_that_cannot_be_read_stops_the_start(
    tables: RightsTables, tmp_path: Path, text: str, said: str
) -> None:
    """It names the file and tells no secret; a rule that is passed over might have denied."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    with pytest.raises(SettingsError) as raised:
        migration.migrate(RealDisk(), str(path), tables)
    assert said in str(raised.value)
    assert str(path) in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_there_stops_the_start(tables: RightsTables, tmp_path: Path) -> None:
    """A folder without any as well."""
    for path in (tmp_path / "none.yml", tmp_path):
        with pytest.raises(SettingsError, match="cannot be read"):
            migration.migrate(RealDisk(), str(path), tables)


def test_the_package_may_be_missing(
    tables: RightsTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says how to get it."""
    monkeypatch.setattr(rule_files, "yaml", None)
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    with pytest.raises(SettingsError, match=r"sprocketmq\[yaml\]"):
        migration.migrate(RealDisk(), str(path), tables)


def test_they_are_taken_over_when_a_broker_opens(tmp_path: Path) -> None:
    """Then nobody else need be named."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    settings = RightsSettings(authentication=True, migrate_path=str(path))
    tables = open_tables(RealDisk(), str(tmp_path / "store"), settings)
    assert [user.name for user in tables.users()] == ["RocketMQ", "rocketmq2"]
    tables.close()
