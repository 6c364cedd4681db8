"""A store says what its files measure, or it can be told from them."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.stores import ROOT, SMALL, filled, new

from sprocket.base.disk import RealDisk, replace_file
from sprocket.base.errors import ForeignStore
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.store import geometry
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout(ROOT)


def test_it_is_read_back() -> None:
    """The file is JSON that a person can read."""
    data = geometry.encode(SMALL)
    assert geometry.decode(data, "x") == SMALL
    assert b'"logSegmentBytes": 4096' in data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"format": 1}',
        geometry.encode(SMALL).replace(b'"format": 1', b'"format": 2'),
        geometry.encode(SMALL).replace(b"{", b'{"more": 1,'),
    ],
)
def test_other_content_is_refused(data: bytes) -> None:
    """The text names the file."""
    with pytest.raises(ForeignStore, match="the-file"):
        geometry.decode(data, "the-file")


def test_a_new_store_takes_what_is_wanted() -> None:
    """The default, if nothing is."""
    disk = SimulatedDisk()
    assert geometry.resolve(disk, LAYOUT, SMALL) == SMALL
    assert geometry.resolve(disk, LAYOUT, None) == Geometry()


def test_a_store_keeps_what_it_was_made_with() -> None:
    """Another wish is refused, none is the same."""
    disk = SimulatedDisk()
    disk.make_folder(LAYOUT.config)
    geometry.keep(disk, LAYOUT, SMALL)
    geometry.keep(disk, LAYOUT, Geometry())
    assert geometry.resolve(disk, LAYOUT, None) == SMALL == geometry.resolve(disk, LAYOUT, SMALL)
    with pytest.raises(ForeignStore, match="made with"):
        geometry.resolve(disk, LAYOUT, Geometry())


def test_the_engine_that_is_there_counts(tmp_path: Path) -> None:
    """Whatever was noted; who asks for the other one is told how to change it."""
    disk, layout = RealDisk(), StoreLayout(str(tmp_path))
    disk.make_folder(layout.config)
    in_rocks = geometry.with_engine(SMALL, "rocksdb")
    assert geometry.resolve(disk, layout, in_rocks) == in_rocks
    geometry.keep(disk, layout, in_rocks)
    assert geometry.resolve(disk, layout, None) == in_rocks
    disk.make_folder(f"{layout.consumequeue}/topic/0")
    assert geometry.resolve(disk, layout, None) == SMALL
    with pytest.raises(ForeignStore, match="kept in files, not in rocksdb; `sprocket store conv"):
        geometry.resolve(disk, layout, in_rocks)


def test_a_note_without_an_engine_means_files() -> None:
    """Older ones have none."""
    data = geometry.encode(SMALL).replace(b',\n  "queueEngine": "files"', b"")
    assert b"ngine" not in data
    assert geometry.decode(data, "x") == SMALL


def _foreign() -> SimulatedDisk:
    """A store that does not say what its files measure."""
    disk, store = filled(60, extended_units=True)
    store.batch_topics.add("batches")
    store.append(new("batches"))
    store.take_compaction("table")
    store.append(new("table", keys=("k",)))
    store.close()
    disk.remove(LAYOUT.geometry)
    return disk


def test_all_parts_are_inferred() -> None:
    """Log and queues by their length, the index by its content."""
    assert geometry.resolve(_foreign(), LAYOUT, None) == SMALL


def test_missing_parts_are_taken_by_default() -> None:
    """A store may have no index and no queue."""
    disk = _foreign()
    disk.remove_tree(LAYOUT.index)
    for folder in (LAYOUT.consumequeue, LAYOUT.extension, LAYOUT.batch_queues, LAYOUT.compaction):
        disk.remove_tree(folder)
    assert geometry.resolve(disk, LAYOUT, None) == Geometry(log=LogGeometry.small())


def test_the_default_index_is_known_by_its_length() -> None:
    """Its content need not be read, and empty files and other names say nothing."""
    disk = SimulatedDisk()
    disk.make_folder(LAYOUT.index)
    for name in ("note", "20261121000000000"):
        disk.open(f"{LAYOUT.index}/{name}", write=True, create=True)
    assert geometry.resolve(disk, LAYOUT, None) == Geometry()

    class Large(SimulatedDisk):
        def size(self, path: str) -> int:
            return IndexGeometry().file_bytes if path else 0

    large = Large()
    large.make_folder(LAYOUT.index)
    large.open(f"{LAYOUT.index}/20261121000000001", write=True, create=True)
    assert geometry.resolve(large, LAYOUT, None) == Geometry()


@pytest.mark.parametrize(
    "data", [b"x" * 868, b"x" * 30, bytes(32) + b"\0\0\0\1\0\0\0\2" + bytes(100)]
)
def test_an_index_that_tells_nothing_says_nothing(data: bytes) -> None:
    """It is made again, in the geometry that is wanted, or the default one."""
    disk = _foreign()
    for name in disk.list(LAYOUT.index):
        replace_file(disk, f"{LAYOUT.index}/{name}", data)
    assert geometry.resolve(disk, LAYOUT, None).index == IndexGeometry()
    assert geometry.resolve(disk, LAYOUT, Geometry.small()).index == IndexGeometry.small()


def test_a_damaged_index_file_leaves_the_word_to_its_neighbours() -> None:
    """Wherever it lies; their geometry counts before the one that is wanted."""
    for number in (0, -1):
        disk = _foreign()
        path = f"{LAYOUT.index}/{disk.list(LAYOUT.index)[number]}"
        if len(disk.list(LAYOUT.index)) == 1:
            path = f"{LAYOUT.index}/{'9' if number else '0'}"
        replace_file(disk, path, b"\xff" * 868)
        for wanted in (None, replace(Geometry.small(), index=IndexGeometry(slots=2, units=3))):
            assert geometry.resolve(disk, LAYOUT, wanted).index == IndexGeometry.small()


def test_a_blank_index_file_leaves_the_word_to_one_with_units() -> None:
    """A blank one fits several geometries."""
    disk = _foreign()
    replace_file(disk, f"{LAYOUT.index}/0", bytes(SMALL.index.file_bytes))
    assert geometry.resolve(disk, LAYOUT, None).index == SMALL.index


def test_what_is_no_file_of_the_index_says_nothing() -> None:
    """Somebody's copy from another store, and a folder."""
    disk = _foreign()
    other = IndexGeometry(slots=11, units=50)
    indexes = Indexes(disk, "/other", other, FakeClock())
    indexes.put_round([Entry("T", 0, 0, 100 * n, 100, 0, 0, ("k",)) for n in range(9)])
    indexes.close()
    (name,) = disk.list("/other")
    disk.rename(f"/other/{name}", f"{LAYOUT.index}/0.old")
    disk.make_folder(f"{LAYOUT.index}/1")
    assert geometry.resolve(disk, LAYOUT, None) == SMALL


