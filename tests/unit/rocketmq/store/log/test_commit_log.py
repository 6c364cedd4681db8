"""The log takes records up in memory, writes them in one call a file, and rolls."""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.stores import batch_of, new

from sprocket.base.disk import SegmentFiles, steps
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    MessageTooLarge,
    OffsetTooLarge,
    OffsetTooSmall,
    StoreFailed,
)
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.log import CommitLog
from sprocket.testing.disk import SimulatedDisk

SEGMENT = 1024


def _log(end: int = 0) -> tuple[SimulatedDisk, CommitLog]:
    disk = SimulatedDisk()
    disk.make_folder("/log")
    files = SegmentFiles(disk, "/log", SEGMENT)
    return disk, CommitLog(files, end, crc_tail=True)


def _body_for(size: int) -> bytes:
    """A body whose record has `size` bytes."""
    return bytes(size - record.encoded_size(new(body=b""), crc_tail=True))


def _append(log: CommitLog, size: int, queue_offset: int = 0) -> tuple[int, int]:
    (place,) = log.append([new(body=_body_for(size))], [queue_offset], 1)
    return place, log.end - place


def test_a_record_has_its_place_before_it_is_written() -> None:
    """Nothing is on the disk until `write`, and then it is where it was said to be."""
    disk, log = _log()
    assert _append(log, 200) == (0, 200)
    assert _append(log, 300) == (200, 300)
    assert (log.end, log.written, disk.calls["write"]) == (500, 0, 0)
    assert log.write() == 500 == log.written
    assert disk.calls["write"] == 1
    message = record.decode(log.record_at(200))
    assert (message.physical_offset, message.store_size) == (200, 300)
    assert log.write() == 500
    assert disk.calls["write"] == 1


@pytest.mark.parametrize(("size", "start"), [(1016 - 200, 200), (1017 - 200, 1024)])
def test_eight_bytes_are_left_for_the_blank(size: int, start: int) -> None:
    """A record that leaves exactly 8 stays, one byte more and it begins the next file."""
    disk, log = _log()
    _append(log, 200)
    assert _append(log, size) == (start, size)
    log.write()
    if start == 1024:
        assert disk.open("/log/" + "0" * 20).read(200, 9) == record.blank(824) + b"\0"
        assert disk.calls["write"] == 2
    _append(log, 130)
    log.write()
    assert record.decode(log.record_at(start)).physical_offset == start


def test_a_record_that_fits_into_no_file_is_refused() -> None:
    """Nothing changes; the largest one that fits is taken."""
    _, log = _log()
    _append(log, 130)
    with pytest.raises(MessageTooLarge, match="1017"):
        _append(log, 1017)
    assert log.end == 130
    assert _append(log, 1016) == (1024, 1016)


def test_several_files_in_one_turn() -> None:
    """Each file gets one write."""
    disk, log = _log()
    for _ in range(7):
        _append(log, 400)
    assert log.write() == 3 * 1024 + 400
    assert disk.calls["write"] == 4
    assert len(log.files) == 4
    assert [s.start for s in log.segments_between(1000, 2049)] == [0, 1024, 2048]


def test_ranges_of_files() -> None:
    """What each has, and nothing of what none has."""
    _, log = _log()
    assert log.ranges(0, 10) == []
    for _ in range(7):
        _append(log, 400)
    log.write()
    steps.run(log.files.drop_before_steps(1024))

    def ranges(start: int, end: int) -> list[tuple[int, int, int]]:
        return [(int(file.path[-20:]), at, size) for file, at, size in log.ranges(start, end)]

    assert ranges(1500, 1600) == [(1024, 476, 100)]
    assert ranges(0, 2049) == [(1024, 0, 1024), (2048, 0, 1)]
    assert ranges(4090, 1 << 40) == [(3072, 1018, 6)]
    assert ranges(0, 1024) == ranges(2000, 2000) == ranges(2000, 1500) == ranges(5000, 6000) == []


