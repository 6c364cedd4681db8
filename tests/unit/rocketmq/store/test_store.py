"""The facade keeps its invariants: offsets without gaps, no lie about what is stored."""

import errno
import pathlib
import shutil
from dataclasses import replace
from typing import Literal

import pytest
from msgspec import structs
from tests.stores import ROOT, SMALL, batch_of, filled, maintain, new, open_parts, open_store

from sprocket.base.disk import Attempt, NonblockingDisk, RealDisk, WouldBlock, read_file, steps
from sprocket.base.errors import (
    DiskFailed,
    DiskFull,
    OffsetTooLarge,
    StoreFailed,
)
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store import store as module
from sprocket.rocketmq.store.queue import UnitRead
from sprocket.rocketmq.store.read import Boundary, GetStatus, queue_reader
from sprocket.rocketmq.store.recovery import checkpoint
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000


def test_the_path_of_a_message() -> None:
    """Appended, written, synced, dispatched, read: each step says how far it has come."""
    store = open_store(SimulatedDisk())
    first = store.append(new("t", 1, b"hello", name="ID"))
    assert (first.queue_offset, first.physical_offset, first.stored_at_ms) == (0, 0, AT_MS)
    assert (store.written, store.synced) == (0, 0)
    store.write()
    assert (store.written, store.synced) == (store.end, 0)
    assert store.get_messages("t", 1, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    job = store.begin_sync()
    assert job is not None
    job.run()
    job.finish(None)
    assert store.synced == store.end == len(store.record_at(0))
    (arrival,) = store.dispatch().arrivals
    assert store.dispatched == 0, "the index lacks it"
    assert (store.dispatch_index(), store.dispatched) == (1, store.end)
    assert (arrival.topic, arrival.queue_id, arrival.next_offset) == ("t", 1, 1)
    got = store.get_messages("t", 1, 0)
    assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 1, 1)
    assert bytes(got.records[0]) == bytes(store.record_at(first.physical_offset))
    assert store.queue_range("t", 1) == (0, 1)
    assert store.queue_range("t", 0) == store.queue_range("x", 1) == (0, 0), "no message yet"
    assert store.stored_at_ms("t", 1, 0) == AT_MS
    assert store.stored_at_ms("t", 1, 1) == store.stored_at_ms("none", 0, 0) == -1
    assert store.offset_by_time("t", 1, AT_MS, Boundary.LOWER) == 0
    assert store.find("t", "ID").offsets == [0]
    assert [(t, q) for t, q, _ in store.queues()] == [("t", 1)]


def test_under_async_flush_consumers_see_what_is_written() -> None:
    """Before it is synced."""
    store = open_store(SimulatedDisk(), flush="async", fill_ahead_bytes=4096)
    store.append(new("t", 0))
    store.write()
    assert store.queue_range("t", 0).max == 1
    job = store.begin_fill()
    assert job is not None
    assert not job.zeros
    job.run()
    job.finish(None)
    assert store.synced == 0
    store.sync()
    assert store.synced == store.written


def test_what_this_process_wrote_is_not_looked_at_one_by_one() -> None:
    """It is once another one has opened the store."""
    disk, store = filled(8)
    spoiled = store.get_messages("topic", 0, 1, max_count=1).records[0]
    place = record.entry(spoiled).physical_offset
    assert place < SMALL.log.segment_bytes
    disk.open(f"{ROOT}/commitlog/{0:020d}", write=True).write([b"x"], place + 15)
    assert store.get_messages("topic", 0, 0).count == 4
    store.close()
    assert open_store(disk).get_messages("topic", 0, 0).count == 3


def test_a_reader_is_told_what_the_disk_has_to_bring() -> None:
    """Within an attempt; once it was fetched the result is that of readers that just wait."""
    disk, store = filled(8)
    store.close()
    cold = NonblockingDisk(disk)
    store = open_store(cold)
    whole = store.get_messages("topic", 0, 0)
    for folder in ("commitlog", "consumequeue/topic/0"):
        for name in disk.list(f"{ROOT}/{folder}"):
            disk.open(f"{ROOT}/{folder}/{name}").give_back(0, 1 << 20)
    attempt = Attempt(lambda: 1)
    fetched = 0
    while True:
        try:
            got = cold.within(attempt, lambda: store.get_messages("topic", 0, 0, reader="R"))
            break
        except WouldBlock as stop:
            attempt.note(found := stop.fetch())
            fetched += sum(len(data) for data in found.values() if isinstance(data, bytes))
    assert (got.status, got.records) == (GetStatus.FOUND, whole.records)
    assert fetched >= whole.bytes
    assert store.get_messages("topic", 0, 0).records == whole.records


