"""Units and keys that do not fit the log are found; what a newer life of a topic made is not."""

import pytest
from tests.stores import filled, new, open_store

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.log import log_scanner
from sprocket.rocketmq.store.queue import QUEUE_UNIT
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.recovery import agreement
from sprocket.rocketmq.store.recovery.recovery import StoreParts
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

COUNT = 60


@pytest.fixture(params=["columns", "plain"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with 30 messages in each of two queues; its walks use numpy or not."""
    if request.param == "plain":
        monkeypatch.setattr(log_scanner, "columns", None)
    return filled(COUNT)[1]


def _parts(store: Store) -> StoreParts:
    return store._keeper._parts


def _wrong(store: Store, start: int = 0, *, absent_too: bool = False) -> set[tuple[str, int]]:
    parts = _parts(store)
    return agreement.wrong_queues(
        parts.files, parts.queues, start, store.end, parts.units, absent_too=absent_too
    )


def _lacks(store: Store, start: int = 0) -> bool:
    parts = _parts(store)
    assert parts.index is not None
    return agreement.index_is_wrong(parts.files, parts.index, start, store.end)


def _overwrite(store: Store, queue_id: int, offset: int, place: int, size: int) -> None:
    queue = _parts(store).queues.queue("topic", queue_id)
    assert isinstance(queue, FileQueue)
    queue._files.write(offset * 20, QUEUE_UNIT.pack(place, size, 0))


def test_a_sound_store_agrees(store: Store) -> None:
    """Wherever the comparison begins, also in the middle of a record."""
    for start in (0, 1, 1000, store.end - 1, store.end):
        assert _wrong(store, start, absent_too=True) == set()
        assert not _lacks(store, start)


@pytest.mark.parametrize("offset", [0, 7, 29])
@pytest.mark.parametrize(("ahead", "larger"), [(1, 0), (-1, 0), (1 << 40, 0), (0, 1)])
def test_one_wrong_unit_is_found(store: Store, offset: int, ahead: int, larger: int) -> None:
    """Wherever it is, and however little it differs."""
    queue = _parts(store).queues.queue("topic", 1)
    assert queue is not None
    place, size, _ = queue.unit(offset)
    _overwrite(store, 1, offset, max(place + ahead, 0), size + larger)
    assert _wrong(store) == {("topic", 1)}
    assert _wrong(store, place + size) == set()


def test_a_unit_that_names_another_record_is_found(store: Store) -> None:
    """It is intact, but of another queue."""
    other = _parts(store).queues.queue("topic", 0)
    assert other is not None
    place, size, _ = other.unit(9)
    _overwrite(store, 1, 8, place, size)
    assert _wrong(store) == {("topic", 1)}


def test_a_missing_queue_counts_only_if_wanted(store: Store) -> None:
    """Who knows which queues there were knows which one was deleted."""
    _parts(store).queues.remove("topic", 1)
    assert _wrong(store) == set()
    assert _wrong(store, absent_too=True) == {("topic", 1)}


def test_the_newest_life_of_a_topic_decides(store: Store) -> None:
    """Offsets of a topic that was deleted and made again begin at 0 another time."""
    disk = _parts(store).disk
    assert isinstance(disk, SimulatedDisk)
    store.close()
    disk.remove_tree("/store/consumequeue/topic/1")
    disk.remove("/store/config/clean.json")
    disk.remove("/store/config/queues.json")
    segment = store._files.segment(store.end)
    data = record.encode(
        new("topic", 1, name="NEW"),
        queue_offset=0,
        physical_offset=store.end,
        stored_at_ms=1_800_000_000_000,
        crc_tail=True,
    )
    place = store.end
    segment.file.write([data], place - segment.start)
    again = open_store(disk, clock=FakeClock())
    queue = _parts(again).queues.queue("topic", 1)
    assert queue is not None
    assert _wrong(again, absent_too=True) == set()
    _overwrite(again, 1, 0, place + 1, len(data))
    assert _wrong(again) == {("topic", 1)}


def test_a_lost_index_file_is_noticed(store: Store) -> None:
    """The first, and one in the middle; the last ends where the index ends."""
    index = _parts(store).index
    assert index is not None
    store.append(new("topic", 0, name="MORE", keys=tuple(f"k{n}" for n in range(70))))
    store.write()
    store.sync()
    store.dispatch()
    store.dispatch_index()
    assert len(index) == 4
    for lost in (0, 1):
        file = index._files.pop(lost)
        assert _lacks(store, store.end)
        index._files.insert(lost, file)
    assert not _lacks(store, store.end)
    index._files[0].header.next_unit = 1
    assert _lacks(store, store.end)


def test_a_key_that_is_not_found_is_noticed(store: Store) -> None:
    """Units of an index file may be gone although its header is good."""
    index = _parts(store).index
    assert index is not None
    file = index._files[-1]
    for number in range(1, file.header.next_unit):
        file._file.write([bytes(20)], file._units_at + 20 * number)
    assert _lacks(store)
    assert not _lacks(store, store.end)


def test_very_many_queues_are_compared_in_part(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them costs a read, and opening must stay quick."""
    monkeypatch.setattr(agreement, "READS_MAX", 0)
    _overwrite(store, 1, 3, 77, 77)
    assert _wrong(store) == set()


def test_only_some_keys_are_kept_while_they_are_looked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record of half a GiB was, with the columns that it came from."""
    monkeypatch.setattr(agreement, "_LOOKUPS_MAX", 8)
    sample = list(agreement._sample(_parts(store).files, 0, store.end))
    numbers = [2 * entry.queue_offset + entry.queue_id for entry in sample]
    assert numbers == list(range(0, COUNT, 8))


def test_queues_that_were_just_put_are_not_looked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only before them one may be absent, once enough queues were read."""
    monkeypatch.setattr(agreement, "READS_MAX", 0)
    parts = _parts(store)
    parts.queues.remove("topic", 1)
    for put_from, expected in ((store.end, {("topic", 1)}), (0, set())):
        assert expected == agreement.wrong_queues(
            parts.files,
            parts.queues,
            0,
            store.end,
            parts.units,
            absent_too=True,
            put_from=put_from,
        )


def test_a_comparison_with_the_index_can_be_ended(store: Store) -> None:
    """It tells how far it is while it walks, and while it looks keys up."""

    class EndedError(Exception):
        pass

    told: list[str] = []

    def step(what: str, done: int, total: int = 0) -> None:
        told.append(what)
        if len(told) == 3:
            raise EndedError

    parts = _parts(store)
    assert parts.index is not None
    with pytest.raises(EndedError):
        agreement.index_is_wrong(parts.files, parts.index, 0, store.end, step)
    assert "bytes of log compared with the index" in told
