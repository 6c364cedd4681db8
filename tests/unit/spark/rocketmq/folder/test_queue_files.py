"""What queue files say: equal to what the broker answered for each queue."""

import json
from pathlib import Path

import pytest
from tests.unit.spark.samples import DATA, unpack

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import FILLER_SIZE, QUEUE_UNIT
from sprocket.spark.rocketmq.folder import log_files, queue_files
from sprocket.spark.rocketmq.folder.queue_files import QueueBounds, UnitPlace


@pytest.mark.parametrize("case", ["01-basic", "09-index", "14-retention", "08-consumers"])
def test_queues_of_a_real_broker(tmp_path: Path, case: str) -> None:
    """First and end are what that broker had, before it was started again."""
    layout = StoreLayout(unpack(case, tmp_path))
    files = RealDisk()
    start = log_files(files, layout)[0].start
    told = json.loads((DATA / case / "expected.json").read_text(encoding="utf-8"))["topics"]
    looked_at = 0
    for topic, queues in told.items():
        for queue_id, wanted in queues["queues"].items():
            found = queue_files(files, layout, topic, int(queue_id)).offsets(start)
            if found is not None:
                end = wanted.get("max_at_recovery", wanted["max"])
                assert found == QueueBounds(wanted["min"], end), (topic, queue_id)
                looked_at += 1
    assert looked_at >= 3


def write(folder: Path, files: dict[int, list[tuple[int, int]]]) -> StoreLayout:
    """Write a queue's files of four units; each begins at a unit number."""
    queue = folder / "consumequeue" / "t" / "0"
    queue.mkdir(parents=True)
    for first, units in files.items():
        data = b"".join(QUEUE_UNIT.pack(start, size, 0) for start, size in units)
        (queue / f"{first * 20:020d}").write_bytes(data.ljust(80, b"\0"))
    return StoreLayout(str(folder))


def test_single_units(tmp_path: Path) -> None:
    """A unit is found by its offset, in whichever file it is; what was never written is none."""
    layout = write(tmp_path, {4: [(0, 100), (100, 50)] * 2, 8: [(150, 7)]})
    queue = queue_files(RealDisk(), layout, "t", 0)
    found = {offset: queue.unit(offset) for offset in range(3, 13)}
    assert {offset: unit for offset, unit in found.items() if unit} == {
        4: UnitPlace(0, 100),
        5: UnitPlace(100, 50),
        6: UnitPlace(0, 100),
        7: UnitPlace(100, 50),
        8: UnitPlace(150, 7),
    }
    assert queue.offsets(0) == QueueBounds(4, 9)
    assert queue_files(RealDisk(), layout, "t", 1).offsets(0) is None


@pytest.mark.parametrize("end", [0, 1, 3, 4])
@pytest.mark.parametrize("kept", range(5))
def test_what_the_log_has_lost_is_not_in_the_queue(tmp_path: Path, kept: int, end: int) -> None:
    """Wherever the log begins, and wherever the queue ends."""
    layout = write(tmp_path, {0: [(number * 10, 10) for number in range(end)]})
    found = queue_files(RealDisk(), layout, "t", 0).offsets(kept * 10)
    assert found == QueueBounds(min(kept, end), end)


def test_places_of_lost_messages_count_as_kept(tmp_path: Path) -> None:
    """Nobody is told that messages were cleaned away which are damaged."""
    units = [(0, 10), (0, FILLER_SIZE), (20, 10), (30, 10)]
    layout = write(tmp_path, {0: units})
    assert queue_files(RealDisk(), layout, "t", 0).offsets(0) == QueueBounds(0, 4)
