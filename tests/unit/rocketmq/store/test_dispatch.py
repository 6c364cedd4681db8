"""Entries reach queues and index in order, once, and are not forgotten when the disk refuses."""

import errno

import pytest
from msgspec import structs

from sprocket.base.errors import DiskFull
from sprocket.base.units import QueueOffset
from sprocket.rocketmq.codec.extra import Extra
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.settings import Geometry
from sprocket.rocketmq.store import dispatch as module
from sprocket.rocketmq.store.dispatch import Arrival, Dispatch, Put
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.queues.files import FileQueues, OtherKinds
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SMALL = Geometry.small()


def _entry(number: int, *, queue_id: int = 0, sys_flag: int = 0) -> Entry:
    """The `number`th record; those of queue 0 are numbered alike there."""
    return Entry(
        "t",
        queue_id,
        number,
        100 * number,
        100,
        7 + number,
        1000 + number,
        (f"k{number}",),
        sys_flag,
    )


def _make(*, with_index: bool = True) -> tuple[SimulatedDisk, FileQueues, Indexes, Dispatch]:
    disk = SimulatedDisk()
    queues = FileQueues(disk, "/queues", SMALL.queue)
    index = Indexes(disk, "/index", SMALL.index, FakeClock())
    return disk, queues, index, Dispatch(queues, index if with_index else None, 0)


def _round(dispatch: Dispatch, limit: int) -> list[Arrival]:
    dispatch.to_queues(limit)
    return dispatch.take_fresh(someone_waits=True).arrivals


def test_only_what_lies_before_the_limit_is_put() -> None:
    """The rest waits for the next round."""
    _, queues, _, dispatch = _make()
    dispatch.add([_entry(n) for n in range(5)])
    assert _round(dispatch, 0) == []
    assert _round(dispatch, 300) == [Arrival("t", 0, QueueOffset(3), [7, 8, 9])]
    assert queues.max_offset("t", 0) == 3
    assert (dispatch.queued_to, dispatch.queued_at_ms) == (300, 1002)
    assert [a.tags_codes for a in _round(dispatch, 500)] == [[10, 11]]
    assert _round(dispatch, 500) == []


def test_each_queue_has_its_arrival() -> None:
    """Records that get no unit bring none."""
    _, queues, _, dispatch = _make()
    dispatch.add([_entry(0), _entry(1, sys_flag=4), _entry(0, queue_id=1), _entry(2, sys_flag=12)])
    arrivals = _round(dispatch, 10**6)
    assert [(a.queue_id, a.next_offset) for a in arrivals] == [(0, 1), (1, 1)]
    assert queues.max_offset("t", 0) == 1
    assert dispatch.queued_to == 300


def test_the_index_follows_in_portions() -> None:
    """Rolled back messages are left out, prepared ones are not."""
    _, _, index, dispatch = _make()
    flags = [0, 4, 12, 8, 0]
    entries = [_entry(n, sys_flag=flag) for n, flag in enumerate(flags)]
    dispatch.add(entries[:3])
    dispatch.to_queues(300)
    dispatch.add([entries[3]])
    assert dispatch.index_backlog == 3
    assert dispatch.to_index(2) == 2
    assert dispatch.index_backlog == 1
    assert dispatch.to_index() == 1
    assert dispatch.to_index() == 0
    found = [index.find(key_string("t", f"k{n}"), 9) for n in range(3)]
    assert found == [[0], [100], []]


def test_without_an_index_nothing_waits_for_it() -> None:
    """A store may keep none."""
    _, _, _, dispatch = _make(with_index=False)
    dispatch.add([_entry(0)])
    dispatch.to_queues(100)
    assert (dispatch.index_backlog, dispatch.to_index()) == (0, 0)


def test_nothing_is_forgotten_when_the_disk_is_full() -> None:
    """The same round goes through once there is space."""
    disk, queues, index, dispatch = _make()
    dispatch.add([_entry(n) for n in range(3)])
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        dispatch.to_queues(300)
    assert dispatch.queued_to == 0
    assert len(_round(dispatch, 300)) == 1
    assert queues.max_offset("t", 0) == 3
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        dispatch.to_index()
    assert dispatch.to_index() == 3
    assert index.find(key_string("t", "k2"), 9) == [200]


def test_rounds_join_before_the_index() -> None:
    """Two rounds to the queues may be one to the index."""
    _, _, _, dispatch = _make()
    dispatch.add([_entry(0)])
    dispatch.to_queues(100)
    dispatch.add([_entry(1)])
    dispatch.to_queues(200)
    assert dispatch.to_index(1) == 1
    assert dispatch.to_index() == 1


def test_a_long_backlog_of_the_index_is_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a limit, whoever forgets to call."""
    monkeypatch.setattr(module, "INDEX_BACKLOG_MAX", 3)
    _, _, _, dispatch = _make()
    dispatch.add([_entry(n) for n in range(4)])
    dispatch.to_queues(400)
    assert dispatch.index_backlog == 0


def test_arrivals_nobody_asks_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go, all of them when nobody wants to know."""
    monkeypatch.setattr(module, "ROUNDS_MAX", 2)
    _, _, _, dispatch = _make()
    for number in range(3):
        dispatch.add([_entry(number)])
        dispatch.to_queues(100 * (number + 1))
    arrivals = dispatch.take_fresh(someone_waits=True).arrivals
    assert [a.next_offset for a in arrivals] == [2, 3]
    dispatch.add([_entry(3)])
    dispatch.to_queues(400)
    assert dispatch.take_fresh(someone_waits=False) == ([Put("t", 1, 100)], [])
    assert dispatch.take_fresh(someone_waits=True) == ([], [])


def test_a_round_may_be_bounded() -> None:
    """The rest waits, in order, and goes with the next call."""
    _, queues, _, dispatch = _make()
    dispatch.add([_entry(n) for n in range(5)])
    dispatch.to_queues(500, max_count=2)
    assert (queues.max_offset("t", 0), dispatch.queued_to) == (2, 200)
    dispatch.to_queues(400, max_count=9)
    assert (queues.max_offset("t", 0), dispatch.queued_to) == (4, 400)
    dispatch.to_queues(500)
    assert queues.max_offset("t", 0) == 5


def test_every_queue_of_a_record_is_told() -> None:
    """Light queues with their own offsets; the index gets the keys once."""
    _, queues, index, dispatch = _make()
    extra = Extra(light=(("%LMQ%a", 0), ("%LMQ%b", 0)))
    dispatch.add([structs.replace(_entry(0), extra=extra), _entry(1)])
    arrivals = {(a.topic, a.queue_id): a for a in _round(dispatch, 10**6)}
    assert {key: a.next_offset for key, a in arrivals.items()} == {
        ("t", 0): 2,
        ("%LMQ%a", 0): 1,
        ("%LMQ%b", 0): 1,
    }
    assert arrivals["%LMQ%b", 0].tags_codes == [7]
    assert queues.max_offset("%LMQ%a", 0) == 1
    assert dispatch.to_index() == 2
    assert index.find(key_string("t", "k0"), 9) == [0]


def test_a_batch_is_told_with_the_offset_behind_it() -> None:
    """It takes as many places as it has messages."""
    disk = SimulatedDisk()
    others = OtherKinds("/ext", "/batches", batch_topics={"t"})
    queues = FileQueues(disk, "/queues", SMALL.queue, others=others)
    dispatch = Dispatch(queues, None, 0)
    dispatch.add([structs.replace(_entry(0), extra=Extra(count=4))])
    assert _round(dispatch, 100) == [Arrival("t", 0, QueueOffset(4), [7])]
