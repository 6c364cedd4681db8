"""A real file system without room: what it refused is undone when there is room again."""

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores import SMALL, new

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.rocketmq.geometry import LogGeometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

SIZE_KIB = 512


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a mebibyte, for whoever may mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "tmpfs", str(tmp_path)]
    try:
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    if refused.returncode:
        pytest.skip(f"nothing can be mounted here: {refused.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(path: Path) -> None:
    """Take all space that is left."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize("size", [3000, 7000])
def test_sends_go_on_when_there_is_room_again(small: Path, size: int) -> None:
    """Records of all lengths meet the end of the last block that they have."""
    store = Store.open(
        RealDisk(),
        str(small / "store"),
        StoreSettings(fill_ahead_bytes=0, index_messages=False, message_bytes_max=8192),
        FakeClock(),
        dataclasses.replace(SMALL, log=LogGeometry(segment_bytes=64 * 1024)),
    )
    stored = 0
    for _ in range(3):
        fill(small / "junk")
        for _ in range(20):
            try:
                store.append(new(body=os.urandom(size)))
                store.write()
                stored += 1
            except (DiskFull, DiskFailed):
                break
        else:
            pytest.fail("the disk is never full")
        (small / "junk").unlink()
        steps.run(store.maintain_steps())
        assert store.refusal is None
        store.append(new(body=b"again"))
        store.write()
        store.sync()
        stored += 1
    store.close()
    again = Store.open_read_only(RealDisk(), str(small / "store"))
    assert len(list(again.records())) == stored
    again.close()
