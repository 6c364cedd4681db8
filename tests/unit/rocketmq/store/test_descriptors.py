"""However many files the log has, few of them are open at once, in every command."""

import os
import pathlib
from collections.abc import Callable

import pytest
from tests.stores import SMALL, new

from sprocket.base.disk import File, RealDisk
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.repair import salvage
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

LOG_FILES = 300
SETTINGS = StoreSettings(fill_ahead_bytes=0, message_bytes_max=4096)

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")


class CountingDisk(RealDisk):
    """Counts what the process has open whenever another file was opened."""

    def __init__(self) -> None:
        self.before = len(os.listdir("/proc/self/fd"))
        self.most = 0

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        file = super().open(path, write=write, create=create, size=size)
        self.most = max(self.most, len(os.listdir("/proc/self/fd")) - self.before)
        return file


def _filled(folder: str) -> None:
    """A store with a message in each of many log files."""
    store = Store.open(RealDisk(), folder, SETTINGS, FakeClock(), SMALL)
    body = bytes(SMALL.log.segment_bytes // 2)
    for number in range(LOG_FILES):
        store.append(new("topic", number % 8, body, name=f"N{number}"))
        store.write()
    store.close()


def _recover(disk: CountingDisk, folder: str) -> None:
    opening.distrust(disk, folder)
    Store.open(disk, folder, SETTINGS, FakeClock()).close()


def _read(disk: CountingDisk, folder: str) -> None:
    store = Store.open_read_only(disk, folder)
    assert len(list(store.records())) == LOG_FILES
    for number in range(LOG_FILES):
        got = store.get_messages("topic", number % 8, number // 8, max_count=1)
        assert got.count == 1
        assert len(store.find("topic", f"N{number}").offsets) == 1
    store.close()


COMMANDS: dict[str, Callable[[CountingDisk, str], object]] = {
    "recover": _recover,
    "check": lambda disk, folder: list(check(disk, folder)),
    "salvage": lambda disk, folder: salvage(disk, folder, f"{folder}-new", FakeClock()),
    "read": _read,
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_few_files_are_open(command: str, tmp_path: pathlib.Path) -> None:
    """Half of what is allowed, as tests have one kind of work at a time."""
    folder = str(tmp_path / "store")
    _filled(folder)
    disk = CountingDisk()
    COMMANDS[command](disk, folder)
    assert 0 < disk.most <= 128
