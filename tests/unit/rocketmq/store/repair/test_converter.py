"""Queues change their engine, whole, whatever happens meanwhile."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.kept_files import KeptFiles
from tests.recorded import Recorded
from tests.stores import SMALL, new

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed, ForeignStore, StoreFailed, StoreLocked
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.geometry import Engine, Geometry
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import geometry, opening
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.queue import read_all
from sprocket.rocketmq.store.queue import rocks_keys as keys
from sprocket.rocketmq.store.repair import ConvertReport, convert
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

DISK = RealDisk()
ENGINES: tuple[tuple[Engine, Engine], ...] = (("files", "rocksdb"), ("rocksdb", "files"))


def opened(root: str, engine: Engine | None = None, clock: FakeClock | None = None) -> Store:
    """Open a small store; an engine is insisted on if one is named."""
    return Store(parts(root, engine, clock))


def parts(root: str, engine: Engine | None, clock: FakeClock | None) -> Opened:
    """Return what a store is made of."""
    wanted: Geometry | None = None if engine is None else geometry.with_engine(SMALL, engine)
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048)
    return opening.to_write(DISK, root, settings, clock or FakeClock(), wanted)


def made(root: str, engine: Engine) -> dict[Any, Any]:
    """Make a store whose queues have every feature; return what is in them."""
    clock = FakeClock()
    made_of = parts(root, engine, clock)
    made_of.parts.queues.begin("gone", 3, 77)
    made_of.parts.queues.begin("late", 0, 13)
    store = Store(made_of)
    for number in range(60):
        store.append(new("topic", number % 2, b"body %d" % number))
        clock.advance(10)
    store.append(new("late", 0))
    store.write()
    store.sync()
    store.close()
    made_of = parts(root, engine, clock)
    made_of.parts.queues.fill_to("topic", 1, 35)
    store = Store(made_of)
    store.append(new("topic", 1))
    expected_end = store.write()
    store.close()
    store = opened(root)
    assert (store.report.clean, store.end) == (True, expected_end)
    found = content(store)
    store.close()
    assert set(found) == {("gone", 3), ("late", 0), ("topic", 0), ("topic", 1)}
    assert found["gone", 3] == (77, 77, [])
    return found


def content(store: Store) -> dict[Any, Any]:
    """Return range and units of every queue."""
    found: dict[Any, Any] = {}
    for topic, queue_id, (first, end) in store.queues():
        units: list[Any] = []
        while first + len(units) < end:
            units += [unit[1:4] for unit in store.units(topic, queue_id, first + len(units), 1000)]
        found[topic, queue_id] = (first, end, units)
    return found


@pytest.mark.parametrize(("source", "target"), ENGINES)
def test_queues_keep_all_they_had(source: Engine, target: Engine, tmp_path: Path) -> None:
    """Ranges, units, fillers, an empty queue's place; and back again."""
    root = str(tmp_path / "s")
    expected = made(root, source)
    told: list[tuple[int, int]] = []
    report = convert(DISK, root, target, step=lambda _what, *at: told.append(at))
    units = sum(len(queue[2]) for queue in expected.values())
    assert report == ConvertReport(source=source, target=target, queues=4, units=units)
    assert told[-1] == (units, units)
    left = [f"{root}/consumequeue/{name}" for name in DISK.list(f"{root}/consumequeue")]
    assert {DISK.is_folder(path) for path in left} == {target == "files"}
    assert convert(DISK, root, target) == ConvertReport(source=target, target=target)
    with pytest.raises(ForeignStore, match="sprocket store convert"):
        opened(root, source)
    store = opened(root, target)
    assert store.report.clean
    assert (store.report.units_rebuilt, store.report.queues_rebuilt) == (0, [])
    assert content(store) == expected
    for queue_id in range(2):
        assert store.append(new("topic", queue_id)).queue_offset == expected["topic", queue_id][1]
    store.close()
    convert(DISK, root, source)
    store = opened(root, source)
    assert store.queue_range("topic", 0).max == expected["topic", 0][1] + 1
    store.close()


@pytest.mark.parametrize(("source", "target"), ENGINES)
def test_no_file_is_left_open(source: Engine, target: Engine, tmp_path: Path) -> None:
    """Neither of the log nor of queues."""
    root = str(tmp_path / "s")
    made(root, source)
    disk = KeptFiles()
    convert(disk, root, target)
    assert disk.left_open() == []


def test_units_get_their_store_times(tmp_path: Path) -> None:
    """RocketMQ searches by them."""
    root = str(tmp_path / "s")
    made(root, "files")
    convert(DISK, root, "rocksdb")
    units = read_all(DISK, f"{root}/consumequeue")
    store = opened(root)
    for offset in range(30):
        value = units[keys.unit_prefix("topic", 0) + keys.I64.pack(offset)]
        assert keys.VALUE.unpack(value)[3] == store.stored_at_ms("topic", 0, offset) > 0
    store.close()


