"""The table of topics is RocketMQ's file, changed durably and told to whoever registers it."""

from collections.abc import Callable

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFailed, ForeignStore
from sprocket.base.place import Place
from sprocket.rocketmq.broker.topics import Topics, check_name
from sprocket.rocketmq.codec.config import declared, fastjson
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/topics.json"


def fresh() -> SimulatedDisk:
    """Return a disk with an empty store folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    return disk


def opened(
    disk: SimulatedDisk,
    *,
    auto_create: bool = True,
    changed: Callable[[list[TopicConfig]], None] = lambda _: None,
) -> Topics:
    """Open the table on a disk."""
    settings = TopicSettings(auto_create=auto_create)
    return Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), settings, changed)


def test_system_topics_are_there() -> None:
    """The template only when topics are made automatically."""
    names = {topic.name for topic in opened(fresh()).all()}
    assert names == {
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "DefaultCluster",
        "broker-a",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "DefaultCluster_REPLY_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "rmq_sys_REVIVE_LOG_DefaultCluster",
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
        "rmq_sys_wheel_timer",
        "TBW102",
    }
    assert opened(fresh(), auto_create=False).get("TBW102") is None


def test_a_change_is_durable_and_told() -> None:
    """A kill leaves it, and after a sync a power loss does; the same again is not a change."""
    disk = fresh()
    told: list[TopicConfig] = []
    topics = opened(disk, changed=told.extend)
    told.clear()
    version = topics.table.version
    topic = TopicConfig(name="T", read_queues=3)
    assert topics.put(topic)
    assert told == [topic]
    assert topics.table.version.counter == version.counter + 1
    assert not topics.put(topic)
    assert told == [topic]
    assert opened(disk.kill()).get("T") == topic
    topics.table.journal.sync()
    assert opened(disk.crash(lambda _: 0)).get("T") == topic
    assert opened(disk.crash(lambda _: 0)).table.version == topics.table.version


def test_a_permission_for_all_topics_is_told_when_it_changes() -> None:
    """With everything, under a new version, which NameServers go by; no topic is another."""
    told: list[list[TopicConfig]] = []
    topics = opened(fresh(), changed=told.append)
    told.clear()
    before, version = list(topics.all()), topics.table.version
    topics.use(TopicSettings(auto_create_queues=5))
    assert (told, topics.table.version) == ([], version)
    topics.use(TopicSettings(permission=4))
    assert told == [[]]
    assert topics.table.version.counter == version.counter + 1
    assert (topics.permission, topics.is_readable, topics.is_writable) == (4, True, False)
    assert list(topics.all()) == before


def test_a_failed_change_changes_nothing() -> None:
    """Neither the table nor the version, and nobody is told."""
    disk = fresh()
    told: list[TopicConfig] = []
    topics = opened(disk, changed=told.extend)
    topics.put(TopicConfig(name="old", read_queues=1))
    version = topics.table.version
    told.clear()
    for topic in (TopicConfig(name="new"), TopicConfig(name="old", read_queues=2)):
        disk.fail("write", 1)
        with pytest.raises(DiskFailed):
            topics.put(topic)
    assert topics.get("new") is None
    assert topics.get("old") == TopicConfig(name="old", read_queues=1)
    assert topics.table.version == version
    assert told == []


def test_the_file_is_rocketmqs_and_keeps_what_we_do_not_know() -> None:
    """Members of a newer RocketMQ are written back unchanged."""
    disk = fresh()
    text = (
        b'{"dataVersion":{"counter":7,"timestamp":9},"somethingNew":{"a":[1]},"topicConfigTable":'
        b'{"T":{"attributes":{"message.type":"FIFO"},"perm":4,"readQueueNums":2,"topicName":"T",'
        b'"writeQueueNums":1}}}'
    )
    replace_file(disk, FILE, text)
    topics = opened(disk)
    assert topics.get("T") == TopicConfig(
        name="T", read_queues=2, write_queues=1, perm=4, attributes={"message.type": "FIFO"}
    )
    assert topics.table.version.counter == 8
    topics.put(TopicConfig(name="U"))
    topics.table.flush()
    content = fastjson.read(read_file(disk, FILE))
    assert content["somethingNew"] == {"a": [1]}
    assert content["topicConfigTable"]["T"]["attributes"] == {"message.type": "FIFO"}
    assert content["topicConfigTable"]["U"] == declared.plain(TopicConfig(name="U"))
    assert content["dataVersion"]["counter"] == 9


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"topicConfigTable":{"T":7}}'])
def test_a_damaged_file_is_an_error(text: bytes) -> None:
    """One that says which file it is."""
    disk = fresh()
    replace_file(disk, FILE, text)
    with pytest.raises(ForeignStore, match=r"topics\.json"):
        opened(disk)


def test_sends_make_topics_after_their_template() -> None:
    """With at most its queues and its permissions without INHERIT."""
    topics = opened(fresh())
    made = topics.make_for_send("T", "TBW102", 99, 1)
    assert (made.read_queues, made.write_queues, made.perm, made.sys_flag) == (8, 8, 6, 1)
    assert topics.make_for_send("T", "nope", 1, 0) is made
    for template in ("nope", "BenchmarkTest"):
        with pytest.raises(Refused) as refused:
            topics.make_for_send("U", template, 1, 0)
        assert refused.value.why is Refusal.NO_TOPIC
    assert topics.make_internal("T", 1) is made
    assert topics.make_internal("%RETRY%g", 2, order=True).order


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "ä", "a" * 128, "..", "a\n"])
def test_illegal_names_are_refused(name: str) -> None:
    """They are refused, and so is anything that could be a path."""
    with pytest.raises(Refused) as refused:
        check_name(name)
    assert refused.value.why is Refusal.INVALID_ARGUMENT


def test_letters_digits_and_four_signs_make_a_name() -> None:
    """Letters, digits and four signs, up to 127 of them."""
    for name in ("a", "A-b_9", "%RETRY%g", "a|b", "a" * 127):
        check_name(name)


def test_a_topic_is_taken_out() -> None:
    """Of the file too, once; if that cannot be written it stays."""
    disk = fresh()
    told: list[list[TopicConfig]] = []
    topics = opened(disk, changed=told.append)
    topics.put(TopicConfig(name="T"))
    told.clear()
    disk.fail("write", 1)
    version = topics.table.version
    with pytest.raises(DiskFailed):
        topics.remove("T")
    assert (topics.get("T"), topics.table.version) == (TopicConfig(name="T"), version)
    topics.remove("T")
    topics.remove("T")
    assert (topics.get("T"), told) == (None, [[]])
    assert opened(disk).get("T") is None
    assert topics.table.version.counter == version.counter + 1


def test_the_system_has_its_own() -> None:
    """Names that are reserved, and those with its prefix that are there."""
    topics = opened(fresh())
    topics.put(TopicConfig(name="rmq_sys_mine"))
    topics.put(TopicConfig(name="mine"))
    assert {"rmq_sys_mine", "TBW102", "broker-a"} <= set(topics.system())
    assert "mine" not in topics.system()


def test_changes_of_many_topics_are_all_there_or_none() -> None:
    """At whatever call the process is killed, and when the journal cannot be written."""
    disk = fresh()
    topics = opened(disk)
    wanted = [TopicConfig(name=f"T{number}") for number in range(5)]
    left: list[SimulatedDisk] = []

    def look(_call: str, _path: str) -> None:
        disk.before = None
        left.append(disk.kill())
        disk.before = look

    disk.before = look
    assert topics.put_all(wanted)
    disk.before = None
    for found in map(opened, left):
        assert len([one for one in wanted if found.get(one.name)]) in (0, 5)
    disk.fail("write")
    with pytest.raises(DiskFailed):
        topics.put_all([TopicConfig(name="U"), TopicConfig(name="T1", perm=4)])
    assert (topics.get("U"), topics.get("T1")) == (None, wanted[1])


def test_a_file_of_rocketmqs_makes_the_journal_void() -> None:
    """What it says holds, and the next change counts again."""
    disk = fresh()
    opened(disk).put(TopicConfig(name="ours"))
    replace_file(disk, FILE, b'{"topicConfigTable":{"theirs":{"topicName":"theirs"}}}')
    topics = opened(disk)
    assert (topics.get("ours"), topics.get("theirs")) == (None, TopicConfig(name="theirs"))
    topics.put(TopicConfig(name="new"))
    again = opened(disk.kill())
    assert (again.get("ours"), again.get("new")) == (None, TopicConfig(name="new"))
