"""Syncs and fills are jobs; what they cover is exact, and a failed sync is for good."""

import errno

import pytest
from tests.stores import new

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import DiskFailed, DiskFull, StoreFailed
from sprocket.base.units import MIB
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log import CommitLog, Flusher
from sprocket.rocketmq.store.log.flusher import FILL_STEP_BYTES, ROOM_STEP_BYTES
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SEGMENT = 8192
STEP = SEGMENT // 8


def _make(ahead: int = 0) -> tuple[SimulatedDisk, CommitLog, Flusher]:
    disk = SimulatedDisk()
    disk.make_folder("/log")
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 0, crc_tail=False)
    return disk, log, Flusher(disk, log, StoreSettings(fill_ahead_bytes=ahead), FakeClock())


def _write(log: CommitLog, size: int = 500) -> int:
    log.append([new(body=bytes(size))], [0], 1)
    return log.write()


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    """What comes while it runs needs the next one."""
    _, log, flush = _make()
    assert flush.begin_sync() is None
    first = _write(log)
    job = flush.begin_sync()
    assert job is not None
    assert job.target == first
    second = _write(log)
    assert flush.is_busy
    assert flush.begin_sync() is None
    job.run()
    job.finish(None)
    assert flush.synced == first
    assert flush.sync() == second == flush.synced
    assert flush.sync() == second


def test_every_file_touched_is_synced() -> None:
    """The one that was ended by a roll as well."""
    disk, log, flush = _make()
    _write(log, SEGMENT - 1000)
    flush.sync()
    _write(log, 300)
    _write(log, 3000)
    before = disk.calls["sync"]
    flush.sync()
    assert disk.calls["sync"] == before + 2


def test_the_system_syncs_by_itself_what_lies_in_one_file_only() -> None:
    """What it syncs is durable; where a group goes over a roll, both files have to be."""
    disk, log, flush = _make()
    _write(log, SEGMENT - 1000)
    within = flush.begin_sync()
    assert within is not None
    before = disk.calls["sync"]
    pending = within.start()
    assert pending is not None
    assert pending.wait()
    assert disk.calls["sync"] == before + 1
    within.finish(None)
    _write(log, 300)
    _write(log, 3000)
    over = flush.begin_sync()
    assert over is not None
    assert len(over.ranges) == 2
    assert over.start() is None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_for_good(number: int) -> None:
    """`synced` never moves again, by whatever way the error came."""
    disk, log, flush = _make()
    _write(log)
    disk.fail("sync", 1, number)
    with pytest.raises(StoreFailed, match="reopen"):
        flush.sync()
    assert flush.synced == 0
    with pytest.raises(StoreFailed):
        flush.begin_sync()
    assert flush.begin_fill(zeros=True) is None


def test_a_failed_job_is_for_good() -> None:
    """The owner tells the error."""
    _, log, flush = _make()
    _write(log)
    job = flush.begin_sync()
    assert job is not None
    job.finish(DiskFailed("no"))
    assert flush.failure is not None
    assert flush.synced == 0


def test_zeros_go_ahead_of_the_writer() -> None:
    """Step by step, as far as set, across files; the next file is made on the way."""
    disk, log, flush = _make(SEGMENT)
    assert flush.begin_fill(zeros=True) is None  # there is no file yet
    _write(log)
    ranges = []
    while (job := flush.begin_fill(zeros=True)) is not None:
        assert flush.begin_fill(zeros=True) is None
        ranges.append((job.start, job.end))
        job.run()
        job.finish(None)
    assert ranges == [(n * STEP, (n + 1) * STEP) for n in range(2, 9)]
    assert disk.list("/log") == ["0" * 20, f"{SEGMENT:020d}"]
    assert log.files.end_of_files == 2 * SEGMENT
    _write(log, STEP)
    job = flush.begin_fill(zeros=True)
    assert job is not None
    assert (job.start, job.create) == (9 * STEP, False)


def test_a_fill_in_flight_blocks_a_write_into_it() -> None:
    """Only if the two would touch."""
    _, log, flush = _make(SEGMENT)
    _write(log)
    job = flush.begin_fill(zeros=True)
    assert job is not None
    log.append([new(body=bytes(500))], [0], 1)
    assert not flush.fill_blocks_write()
    log.append([new(body=bytes(1000))], [0], 1)
    assert flush.fill_blocks_write()
    job.run()
    job.finish(None)
    assert not flush.fill_blocks_write()


