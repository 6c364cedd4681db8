"""Partitions: every record in exactly one of them, wherever the cuts fall."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import STORED_AT_MS, encoded, expected, unpack

from sprocket.base.disk import File, RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore
from sprocket.rocketmq.codec.columns import Stop
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.queue import QUEUE_UNIT
from sprocket.spark.rocketmq.folder.plan import Span, plan
from sprocket.spark.rocketmq.folder.slices import resync, slices

FILE_BYTES = 1200


def write_log(folder: Path, counts: list[int], ending: bytes = b"") -> int:
    """Write files of 1200 bytes with so many records each; return the log's end."""
    log = folder / "commitlog"
    log.mkdir(parents=True, exist_ok=True)
    end = 0
    for number, count in enumerate(counts):
        base = number * FILE_BYTES
        data = encoded(count, base=base)
        end = base + len(data)
        is_last = number == len(counts) - 1
        data += ending if is_last else record.blank(FILE_BYTES - len(data))
        (log / f"{base:020d}").write_bytes(data.ljust(FILE_BYTES, b"\0"))
    return end


def offsets(groups: list[list[Span]]) -> list[int]:
    """Return the physical offset of every record of a plan; each span must be landed on."""
    found: list[int] = []
    for span in (span for group in groups for span in group if not span.why):
        file = RealDisk().open(span.path)
        last = None
        for last in slices(file, span.base, span.start - span.base, span.end - span.base):
            found += last.records.number("physical_offset").tolist()
        assert last is not None
        assert last.stop is Stop.END or (last.stop is Stop.BLANK and span.may_pad)
        file.close()
    return found


@pytest.mark.parametrize("target", [1, 119, 120, 121, 300, 600, 1000, 1200, 5000])
@pytest.mark.parametrize("by_chain", [False, True])
def test_every_record_once(tmp_path: Path, target: int, by_chain: bool) -> None:
    """Whatever a task should read, the tasks together read all, in order."""
    write_log(tmp_path, [8, 1, 0, 5])
    groups = plan(RealDisk(), str(tmp_path), target, by_chain=by_chain, no_cut_bytes=0)
    wanted = [
        base + 120 * n for base, count in ((0, 8), (1200, 1), (3600, 5)) for n in range(count)
    ]
    assert offsets(groups) == wanted
    if target == 5000:
        assert len(groups) == 1


def test_tasks_at_least(tmp_path: Path) -> None:
    """`partitions_min` makes them smaller, as far as there are records."""
    write_log(tmp_path, [8, 8, 1])
    found = {
        wanted: plan(RealDisk(), str(tmp_path), partitions_min=wanted, no_cut_bytes=0)
        for wanted in (1, 3, 10, 1000)
    }
    assert [len(groups) for groups in found.values()] == [1, 3, 9, 17]
    assert len({tuple(offsets(groups)) for groups in found.values()}) == 1


def test_a_cut_at_every_byte_gives_the_same_rows(tmp_path: Path) -> None:
    """Resync from any position finds the next record, so each cut gives the same records."""
    write_log(tmp_path, [8])
    file = RealDisk().open(str(tmp_path / "commitlog" / f"{0:020d}"))
    for at in range(8 * 120):
        cut = resync(file, 0, at, FILE_BYTES)
        assert cut in (-(-at // 120) * 120, -1)
        if cut > 0:
            halves = [Span(file.path, 0, 0, cut, False), Span(file.path, 0, cut, 8 * 120, False)]
            assert offsets([halves]) == [120 * n for n in range(8)]


def test_no_cut_in_the_padding(tmp_path: Path) -> None:
    """Remains of older records behind the blank, in their own place, are never cut at."""
    end = write_log(tmp_path, [3, 1])
    path = tmp_path / "commitlog" / f"{0:020d}"
    ghost = encoded(1, base=FILE_BYTES - 120)
    data = path.read_bytes()
    path.write_bytes(data[: -len(ghost)] + ghost)
    groups = plan(RealDisk(), str(tmp_path), 600, no_cut_bytes=700)
    assert offsets(groups) == [0, 120, 240, 1200]
    assert groups[-1][-1].end == end


def test_the_newest_file_ends_at_the_first_break(tmp_path: Path) -> None:
    """Behind a break lie old bytes, some of them whole records in their own place: not read."""
    rubbish = b"rubbish!"
    ghost = encoded(1, base=2 * 120 + len(rubbish))
    end = write_log(tmp_path, [2], rubbish + ghost)
    assert offsets(plan(RealDisk(), str(tmp_path), 100, no_cut_bytes=0)) == [0, 120]
    assert plan(RealDisk(), str(tmp_path))[0][0].end == end


@settings(max_examples=60)
@given(kept=st.integers(0, 120) | st.integers(120, 120))
def test_a_torn_last_record_of_a_killed_store_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    """Of a record that was written in part nothing is read, however much of it is there."""
    folder = tmp_path_factory.mktemp("torn")
    end = write_log(folder, [3])
    path = folder / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: end - 120 + kept].ljust(FILE_BYTES, b"\0"))
    (folder / "abort").write_text("1")
    found = offsets(plan(RealDisk(), str(folder)))
    assert found == [0, 120, 240][: 2 + (kept == 120)]


