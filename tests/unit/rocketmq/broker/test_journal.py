"""A journal gives back what its table lacks, whatever happened to it."""

from collections.abc import Callable

import msgspec
import pytest

from sprocket.base.errors import DiskFailed, StoreError
from sprocket.base.files import read_file
from sprocket.rocketmq.broker import journal
from sprocket.rocketmq.broker.journal import FlushJob, Journal
from sprocket.testing.disk import SimulatedDisk

PATH = "/j/lines"
Line = tuple[int, str]
decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode


def opened(disk: SimulatedDisk) -> "Journal[Line]":
    """Open the journal on a disk."""
    disk.make_folder("/j")
    return Journal(disk, PATH, decode)


def filled(disk: SimulatedDisk, *texts: str) -> "Journal[Line]":
    """Return a journal with a line for each text."""
    lines = opened(disk)
    assert lines.replay(0) == []
    for text in texts:
        lines.append(text)
    return lines


def test_lines_outlive_the_process() -> None:
    """All of them, those that the table has not; and the numbers go on."""
    disk = SimulatedDisk()
    filled(disk, "a", "b", "c")
    again = opened(disk.kill())
    assert again.replay(1) == [(2, "b"), (3, "c")]
    again.append("d")
    assert again.sequence == 4


def test_a_void_journal_gives_nothing_and_keeps_its_numbers() -> None:
    """Somebody else wrote the table: lines that are there must not be counted again later."""
    disk = SimulatedDisk()
    filled(disk, "a", "b")
    again = opened(disk.kill())
    assert again.replay(None) == []
    assert again.sequence == 2


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_torn_end_is_cut(lost: int) -> None:
    """The lines before it count, and the next one follows them."""
    disk = SimulatedDisk()
    filled(disk, "a", "b")
    size = len(read_file(disk, PATH))
    disk.open(PATH, write=True).resize(size - lost)
    again = opened(disk)
    found = again.replay(0)
    assert found == [(1, "a")][: 1 if lost < 19 else 0]
    again.append("c")
    assert [text for _, text in opened(disk).replay(0)] == [text for _, text in found] + ["c"]


def test_a_gap_ends_the_reading() -> None:
    """Old lines that a power loss brings back behind new ones are not taken for these."""
    disk = SimulatedDisk()
    filled(disk, "a", "b", "c")
    first, second, third = read_file(disk, PATH).splitlines(keepends=True)
    file = disk.open(PATH, write=True)
    for bad in (first + third, second + second, b"x" + second, b"7\t[1,2]\n"):
        file.resize(0)
        file.write([bad], 0)
        again = Journal(disk, PATH, decode)
        assert len(again.replay(0)) == (
            bad[:1] in (first[:1], second[:1]) and b"\t[1,2]" not in bad
        )


def test_a_cut_keeps_what_came_later() -> None:
    """Under the same name, however often."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    for text in "bcd":
        end = lines.end
        lines.append(text)
        lines.cut(end)
        assert opened(disk.kill()).replay(0) == [(lines.sequence, text)]
    lines.cut(lines.end)
    assert (lines.end, read_file(disk, PATH)) == (0, b"")
    lines.close()


def test_a_failed_append_writes_nothing() -> None:
    """Neither the line nor its number."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        lines.append("b")
    lines.append("c")
    assert opened(disk.kill()).replay(0) == [(1, "a"), (2, "c")]


class Table:
    """A table that notes how it was flushed."""

    def __init__(self, error: StoreError | None = None) -> None:
        self.error = error
        self.done: list[StoreError | None] = []

    def begin_flush(self) -> FlushJob | None:
        """Flush once."""

        def run() -> None:
            if self.error is not None:
                raise self.error

        return None if self.done else FlushJob(run, 0)

    def finish_flush(self, job: FlushJob, error: StoreError | None) -> None:
        """Note the end."""
        assert job.journal_end == 0
        self.done.append(error)


def test_a_table_is_flushed_now() -> None:
    """It is told how that ended, and so is the caller."""
    table = Table()
    journal.flush_now(table)
    journal.flush_now(table)
    assert table.done == [None]
    failing = Table(DiskFailed("no"))
    with pytest.raises(DiskFailed):
        journal.flush_now(failing)
    assert failing.done == [failing.error]


def test_what_a_file_covers() -> None:
    """Nothing yet, so much, or it is somebody else's."""
    assert journal.covered_by({}) == 0
    assert journal.covered_by({"sprocketSequence": 7}) == 7
    assert journal.covered_by({"offsetTable": {}}) is None


def test_what_was_synced_outlives_a_power_loss() -> None:
    """Also when the journal is cut behind it."""
    disk = SimulatedDisk()
    lines = filled(disk, "a", "b")
    end = lines.end
    lines.append("c")
    lines.sync()
    lines.append("d")
    for _ in range(2):
        found = opened(disk.crash(lambda _: 0)).replay(0)
        assert (3, "c") in found
        lines.cut(end)
        end = 0


def test_a_cut_that_fails_late_loses_no_later_line() -> None:
    """The new file is in its place by then, and lines go there."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    end = lines.end
    lines.append("b")
    lines.sync()
    disk.fail("sync_folder")
    with pytest.raises(StoreError):
        lines.cut(end)
    lines.append("c")
    assert opened(disk.kill()).replay(1) == [(2, "b"), (3, "c")]
