"""Modes are kept in RocketMQ's file."""

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.broker.groups import RequestModes
from sprocket.rocketmq.codec.config import RequestMode
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/messageRequestMode.json"


def fresh() -> SimulatedDisk:
    """Return a disk with an empty store folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    return disk


def test_a_mode_outlives_the_broker() -> None:
    """In the form that RocketMQ writes."""
    disk = fresh()
    modes = RequestModes(disk, "/s")
    assert modes.all() == {}
    mode = RequestMode(topic="T", group="g", pop_share_queues=2)
    modes.put(mode)
    assert RequestModes(disk.kill(), "/s").all() == {"T": {"g": mode}}
    text = read_file(disk, FILE).decode()
    assert text.startswith(
        '{\n\t"messageRequestModeMap":{\n\t\t"T":{\n\t\t\t"g":{\n\t\t\t\t"consumer'
    )
    assert '"popShareQueueNum":2,' in text


def test_modes_of_a_foreign_folder_are_kept() -> None:
    """A folder of RocketMQ's goes back as it came."""
    disk = fresh()
    theirs = (
        b'{"messageRequestModeMap":{"T":{"g":{"consumerGroup":"g","mode":"POP",'
        b'"popShareQueueNum":1,"topic":"T"}}}}'
    )
    replace_file(disk, FILE, theirs)
    modes = RequestModes(disk, "/s")
    modes.put(RequestMode(topic="T", group="h"))
    assert {name: mode.mode for name, mode in RequestModes(disk, "/s").all()["T"].items()} == {
        "g": "POP",
        "h": "PULL",
    }
    assert modes.of("T", "g") == RequestMode(topic="T", group="g", mode="POP", pop_share_queues=1)
    assert modes.of("T", "nobody") is None


def test_a_mode_that_cannot_be_written_is_not_set() -> None:
    """The table is as before."""
    disk = fresh()
    modes = RequestModes(disk, "/s")
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        modes.put(RequestMode(topic="T", group="g"))
    assert modes.all() == {}