def damaged(groups: list[list[Span]]) -> list[tuple[int, int]]:
    """Return where a plan knows of damage."""
    return [(span.start, span.end) for group in groups for span in group if span.why]


def test_doubtful_bodies_of_a_killed_store_are_damage(tmp_path: Path) -> None:
    """With `abort` there, a record of its end with a wrong checksum; what follows is the log's."""
    write_log(tmp_path, [5])
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[2 * 120 + 88] ^= 1
    path.write_bytes(data)
    assert len(offsets(plan(RealDisk(), str(tmp_path)))) == 5
    (tmp_path / "abort").write_text("1")
    groups = plan(RealDisk(), str(tmp_path))
    assert (offsets(groups), damaged(groups)) == ([0, 120, 360, 480], [(240, 360)])
    assert offsets(plan(RealDisk(), str(tmp_path), is_to_break=True)) == [0, 120]


@pytest.mark.parametrize("left", [None, 0, 120, 200])
def test_a_file_that_is_missing_between_others_is_damage(tmp_path: Path, left: int | None) -> None:
    """Or that is cut short: up to where the next one begins; what is in the others is read."""
    write_log(tmp_path, [2, 2, 2])
    path = tmp_path / "commitlog" / f"{FILE_BYTES:020d}"
    path.write_bytes(path.read_bytes()[: left or 0])
    if left is None:
        path.unlink()
    groups = plan(RealDisk(), str(tmp_path))
    whole = [span for group in groups for span in group if span.start + 120 <= span.end]
    assert damaged(groups) == [(FILE_BYTES + (left or 0), 2 * FILE_BYTES)]
    assert [span.start for span in whole if not span.why] == [
        0,
        *([FILE_BYTES] if left else []),
        2 * FILE_BYTES,
    ]


def hurt(folder: Path, *places: int) -> None:
    """Write over some bytes of the first file of a log."""
    path = folder / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    for place in places:
        data[place : place + 8] = b"rubbish!"
    path.write_bytes(data)


@pytest.mark.parametrize("target", [0, 1, 200])
def test_records_behind_damage_in_the_newest_file_are_read(tmp_path: Path, target: int) -> None:
    """However often it is damaged; what is damaged is told, not passed over."""
    write_log(tmp_path, [8])
    hurt(tmp_path, 120, 480, 840)
    groups = plan(RealDisk(), str(tmp_path), target)
    assert offsets(groups) == [0, 240, 360, 600, 720]
    assert damaged(groups) == [(120, 240), (480, 600)]


@pytest.mark.parametrize("by_chain", [False, True])
@pytest.mark.parametrize("counts", [[8], [8, 8]])
def test_a_newest_file_whose_first_page_is_lost_is_damage(
    tmp_path: Path, counts: list[int], by_chain: bool
) -> None:
    """It begins with zeros as one does that was made ahead, but it has records."""
    write_log(tmp_path, [*counts, 0])
    start = (len(counts) - 1) * FILE_BYTES
    path = tmp_path / "commitlog" / f"{start:020d}"
    path.write_bytes(bytes(480) + path.read_bytes()[480:])
    groups = plan(RealDisk(), str(tmp_path), by_chain=by_chain)
    before = [120 * number for number in range(8)] if start else []
    assert offsets(groups) == before + [start + 120 * number for number in range(4, 8)]
    assert damaged(groups) == [(start, start + 480)]


def queue_of(folder: Path, units: list[tuple[int, int]]) -> None:
    """Write the queue of a log's messages: place and size of each."""
    queue = folder / "consumequeue" / "orders" / "0"
    queue.mkdir(parents=True)
    data = b"".join(QUEUE_UNIT.pack(place, size, 0) for place, size in units)
    (queue / f"{0:020d}").write_bytes(data.ljust(600, b"\0"))


@pytest.mark.parametrize("queued", [1, 2, 3, 6, 8])
def test_remains_behind_the_end_have_no_units(tmp_path: Path, queued: int) -> None:
    """Of a closed log: those that recovery cut off may be younger than the last that it kept."""
    write_log(tmp_path, [8])
    hurt(tmp_path, 120)
    queue_of(tmp_path, [(120 * number, 120) for number in range(queued)])
    found = offsets(plan(RealDisk(), str(tmp_path)))
    assert found == ([0] if queued <= 2 else [0, *range(240, 960, 120)])


def test_remains_whose_offsets_were_given_out_again_are_none(tmp_path: Path) -> None:
    """Their units name other places."""
    write_log(tmp_path, [8])
    hurt(tmp_path, 120)
    queue_of(tmp_path, [(0, 120)] * 8)
    assert offsets(plan(RealDisk(), str(tmp_path))) == [0]