def test_a_record_is_given_whatever_its_checksum_says() -> None:
    """Who looks at it says what is wrong; its lengths and its place are right."""
    _, log = _log()
    _append(log, 300)
    log.write()
    log.files.segment(0).file.write([b"!"], 150)
    assert len(log.record_at(0)) == 300


def test_a_batch_lies_in_one_file() -> None:
    """It rolls as a whole; too large a one is refused and changes nothing."""
    _, log = _log()
    _append(log, 300)
    batch = [new(body=_body_for(250)) for _ in range(5)]
    assert log.append(batch[:2], range(2), 1, together=True) == [300, 550]
    places = log.append(batch[:3], range(3), 1, together=True)
    assert places == [1024, 1274, 1524]
    with pytest.raises(MessageTooLarge):
        log.append(batch, range(5), 1, together=True)
    with pytest.raises(MessageTooLarge):
        log.append_batch(batch_of(batch), 0, 1)
    assert log.end == 1774
    log.write()
    assert record.decode(log.record_at(1274)).queue_offset == 1


def test_records_that_need_not_lie_together_fill_files() -> None:
    """Each begins where it finds room; one that fits into no file takes all of them back."""
    _, log = _log()
    many = [new(body=_body_for(size)) for size in (400, 400, 300, 700, 1016, 200)]
    places = log.append(many, range(6), 1)
    assert places == [0, 400, 1024, 1324, 2048, 3072]
    assert log.end == 3272
    with pytest.raises(MessageTooLarge):
        log.append([new(body=_body_for(size)) for size in (200, 1017)], [6, 7], 1)
    assert log.end == 3272
    log.write()
    for number, place in enumerate(places):
        found = record.decode(log.record_at(place))
        assert (found.queue_offset, found.physical_offset) == (number, place)


