"""A file of RocketMQ's is read with its backup in reserve, and replaced as a whole."""

import random
from typing import Any

import pytest
from tests.recorded import Recorded

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import ForeignStore
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.config import declared, fastjson, tables
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

PATH = "/s/config/a.json"


def fresh() -> SimulatedDisk:
    """Return a disk with an empty store folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    return disk


def load(disk: SimulatedDisk) -> Any:
    """Return the member `v` of the file, as a number."""
    return ConfigFile(disk, PATH).load(
        fastjson.Members, lambda content: int(str(content.get("v", -1)))
    )


def test_nothing_there_is_an_empty_object() -> None:
    """So is an empty file."""
    disk = fresh()
    assert load(disk) == -1
    replace_file(disk, PATH, b"")
    assert load(disk) == -1


def test_the_backup_stands_in() -> None:
    """For a missing, an empty, an unreadable and a misunderstood file."""
    for text in (None, b"", b"{", b'{"v":"x"}', b"7"):
        disk = fresh()
        replace_file(disk, PATH + ".bak", b'{"v":2}')
        if text is not None:
            replace_file(disk, PATH, text)
        assert load(disk) == 2


def test_what_is_damaged_never_becomes_the_backup() -> None:
    """The file is made whole from its backup before anything else is written."""
    disk = fresh()
    replace_file(disk, PATH + ".bak", b'{"v":2}')
    replace_file(disk, PATH, b'{"v":')
    file = ConfigFile(disk, PATH)
    assert file.load(fastjson.Members, dict) == {"v": 2}
    assert read_file(disk, PATH) == b'{"v":2}'
    file.replace({"v": 3})
    assert read_file(disk, PATH + ".bak") == b'{"v":2}'


def test_damage_without_a_backup_is_an_error() -> None:
    """Nothing is begun anew over it, and the text names the file."""
    disk = fresh()
    replace_file(disk, PATH, b"{")
    with pytest.raises(ForeignStore, match=r"a\.json is damaged"):
        load(disk)
    replace_file(disk, PATH + ".bak", b"{")
    with pytest.raises(ForeignStore, match=r"a\.json\.bak is damaged"):
        load(disk)


def test_a_crash_leaves_the_old_or_the_new() -> None:
    """At whatever moment, with whatever blocks and names lost."""
    for seed in range(100):
        rng = random.Random(seed)
        disk = fresh()
        file = ConfigFile(disk, PATH)
        count = rng.randrange(1, 4)
        for value in range(count):
            file.replace({"v": value, "pad": "x" * 2000})
        assert load(disk.crash(rng.randrange)) == count - 1
        disk.fail("sync", rng.randrange(1, 5))
        try:
            file.replace({"v": count, "pad": "y" * 2000})
        except Exception:
            assert load(disk.kill()) in (count - 1, count)
        assert load(disk.crash(rng.randrange)) in (count - 1, count)


def test_the_text_is_fastjsons() -> None:
    """A tab for each level, no blanks, integer keys without quotes."""
    disk = fresh()
    file = ConfigFile(disk, PATH)
    file.replace({"a": {"b": 1}, "c": {0: 5}})
    text = read_file(disk, PATH)
    assert text.startswith(b'{\n\t"a":{\n\t\t"b":1\n\t},')
    assert b"{0:5" in text


def test_tables_of_rocketmq_come_back_as_they_were() -> None:
    """What we read as typed values is written as the real broker wrote it, byte for byte."""
    disk = Recorded("12a-config-json").in_memory()
    layout = StoreLayout("/store")
    topics = ConfigFile(disk, layout.topics).load(fastjson.Members, dict)
    table = topics["topicConfigTable"]
    assert len(table) > 10
    topics["topicConfigTable"] = {
        n: declared.plain(tables.TOPICS.one(n, v)) for n, v in table.items()
    }
    assert fastjson.write(topics) == read_file(disk, layout.topics)
    groups: dict[str, Any] = ConfigFile(disk, layout.subscription_groups).load(
        fastjson.Members, dict
    )
    table = groups["subscriptionGroupTable"]
    assert len(table) > 10
    made = {n: declared.plain(tables.GROUPS.one(n, v)) for n, v in table.items()}
    groups["subscriptionGroupTable"] = made
    assert fastjson.write(groups) == read_file(disk, layout.subscription_groups)


def test_offsets_of_rocketmq_are_taken_over_and_read_by_it() -> None:
    """Every offset; and what we write has its table in the same form."""
    disk = Recorded("12a-config-json").in_memory()
    path = StoreLayout("/store").consumer_offsets
    before = fastjson.read(read_file(disk, path))
    offsets = ConsumerOffsets(Place(disk, "/store", FakeClock()))
    for key, queues in before["offsetTable"].items():
        topic, _, group = key.partition("@")
        assert {queue: offsets.get(group, topic, queue) for queue in queues} == queues
    offsets.commit("Adm_g0", "Adm0", 0, 99)
    offsets.table.close()
    after = fastjson.read(read_file(disk, path))
    before["offsetTable"]["Adm0@Adm_g0"][0] = 99
    assert after["offsetTable"] == before["offsetTable"]
    for group, topics in before["groupTopicMap"].items():
        assert set(topics) <= set(after["groupTopicMap"][group])