def test_what_came_since_the_last_start_may_lack_its_unit(tmp_path: Path) -> None:
    """While a broker runs, or after a kill; what was there before it does not."""
    write_log(tmp_path, [8])
    hurt(tmp_path, 120)
    queue_of(tmp_path, [(0, 120)])
    abort = tmp_path / "abort"
    abort.write_text("1")
    for seconds, wanted in ((-60, [0, *range(240, 960, 120)]), (60, [0])):
        at = STORED_AT_MS // 1000 + seconds
        os.utime(abort, (at, at))
        assert offsets(plan(RealDisk(), str(tmp_path))) == wanted


def test_what_is_written_meanwhile_is_no_damage(tmp_path: Path) -> None:
    """A broker may write two records between two looks: the next query has them."""
    write_log(tmp_path, [8])
    log = tmp_path / "commitlog" / f"{0:020d}"
    whole = log.read_bytes()
    log.write_bytes(whole[:240].ljust(FILE_BYTES, b"\0"))
    (tmp_path / "abort").write_text("1")
    later = (whole[:240] + bytes(120) + whole[360:]).ljust(FILE_BYTES, b"\0")

    class Writing(RealDisk):
        """Somebody writes to it while it is looked at."""

        looks = 0

        def list(self, folder: str) -> list[str]:
            """Have another record and all behind, before what lies behind is looked at."""
            if folder.endswith("consumequeue"):
                log.write_bytes(later)
            return super().list(folder)

        def open(self, path: str, **how: Any) -> File:
            """Have the record between as well, when that has been looked at once."""
            self.looks += log.read_bytes() == later
            if self.looks == 3:  # its length, what is in it, and again
                log.write_bytes(whole)
            return super().open(path, **how)

    assert offsets(plan(Writing(), str(tmp_path))) == [0, 120]
    assert log.read_bytes() == whole


def test_files_made_ahead_and_an_empty_log(tmp_path: Path) -> None:
    """Files of zeros hold nothing; a log of nothing has no tasks."""
    write_log(tmp_path, [0, 0])
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(bytes(FILE_BYTES))
    assert plan(RealDisk(), str(tmp_path)) == []
    path.write_bytes(encoded(2).ljust(FILE_BYTES, b"\0"))
    assert offsets(plan(RealDisk(), str(tmp_path))) == [0, 120]


def test_what_is_no_plain_log_is_refused(tmp_path: Path) -> None:
    """A folder without a log, a log of DLedger, and files that overlap are named."""
    with pytest.raises(ForeignStore, match="no folder commitlog"):
        plan(RealDisk(), str(tmp_path))
    with pytest.raises(ForeignStore, match="nowhere is not a store directory: nothing has"):
        plan(RealDisk(), str(tmp_path / "nowhere"))
    (tmp_path / "notes").write_text("x")
    with pytest.raises(ForeignStore, match="notes is not a store directory: it is a file"):
        plan(RealDisk(), str(tmp_path / "notes"))
    write_log(tmp_path, [2, 2, 2])
    log = tmp_path / "commitlog"
    middle = log / f"{FILE_BYTES:020d}"
    middle.write_bytes(middle.read_bytes() + b"more")
    with pytest.raises(CorruptRecord, match="ends at 2404, then comes"):
        plan(RealDisk(), str(tmp_path))
    middle.unlink()
    first = log / f"{0:020d}"
    first.write_bytes((b"\0\0\0\1\0\0\0\x99" + bytes(40) + encoded(1)).ljust(FILE_BYTES, b"\0"))
    (log / f"{2 * FILE_BYTES:020d}").unlink()
    with pytest.raises(ForeignStore, match="DLedger"):
        plan(RealDisk(), str(tmp_path))


@pytest.mark.parametrize(
    ("inside", "said"),
    [("dledger-n0/data", "a log of DLedger"), ("compactionLog/t/0", "kept of compaction topics")],
)
def test_logs_of_other_formats_are_named(tmp_path: Path, inside: str, said: str) -> None:
    """A broker with DLedger may have a folder commitlog as well, with nothing in it."""
    (tmp_path / inside).mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(ForeignStore, match=said):
            plan(RealDisk(), str(tmp_path))
        (tmp_path / "commitlog").mkdir(exist_ok=True)


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("02-kill9-load", 0),
        ("03-torn-last-cut", 1),
        ("03-torn-last-head", 1),
        ("13-oversize", 0),
        ("14-retention", 0),
        ("15-rewritten-tail", 0),
    ],
)
def test_stores_of_a_real_broker_are_read_to_their_end(
    tmp_path: Path, case: str, lost: int
) -> None:
    """Stores of a real broker are read to the end that it recovered to itself."""
    store = unpack(case, tmp_path)
    wanted = [line["phys"] for line in expected(case)]
    for target in (0, 4096):
        groups = plan(RealDisk(), store, target, no_cut_bytes=4096)
        assert offsets(groups) == wanted[: len(wanted) - lost]
