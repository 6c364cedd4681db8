"""Whole files: a new content is there whole, or the old one is; see `contract/test_disk`, too."""

import random
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk, replace_file
from sprocket.base.errors import DiskFailed
from sprocket.testing.disk import SimulatedDisk


@pytest.mark.parametrize("seed", range(60))
def test_replace_file_leaves_the_old_or_the_new_content(seed: int) -> None:
    """At every step of it, a crash leaves one of the two, whole."""
    for step in range(1, 12):
        disk = SimulatedDisk()
        disk.make_folder("/x")
        replace_file(disk, "/x/a", b"old" * 300)
        calls = ("write", "sync", "rename", "sync_folder", "resize", "create")
        for kind in calls:
            disk.fail(kind, step)
        try:
            replace_file(disk, "/x/a", b"new" * 300, keep_backup=True)
            allowed = {b"new" * 300}
        except DiskFailed:
            allowed = {b"old" * 300, b"new" * 300}
        found = disk.crash(random.Random(seed * 100 + step).randrange)
        assert found.open("/x/a").read(0, 2000) in allowed


def test_a_file_of_the_current_folder_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path may be a plain name, as people type it."""
    monkeypatch.chdir(tmp_path)
    for data in (b"old", b"new"):
        replace_file(RealDisk(), "plain.json", data, keep_backup=True)
    assert (tmp_path / "plain.json").read_bytes() == b"new"
    assert (tmp_path / "plain.json.bak").read_bytes() == b"old"
