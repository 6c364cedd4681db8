"""What a real 5.3.3 has kept of a compaction topic is what its consumers got, and goes on here."""

from pathlib import Path

import pytest
from tests.compacted import compact, follow
from tests.recorded import Recorded
from tests.stores import new

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.compaction import checking
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

CASE, TOPIC = "10e-compaction", "Compact"
Seen = list[tuple[int, str, int]]


def seen(store: Store) -> Seen:
    """Return queue offset, key and checksum of each message that a consumer gets."""
    found: Seen = []
    offset = 0
    while True:
        got = store.get_messages(TOPIC, 0, offset)
        if got.status is GetStatus.OFFSET_OVERFLOW_ONE:
            return found
        for stored in got.records:
            one = record.decode(stored)
            found.append((one.queue_offset, one.properties["KEYS"], one.body_crc))
        offset = got.next_offset


def opened(folder: str) -> Store:
    """Open the store."""
    settings = StoreSettings(fill_ahead_bytes=0)
    return Store.open(RealDisk(), folder, settings, FakeClock(1_795_264_000_000))


@pytest.mark.parametrize("is_killed", [False, True])
def test_it_is_read_and_continued(is_killed: bool, tmp_path: Path) -> None:
    """Message for message, whether RocketMQ had stopped or not; then compacted again."""
    recorded = Recorded(CASE)
    root = recorded.unpack(tmp_path)
    expected = [
        (one["queue_offset"], one["properties"]["KEYS"], one["body_crc"])
        for one in recorded.expected["messages"]
        if one["topic"] == TOPIC
    ]
    if is_killed:
        Path(root, "abort").write_text("1", encoding="ascii")
    store = opened(root)
    assert store.geometry.compaction.log_file_bytes == recorded.geometry.compaction.log_file_bytes
    assert seen(store) == sorted(expected)
    assert len(expected) == 26
    values = {key: offset for offset, key, _ in expected}
    for number in range(200):
        key = f"key{number % 7}"
        values[key] = store.append(new(TOPIC, 0, b"%d" % number, keys=(key,))).queue_offset
        store.write()
        store.sync()
        store.dispatch()
    follow(store)
    compact(store)
    found = seen(store)
    assert {key: offset for offset, key, _ in found} == values
    assert len(found) < 100
    store.close()
    layout = StoreLayout(root)
    assert list(checking.wrong(RealDisk(), layout, store.geometry.compaction)) == []
    assert seen(opened(root)) == found


def test_a_swap_that_was_cut_off_is_ended(tmp_path: Path) -> None:
    """Wherever: undone as long as not all new files were moved up, finished afterwards."""
    recorded = Recorded(CASE)
    root = recorded.unpack(tmp_path)
    before = seen(opened_once(root))
    kept = Path(root, "compaction/compactionLog/Compact/0")
    units = Path(root, "compaction/compactionCq/Compact/0")
    first = f"{0:020}"
    (kept / "compacting").mkdir()
    (kept / first).rename(kept / f"{first}.delete")
    (kept / "compacting" / first).write_bytes(bytes(64_400))
    assert seen(opened_once(root)) == before
    assert sorted(one.name for one in kept.iterdir()) == [first, f"{386400:020}"]
    (kept / f"{first}.delete").write_bytes(b"old")
    (units / first).rename(units / f"{first}.delete")
    assert seen(opened_once(root)) == before
    assert sorted(one.name for one in units.iterdir()) == [first, f"{386400:020}"]


def opened_once(root: str) -> Store:
    """Open the store as after a kill, and close it again but for reading."""
    store = opened(root)
    store.close()
    return Store.open_read_only(RealDisk(), root)
