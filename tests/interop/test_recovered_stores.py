"""Stores that a real RocketMQ 5.3.3 left behind are recovered to all that their logs hold.

What the real broker answered after its own restart is the least we must answer; where it loses
something (see docs/formats/store-folder.md) we do not. The stores lie in `tests/data`.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.recorded import CASES, ROCKSDB, Recorded, filters_of_10b
from tests.stores import killed

from sprocket.base.disk import RealDisk
from sprocket.base.errors import OffsetTooLarge
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.hashes import abs_hash, hash32
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

EXTENDED_UNITS = "10b-cq-ext-sql"
KINDS = (EXTENDED_UNITS, "10c-lmq", "10d-batch-cq")
"""With extended units, light queues and batch queues."""


def _open(recorded: Recorded, folder: Path) -> Store:
    return Store(_open_parts(recorded, folder))


def _open_parts(recorded: Recorded, folder: Path) -> Opened:
    clock = FakeClock(recorded.expected["stopped_at_ms"])
    filters = filters_of_10b() if recorded.name == EXTENDED_UNITS else None
    root = recorded.root or recorded.unpack(folder)
    settings = StoreSettings()
    return opening.to_write(RealDisk(), root, settings, clock, recorded.geometry, filters)


def _sound(recorded: Recorded) -> list[dict[str, Any]]:
    """The records of the log before any restart that are as they were written."""
    return [r for r in recorded.records if r.get("crc_ok", True) and "at" not in r]


def _tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_log_is_whole(name: str, tmp_path: Path) -> None:
    """Every record is there with its bytes, and the log ends where the real broker says."""
    recorded = Recorded(name)
    store = _open(recorded, tmp_path)
    end = recorded.expected["recovery"]["max_phys_after_load"]
    assert store.end == end
    found = [(offset, record.decode(data)) for offset, data in store.records()]
    expected = [r for r in _sound(recorded) if r["phys"] < end]
    assert [r["phys"] for r in expected] == [offset for offset, _ in found]
    for wanted, (_, message) in zip(expected, found, strict=True):
        assert wanted["store_size"] == message.store_size
        assert wanted["queue_offset"] == message.queue_offset
        assert wanted["body_sha256"] == hashlib.sha256(message.body).hexdigest()
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_queues_are_whole(name: str, tmp_path: Path) -> None:
    """Each queue has the range that the real broker answered, and every message in it."""
    recorded = Recorded(name)
    store = _open(recorded, tmp_path)
    for topic, state in recorded.expected["topics"].items():
        for queue_id, queue in state["queues"].items():
            found = store.queue_range(topic, int(queue_id))
            at_recovery = queue.get("max_at_recovery", queue["max"])
            assert (queue["min"], at_recovery) == (found.min, found.max), (topic, queue_id)
            offset, count = found.min, 0
            while True:
                got = store.get_messages(topic, int(queue_id), offset)
                if got.status is not GetStatus.FOUND:
                    break
                offset, count = got.next_offset, count + got.count
            assert found.max == offset
            if topic in store.compacted_topics:
                messages = recorded.expected["messages"]
                assert sum(one["topic"] == topic for one in messages) == count
            else:
                assert found.max - found.min == count
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_key_is_found(name: str, tmp_path: Path) -> None:
    """A query gives what the real broker gave, and no key that the log has is missing."""
    recorded = Recorded(name)
    store = _open(recorded, tmp_path)
    end = store.end
    by_hash: dict[int, set[int]] = {}
    for kept in _sound(recorded):
        properties = kept["properties"]
        keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
        for key in filter(None, keys):
            if store.first <= kept["phys"] < end:
                code = abs_hash(hash32(f"{kept['topic']}#{key}"))
                by_hash.setdefault(code, set()).add(kept["phys"])
    for query in recorded.expected["query_by_key"]:
        if query["begin"] or query["end"] < 1 << 60:
            continue
        code = abs_hash(hash32(f"{query['topic']}#{query['key']}"))
        wanted = sorted(by_hash.get(code, ()))[-min(query["max"], 64) :]
        found = store.find(query["topic"], query["key"], max_count=query["max"])
        assert wanted == found.offsets, query
        assert {p for p in query["phys"] if p < end} <= set(wanted) or query["max"] < 64
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_times_find_their_offsets(name: str, tmp_path: Path) -> None:
    """Offsets by time are what the real broker answered."""
    recorded = Recorded(name)
    store = _open(recorded, tmp_path)
    topics = recorded.expected["topics"]
    times = {r["store_timestamp"] for r in recorded.records}
    for query in recorded.expected["offset_by_time"]:
        queue = topics[query["topic"]]["queues"].get(str(query["queue_id"]), {"max": 0})
        if queue["max"] != queue.get("max_at_recovery", queue["max"]):
            continue  # the real broker delivered delayed messages before it was asked
        if query["topic"] in recorded.batch_topics and query["time"] not in times:
            continue  # there the real broker answers right only for times of messages
        at = (query["topic"], query["queue_id"], query["time"])
        assert query["lower"] == store.offset_by_time(*at, Boundary.LOWER), query
        assert query["upper"] == store.offset_by_time(*at, Boundary.UPPER), query
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ids_find_their_records(name: str, tmp_path: Path) -> None:
    """A record is at the physical offset that its id names; behind the end there is none."""
    recorded = Recorded(name)
    store = _open(recorded, tmp_path)
    for query in recorded.expected["query_by_id"]:
        if query.get("phys", store.end) < store.end:
            message = record.decode(store.record_at(PhysicalOffset(query["phys"])))
            assert query["unique_key"] == message.unique_key
    with pytest.raises(OffsetTooLarge):
        store.record_at(store.end)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_second_opening_changes_nothing(name: str, tmp_path: Path) -> None:
    """Recovery reaches a state that the next start, clean or not, finds whole."""
    recorded = Recorded(name)
    opened = _open_parts(recorded, tmp_path)
    store = Store(opened)
    ranges = list(store.queues())
    end = store.end
    killed(opened)
    # RocksDB makes files of its own at every opening.
    folders = ("commitlog/",) if name in ROCKSDB else ("commitlog/", "consumeq")
    derived = {p: d for p, d in _tree(tmp_path).items() if any(f in p for f in folders)}
    for clean in (False, True):
        again = _open(recorded, tmp_path)
        assert (clean and end > 0, end, 0) == (
            again.report.clean and end > 0,
            again.end,
            again.report.bytes_cut,
        )
        assert ranges == list(again.queues())
        again.close()
    after = {p: d for p, d in _tree(tmp_path).items() if any(f in p for f in folders)}
    assert derived == after


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_queues_of_every_kind_come_back(name: str, clean: bool, tmp_path: Path) -> None:
    """Killed or with its queue folders gone, a store gets RocketMQ's own units back.

    But for the bits of the first three extended ones, which were there before any filter was.
    """
    recorded = Recorded(name)
    root = Path(recorded.unpack(tmp_path))
    before = _units(recorded)
    if clean:
        for folder in ("consumequeue", "batchconsumequeue"):
            shutil.rmtree(root / folder, ignore_errors=True)
    else:
        (root / "abort").write_text("4711")
    _open(recorded, tmp_path).close()
    assert before == _units(recorded)


def _units(recorded: Recorded) -> dict[tuple[str, int], list[Any]]:
    """Return every unit of every queue, what extended ones hold included."""
    parts = opening.to_read(RealDisk(), str(recorded.root), recorded.geometry).parts
    found: dict[tuple[str, int], list[Any]] = {}
    for queue in parts.queues.by_key.values():
        offset = 0
        units = found[queue.topic, queue.queue_id] = []
        while offset < queue.max_offset:
            for first, place, size, code, messages in queue.units(offset, 1000):
                extended = queue.extended(code)
                if extended is not None and first < 3:
                    extended = structs.replace(extended, bit_map=b"")
                units.append((first, place, size, extended or code, messages))
                offset = first + messages
    parts.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_reading_only_changes_nothing(name: str, tmp_path: Path) -> None:
    """A reader needs no settings, finds the same log, and leaves every byte as it is."""
    recorded = Recorded(name)
    root = recorded.unpack(tmp_path)
    before = _tree(tmp_path)
    store = Store.open_read_only(RealDisk(), root)
    assert recorded.geometry.log == store.geometry.log
    assert recorded.expected["recovery"]["max_phys_after_load"] == store.end
    offsets = [offset for offset, _ in store.records()]
    assert [r["phys"] for r in _sound(recorded) if r["phys"] < store.end] == offsets
    if any(name.startswith("index/") for name in recorded.expected["files"]):
        assert recorded.geometry.index == store.geometry.index
    store.close()
    assert before == _tree(tmp_path)
