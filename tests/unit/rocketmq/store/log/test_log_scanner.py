"""A scan gives every intact record, steps over damage, and knows what is of an earlier life."""

from itertools import pairwise

import pytest
from tests.stores import filled, log_files, new, overwrite

from sprocket.base.disk import SegmentFiles, SegmentReader
from sprocket.rocketmq.codec.record import ScanStop, record
from sprocket.rocketmq.store.log import (
    LogScanner,
    Misplaced,
    glance,
    intact_entry,
    log_scanner,
)


def _log(count: int = 20) -> tuple[SegmentFiles, list[int], list[int]]:
    """The files of a log, and where its records begin and end."""
    disk, store = filled(count)
    starts: list[int] = [offset for offset, _ in store.records()]
    ends = [offset + len(data) for offset, data in store.records()]
    return log_files(disk), starts, ends


def _scan(files: SegmentFiles, start: int = 0, *, check_crc: bool = True) -> LogScanner:
    scan = LogScanner(files.segments, start, check_crc=check_crc)
    scan.found = [entry.physical_offset for entry in scan]  # type: ignore[attr-defined]
    return scan


def _found(scan: LogScanner) -> list[int]:
    return scan.found  # type: ignore[attr-defined, no-any-return]


def test_all_records_of_all_files() -> None:
    """From the first and from any other one."""
    files, starts, ends = _log(40)
    assert len(files) > 1
    whole = _scan(files)
    assert _found(whole) == starts
    assert (whole.end, whole.records, whole.damage) == (ends[-1], 40, [])
    assert (whole.last_start, whole.position) == (starts[-1], ends[-1])
    assert ScanStop.ZEROS.value in whole.why
    assert _found(_scan(files, starts[7])) == starts[7:]


