"""A large file is replaced piece by piece, and found whole whatever happens meanwhile."""

from random import Random

import pytest

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.base.tables import BACKUP, BackedFile
from sprocket.base.tables.snapshot import SYNC_BYTES
from sprocket.testing.disk import SimulatedDisk

PATH = "/s/table"


def fresh() -> SimulatedDisk:
    """Return a disk with a folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s")
    return disk


def replace(disk: SimulatedDisk, *pieces: bytes) -> None:
    """Replace the file here and now."""
    steps.run(BackedFile(disk, PATH).replace_steps(pieces))


def found(disk: SimulatedDisk) -> bytes:
    """Return the content as a reader finds it: under its own name, or its backup's."""
    return read_file(disk, PATH if disk.exists(PATH) else PATH + BACKUP)


def test_the_file_is_all_pieces_and_the_old_one_is_kept() -> None:
    """Of three contents the last two are there."""
    disk = fresh()
    replace(disk)
    assert (read_file(disk, PATH), read_file(disk, PATH + BACKUP)) == (b"", b"")
    for number in range(3):
        replace(disk, b"a%d" % number, b"", b"b")
    assert read_file(disk, PATH) == b"a2b"
    assert read_file(disk, PATH + BACKUP) == b"a1b"
    assert disk.list("/s") == ["table", "table.bak"]


def test_a_crash_at_any_call_leaves_the_old_or_the_new_content() -> None:
    """Also a kill, and whatever blocks and names a power loss takes."""
    for seed in range(30):
        rng = Random(seed)
        disk = fresh()
        replace(disk, b"old" * 500)
        left: list[bytes] = []

        def look(disk: SimulatedDisk = disk, rng: Random = rng, left: list[bytes] = left) -> None:
            before, disk.before = disk.before, None
            left += [found(disk.crash(rng.randrange)), found(disk.kill())]
            disk.before = before

        disk.before = lambda _call, _path, look=look: look()
        replace(disk, b"new" * 300, b"er" * 400)
        disk.before = None
        new = b"new" * 300 + b"er" * 400
        assert set(left) <= {b"old" * 500, new}, seed
        assert found(disk.crash(rng.randrange)) == new


@pytest.mark.parametrize("call", ["create", "resize", "write", "sync", "rename", "sync_folder"])
def test_a_failure_keeps_a_content_and_the_next_try_succeeds(call: str) -> None:
    """The file is closed, too: nothing is left open."""
    disk = fresh()
    replace(disk, b"old")
    disk.fail(call)
    with pytest.raises((DiskFailed, DiskFull)):
        replace(disk, b"new")
    assert found(disk.kill()) in (b"old", b"new")
    replace(disk, b"newer")
    assert found(disk.crash(lambda _: 0)) == b"newer"


def test_much_is_synced_on_the_way() -> None:
    """So that nobody else's sync has to wait for all of it."""
    disk = fresh()
    replace(disk)
    before = disk.calls["sync"]
    replace(disk, *[bytes(SYNC_BYTES // 2)] * 5)
    assert disk.calls["sync"] - before == 3


def test_work_that_is_cut_off_leaves_the_old_content() -> None:
    """As when the owner stops between two steps."""
    disk = fresh()
    replace(disk, b"old")
    work = BackedFile(disk, PATH).replace_steps([b"new"])
    result = steps.advance(work)
    for _ in range(2):
        assert result is not None
        result = steps.advance(work, result())
    work.close()
    assert found(disk) == b"old"
