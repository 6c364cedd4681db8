"""A store from which the real RocketMQ deleted old files: ours goes on deleting where it ended."""

from pathlib import Path

import pytest
from tests.recorded import Recorded
from tests.stores import clean

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

HOUR_MS = 3_600_000


@pytest.mark.slow
def test_old_files_go_on_being_deleted(tmp_path: Path) -> None:
    """A file at a time; what is left is read, queues and index follow, and a reopening agrees."""
    recorded = Recorded("14-retention")
    folder = recorded.unpack(tmp_path)
    disk = RealDisk()
    young_ms = max(disk.modified_at_ms(str(p)) for p in Path(folder, "commitlog").iterdir())
    clock = FakeClock(young_ms)
    store = Store.open(disk, folder, StoreSettings(fill_ahead_bytes=0), clock, recorded.geometry)
    first = store.first
    assert first > 0, "RocketMQ deleted some"
    settings = RetentionSettings(keep_hours=1, round_files_max=1, force=False)
    assert clean(store, settings, at_once=True) == first
    clock.advance(2 * HOUR_MS)
    files = len(list(Path(folder, "commitlog").iterdir()))
    for gone in range(1, files):
        clean(store, settings, at_once=True)
        assert store.first == first + gone * recorded.geometry.log.segment_bytes
        records = {offset for offset, _ in store.records()}
        assert min(records, default=store.first) >= store.first
        for topic, queue_id, found in store.queues():
            got = store.get_messages(topic, queue_id, found.min, max_count=1)
            if found.min < found.max:
                assert got.status is GetStatus.FOUND
                assert record.decode(got.records[0]).physical_offset in records
    clean(store, settings, at_once=True)
    assert len(list(Path(folder, "commitlog").iterdir())) == 1
    ranges = list(store.queues())
    store.close()
    again = Store.open(disk, folder, StoreSettings(fill_ahead_bytes=0), clock, recorded.geometry)
    assert list(again.queues()) == ranges
    again.close()
