"""Which engine a store's queues have."""

from pathlib import Path

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import FileQueues, RocksQueues, engines

DISK = RealDisk()


def test_the_disk_decides(tmp_path: Path) -> None:
    """Nothing yet, topics, then a database beside them, as RocketMQ leaves it."""
    layout = StoreLayout(str(tmp_path))
    assert engines.found(DISK, layout) is None
    (tmp_path / "consumequeue").mkdir()
    assert engines.found(DISK, layout) is None
    for engine, kind in (("files", FileQueues), ("rocksdb", RocksQueues)):
        geometry = QueueGeometry(engine=engine, units_per_file=10)  # type: ignore[arg-type]
        queues = engines.make(DISK, layout, geometry, write=True)
        assert isinstance(queues, kind)
        queues.load()
        queues.put_round([Entry("T", 0, 0, 0, 100, 0, 0)])
        queues.close()
        assert engines.found(DISK, layout) == engine


def test_a_topic_may_have_the_name_of_a_file(tmp_path: Path) -> None:
    """A folder CURRENT makes no database."""
    (tmp_path / "consumequeue" / "CURRENT" / "0").mkdir(parents=True)
    assert engines.found(DISK, StoreLayout(str(tmp_path))) == "files"
