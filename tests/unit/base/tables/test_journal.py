"""A journal gives back what its table lacks, whatever happened to it."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from sprocket.base.disk import Steps, read_file, replace_file, steps
from sprocket.base.errors import DiskFailed, StoreError, StoreFailed
from sprocket.base.tables import Journal, journal
from sprocket.base.tables.journal import SEGMENTS_MAX
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


def snapshot(lines: "Journal[Line]") -> int:
    """Do as if a snapshot had been written; return up to where it covers the journal."""
    covered = lines.roll()
    steps.run(lines.retire_steps(covered))
    return covered


def texts(lines: list[Line]) -> str:
    """Return what lines say."""
    return "".join(text for _, text in lines)


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
def test_a_torn_end_is_passed_over(lost: int) -> None:
    """The lines before it count, and the next one follows them, at every later start."""
    disk = SimulatedDisk()
    filled(disk, "a", "b")
    path = PATH + ".1"
    disk.open(path, write=True).resize(len(read_file(disk, path)) - lost)
    again = opened(disk)
    found = again.replay(0)
    assert found == [(1, "a")][: 1 if lost < 19 else 0]
    again.append("c")
    again.append("d")
    for _ in range(2):
        again = opened(disk.kill())
        assert texts(again.replay(0)) == texts(found) + "cd"


def test_damaged_lines_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bit of them is wrong; those behind count, at every later start, too."""
    disk = SimulatedDisk()
    filled(disk, "a", "b", "c", "d")
    path = PATH + ".1"
    data = read_file(disk, path)
    ends = [at + 1 for at, octet in enumerate(data) if octet == ord("\n")]
    for at in range(len(data)):
        for bit in range(8):
            other = SimulatedDisk()
            other.make_folder("/j")
            replace_file(other, path, data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :])
            damaged = next(number for number, end in enumerate(ends) if at < end)
            left = "abcd".replace("abcd"[damaged], "")
            is_line_end = at + 1 in ends[:-1]  # both lines are good without what is between them
            expected = "abcd" if is_line_end else left
            caplog.clear()
            assert texts(journal.read_lines(other, PATH, 0, decode)) == expected, (at, bit)
            again = opened(other)
            assert texts(again.replay(0)) == expected
            assert bool(caplog.records) == (expected != "abcd"), (at, bit)
            again.append("e")
            assert texts(opened(other.kill()).replay(0)) == expected + "e", (at, bit)


def test_lines_that_are_missing_are_told_with_their_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The file, the position, and how many."""
    disk = SimulatedDisk()
    filled(disk, "a", "b", "c", "d")
    first, second, third, fourth = read_file(disk, PATH + ".1").splitlines(keepends=True)
    for bad, found in (
        (first + fourth, "ad"),
        (first + b"7\t[1,2]\n" + fourth, "ad"),
        (second + second, "b"),
        (first + first, "a"),
        (third + second, "c"),
        (b"7\t[1,2]\n", ""),
    ):
        replace_file(disk, PATH + ".1", bad)
        assert texts(journal.read_lines(disk, PATH, 0, decode)) == found
    replace_file(disk, PATH + ".1", first + b"7\t[1,2]\n" + fourth)
    assert texts(opened(disk).replay(0)) == "ad"
    assert f"path={PATH + '.1'!r} position={len(first)} lines=2" in caplog.text


def test_a_segment_behind_lost_lines_counts() -> None:
    """Its lines are absolute; none gets one of their numbers."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    lines.roll()
    lines.append("b")
    disk.remove(PATH + ".1")
    disk.sync_folder("/j")
    again = opened(disk)
    assert again.replay(0) == [(2, "b")]
    again.append("c")
    again.sync()
    assert opened(disk.crash(lambda count: count - 1)).replay(0) == [(2, "b"), (3, "c")]


def test_a_file_of_an_earlier_version_is_the_first_segment() -> None:
    """It had no number."""
    disk = SimulatedDisk()
    filled(disk, "a", "b")
    disk.rename(PATH + ".1", PATH)
    again = opened(disk)
    assert texts(again.replay(0)) == "ab"
    again.append("c")
    assert journal.segment_paths(disk, PATH) == [PATH, PATH + ".1"]
    assert texts(opened(disk.kill()).replay(0)) == "abc"


def test_the_snapshot_before_the_last_still_finds_its_lines() -> None:
    """It is the backup; what neither needs is removed."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    assert snapshot(lines) == 1
    lines.append("b")
    assert snapshot(lines) == 2
    lines.append("c")
    assert journal.segment_paths(disk, PATH) == [PATH + ".2", PATH + ".3"]
    for covered, found in ((1, "bc"), (2, "c"), (3, "")):
        assert texts(opened(disk.kill()).replay(covered)) == found
    lines.close()


def test_snapshots_without_lines_between_leave_no_files() -> None:
    """However many there are."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    for _ in range(3):
        snapshot(lines)
    assert journal.segment_paths(disk, PATH) == []
    lines.append("b")
    assert opened(disk.kill()).replay(1) == [(2, "b")]


