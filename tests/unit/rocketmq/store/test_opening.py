"""A store is opened by one at a time, and left as it was if it cannot be."""

import errno
import gc
from dataclasses import replace

import pytest
from tests.stores import ROOT, batch_of, filled, log_files, maintain, new, open_store, overwrite

from sprocket.base.clock import SystemClock
from sprocket.base.disk import replace_file
from sprocket.base.errors import DiskFailed, ForeignStore, StoreFailed, StoreLocked
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.queue import UNIT_BYTES
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk


def test_a_new_store_has_its_folders_and_marks() -> None:
    """What RocketMQ expects to find as well."""
    disk = SimulatedDisk()
    store = open_store(disk)
    assert disk.list(ROOT) == [
        "abort",
        "checkpoint",
        "commitlog",
        "config",
        "consumequeue",
        "index",
        "lock",
        "sprocket.version",
    ]
    assert disk.open(f"{ROOT}/lock").read(0, 9) == b"lock"
    assert (store.end, store.report.clean, store.report.records) == (0, True, 0)


def test_two_cannot_have_it() -> None:
    """Until the first one closes."""
    disk, store = filled(3)
    with pytest.raises(StoreLocked):
        open_store(disk)
    store.close()
    open_store(disk).close()


def test_another_geometry_is_refused_and_the_lock_given_back() -> None:
    """Nothing was changed."""
    disk, store = filled(3)
    store.close()
    with pytest.raises(ForeignStore):
        Store.open(disk, ROOT, StoreSettings(), SystemClock(), Geometry())
    assert not disk.exists(f"{ROOT}/abort")
    open_store(disk).close()


def test_a_log_that_was_cut_off_is_opened_if_its_file_size_is_known() -> None:
    """A store that tells its geometry; of another one its file size would be told from this."""
    disk, store = filled(3)
    store.close()
    path = f"{ROOT}/commitlog/{0:020d}"
    disk.open(path, write=True).resize(store.end)
    reopened = open_store(disk)
    assert (reopened.end, disk.size(path)) == (store.end, reopened.geometry.log.segment_bytes)
    reopened.close()
    disk.open(path, write=True).resize(store.end)
    disk.remove(f"{ROOT}/config/sprocket.json")
    with pytest.raises(ForeignStore, match="expected 4096 bytes"):
        open_store(disk)


@pytest.mark.parametrize("call", ["write", "sync", "sync_folder", "rename", "create", "resize"])
def test_an_opening_that_fails_can_be_tried_again(call: str) -> None:
    """Whichever call of it fails: an error, and nothing is lost."""
    for nth in range(1, 40):
        disk, store = filled(12)
        expected = list(store.queues())
        found = disk.kill()
        found.fail(call, nth, errno.EIO)
        try:
            again = open_store(found)
        except DiskFailed:
            again = open_store(found)
        else:
            again = open_store(found.kill())  # where nothing fails
        assert list(again.queues()) == expected
        assert again.get_messages("topic", 0, 0).count == 6
        again.close()


def test_the_lock_file_is_not_left_empty() -> None:
    """If its word cannot be written, it is made the next time."""
    disk = SimulatedDisk()
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(Exception, match="No space"):
        open_store(disk)
    open_store(disk)
    assert disk.open(f"{ROOT}/lock").read(0, 9) == b"lock"


def test_a_reader_sees_a_live_store_and_changes_nothing() -> None:
    """No lock, no mark; appending is refused."""
    disk, store = filled(40)
    maintain(store)
    calls = disk.calls.copy()
    reader = Store.open_read_only(disk, ROOT)
    assert reader.end == store.end
    assert list(reader.queues()) == list(store.queues())
    assert reader.get_messages("topic", 1, 3).status is GetStatus.FOUND
    assert [bytes(d) for _, d in reader.records()] == [bytes(d) for _, d in store.records()]
    with pytest.raises(StoreFailed, match="reading"):
        reader.append(new())
    with pytest.raises(StoreFailed, match="reading"):
        reader.append_batch(batch_of([new()]))
    assert reader.begin_fill() is None
    maintain(reader)
    reader.close()
    assert [disk.calls[call] for call in CHANGES] == [calls[call] for call in CHANGES]
    store.append(new())
    store.close()


def test_a_reader_finds_keys_of_a_closed_store() -> None:
    """The index is whole then."""
    disk, store = filled(40)
    store.close()
    reader = Store.open_read_only(disk, ROOT)
    assert len(reader.find("topic", "N7").offsets) == 1
    assert reader.first == 0


