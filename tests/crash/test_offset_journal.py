"""Committed offsets outlive the process however commits and flushes fall together."""

from pathlib import Path

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.broker.offsets import ConsumerOffsets
from sprocket.testing.clock import FakeClock


def test_journal_replaced_twice_keeps_its_name(tmp_path: Path) -> None:
    """Commits that come during one flush, and during the next, are all read again.

    The journal that was made during the first flush was renamed, but went on under the name it was
    made with; the second was then renamed to that, and a restart read the one before.
    """
    disk, folder = RealDisk(), str(tmp_path)
    disk.make_folder(f"{folder}/config")
    offsets = ConsumerOffsets(disk, folder, FakeClock(1))
    offset = 0
    for _ in range(3):
        offset += 1
        offsets.commit("group", "topic", 0, offset)
        job = offsets.begin_flush()
        assert job is not None
        offset += 1
        offsets.commit("group", "topic", 0, offset)
        job.run()
        offsets.finish_flush(job, None)

    again = ConsumerOffsets(disk, folder, FakeClock(1))
    assert offset == again.get("group", "topic", 0)
