"""Progress survives every end of the process, and is never ahead of the copies."""

import pytest
from tests.recorded import Recorded

from sprocket.base.disk import advance, read_file, replace_file
from sprocket.base.errors import DiskFailed
from sprocket.base.place import Place
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.delay.delay_progress import VERSION_STEP
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

FILE = "/s/config/delayOffset.json"


class FakeLog:
    """A log that is as long as the test says."""

    def __init__(self, written: int = 0, synced: int | None = None) -> None:
        self.written = written
        self.synced = written if synced is None else synced


def opened(disk: SimulatedDisk, log: FakeLog | None = None) -> DelayProgress:
    """Open the table on a disk."""
    disk.make_folder("/s/config")
    return DelayProgress(Place(disk, "/s", FakeClock()), log or FakeLog(1000))


def levels(progress: DelayProgress) -> list[int]:
    """Return the first levels."""
    return [progress.get(level) for level in (1, 2, 3)]


def test_what_was_noted_is_found() -> None:
    """After a kill, a flush, a kill between file and journal, and a clean end."""
    disk = SimulatedDisk()
    progress = opened(disk)
    assert levels(progress) == [0, 0, 0]
    progress.note(1, 5)
    progress.note(3, 7)
    assert levels(opened(disk.kill())) == [5, 0, 7]
    work = progress.table.flush_steps()
    call = advance(work)
    assert call is not None
    progress.note(1, 6)
    while call is not None:
        call = advance(work, call())
        assert levels(opened(disk.kill())) == [6, 0, 7]
    assert levels(opened(disk.kill())) == [6, 0, 7]
    progress.note(2, 1)
    progress.table.close()
    assert levels(opened(disk)) == [6, 1, 7]


def test_the_file_is_written_as_rocketmq_writes_it() -> None:
    """Integer keys without quotes, in order, the version's step once in 200 changes."""
    disk = SimulatedDisk()
    progress = opened(disk)
    progress.note(18, 0)
    for offset in range(1, VERSION_STEP):
        progress.note(2, offset)
    progress.table.flush()
    text = read_file(disk, FILE).decode()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,')
    assert '"offsetTable":{2:199,18:0\n\t}' in text


def test_a_real_file_is_taken_over() -> None:
    """One that RocketMQ has written; what our journal says of before is void."""
    theirs = read_file(Recorded("06-delay-timer").in_memory(), "/store/config/delayOffset.json")
    disk = SimulatedDisk()
    opened(disk).note(4, 9)
    again = disk.kill()
    replace_file(again, FILE, theirs)
    progress = opened(again)
    assert [progress.get(level) for level in range(1, 6)] == [2, 2, 2, 0, 0]
    progress.note(1, 3)
    assert opened(again.kill()).get(1) == 3


def test_a_batch_whose_copies_are_gone_is_not_noted() -> None:
    """The log ends before them after a power loss; not later either, when it has grown."""
    disk = SimulatedDisk()
    log = FakeLog(100)
    progress = opened(disk, log)
    progress.note(1, 5)
    log.written = 200
    progress.note(1, 6)
    cut = disk.kill()
    assert opened(cut, FakeLog(150)).get(1) == 5
    assert opened(cut, FakeLog(900)).get(1) == 5


def test_a_damaged_log_voids_the_journal() -> None:
    """The copies may be what is damaged; what the synced file says holds."""
    disk = SimulatedDisk()
    progress = opened(disk)
    progress.note(1, 5)
    progress.table.flush()
    progress.note(1, 6)
    damaged = DelayProgress(Place(disk.kill(), "/s", FakeClock()), FakeLog(1000), is_whole=False)
    assert damaged.get(1) == 5


def test_the_file_waits_for_the_log() -> None:
    """Only what the synced part of the log covers goes into it; the journal keeps the rest."""
    disk = SimulatedDisk()
    log = FakeLog(100, synced=0)
    progress = opened(disk, log)
    progress.note(1, 5)
    assert advance(progress.table.flush_steps()) is None
    log.synced = log.written
    log.written = 200
    progress.note(1, 6)
    progress.note(2, 2)
    progress.table.flush()
    assert b"{1:5\n" in read_file(disk, FILE)
    assert levels(opened(disk.kill(), FakeLog(200))) == [6, 2, 0]
    assert levels(opened(disk.kill(), FakeLog(150))) == [5, 0, 0]
    log.synced = 200
    progress.table.flush()
    assert b"{1:6,2:2\n" in read_file(disk, FILE)
    assert b'"sprocketSequence":3' in read_file(disk, FILE)


def test_failures_are_told_and_tried_again() -> None:
    """A line that is not written, a file that is not replaced: nothing is forgotten."""
    disk = SimulatedDisk()
    progress = opened(disk)
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        progress.note(1, 5)
    assert progress.get(1) == 5
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        progress.table.flush()
    progress.table.flush()
    assert opened(disk.kill()).get(1) == 5
