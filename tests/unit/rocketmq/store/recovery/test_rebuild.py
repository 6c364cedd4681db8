"""Records are put again in rounds; gaps are filled, or the queue made again."""

import numpy as np
import pytest
from msgspec import structs
from tests.stores import filled, filled_parts, log_files, new

from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry, Extra, properties, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.log import Damage, LogScanner, Misplaced
from sprocket.rocketmq.store.queue import FileQueues, LastUnit
from sprocket.rocketmq.store.recovery import rebuild
from sprocket.rocketmq.store.recovery.rebuild import Rebuild
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
    assert queues.by_key["t", 0].max_offset == rebuild.ROUND
    again.finish()
    assert queues.by_key["t", 0].max_offset == count
    assert (again.units, again.indexed, again.lost) == (count, count, 0)
    assert index.end == 100 * (count - 1)


def test_records_without_unit_or_key_are_left_out() -> None:
    """Prepared ones are indexed, rolled back ones are nowhere."""
    queues, index, again = _make(from_first=True)
    again.add(_entry(0, 0, sys_flag=4), after_damage=False)
    again.add(_entry(0, 100, sys_flag=12), after_damage=False)
    again.finish()
    assert (again.units, again.indexed) == (0, 1)
    assert queues.by_key.get(("t", 0)) is None
    assert index.find(key_string("t", "k100"), 1) == []


def test_a_gap_behind_damage_is_filled() -> None:
    """The messages are lost, their offsets are not."""
    queues, _, again = _make(from_first=False)
    again.add(_entry(0, 0), after_damage=False)
    again.add(_entry(3, 300), after_damage=True)
    again.finish()
    assert again.lost == 2
    assert queues.by_key["t", 0].max_offset == 4
    assert again.missing == set()


def test_a_place_is_kept_for_what_was_damaged_only() -> None:
    """Not for a message that lay behind the damage."""
    for place, expected in ((100, 4), (199, 4), (200, 1), (99, 1)):
        queues, _, _ = _make(from_first=False)
        queues.put_round([_entry(0, 0)])
        again = Rebuild(queues, None, from_first=False)
        again.keep_places({("t", 0): LastUnit(4, place)}, [Damage(100, 200, "damaged", 0)])
        assert queues.by_key["t", 0].max_offset == expected


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
    assert (queues.by_key["t", 0].max_offset, queues.by_key["t", 1].max_offset) == (1, 2)


def test_a_queue_that_is_not_there_may_begin_later_only_from_the_first_record() -> None:
    """From elsewhere it is missing what came before."""
    for from_first in (True, False):
        _, _, again = _make(from_first=from_first)
        again.add(_entry(5, 500), after_damage=False)
        again.finish()
        assert again.missing == (set() if from_first else {("t", 0)})


def test_what_is_there_already_is_passed_over() -> None:
    """An offset that is taken, and the same records once more."""
    queues, _, again = _make(from_first=True)
    for _ in range(2):
        for place, offset in ((0, 0), (100, 1), (200, 1), (300, 2)):
            again.add(_entry(offset, place), after_damage=False)
    again.finish()
    assert queues.by_key["t", 0].max_offset == 3
    assert again.units == 3


def test_a_topic_that_was_made_again_has_its_newest_messages() -> None:
    """Its queue begins at 0 once more; the older records are of a topic that is gone."""
    queues, _, again = _make(from_first=True)
    for place, offset in ((0, 0), (100, 1), (200, 2), (300, 0), (400, 1)):
        again.add(_entry(offset, place), after_damage=False)
    again.finish()
    queue = queues.by_key.get(("t", 0))
    assert queue is not None
    assert [queue.unit(offset)[0] for offset in range(queue.max_offset)] == [300, 400]


def test_a_queue_whose_last_message_is_lost_was_not_made_again() -> None:
    """Its first message may be put once more: what says where its last one lies is not a filler."""
    queues, _, first = _make(from_first=True)
    first.add(_entry(0, 100), after_damage=False)
    first.finish()
    queues.fill_to("t", 0, 2)
    again = Rebuild(queues, None, from_first=True)
    again.add(_entry(0, 100), after_damage=False)
    again.finish()
    assert queues.by_key["t", 0].max_offset == 2


