"""Every intact record of a damaged store is in the new one, at its own place."""

from collections.abc import Callable
from random import Random

import pytest
from tests.recorded import Recorded
from tests.stores import ROOT, SMALL, filled, new, open_store

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import ForeignStore
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.repair import salvage
from sprocket.rocketmq.store.repair import salvager as module
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.repair.salvager import SalvageReport
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

NEW = "/new"
LOG = f"{ROOT}/commitlog"
SIZE = SMALL.log.segment_bytes


def closed(count: int = 60) -> SimulatedDisk:
    """A store of several log files that was stopped."""
    disk, store = filled(count)
    store.close()
    return disk


def records(disk: SimulatedDisk, root: str = ROOT) -> dict[int, bytes]:
    """Each record of the log by its place, without those that stand for others."""
    store = Store.open_read_only(disk, root)
    found = {int(offset): bytes(data) for offset, data in store.records()}
    store.close()
    return {offset: data for offset, data in found.items() if record.entry(data).queueable}


def salvaged(disk: SimulatedDisk) -> SalvageReport:
    """Salvage the store; nothing is wrong with the new one, and nothing new with the old one."""
    before = disk.contents()
    report = salvage(disk, ROOT, NEW, FakeClock())
    assert before == {path: data for path, data in disk.contents().items() if path in before}
    assert list(check(disk, NEW)) == []
    return report


def write(disk: SimulatedDisk, place: int, data: bytes) -> None:
    """Change some bytes of the log."""
    start = place // SIZE * SIZE
    disk.open(f"{LOG}/{start:020d}", write=True).write([data], place - start)


def test_a_whole_store_is_copied_whole() -> None:
    """Byte for byte in its log; nothing is left."""
    disk = closed()
    report = salvaged(disk)
    assert (report.records, report.left, report.lost) == (60, [], {})
    assert report.bytes == sum(map(len, records(disk).values()))
    for name in disk.list(LOG):
        assert read_file(disk, f"{LOG}/{name}") == read_file(disk, f"{NEW}/commitlog/{name}")