def test_room_ahead_is_no_zeros_and_blocks_nothing_but_a_new_file() -> None:
    """Nobody waits for it, and no byte is written or synced."""
    disk, log, flush = _make(SEGMENT)
    _write(log)
    before = bytes(log.files.segments[0].view)
    calls = dict(disk.calls)
    job = flush.begin_fill(zeros=False)
    assert job is not None
    assert (job.start, job.create, job.zeros) == (STEP, False, False)
    log.append([new(body=bytes(2 * STEP))], [0], 1)
    assert not flush.fill_blocks_write()
    job.run()
    job.finish(None)
    assert (disk.calls["write"], disk.calls["sync"]) == (calls["write"], calls.get("sync", 0))
    assert disk.calls["allocate"] == 1
    assert bytes(log.files.segments[0].view) == before
    _write(log, 3 * STEP)
    while (job := flush.begin_fill(zeros=False)) is not None and not job.create:
        job.run()
        job.finish(None)
    assert job is not None
    assert (job.create, job.start) == (True, SEGMENT)
    assert not flush.fill_blocks_write()
    log.append([new(body=bytes(3 * STEP))], [0], 1)
    assert flush.fill_blocks_write()
    job.run()
    job.finish(None)
    assert not flush.fill_blocks_write()
    assert log.write() > SEGMENT


def test_zeros_come_in_small_steps_and_room_in_large_ones() -> None:
    """The log's own syncs would wait behind many zeros."""
    disk = SimulatedDisk()
    disk.make_folder("/log")
    log = CommitLog(SegmentFiles(disk, "/log", 256 * MIB), 0, crc_tail=False)
    flush = Flusher(disk, log, StoreSettings(), FakeClock())
    _write(log)
    for zeros, size in ((True, FILL_STEP_BYTES), (False, ROOM_STEP_BYTES)):
        job = flush.begin_fill(zeros=zeros)
        assert job is not None
        assert job.end - job.start == size
        job.finish(None)


def test_no_more_room_is_taken_than_was_set() -> None:
    """But for what is left of a step."""
    _, log, flush = _make(100)
    _write(log)
    job = flush.begin_fill(zeros=False)
    assert job is not None
    assert log.end <= job.start < log.end + 100
    assert job.end == job.start + 100


def test_a_new_file_without_room_is_taken_up() -> None:
    """The writer need not make it again."""
    disk, log, flush = _make(2 * SEGMENT)
    _write(log, 6 * STEP)
    while (job := flush.begin_fill(zeros=False)) is not None and not job.create:
        job.finish(None)
    assert job is not None
    disk.fail("allocate", 1, errno.ENOSPC)
    with pytest.raises(DiskFull) as caught:
        job.run()
    job.finish(caught.value)
    assert log.files.end_of_files == 2 * SEGMENT
    assert flush.begin_fill(zeros=False) is None
    creates = disk.calls["create"]
    assert _write(log, 4000) > SEGMENT
    assert disk.calls["create"] == creates


def test_a_writer_that_overtook_is_not_chased() -> None:
    """The next step begins ahead of it."""
    _, log, flush = _make(SEGMENT)
    _write(log)
    _write(log, 4 * STEP)
    job = flush.begin_fill(zeros=True)
    assert job is not None
    assert job.start >= log.end + STEP


@pytest.mark.parametrize(("zeros", "call"), [(True, "write"), (False, "allocate")])
def test_after_a_step_without_space_the_log_goes_on(zeros: bool, call: str) -> None:
    """It rests until the writer has come near."""
    disk, log, flush = _make(2 * STEP)
    _write(log)
    job = flush.begin_fill(zeros=zeros)
    assert job is not None
    disk.fail(call, 1, errno.ENOSPC)
    with pytest.raises(DiskFull) as caught:
        job.run()
    job.finish(caught.value)
    assert flush.failure is None
    assert flush.begin_fill(zeros=zeros) is None
    _write(log, 4 * STEP)
    assert flush.begin_fill(zeros=zeros) is not None


def test_a_failed_sync_of_a_fill_is_one_of_the_log() -> None:
    """It may have been about the log's records: the pages count as clean now."""
    disk, log, flush = _make(SEGMENT)
    _write(log)
    job = flush.begin_fill(zeros=True)
    assert job is not None
    disk.fail("sync", 1, errno.EIO)
    with pytest.raises(DiskFailed) as caught:
        job.run()
    job.finish(caught.value)
    with pytest.raises(StoreFailed):
        flush.sync()


def test_a_sync_that_ran_while_a_fill_failed_moves_nothing() -> None:
    """Which of the two the error belonged to is unknown."""
    disk, log, flush = _make(SEGMENT)
    _write(log)
    fill, sync = flush.begin_fill(zeros=True), flush.begin_sync()
    assert fill is not None
    assert sync is not None
    disk.fail("sync", 1, errno.EIO)
    with pytest.raises(DiskFailed) as caught:
        fill.run()
    sync.run()
    fill.finish(caught.value)
    sync.finish(None)
    assert flush.synced == 0


