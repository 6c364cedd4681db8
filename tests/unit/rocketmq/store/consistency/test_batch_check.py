"""Units of batch queues that do not agree with the log are named."""

import struct

import pytest
from tests.recorded import Recorded
from tests.stores import ROOT, SMALL, new, open_store

from sprocket.rocketmq.store.repair import Rule
from sprocket.rocketmq.store.repair.check import check
from sprocket.testing.disk import SimulatedDisk

FOLDER = f"{ROOT}/batchconsumequeue/topic/0"
UNIT_BYTES = 46
COUNT = 25


def closed() -> SimulatedDisk:
    """A store with a batch queue of three files."""
    disk = SimulatedDisk()
    store = open_store(disk)
    store.batch_topics.add("topic")
    for number in range(COUNT):
        store.append(new("topic", 0, b"body", name=f"N{number}"))
    store.write()
    store.close()
    return disk


def rules(disk: SimulatedDisk) -> list[Rule]:
    """Which rules are broken."""
    return [finding.rule for finding in check(disk, ROOT)]


def put(disk: SimulatedDisk, number: int, at: int, data: bytes) -> None:
    """Change some bytes of a unit in the first file."""
    disk.open(f"{FOLDER}/{0:020d}", write=True).write([data], number * UNIT_BYTES + at)


def test_whole_queues_are_whole() -> None:
    """Ours, and those of RocketMQ, with inner batches."""
    assert rules(closed()) == []
    recorded = Recorded("10d-batch-cq")
    assert list(check(recorded.in_memory(), ROOT, recorded.geometry)) == []


@pytest.mark.parametrize("at", [8, 12, 20, 28, 36, 38, 42])
def test_each_field_is_compared(at: int) -> None:
    """Size, code, time, first offset, count and the two that are always the same."""
    disk = closed()
    put(disk, 3, at, b"\x31")
    (finding,) = check(disk, ROOT)
    assert (finding.rule, finding.position) == (Rule.QUEUE_UNIT, 3 * UNIT_BYTES)
    assert finding.record >= 0
    assert finding.expected != finding.found


def test_units_that_are_missing_or_too_many_are_named() -> None:
    """A place that leads elsewhere is both."""
    disk = closed()
    put(disk, 3, 0, struct.pack(">q", 1))
    assert sorted(rule.name for rule in rules(disk)) == ["QUEUE_MISSING", "QUEUE_STRAY"]
    disk = closed()
    file = disk.open(f"{FOLDER}/{disk.list(FOLDER)[-1]}", write=True)
    stray = struct.pack(">qiqqqhii", 1 << 20, 100, 0, 5, COUNT, 1, -1, 0)
    file.write([stray], COUNT % SMALL.queue.batch_units_per_file * UNIT_BYTES)
    assert rules(disk) == [Rule.QUEUE_STRAY]


def test_a_lost_queue_is_missed_and_one_that_is_written_is_not() -> None:
    """The last units of a store that is open may be under way."""
    disk = closed()
    disk.remove_tree(FOLDER)
    (finding,) = check(disk, ROOT)
    assert (finding.rule, finding.path) == (Rule.QUEUE_MISSING, FOLDER)
    disk.open(f"{ROOT}/abort", write=True, create=True)
    assert rules(disk) == []
