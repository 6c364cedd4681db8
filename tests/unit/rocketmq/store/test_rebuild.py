"""Records are put again in rounds; gaps are filled, or the queue made again."""

from tests.stores import filled

from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.settings import Geometry
from sprocket.rocketmq.store import rebuild
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.queues.files import FileQueues
from sprocket.rocketmq.store.rebuild import Rebuild
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SMALL = Geometry.small()


def _make(*, from_first: bool, index: bool = True) -> tuple[FileQueues, Indexes, Rebuild]:
    disk = SimulatedDisk()
    queues = FileQueues(disk, "/queues", SMALL.queue)
    indexes = Indexes(disk, "/index", SMALL.index, FakeClock())
    return queues, indexes, Rebuild(queues, indexes if index else None, from_first=from_first)


def _entry(queue_offset: int, place: int, *, queue_id: int = 0, sys_flag: int = 0) -> Entry:
    return Entry("t", queue_id, queue_offset, place, 100, 7, 1000, (f"k{place}",), sys_flag)


def test_units_and_keys_are_put_in_rounds() -> None:
    """A full round goes down by itself, the rest when finished."""
    queues, index, again = _make(from_first=True)
    count = rebuild.ROUND + 10
    for number in range(count):
        again.add(_entry(number, 100 * number), after_damage=False)
    assert queues.max_offset("t", 0) == rebuild.ROUND
    again.finish()
    assert queues.max_offset("t", 0) == count
    assert (again.units, again.indexed, again.lost) == (count, count, 0)
    assert index.end == 100 * (count - 1)


def test_records_without_unit_or_key_are_left_out() -> None:
    """Prepared ones are indexed, rolled back ones are nowhere."""
    queues, index, again = _make(from_first=True)
    again.add(_entry(0, 0, sys_flag=4), after_damage=False)
    again.add(_entry(0, 100, sys_flag=12), after_damage=False)
    again.finish()
    assert (again.units, again.indexed) == (0, 1)
    assert queues.queue("t", 0) is None
    assert index.find(key_string("t", "k100"), 1) == []


def test_a_gap_behind_damage_is_filled() -> None:
    """The messages are lost, their offsets are not."""
    queues, _, again = _make(from_first=False)
    again.add(_entry(0, 0), after_damage=False)
    again.add(_entry(3, 300), after_damage=True)
    again.finish()
    assert again.lost == 2
    assert queues.max_offset("t", 0) == 4
    assert again.missing == set()


def test_a_gap_without_damage_makes_the_queue_missing() -> None:
    """Nothing more is put into it; others are not concerned."""
    queues, _, again = _make(from_first=False)
    again.add(_entry(0, 0), after_damage=False)
    again.add(_entry(0, 100, queue_id=1), after_damage=False)
    again.add(_entry(3, 300), after_damage=False)
    again.add(_entry(4, 400), after_damage=False)
    again.add(_entry(1, 500, queue_id=1), after_damage=False)
    again.finish()
    assert again.missing == {("t", 0)}
    assert (queues.max_offset("t", 0), queues.max_offset("t", 1)) == (1, 2)


def test_a_queue_that_is_not_there_may_begin_later_only_from_the_first_record() -> None:
    """From elsewhere it is missing what came before."""
    for from_first in (True, False):
        _, _, again = _make(from_first=from_first)
        again.add(_entry(5, 500), after_damage=False)
        again.finish()
        assert again.missing == (set() if from_first else {("t", 0)})


def test_what_is_there_already_is_passed_over() -> None:
    """Offsets of an older topic of that name as well."""
    queues, _, again = _make(from_first=True)
    for place, offset in ((0, 0), (100, 1), (200, 0), (300, 2)):
        again.add(_entry(offset, place), after_damage=False)
    again.finish()
    assert queues.max_offset("t", 0) == 3
    assert again.units == 3


def test_the_last_indexed_record_is_put_again_only_if_asked() -> None:
    """After a crash some of its keys may be missing."""
    disk = SimulatedDisk()
    queues = FileQueues(disk, "/queues", SMALL.queue)
    index = Indexes(disk, "/index", SMALL.index, FakeClock())
    index.put_round([_entry(0, 0), _entry(1, 100)])
    for put_last_again, expected in ((False, 0), (True, 1)):
        again = Rebuild(queues, index, from_first=True, put_last_again=put_last_again)
        again.add(_entry(0, 0), after_damage=False)
        again.add(_entry(1, 100), after_damage=False)
        again.finish()
        assert again.indexed == expected
    assert index.find(key_string("t", "k100"), 9) == [100]


def test_missing_queues_and_the_index_are_made_from_the_whole_log() -> None:
    """They are then what they were before; other queues stay as they are."""
    disk, store = filled(40)
    parts = store._keeper._parts
    assert parts.index is not None
    expected = list(store.queues())
    parts.index.reset()
    again = Rebuild(parts.queues, parts.index, from_first=False)
    again.missing.add(("topic", 1))
    again.from_whole_log(disk, parts.layout, parts.files.segments, index_too=True)
    assert list(store.queues()) == expected
    assert (again.units, again.indexed, again.lost) == (20, 40, 0)
    assert len(store.find("topic", "N7").offsets) == 1


def test_nothing_missing_costs_nothing() -> None:
    """The log is not even looked at."""
    disk, store = filled(5)
    parts = store._keeper._parts
    again = Rebuild(parts.queues, parts.index, from_first=False)
    reads = disk.calls["read"]
    again.from_whole_log(disk, parts.layout, (), index_too=False)
    again.from_whole_log(disk, parts.layout, (), index_too=True)
    assert disk.calls["read"] == reads
