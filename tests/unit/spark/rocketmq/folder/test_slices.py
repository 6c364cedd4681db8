"""Reading a file of the log slice by slice."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import encoded, found, logs, rows, similar_logs

from sprocket.base.disk import File, RealDisk
from sprocket.rocketmq.codec.columns import Stop
from sprocket.rocketmq.codec.record import record
from sprocket.spark.rocketmq.folder import slices as module
from sprocket.spark.rocketmq.folder.slices import resync, slices
from sprocket.spark.rocketmq.rows.columns import FULL


def opened(folder: Path, data: bytes) -> File:
    """Write a file and open it."""
    path = folder / "log"
    path.write_bytes(data)
    return RealDisk().open(str(path))


@pytest.mark.parametrize("slice_bytes", [1, 8, 9, 100, 120, 121, 122, 200, 10_000])
def test_any_slice_size_gives_the_same(tmp_path: Path, slice_bytes: int) -> None:
    """Where a slice ends does not matter, nor that a record is longer than one."""
    data = encoded(2) + encoded(1, base=240, body=b"x" * 500) + encoded(2, base=856, first=5)
    size = len(data)
    file = opened(tmp_path, data + bytes(50))
    pieces = list(slices(file, 0, 0, size, slice_bytes))
    assert [pieces[-1].stop, pieces[-1].end] == [Stop.END, size]
    assert sum(len(piece.records) for piece in pieces) == 5
    assert all(piece.stop is None for piece in pieces[:-1])


def test_slices_are_bounded(tmp_path: Path) -> None:
    """None has more bytes than are read at once, but for one record that is longer than that."""
    body = bytes(10_000)
    data = encoded(3, body=body) + encoded(1, base=3 * 10_116, body=bytes(50_000), first=3)
    path = tmp_path / "log"
    path.write_bytes(data + encoded(5, base=len(data), body=body, first=4))
    file = RealDisk().open(str(path))
    pieces = list(slices(file, 0, 0, file.size(), 25_000))
    sizes = [(len(piece.records), piece.end - piece.start) for piece in pieces]
    assert [count for count, _ in sizes] == [2, 1, 1, 2, 2, 1]
    assert all(size <= 25_000 or count == 1 for count, size in sizes)


@pytest.mark.parametrize(
    ("after", "stop", "why"),
    [
        (record.blank(50), Stop.BLANK, ""),
        (bytes(50), Stop.BROKEN, "nothing is written here"),
        (b"rubbish that is not a record at all", Stop.BROKEN, "no record begins here"),
        (encoded(1, base=1), Stop.BROKEN, "the record says that it lies at 1"),
        (encoded(1, base=240)[:-1], Stop.BROKEN, "does not end in the 119 bytes that are left"),
    ],
)
def test_the_end_is_explained(tmp_path: Path, after: bytes, stop: Stop, why: str) -> None:
    """What follows the last record is told apart, whatever the slice."""
    data = encoded(2) + after
    for slice_bytes in (150, 10_000):
        file = opened(tmp_path, data)
        last = list(slices(file, 0, 0, len(data), slice_bytes))[-1]
        assert (last.stop, last.end) == (stop, 240)
        assert why in last.why


def test_resync_finds_the_next_record_and_no_copy(tmp_path: Path) -> None:
    """A record is taken by its own place; copies of records in a body are passed over."""
    copies = encoded(3)
    data = encoded(1, base=1000) + encoded(1, base=1120, body=copies)
    data += encoded(2, base=1000 + len(data))
    starts = [0, 120, len(data) - 240, len(data) - 120]
    file = opened(tmp_path, data)
    for slice_bytes in (64, 100, 10_000):
        for at in range(len(data)):
            wanted = min((start for start in starts if start >= at), default=-1)
            assert resync(file, 1000, at, len(data), slice_bytes) == wanted
    assert resync(file, 999, 0, len(data)) == -1
    assert os.path.getsize(file.path) == len(data)


@given(similar_logs() | logs(), st.data())
@settings(max_examples=100)
@pytest.mark.slow
def test_skipped_bodies_change_nothing_else(data: bytes, draw: st.DataObject) -> None:
    """Every column but the body, and where and why the records end, whatever is damaged."""
    starts = [int(start) for start in found(data).start]
    damaged = bytearray(data)
    if draw.draw(st.booleans()):
        start = draw.draw(st.sampled_from(starts))
        field = draw.draw(st.sampled_from([0, 2, 3, 4, 32, 35, 39, 84, 87]) | st.integers(0, 90))
        damaged[start + field] = draw.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    names = [name for name in FULL if name != "body"]

    def read(file: File, skip_bodies: bool) -> tuple[list[dict[str, Any]], object]:
        made: list[dict[str, Any]] = []
        place = last = None
        for last in slices(file, 0, 0, end, slice_bytes, skip_bodies=skip_bodies):
            assert place is None or place == last.start
            place = last.end
            made += rows(last.records, names)
        assert last is not None
        return made, (last.end, last.stop, last.why)

    slice_bytes = draw.draw(st.sampled_from([1, 200, 500]))
    before_end = draw.draw(st.sampled_from([0, 1, 50, 91, 200]))
    end = max(draw.draw(st.sampled_from([*starts, len(data)])) - before_end, 1)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = opened(Path(folder), bytes(damaged))
        wanted = read(file, False)
        patch.setattr(module, "SKIPPED_BYTES", draw.draw(st.sampled_from([0, 150])))
        patch.setattr(module, "SLICE_RECORDS", draw.draw(st.sampled_from([2, 1000])))
        assert read(file, True) == wanted
        file.close()


def test_large_bodies_are_not_read_where_nobody_wants_them(tmp_path: Path) -> None:
    """Of ten records of 100 KiB little more than the first ones is read."""
    data = encoded(10, body=b"x" * 100 * 1024)
    file = opened(tmp_path, data)
    taken = []

    class Counted:
        def read(self, position: int, size: int) -> bytes:
            taken.append(size)
            return file.read(position, size)

    last = None
    count = 0
    counted: Any = Counted()
    for last in slices(counted, 0, 0, len(data), 110 * 1024, skip_bodies=True):
        count += len(last.records)
    assert last is not None
    assert (count, last.stop) == (10, Stop.END)
    assert sum(taken) < 3.2 * 110 * 1024
