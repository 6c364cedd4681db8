"""The scan of a check over the log's files."""

import pytest
from tests.stores import ROOT, SMALL, filled, new

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.consistency import (
    CheckedLog,
    Finding,
    LogCheck,
    Rule,
    compare,
    log_segments,
)
from sprocket.testing.disk import SimulatedDisk

FOLDER = f"{ROOT}/commitlog"
SIZE = SMALL.log.segment_bytes
LAST_BYTES = 206
"""Of the last of sixty records."""


def closed(count: int = 60) -> SimulatedDisk:
    """A store of several log files."""
    disk, store = filled(count)
    store.close()
    assert len(disk.list(FOLDER)) > 2
    return disk


def scanned(disk: SimulatedDisk, *, is_open: bool = False) -> tuple[CheckedLog, list[Finding]]:
    """Scan the log; return what was found."""
    segments, findings = log_segments(disk, FOLDER, SIZE)
    scan = LogCheck(segments, is_open=is_open)
    findings += compare(scan.rounds(), [scan])
    return scan.log, findings


def write(disk: SimulatedDisk, place: int, data: bytes) -> None:
    """Change some bytes of the log."""
    start = place // SIZE * SIZE
    disk.open(f"{FOLDER}/{start:020d}", write=True).write([data], place - start)


def test_a_whole_log_has_no_findings() -> None:
    """And the scan ends where the log does."""
    log, findings = scanned(closed())
    assert findings == []
    assert log.entry_at(log.end - LAST_BYTES) is not None


def test_damage_is_named_and_scanned_past() -> None:
    """A record, the blank at the end of a file, and a whole file."""
    disk = closed()
    whole, _ = scanned(closed())
    record = whole.entry_at(0)
    assert record is not None
    write(disk, record.size + 40, b"\xff")
    log, findings = scanned(disk)
    assert [(Rule.LOG_RECORD, record.size)] == [(f.rule, f.record) for f in findings]
    assert (whole.end, True, False) == (
        log.end,
        log.is_damaged(record.size + 5),
        log.is_damaged(record.size - 1),
    )
    assert (log.is_damaged(2 * record.size - 1), log.is_damaged(2 * record.size)) == (True, False)
    assert log.is_broken(record.size, 2 * record.size)
    assert not log.is_broken(2 * record.size, 3 * record.size)
    assert log.entry_at(record.size) is None
    assert log.where(SIZE + 3) == (f"{FOLDER}/{SIZE:020d}", 3)


def test_files_of_other_names_and_lengths_are_named() -> None:
    """What they hold is read as far as it goes."""
    disk = closed()
    disk.open(f"{FOLDER}/notes.txt", write=True, create=True, size=9)
    disk.open(f"{FOLDER}/{SIZE:020d}", write=True).resize(SIZE // 2)
    log, findings = scanned(disk)
    assert {Rule.FILE_NAME, Rule.FILE_SIZE, Rule.LOG_RECORD} == {f.rule for f in findings}
    assert log.end > 2 * SIZE


def test_a_missing_file_is_named() -> None:
    """The records behind it are read."""
    disk = closed()
    disk.remove(f"{FOLDER}/{SIZE:020d}")
    log, findings = scanned(disk)
    assert f"the file {SIZE:020d} before it" in [f.expected for f in findings]
    assert log.end > 2 * SIZE


def test_an_empty_last_file_was_being_made() -> None:
    """It is not a finding."""
    disk = closed()
    disk.open(f"{FOLDER}/{SIZE * len(disk.list(FOLDER)):020d}", write=True, create=True)
    assert scanned(disk)[1] == []


@pytest.mark.parametrize("is_open", [True, False])
def test_a_torn_end_is_named(is_open: bool) -> None:
    """Also while a broker writes, if it stays torn."""
    disk = closed()
    log, _ = scanned(disk)
    place = log.end - LAST_BYTES
    write(disk, place + 60, bytes(LAST_BYTES - 60))
    _, findings = scanned(disk, is_open=is_open)
    assert [place] == [f.record for f in findings]


def test_a_lone_time_out_of_line_is_named() -> None:
    """A clock that is set back stays so, and is not a finding."""
    disk, store = filled(20, crc_tail=False)
    store.close()
    log, _ = scanned(disk)
    first = log.entry_at(0)
    assert first is not None
    at = first.size + 56
    write(disk, at, b"\1")
    assert [(Rule.LOG_TIME, first.size)] == [(f.rule, f.record) for f in scanned(disk)[1]]


def test_a_record_that_leaves_no_room_for_a_blank_is_named() -> None:
    """No broker writes one; a RocketMQ would not find the next file behind it."""
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    for left in (8, 7):
        size = SIZE - left - record.encoded_size(new(body=b""), crc_tail=False)
        stored = record.encode(
            new(body=bytes(size)),
            queue_offset=0,
            physical_offset=0,
            stored_at_ms=1,
            crc_tail=False,
        )
        disk.open(f"{FOLDER}/{0:020d}", write=True, create=True, size=SIZE).write([stored], 0)
        found = [(one.rule, one.expected) for one in scanned(disk)[1]]
        room = (Rule.LOG_ROOM, f"an end at {SIZE - 8} or before")
        assert (room in found) == (left < 8), found