def test_snapshots_that_fail_do_not_pile_up_files() -> None:
    """Lines go on in the newest then."""
    disk = SimulatedDisk()
    lines = filled(disk)
    for _ in range(3 * SEGMENTS_MAX):
        lines.append("a")
        lines.roll()
    assert len(journal.segment_paths(disk, PATH)) == SEGMENTS_MAX
    assert len(opened(disk.kill()).replay(0)) == 3 * SEGMENTS_MAX
    snapshot(lines)
    snapshot(lines)
    assert journal.segment_paths(disk, PATH) == []


def test_a_failed_append_writes_nothing() -> None:
    """Neither the line nor its number."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    disk.fail("write", 1)
    with pytest.raises(DiskFailed):
        lines.append("b")
    lines.append("c")
    assert opened(disk.kill()).replay(0) == [(1, "a"), (2, "c")]


def test_a_line_that_failed_and_is_there_all_the_same_hides_no_other() -> None:
    """Neither after a new snapshot was begun: the next line lies over it, not beside it."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    disk.fail("write", 1, kept=1.0)
    with pytest.raises(DiskFailed):
        lines.append("lost")
    snapshot(lines)
    snapshot(lines)
    lines.append("b")
    assert opened(disk.kill()).replay(1) == [(2, "b")]


def test_what_was_synced_outlives_a_power_loss() -> None:
    """Whatever blocks and names are lost, and what a process before this one has left."""
    for seed in range(200):
        rng = Random(seed)
        disk = SimulatedDisk()
        lines = filled(disk, "a")
        written, synced, covered = "a", "", 0
        for letter in "bcdefgh":
            action = rng.randrange(5)
            if action == 0:
                lines.sync()
                synced = written
                assert lines.is_durable
            elif action == 1:
                covered = snapshot(lines)
                synced = written
            elif action == 2:
                disk = disk.kill()
                lines = opened(disk)
                assert texts(lines.replay(covered)) == written[covered:]
            lines.append(letter)
            written += letter
        found = texts(opened(disk.crash(rng.randrange)).replay(covered))
        rest = iter(written[covered:])
        assert all(letter in rest for letter in found), seed  # in order, each once
        assert found.startswith(synced[covered:]), seed
        assert len(found) >= len(synced) - covered, seed


def test_after_a_failed_sync_nothing_counts_as_synced() -> None:
    """Until a snapshot, which is another file, has what the lines say."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        lines.sync()
    with pytest.raises(StoreFailed, match="lines"):
        lines.begin_sync()
    lines.append("b")
    assert not lines.is_durable
    snapshot(lines)
    assert lines.is_durable
    lines.append("c")
    lines.sync()
    assert opened(disk.crash(lambda _: 0)).replay(2) == [(3, "c")]


def test_a_sync_that_was_under_way_covers_what_was_there_when_it_began() -> None:
    """No line that came later; and none twice."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    job = lines.begin_sync()
    assert job is not None
    lines.append("b")
    job.run()
    lines.finish_sync(job, None)
    assert (lines.durable, lines.is_durable) == (1, False)
    lines.sync()
    count = disk.calls["sync"]
    lines.sync()
    assert disk.calls["sync"] == count


def test_a_segment_that_cannot_be_removed_does_no_harm() -> None:
    """It goes with the next snapshot."""
    disk = SimulatedDisk()
    lines = filled(disk, "a")
    snapshot(lines)
    disk.fail("remove")
    with pytest.raises(StoreError):
        snapshot(lines)
    lines.append("b")
    assert opened(disk.kill()).replay(1) == [(2, "b")]
    snapshot(lines)
    assert journal.segment_paths(disk, PATH) == [PATH + ".2"]


def test_a_snapshot_is_written_only_if_one_is_due() -> None:
    """And is due again when it failed, with every line that it was to cover."""
    disk = SimulatedDisk()
    lines = filled(disk, "a", "b")
    covered: list[int] = []

    def replace(line: int) -> Steps:
        covered.append(line)
        yield lambda: None
        if len(covered) == 1:
            raise DiskFailed("no snapshot")

    steps.run(lines.snapshot_steps(replace))
    assert covered == []
    lines.is_behind = True
    with pytest.raises(DiskFailed):
        steps.run(lines.snapshot_steps(replace))
    assert texts(opened(disk.kill()).replay(0)) == "ab"
    steps.run(lines.snapshot_steps(replace))
    steps.run(lines.snapshot_steps(replace))
    assert (covered, lines.is_behind) == ([2, 2], False)
    again = opened(disk.kill())
    again.replay(1)
    assert again.is_behind
