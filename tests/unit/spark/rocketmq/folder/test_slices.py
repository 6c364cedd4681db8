"""Reading a file of the log slice by slice."""

import os
from pathlib import Path

import pytest
from tests.unit.spark.samples import encoded

from sprocket.base.disk import File, RealDisk
from sprocket.rocketmq.codec.columns import Stop
from sprocket.rocketmq.codec.record import record
from sprocket.spark.rocketmq.folder.slices import resync, slices


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


@pytest.mark.parametrize(
    ("after", "stop", "why"),
    [
        (record.blank(50), Stop.BLANK, ""),
        (bytes(50), Stop.BROKEN, "nothing is written here"),
        (b"rubbish that is no record at all", Stop.BROKEN, "no record begins here"),
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