def test_records_that_lie_apart_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: one more attempt, not one for each."""
    monkeypatch.setattr(queue_reader, "COLD_GAP_BYTES_MAX", 0)
    disk, store = filled(20)
    store.close()
    cold = NonblockingDisk(disk)
    store = open_store(cold)
    whole = store.get_messages("topic", 0, 0)
    for name in disk.list(f"{ROOT}/commitlog"):
        disk.open(f"{ROOT}/commitlog/{name}").give_back(0, 1 << 20)
    attempt = Attempt(lambda: 1)
    missing = []
    while True:
        try:
            got = cold.within(attempt, lambda: store.get_messages("topic", 0, 0))
            break
        except WouldBlock as stop:
            missing.append(len(stop.missing))
            attempt.note(stop.fetch())
    assert got.records == whole.records
    assert max(missing) == len(whole.runs) > 5
    assert len(missing) <= 3


def test_own_records_that_were_given_back_are_asked_for_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that one answer lacks of them, in one more attempt; each was looked at before."""
    monkeypatch.setattr(queue_reader, "COLD_GAP_BYTES_MAX", 0)
    disk, store = filled(20)
    store.close()
    cold = NonblockingDisk(disk)
    opened = open_parts(cold)
    store = Store(opened)
    for number in range(20):
        store.append(new("own", number % 2))
    store.write()
    store.sync()
    store.dispatch()
    whole = store.get_messages("own", 0, 0)
    warm_from, opened.log.warm_from = opened.log.warm_from, store.written
    for name in disk.list(f"{ROOT}/commitlog"):
        disk.open(f"{ROOT}/commitlog/{name}").give_back(0, 1 << 20)
    monkeypatch.setattr(queue_reader, "_collect", None)
    attempt = Attempt(lambda: 1)
    missing = []
    while True:
        try:
            got = cold.within(attempt, lambda: store.get_messages("own", 0, 0))
            break
        except WouldBlock as stop:
            missing.append(len(stop.missing))
            attempt.note(stop.fetch())
    assert got.records == whole.records
    assert len(got.records) == 10
    assert warm_from < store.written
    assert missing[-1] == 10
    assert len(missing) <= 2


def test_queues_in_rocksdb_are_read_elsewhere_too(tmp_path: pathlib.Path) -> None:
    """Each read of them within an attempt, since RocksDB does not say what it has in memory."""
    disk = NonblockingDisk(RealDisk())
    geometry = replace(SMALL, queue=replace(SMALL.queue, engine="rocksdb"))
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048)
    store = Store.open(disk, f"{tmp_path}/s", settings, FakeClock(), geometry)
    for _ in range(5):
        store.append(new("topic", 0))
    store.write()
    store.sync()
    attempt = Attempt(lambda: 1)
    count = 0
    while True:
        try:
            got = disk.within(attempt, lambda: store.get_messages("topic", 0, 1))
            break
        except WouldBlock as stop:
            count += 1
            attempt.note(stop.fetch())
    assert (got.status, got.count) == (GetStatus.FOUND, 4)
    assert 1 <= count <= 3
    store.close()


def test_the_first_key_after_an_opening_waits_for_no_disk() -> None:
    """The slots of the index, 20 MB of a full-sized one, are read before anybody is served."""
    disk, store = filled(8)
    store.close()
    store = open_store(disk)
    reads = disk.calls["read"]
    store.append(new("topic", 0, name="key"))
    store.write()
    store.sync()
    store.dispatch()
    assert store.dispatch_index() == 1
    assert disk.calls["read"] == reads


@pytest.mark.parametrize("how", ["job", "direct", "fill"])
def test_after_a_failed_sync_nothing_is_taken(how: str) -> None:
    """Reads go on."""
    disk, store = filled(4, fill_ahead_bytes=2048)
    store.append(new())
    store.write()
    disk.fail("sync", 1, errno.EIO)
    if how == "direct":
        with pytest.raises(StoreFailed):
            store.sync()
    elif how == "job":
        job = store.begin_sync()
        assert job is not None
        with pytest.raises(DiskFailed) as caught:
            job.run()
        job.finish(caught.value)
    else:
        fill = store.begin_fill()
        assert fill is not None
        with pytest.raises(DiskFailed) as caught:
            fill.run()
        fill.finish(caught.value)
    assert store.waiting_bytes == 0
    for refused in (lambda: store.append(new()), lambda: store.append_batch(batch_of([new()]))):
        with pytest.raises(StoreFailed, match="reopen"):
            refused()
    maintain(store)
    assert store.get_messages("topic", 0, 0).count == 2
    with pytest.raises(StoreFailed, match="reopen"):  # to say nothing would be a lie
        store.close()
    assert disk.exists("/store/abort")
    assert len(list(open_store(disk).records())) == 5