def test_a_topic_that_was_made_again_keeps_no_place_of_the_one_before() -> None:
    """Fillers stood in a queue that is gone."""
    queues, _, first = _make(from_first=True)
    first.add(_entry(0, 0), after_damage=False)
    first.finish()
    again = Rebuild(queues, None, from_first=True)
    for place, offset in ((300, 0), (400, 1)):
        again.add(_entry(offset, place), after_damage=False)
    again.keep_places({("t", 0): LastUnit(9, 0, 9)}, [])
    assert (queues.by_key["t", 0].max_offset, again.lost) == (2, 0)


@pytest.mark.parametrize("from_first", [True, False])
@pytest.mark.parametrize("many", [True, False])
def test_an_empty_queue_that_goes_on_behind_what_the_log_has_begins_anew(
    many: bool, from_first: bool
) -> None:
    """A crash took its first files and left a later one; a hole in the log is filled in it."""
    disk, _ = filled(40)
    (batch,) = LogScanner(log_files(disk).segments[:1], 0, check_crc=True).batches()
    queues, _, _ = _make(from_first=from_first)
    for queue_id in (0, 1):
        queues.begin("topic", queue_id, 20)
    again = Rebuild(queues, None, from_first=from_first)
    rows = np.arange(len(batch))
    for wanted, after_damage in (((rows >= 4) & (rows < 8), False), (rows >= 14, True)):
        found = RecordBatch(batch.records.keep(wanted))
        if many:
            again.add_all(found, after_damage=after_damage)
        else:
            for entry in found.entries():
                again.add(entry, after_damage=after_damage)
    again.finish()
    if not from_first:
        assert again.missing == {("topic", 0), ("topic", 1)}
        return
    assert (again.missing, again.lost) == (set(), 6)
    for queue_id in (0, 1):
        queue = queues.by_key.get(("topic", queue_id))
        assert queue is not None
        assert (queue.min_offset, queue.max_offset) == (2, len(rows[queue_id::2]))


def test_an_empty_queue_goes_on_where_it_says() -> None:
    """Its messages were cleaned away; the next one is there, and nothing is missing."""
    queues, _, _ = _make(from_first=False)
    queues.begin("t", 0, 20)
    assert rebuild.reached(queues) == {}
    again = Rebuild(queues, None, from_first=False)
    for offset in (20, 21):
        again.add(_entry(offset, 100 * offset), after_damage=False)
    again.add(_entry(3, 2200), after_damage=False)
    again.finish()
    assert (again.missing, again.units) == (set(), 2)
    assert rebuild.reached(queues) == {("t", 0): 22}


@pytest.mark.parametrize("goes_on_at", [0, 3])
def test_a_queue_without_a_message_says_no_record_to_be_misnumbered(goes_on_at: int) -> None:
    """One wrong bit between its offset and the record's is not a sign: nothing was seen of it."""
    queues, _, _ = _make(from_first=True)
    queues.begin("t", 0, goes_on_at)
    first = goes_on_at + 4
    log = {100 * number: _entry(first + number, 100 * number) for number in range(3)}
    again = Rebuild(queues, None, from_first=True, knows_deletions=True, record_at=log.get)
    for entry in log.values():
        again.add(entry, after_damage=False)
    assert again.misplaced == []
    wrong = (first + 3) ^ 8  # now there are messages that say what is next
    again.add(_entry(wrong, 300), after_damage=False)
    again.finish()
    assert again.misplaced == [Misplaced(300, wrong, first + 3)]
    queue = queues.by_key.get(("t", 0))
    assert queue is not None
    assert [queue.unit(first + number)[0] for number in range(4)] == [0, 100, 200, 300]


