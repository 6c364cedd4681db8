"""Units that do not agree with the log are named, those that only look so are not."""

import struct

import pytest
from tests.stores import ROOT, SMALL, filled, new, open_store

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.store.queue import QUEUE_UNIT
from sprocket.rocketmq.store.queue.queue import FILLER
from sprocket.rocketmq.store.repair import Finding, Rule
from sprocket.rocketmq.store.repair.check import check
from sprocket.testing.disk import SimulatedDisk

FOLDER = f"{ROOT}/consumequeue/topic/0"
PER_FILE = SMALL.queue.units_per_file


def closed(count: int = 60) -> SimulatedDisk:
    """A store with queues of three files."""
    disk, store = filled(count)
    store.close()
    assert len(disk.list(FOLDER)) == 3
    return disk


def findings(disk: SimulatedDisk) -> list[Finding]:
    """What is wrong with it."""
    return list(check(disk, ROOT))


def put(disk: SimulatedDisk, offset: int, data: bytes) -> None:
    """Write bytes where the unit of a queue offset lies."""
    start = offset // PER_FILE * PER_FILE
    disk.open(f"{FOLDER}/{start * 20:020d}", write=True).write([data], (offset - start) * 20)


@pytest.mark.parametrize(
    ("offset", "data", "rule"),
    [
        (11, struct.pack(">qiq", 5, 90, 0), Rule.QUEUE_UNIT),
        (11, FILLER, Rule.QUEUE_UNIT),
        (29, bytes(20), Rule.QUEUE_MISSING),
        (0, bytes(20), Rule.QUEUE_MISSING),
    ],
)
def test_a_wrong_unit_is_named(offset: int, data: bytes, rule: Rule) -> None:
    """By its file, its place in it, and its record."""
    disk = closed()
    put(disk, offset, data)
    (finding,) = findings(disk)
    assert rule is finding.rule
    assert f"{FOLDER}/{offset // PER_FILE * PER_FILE * 20:020d}" == finding.path
    assert offset % PER_FILE * 20 == finding.position
    assert finding.record >= 0


def test_units_behind_the_last_record_are_named() -> None:
    """One that points behind the log, one inside it, and a filler that stands for nothing."""
    disk, store = filled(50)
    store.close()
    place = 1 << 20
    for offset, data in ((25, struct.pack(">qiq", place, 100, 0)), (26, FILLER)):
        put(disk, offset, data)
    found = findings(disk)
    assert [finding.rule for finding in found] == [Rule.QUEUE_STRAY, Rule.QUEUE_FILLER]
    assert place == found[0].record


@pytest.mark.parametrize("name", ["", f"/{0:020d}", f"/{PER_FILE * 20:020d}"])
def test_missing_files_are_named_once(name: str) -> None:
    """A whole queue, or a file of it: one finding says which units."""
    disk = closed()
    if name:
        disk.remove(FOLDER + name)
    else:
        disk.remove_tree(FOLDER)
    missing = [finding for finding in findings(disk) if finding.rule is Rule.QUEUE_MISSING]
    assert len(missing) == 1
    assert "units " in missing[0].expected


def test_a_file_of_another_length_is_named() -> None:
    """And its units are read as far as they go."""
    disk = closed()
    disk.open(f"{FOLDER}/{PER_FILE * 20:020d}", write=True).resize(100)
    assert {Rule.FILE_SIZE, Rule.QUEUE_MISSING} == {finding.rule for finding in findings(disk)}


def test_a_topic_that_was_deleted_has_no_queues() -> None:
    """If the table of topics does not know it."""
    disk = closed()
    disk.remove_tree(f"{ROOT}/consumequeue/topic")
    assert len(findings(disk)) == 2
    file = disk.open(f"{ROOT}/config/topics.json", write=True, create=True)
    file.write([b'{"topicConfigTable":{"other":{}}}'], 0)
    assert findings(disk) == []


@pytest.mark.parametrize("second_life", [5, 12])
def test_a_topic_that_was_made_again_uses_its_offsets_again(second_life: int) -> None:
    """Old records have no units any more, or those of later ones."""
    disk = SimulatedDisk()
    open_store(disk).close()
    log = units = b""
    for offset in (*range(10), *range(second_life)):
        units = units if offset else b""
        data = record.encode(
            new("topic", 0, b"x"),
            queue_offset=offset,
            physical_offset=len(log),
            stored_at_ms=5_000 + len(log),
            crc_tail=True,
        )
        units += QUEUE_UNIT.pack(len(log), len(data), hash32("T"))
        log += data
    for path, content, size in (
        (f"{ROOT}/commitlog/{0:020d}", log, SMALL.log.segment_bytes),
        (f"{FOLDER}/{0:020d}", units[: PER_FILE * 20], PER_FILE * 20),
        (f"{FOLDER}/{PER_FILE * 20:020d}", units[PER_FILE * 20 :], PER_FILE * 20),
    ):
        disk.make_folder(path.rpartition("/")[0])
        disk.open(path, write=True, create=True, size=size).write([content], 0)
    assert findings(disk) == []
    put(disk, 3, bytes(20))
    assert [finding.rule for finding in findings(disk)] == [Rule.QUEUE_MISSING]


def test_a_damaged_record_excuses_its_unit() -> None:
    """Recovery puts a filler in its place, which is excused as well."""
    disk = closed()
    file = disk.open(f"{ROOT}/commitlog/{0:020d}", write=True)
    (size,) = struct.unpack(">i", file.read(0, 4))
    file.write([b"\xff"], size + 90)
    assert {Rule.LOG_RECORD} == {finding.rule for finding in findings(disk)}
    disk.open(f"{ROOT}/abort", write=True, create=True)
    disk.remove(f"{ROOT}/checkpoint")
    store = open_store(disk)
    assert len(store.report.damage) == 1
    store.close()
    assert findings(disk) == []
