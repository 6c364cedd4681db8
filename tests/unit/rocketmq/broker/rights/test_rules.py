"""Rules of RocketMQ 4 that hold as they are: what they allow, and how changes are taken up."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.broker.rights import RuleReader, Rules
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import AclResource, Action, Requirement, ResourceType
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread

FILE = """
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.{7,9}
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress: 172.16.1.1
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
- accessKey: open
  secretKey: "87654321"
  defaultTopicPerm: PUB|SUB
  topicPerms: [closed=DENY, sink=PUB]
- accessKey: admin
  secretKey: "87654321"
  whiteRemoteAddress: "*"
  admin: true
- accessKey: bound
  secretKey: "87654321"
  admin: true
  topicPerms: [topicB=PUB]
"""
PUB, SUB, GET = (Action.PUB,), (Action.SUB,), (Action.GET,)
ANY_OF = Action.SUB, Action.GET
CLUSTER = AclResource(ResourceType.CLUSTER, "C")


def on_rules(folder: Path, text: str, check: Callable[[Rules], None]) -> None:
    """Look at the rules of a text."""
    path = folder / "plain_acl.yml"
    path.write_text(text)

    async def main() -> None:
        thread = DiskThread()
        check(Rules(RuleReader(RealDisk(), str(path), "C"), thread))
        await thread.stop()

    driver.run(main())


def why_not(rules: Rules, name: str, resource: AclResource, actions: tuple[Action, ...]) -> str:
    """Return why something is refused, "" if it is allowed."""
    try:
        rules.authorizer.check(rules.who(name), [Requirement(resource, actions)], "10.1.2.3")
    except Refused as refused:
        return refused.remark
    return ""


ALLOWED: Mapping[str, Mapping[str, tuple[tuple[Action, ...], ...]]] = {
    "RocketMQ": {
        "topicB": (PUB, SUB, GET, ANY_OF),
        "topicC": (SUB, GET, ANY_OF),
        "topicA": (GET,),
        "other": (GET,),
        "RMQ_SYS_TRACE_TOPIC": (PUB, GET),
        "C_REPLY_TOPIC": (PUB, GET),
        "%RETRY%groupA": (GET,),
        "%RETRY%groupB": (PUB, SUB, GET, ANY_OF),
        "%RETRY%other": (SUB, GET, ANY_OF),
    },
    "open": {
        "other": (PUB, SUB, GET, ANY_OF),
        "closed": (GET,),
        "sink": (PUB, GET),
        "RMQ_SYS_TRACE_TOPIC": (PUB, SUB, GET, ANY_OF),
        "%RETRY%other": (GET,),
    },
    "bound": {"topicB": (PUB, GET), "other": (GET,), "%RETRY%other": (GET,)},
    "admin": {"topicB": (PUB, SUB, GET, ANY_OF), "%RETRY%other": (PUB, SUB, GET, ANY_OF)},
}
"""What accounts may do with topics; a retry topic is its group."""


def test_rules_say_who_publishes_and_reads(tmp_path: Path) -> None:
    """By name first, then by default; what is not said is denied, and looking needs nothing."""

    def check(rules: Rules) -> None:
        for name, topics in ALLOWED.items():
            for topic, allowed in topics.items():
                for actions in (PUB, SUB, GET, ANY_OF):
                    found = why_not(rules, name, rights.of_topic(topic), actions)
                    assert (found == "") is (actions in allowed), (name, topic, actions, found)

    on_rules(tmp_path, FILE, check)


def test_administrators_change_things(tmp_path: Path) -> None:
    """Of topics, groups and the cluster; nobody else does."""

    def check(rules: Rules) -> None:
        for resource in (rights.of_topic("t"), rights.of_group("g"), CLUSTER):
            for action in (Action.CREATE, Action.UPDATE, Action.DELETE):
                for name in ("admin", "bound"):
                    assert why_not(rules, name, resource, (action,)) == ""
                for name in ("RocketMQ", "open"):
                    assert "no permission" in why_not(rules, name, resource, (action,))
        assert why_not(rules, "open", CLUSTER, GET) == ""

    on_rules(tmp_path, FILE, check)


def test_who_is_not_in_a_file_is_nobody(tmp_path: Path) -> None:
    """With the sentences of 4.9.8."""

    def check(rules: Rules) -> None:
        for name, why in (("x", "No acl config for x"), ("", "No accessKey is configured")):
            with pytest.raises(Refused) as raised:
                rules.who(name)
            assert (raised.value.why, raised.value.remark) == (Refusal.OTHER, why)

    on_rules(tmp_path, FILE, check)


def test_white_addresses_are_trusted(tmp_path: Path) -> None:
    """Those for everybody, and those of an account for requests that name it."""

    def nowhere(rules: Rules) -> None:
        assert not rules.is_trusted("", "1.2.3.4")

    def check(rules: Rules) -> None:
        for address in ("10.10.103.200", "192.168.0.9"):
            for name in ("", "x", "RocketMQ"):
                assert rules.is_trusted(name, address)
        assert rules.is_trusted("RocketMQ", "172.16.1.1")
        for name in ("", "open"):
            assert not rules.is_trusted(name, "172.16.1.1")
        assert rules.is_trusted("admin", "1.2.3.4")
        assert not rules.is_trusted("RocketMQ", "1.2.3.4")

    on_rules(tmp_path, FILE, check)
    on_rules(tmp_path, "accounts:\n", nowhere)


def test_of_an_account_in_two_files_the_first_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those in `acl`, and in folders there, by name; the second is told without its secret."""
    (tmp_path / "acl" / "team").mkdir(parents=True)
    one = "accounts: [{accessKey: NAME, secretKey: SECRET}]"
    (tmp_path / "plain_acl.yml").write_text(one.replace("NAME", "a").replace("SECRET", "1111111"))
    (tmp_path / "acl" / "2.yaml").write_text(one.replace("NAME", "a").replace("SECRET", "2222222"))
    more = one.replace("NAME", "b").replace("SECRET", "3333333")
    (tmp_path / "acl" / "team" / "x.yml").write_text(more)
    found = RuleReader(RealDisk(), str(tmp_path), "C").first
    assert {name: user.password for name, user in found.users.items()} == {
        "a": "2222222",
        "b": "3333333",
    }
    assert "an account is there twice" in caplog.text
    assert "1111111" not in caplog.text


