"""Consumer groups are RocketMQ's file, and are made when they are first used."""

import json

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFailed
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.internal import SYSTEM_GROUPS
from sprocket.rocketmq.settings import GroupSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/subscriptionGroup.json"


def opened(disk: SimulatedDisk, *, auto_create: bool = True) -> Groups:
    """Open the table on a disk."""
    disk.make_folder("/s/config")
    return Groups(Place(disk, "/s", FakeClock()), GroupSettings(auto_create=auto_create))


def test_a_group_is_made_at_its_first_use_and_stays() -> None:
    """With the defaults; a kill leaves it, and after a sync a power loss does."""
    disk = SimulatedDisk()
    groups = opened(disk)
    assert groups.get("g") is None
    made = groups.find("g")
    assert (made.retry_queues, made.retry_times_max, made.consume_enable) == (1, 16, True)
    assert opened(disk.kill()).get("g") == made
    groups.table.journal.sync()
    assert opened(disk.crash(lambda _: 0)).get("g") == made
    assert opened(disk.crash(lambda _: 0)).table.version == groups.table.version
    assert {one.name for one in groups.all()} == {"g", *SYSTEM_GROUPS}


@pytest.mark.parametrize("name", ["a b", "g" * 256, "ä", "a\n"])
def test_illegal_names_are_no_groups(name: str) -> None:
    """They are refused; the empty name is legal, as in RocketMQ."""
    groups = opened(SimulatedDisk())
    with pytest.raises(Refused) as refused:
        groups.find(name)
    assert refused.value.why is Refusal.NO_GROUP
    assert groups.find("").name == ""


def test_automatic_creation_can_be_off() -> None:
    """Then only groups that are there exist."""
    with pytest.raises(Refused) as refused:
        opened(SimulatedDisk(), auto_create=False).find("g")
    assert refused.value.why is Refusal.NO_GROUP


def test_rocketmqs_file_is_read_and_kept() -> None:
    """Settings of groups and the table of what is forbidden survive our writing."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    replace_file(
        disk,
        FILE,
        b'{"dataVersion":{"counter":1,"timestamp":1},"forbiddenTable":{"g":{"T":1,"U":2}},'
        b'"subscriptionGroupTable":{"g":{"consumeEnable":false,"groupName":"g"}}}',
    )
    groups = opened(disk)
    assert not groups.find("g").consume_enable
    assert groups.is_forbidden("g", "T")
    assert not groups.is_forbidden("g", "U")
    assert not groups.is_forbidden("other", "T")
    groups.find("new")
    groups.table.flush()
    content = fastjson.read(read_file(disk, FILE))
    assert content["forbiddenTable"] == {"g": {"T": 1, "U": 2}}
    assert content["subscriptionGroupTable"]["g"]["consumeEnable"] is False
    assert content["subscriptionGroupTable"]["new"]["groupName"] == "new"


def test_a_group_that_cannot_be_written_is_not_made() -> None:
    """The request fails, and the next one may succeed."""
    disk = SimulatedDisk()
    groups = opened(disk)
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        groups.find("g")
    assert groups.get("g") is None
    assert groups.find("g").name == "g"


def test_a_topic_is_closed_to_a_group_and_opened_again() -> None:
    """Other bits stay; a restart changes nothing; what cannot be written is not done."""
    disk = SimulatedDisk()
    groups = opened(disk)
    groups.table.flush()
    known = fastjson.read(read_file(disk, FILE)) | {"forbiddenTable": {"g": {"T": 2}}}
    replace_file(disk, FILE, json.dumps(known).encode())
    disk = disk.kill()
    groups = opened(disk)
    groups.forbid("g", "T", is_readable=False)
    assert opened(disk.kill()).is_forbidden("g", "T")
    groups.forbid("g", "T", is_readable=True)
    groups.forbid("g", "T", is_readable=True)
    assert opened(disk.kill()).forbidden == {"g": {"T": 2}}
    groups.table.flush()
    assert fastjson.read(read_file(disk, FILE))["forbiddenTable"] == {"g": {"T": 2}}
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        groups.forbid("g", "T", is_readable=False)
    assert not groups.is_forbidden("g", "T")


def test_groups_are_put_and_removed() -> None:
    """All or none; the file has them."""
    disk = SimulatedDisk()
    groups = opened(disk)
    groups.put([SubscriptionGroup(name="a"), SubscriptionGroup(name="b", retry_queues=7)])
    version = groups.table.version.counter
    groups.put([SubscriptionGroup(name="a")])
    assert groups.table.version.counter == version, "nothing has changed"
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        groups.remove("a")
    assert groups.get("a") is not None
    groups.remove("a")
    groups.remove("never was")
    again = opened(disk)
    assert again.get("a") is None
    assert again.get("b") == SubscriptionGroup(name="b", retry_queues=7)
    assert again.forbidden == {}


def test_attributes_of_a_group_are_refused_and_those_it_has_stay() -> None:
    """RocketMQ 5.3.3 knows none; they were taken and kept. One group's refuse the whole list."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    old = b'{"subscriptionGroupTable":{"g":{"groupName":"g","attributes":{"later.version":"yes"}}}}'
    replace_file(disk, FILE, old)
    groups = opened(disk)
    wanted = [SubscriptionGroup(name="h"), SubscriptionGroup(name="i", attributes={"+a": "b"})]
    with pytest.raises(Refused, match=r"group i: .*\+a") as refused:
        groups.put(wanted)
    assert refused.value.why is Refusal.OTHER
    assert groups.get("h") is None
    groups.put([SubscriptionGroup(name="g", retry_times_max=3)])
    kept = opened(disk).get("g")
    assert kept is not None
    assert (kept.retry_times_max, kept.attributes) == (3, {"later.version": "yes"})


def test_members_are_told_unless_their_group_says_no() -> None:
    """As those of a group that is not there yet."""
    groups = opened(SimulatedDisk())
    groups.put([SubscriptionGroup(name="a", notify_ids_changed_enable=False)])
    assert [groups.notifies_members(name) for name in ("a", "b")] == [False, True]