@pytest.mark.parametrize("unit", [(0, 0x7FFF_FFFF), (50, 100), (300, 100), (1 << 40, 100)])
def test_a_damaged_queue_says_no_record_to_be_misnumbered(unit: tuple[int, int]) -> None:
    """Its last unit is a filler, or leads to no record, or to one that is not the one before."""
    queues, _, _ = _make(from_first=True)
    log = {100 * number: _entry(number, 100 * number) for number in range(4)}
    last = structs.replace(log[200], physical_offset=unit[0], size=unit[1])
    queues.put_round([log[0], log[100], last])
    again = Rebuild(queues, None, from_first=True, record_at=log.get)
    for entry in [log[200], log[300]]:  # 2 is one bit beside 3, which the queue says is next
        again.add(entry, after_damage=False)
    again.finish()
    assert again.misplaced == []


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
    _, store, opened = filled_parts(40)
    parts = opened.parts
    assert parts.index is not None
    expected = list(store.queues())
    parts.index.reset()
    again = Rebuild(parts.queues, parts.index, from_first=False)
    again.missing.add(("topic", 1))
    again.from_whole_log(parts.files.segments, index_too=True)
    assert list(store.queues()) == expected
    assert (again.units, again.indexed, again.lost) == (20, 40, 0)
    assert len(store.find("topic", "N7").offsets) == 1


def test_nothing_missing_costs_nothing() -> None:
    """The log is not even looked at."""
    disk, _, opened = filled_parts(5)
    parts = opened.parts
    again = Rebuild(parts.queues, parts.index, from_first=False)
    reads = disk.calls["read"]
    again.from_whole_log((), index_too=False)
    again.from_whole_log((), index_too=True)
    assert disk.calls["read"] == reads


def test_light_queues_are_put_with_their_records() -> None:
    """One that lacks units is missing and made from the whole log; the others are not."""
    _, store, opened = filled_parts(0, light_queues=True)
    pairs = properties.encode({"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
    for _ in range(5):
        store.append(structs.replace(new(), properties=pairs))
        store.append(new())
    store.write()
    store.sync()
    expected = list(store.queues())
    assert ("%LMQ%a", 0, (0, 5)) in expected
    parts = opened.parts
    parts.queues.remove("%LMQ%a", 0)
    entries = [record.entry(stored) for _, stored in store.records()]
    again = Rebuild(parts.queues, None, from_first=False)
    for entry in entries[2:]:
        again.add(entry, after_damage=False)
    again.finish()
    assert again.missing == {("%LMQ%a", 0)}
    again.from_whole_log(parts.files.segments, index_too=False)
    assert list(store.queues()) == expected
    assert again.units == 5


def test_inner_batches_take_all_their_places() -> None:
    """The next record follows behind them, without a gap."""
    queues, _, again = _make(from_first=False)
    first = structs.replace(_entry(0, 0), extra=Extra(count=5))
    again.add(first, after_damage=False)
    again.add(_entry(5, 100), after_damage=False)
    assert again.missing == set()
    assert queues.by_key.get(("t", 0)) is None
    again.add(_entry(7, 200), after_damage=False)
    assert again.missing == {("t", 0)}


@pytest.mark.parametrize("gone", [(), (3,), (4, 5), (10,)])
@pytest.mark.parametrize("from_first", [True, False])
def test_many_at_a_time_are_put_as_one_by_one(gone: tuple[int, ...], from_first: bool) -> None:
    """Whether all simply goes on, or records are missing between."""
    disk, _ = filled(40)
    (batch,) = LogScanner(log_files(disk).segments[:1], 0, check_crc=True).batches()
    mask = np.array([number not in gone for number in range(len(batch))])
    made = []
    found = RecordBatch(batch.records.keep(mask))
    for many in (True, False):
        queues, index, again = _make(from_first=from_first)
        for _ in range(2):
            if many:
                again.add_all(found, after_damage=False)
            else:
                for entry in found.entries():
                    again.add(entry, after_damage=False)
        again.finish()
        ranges = {key: queue.units(0, 99) for key, queue in queues.by_key.items()}
        made.append((ranges, again.units, again.lost, again.missing, index.headers))
    assert made[0] == made[1]
