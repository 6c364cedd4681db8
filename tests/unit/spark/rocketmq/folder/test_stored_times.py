"""Which files of a log are left out for their times: none that may hold what is wanted."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import NARROW, WIDE

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import BORN_HOST_V6, NewRecord
from sprocket.spark.rocketmq.folder.plan import LogFile
from sprocket.spark.rocketmq.folder.stored_times import MARGIN_MS, part_of_times

HOUR = MARGIN_MS


def write(folder: Path, times: Sequence[int], *, is_wide: bool = False) -> list[LogFile]:
    """Write files that begin with records of some store times, each file 1000 bytes on."""
    folder.mkdir(parents=True, exist_ok=True)
    log = []
    for number, at_ms in enumerate(times):
        host, flag = (WIDE, BORN_HOST_V6) if is_wide else (NARROW, 0)
        new = NewRecord("t", 0, b"x", b"", born_host=host, store_host=NARROW, sys_flag=flag)
        place = number * 1000
        data = record.encode(
            new, queue_offset=0, physical_offset=place, stored_at_ms=at_ms, crc_tail=False
        )
        path = folder / f"{place:020d}"
        path.write_bytes(data)
        log.append(LogFile(str(path), place, place + 1000))
    return log


@pytest.mark.parametrize("is_wide", [False, True])
def test_files_far_away_are_left_out(tmp_path: Path, is_wide: bool) -> None:
    """The file before the first that is young enough may still end in young records."""
    log = write(tmp_path, [n * HOUR for n in range(10)], is_wide=is_wide)
    disk = RealDisk()
    assert part_of_times(disk, log, None, None) == (0, 10_000)
    assert part_of_times(disk, log, 5 * HOUR, None) == (3_000, 10_000)
    assert part_of_times(disk, log, 5 * HOUR + 1, None) == (4_000, 10_000)
    assert part_of_times(disk, log, None, 5 * HOUR) == (0, 6_000)
    assert part_of_times(disk, log, 0, 100 * HOUR) == (0, 10_000)
    assert part_of_times(disk, log, 100 * HOUR, None) == (9_000, 10_000)


@settings(max_examples=60)
@given(
    steps=st.lists(st.integers(0, 3 * HOUR), min_size=1, max_size=8),
    jitter=st.lists(st.integers(-HOUR // 2, HOUR // 2), min_size=8, max_size=8),
    bounds=st.tuples(st.integers(0, 20 * HOUR), st.integers(0, 20 * HOUR)),
)
def test_what_is_wanted_is_inside(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[int],
    jitter: list[int],
    bounds: tuple[int, int],
) -> None:
    """Also where the clock went back by less than the margin."""
    at, times = HOUR, []
    for step, shift in zip(steps, jitter, strict=False):
        at += step
        times.append(max(at + shift, 0))
    log = write(tmp_path_factory.mktemp("log"), times)
    start, end = part_of_times(RealDisk(), log, *bounds)
    for file, first_ms in zip(log, times, strict=True):
        if bounds[0] <= first_ms < bounds[1]:
            assert start <= file.start < end