def test_addresses_of_extended_units_become_tags_codes(tmp_path: Path) -> None:
    """RocksDB has none; the record tells the code."""
    recorded = Recorded("10b-cq-ext-sql")
    root = recorded.unpack(tmp_path)
    convert(DISK, root, "rocksdb")
    store = Store.open_read_only(DISK, root)
    codes = [unit[2] for queue in content(store).values() for unit in queue[2]]
    assert len(codes) == len(recorded.records)
    assert all(-(1 << 31) <= code < 1 << 31 for code in codes)
    store.close()


def test_an_address_that_leads_to_nothing_becomes_no_tag(tmp_path: Path) -> None:
    """As where the extended units were lost."""
    root = Recorded("10b-cq-ext-sql").unpack(tmp_path)
    DISK.remove_tree(f"{root}/consumequeue_ext")
    convert(DISK, root, "rocksdb")
    store = Store.open_read_only(DISK, root)
    units = [unit for queue in content(store).values() for unit in queue[2]]
    assert {code for _place, _size, code in units} == {0}
    store.close()


class Dying(RealDisk):
    """A disk whose process dies before its n-th change of a name."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def rename(self, source: str, target: str) -> None:
        """Rename, unless it is over."""
        self._count()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        """Remove, unless it is over."""
        self._count()
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove, unless it is over."""
        self._count()
        super().remove_tree(path)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), ENGINES)
def test_a_crash_leaves_one_engine_whole(source: Engine, target: Engine, tmp_path: Path) -> None:
    """At every step; the conversion can be done again."""
    seen = set()
    first = str(tmp_path / "s")
    expected = made(first, source)
    for step in itertools.count():
        root = f"{first}{step}"
        shutil.copytree(first, root)
        disk = Dying(step)
        is_over = False
        try:
            convert(disk, root, target)
            is_over = True
        except KeyboardInterrupt:
            pass
        store = opened(root)
        seen.add(store.geometry.queue.engine)
        assert store.report.clean
        assert store.report.units_rebuilt == 0
        assert content(store) == expected
        store.close()
        convert(DISK, root, target)
        assert_only(root, target)
        store = opened(root, target)
        assert content(store) == expected
        store.close()
        if is_over:
            break
    assert seen == {source, target}


def assert_only(root: str, engine: Engine) -> None:
    """Assert that nothing of the other engine is left after a conversion that was begun anew."""
    assert not Path(root, "consumequeue.new").exists()
    if engine == "files":
        assert all(path.is_dir() for path in Path(root, "consumequeue").iterdir())


def test_only_a_closed_store_is_converted(tmp_path: Path) -> None:
    """Not one that is open, nor one that was killed, nor what is none."""
    root = str(tmp_path / "s")
    expected = made(root, "files")
    store = opened(root)
    with pytest.raises(StoreLocked):
        convert(DISK, root, "rocksdb")
    store.close()
    Path(root, "abort").write_text("1 sprocket\n")
    with pytest.raises(StoreFailed, match="sprocket store recover"):
        convert(DISK, root, "rocksdb")
    Path(root, "abort").unlink()
    with pytest.raises(ForeignStore, match="no store"):
        convert(DISK, str(tmp_path), "rocksdb")
    store = opened(root, "files")
    assert content(store) == expected
    store.close()


def test_a_topic_may_not_be_in_the_way(tmp_path: Path) -> None:
    """RocksDB needs some names; the store stays as it was."""
    root = str(tmp_path / "s")
    store = opened(root, "files")
    store.append(new("CURRENT"))
    store.write()
    store.close()
    with pytest.raises(DiskFailed, match="CURRENT is a topic"):
        convert(DISK, root, "rocksdb")
    store = opened(root, "files")
    assert store.queue_range("CURRENT", 0) == (0, 1)
    store.close()


def test_a_simulated_disk_keeps_its_files() -> None:
    """RocksDB cannot lie there, and the error says so."""
    disk = SimulatedDisk()
    store = Store.open(disk, "/s", StoreSettings.small(), FakeClock(), SMALL)
    store.append(new("topic"))
    store.write()
    store.close()
    with pytest.raises(EngineMissing, match="SimulatedDisk"):
        convert(disk, "/s", "rocksdb")
    store = Store.open(disk, "/s", StoreSettings.small(), FakeClock(), SMALL)
    assert store.queue_range("topic", 0) == (0, 1)
    with pytest.raises(EngineMissing, match="SimulatedDisk"):
        Store.open(
            SimulatedDisk(),
            "/s",
            StoreSettings.small(),
            FakeClock(),
            geometry.with_engine(SMALL, "rocksdb"),
        )
    assert PhysicalOffset(store.end) > 0
