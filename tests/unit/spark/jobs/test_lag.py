"""The job `lag`: of a folder and of a cluster, with a consumer at known offsets."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.stores import maintain, new
from tests.unit.spark.samples import expected, unpack

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Admin, Producer
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.spark.jobs import JobCluster, lag
from sprocket.testing.clock import FakeClock
from sprocket.testing.local_broker import LocalBroker


@pytest.mark.slow
@pytest.mark.parametrize("case", ["08-consumers", "12b-config-rdb-v2"])
def test_of_what_a_real_broker_left(tmp_path: Path, case: str) -> None:
    """As its own table of offsets and its records say; times are those of the records."""
    store = unpack(case, tmp_path)
    report = lag(None, store=store)
    assert report.queues
    lines = {(one["topic"], one["queue_id"], one["queue_offset"]): one for one in expected(case)}
    ends: dict[tuple[str, int], int] = {}
    for topic, queue_id, offset in lines:
        ends[topic, queue_id] = max(ends.get((topic, queue_id), 0), offset + 1)
    table = Path(store, "config", "consumerOffset.json")
    if table.exists():
        kept = fastjson.read_large(table.read_bytes())["offsetTable"]
        rows = {(f"{row['topic']}@{row['group']}", row["queue_id"]) for row in report.queues}
        assert rows == {(key, int(queue)) for key, queues in kept.items() for queue in queues}
    for row in report.queues:
        key = row["topic"], row["queue_id"]
        if key not in ends:
            continue
        assert row["max_offset"] == ends[key]
        assert row["lag"] == max(ends[key] - row["committed_offset"], 0)
        for name, offset in (("consumed_up_to_at_ms", -1), ("waiting_since_at_ms", 0)):
            line = lines.get((*key, row["committed_offset"] + offset))
            assert row[name] == (line["store_timestamp"] if line else -1)
    assert report.lag == sum(row["lag"] for row in report.queues)


@pytest.mark.slow
def test_of_a_consumer_at_known_offsets() -> None:
    """The same of the cluster and of its folder, while the broker runs."""
    with LocalBroker() as broker:
        with Producer(broker.nameserver, group="tests") as producer:
            queue = producer.send(Message("orders", b"0")).queue
            for number in range(1, 10):
                producer.send(Message("orders", b"%d" % number), queue=queue)
        with Admin(broker.nameserver) as admin:
            admin.group.create(SubscriptionGroup(name="kitchen"))
            admin.offset.commit("kitchen", queue, 4)
        broker.settle()
        live = lag(None, cluster=JobCluster(name_server=broker.nameserver), group=["kitchen"])
        folder = lag(None, store=broker.folder, group=["kitchen"])
    (row,) = of(live.queues, queue)
    assert (row["committed_offset"], row["max_offset"], row["lag"]) == (4, 10, 6)
    (stored,) = of(folder.queues, queue)
    assert stored["lag"] == folder.lag == 6
    assert stored["consumed_up_to_at_ms"] == row["consumed_up_to_at_ms"]
    assert stored["consumed_up_to_at_ms"] <= stored["waiting_since_at_ms"]


def of(rows: list[dict[str, Any]], queue: MessageQueue) -> list[dict[str, Any]]:
    """The rows of a queue."""
    return [row for row in rows if (row["topic"], row["queue_id"]) == (queue.topic, queue.queue_id)]


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    """Exactly one source; a store; a group that has committed."""
    for store, name_server in (("", ""), ("x", "y")):
        with pytest.raises(SettingsError, match="name one of --store and --name-server"):
            lag(None, store=store, cluster=JobCluster(name_server=name_server))
    with pytest.raises(ForeignStore, match="is not a store directory"):
        lag(None, store=str(tmp_path))
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "config").mkdir()
    table = tmp_path / "config" / "consumerOffset.json"
    table.write_text('{"offsetTable":{"orders@kitchen":{0:3}}}')
    with pytest.raises(SettingsError, match=r"no group 'kitchn'.*did you mean kitchen"):
        lag(None, store=str(tmp_path), group=["kitchn"])
    (row,) = lag(None, store=str(tmp_path)).queues
    assert (row["committed_offset"], row["max_offset"], row["lag"]) == (3, 0, 0)


@pytest.mark.parametrize("engine", ["files", "rocksdb"])
def test_a_topic_that_was_deleted_has_no_messages_left(
    tmp_path: Path, engine: Literal["files", "rocksdb"]
) -> None:
    """As for the broker that runs; a RocksDB has its units until they are compacted away."""
    if engine == "rocksdb":
        pytest.importorskip("rocksdict")
    small = Geometry.small()
    geometry = replace(small, queue=replace(small.queue, engine=engine))
    settings = StoreSettings(fill_ahead_bytes=0)
    store = Store.open(RealDisk(), str(tmp_path), settings, FakeClock(), geometry)
    for number in range(8):
        store.append(new("gone" if number < 3 else "topic", 0, b"body"))
        store.write()
    store.sync()
    maintain(store)
    steps.run(store.delete_topic_steps("gone", lambda: None))
    offsets = {"offsetTable": {"gone@group": {0: 1}, "topic@group": {0: 1}}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps(offsets))
    report = lag(None, store=str(tmp_path))
    found = {row["topic"]: (row["max_offset"], row["lag"]) for row in report.queues}
    assert found == {"gone": (0, 0), "topic": (5, 4)}
    store.close()
