"""Planning a large log: what it reads grows with the tasks, and not with the bytes of the log."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.samples import encoded

from sprocket.base.disk import File, RealDisk
from sprocket.base.units import GIB, KIB, MIB
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.rocketmq.folder.plan import NO_CUT_BYTES, PARTITION_BYTES_MAX, plan

FILES = 64
CUTS = range(PARTITION_BYTES_MAX, GIB - NO_CUT_BYTES, PARTITION_BYTES_MAX)
"""Where a full file is to be cut, bytes into it."""
BEHIND = 3 * KIB
"""A record begins so many bytes behind each of them."""
LAST_RECORDS = 1000


class CountingDisk(RealDisk):
    """Counts the files that are opened, what is read of them, and in how many calls."""

    def __init__(self) -> None:
        self.opened = self.calls = self.taken = 0

    def open(self, path: str, **how: Any) -> File:
        """Open a file whose reads are counted."""
        self.opened += 1
        return _CountingFile(super().open(path, **how), self)


class _CountingFile:
    def __init__(self, file: File, disk: CountingDisk) -> None:
        self._file = file
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        """Read, and count it."""
        data = self._file.read(position, size)
        self._disk.calls += 1
        self._disk.taken += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Make a log of 64 GiB: holes, but for records at its files' starts and behind the cuts."""
    layout, disk = StoreLayout(str(tmp_path)), RealDisk()
    disk.make_folder(layout.commitlog)
    for number in range(FILES):
        base = number * GIB
        with (tmp_path / "commitlog" / f"{base:020d}").open("wb") as file:
            file.truncate(GIB)
            if number == FILES - 1:
                file.write(encoded(LAST_RECORDS, base=base))
                continue
            for place in (0, *(cut + BEHIND for cut in CUTS)):
                file.seek(place)
                file.write(encoded(1, base=base + place))
    return str(tmp_path)


def test_a_log_of_64_gib_is_planned_by_a_few_reads(store: str) -> None:
    """A small read finds each cut; the newest file is read as far as it was written."""
    disk = CountingDisk()
    groups = plan(disk, store)
    wanted = [base + place + BEHIND for base in range(0, (FILES - 1) * GIB, GIB) for place in CUTS]
    starts = [span.start for group in groups for span in group]
    assert set(wanted) <= set(starts)
    assert all(group[-1].end - group[0].start <= PARTITION_BYTES_MAX + BEHIND for group in groups)
    assert disk.opened <= FILES + 7
    assert disk.calls <= len(wanted) + 8
    assert disk.taken <= len(wanted) * 32 * KIB + 2 * MIB
