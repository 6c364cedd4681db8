"""An index file without some entries is what it would be had these never been put."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.disk import read_file, steps
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.store.index import CompactedIndex, compacted
from sprocket.rocketmq.store.index.index_file import IndexFile
from sprocket.testing.disk import SimulatedDisk

GEOMETRY = IndexGeometry(slots=5, units=40)
AT_MS = 1_700_000_000_000


def written(path: str, entries: list[tuple[int, int]]) -> SimulatedDisk:
    """Return a disk with a file of entries: hash and place of each."""
    disk = SimulatedDisk()
    disk.make_folder("/i")
    disk.open(path, write=True, create=True, size=GEOMETRY.file_bytes).close()
    file = IndexFile(disk, path, GEOMETRY, write=True)
    for key_hash, place in entries:
        put(file, key_hash, place)
    steps.run(file.flush_steps(slots=True))
    return disk


def put(file: IndexFile, key_hash: int, place: int) -> None:
    """Put one entry, stored as many seconds after the first as its place says."""
    file.put([key_hash], [place], [AT_MS + 1000 * place])


def whole(found: CompactedIndex) -> bytes:
    """Return the content of the whole file."""
    data = bytearray(GEOMETRY.file_bytes)
    data[: len(found.head)] = found.head
    data[found.units_at : found.units_at + len(found.units)] = found.units
    return bytes(data)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=38), st.data())
def test_the_others_are_put_as_they_would_have_been(hashes: list[int], data: st.DataObject) -> None:
    """Chains, slots and header; the first stays, as times count from it."""
    entries = [(key_hash, 10 + place) for place, key_hash in enumerate(hashes)]
    gone = data.draw(st.sets(st.integers(11, 10 + len(hashes))))
    disk = written("/i/1", entries)
    found = compacted(disk, "/i/1", GEOMETRY, np.array(sorted(gone), np.int64))
    kept = [one for one in entries if one[1] not in gone]
    expected = read_file(written("/i/1", kept), "/i/1")
    end = 8  # the first place of the header that tells of the last entry of all
    assert whole(found)[:end] == expected[:end]
    assert whole(found)[16:] == expected[16:]
    assert found.removed == len(entries) - len(kept)


def test_all_entries_may_go() -> None:
    """The times of the header stay, by which files are found."""
    disk = written("/i/1", [(3, 10), (8, 11)])
    found = compacted(disk, "/i/1", GEOMETRY, np.array([10, 11]))
    old = read_file(disk, "/i/1")
    assert (whole(found)[:16], found.units, found.removed) == (old[:16], b"", 2)
    assert not any(whole(found)[40:])


def test_what_is_not_there_is_not_missed() -> None:
    """A file without entries of these places stays as it was."""
    disk = written("/i/1", [(3, 10)])
    assert whole(compacted(disk, "/i/1", GEOMETRY, np.array([9]))) == read_file(disk, "/i/1")