def test_a_log_file_that_was_cut_short_leaves_the_word_to_where_files_begin() -> None:
    """With one file alone its length is all that there is."""
    size = LogGeometry.small().segment_bytes
    disk = SimulatedDisk()
    disk.make_folder(LAYOUT.commitlog)
    for start, length in ((size, 100), (2 * size, size), (4 * size, 7)):
        disk.open(f"{LAYOUT.commitlog}/{start:020d}", write=True, create=True, size=length)
    assert geometry.resolve(disk, LAYOUT, None).log == LogGeometry.small()
    assert geometry.is_certain(disk, LAYOUT)
    for start in (size, 2 * size):
        disk.remove(f"{LAYOUT.commitlog}/{start:020d}")
    assert not geometry.is_certain(disk, LAYOUT)
    disk.open(f"{LAYOUT.commitlog}/{4 * size:020d}", write=True).resize(size)
    assert geometry.resolve(disk, LAYOUT, None).log == LogGeometry.small()


def test_an_empty_index_fits_anything() -> None:
    """With no unit in it, every geometry of that length is right."""
    disk = _foreign()
    for name in disk.list(LAYOUT.index):
        replace_file(disk, f"{LAYOUT.index}/{name}", bytes(868))
    assert geometry.resolve(disk, LAYOUT, None).index.file_bytes == 868


def test_queue_files_of_no_whole_units_say_nothing() -> None:
    """They are made again."""
    disk = _foreign()
    for topic in disk.list(LAYOUT.consumequeue):
        for queue_id in disk.list(f"{LAYOUT.consumequeue}/{topic}"):
            folder = LAYOUT.queue(topic, int(queue_id))
            for name in disk.list(folder):
                disk.open(f"{folder}/{name}", write=True).resize(199)
    expected = QueueGeometry().units_per_file
    assert geometry.resolve(disk, LAYOUT, None).queue.units_per_file == expected
    found = geometry.resolve(disk, LAYOUT, Geometry.small()).queue.units_per_file
    assert found == QueueGeometry.small().units_per_file