@pytest.mark.parametrize("text", ["accounts: {", "globalWhiteRemoteAddresses: [10.0.0]", "- a"])
def test_files_that_cannot_be_read_stop_the_start(tmp_path: Path, text: str) -> None:
    """Nobody's rights are guessed."""
    path = tmp_path / "plain_acl.yml"
    with pytest.raises(SettingsError, match="cannot be read"):
        RuleReader(RealDisk(), str(path), "C")
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"plain_acl\.yml"):
        RuleReader(RealDisk(), str(path), "C")


def test_a_change_counts_once_it_was_seen_twice(tmp_path: Path) -> None:
    """So that a file that somebody is writing does not; the same again changes nothing."""
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: a, secretKey: '1'}]")
    reader = RuleReader(RealDisk(), str(path), "C")
    assert reader.look() is None
    path.write_text("accounts: [{accessKey: b, secretKey: '1'}]")
    assert reader.look() is None
    path.write_text("accounts: [{accessKey: c, secretKey: '1'}]")
    assert reader.look() is None
    found = reader.look()
    assert found is not None
    assert [*found.users] == ["c"]
    assert reader.look() is None


def test_rules_change_while_a_broker_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Users of them are told; files that are broken or gone keep the old rules, and say so once."""
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: a, secretKey: hunter1, defaultTopicPerm: PUB}]")
    topic = rights.of_topic("t")

    async def looked(rules: Rules, thread: DiskThread, times: int = 2) -> None:
        for _ in range(times):
            rules.look()
            rules.look()  # one at a time
            async with asyncio.timeout(LONG_SECONDS):
                await thread.run(lambda: None)
            await asyncio.sleep(0)

    async def main() -> None:
        thread = DiskThread()
        rules = Rules(RuleReader(RealDisk(), str(path), "C"), thread)
        changes: list[str] = []
        rules.when_changed(lambda: changes.append("changed"))
        assert why_not(rules, "a", topic, PUB) == ""
        path.write_text("accounts: [{accessKey: a, secretKey: hunter2, defaultTopicPerm: SUB}]")
        await looked(rules, thread)
        assert changes == ["changed"]
        assert why_not(rules, "a", topic, PUB) != ""
        assert why_not(rules, "a", topic, SUB) == ""
        assert rules.who("a").password == "hunter2"  # noqa: S105
        for text in ("accounts: [{", "- secretKey: hunter3"):
            path.write_text(text)
            await looked(rules, thread, 4)
        path.unlink()
        await looked(rules, thread, 4)
        assert changes == ["changed"]
        assert why_not(rules, "a", topic, SUB) == ""
        assert caplog.text.count("rules cannot be read") == 3
        path.write_text("accounts: []")
        await looked(rules, thread)
        assert changes == ["changed"] * 2
        with pytest.raises(Refused):
            rules.who("a")
        await thread.stop()

    driver.run(main())
    assert "hunter" not in caplog.text