def test_records_of_a_range() -> None:
    """From one offset to before another."""
    _, store = filled(10)
    offsets = [offset for offset, _ in store.records()]
    assert [o for o, _ in store.records(offsets[2], offsets[5])] == offsets[2:5]
    assert [o for o, _ in store.records(end=offsets[1])] == offsets[:1]
    store.append(new())
    assert len(list(store.records())) == 10
    with pytest.raises(OffsetTooLarge):
        store.record_at(store.end)


def test_a_closed_store_takes_nothing() -> None:
    """Closing twice is allowed; what was appended is written before."""
    disk, store = filled(3)
    last = store.append(new("topic", 0, b"last"))
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.append(new())
    again = open_store(disk)
    assert record.decode(again.record_at(last.physical_offset)).stored_body == b"last"


def test_a_long_backlog_of_the_index_is_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a limit, whoever forgets to call."""
    from sprocket.rocketmq.store.reput import reput

    monkeypatch.setattr(reput, "INDEX_BACKLOG_BYTES_MAX", 3)
    store = open_store(SimulatedDisk())
    for number in range(4):
        store.append(new(name=f"K{number}"))
    store.write()
    store.sync()
    store.dispatch()
    assert store.dispatch_index() == 0


def test_a_dispatch_that_failed_is_tried_again() -> None:
    """The messages are stored all the same."""
    disk, store = filled(4)
    store.append(new("topic", 0))
    store.write()
    store.sync()
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        store.dispatch()
    assert store.queue_range("topic", 0).max == 3


def test_reads_go_on_while_the_disk_is_full() -> None:
    """What has its unit is read; of what has none yet, nobody says that it is not there."""
    disk, store = filled(4)
    last = store.append(new("topic", 0, name="last"))
    store.write()
    store.sync()
    disk.is_full = True
    assert store.get_messages("topic", 0, 0).count == 2
    with pytest.raises(DiskFull):
        store.get_messages("topic", 0, last.queue_offset)
    with pytest.raises(DiskFull):
        store.find("topic", "last")
    disk.is_full = False
    assert store.get_messages("topic", 0, last.queue_offset).count == 1
    assert store.find("topic", "last").offsets == [last.physical_offset]


def test_a_dispatch_may_be_bounded_by_its_queues() -> None:
    """And says whether anything is left."""
    store = open_store(SimulatedDisk())
    for queue_id in range(3):
        store.append(new("topic", queue_id))
    store.write()
    assert store.is_dispatched  # nothing that consumers may see
    store.sync()
    rounds = 0
    while not store.is_dispatched:
        store.dispatch(max_queues=1)
        rounds += 1
    assert (rounds, [store.queue_end("topic", one) for one in range(3)]) == (3, [1, 1, 1])


def test_upkeep_indexes_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long backlog does not keep others waiting, and is worked off before anything is kept."""
    monkeypatch.setattr(module, "INDEX_STEP_RECORDS", 2)
    disk = SimulatedDisk()
    store = open_store(disk)
    for number in range(5):
        last = store.append(new(name=f"K{number}"))
    store.write()
    store.sync()
    work = store.maintain_steps()
    rests = 0
    while store.dispatched < store.written:
        call = steps.advance(work)
        assert call is not None
        call()
        rests += 1
    assert rests == 3
    steps.run(work)
    assert checkpoint.load(disk, f"{ROOT}/checkpoint").queues_at_ms == last.stored_at_ms