def test_a_reader_of_a_killed_store_sees_its_log() -> None:
    """Up to the last intact record, nothing is repaired."""
    disk, store = filled(40)
    overwrite(log_files(disk), store.end, b"torn")
    reader = Store.open_read_only(disk, ROOT)
    assert len(list(reader.records())) == 40
    segment = log_files(disk).segment(store.end)
    assert segment.read(store.end - segment.start, 4) == b"torn"


def test_a_reader_of_a_killed_store_reads_a_queue_up_to_a_page_that_is_lost() -> None:
    """Units behind it count when a recovery has put those before them."""
    disk, clock = SimulatedDisk(), FakeClock()
    geometry = replace(Geometry.small(), queue=QueueGeometry(units_per_file=1000))
    store = Store.open(disk, ROOT, StoreSettings(fill_ahead_bytes=0), clock, geometry)
    for _ in range(500):
        store.append(new())
    store.write()
    store.sync()
    store.dispatch()
    queue = disk.open(f"{ROOT}/consumequeue/topic/0/{0:020d}", write=True)
    queue.write([bytes(100 * UNIT_BYTES)], 100 * UNIT_BYTES)
    reader = Store.open_read_only(disk, ROOT)
    assert (reader.queue_range("topic", 0), len(list(reader.records()))) == ((0, 100), 500)
    reader.close()
    again = Store.open(disk.kill(), ROOT, StoreSettings(fill_ahead_bytes=0), clock)
    assert again.queue_range("topic", 0) == (0, 500)
    again.close()


def test_no_store_is_no_store() -> None:
    """The text says what is missing."""
    with pytest.raises(ForeignStore, match="commitlog"):
        Store.open_read_only(SimulatedDisk(), "/nowhere")


def test_the_table_of_topics_says_which_have_batch_queues() -> None:
    """Also its backup, if the table is damaged; a topic that has such a queue is one anyway."""
    disk, store = filled(1)
    store.close()
    table = (
        b'{"topicConfigTable":{"b":{"attributes":{"queue.type":"BatchCQ"}},"s":{"attributes":{}}}}'
    )
    path = f"{ROOT}/config/topics.json"
    replace_file(disk, path, table)
    store = open_store(disk)
    assert store.batch_topics == {"b"}
    store.append(new("b"))
    store.close()
    replace_file(disk, path, b"{damaged", keep_backup=True)
    store = open_store(disk)
    assert store.batch_topics == {"b"}
    assert store.queue_range("b", 0) == (0, 1)
    store.close()
    disk.remove(path)
    disk.remove(f"{path}.bak")
    store = Store.open_read_only(disk, ROOT)
    assert store.batch_topics == {"b"}
    store.close()


def test_a_queue_of_the_wrong_kind_is_refused() -> None:
    """As RocketMQ does: the topic's attribute and the queue's folder must agree."""
    disk, store = filled(1)
    store.close()
    table = b'{"topicConfigTable":{"topic":{"attributes":{"queue.type":"BatchCQ"}}}}'
    replace_file(disk, f"{ROOT}/config/topics.json", table)
    with pytest.raises(ForeignStore, match="topic's kind"):
        open_store(disk)


def test_a_store_that_is_distrusted_is_made_again_from_its_log() -> None:
    """Damage before a clean stop is stepped over then; queues and index are as before."""
    disk, store = filled(20)
    expected = list(store.queues())
    with pytest.raises(StoreLocked):
        opening.distrust(disk, ROOT)
    store.close()
    disk.open(f"{ROOT}/commitlog/{0:020d}", write=True).write([b"\xff"], 90)
    opening.distrust(disk, ROOT)
    store = open_store(disk)
    assert [damage.start for damage in store.report.damage] == [0]
    assert (store.report.start, store.report.records) == (0, 19)
    assert [kept.max for _, _, kept in store.queues()] == [kept.max for _, _, kept in expected]
    assert store.find("topic", "N7").offsets
    store.close()


def test_the_sync_after_a_kill_is_told_of() -> None:
    """It is one call for all queues, which may take seconds; nothing else told is its name."""
    disk, _ = filled(20)
    disk, told = disk.kill(), list[str]()
    synced: list[str] = []

    def before(call: str, _path: str) -> None:
        if call == "sync_tree":
            synced.append(told[-1])

    disk.before = before
    Store.open(
        disk, ROOT, StoreSettings(), SystemClock(), step=lambda what, *_: told.append(what)
    ).close()
    assert synced == ["queues made durable"]


def test_the_collector_rests_while_a_store_is_opened() -> None:
    """After a kill, for all of recovery."""
    disk, _ = filled(20)
    seen = set()
    store = Store.open(
        disk.kill(), ROOT, StoreSettings(), SystemClock(), step=lambda *_: seen.add(gc.isenabled())
    )
    store.close()
    assert seen == {False}
    assert gc.isenabled()
