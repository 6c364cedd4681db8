"""The table of topics is read as its broker would read it, and nothing is changed."""

from sprocket.base.disk import replace_file
from sprocket.base.place import Place
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.rocketmq.store import topic_table
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout("/s")


def killed() -> SimulatedDisk:
    """Return a folder in which topics were made and removed a moment before a kill."""
    disk = SimulatedDisk()
    disk.make_folder(LAYOUT.config)
    topics = Topics(Place(disk, "/s", FakeClock()), BrokerSettings(), TopicSettings())
    topics.put(TopicConfig(name="T", read_queues=3))
    topics.remove("BenchmarkTest")
    return disk.kill()


def test_it_has_what_the_journal_has() -> None:
    """The file alone, which is older, does not."""
    disk = killed()
    found = topic_table.read(disk, LAYOUT)
    assert found is not None
    assert found["T"] == TopicConfig(name="T", read_queues=3)
    assert "BenchmarkTest" not in found


def test_the_backup_stands_in() -> None:
    """With the same journal; without either there is no table."""
    disk = killed()
    found = topic_table.read(disk, LAYOUT)
    disk.rename(LAYOUT.topics, LAYOUT.topics + ".bak")
    assert topic_table.read(disk, LAYOUT) == found
    replace_file(disk, LAYOUT.topics, b"{")
    assert topic_table.read(disk, LAYOUT) == found
    replace_file(disk, LAYOUT.topics + ".bak", b"[]")
    assert topic_table.read(disk, LAYOUT) is None


def test_looking_changes_nothing() -> None:
    """Not even a segment that follows lost lines, which a broker would remove."""
    disk = killed()
    disk.rename(LAYOUT.topic_journal + ".1", LAYOUT.topic_journal + ".9")
    before = disk.list(LAYOUT.config), disk.calls["write"]
    assert topic_table.read(disk, LAYOUT) is not None
    assert (disk.list(LAYOUT.config), disk.calls["write"]) == before