@pytest.mark.parametrize("ahead", [1000, 5000, log_scanner.READ_AHEAD_BYTES])
def test_what_comes_next_is_read_beside(ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each file all that was written, in steps, none of it twice, and nothing behind."""
    monkeypatch.setattr(log_scanner, "READ_AHEAD_BYTES", ahead)
    monkeypatch.setattr(log_scanner, "BATCH", 1)
    files, _, _ = _log(40)
    asked: list[tuple[int, int]] = []
    for segment in files.segments:
        monkeypatch.setattr(
            segment.file,
            "start_reading",
            lambda at, size, start=segment.start: asked.append((start + at, start + at + size)),
        )
    found = LogScanner(files.segments, 100_000_000, check_crc=False)
    assert not list(found.batches())
    assert asked == []
    assert list(LogScanner(files.segments, 0, check_crc=False))
    assert asked == []
    assert list(LogScanner(files.segments, 0, check_crc=False, until=300).batches())
    assert asked.pop()[1] == 300
    found = LogScanner(files.segments, 0, check_crc=False)
    for _ in found.batches():
        assert asked[-1][1] - found.position < ahead
    assert asked == sorted(asked)
    assert all(end <= start for (_, end), (start, _) in pairwise(asked))
    ends = [s.start + s.file.data_end() for s in files.segments]
    assert [end for _, end in asked if end in ends] == ends
    starts = [start for start, _ in asked]
    assert [s.start for s in files.segments if s.start in starts] == [
        s.start for s in files.segments
    ]


def test_nothing_is_nothing() -> None:
    """Without files the log ends where the scan begins."""
    scan = LogScanner([], 77, check_crc=True)
    assert list(scan) == []
    assert (scan.end, scan.why) == (77, "there are no files")


@pytest.mark.parametrize("at", [0, 4, 8, 36, 88])
def test_one_damaged_record_is_stepped_over(at: int) -> None:
    """Whatever part of it is damaged."""
    files, starts, ends = _log()
    overwrite(files, starts[5] + at, b"\x7f\x01\x02\x03")
    scan = _scan(files)
    assert _found(scan) == starts[:5] + starts[6:]
    (damage,) = scan.damage
    assert (damage.start, damage.end) == (starts[5], ends[5])
    assert scan.end == ends[-1]


@pytest.mark.parametrize("number", [0, 5, 19])
def test_a_record_that_names_another_place_is_kept(number: int) -> None:
    """If all but that is in order: it follows the one before it, and the next one follows it."""
    files, starts, ends = _log()
    overwrite(files, starts[number] + 28, (1 << 40).to_bytes(8, "big"))
    for found in (_scan(files), _scan(files, check_crc=False)):
        assert _found(found) == starts
        assert found.misplaced == [Misplaced(starts[number], 1 << 40)]
        assert (found.damage, found.end, found.records) == ([], ends[-1], 20)
    batches = LogScanner(files.segments, 0, check_crc=True)
    found_entries = [entry for batch in batches.batches() for entry in batch.entries()]
    assert found_entries == list(LogScanner(files.segments, 0, check_crc=True))
    assert [entry.physical_offset for entry in found_entries] == starts
    assert (batches.damage, batches.end, batches.records) == ([], ends[-1], 20)
    assert batches.misplaced == [Misplaced(starts[number], 1 << 40)]


@pytest.mark.parametrize("at", [0, 8, 20, 88])
def test_a_record_that_names_another_place_is_not_kept_if_more_is_wrong(at: int) -> None:
    """Its size, its sums, or the sum over what has none of its own."""
    files, starts, ends = _log()
    overwrite(files, starts[5] + 28, b"\x7f")
    overwrite(files, starts[5] + at, b"\x7f\x01")
    scan = _scan(files)
    assert _found(scan) == starts[:5] + starts[6:]
    assert ([d.start for d in scan.damage], scan.misplaced) == ([starts[5]], [])
    assert scan.damage[0].end == ends[5]


def test_records_of_another_place_are_not_kept() -> None:
    """As in a file that lies under a wrong name: not one of them has a neighbour in order."""
    files, starts, _ = _log()
    for start in starts[4:8]:
        overwrite(files, start + 28, (start + 4096).to_bytes(8, "big"))
    scan = _scan(files)
    assert _found(scan) == starts[:4] + starts[8:]


def test_the_first_record_may_be_the_damaged_one() -> None:
    """There is nothing before it to compare with."""
    files, starts, _ = _log()
    overwrite(files, 0, bytes(60))
    assert _found(_scan(files)) == starts[1:]


def test_a_damaged_end_of_file_is_stepped_over() -> None:
    """From the last good record to the next file."""
    files, starts, ends = _log(40)
    boundary = files.segments[1].start
    last = max(n for n, start in enumerate(starts) if start < boundary)
    overwrite(files, starts[last], bytes(boundary - starts[last]))
    scan = _scan(files)
    assert _found(scan) == starts[:last] + starts[last + 1 :]
    assert [(d.start, d.end) for d in scan.damage] == [(starts[last], boundary)]
    overwrite(files, ends[last], bytes(1))


def test_whole_files_may_be_damaged() -> None:
    """Each is a damage of its own, and the file behind may begin with one."""
    disk, store = filled(0)
    for number in range(12):
        store.append(new(body=bytes(1200), name=f"N{number}"))
    store.write()
    starts = [offset for offset, _ in store.records()]
    files = log_files(disk)
    assert len(files) == 4
    overwrite(files, 4096, bytes(4096))
    overwrite(files, 8192, bytes(600))
    scan = _scan(files)
    assert _found(scan) == [s for s in starts if s < 4096 or s > 8192]
    assert [(d.start, d.end) for d in scan.damage] == [
        (4096, 8192),
        (8192, next(s for s in starts if s > 8192)),
    ]


def test_without_checksums_only_places_and_lengths_count() -> None:
    """Skimming is what reads of known records do."""
    files, starts, _ = _log()
    overwrite(files, starts[5] + 90, b"????")
    assert _found(_scan(files, check_crc=False)) == starts
    assert _found(_scan(files)) == starts[:5] + starts[6:]


def test_a_topic_that_is_no_text_is_damage() -> None:
    """Lengths and checksums may be right all the same."""
    files, starts, _ = _log()
    topic = files.segment(0).read(0, 1000).index(b"topic")
    overwrite(files, topic, b"\xff\xfe")
    assert _found(_scan(files, check_crc=False)) == starts[1:]


def _put_old_record(files: SegmentFiles, offset: int, *, queue_offset: int, at_ms: int) -> None:
    """Write a record that lies where it says, as one of an earlier life would."""
    data = record.encode(
        new("topic", 0, b"old"),
        queue_offset=queue_offset,
        physical_offset=offset,
        stored_at_ms=at_ms,
        crc_tail=True,
    )
    overwrite(files, offset, data)


@pytest.mark.parametrize(
    ("queue_offset", "back_ms", "gap", "accepted"),
    [
        (6, 0, 0, True),  # the next one
        (6, 5, 0, True),  # the clock was set back
        (3, 0, 0, True),  # the topic was made again
        (3, 5, 0, False),
        (6, 0, 50, True),
        (6, 5, 50, False),
        (3, 0, 50, False),
    ],
)
def test_bytes_of_an_earlier_life_are_known(
    queue_offset: int, back_ms: int, gap: int, accepted: bool
) -> None:
    """Behind a record both signs are needed, behind damage one is enough."""
    files, starts, ends = _log(12)
    at_ms = 1_700_000_011_000
    _put_old_record(files, ends[-1] + gap, queue_offset=queue_offset, at_ms=at_ms - back_ms)
    if gap:
        overwrite(files, ends[-1], b"damage")
    scan = _scan(files)
    assert (_found(scan)[12:] == [ends[-1] + gap]) == accepted
    assert _found(scan)[:12] == starts
    if not accepted:
        assert scan.end == ends[-1]


def test_a_glance_tells_size_and_time() -> None:
    """And nothing where no record begins."""
    files, starts, ends = _log()
    segment = files.segment(0)
    seen = glance(SegmentReader(segment, 100), starts[3])
    assert seen is not None
    assert seen.size == ends[3] - starts[3]
    assert seen.stored_at_ms == record.decode(segment.read(starts[3], seen.size)).stored_at_ms
    for position in (1, ends[-1], segment.size - 50, segment.size):
        assert glance(SegmentReader(segment, 100), position) is None
    for size in (1 << 30, segment.size - starts[3] + 1):  # more than the file has
        overwrite(files, starts[3], size.to_bytes(4, "big"))
        assert glance(SegmentReader(segment, 100), starts[3]) is None


def test_a_glance_finds_the_time_behind_a_long_host() -> None:
    """An IPv6 born host moves it by 12 bytes."""
    disk, store = filled(0)
    appended = store.append(
        new().__class__(
            topic="t",
            queue_id=0,
            body=b"",
            properties=b"",
            born_host=bytes(20),
            store_host=bytes(8),
        )
    )
    store.write()
    seen = glance(SegmentReader(log_files(disk).segment(0), 100), 0)
    assert seen is not None
    assert (seen.size, seen.stored_at_ms) == (store.end, appended.stored_at_ms)


def test_an_entry_is_only_that_of_an_intact_record_at_its_place() -> None:
    """Not of the next one, where this one is damaged or none begins."""
    files, starts, _ = _log()
    segment = files.segment(0)
    found = intact_entry(segment, starts[3])
    assert found is not None
    assert found.physical_offset == starts[3]
    assert intact_entry(segment, starts[3] + 1) is None
    overwrite(files, starts[3] + 90, b"\xff")
    assert intact_entry(segment, starts[3]) is None