@pytest.mark.parametrize("engine", ["files", "rocksdb"])
def test_a_reader_sees_the_bounds_that_the_broker_sees(
    tmp_path: pathlib.Path, engine: Literal["files", "rocksdb"]
) -> None:
    """While it runs: no topic that was deleted, no message that was cleaned away."""
    if engine == "rocksdb":
        pytest.importorskip("rocksdict")
    disk, folder, clock = RealDisk(), str(tmp_path / "store"), FakeClock()
    geometry = replace(SMALL, queue=replace(SMALL.queue, engine=engine))
    settings = StoreSettings(fill_ahead_bytes=0)
    store = Store.open(disk, folder, settings, clock, geometry)
    for number in range(60):
        store.append(new("gone" if number < 4 else "topic", number % 2, bytes(200)))
        store.write()
    store.sync()
    maintain(store)
    steps.run(store.delete_topic_steps("gone", lambda: None))
    kept = RetentionSettings(keep_hours=0, force_percent=85)
    clock.advance(1000 * 3600 * 24 * 365 * 100)
    steps.run(store.clean_steps(kept, at_once=True))
    assert store.first > 0
    reader = Store.open_read_only(disk, folder)
    assert list(reader.queues()) == list(store.queues())
    assert {topic for topic, _, _ in reader.queues()} == {"topic"}
    reader.close()
    assert list(check(disk, folder)) == []
    store.close()


def test_only_a_topic_without_messages_is_given_batch_queues(tmp_path: pathlib.Path) -> None:
    """It keeps them, and may be given them again; a RocksDB has none."""
    store = open_store(SimulatedDisk())
    store.take_batches("batches")
    for topic in ("batches", "singles"):
        store.append(new(topic))
    store.write()
    store.sync()
    store.dispatch()
    store.take_batches("batches")
    store.check_batches("others")
    with pytest.raises(MessageIllegal, match="topic singles has queues of single messages"):
        store.check_batches("singles")
    store.close()
    pytest.importorskip("rocksdict")
    geometry = replace(SMALL, queue=replace(SMALL.queue, engine="rocksdb"))
    store = Store.open(RealDisk(), str(tmp_path), StoreSettings(), FakeClock(), geometry)
    with pytest.raises(MessageIllegal, match="has a RocksDB"):
        store.check_batches("others")
    store.close()


def test_a_sync_that_fails_while_a_write_is_undone_leaves_doubt() -> None:
    """As any other of the log does: the next opening writes again what the disk may lack."""
    disk, store = filled(4)
    store.append(new())
    disk.fail("write", 1, errno.EIO, kept=0.5)
    disk.fail("write", 2, errno.EIO)
    with pytest.raises(DiskFailed):
        store.write()
    disk.fail("sync", 1, errno.EIO)
    with pytest.raises(StoreFailed, match="undoes a failed write"):
        maintain(store)
    assert b"a sync failed" in read_file(disk, f"{ROOT}/abort")
    with pytest.raises(StoreFailed):
        store.append(new())


@pytest.mark.parametrize("engine", ["files", "rocksdb"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_light_queues_are_there_again(
    tmp_path: pathlib.Path, engine: Literal["files", "rocksdb"], is_killed: bool
) -> None:
    """After a stop and after a kill, as they were; their next messages follow."""
    if engine == "rocksdb":
        pytest.importorskip("rocksdict")
    geometry = replace(SMALL, queue=replace(SMALL.queue, engine=engine))
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048, light_queues=True)
    names = [f"%LMQ%{number}" for number in range(5)]

    def send(store: Store, count: int) -> None:
        for number in range(count):
            one = new("topic", number % 2, b"%d" % number)
            pairs = {"INNER_MULTI_DISPATCH": ",".join(names[: 1 + number % 5])}
            store.append(structs.replace(one, properties=properties.encode(pairs)))
        store.write()
        store.sync()
        store.dispatch()

    def held(store: Store) -> dict[str, list[UnitRead]]:
        found: dict[str, list[UnitRead]] = {name: [] for name in names}
        for name, units in found.items():
            while len(units) < store.queue_end(name, 0):
                units += store.units(name, 0, len(units), 100)
        return found

    root = str(tmp_path / "store")
    store = Store.open(RealDisk(), root, settings, FakeClock(), geometry)
    send(store, 20)
    maintain(store)
    send(store, 10)
    expected = held(store)
    assert [len(units) for units in expected.values()] == [30, 24, 18, 12, 6]
    if is_killed:
        root = shutil.copytree(root, str(tmp_path / "killed"))
    store.close()
    again = Store.open(RealDisk(), root, settings, FakeClock(), geometry)
    assert again.report.clean is not is_killed
    assert held(again) == expected
    send(again, 1)
    assert [again.queue_end(name, 0) for name in names] == [31, 24, 18, 12, 6]
    again.close()