def _one(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    write(disk, whole[7] + 50, b"\xff")
    return [whole[7]]


def _several(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    write(disk, whole[3], bytes(whole[9] - whole[3]))
    return whole[3:9]


def _first(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    write(disk, 0, b"\xff")
    return whole[:1]


def _last(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    write(disk, whole[-2] + 90, b"\xff")
    write(disk, whole[-1] + 90, b"\xff")
    return whole[-2:]


def _end_of_file(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    lost = [place for place in whole if SIZE - 600 < place < SIZE]
    write(disk, lost[0], b"\xff" * (SIZE - lost[0]))
    return lost


def _file(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    disk.remove(f"{LOG}/{SIZE:020d}")
    return [place for place in whole if SIZE <= place < 2 * SIZE]


def _short_file(disk: SimulatedDisk, whole: list[int]) -> list[int]:
    disk.open(f"{LOG}/{SIZE:020d}", write=True).resize(1000)
    return [place for place in whole if SIZE + 1000 - 206 < place < 2 * SIZE]


Damaging = Callable[[SimulatedDisk, list[int]], list[int]]


@pytest.mark.parametrize(
    "damage", [_one, _several, _first, _last, _end_of_file, _file, _short_file]
)
def test_what_is_intact_keeps_its_place(damage: Damaging) -> None:
    """In the log and in its queue; the rest is told, and by queue how much of it there is."""
    disk = closed()
    whole = records(disk)
    lost = damage(disk, sorted(whole))
    report = salvaged(disk)
    expected = {place: data for place, data in whole.items() if place not in lost}
    assert records(disk, NEW) == expected
    assert report.records == len(expected)
    assert sum(report.lost.values()) == len(lost)
    assert all(any(one.start <= place < one.end for one in report.left) for place in lost)
    store = Store.open(disk, NEW, open_store(SimulatedDisk()).settings, FakeClock())
    for place, data in expected.items():
        entry = record.entry(data)
        got = store.get_messages(entry.topic, entry.queue_id, entry.queue_offset, max_count=1)
        assert [bytes(one) for one in got.records] == [data]
        assert place in store.find(entry.topic, entry.keys[0]).offsets
    assert [kept.max for _topic, _queue, kept in store.queues()] == [30, 30]
    assert store.append(new("topic", 0)).physical_offset >= max(whole)
    store.close()


@pytest.mark.parametrize("left", [0, 1, 20, 100])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_a_record_stands_for_an_end_that_is_lost(count: int, left: int) -> None:
    """However little is left of it: fillers in queues have a reason, and go on having one."""
    disk = closed(62)
    whole = sorted(records(disk))
    place = whole[-count] + left
    for start in range(place // SIZE * SIZE, whole[-1] + 1, SIZE):
        disk.open(f"{LOG}/{start:020d}", write=True).resize(max(place - start, 0))
        disk.open(f"{LOG}/{start:020d}", write=True).resize(SIZE)
    assert salvaged(disk).records == 62 - count
    store = Store.open(disk, NEW, open_store(SimulatedDisk()).settings, FakeClock())
    for queue_id in range(2):
        assert store.append(new("topic", queue_id)).queue_offset == 31
    store.write()
    store.sync()
    store.close()
    assert list(check(disk, NEW)) == []


def test_long_damage_is_padded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nobody who reads a padding record needs much memory."""
    monkeypatch.setattr(module, "PADDING_BYTES_MAX", 300)
    for size in range(1, 12):
        disk = closed()
        whole = sorted(records(disk))
        write(disk, whole[2], bytes(whole[2 + size] - whole[2]))
        assert salvaged(disk).records == 60 - size


def test_tables_are_copied() -> None:
    """From their backup if they cannot be read; what neither can tell is said."""
    disk = closed()
    for name, data in (
        ("topics.json", b'{"topicConfigTable":{"topic":{}}}'),
        ("a.json", b"{"),
        ("a.json.bak", b'{"a":{0:1}}'),
        ("b.json", b"["),
        ("sprocket.offsets", b"journal"),
    ):
        replace_file(disk, f"{ROOT}/config/{name}", data)
    report = salvaged(disk)
    assert (report.tables, report.tables_left) == (["a.json", "topics.json"], ["b.json"])
    assert read_file(disk, f"{NEW}/config/a.json") == b'{"a":{0:1}}'
    assert read_file(disk, f"{NEW}/config/sprocket.offsets") == b"journal"


def test_nothing_is_written_over() -> None:
    """The target is new or empty, and the source a store."""
    disk = closed()
    disk.make_folder(NEW)
    assert salvage(disk, ROOT, NEW, FakeClock()).records == 60
    with pytest.raises(ForeignStore, match="expected a new or an empty folder"):
        salvage(disk, ROOT, NEW, FakeClock())
    with pytest.raises(ForeignStore, match="there is no store"):
        salvage(disk, "/none", "/other", FakeClock())
    with pytest.raises(ForeignStore, match="outside of the store"):
        salvage(disk, ROOT, f"{ROOT}/new", FakeClock())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("01-basic", "03-torn", "14-retention", "15-rewritten-tail"),
        *("10b-cq-ext-sql", "10c-lmq", "10d-batch-cq"),
    ],
)
def test_stores_of_rocketmq_are_salvaged(name: str) -> None:
    """With records damaged here and there."""
    recorded = Recorded(name)
    disk = recorded.in_memory()
    store = Store.open_read_only(disk, ROOT, recorded.geometry)
    whole = {int(place): bytes(data) for place, data in store.records()}
    store.close()
    places = sorted(whole)
    lost = Random(5).sample(places[:-1], 10)
    size = recorded.geometry.log.segment_bytes
    for place in lost:
        start = place // size * size
        path = f"{LOG}/{start:020d}"
        disk.open(path, write=True).write([b"\xff\xff"], place - start + 5)
    report = salvage(disk, ROOT, NEW, FakeClock(), recorded.geometry)
    assert report.records == len(whole) - 10
    assert list(check(disk, NEW)) == []
    found = records(disk, NEW)
    expected = {place: data for place, data in whole.items() if place not in lost}
    assert {p: d for p, d in expected.items() if record.entry(d).queueable} == found
