"""What a broker of RocketMQ kept in config/rdb is read, typed, and left as it is."""

import hashlib
from pathlib import Path

import msgspec
import pytest
from tests.recorded import Recorded

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.config import DataVersion, tables
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.model.internal import SYSTEM_GROUPS
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import Database, rocks_database
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

DISK = RealDisk()
TABLES = (config_rdb.OFFSETS, config_rdb.TOPICS, config_rdb.GROUPS)
RECORDED = Recorded("12b-config-rdb-v2")


def tree(root: str) -> dict[str, str]:
    """Return the content of every file."""
    paths = sorted(path for path in Path(root).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_everything_the_broker_answered_is_there(tmp_path: Path) -> None:
    """Topics with their settings, groups, offsets and versions; no byte of it changes."""
    root = RECORDED.unpack(tmp_path)
    before = tree(root)
    found = {table: config_rdb.content(DISK, StoreLayout(root), table) for table in TABLES}
    assert tree(root) == before
    expected = RECORDED.expected
    system = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_")  # made anew at every start
    names = {name for name in expected["topics"] if not name.startswith(system)}
    topics = tables.TOPICS.read(found[config_rdb.TOPICS])
    assert names == set(topics)
    for name, topic in topics.items():
        config = expected["topics"][name]["config"]
        assert config["topicName"] == topic.name == name
        queues = (config["readQueueNums"], config["writeQueueNums"])
        assert queues == (topic.read_queues, topic.write_queues)
        assert (config["perm"], config["order"]) == (topic.perm, topic.order)
        assert config["attributes"] == topic.attributes
    groups = expected["subscription_groups"]["subscriptionGroupTable"]
    read = tables.GROUPS.read(found[config_rdb.GROUPS])
    assert set(groups) - {"LOOK_GROUP", *SYSTEM_GROUPS} == set(read)
    for name, group in read.items():
        assert groups[name]["retryMaxTimes"] == group.retry_times_max
    offsets = expected["consumer_offsets"]["offsetTable"]
    assert offsets == msgspec.to_builtins(found[config_rdb.OFFSETS]["offsetTable"], str_keys=True)
    versions = {
        table: DataVersion.from_json(one.get("dataVersion"), 0) for table, one in found.items()
    }
    assert versions[config_rdb.TOPICS].counter == expected["topic_data_version"]["counter"]
    assert [table for table, one in found.items() if "dataVersion" in one] == list(TABLES)


def test_a_broker_begins_with_it(tmp_path: Path) -> None:
    """Where there is no JSON; afterwards there is, and that counts."""
    root = RECORDED.unpack(tmp_path)
    clock = FakeClock()
    for _ in range(2):
        topics = Topics(Place(DISK, root, clock), BrokerSettings(), TopicSettings())
        topic = topics.get("Adm3")
        assert topic is not None
        assert (topic.perm, topic.read_queues, topic.write_queues) == (2, 9, 2)
        group = Groups(Place(DISK, root, clock), GroupSettings()).get("Adm_g1")
        assert group is not None
        offsets = ConsumerOffsets(Place(DISK, root, clock))
        assert offsets.get("Adm_g5", "Adm2", 1) == 7
        offsets.table.close()
        config_rdb_gone = StoreLayout(root).config_database
        DISK.remove_tree(config_rdb_gone)


def test_none_is_empty() -> None:
    """On any disk."""
    layout = StoreLayout("/s")
    disk = SimulatedDisk()
    for table in TABLES:
        assert config_rdb.content(disk, layout, table) == {}


def test_without_its_package_it_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that began without its topics would be wrong."""
    root = RECORDED.unpack(tmp_path)
    monkeypatch.setattr(rocks_database, "rocksdict", None)
    with pytest.raises(EngineMissing, match="rocksdb"):
        Topics(Place(DISK, root, FakeClock()), BrokerSettings(), TopicSettings())


def written(root: Path, key: str, value: str) -> StoreLayout:
    """Make a database of one record, given in hex."""
    layout = StoreLayout(str(root))
    made = Database(DISK, layout.config_database, write=True)
    batch = made.batch()
    batch.put(bytes.fromhex(key), bytes.fromhex(value))
    made.write(batch)
    made.close()
    return layout


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("01", ""),
        ("01000101", "00" * 23),
        ("010003020009 61", "017b7d"),
        ("01000302ffff 61", "017b7d"),
        ("010003020001 ff", "017b7d"),
        ("010003020001 61", "027b7d"),
        ("010003020001 61", ""),
        ("010004020001 61", "015b"),
        ("010001020001 61 01 0001 62 01", "00" * 8),
        ("010001020001 61 01 0001 62 01 00000000", "00" * 7),
    ],
)
def test_damage_is_told(tmp_path: Path, key: str, value: str) -> None:
    """With the record's bytes."""
    layout = written(tmp_path, key, value)
    with pytest.raises(CorruptRecord, match=f"key {key.replace(' ', '')}"):
        _ = [config_rdb.content(DISK, layout, table) for table in TABLES]


@pytest.mark.parametrize("key", ["02000302", "01000202", "01000902", "01000307"])
def test_what_is_unknown_is_passed_over(tmp_path: Path, key: str) -> None:
    """Other tables and kinds of records."""
    layout = written(tmp_path, key, "00")
    assert [config_rdb.content(DISK, layout, table) for table in TABLES] == [{}, {}, {}]


def test_a_version_is_three_numbers(tmp_path: Path) -> None:
    """State version, timestamp, counter; a table may be empty but for it."""
    value = "0000000000000001 0000000000000002 0000000000000003"
    layout = written(tmp_path, "01000401" + b"data_version".hex(), value)
    told = {"dataVersion": {"counter": 3, "stateVersion": 1, "timestamp": 2}}
    assert [config_rdb.content(DISK, layout, table) for table in TABLES] == [{}, {}, told]
