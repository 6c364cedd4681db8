"""One index file: golden bytes, both ways of putting, slots that can be made again."""

import errno
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.model.hashes import abs_hash, hash32
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.index import HEADER, INDEX_UNIT, UNIT_BYTES, IndexHeader
from sprocket.rocketmq.store.index.index_file import SLOT, IndexFile
from sprocket.testing.disk import SimulatedDisk

GOLDEN = IndexGeometry(slots=5, units=8)
K1, K2 = abs_hash(hash32("TopicTest#k1")), abs_hash(hash32("TopicTest#k2"))
HASHES, OFFSETS = [K1, K1, K2], [100, 300, 500]
TIMES = [1_700_000_000_123, 1_700_000_002_999, 1_700_000_000_001]


def flush(file: IndexFile) -> None:
    """Write all of a file, its slots included."""
    steps.run(file.flush_steps(slots=True))


def made(disk: SimulatedDisk, geometry: IndexGeometry = GOLDEN) -> IndexFile:
    """Return a new, empty file."""
    disk.open("/i", write=True, create=True, size=geometry.file_bytes).close()
    disk.sync_folder("/")
    return IndexFile(disk, "/i", geometry, write=True)


def oldest(_count: int) -> int:
    """Choose what was last synced of everything."""
    return 0


def found(file: IndexFile, key_hash: int) -> list[tuple[int, int]]:
    """Return the whole chain of a hash."""
    return [(int(offset), at_ms) for offset, at_ms in file.chain(key_hash)]


def test_the_golden_file() -> None:
    """Three keys give the header, slots and units that RocketMQ's classes give."""
    disk = SimulatedDisk()
    file = made(disk)
    assert file.put(HASHES, OFFSETS, TIMES) == 3
    flush(file)
    expected = HEADER.pack(TIMES[0], TIMES[2], 100, 500, 2, 4)
    expected += b"".join(map(SLOT.pack, [3, 0, 0, 0, 2])) + bytes(UNIT_BYTES)
    for unit in [(K1, 100, 0, 0), (K1, 300, 2, 1), (K2, 500, 0, 0)]:
        expected += INDEX_UNIT.pack(*unit)
    assert expected.ljust(GOLDEN.file_bytes, b"\0") == read_file(disk, "/i")
    assert file.put([K1] * 5, [600] * 5, [TIMES[0]] * 5) == 4
    assert file.room == 0
    assert file.put([K1], [700], [TIMES[0]]) == 0
    assert file.put_arrays(*(np.array([value]) for value in (K1, 700, TIMES[0]))) == 0


def test_chains_go_from_the_newest_to_the_oldest() -> None:
    """Only units of the same hash are given; times are whole seconds after the first."""
    file = made(SimulatedDisk())
    file.put(HASHES, OFFSETS, TIMES)
    assert found(file, K1) == [(300, TIMES[0] + 2000), (100, TIMES[0])]
    assert found(file, K2) == [(500, TIMES[0])]
    assert found(file, K1 + 5) == []


def test_a_chain_on_the_disk_is_read_without_the_table_in_memory() -> None:
    """A file that was loaded finds what it held, and a loop in damaged units ends."""
    disk = SimulatedDisk()
    file = made(disk)
    file.put(HASHES, OFFSETS, TIMES)
    flush(file)
    file.release()
    again = IndexFile(disk, "/i", GOLDEN, write=True)
    again.load()
    assert found(again, K1) == [(300, TIMES[0] + 2000), (100, TIMES[0])]
    handle = disk.open("/i", write=True)
    first_unit = 40 + 4 * GOLDEN.slots + UNIT_BYTES
    handle.write([INDEX_UNIT.pack(K1, 100, 0, 2)], first_unit)
    assert len(found(again, K1)) == 2
    handle.write([INDEX_UNIT.pack(K1, 300, -1, 1)], first_unit + UNIT_BYTES)
    assert found(again, K1) == []


@pytest.mark.parametrize(
    "header",
    [
        bytes(40),
        b"\xff" * 40,
        HEADER.pack(1, 1, 1, 1, 0, 9),
        HEADER.pack(1, 1, 1, 1, 3, 3),
        HEADER.pack(1, 1, 1, 1, -1, 3),
    ],
)
def test_a_header_without_sense_is_a_blank_one(header: bytes) -> None:
    """Zeros, as a fresh file of RocketMQ's has, and damage."""
    assert IndexHeader.decode(header, 8) == IndexHeader()


