"""A scan finds the same many at a time and one by one, in whole logs and in damaged ones."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import repetition, strategies
from tests.recorded import CASES, Recorded
from tests.stores import filled, log_files, overwrite

from sprocket.base.disk import RealDisk, SegmentFiles
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.index import key_index
from sprocket.rocketmq.store.log import LogScanner, log_scanner
from sprocket.rocketmq.store.queue import UnitAssigner
from sprocket.rocketmq.store.read import OffsetRange
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FOLDER = "/log"

BY_DAY = ("02-kill9-load", "09-index", "10a-crc-tail", "11a-ipv6-store-host", "15-rewritten-tail")


def _many(scan: LogScanner) -> Iterator[Entry]:
    return (entry for batch in scan.batches() for entry in batch.entries())


def _seen(
    files: SegmentFiles, start: int, way: Callable[[LogScanner], Iterator[Entry]], **options: Any
) -> dict[str, Any]:
    """Return all that a scan gives and says."""
    known: dict[tuple[str, int], int] = {}
    found = LogScanner(files.segments, start, next_offsets=known, **options)
    entries = list(way(found))
    told = {name: value for name, value in vars(found).items() if not name.startswith("_")}
    return {"entries": entries, "known": known, **told}


def assert_same(files: SegmentFiles, start: int = 0, **options: Any) -> list[int]:
    """Scan both ways; return where records begin."""
    options = {"check_crc": True, **options}
    quick = _seen(files, start, _many, **options)
    plain = _seen(files, start, iter, **options)
    assert quick == plain
    return [entry.physical_offset for entry in plain["entries"]]


def _copied(source: SegmentFiles, size: int) -> tuple[SimulatedDisk, SegmentFiles]:
    """Return the log's files on a simulated disk, where they may be damaged."""
    disk = SimulatedDisk()
    files = SegmentFiles(disk, FOLDER, size)
    for segment in source.segments:
        copy = files.add(segment.start)
        end = segment.file.data_end()
        copy.file.write([bytes(segment.view[:end])], 0)
    return disk, files


@pytest.mark.slow
@pytest.mark.parametrize("name", repetition.some(CASES, BY_DAY))
def test_recorded_logs_are_scanned_alike_at_once_and_one_by_one(name: str, tmp_path: Path) -> None:
    """As they were left, and with bytes changed in records, between them and at their ends."""
    case = Recorded(name)
    size = case.geometry.log.segment_bytes
    source = SegmentFiles(RealDisk(), f"{case.unpack(tmp_path)}/commitlog", size, write=False)
    source.load()
    starts = assert_same(source, source.first)
    first = next(LogScanner(source.segments, source.first, check_crc=True).batches())
    assert isinstance(first, RecordBatch)
    assert_same(source, source.first, check_crc=False)
    assert_same(source, source.first, until=starts[len(starts) // 2])
    random = Random(name)
    _, files = _copied(source, size)
    for _ in range(8):
        for _ in range(random.choice([1, 1, 3])):
            at = random.choice(starts) + random.choice([0, 1, 4, 20, 28, 28, 36, 40, 60, 90, 150])
            segment = files.segment(at)
            at = min(at, segment.end - 8)
            data = random.choice([b"\0", b"\xff", bytes(8), segment.view[:7].tobytes()])
            segment.file.write([data], at - segment.start)
        assert_same(files, files.first)
        assert_same(files, files.first, until=random.choice(starts))


@given(
    st.lists(strategies.new_records(), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=10, max_size=10),
    st.data(),
)
@settings(max_examples=60)
@pytest.mark.slow
def test_any_records_are_scanned_alike_at_once_and_one_by_one(
    records: list[NewRecord], steps: list[tuple[int, int]], draw: st.DataObject
) -> None:
    """With clocks set back, queue offsets taken twice, and a damaged byte or two."""
    data, at_ms = b"", 1_700_000_000_000
    for new, (passed_ms, queue_offset) in zip(records, steps, strict=False):
        at_ms += passed_ms
        data += record.encode(
            new,
            queue_offset=queue_offset,
            physical_offset=len(data),
            stored_at_ms=at_ms,
            crc_tail=draw.draw(st.booleans()),
        )
    files = SegmentFiles(SimulatedDisk(), FOLDER, 1 << 16)
    segment = files.add(0)
    segment.file.write([data], 0)
    assert_same(files)
    for _ in range(2):
        damaged = draw.draw(strategies.damages(data))
        segment.file.write([damaged, bytes(len(data) - min(len(data), len(damaged)))], 0)
        assert_same(files)


def _units(store: Store, topic: str, queue_id: int, offsets: OffsetRange) -> list[object]:
    return [store.units(topic, queue_id, offset, 1) for offset in range(*offsets)]


@pytest.mark.slow
@pytest.mark.parametrize("name", repetition.some(CASES, BY_DAY))
def test_recovery_leaves_the_same_files(name: str, tmp_path: Path) -> None:
    """Queues and index, made again from the whole log, have the same bytes."""
    left = []
    for way in ("quick", "plain"):
        case = Recorded(name)
        root = Path(case.unpack(tmp_path / way))
        for part in ("consumequeue", "index"):
            shutil.rmtree(root / part, ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            if way == "plain":
                patch.setattr(UnitAssigner, "are_records", lambda *_: False)
                patch.setattr(key_index, "ARRAY_KEYS_MIN", 1 << 30)
            clock = FakeClock(case.expected["stopped_at_ms"])
            store = Store.open(RealDisk(), str(root), StoreSettings(), clock, case.geometry)
        report = store.report
        assert report.units_rebuilt > 0
        is_files = case.geometry.queue.engine == "files"  # a database has its own mind about bytes
        ranges = list(store.queues())
        units = [_units(store, topic, queue_id, r) for topic, queue_id, r in ranges]
        store.close()
        files = {
            str(path.relative_to(root)): path.read_bytes()
            for part in ("consumequeue", "index", "commitlog")[not is_files :]
            for path in sorted((root / part).rglob("*"))
            if path.is_file()
        }
        made = report.units_rebuilt, report.index_entries_rebuilt, report.damage
        left.append((files, ranges, units, made))
    assert left[0] == left[1]


def test_much_damage_does_not_make_the_scan_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records behind damage are looked at in small numbers again, then in larger ones."""
    disk, store = filled(60)
    counts: list[int] = []
    real = columns.scan

    def noted(data: Any, start: int, end: int, count_max: int) -> Any:
        counts.append(count_max)
        return real(data, start, end, count_max)

    monkeypatch.setattr(columns, "scan", noted)
    for offset, _ in list(store.records())[::7]:
        overwrite(log_files(disk), offset + 4, b"\0")
    found = LogScanner(log_files(disk).segments, 0, check_crc=True)
    assert sum(len(batch) for batch in found.batches()) == 60 - 9
    assert counts[0] == log_scanner.BATCH
    assert max(counts[1:]) < log_scanner.BATCH // 8
