"""A topic that a store's folder does not know is an error; where nothing tells, none."""

import json

import pytest

from sprocket.base.disk import Disk, replace_file
from sprocket.base.errors import SettingsError
from sprocket.spark.rocketmq.folder.known_topics import require_topics
from sprocket.testing.disk import SimulatedDisk


def write(disk: Disk, path: str, data: bytes) -> None:
    """Write a file."""
    disk.make_folder(path.rpartition("/")[0])
    replace_file(disk, path, data)


@pytest.fixture
def disk() -> SimulatedDisk:
    """A store with a topic in its queues, one in its table and one in the table's journal."""
    made = SimulatedDisk()
    made.make_folder("/store/consumequeue/orders/0")
    table = {"dataVersion": {}, "topicConfigTable": {"payments": {"topicName": "payments"}}}
    write(made, "/store/config/topics.json", json.dumps(table).encode())
    line = b'[1,2,3,{"invoices":{"topicName":"invoices"},"gone":null}]'
    write(made, "/store/config/sprocket.topics.1", b"7\t" + line + b'\n9\t[2,3,4,{"tor')
    return made


def test_what_any_of_them_names_is_there(disk: SimulatedDisk) -> None:
    """A torn end of the journal is passed over."""
    require_topics(disk, "/store", ["orders", "payments", "invoices"])
    require_topics(disk, "/store", [])


def test_what_none_of_them_names_is_an_error(disk: SimulatedDisk) -> None:
    """It names the nearest, and the way to what was deleted."""
    with pytest.raises(SettingsError, match="no topic 'order' in /store; did you mean orders"):
        require_topics(disk, "/store", ["payments", "order"])
    with pytest.raises(SettingsError, match="leave `subscribe` away and filter"):
        require_topics(disk, "/store", ["zzz"])


def test_a_log_alone_tells_nothing() -> None:
    """Whoever has only the log may read any topic of it."""
    disk = SimulatedDisk()
    disk.make_folder("/store/commitlog")
    require_topics(disk, "/store", ["orders"])


def test_a_broken_table_is_passed_over(disk: SimulatedDisk) -> None:
    """What the others name is there all the same."""
    write(disk, "/store/config/topics.json.bak", b"{]")
    require_topics(disk, "/store", ["orders", "invoices"])
