"""Each way in which an index file can disagree with itself or with the log is named."""

import struct

import pytest
from tests.stores import ROOT, SMALL, filled, filled_parts

from sprocket.base.disk import steps
from sprocket.rocketmq.store.repair import Finding, Rule
from sprocket.rocketmq.store.repair.check import check
from sprocket.testing.disk import SimulatedDisk

FOLDER = f"{ROOT}/index"
UNITS_AT = 40 + 4 * SMALL.index.slots


def closed(count: int = 60) -> SimulatedDisk:
    """A store with two index files."""
    disk, store = filled(count)
    store.close()
    assert len(disk.list(FOLDER)) == 2
    return disk


def findings(disk: SimulatedDisk) -> list[Finding]:
    """What is wrong with it."""
    return list(check(disk, ROOT))


def unit(number: int) -> int:
    """Where a unit lies."""
    return UNITS_AT + 20 * number


@pytest.mark.parametrize(
    ("position", "data", "broken"),
    [
        (16, b"\0" * 7 + b"\7", {Rule.INDEX_HEADER}),
        (24, b"\x7f", {Rule.INDEX_HEADER}),
        (32, b"\0\0\0\3", {Rule.INDEX_HEADER}),
        (40, b"\0\0\0\1", {Rule.INDEX_CHAIN}),
        (unit(5) + 16, b"\0\0\0\4", {Rule.INDEX_CHAIN}),
        (unit(5) + 12, b"\0\0\1\0", {Rule.INDEX_STRAY}),
        (unit(5) + 4, b"\x7f", {Rule.INDEX_STRAY, Rule.INDEX_MISSING}),
        (unit(5), b"\xff", {Rule.INDEX_CHAIN, Rule.INDEX_STRAY, Rule.INDEX_MISSING}),
    ],
)
def test_what_is_wrong_in_a_file_is_named(position: int, data: bytes, broken: set[Rule]) -> None:
    """Header, slots, and each field of a unit."""
    disk = closed()
    path = f"{FOLDER}/{disk.list(FOLDER)[0]}"
    disk.open(path, write=True).write([data], position)
    found = findings(disk)
    assert broken <= {finding.rule for finding in found}
    assert path in {finding.path for finding in found}


def test_a_count_beyond_the_file_is_named() -> None:
    """What lies in the file is read all the same."""
    disk = closed()
    path = f"{FOLDER}/{disk.list(FOLDER)[0]}"
    disk.open(path, write=True).write([struct.pack(">i", 1 << 20)], 36)
    assert Rule.INDEX_HEADER in {finding.rule for finding in findings(disk)}


def test_a_file_of_another_length_is_named() -> None:
    """Its keys are missing then."""
    disk = closed()
    disk.open(f"{FOLDER}/{disk.list(FOLDER)[1]}", write=True).resize(50)
    assert {Rule.FILE_SIZE, Rule.INDEX_MISSING} == {finding.rule for finding in findings(disk)}


def test_a_blank_file_holds_nothing() -> None:
    """RocketMQ makes one when the one before is full, and writes its header later."""
    disk, store = filled(39)
    store.close()
    assert len(disk.list(FOLDER)) == 1
    size = SMALL.index.file_bytes
    disk.open(f"{FOLDER}/99990101000000000", write=True, create=True, size=size)
    assert findings(disk) == []


def test_rows_of_wrong_entries_are_one_finding() -> None:
    """From the first to the last."""
    disk = closed()
    path = f"{FOLDER}/{disk.list(FOLDER)[1]}"
    file = disk.open(path, write=True)
    for number in (3, 4, 5):
        file.write([struct.pack(">q", 1 << 40)], unit(number) + 4)
    rows = [one.expected for one in findings(disk) if one.rule is not Rule.INDEX_CHAIN]
    assert rows[0] == "records with the keys of entries 3 to 5"
    assert rows[1].startswith("the keys of 3 records from ")
    assert len(rows) == 2


def test_entries_of_records_that_were_cleaned_away_do_not_count() -> None:
    """The index may outlive the log's oldest file."""
    disk, store, opened = filled_parts(60)
    steps.run(opened.parts.files.drop_before_steps(SMALL.log.segment_bytes))
    store.close()
    assert disk.list(f"{ROOT}/commitlog")[0] == f"{SMALL.log.segment_bytes:020d}"
    indexes = [found for found in findings(disk) if found.path.startswith(FOLDER)]
    assert indexes == []


def test_an_entry_that_points_far_ahead_is_one_stray_and_its_record_lacks_one() -> None:
    """Those behind it are where they should be."""
    disk = closed()
    path = f"{FOLDER}/{disk.list(FOLDER)[0]}"
    disk.open(path, write=True).write([b"\x7f"], unit(5) + 4)
    assert [(found.rule, found.expected) for found in findings(disk)] == [
        (Rule.INDEX_STRAY, "records with the keys of entries 5 to 5"),
        (Rule.INDEX_MISSING, "the keys of 1 records from 780 to 780"),
    ]
