"""Offsets of light queues: RocketMQ's file of them is read where it wrote last, and written."""

from typing import Any

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFailed, ForeignStore
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.store import committed_offsets
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.light_offsets import LightOffsets
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout("/s")
ROCKETMQS = b"""{
	"dataVersion":{
		"counter":0,
		"stateVersion":0,
		"timestamp":1796008413883
	},
	"groupTopicMap":{
		"g":["%LMQ%a"]
	},
	"lmqOffsetTable":{
		"%LMQ%a@%LMQ%g":7
	},
	"offsetTable":{
		"%LMQ%a@g":{0:2
		}
	}
}"""
"""As 5.3.3 has written it."""


def fresh(content: bytes = b"") -> SimulatedDisk:
    """Return a disk with a store's folder, and RocketMQ's file in it."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    if content:
        replace_file(disk, LAYOUT.light_offsets, content)
    return disk


def opened(disk: SimulatedDisk, *, light_queues: bool = True) -> ConsumerOffsets:
    """Open the table."""
    return ConsumerOffsets(Place(disk, "/s", FakeClock()), light_queues=light_queues)


def written(disk: SimulatedDisk) -> dict[str, Any]:
    """Return the file of light queues."""
    found: dict[str, Any] = fastjson.read(read_file(disk, LAYOUT.light_offsets))
    return found


def test_what_rocketmq_has_written_is_gone_on_with() -> None:
    """It wins over our own file, which is older; at once it is in that, and can be killed."""
    disk = fresh()
    old = opened(disk, light_queues=False)
    old.commit("%LMQ%g", "%LMQ%a", 0, 1)
    old.commit("other", "t", 0, 1)
    old.table.close()
    replace_file(disk, LAYOUT.light_offsets, ROCKETMQS)
    offsets = opened(disk)
    assert offsets.get("%LMQ%g", "%LMQ%a", 0) == 7
    assert offsets.get("g", "%LMQ%a", 0) == 2
    assert offsets.get("other", "t", 0) is None
    offsets.commit("%LMQ%g", "%LMQ%a", 0, 8)
    assert opened(disk.kill()).get("%LMQ%g", "%LMQ%a", 0) == 8
    assert opened(disk.kill(), light_queues=False).get("%LMQ%g", "%LMQ%a", 0) == 8


def test_ours_is_written_beside_and_not_read() -> None:
    """For a RocketMQ that goes on: light groups apart, with one number a topic."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("%LMQ%g", "%LMQ%a", 0, 7)
    offsets.commit("g", "%LMQ%a", 0, 2)
    offsets.commit("g", "t", 3, 4)
    offsets.table.close()
    found = written(disk)
    assert found["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 7}
    assert found["offsetTable"] == {"%LMQ%a@g": {0: 2}, "t@g": {3: 4}}
    assert found["groupTopicMap"] == {"g": ["%LMQ%a", "t"]}
    assert LightOffsets(disk, LAYOUT).foreign() is None
    again = opened(disk)
    again.commit("g", "t", 3, 5)
    assert opened(disk.kill()).get("g", "t", 3) == 5


def test_without_light_queues_the_file_is_left_alone() -> None:
    """As RocketMQ leaves it."""
    disk = fresh(ROCKETMQS)
    offsets = opened(disk, light_queues=False)
    offsets.commit("g", "t", 0, 1)
    offsets.table.close()
    assert read_file(disk, LAYOUT.light_offsets) == ROCKETMQS
    assert offsets.get("%LMQ%g", "%LMQ%a", 0) is None


def test_a_disk_that_fails_while_it_is_written_loses_nothing() -> None:
    """The journal has it, as the flush did not end."""
    disk = fresh()
    offsets = opened(disk)
    offsets.commit("g", "t", 0, 1)
    disk.before = lambda call, path: disk.fail(call) if LAYOUT.light_offsets in path else None
    with pytest.raises(DiskFailed):
        offsets.table.flush()
    assert opened(disk.kill()).get("g", "t", 0) == 1


def test_a_damaged_file_is_told() -> None:
    """As one that is damaged always is."""
    with pytest.raises(ForeignStore, match="lmqConsumerOffset"):
        opened(fresh(b"{damaged"))


@pytest.mark.parametrize(("newer", "found"), [(True, 7), (False, None)])
def test_readers_of_a_folder_take_the_newer_one(newer: bool, found: int | None) -> None:
    """Which setting RocketMQ had is not in the folder."""
    disk = fresh(ROCKETMQS)
    timestamp = 1796008413883 + (-1 if newer else 1)
    other = b'{"dataVersion":{"timestamp":%d},"offsetTable":{"t@g":{0:3}}}' % timestamp
    replace_file(disk, LAYOUT.consumer_offsets, other)
    table = committed_offsets.read(disk, LAYOUT)
    assert table.get("%LMQ%a@%LMQ%g", {}).get(0) == found
    assert table.get("t@g") == (None if newer else {0: 3})
