"""A check in parts finds what a check of the whole does, wherever the log is cut."""

import random
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest
from tests.recorded import CASES, ROCKSDB, Recorded
from tests.stores import ROOT, SMALL, filled, maintain, new, open_store

from sprocket.base.disk import Disk, RealDisk, replace_file, steps
from sprocket.base.errors import FileMissing, ForeignStore
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.store.index.index_file import IndexFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.repair import Finding, Rule, parts_check
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.repair.parts_check import CheckedPart, PartReport, PartsCheck, Round
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


def in_parts(
    disk: Disk, root: str, places: Iterable[int], geometry: Geometry | None = None
) -> tuple[list[Finding], PartsCheck]:
    """Check a store whose log is cut at some places."""
    parts = PartsCheck(disk, root, geometry, with_index=True)
    parts.cut(places)
    for asked in islice(parts.rounds(), 100):
        asked.reports = [parts_check.check_part(disk, root, part, geometry) for part in asked.parts]
    return list(parts.findings()), parts


def told(findings: Iterable[Finding]) -> list[str]:
    """Return findings in an order of their own."""
    return sorted(map(repr, findings))


def closed(count: int = 60) -> SimulatedDisk:
    """A store of several files of each kind that was stopped."""
    disk, store = filled(count)
    maintain(store)
    store.close()
    return disk