def test_a_failed_write_changes_nothing() -> None:
    """The same keys put again give the same file."""
    for arrays in (False, True):
        disk = SimulatedDisk()
        file = made(disk)
        put: Any = file.put_arrays if arrays else file.put
        values = tuple(np.array(v) if arrays else v for v in (HASHES, OFFSETS, TIMES))
        disk.fail("write", 1, errno.ENOSPC)
        with pytest.raises(DiskFull):
            put(*values)
        assert file.header == IndexHeader()
        assert put(*values) == 3
        assert found(file, K1) == [(300, TIMES[0] + 2000), (100, TIMES[0])]
        assert file.header.slots_used == 2


def test_truncating_takes_units_away_and_says_so_on_the_disk() -> None:
    """Chains end at what is left, and the header is durable at once."""
    disk = SimulatedDisk()
    file = made(disk)
    file.put(HASHES, OFFSETS, TIMES)
    flush(file)
    assert file.truncate(PhysicalOffset(501)) == 0
    assert file.truncate(PhysicalOffset(300)) == 2
    assert found(file, K1) == [(100, TIMES[0])]
    assert found(file, K2) == []
    assert (file.end, file.header.end_at_ms, file.header.slots_used) == (100, TIMES[0], 1)
    assert HEADER.unpack(read_file(disk.crash(oldest), "/i")[:40])[5] == 2
    assert file.truncate(PhysicalOffset(0)) == 1
    assert (file.header, file.end) == (IndexHeader(), -1)


rounds = st.lists(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 50), st.integers(-5000, 90_000)),
        min_size=1,
        max_size=20,
    ),
    max_size=6,
)


@pytest.mark.slow
@given(rounds, st.sampled_from([0, 1_700_000_000_000]), st.booleans())
def test_arrays_and_plain_python_give_the_same_bytes(
    drawn: list[list[tuple[int, int, int]]], begin_at_ms: int, rebuild: bool
) -> None:
    """Rounds of any length, keys that share slots, clocks that go back, a preset header."""
    geometry = IndexGeometry(slots=7, units=60)
    disks = SimulatedDisk(), SimulatedDisk()
    plain, arrays = (made(disk, geometry) for disk in disks)
    for file in (plain, arrays):
        file.header.begin_at_ms = file.header.end_at_ms = begin_at_ms
    offset = 0
    for one in drawn:
        hashes, steps, times = (list(values) for values in zip(*one, strict=True))
        offsets = []
        for step in steps:
            offset += step
            offsets.append(offset)
        times = [1_700_000_000_000 + at_ms for at_ms in times]
        count = plain.put(hashes, offsets, times)
        assert count == arrays.put_arrays(np.array(hashes), np.array(offsets), np.array(times))
    if rebuild:
        arrays.rebuild_slots()
    for file in (plain, arrays):
        flush(file)
    assert plain.header == arrays.header
    assert read_file(disks[0], "/i") == read_file(disks[1], "/i")


def test_slots_made_again_are_the_same() -> None:
    """From the units alone."""
    disk = SimulatedDisk()
    file = made(disk)
    file.put(HASHES, OFFSETS, TIMES)
    flush(file)
    before = read_file(disk, "/i")
    file.rebuild_slots()
    flush(file)
    assert before == read_file(disk, "/i")


def test_only_touched_pages_of_slots_are_written() -> None:
    """A file of many slots stays sparse."""
    disk = SimulatedDisk()
    geometry = IndexGeometry(slots=10_000, units=50)
    file = made(disk, geometry)
    file.put([5000, 1, 9999], [1, 2, 3], [1, 1, 1])
    flush(file)
    slots = read_file(disk, "/i")[40 : 40 + 4 * geometry.slots]
    assert {at // 4 for at in range(len(slots)) if slots[at]} == {1, 5000, 9999}
    file.release()
    file.put([5000], [4], [1])
    assert found(file, 5000) == [(4, 1), (1, 1)]


def test_slots_that_cannot_be_read_are_read_again() -> None:
    """Half a table would hide keys and break chains."""
    disk = SimulatedDisk()
    file = made(disk)
    file.put(HASHES, OFFSETS, TIMES)
    flush(file)
    again = IndexFile(disk, "/i", GOLDEN, write=True)
    again.load()
    disk.fail("read", 1)
    with pytest.raises(DiskFailed):
        again.put([K1], [700], [TIMES[0]])
    again.put([K1], [700], [TIMES[0]])
    assert [offset for offset, _ in found(again, K1)] == [700, 300, 100]
