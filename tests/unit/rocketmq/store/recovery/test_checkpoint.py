"""The checkpoint is RocketMQ's 40 bytes in a page."""

import pytest

from sprocket.rocketmq.store.recovery import Checkpoint, checkpoint
from sprocket.testing.disk import SimulatedDisk


def test_a_checkpoint_is_read_back() -> None:
    """The file has a whole page and keeps its length when written again."""
    disk = SimulatedDisk()
    saved = Checkpoint(1, 2, 3, 4, 5)
    for wanted in (Checkpoint(), saved):
        checkpoint.save(disk, "/checkpoint", wanted)
        assert checkpoint.load(disk, "/checkpoint") == wanted
    assert disk.size("/checkpoint") == 4096
    assert checkpoint.load(disk.crash(lambda _: 0), "/checkpoint") == saved


def test_a_missing_or_short_one_is_zeros() -> None:
    """A crash may have left it empty, RocketMQ 4 writes three numbers."""
    disk = SimulatedDisk()
    assert checkpoint.load(disk, "/checkpoint") == Checkpoint()
    file = disk.open("/checkpoint", write=True, create=True)
    assert checkpoint.load(disk, "/checkpoint") == Checkpoint()
    file.write([checkpoint.encode(Checkpoint(1, 2, 3))[:24]], 0)
    assert checkpoint.load(disk, "/checkpoint") == Checkpoint(1, 2, 3)
    checkpoint.save(disk, "/checkpoint", Checkpoint(7))
    assert disk.size("/checkpoint") == 4096


def test_numbers_below_zero_count_as_none() -> None:
    """Recovery then begins earlier, never later."""
    assert checkpoint.decode(b"\xff" * 40) == Checkpoint()


@pytest.mark.parametrize(
    ("log", "queues", "safe"), [(9000, 8000, 5000), (8000, 9000, 5000), (0, 9000, 0), (1, 1, 0)]
)
def test_the_safe_time_lies_three_seconds_before_both(log: int, queues: int, safe: int) -> None:
    """The index has no say: it knows itself how far it is durable."""
    assert Checkpoint(log, queues).safe_at_ms() == safe