@pytest.mark.parametrize("call", ["write", "create", "sync", "sync_folder"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_leaves_nothing(call: str, number: int) -> None:
    """The end is taken back, the files hold zeros there, and the next write works."""
    disk, log = _log()
    _append(log, 400)
    log.write()
    for _ in range(3):
        _append(log, 400)
    disk.fail(call, 2 if call == "write" else 1, number)
    with pytest.raises((DiskFull, DiskFailed)):
        log.write()
    assert log.end == log.written == 400
    for segment in log.files.segments:
        begin = 400 if segment.start == 0 else 0
        assert not any(segment.view[begin:])
    assert _append(log, 130) == (400, 130)
    assert log.write() == 530
    assert record.decode(log.record_at(400)).store_size == 130


def _half_written(undo_call: str, number: int) -> tuple[SimulatedDisk, CommitLog]:
    """A log of 400 bytes behind which half of a record lies, as it could not be undone."""
    disk, log = _log()
    _append(log, 400)
    log.write()
    log.files.segment(0).file.sync()
    _append(log, 400)
    disk.fail("write", 1, errno.ENOSPC)
    disk.fail(undo_call, 2 if undo_call == "write" else 1, number)
    return disk, log


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_that_cannot_be_undone_is_undone_later(number: int) -> None:
    """The error says both; tried again it fails, or the log goes on."""
    disk, log = _half_written("write", number)
    with pytest.raises(DiskFull, match=r"undone yet.*No space"):
        log.write()
    assert log.failure is None
    assert log.end == log.written == 400
    disk.fail("write", 1, number)
    with pytest.raises((DiskFull, DiskFailed)):
        log.undo()
    assert log.undo_failure is not None
    assert any(log.files.segment(0).view[400:])
    log.undo()
    assert log.undo_failure is None
    assert not any(disk.crash(lambda _: 0).open("/log/" + "0" * 20).read(400, 1024))
    assert _append(log, 130) == (400, 130)
    assert log.write() == 530


def test_a_failed_write_whose_undoing_cannot_be_synced_ends_it() -> None:
    """What the disk has of records that were written before is unknown, too."""
    _, log = _half_written("sync", errno.EIO)
    with pytest.raises(StoreFailed, match="sync"):
        log.write()
    assert log.failure is not None


@pytest.mark.parametrize("failing", [None, 1, 2])
def test_the_calls_of_a_write_may_be_made_elsewhere(failing: int | None) -> None:
    """One for each file, in their order; if one fails nothing is left, as where they are made.

    Nothing is known of the write before they have ended.
    """
    disk, log = _log()
    asked: list[tuple[int, int, int]] = []

    def run(call: Callable[[], int], size: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            asked.append((len(log.files.segments), size, log.written))
            return pool.submit(call).result()

    log.run_write = run
    for number in range(3):
        _append(log, 600, number)
    if failing is not None:
        disk.fail("write", failing, errno.EIO)
        with pytest.raises(DiskFailed):
            log.write()
        assert log.end == log.written == 0
        assert all(not any(one.read(0, SEGMENT)) for one in log.files.segments)
        for number in range(3):
            _append(log, 600, number)
    assert log.write() == 2 * SEGMENT + 600
    sizes = [2 * SEGMENT + 600, SEGMENT + 600, 600]
    made = failing or 0  # files that the first try has left; each is made when it is written
    expected = [(max(number, made), size, 0) for number, size in enumerate(sizes, 1)]
    assert asked[-3:] == expected
    assert asked[:-3] == [(number, size, 0) for number, size in enumerate(sizes[:made], 1)]
    assert [record.decode(log.record_at(at)).queue_offset for at in (0, 1024, 2048)] == [0, 1, 2]
    assert log.tail.read(1024, 1624) == bytes(log.record_at(1024))


def test_it_goes_on_where_recovery_says() -> None:
    """In the middle of a file, and at the start of one that is there already."""
    disk, log = _log()
    for _ in range(3):
        _append(log, 400)
    log.write()
    for end in (800, 1024):
        again = CommitLog(log.files, end, crc_tail=True)
        assert _append(again, 300) == (1024, 300)
        again.write()
    assert disk.list("/log") == ["0" * 20, "0" * 16 + "1024"]
    beyond = CommitLog(log.files, 2048, crc_tail=True)
    assert _append(beyond, 300) == (2048, 300)
    assert beyond.write() == 2348


def test_the_log_may_begin_later() -> None:
    """Old files are deleted in time; an empty log keeps its place."""
    _, log = _log(4500)
    assert _append(log, 130) == (4500, 130)
    log.write()
    assert log.first == 4096
    with pytest.raises(OffsetTooSmall):
        log.slice(4000, 1)


def test_slices_stay_inside() -> None:
    """Neither past what is written nor across files."""
    _, log = _log()
    for _ in range(3):
        _append(log, 400)
    with pytest.raises(OffsetTooLarge):
        log.slice(0, 1)
    log.write()
    assert len(log.slice(0, 1024)) == 1024
    with pytest.raises(OffsetTooLarge):
        log.slice(1000, 100)
    with pytest.raises(OffsetTooLarge):
        log.slice(1424, 1)
    with pytest.raises(OffsetTooSmall):
        log.slice(-1, 1)


def test_no_record_but_at_its_place() -> None:
    """In the middle of one, at a blank, and where lengths were damaged."""
    _, log = _log()
    for _ in range(3):
        _append(log, 400)
    log.write()
    for offset in (1, 800):
        with pytest.raises(CorruptRecord, match=f"at {offset}"):
            log.record_at(offset)
    for size in (0x70, 625, 1024, 1 << 30):  # 624 bytes are left of the file
        log.files.segment(0).file.write([size.to_bytes(4, "big")], 400)
        with pytest.raises(CorruptRecord, match="at 400"):
            log.record_at(400)


def test_zeros_are_written_only_where_something_is() -> None:
    """Blocks that were never written stay so."""
    disk, log = _log()
    log.files.add(0)
    assert log.zero(0, 1024) == 0
    assert disk.calls["write"] == 0
    log.files.segment(0).file.write([b"x"], 500)
    assert log.zero(100, 1024) == 1
    assert not any(log.files.segment(0).view)
    log.files.add(1024)
    before = disk.calls["write"]
    assert (log.zero(500, 2048), disk.calls["write"]) == (0, before)
    log.files.segment(1024).file.write([b"x"], 500)
    assert log.zero(500, 2048) == 1
    assert not any(log.files.segment(1024).view)