def starts(disk: Disk, root: str = ROOT, geometry: Geometry | None = None) -> list[int]:
    """Return where the records of a sound log begin."""
    parts = PartsCheck(disk, root, geometry)
    parts.cut(())
    places = []
    for part in next(parts.rounds(), Round("", ())).parts:
        assert isinstance(part, CheckedPart)
        at = part.start
        while at < part.until:
            report = parts_check.check_part(disk, root, CheckedPart(at, at + 1), geometry)
            if report.end <= at:
                break
            places += [at] * report.records
            at = report.end
    return places


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_recorded_store_is_checked_in_parts_as_it_is_whole(name: str, tmp_path: Path) -> None:
    """Stopped or killed, with remains behind its end or without; cut anywhere."""
    recorded, draw = Recorded(name), random.Random(name)
    if name in ROCKSDB:
        pytest.importorskip("rocksdict")
    disk, root = RealDisk(), recorded.unpack(tmp_path)
    size = sum(line["store_size"] for line in recorded.records)
    places = [draw.randrange(size) for _ in range(3)]
    places += [
        line["phys"] for line in draw.sample(recorded.records, min(4, len(recorded.records)))
    ]
    found, _parts = in_parts(disk, root, places, recorded.geometry)
    assert told(check(disk, root, recorded.geometry)) == told(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01-basic", "09-index", "10a-crc-tail", "15-rewritten-tail"])
def test_damage_is_found_in_parts_as_in_the_whole(name: str) -> None:
    """More and more bytes are changed, here and there, and the log is cut at other places."""
    recorded, draw = Recorded(name), random.Random(5)
    disk = recorded.in_memory()
    kinds = ("/commitlog/", "queue/", "/index/")
    files = [path for path in disk.contents() if any(kind in path for kind in kinds)]
    places = [line["phys"] for line in recorded.records]
    for _ in range(6):
        file = disk.open(draw.choice(files), write=True)
        position = draw.randrange(file.data_end() or 1)
        (byte,) = file.read(position, 1)
        file.write([bytes([byte ^ 0x10])], position)
        cuts = draw.sample(places, 5) + [draw.randrange(places[-1]) for _ in range(2)]
        found, _parts = in_parts(disk, ROOT, cuts, recorded.geometry)
        assert told(check(disk, ROOT, recorded.geometry)) == told(found)


def test_a_damaged_table_of_deleted_topics_stops_no_part() -> None:
    """It is told with the other tables."""
    disk = closed(20)
    replace_file(disk, StoreLayout(ROOT).deleted_topics, b"{")
    found, _parts = in_parts(disk, ROOT, starts(disk)[5:6])
    assert [one.path for one in found] == [StoreLayout(ROOT).deleted_topics]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_sound_index_needs_no_further_scan(name: str) -> None:
    """The entries of each part follow those of the one before, in whichever file they are."""
    recorded, draw = Recorded(name), random.Random(name)
    disk = recorded.in_memory()
    if recorded.is_rocksdb or not disk.exists(StoreLayout(ROOT).commitlog):
        pytest.skip("nothing in memory reads a RocksDB")
    if list(check(disk, ROOT, recorded.geometry)) or disk.exists(StoreLayout(ROOT).abort):
        pytest.skip("its end is not as a stop leaves it")
    places = [line["phys"] for line in recorded.records]
    _, parts = in_parts(disk, ROOT, draw.sample(places, 5), recorded.geometry)
    assert parts.index_rest() is None


def test_the_entries_of_a_sound_index_follow_each_other_wherever_the_log_is_cut() -> None:
    """At each record, those included that are the last of their file of the index."""
    disk = closed(40)
    for place in starts(disk)[1:]:
        _found, parts = in_parts(disk, ROOT, [place])
        assert parts.index_rest() is None


def test_a_sound_log_is_read_once_and_counted() -> None:
    """Every record is in one part; the parts join up."""
    disk = closed()
    places = starts(disk)
    found, parts = in_parts(disk, ROOT, places[5::10])
    reports = parts.reports()
    assert found == []
    assert len(places) == sum(report.records for report in reports)
    assert [report.end for report in reports[:-1]] == [report.start for report in reports[1:]]
    assert (places[0], places[-1]) == (reports[0].first, reports[-1].last)
    assert sum(report.bytes for report in reports) == sum(
        report.bytes for report in in_parts(disk, ROOT, ())[1].reports()
    )


def test_a_part_that_began_inside_of_a_record_is_checked_again() -> None:
    """Where the part before it ended; nobody takes the bytes of a body for damage."""
    disk = closed()
    place = starts(disk)[7] + 30
    parts = PartsCheck(disk, ROOT)
    parts.cut([place, place + 5])  # nothing begins in the second part
    checked: list[CheckedPart] = []
    for asked in parts.rounds():
        checked += [part for part in asked.parts if isinstance(part, CheckedPart)]
        asked.reports = [parts_check.check_part(disk, ROOT, part) for part in asked.parts]
    assert starts(disk)[8] in [part.start for part in checked]
    assert all(part.start < part.until for part in checked)
    assert list(parts.findings()) == []


def test_the_log_ends_where_the_scan_says_whatever_lies_behind() -> None:
    """A part behind the end of the log is none, though whole records of another life lie there."""
    disk, store = filled(20)
    store.close()
    places = starts(disk)
    behind = 3 * SMALL.log.segment_bytes
    folder = StoreLayout(ROOT).commitlog
    size = SMALL.log.segment_bytes
    start = places[-1] // size * size
    file = disk.open(f"{folder}/{start:020d}", write=True)
    position = places[10] - start if places[10] >= start else places[-1] - start
    file.write([bytes(8)], position)
    found, parts = in_parts(disk, ROOT, [places[-1], behind, behind + size])
    assert told(check(disk, ROOT)) == told(found)
    reports = parts.reports()
    assert reports[-1].end <= places[-1] + 2 * size
    assert [report.end for report in reports[:-1]] == [report.start for report in reports[1:]]


def test_a_missing_file_is_a_break_of_the_part_before() -> None:
    """With the words that a check of the whole has."""
    disk = closed()
    disk.remove(f"{ROOT}/commitlog/{SMALL.log.segment_bytes:020d}")
    found, _parts = in_parts(disk, ROOT, starts(closed())[3::7])
    assert Rule.FILE_NAME in {one.rule for one in found}
    assert told(check(disk, ROOT)) == told(found)


@pytest.mark.parametrize("is_all", [False, True])
def test_a_queue_that_is_gone_is_found(is_all: bool) -> None:
    """Whole or in part: what only all parts together can tell."""
    disk = closed()
    folder = f"{ROOT}/consumequeue/topic/0"
    for name in disk.list(folder) if is_all else disk.list(folder)[-1:]:
        disk.remove(f"{folder}/{name}")
    found, _parts = in_parts(disk, ROOT, starts(disk)[5::20])
    assert found
    assert told(check(disk, ROOT)) == told(found)


def test_a_file_that_goes_meanwhile_is_told_to_who_asked() -> None:
    """A running broker cleans up; its store is looked at again then, and nothing is damage."""
    disk = closed()
    gone = f"{ROOT}/consumequeue/topic/0/{0:020d}"

    def before(call: str, path: str) -> None:
        if call == "read" and path == gone:
            raise FileMissing(gone)

    disk.before = before
    with pytest.raises(FileMissing):
        parts_check.check_part(disk, ROOT, CheckedPart(0, SMALL.log.segment_bytes))


def test_entries_behind_those_of_the_last_part_are_found() -> None:
    """In a file of their own, so that no part has looked at it."""
    disk = closed(20)
    assert in_parts(disk, ROOT, starts(disk)[5::5])[0] == []
    path = f"{ROOT}/index/{disk.list(f'{ROOT}/index')[-1]}"
    more = IndexFile(disk, f"{ROOT}/index/{9 * 10**16}", SMALL.index, write=True)
    disk.open(more.path, write=True, create=True, size=disk.size(path)).close()
    more.put([7], [1 << 20], [1_700_000_000_000])
    steps.run(more.flush_steps(slots=True))
    more.release()
    found, _parts = in_parts(disk, ROOT, starts(disk)[5::5])
    assert Rule.INDEX_STRAY in {one.rule for one in found}
    assert told(check(disk, ROOT)) == told(found)


def test_an_index_of_one_record_that_is_lost_is_missed() -> None:
    """It had the first record of the log, at 0; a store that keeps no index had none."""
    disk = closed(1)
    disk.remove_tree(f"{ROOT}/index")
    found, _parts = in_parts(disk, ROOT, ())
    assert [one.rule for one in found] == [Rule.INDEX_MISSING]
    assert told(check(disk, ROOT)) == told(found)


def test_batch_queues_are_checked_too() -> None:
    """In one scan, as they can only be held against the log in its order."""
    disk = SimulatedDisk()
    store = open_store(disk)
    store.batch_topics.add("batch")
    for number in range(9):
        store.append(new("batch", 0, b"body", name=f"N{number}"))
    store.write()
    store.close()
    assert in_parts(disk, ROOT, starts(disk)[3::4])[0] == []
    unit = disk.open(f"{ROOT}/batchconsumequeue/batch/0/{0:020d}", write=True)
    unit.write([b"\x31"], 8)
    found, _parts = in_parts(disk, ROOT, starts(disk)[3::4])
    assert [one.rule for one in found] == [Rule.QUEUE_UNIT]
    assert told(check(disk, ROOT)) == told(found)
    disk.spoil(f"{ROOT}/batchconsumequeue/batch/0/{0:020d}", 0, 100)
    found, _parts = in_parts(disk, ROOT, starts(disk)[3::4])
    assert [one.rule for one in found] == [Rule.FILE_READ]
    assert told(check(disk, ROOT)) == told(found)


def test_a_queue_that_cannot_be_read_is_told_once() -> None:
    """However many parts would have read it; no unit is missed then."""
    disk = closed()
    path = f"{ROOT}/consumequeue/topic/0/{0:020d}"
    disk.spoil(path, 0, 200)
    found, _parts = in_parts(disk, ROOT, starts(closed())[1::2])
    for findings in (found, [*check(disk, ROOT)]):
        assert [(one.rule, one.path) for one in findings] == [(Rule.FILE_READ, path)]


def test_a_unit_of_the_damaged_end_is_no_stray() -> None:
    """What is damaged behind the last record is known when the queues end."""
    disk = closed()
    place = starts(disk)[-1]
    size = SMALL.log.segment_bytes
    file = disk.open(f"{ROOT}/commitlog/{place // size * size:020d}", write=True)
    file.write([b"\xff"], place % size + 90)
    found, _parts = in_parts(disk, ROOT, starts(closed())[3::7])
    assert {one.rule for one in found} == {Rule.LOG_RECORD}
    assert told(check(disk, ROOT)) == told(found)


@pytest.mark.parametrize("position", [0, 40, 40 + 4 * SMALL.index.slots + 20])
def test_an_index_file_that_cannot_be_read_is_told_once(position: int) -> None:
    """By its header, a slot or a unit; however many parts would have read it."""
    disk = closed()
    path = f"{ROOT}/index/{disk.list(f'{ROOT}/index')[0]}"
    disk.spoil(path, position, 1)
    found, _parts = in_parts(disk, ROOT, starts(closed())[3::7])
    for findings in (found, [*check(disk, ROOT)]):
        assert [(one.rule, one.path) for one in findings] == [(Rule.FILE_READ, path)]


@pytest.mark.parametrize("cut", [4, 5])
def test_a_wrong_place_in_its_queue_is_told_from_damage_by_the_part_before(cut: int) -> None:
    """A record with one wrong bit in its queue offset, first or second of its part."""
    disk = closed(20)
    places = starts(disk)
    file, position = disk.open(f"{ROOT}/commitlog/{0:020d}", write=True), places[5] + 20
    file.write([bytes([file.read(position, 1)[0] ^ 0x10])], position)
    found, _parts = in_parts(disk, ROOT, [places[cut]])
    assert [one.expected for one in found] == ["its place in its queue, 2"]
    assert told(check(disk, ROOT)) == told(found)


def test_wrong_checksums_are_counted() -> None:
    """A body that was changed is a break, and told as a wrong checksum."""
    disk = closed()
    place = starts(disk)[4]
    disk.open(f"{ROOT}/commitlog/{0:020d}", write=True).write([b"\xff"], place + 90)
    _found, parts = in_parts(disk, ROOT, ())
    assert [report.wrong_checksums for report in parts.reports() if report.damage] == [1]


def test_what_is_too_much_to_tell_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of one part have a limit, and what it costs is said."""
    disk = closed()
    for place in starts(disk)[1:12:2]:
        disk.open(f"{ROOT}/commitlog/{0:020d}", write=True).write([b"\xff"], place + 90)
    monkeypatch.setattr(parts_check, "FINDINGS_MAX", 2)
    report: PartReport = parts_check.check_part(disk, ROOT, CheckedPart(0, SMALL.log.segment_bytes))
    assert (len(report.findings), report.left_out > 0) == (2, True)


def test_an_empty_store_has_no_parts() -> None:
    """And nothing is wrong with it."""
    disk = SimulatedDisk()
    open_store(disk).close()
    found, parts = in_parts(disk, ROOT, ())
    assert ([], told(check(disk, ROOT))) == (
        [one for one in parts.reports() if one.records],
        told(found),
    )


def test_what_is_no_store_is_refused() -> None:
    """As by the check of the whole."""
    with pytest.raises(ForeignStore, match="there is no store"):
        PartsCheck(SimulatedDisk(), "/nothing")


def test_a_topic_that_was_made_again_is_followed_over_parts() -> None:
    """Its offsets begin again in a part behind; units that are missing before it are none."""
    disk = SimulatedDisk()
    clock = FakeClock()
    store = open_store(disk, clock=clock)
    for life in range(2):
        for number in range(9):
            store.append(new("again", 0, b"body", name=f"{life}-{number}"))
            clock.advance(1000)
            store.write()
        store.sync()
        store.dispatch()
        if not life:
            for step in store.delete_topic_steps("again", lambda: None):
                step()
    store.close()
    found, _parts = in_parts(disk, ROOT, starts(disk)[3::4])
    assert told(check(disk, ROOT)) == told(found)