def test_a_file_that_could_not_be_made_is_made_by_the_writer() -> None:
    """A fill that failed at it leaves nothing in the way."""
    disk, log, flush = _make(2 * SEGMENT)
    _write(log, 6 * STEP)
    job = flush.begin_fill(zeros=True)
    assert job is not None
    assert (job.create, job.start) == (True, SEGMENT)
    disk.fail("sync_folder", 1, errno.EIO)
    with pytest.raises(DiskFailed) as caught:
        job.run()
    job.finish(caught.value)
    assert flush.failure is None
    assert _write(log, 4000) > SEGMENT


def test_an_async_sync_is_due_when_enough_was_written_or_time_has_passed() -> None:
    """Four pages, or a file that is full, or anything after the thorough interval."""
    disk = SimulatedDisk()
    disk.make_folder("/log")
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 0, crc_tail=False)
    clock = FakeClock()
    settings = StoreSettings(flush="async", flush_bytes_min=4096, flush_thorough_ms=10_000)
    flush = Flusher(disk, log, settings, clock)

    def due() -> bool:
        job = flush.begin_due_sync()
        if job is not None:
            job.run()
            job.finish(None)
        return job is not None

    _write(log)
    assert not due()
    _write(log, 3500)
    assert due()
    _write(log)
    clock.advance(9_999)
    assert not due()
    clock.advance(1)
    assert due()
    assert not due()
    _write(log, SEGMENT - log.end - 700)
    assert not due()
    while log.end < SEGMENT:
        _write(log, 500)
    assert due()
    assert flush.synced == log.written


@pytest.mark.parametrize("ahead", [0, 2 * STEP])
def test_a_file_that_the_writer_needs_is_a_job(ahead: int) -> None:
    """The first one, with its folder, and each next; not before something was appended for it."""
    disk = SimulatedDisk()
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 0, crc_tail=False)
    flush = Flusher(disk, log, StoreSettings(fill_ahead_bytes=ahead), FakeClock())
    assert flush.begin_file() is None
    for number in range(3):
        log.append([new(body=bytes(SEGMENT - 1000))], [0], 1)
        job = flush.begin_file()
        assert job is not None
        assert flush.fill_blocks_write()
        assert flush.begin_file() is None
        assert flush.begin_fill(zeros=True) is None
        job.run()
        job.finish(None)
        assert not flush.fill_blocks_write()
        assert log.files.end_of_files == (number + 1) * SEGMENT
        made = disk.calls["open"]
        log.write()
        assert disk.calls["open"] == made + 1  # the file's own handle
        assert flush.begin_file() is None
    assert disk.crash(lambda _: 0).list("/log") == [
        f"{number * SEGMENT:020d}" for number in range(3)
    ]


def test_a_file_of_the_log_begins_where_the_log_does() -> None:
    """All files before it may have been cleaned away."""
    disk = SimulatedDisk()
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 5 * SEGMENT, crc_tail=False)
    flush = Flusher(disk, log, StoreSettings(fill_ahead_bytes=0), FakeClock())
    log.append([new(body=bytes(100))], [0], 1)
    job = flush.begin_file()
    assert job is not None
    job.run()
    job.finish(None)
    assert log.files.first == 5 * SEGMENT


def test_a_write_waits_for_another_fill_before_its_file_is_made() -> None:
    """One is out at a time, whatever it is about."""
    _, log, flush = _make(8 * STEP)
    _write(log)
    fill = flush.begin_fill(zeros=False)
    assert fill is not None
    assert not flush.fill_blocks_write()
    log.append([new(body=bytes(SEGMENT - 500))], [0], 1)
    assert flush.begin_file() is None
    assert flush.fill_blocks_write()
    fill.run()
    fill.finish(None)
    assert not flush.fill_blocks_write()
    assert flush.begin_file() is not None


def test_a_file_that_could_not_be_made_is_not_there() -> None:
    """Nor has the log failed by that: the next one who needs it tries again."""
    disk, log, flush = _make()
    log.append([new(body=bytes(100))], [0], 1)
    job = flush.begin_file()
    assert job is not None
    disk.fail("sync_folder", 1, errno.EIO)
    with pytest.raises(DiskFailed) as failed:
        job.run()
    job.finish(failed.value)
    assert flush.failure is None
    assert len(log.files) == 0
    assert disk.list("/log") == []
    assert flush.begin_file() is not None
