"""The option `compacted`: of each key of a queue the last message, before and after rounds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType
from tests.compacted import stepwise
from tests.stores import new

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import CorruptRecord, SettingsError
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.layout import COMPACTING, SWAP, StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.spark import QueryFailed, in_one_line
from sprocket.spark.rocketmq import RocketMQSource
from sprocket.testing.clock import FakeClock

SETTINGS = StoreSettings(fill_ahead_bytes=0, message_bytes_max=1 << 20)


def send(store: Store, queue_id: int, key: str, body: bytes) -> None:
    """Send a message to the topic `last`."""
    store.append(new("last", queue_id, body, keys=(key,)))


def store_of(folder: Path) -> tuple[str, dict[tuple[int, str], bytes]]:
    """Make a store; return its folder, and the last value of each key of each queue."""
    geometry = Geometry.small()
    store = Store.open(RealDisk(), str(folder), SETTINGS, FakeClock(), geometry)
    store.take_compaction("last")
    values: dict[tuple[int, str], bytes] = {}
    for number in range(600):
        queue_id, key = number % 2, f"key {number * 7 % 50}"
        body = b"" if number % 11 == 0 else b"value %d" % number
        send(store, queue_id, key, body)
        values[queue_id, key] = body
        store.append(new("plain", 0, b"x", keys=(key,)))
        store.write()
        if number % 200 == 150:
            store.sync()
            steps.run(store.maintain_steps())
            steps.run(store.compact_steps(1 << 20))
    store.sync()
    store.close()
    return str(folder), {key: body for key, body in values.items() if body}


@pytest.mark.spark
@pytest.mark.slow
def test_each_key_has_its_last_value(spark: Any, tmp_path: Path) -> None:
    """Those that were deleted have none; columns and filters are as without it."""
    folder, values = store_of(tmp_path / "store")

    def read(**options: object) -> Any:
        return spark.read.format("rocketmq").options(compacted=True, **options).load(folder)

    rows = read().collect()
    assert {(row.queueId, row.keys): bytes(row.body) for row in rows} == values
    assert len(rows) == len(values)
    assert {row.topic for row in rows} == {"last"}
    assert read(subscribe="last").where("queueId = 1").count() == sum(q for q, _ in values)
    one = read(assign='{"last":{"b":[0]}}', columns="keys").collect()
    assert {row["keys"] for row in one} == {key for q, key in values if q == 0}
    with pytest.raises(QueryFailed, match=r"'plain'.*is not compacted"), in_one_line():
        read(subscribe="plain").count()
    with pytest.raises(QueryFailed, match="startingOffsets exclude"), in_one_line():
        read(startingOffsets="earliest").count()


def test_a_swap_under_way_brings_back_nothing(tmp_path: Path) -> None:
    """Old files do not count once one of them is gone: another one may have what was deleted."""
    disk, folder = RealDisk(), str(tmp_path / "s")
    store = Store.open(disk, folder, SETTINGS, FakeClock(), Geometry.small())
    store.take_compaction("last")
    records = Path(StoreLayout(folder).compaction_log, "last", "0")
    send(store, 0, "kept", b"value")
    for number in range(120):
        send(store, 0, f"key {number % 3}", b"" if number >= 90 else b"value")
        store.write()
        store.sync()
        steps.run(store.maintain_steps())
    old = sorted(path.name for path in records.iterdir() if path.is_file())[:-1]
    assert len(old) > 1
    for _ in stepwise(store.compact_steps(1 << 20)):
        new_ones = [path.name for path in records.iterdir() if path.is_file()]
        if (records / COMPACTING / SWAP).exists() and len(new_ones) > len(old) + 1:
            break
    else:
        pytest.fail("the new files were never beside the old ones")
    assert values_of(folder) == {"kept": b"value"}
    for name in reversed(old):
        (records / name).unlink()
        assert values_of(folder) == {"kept": b"value"}
    (records / COMPACTING / SWAP).write_bytes(b'1\n{"old":[],"new":[]}')
    with pytest.raises(CorruptRecord, match=r"sprocket\.swap is damaged"):
        values_of(folder)


def values_of(folder: str) -> dict[str, bytes]:
    """Return what a task of Spark reads of queue 0."""
    schema = StructType().add("keys", "string").add("body", "binary")
    reader = RocketMQSource({"path": folder, "compacted": "true"}).reader(schema)
    found = [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    return {row["keys"]: row["body"] for row in found}


def test_queues_in_a_rocksdb_are_refused(tmp_path: Path) -> None:
    """Their newest messages would be missing."""
    pytest.importorskip("rocksdict")
    small = Geometry.small()
    geometry = replace(small, queue=replace(small.queue, engine="rocksdb"))
    Store.open(RealDisk(), str(tmp_path / "s"), SETTINGS, FakeClock(), geometry).close()
    given = {"path": str(tmp_path / "s"), "compacted": "true"}
    reader = RocketMQSource(given).reader(StructType().add("body", "binary"))
    with pytest.raises(SettingsError, match="has its queues in a RocksDB"):
        reader.partitions()
