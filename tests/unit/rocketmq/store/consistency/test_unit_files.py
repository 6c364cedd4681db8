"""Units are read as they lie there; what is not there reads as zeros."""

from pathlib import Path

import pytest
from tests.recorded import Recorded
from tests.stores import ROOT, SMALL, filled

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.store.consistency import Finding, StoredUnits, UnitFiles, queues_in
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES, RocksQueues
from sprocket.testing.disk import SimulatedDisk

FOLDER = f"{ROOT}/consumequeue"
FILE_BYTES = SMALL.queue.file_bytes


def closed() -> SimulatedDisk:
    """A store with two queues of thirty units in three files."""
    disk, store = filled(60)
    store.close()
    return disk


def found(disk: SimulatedDisk, findings: list[Finding]) -> dict[int, UnitFiles]:
    """The queues of the topic by their ids."""
    queues = queues_in(disk, FOLDER, FILE_BYTES, findings)
    return {key[1]: UnitFiles(folder, segments) for key, folder, segments in queues}


def test_units_are_read_over_files() -> None:
    """From any on, as many as asked for; behind the last file there is nothing."""
    findings: list[Finding] = []
    files = found(closed(), findings)[1]
    assert (findings, files.first, files.end, files.data_end()) == ([], 0, 30, 30)
    units = list(QUEUE_UNIT.iter_unpack(files.read(5, 30)))
    assert [size > 0 for _place, size, _code in units] == [True] * 25 + [False] * 5
    assert files.place(12) == (f"{FOLDER}/topic/1/{FILE_BYTES:020d}", 2 * UNIT_BYTES)
    assert files.place(99) == (f"{FOLDER}/topic/1", 99 * UNIT_BYTES)


def test_a_missing_file_reads_as_nothing() -> None:
    """Its units are zeros, those around it are there, and it is named."""
    disk = closed()
    disk.remove(f"{FOLDER}/topic/0/{FILE_BYTES:020d}")
    disk.open(f"{FOLDER}/topic/1/{2 * FILE_BYTES:020d}", write=True).resize(UNIT_BYTES)
    findings: list[Finding] = []
    queues = found(disk, findings)
    sizes = [unit[1] > 0 for unit in QUEUE_UNIT.iter_unpack(queues[0].read(0, 30))]
    assert sizes == [True] * 10 + [False] * 10 + [True] * 10
    assert sum(unit[1] > 0 for unit in QUEUE_UNIT.iter_unpack(queues[1].read(0, 30))) == 21
    assert len(findings) == 2
    disk.remove(f"{FOLDER}/topic/0/{0:020d}")
    units = list(QUEUE_UNIT.iter_unpack(found(disk, [])[0].read(15, 10)))
    assert [unit[1] > 0 for unit in units] == [False] * 5 + [True] * 5


def test_other_folders_are_no_queues() -> None:
    """Nor are files beside the topics."""
    disk = closed()
    disk.make_folder(f"{FOLDER}/topic/notes")
    disk.open(f"{FOLDER}/README", write=True, create=True)
    assert sorted(found(disk, [])) == [0, 1]


def test_units_of_another_engine_read_the_same(tmp_path: Path) -> None:
    """One that is asked for outside of the queue's range is zero."""
    pytest.importorskip("rocksdict")
    root = Recorded("04a-rocksdb-clean").unpack(tmp_path)
    queues = RocksQueues(RealDisk(), f"{root}/consumequeue", write=False)
    queues.load(clean=True)
    queue = max(queues.by_key.values(), key=lambda queue: queue.max_offset)
    units = StoredUnits(queue, "folder")
    count = queue.max_offset
    data = units.read(0, count + 2)
    assert data[-2 * UNIT_BYTES :] == bytes(2 * UNIT_BYTES)
    assert [QUEUE_UNIT.unpack_from(data, n * UNIT_BYTES) for n in range(count)] == [
        queue.unit(n) for n in range(count)
    ]
    assert (units.data_end(), units.place(7)) == (count, ("folder", 7))
    queues.close()
