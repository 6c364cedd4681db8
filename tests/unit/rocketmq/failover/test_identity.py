"""Who a store is stays so, unless it may have lost something."""

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.rocketmq.failover import incarnation_of
from sprocket.testing.disk import SimulatedDisk

PATH = "/store/config/incarnation"


def made() -> SimulatedDisk:
    """Return a disk with the folder of a store."""
    disk = SimulatedDisk()
    disk.make_folder("/store/config")
    return disk


def test_it_is_made_once() -> None:
    """And is another one in another store."""
    disk = made()
    first = incarnation_of(disk, PATH, may_lack_acknowledged=False)
    assert len(bytes.fromhex(first)) == 16
    assert incarnation_of(disk, PATH, may_lack_acknowledged=False) == first
    assert incarnation_of(made(), PATH, may_lack_acknowledged=False) != first


def test_who_may_have_lost_something_is_another_one() -> None:
    """And stays that."""
    disk = made()
    first = incarnation_of(disk, PATH, may_lack_acknowledged=True)
    second = incarnation_of(disk, PATH, may_lack_acknowledged=True)
    assert second != first
    assert incarnation_of(disk, PATH, may_lack_acknowledged=False) == second


@pytest.mark.parametrize("at", [0, 31, 33, -1])
def test_a_flipped_bit_is_seen(at: int) -> None:
    """The store is another member then, as nobody knows which it was."""
    disk = made()
    first = incarnation_of(disk, PATH, may_lack_acknowledged=False)
    content = bytearray(read_file(disk, PATH))
    content[at] ^= 1
    replace_file(disk, PATH, bytes(content))
    second = incarnation_of(disk, PATH, may_lack_acknowledged=False)
    assert second != first
    assert incarnation_of(disk, PATH, may_lack_acknowledged=False) == second
