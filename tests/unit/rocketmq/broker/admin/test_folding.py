"""After a kill the journals can be brought into RocketMQ's own files."""

from tests.stores import new

from sprocket.base.disk import read_file, replace_file
from sprocket.base.place import Place
from sprocket.rocketmq.broker.admin import fold
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, StoreSettings, TopicSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.repair import salvage
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout("/s")


def opened(disk: SimulatedDisk) -> Store:
    """Open the store."""
    settings = StoreSettings(fill_ahead_bytes=0)
    return Store.open(disk, "/s", settings, FakeClock(), Geometry.small())


def killed() -> SimulatedDisk:
    """Return a store whose tables have changed since their files were written."""
    disk = SimulatedDisk()
    store, clock = opened(disk), FakeClock()
    topics = Topics(Place(disk, "/s", clock), BrokerSettings(name="their-name"), TopicSettings())
    topics.put(TopicConfig(name="T", attributes={"queue.type": "BatchCQ"}))
    topics.remove("BenchmarkTest")
    groups = Groups(Place(disk, "/s", clock), GroupSettings())
    groups.find("g")
    groups.forbid("g", "T", is_readable=False)
    store.append_all([new("U") for _ in range(5)])
    store.write()
    ConsumerOffsets(Place(disk, "/s", clock)).commit("g", "U", 0, 5)
    DelayProgress(Place(disk, "/s", clock), store).note(2, 7)
    return disk.kill()


def test_the_files_have_what_the_journals_had() -> None:
    """And nothing else: no topic or group of the system is added."""
    disk = killed()
    store = opened(disk)
    names = [path.rpartition("/")[2] for path in fold(Place(disk, "/s", FakeClock()), store)]
    store.close()
    assert names == [
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
        "delayOffset.json",
    ]
    found = [fastjson.read(read_file(disk, f"{LAYOUT.config}/{name}")) for name in names]
    topics, groups, offsets, delays = found
    assert topics["topicConfigTable"]["T"]["attributes"] == {"queue.type": "BatchCQ"}
    assert {"their-name", "broker-a", "BenchmarkTest"} & set(topics["topicConfigTable"]) == {
        "their-name"
    }
    assert "g" in groups["subscriptionGroupTable"]
    assert groups["forbiddenTable"] == {"g": {"T": 1}}
    assert offsets["offsetTable"] == {"U@g": {0: 5}}
    assert offsets["groupTopicMap"] == {"g": ["U"]}
    assert delays["offsetTable"] == {2: 7}


def test_files_without_journals_are_left_alone() -> None:
    """They may be RocketMQ's."""
    disk = SimulatedDisk()
    store = opened(disk)
    before = disk.list(LAYOUT.config)
    assert fold(Place(disk, "/s", FakeClock()), store) == []
    assert disk.list(LAYOUT.config) == before
    store.close()


def test_a_start_knows_which_topics_are_of_batch_queues() -> None:
    """Those too that were made a moment before the kill."""
    store = opened(killed())
    assert store.batch_topics == {"T"}
    store.close()


def test_salvage_takes_the_journals_along() -> None:
    """The new store has the tables as they were at the kill."""
    disk = killed()
    report = salvage(disk, "/s", "/new", FakeClock())
    assert report.tables_left == []
    clock = FakeClock()
    topics = Topics(Place(disk, "/new", clock), BrokerSettings(), TopicSettings())
    groups = Groups(Place(disk, "/new", clock), GroupSettings())
    assert topics.get("T") is not None
    assert topics.get("BenchmarkTest") is not None, "it belongs to the system and is made again"
    assert groups.is_forbidden("g", "T")
    assert ConsumerOffsets(Place(disk, "/new", clock)).get("g", "U", 0) == 5


def test_offsets_behind_the_ends_of_queues_are_folded_in_as_these() -> None:
    """Whoever wrote the file; it is left alone where all is well."""
    disk = SimulatedDisk()
    store = opened(disk)
    for offset, expected in ((0, []), (5, ["/s/config/consumerOffset.json"])):
        table = b'{"offsetTable":{"T@g":{0:%d}}}' % offset
        replace_file(disk, LAYOUT.consumer_offsets, table)
        assert fold(Place(disk, "/s", FakeClock()), store) == expected
    store.close()
    assert b'"T@g":{0:0' in read_file(disk, LAYOUT.consumer_offsets)
    assert store.report.offsets_set_back == {"T@g": {0: 5}}


def test_topics_come_back_from_their_queues() -> None:
    """Where the table is gone and its backup, too; not where there is one, nor in a new store."""
    disk = killed()
    store = opened(disk)
    fold(Place(disk, "/s", FakeClock()), store)
    assert "U" not in fastjson.read(read_file(disk, LAYOUT.topics))["topicConfigTable"]
    for name in disk.list(LAYOUT.config):
        if name.startswith(("topics.json", "sprocket.topics")):
            disk.remove(f"{LAYOUT.config}/{name}")
    assert LAYOUT.topics in fold(Place(disk, "/s", FakeClock()), store)
    table = fastjson.read(read_file(disk, LAYOUT.topics))["topicConfigTable"]
    assert {name: one["readQueueNums"] for name, one in table.items()} == {"U": 1}
    store.close()
    empty = SimulatedDisk()
    store = opened(empty)
    assert fold(Place(empty, "/s", FakeClock()), store) == []
    store.close()
