"""A deleted topic stays deleted, whatever happens, and begins at 0 when it is made again."""

import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stores import ROOT, SMALL, clean, filled, maintain, new, open_store

from sprocket.base.disk import Disk, RealDisk, replace_file, steps
from sprocket.base.errors import DiskFailed, ForeignStore, StoreFailed
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout, trash
from sprocket.rocketmq.store.queue import FileQueues
from sprocket.rocketmq.store.recovery import Deletions
from sprocket.rocketmq.store.repair import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk


def delete(store: Store, topic: str, then: Callable[[], None] = lambda: None) -> None:
    """Delete a topic here and now."""
    steps.run(store.delete_topic_steps(topic, then))


def put(store: Store, topic: str, count: int = 1, queue_id: int = 0) -> list[int]:
    """Store messages durably; return their queue offsets."""
    offsets = [store.append(new(topic, queue_id)).queue_offset for _ in range(count)]
    store.write()
    store.sync()
    return offsets


def ranges(store: Store) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the range of each queue."""
    return {(topic, queue_id): (span.min, span.max) for topic, queue_id, span in store.queues()}


def test_the_queues_are_gone_and_begin_at_0_again() -> None:
    """Other topics are as before; the records can still be found by key."""
    disk, store = filled(20)
    put(store, "other", 3)
    delete(store, "topic")
    assert ranges(store) == {("other", 0): (0, 3)}
    assert len(store.find("topic", "N3").offsets) == 1
    assert put(store, "topic", 2, queue_id=1) == [0, 1]
    assert put(store, "other") == [3]
    expected = {("other", 0): (0, 4), ("topic", 1): (0, 2)}
    assert ranges(store) == expected
    assert not disk.exists(trash(StoreLayout(ROOT).consumequeue))
    store.close()
    assert list(check.check(disk, ROOT, SMALL)) == []
    assert ranges(open_store(disk)) == expected


def test_what_is_not_dispatched_yet_gets_no_unit() -> None:
    """Records that were written when their topic was deleted, and one that was not there."""
    store = open_store(SimulatedDisk())
    store.append(new("topic"))
    store.append(new("other"))
    store.write()
    delete(store, "topic")
    delete(store, "never was")
    store.sync()
    assert ranges(store) == {("other", 0): (0, 1)}


def test_it_waits_until_all_is_written() -> None:
    """A record in memory could lose its place to another; the wait has an end."""
    store = open_store(SimulatedDisk())
    store.append(new("topic"))
    work = store.delete_topic_steps("topic", lambda: None)
    assert steps.advance(work) is not None
    assert steps.advance(work) is not None
    store.write()
    steps.run(work)
    store.sync()
    assert ranges(store) == {}
    store.append(new("topic"))
    with pytest.raises(StoreFailed, match="never at rest"):
        delete(store, "topic")


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_leaves_the_topic_whole_or_gone(seed: int, is_made_again: bool) -> None:
    """At every other call of the disk; what was acknowledged afterwards is there."""
    disk, store = filled(12, flush="sync")
    maintain(store)
    found: list[tuple[SimulatedDisk, int]] = []
    draw = random.Random(seed).randrange
    acknowledged = [-1]
    calls = [seed]

    def note(_call: str, _path: str) -> None:
        calls[0] += 1
        if calls[0] % 2:
            return
        crashed = disk.kill() if seed == 0 else disk.crash(draw)
        found.append((crashed, acknowledged[0]))

    disk.before = note
    delete(store, "topic")
    acknowledged[0] = 0
    if is_made_again:
        put(store, "topic", 2)
        acknowledged[0] = 2
        maintain(store)
    disk.before = None
    assert len(found) > 10
    for crashed, count in found:
        again = open_store(crashed)
        spans = ranges(again)
        if count < 0 and spans == {("topic", 0): (0, 6), ("topic", 1): (0, 6)}:
            assert put(again, "topic") == [6]
        else:
            end = spans.pop(("topic", 0), (0, 0))[1]
            assert spans == {}
            assert max(count, 0) <= end <= 2
            assert put(again, "topic") == [end]
            assert put(again, "topic", queue_id=1) == [0]
        again.close()
        assert list(check.check(crashed, ROOT, SMALL)) == []


def test_a_log_that_a_crash_made_shorter_is_no_deleted_one() -> None:
    """What was deleted may be lost with what was not synced; what comes in its place is new."""
    disk = SimulatedDisk()
    store = open_store(disk)
    for topic in ("topic", "other"):
        store.append(new(topic))
    store.write()
    delete(store, "topic")
    left = disk.crash(lambda _: 0)
    again = open_store(left)
    assert again.end == 0
    assert put(again, "topic", 2) == [0, 1]
    assert ranges(again) == {("topic", 0): (0, 2)}
    assert ranges(open_store(left.crash(lambda _: 0))) == {("topic", 0): (0, 2)}


def test_the_queue_of_a_topic_that_was_made_again_stays_though_its_last_message_is_lost() -> None:
    """What stands for that one says no place."""
    disk, store = filled(1)
    delete(store, "topic")
    put(store, "topic", 3)
    store.close()
    layout = StoreLayout(ROOT)
    queues = FileQueues(disk, layout.consumequeue, SMALL.queue)
    queues.load()
    queues.fill_to("topic", 0, 5)
    Deletions(disk, layout, write=True).finish_queues(queues, PhysicalOffset(0))
    assert queues.by_key["topic", 0].max_offset == 5


def test_an_entry_goes_when_the_log_is_cleaned() -> None:
    """The table is as long as what can still be met in the log."""
    clock = FakeClock()
    disk = SimulatedDisk()
    store = open_store(disk, clock=clock)
    put(store, "topic", 5)
    delete(store, "topic")
    assert set(store.deletions.ends) == {"topic"}
    while store.end < 3 * SMALL.log.segment_bytes:
        put(store, "other", 5)
    maintain(store)
    clock.advance(1000 * 3600 * 1000)
    clean(store, RetentionSettings(keep_hours=1), at_once=True)
    assert store.first > 0
    assert store.deletions.ends == {}, "not only by the next start, or the table grows for ever"
    store.close()
    store = open_store(disk, clock=clock)
    assert store.deletions.ends == {}
    store.close()
    assert list(check.check(disk, ROOT, SMALL)) == []


def test_a_topic_made_again_goes_on_counting_when_its_messages_are_gone_and_power_fails_twice() -> (
    None
):
    """What was noted of its queues at a clean stop, before it was deleted, says nothing more."""
    clock = FakeClock()
    disk = SimulatedDisk()
    store = open_store(disk, clock=clock)
    put(store, "topic", 2)
    put(store, "other")
    store.close()
    store = open_store(disk, clock=clock)
    delete(store, "topic")
    assert put(store, "topic") == [0]
    while store.end < 3 * SMALL.log.segment_bytes:
        put(store, "other", 5)
    disk = disk.kill()
    store = open_store(disk, clock=clock)
    clock.advance(1000 * 3600 * 1000)
    clean(store, RetentionSettings(keep_hours=1), at_once=True)
    assert ranges(store)["topic", 0] == (1, 1)
    disk = disk.kill()
    store = open_store(disk, clock=clock)
    assert ranges(store)["topic", 0] == (1, 1)


def test_what_the_owner_could_not_do_is_said() -> None:
    """The queues are gone all the same, and the deletion is not pending."""
    _, store = filled(4)

    def fail() -> None:
        raise DiskFailed("topics.json")

    with pytest.raises(DiskFailed, match=r"topics\.json"):
        delete(store, "topic", fail)
    assert ranges(store) == {}
    assert store.deletions.pending == ()


def test_a_deletion_that_cannot_be_noted_does_nothing() -> None:
    """The topic is as before, and can be deleted later."""
    disk, store = filled(4)
    before = ranges(store)
    disk.fail("create", 1, errno.EIO)
    with pytest.raises(DiskFailed):
        delete(store, "topic")
    assert ranges(store) == before
    assert put(store, "topic") == [2]
    delete(store, "topic")
    assert ranges(store) == {}


def test_the_owner_is_told_what_a_crash_left() -> None:
    """Until it says that all is done."""
    disk = SimulatedDisk()
    layout = StoreLayout(ROOT)
    disk.make_folder(layout.config)
    deletions = Deletions(disk, layout, write=True)
    deletions.begin("a", PhysicalOffset(5))
    deletions.begin("b", PhysicalOffset(7))
    deletions.finish("a")
    again = Deletions(disk, layout, write=True)
    assert (again.ends, again.pending) == ({"a": 5, "b": 7}, ("b",))
    steps.run(again.prune_steps(PhysicalOffset(6)))
    assert again.ends == {"b": 7}
    steps.run(again.prune_steps(PhysicalOffset(8)))
    assert again.ends == {"b": 7}, "it is pending"
    again.finish("b")
    steps.run(again.prune_steps(PhysicalOffset(8)))
    assert Deletions(disk, layout, write=False).ends == {}
    replace_file(disk, layout.deleted_topics, b"{")
    assert Deletions(disk, layout, write=False).ends == {}, "as without the file"


def test_queues_in_a_rocksdb_are_deleted_too(tmp_path: Path) -> None:
    """And stay so after a kill, which loses what the database had not flushed."""
    folder = str(tmp_path / "store")
    geometry = Geometry(log=SMALL.log, index=SMALL.index, queue=QueueGeometry(engine="rocksdb"))

    def opened(disk: Disk) -> Store:
        settings = StoreSettings(fill_ahead_bytes=0)
        return Store.open(disk, folder, settings, FakeClock(), geometry)

    store = opened(RealDisk())
    put(store, "topic", 5)
    put(store, "other", 2)
    maintain(store)
    delete(store, "topic")
    assert put(store, "topic") == [0]
    assert ranges(store) == {("other", 0): (0, 2), ("topic", 0): (0, 1)}
    store.close()
    assert list(check.check(RealDisk(), folder)) == []
    store = opened(RealDisk())
    assert ranges(store) == {("other", 0): (0, 2), ("topic", 0): (0, 1)}
    store.close()


def test_a_table_that_cannot_be_read_stops_the_opening() -> None:
    """Or deleted topics would come back in silence; who only reads sees them."""
    disk, store = filled(3)
    delete(store, "topic")
    store.close()
    replace_file(disk, StoreLayout(ROOT).deleted_topics, b'{"ends":')
    with pytest.raises(ForeignStore, match=r"deletedTopics\.json"):
        open_store(disk)
    assert Deletions(disk, StoreLayout(ROOT), write=False).ends == {}
    disk.remove(StoreLayout(ROOT).deleted_topics)
    open_store(disk).close()
