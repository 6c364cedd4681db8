"""Both engines keep what `store/queue/engine.py` promises: queues in files and in a RocksDB.

Files lie on a simulated disk. RocksDB lies on the real one; that it dies is played by a copy of its
folder, which has what was flushed and nothing else.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import structs
from tests.unit.rocketmq.store.queue.given import next_offsets

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    FileQueues,
    LastUnit,
    Queue,
    Queues,
    RocksQueues,
    UnitBatch,
    rocks_database,
)
from sprocket.testing.disk import SimulatedDisk

Unit = tuple[int, int, int]
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


class Engine(Protocol):
    """One engine with a place of its own."""

    queues: Queues

    def stop(self) -> Queues:
        """Seal, close and load again."""

    def crash(self) -> Queues:
        """Lose what was not flushed, or some of it, and load again."""


class Files:
    """The engine in files, with ten units each."""

    def __init__(self, _folder: Path) -> None:
        self._disk = SimulatedDisk()
        self._disk.make_folder("/store")
        self._load(clean=True)

    def _load(self, *, clean: bool) -> Queues:
        self.queues: Queues = FileQueues(self._disk, "/store/consumequeue", QueueGeometry.small())
        self.queues.load(clean=clean)
        return self.queues

    def stop(self) -> Queues:
        """Seal, close and load again."""
        self.queues.seal()
        self.queues.close()
        return self._load(clean=True)

    def crash(self) -> Queues:
        """Lose everything that was not flushed."""
        self._disk = self._disk.crash(lambda _count: 0)
        return self._load(clean=False)


class Rocks:
    """The engine in a RocksDB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "0"
        self._load(clean=True)

    def _load(self, *, clean: bool) -> Queues:
        self.queues: Queues = RocksQueues(RealDisk(), str(self._folder))
        self.queues.load(clean=clean)
        return self.queues

    def stop(self) -> Queues:
        """Seal, close and load again."""
        self.queues.seal()
        self.queues.close()
        return self._load(clean=True)

    def crash(self) -> Queues:
        """Go on with a copy of the folder."""
        source = self._folder
        self._folder = source.with_name(f"{int(source.name) + 1}")
        shutil.copytree(source, self._folder)
        self.queues.close()
        return self._load(clean=False)


def still(family: str, **more: Any) -> Any:
    """Return options under which RocksDB does nothing by itself, so that a folder can be copied."""
    options: Any = OPTIONS(family, **more)
    options.set_disable_auto_compactions(True)
    return options


OPTIONS = rocks_database.database_options


@pytest.fixture(params=[Files, Rocks], ids=["files", "rocksdb"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """Give an engine without queues."""
    monkeypatch.setattr(rocks_database, "database_options", still)
    made: Engine = request.param(tmp_path)
    yield made
    made.queues.close()


def entry(offset: int, at: int | None = None, *, topic: str = "T", queue: int = 0) -> Entry:
    """Return the entry of a record of 100 bytes; by default the log holds only this queue."""
    place = 100 * offset if at is None else at
    return Entry(topic, queue, offset, place, 100, 7 * offset - 5, 1_000 + offset)


def units(queue: Queue | None, first: int, count: int = 1 << 30) -> list[Unit]:
    """Read units from an offset on to the end of the queue, however many reads it takes."""
    assert queue is not None
    found: list[Unit] = []
    while len(found) < count and first + len(found) < queue.max_offset:
        read = list(queue.units(first + len(found), count - len(found)))
        assert [unit[0] for unit in read] == [first + len(found) + n for n in range(len(read))]
        assert read
        found += [unit[1:4] for unit in read]
    return found


def lives(engine: Engine) -> Iterator[Queues]:
    """Give the queues as they are, then as they are after a stop."""
    yield engine.queues
    yield engine.stop()


def only(queues: Queues) -> Queue:
    """Return the queue T/0."""
    queue = queues.by_key.get(("T", 0))
    assert queue is not None
    return queue


def span(queues: Queues, topic: str = "T", queue_id: int = 0) -> tuple[int, int]:
    """Return first and next offset of a queue."""
    queue = queues.by_key[topic, queue_id]
    return queue.min_offset, queue.max_offset


def test_there_is_nothing_at_first(engine: Engine) -> None:
    """A queue that is not there has no unit, and goes on at 0."""
    queues = engine.queues
    assert (len(queues.by_key), list(queues.by_key), next_offsets(queues)) == (0, [], {})
    assert (queues.end, queues.last) == (-1, None)
    assert queues.put_round([]) == 0
    assert queues.truncate(PhysicalOffset(0)) == {}
    assert queues.fill_to("T", 0, 5) == 0
    queues.remove("T", 0)
    queues.flush()
    assert len(engine.stop().by_key) == 0


def test_what_was_put_is_read(engine: Engine) -> None:
    """Units of several queues, put in one round, in the order of the log."""
    log = [entry(n // 3, 100 * n, queue=n % 3) for n in range(75)]
    assert engine.queues.put_round(log) == 75
    for queues in lives(engine):
        assert next_offsets(queues) == {("T", number): 25 for number in range(3)}
        assert sorted((queue.topic, queue.queue_id) for queue in queues.by_key.values()) == [
            ("T", number) for number in range(3)
        ]
        assert (len(queues.by_key), queues.end, queues.last) == (3, 7500, (7400, 100, 163))
        for number in range(3):
            expected = [(e.physical_offset, e.size, e.tags_code) for e in log[number::3]]
            assert units(queues.by_key["T", number], 0) == expected


def test_any_range_is_read(engine: Engine) -> None:
    """From every offset to every other one, over the ends of files."""
    engine.queues.put_round([entry(n) for n in range(35)])
    queue = only(engine.queues)
    expected = units(queue, 0)
    for first in range(35):
        assert queue.unit(first) == (100 * first, 100, 7 * first - 5)
        for count in (1, 2, 4, 5, 6, 34, 1000):
            assert units(queue, first, count)[:count] == expected[first : first + count]


def test_reading_outside_says_so(engine: Engine) -> None:
    """Before the first unit and behind the last one."""
    engine.queues.put_round([entry(n) for n in range(20, 25)])
    queue = only(engine.queues)
    for count in (1, 100):
        for offset in (25, 26, 1 << 40):
            with pytest.raises(OffsetTooLarge):
                queue.units(offset, count)
        for offset in (19, 3, 0):
            with pytest.raises(OffsetTooSmall):
                queue.units(offset, count)
    with pytest.raises(OffsetTooLarge):
        queue.unit(25)
    assert queue.after_unreadable(21) > 21


def test_putting_twice_is_harmless(engine: Engine) -> None:
    """Any part of the log may be put again; what is there stays."""
    log = [entry(n) for n in range(15)]
    queues = engine.queues
    assert queues.put_round(log) == 15
    before = units(only(queues), 0)
    assert queues.put_round(log[3:]) == 0
    assert queues.put_round([entry(2, 5000)]) == 0
    assert queues.put_round([entry(15, 1000)]) == 0
    assert queues.put_round([*log[12:], entry(15)]) == 1
    assert units(only(queues), 0) == [*before, (1500, 100, 100)]


def test_records_without_a_unit_are_passed_over(engine: Engine) -> None:
    """Half messages and rolled back ones."""
    half = structs.replace(entry(0), sys_flag=TRANSACTION_PREPARED)
    undone = structs.replace(entry(0, 100), sys_flag=TRANSACTION_ROLLBACK)
    assert engine.queues.put_round([half, undone]) == 0
    assert engine.queues.put_round([half, undone, entry(0, 200)]) == 1


def batch(*records: tuple[str, int, int], flags: Mapping[int, int] | None = None) -> RecordBatch:
    """Return records of a log, given as topic, queue id and offset, as columns.

    Args:
        records: What to make; the first one lies at 0.
        flags: System flags by number of the record.
    """
    data = b""
    for number, (topic, queue_id, offset) in enumerate(records):
        new = NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=b"body",
            properties=b"TAGS\1%d\2" % number,
            born_host=HOST,
            store_host=HOST,
            sys_flag=(flags or {}).get(number, 0),
        )
        data += record.encode(
            new,
            queue_offset=offset,
            physical_offset=len(data),
            stored_at_ms=1_000 + number,
            crc_tail=False,
        )
    scanned = columns.scan(data, 0, len(data))
    return RecordBatch(columns.records(data, scanned.positions, scanned.stopped_at, 0))


def part(whole: RecordBatch, first: int, stop: int) -> RecordBatch:
    """Return some records of a batch."""
    return RecordBatch(whole.records.part(first, stop))


def test_columns_and_entries_make_the_same_units(engine: Engine) -> None:
    """Put in any order of both; what is there already, wholly or in part, is passed over."""
    keys = [("T", 0), ("T", 1), ("longer", 0), ("T", 0), ("T", 1), ("T", 0)] * 20
    offsets = Counter[tuple[str, int]]()
    records = []
    for key in keys:
        records.append((*key, offsets[key]))
        offsets[key] += 1
    whole = batch(*records)
    for queues in lives(engine):
        is_new = len(queues.by_key) == 0
        assert queues.put_round(whole.entries()[:10]) == (10 if is_new else 0)
        queues.put_batch(UnitBatch.of(part(whole, 0, 30)))
        queues.put_batch(UnitBatch.of(part(whole, 20, 60)))
        queues.put_round(whole.entries()[50:90])
        queues.put_batch(UnitBatch.of(part(whole, 90, len(records))))
        assert queues.put_batch(UnitBatch.of(whole)) == 0
        for (topic, queue_id), count in offsets.items():
            found = queues.by_key.get((topic, queue_id))
            assert found is not None
            own = [e for e in whole.entries() if (e.topic, e.queue_id) == (topic, queue_id)]
            assert units(found, 0) == [(e.physical_offset, e.size, e.tags_code) for e in own]
            assert span(queues, topic, queue_id) == (0, count)
            expected = [None if found.stored_at_ms(0) is None else e.stored_at_ms for e in own]
            assert [found.stored_at_ms(n) for n in range(count)] == expected
        assert queues.end == whole.end
        assert queues.last == units(only(queues), 59)[0]


def test_columns_may_hold_records_without_a_unit(engine: Engine) -> None:
    """Or nothing else; the log counts as dispatched behind the last unit."""
    flags = {0: TRANSACTION_PREPARED, 2: TRANSACTION_ROLLBACK}
    made = batch(("T", 0, 0), ("T", 0, 0), ("T", 0, 0), flags=flags)
    assert engine.queues.put_batch(UnitBatch.of(part(made, 0, 1))) == 0
    assert len(engine.queues.by_key) == 0
    assert engine.queues.put_batch(UnitBatch.of(made)) == 1
    assert units(only(engine.queues), 0) == [
        (int(made.physical_offset[1]), int(made.size[1]), int(made.tags_code[1]))
    ]
    assert engine.queues.end == int(made.physical_offset[2])


def test_columns_may_begin_a_queue_anywhere_but_not_leave_out_messages(engine: Engine) -> None:
    """A gap is an error that shifts nothing."""
    made = batch(("T", 0, 5), ("T", 0, 6), ("T", 0, 7), ("T", 0, 8))
    assert engine.queues.put_batch(UnitBatch.of(part(made, 0, 2))) == 2
    assert span(engine.queues) == (5, 7)
    with pytest.raises(CorruptRecord, match="T/0 ends at 7, the log has its message 8"):
        engine.queues.put_batch(UnitBatch.of(part(made, 3, 4)))
    assert span(engine.queues) == (5, 7)
    assert engine.queues.put_batch(UnitBatch.of(part(made, 1, 4))) == 2
    assert span(engine.queues) == (5, 9)


def test_columns_may_leave_out_what_is_lost_and_has_fillers_already(engine: Engine) -> None:
    """Recovery puts what a queue has again, gathered with what follows it."""
    made = batch(*[("T", 0, n) for n in range(8)])
    entries = made.entries()
    queues = engine.queues
    queues.put_round(entries[:5])
    queues.fill_to("T", 0, 6)
    found = [UnitBatch.of(part(made, 4, 5)), UnitBatch.of(part(made, 6, 8))]
    assert queues.put_batch(UnitBatch.joined(found)) == 2
    assert span(queues) == (0, 8)
    assert [unit[0] for unit in units(only(queues), 6)] == [e.physical_offset for e in entries[6:]]


def test_a_gap_is_an_error_and_shifts_nothing(engine: Engine) -> None:
    """Units before the gap are put, those behind it are not."""
    queues = engine.queues
    queues.put_round([entry(0)])
    with pytest.raises(CorruptRecord, match=r"T/0 ends at 2.*message 3"):
        queues.put_round([entry(1), entry(3), entry(4)])
    assert span(queues) == (0, 2)
    assert queues.put_round([entry(2), entry(3)]) == 2
    assert units(only(queues), 0) == [(100 * n, 100, 7 * n - 5) for n in range(4)]


def test_fillers_stand_for_what_is_lost(engine: Engine) -> None:
    """After them the queue goes on; they count as units, but not as messages."""
    queues = engine.queues
    queues.put_round([entry(0)])
    assert queues.fill_to("T", 0, 0) == queues.fill_to("T", 0, 1) == 0
    assert queues.fill_to("T", 0, 13) == 12
    assert queues.last == (0, 100, -5)
    queues.put_round([entry(13)])
    for found in lives(engine):
        assert span(found) == (0, 14)
        assert [size for _, size, _ in units(only(found), 0)] == [100, *[FILLER_SIZE] * 12, 100]
        assert found.last == (1300, 100, 86)


def test_fillers_may_be_last(engine: Engine) -> None:
    """They keep their place over a stop."""
    engine.queues.put_round([entry(0)])
    engine.queues.fill_to("T", 0, 3)
    queues = engine.stop()
    assert (span(queues), queues.last) == ((0, 3), (0, 100, -5))
    assert queues.put_round([entry(3)]) == 1


@pytest.mark.parametrize("offset", [1, 10, 25])
def test_a_queue_may_begin_anywhere(engine: Engine, offset: int) -> None:
    """What lies before was never there."""
    engine.queues.put_round([entry(offset), entry(offset + 1)])
    for queues in lives(engine):
        assert span(queues) == (offset, offset + 2)
        assert units(only(queues), offset) == [
            (100 * n, 100, 7 * n - 5) for n in (offset, offset + 1)
        ]


@pytest.mark.parametrize("offset", [0, 7, 10, 25])
def test_an_empty_queue_keeps_where_it_goes_on(engine: Engine, offset: int) -> None:
    """It is there, has no unit, and its next message gets the offset."""
    engine.queues.begin("T", 0, offset)
    engine.queues.begin("T", 0, 99)
    for queues in lives(engine):
        assert (span(queues), len(queues.by_key)) == ((offset, offset), 1)
        with pytest.raises(OffsetTooLarge):
            only(queues).units(offset, 1)
    assert engine.queues.put_round([entry(offset)]) == 1
    assert span(engine.queues) == (offset, offset + 1)


def test_truncating_takes_what_begins_there_or_later(engine: Engine) -> None:
    """At every place of the log, and after a stop too."""
    for place in (0, 1, 100, 950, 1000, 1001, 1099, 1900, 2000, 2399, 2400, 2401, 2500):
        queues = engine.queues
        queues.put_round([entry(n) for n in range(25)])
        keep = min(25, -(-place // 100))
        lost = {("T", 0): LastUnit(25, 2400)} if keep < 25 else {}
        assert queues.truncate(PhysicalOffset(place)) == lost
        assert queues.truncate(PhysicalOffset(place)) == {}
        for found in lives(engine):
            assert span(found) == (0, keep)
            assert found.end <= 100 * keep
            expected = [(100 * n, 100, 7 * n - 5) for n in range(keep)]
            assert not keep or units(only(found), 0) == expected
        assert engine.queues.put_round([entry(n) for n in range(keep, 25)]) == 25 - keep
        assert only(engine.queues).unit(24) == (2400, 100, 163)


def test_truncating_leaves_other_queues_alone(engine: Engine) -> None:
    """Only queues that reach behind the place are cut, and said."""
    queues = engine.queues
    queues.put_round([entry(n) for n in range(5)])
    queues.put_round([entry(n, 500 + 100 * n, queue=1) for n in range(5)])
    assert queues.truncate(PhysicalOffset(600)) == {("T", 1): LastUnit(5, 900)}
    assert (span(queues), span(queues, "T", 1)) == ((0, 5), (0, 1))


def test_truncating_all_keeps_the_place_to_go_on(engine: Engine) -> None:
    """A queue whose first units were cleaned away goes on where it was."""
    engine.queues.put_round([entry(n) for n in range(20, 35)])
    engine.queues.truncate(PhysicalOffset(0))
    for queues in lives(engine):
        assert span(queues) == (20, 20)
    assert engine.queues.put_round([entry(20)]) == 1


def test_fillers_before_a_cut_stay(engine: Engine) -> None:
    """They stand for what is lost before it."""
    queues = engine.queues
    queues.put_round([entry(0)])
    queues.fill_to("T", 0, 3)
    queues.put_round([entry(3), entry(4)])
    queues.truncate(PhysicalOffset(300))
    assert (span(queues), queues.last) == ((0, 3), (0, 100, -5))
    assert queues.put_round([entry(3)]) == 1


def test_a_cut_tells_how_far_there_were_fillers(engine: Engine) -> None:
    """Those that it took away, last or not; recovery puts them again."""
    queues = engine.queues
    queues.put_round([entry(0), entry(1)])
    queues.fill_to("T", 0, 13)
    queues.put_round([entry(13), entry(14)])
    assert queues.truncate(PhysicalOffset(1400))["T", 0].kept_to == 0
    assert queues.truncate(PhysicalOffset(100))["T", 0].kept_to == 13
    queues.put_round([entry(1)])
    queues.fill_to("T", 0, 3)
    assert queues.truncate(PhysicalOffset(0))["T", 0].kept_to == 3


@pytest.mark.parametrize("offset", [3, 10, 13])
def test_a_queue_without_a_unit_goes_on_where_it_is_filled_to(engine: Engine, offset: int) -> None:
    """Nobody gets the place of what it had."""
    queues = engine.queues
    queues.put_round([entry(n) for n in range(offset)])
    queues.truncate(PhysicalOffset(0))
    assert queues.fill_to("T", 0, offset) == offset
    for found in lives(engine):
        assert span(found) == (offset, offset)
    assert engine.queues.put_round([entry(offset)]) == 1
    assert span(engine.queues) == (offset, offset + 1)


def test_the_minimum_follows_the_log(engine: Engine) -> None:
    """It is the first message that is still there, if need be the next one."""
    queues = engine.queues
    queues.put_round([entry(n) for n in range(25)])
    for place, first in ((0, 0), (1, 1), (100, 1), (1950, 20), (1000, 20), (2400, 24)):
        queues.correct_min(PhysicalOffset(place))
        assert span(queues) == (first, 25)
    again = engine.stop()
    again.correct_min(PhysicalOffset(2400))
    assert span(again) == (24, 25)
    again.correct_min(PhysicalOffset(2401))
    assert span(again) == (25, 25)
    assert again.put_round([entry(25)]) == 1
    again.correct_min(PhysicalOffset(2500))
    assert span(again) == (25, 26)


def test_the_minimum_is_no_filler(engine: Engine) -> None:
    """Whatever stands for a message that is gone is passed over."""
    queues = engine.queues
    queues.put_round([entry(0)])
    queues.fill_to("T", 0, 12)
    queues.put_round([entry(12)])
    queues.correct_min(PhysicalOffset(50))
    assert span(queues) == (12, 13)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_it_is_known_which_topics_have_messages_in_a_part_of_the_log(
    engine: Engine, is_cleaned: bool
) -> None:
    """Also of queues whose first messages are gone, and of topics that never had one."""
    queues = engine.queues
    queues.put_round([entry(n, 100 * n, topic="a") for n in range(10)])
    queues.put_round([entry(n, 1000 + 100 * n, topic="b") for n in range(5)])
    if is_cleaned:
        steps.run(queues.clean_steps(PhysicalOffset(500)))

    def has(topics: set[str], start: int, end: int) -> bool:
        places = PhysicalOffset(start), PhysicalOffset(end)
        return any(question() for question in queues.between(topics, *places))

    assert has({"a"}, 900, 1000)
    assert has({"a", "c"}, 850, 901)
    assert not has({"a"}, 850, 900)
    assert not has({"a"}, 901, 5000)
    assert not has({"b", "c"}, 500, 1000)
    assert has({"b"}, 500, 1001)
    assert not has(set(), 0, 5000)
    assert has({"a"}, 0, 600)
    assert has({"a"}, 0, 500) is not is_cleaned


def test_cleaning_gives_back_units_before_the_minimum(engine: Engine) -> None:
    """They are gone, at once or when enough of them are; the rest stays, and the end too."""
    queues = engine.queues
    queues.put_round([entry(n) for n in range(35)])
    steps.run(queues.clean_steps(PhysicalOffset(0)))
    assert span(queues) == (0, 35)
    steps.run(queues.clean_steps(PhysicalOffset(2500)))
    with pytest.raises(OffsetTooSmall):
        only(queues).units(19, 1)
    for found in lives(engine):
        found.correct_min(PhysicalOffset(2500))
        assert span(found) == (25, 35)
        assert units(only(found), 25) == [(100 * n, 100, 7 * n - 5) for n in range(25, 35)]
    steps.run(engine.queues.clean_steps(PhysicalOffset(9999)))
    assert span(engine.queues) == (35, 35)
    queues = engine.stop()
    queues.correct_min(PhysicalOffset(9999))
    assert span(queues) == (35, 35)
    assert queues.put_round([entry(35, 9999)]) == 1
    assert units(only(queues), 35) == [(9999, 100, 240)]


def test_a_removed_queue_was_never_there(engine: Engine) -> None:
    """It may begin anew; others stay."""
    queues = engine.queues
    queues.put_round([entry(n) for n in range(12)])
    queues.put_round(
        [entry(0, 1200, queue=1), entry(0, 1300, topic="T1"), entry(0, 1400, topic="U")]
    )
    queues.remove("T", 0)
    for found in lives(engine):
        assert found.by_key.get(("T", 0)) is None
        assert next_offsets(found) == {("T", 1): 1, ("T1", 0): 1, ("U", 0): 1}
    assert engine.queues.put_round([entry(n) for n in range(3)]) == 3
    assert units(only(engine.queues), 0) == [(100 * n, 100, 7 * n - 5) for n in range(3)]


def test_what_was_flushed_survives_a_crash(engine: Engine) -> None:
    """The rest is put again, whether it was lost or not."""
    log = [entry(n // 2, 100 * n, queue=n % 2) for n in range(60)]
    engine.queues.put_round(log[:30])
    engine.queues.flush()
    engine.queues.put_round(log[30:])
    queues = engine.crash()
    queues.truncate(PhysicalOffset(3000))
    queues.wipe_behind_ends()
    assert next_offsets(queues) == {("T", 0): 15, ("T", 1): 15}
    queues.put_round(log)
    for found in lives(engine):
        for number in range(2):
            expected = [(e.physical_offset, e.size, e.tags_code) for e in log[number::2]]
            assert units(found.by_key["T", number], 0) == expected


def test_topics_that_begin_alike_are_kept_apart(engine: Engine) -> None:
    """Whatever the bytes of their names and the numbers of their queues."""
    names = ["T", "TT", "T\x01", "T\x02x", "%RETRY%g", "%LMQ%a", "延迟", "T" * 150]
    ids = [0, 1, 255, 256, (1 << 31) - 1]
    log: list[Entry] = []
    for round_ in range(3):
        for topic in names:
            for number in ids:
                log.append(entry(round_, 100 * len(log), topic=topic, queue=number))
    engine.queues.put_round(log)
    queues = engine.stop()
    assert len(queues.by_key) == len(names) * len(ids)
    for topic in names:
        for number in ids:
            mine = [e for e in log if (e.topic, e.queue_id) == (topic, number)]
            expected = [(e.physical_offset, e.size, e.tags_code) for e in mine]
            assert units(queues.by_key[topic, number], 0) == expected


@pytest.mark.parametrize("topic", ["", "..", "../config", "a/b", "a\0b"])
def test_topics_cannot_leave_the_folder(engine: Engine, topic: str) -> None:
    """A topic that would lie elsewhere is refused."""
    with pytest.raises(CorruptRecord):
        engine.queues.put_round([entry(0, topic=topic)])


class Model:
    """What queues are: an offset to begin at and a list of units, None for a filler."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.random = random.Random(seed)
        self.log: list[Entry] = []
        self.end = 0
        self.first = 0
        self.flushed = 0
        self.start: dict[int, int] = {}
        self.units: dict[int, list[Entry | None]] = {}

    def put(self) -> None:
        """Put some new messages, and some of the last ones again."""
        new = []
        for _ in range(self.random.choice((1, 2, 7, 30))):
            number = self.random.randrange(4)
            known = self.units.setdefault(number, [])
            if not known:
                self.start.setdefault(number, self.random.choice((0, 3, 10)))
            size = self.random.randrange(91, 300)
            at = self.start[number] + len(known)
            made = Entry("T", number, at, self.end, size, self.random.getrandbits(31), 5)
            known.append(made)
            new.append(made)
            self.end += size + self.random.choice((0, 0, 50))
        kept = [e for e in self.log if e.physical_offset >= self.first]
        again = kept[-self.random.randrange(1, 9) :]
        self.log += new
        assert self.engine.queues.put_round([*again, *new]) == len(new)

    def lose(self) -> None:
        """Put fillers for messages that nobody has."""
        number = self.random.randrange(4)
        if any(e and e.physical_offset >= self.first for e in self.units.get(number, ())):
            count = self.random.randrange(1, 15)
            offset = next_offsets(self.engine.queues).get(("T", number), 0) + count
            assert self.engine.queues.fill_to("T", number, offset) == count
            self.units[number] += [None] * count
            self.engine.queues.flush()  # recovery does so before anybody sees them

    def cut(self) -> None:
        """Truncate somewhere behind the first message."""
        self._cut(self.random.randint(self.first, self.end + 1))

    def _cut(self, place: int) -> None:
        self.engine.queues.truncate(PhysicalOffset(place))
        self.log = [e for e in self.log if e.physical_offset < place]
        for known in self.units.values():
            keep = next(
                (n for n, e in enumerate(known) if e and e.physical_offset >= place), len(known)
            )
            del known[keep:]
        last_end = max((e.physical_offset + e.size for e in self.log), default=0)
        self.end = max(last_end, min(self.end, place))

    def clean(self) -> None:
        """Let the log lose its first messages, but not all."""
        if self.log:
            self.first = max(self.first, self.random.choice(self.log).physical_offset)
            steps.run(self.engine.queues.clean_steps(PhysicalOffset(self.first)))

    def stop(self) -> None:
        """Stop and go on."""
        self.engine.stop().correct_min(PhysicalOffset(self.first))

    def crash(self) -> None:
        """Crash; what was put since the last flush is put again."""
        self.engine.queues.flush()
        flushed, end = list(self.log), self.end
        self.put()
        queues = self.engine.crash()
        self._cut(end)
        queues.wipe_behind_ends()
        assert self.log == flushed
        queues.correct_min(PhysicalOffset(self.first))

    def check(self) -> None:
        """Compare ranges, and units read in random pieces."""
        for number, known in self.units.items():
            kept = (n for n, e in enumerate(known) if e and e.physical_offset >= self.first)
            start, index = self.start[number], next(kept, None)
            if index is None:
                continue  # there may be fillers left
            first = start + index
            assert span(self.engine.queues, "T", number) == (first, start + len(known))
            expected = [
                (e.physical_offset, e.size, e.tags_code) if e else (0, FILLER_SIZE, 0)
                for e in known[first - start :]
            ]
            queue = self.engine.queues.by_key.get(("T", number))
            found: list[Unit] = []
            while len(found) < len(expected):
                count = self.random.choice((1, 3, 5, 40))
                found += units(queue, first + len(found), count)
            assert found[: len(expected)] == expected


STEPS: tuple[tuple[int, Callable[[Model], None]], ...] = (
    (12, Model.put),
    (2, Model.cut),
    (2, Model.lose),
    (2, Model.clean),
    (2, Model.stop),
    (2, Model.crash),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_lives_equal_lists(engine: Engine, seed: int) -> None:
    """Whatever is done, in whatever order, the queues are the lists."""
    model = Model(engine, seed)
    weights, steps = zip(*STEPS, strict=True)
    for step in model.random.choices(steps, weights, k=60):
        step(model)
        model.check()


def test_a_topic_is_deleted_with_all_its_queues(engine: Engine) -> None:
    """Others stay; made again it begins anew, before and after its files are removed."""
    queues = engine.queues
    queues.put_round([entry(n // 3, 100 * n, queue=n % 3) for n in range(75)])
    queues.put_round([entry(0, 7500, topic="TT")])
    queues.flush()
    assert queues.delete_topic("none") is None
    remove_files = queues.delete_topic("T")
    assert [*queues.by_key] == [("TT", 0)]
    assert queues.put_round([entry(0, 7600)]) == 1
    if remove_files is not None:
        remove_files()
    for left in lives(engine):
        assert next_offsets(left) == {("TT", 0): 1, ("T", 0): 1}
        assert units(only(left), 0) == [(7600, 100, -5)]


def test_files_of_a_deleted_topic_go_with_the_next_load(engine: Engine) -> None:
    """If nobody removed them."""
    engine.queues.put_round([entry(n) for n in range(25)])
    engine.queues.flush()
    engine.queues.delete_topic("T")
    assert len(engine.stop().by_key) == 0
