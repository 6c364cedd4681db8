"""Whatever was lost of queues, index and marks, recovery makes it again from the log.

What a loss of power may do is in tests/crash, stores of the real RocketMQ in tests/interop.
"""

import json
from collections.abc import Callable
from random import Random

import pytest
from tests.stores import ROOT, fill, filled, log_files, maintain, new, open_store, overwrite

from sprocket.base.disk import read_file
from sprocket.base.errors import DiskFailed, StoreFailed
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.consistency import range_check
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.opening import distrust
from sprocket.rocketmq.store.queue import UNIT_BYTES
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.recovery import checkpoint, recovery
from sprocket.rocketmq.store.repair import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk

COUNT = 60


def _whole(store: Store, count: int = COUNT) -> None:
    """All messages of `filled` are in their queues, in the log and under their keys."""
    for number in range(count):
        got = store.get_messages("topic", number % 2, number // 2, max_count=1)
        assert got.status is GetStatus.FOUND, number
        message = record.decode(got.records[0])
        assert message.stored_body == b"body %d" % number * 10
        assert store.find("topic", f"N{number}").offsets == [message.physical_offset]
    assert [found.max for _, _, found in store.queues()] == [-(-count // 2), count // 2]


def _left(clean: bool, count: int = COUNT) -> SimulatedDisk:
    """A store that was stopped, or killed after its checkpoint was written."""
    disk, store = filled(count)
    maintain(store)
    if clean:
        store.close()
        return disk
    return disk.kill()


def _remove_queue(disk: SimulatedDisk) -> None:
    disk.remove_tree(f"{ROOT}/consumequeue/topic/1")


def _remove_queues(disk: SimulatedDisk) -> None:
    disk.remove_tree(f"{ROOT}/consumequeue")


def _remove_index(disk: SimulatedDisk) -> None:
    disk.remove_tree(f"{ROOT}/index")


def _remove_checkpoint(disk: SimulatedDisk) -> None:
    disk.remove(f"{ROOT}/checkpoint")


def _remove_note(disk: SimulatedDisk) -> None:
    if disk.exists(f"{ROOT}/config/clean.json"):
        disk.remove(f"{ROOT}/config/clean.json")


def _spoil_note(disk: SimulatedDisk) -> None:
    file = disk.open(f"{ROOT}/config/clean.json", write=True, create=True)
    file.resize(7)


def _remove_abort(disk: SimulatedDisk) -> None:
    if disk.exists(f"{ROOT}/abort"):
        disk.remove(f"{ROOT}/abort")


def _shorten_queue(disk: SimulatedDisk) -> None:
    """Take away the last units of a queue, as if they had not been written."""
    names = disk.list(f"{ROOT}/consumequeue/topic/0")
    disk.remove(f"{ROOT}/consumequeue/topic/0/{names[-1]}")


LOSSES: list[Callable[[SimulatedDisk], None]] = [
    _remove_queue,
    _remove_queues,
    _remove_index,
    _remove_checkpoint,
    _remove_abort,
    _shorten_queue,
    _spoil_note,
]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_derived_is_made_again(loss: Callable[[SimulatedDisk], None], clean: bool) -> None:
    """After a clean stop and after a kill."""
    disk = _left(clean)
    loss(disk)
    store = open_store(disk)
    _whole(store)
    store.close()
    _whole(open_store(disk))


@pytest.mark.parametrize("more", [_remove_queues, _remove_index])
def test_a_foreign_clean_stop_has_no_note(more: Callable[[SimulatedDisk], None]) -> None:
    """As RocketMQ leaves it, and with a derived part missing too."""
    disk = _left(clean=True)
    _remove_note(disk)
    store = open_store(disk)
    assert (store.report.clean, store.report.records) == (True, 0)
    _whole(store)
    store.close()
    _remove_note(disk)
    more(disk)
    _whole(open_store(disk))


def test_after_a_kill_only_what_is_young_is_looked_at() -> None:
    """The checkpoint's time less three seconds."""
    disk = _left(clean=False)
    store = open_store(disk)
    report = store.report
    assert (report.clean, report.records, report.units_rebuilt) == (False, 3, 3)
    assert report.index_entries_rebuilt == 4  # that of the last one before is put again
    assert report.end == store.end
    assert report.bytes_scanned == report.end - report.start
    _whole(store)


def test_a_foreign_kill_is_looked_at_by_whole_files() -> None:
    """RocketMQ's checkpoint runs ahead of its queues."""
    disk = _left(clean=False)
    file = disk.open(f"{ROOT}/abort", write=True)
    file.resize(0)
    file.write([b"1234"], 0)
    store = open_store(disk)
    assert store.report.start == 8192
    _whole(store)


def test_a_clean_stop_outlives_a_loss_of_power() -> None:
    """At once: the next start has nothing to look at."""
    store = open_store(_left(clean=True).crash(lambda _count: 0))
    assert (store.report.clean, store.report.records) == (True, 0)
    _whole(store)


def test_the_report_is_kept() -> None:
    """As JSON that a person can read."""
    disk = _left(clean=False)
    report = open_store(disk).report
    kept = json.loads(read_file(disk, f"{ROOT}/config/recovery.json"))
    assert kept["end"] == report.end
    assert kept["records"] == 3
    assert kept["clean"] is False


@pytest.mark.parametrize("young", [True, False])
def test_one_bad_byte_loses_one_message(young: bool) -> None:
    """The rest is there with its offsets; the log is whole again, for RocketMQ as well."""
    disk, store = filled(COUNT)
    if not young:
        maintain(store)
    places = [offset for offset, _ in store.records()]
    bad = 20 if young else COUNT - 2
    overwrite(log_files(disk), places[bad] + 95, b"#")
    disk = disk.kill()
    store = open_store(disk)
    report = store.report
    assert [d.start for d in report.damage] == [places[bad]]
    assert report.units_lost == 1
    offset = bad // 2
    got = store.get_messages("topic", 0, offset, max_count=1)
    assert got.next_offset == (offset + 2 if young else offset + 1)
    assert got.status is (GetStatus.FOUND if young else GetStatus.MESSAGE_WAS_REMOVING)
    for number in (bad - 2, bad - 1, bad + 1):
        got = store.get_messages("topic", number % 2, number // 2, max_count=1)
        assert record.decode(got.records[0]).stored_body == b"body %d" % number * 10
    everything = [record.decode(data) for _, data in store.records()]
    assert len(everything) == COUNT
    assert everything[bad].topic == "DAMAGED"
    ranges = list(store.queues())
    for _ in range(2):
        disk = disk.kill()
        store = open_store(disk)
        assert store.report.damage == []
        assert list(store.queues()) == ranges


def _damaged_end(count: int, *more: int) -> SimulatedDisk:
    """A killed store in which the last message of topic/0 has wrong bytes; only "old" is not young.

    Args:
        count: How many messages topic/0 has.
        more: Queue offsets of others with wrong bytes.
    """
    disk, clock = SimulatedDisk(), FakeClock()
    store = open_store(disk, clock=clock)
    for name in ("OLD", "OLDER"):
        store.append(new("old", name=name))
    store.write()
    clock.advance(10_000)
    for number in range(count + 1):
        store.append(new("topic", int(number == count), b"body", name=f"N{number}"))
    store.write()
    store.sync()
    store.dispatch()
    store.close()
    recovery.mark_open(disk, StoreLayout(ROOT), 1)
    _remove_checkpoint(disk)
    places = [offset for offset, _ in store.records()]
    files = log_files(disk)
    for bad in (count - 1, *more):
        place = places[2 + bad]
        overwrite(files, place + 95, b"#")
        files.segment(place).file.sync()
    disk.sync_folder(ROOT)
    return disk


@pytest.mark.parametrize("count", [1, 3])
def test_the_place_of_a_damaged_last_message_is_kept_by_every_recovery(count: int) -> None:
    """Those that find only what the first one left of the damage keep it, too."""
    disk = _damaged_end(count)
    for number in range(4):
        store = open_store(disk)
        assert len(store.report.damage) == (number == 0)
        assert store.queue_range("topic", 0).max == count
        disk = disk.kill()
    assert store.append(new("topic", 0)).queue_offset == count


def test_places_are_kept_in_a_queue_that_is_made_again() -> None:
    """A gap that no damage explains any more is looked for in the whole log."""
    disk = _damaged_end(5, 1)
    for _ in range(3):
        store = open_store(disk)
        assert store.queue_range("topic", 0).max == 5
        disk = disk.kill()
    assert store.report.queues_rebuilt == ["topic/0"]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_place_is_kept_if_the_power_goes_while_the_damage_is_repaired(
    count: int, seed: int
) -> None:
    """Before any call of that recovery."""
    random = Random(seed)
    crashed: list[SimulatedDisk] = []

    def crash(call: str, _path: str) -> None:
        if call in CHANGES:
            crashed.append(disk.crash(random.randrange))

    disk = _damaged_end(count)
    disk.before = crash
    open_store(disk)
    for left in crashed:
        assert open_store(left).queue_range("topic", 0).max == count


@pytest.mark.parametrize("hole", [0, 11])
def test_queues_with_only_their_last_files_and_a_log_with_a_hole(hole: int) -> None:
    """The power went before anything was synced: what the log still has is in its place again."""
    disk, store = filled(COUNT, flush="async")
    places = [offset for offset, _ in store.records()]
    lost = range(hole, hole + 5)
    overwrite(log_files(disk), places[hole], bytes(places[lost.stop] - places[hole]))
    disk = disk.kill()
    for queue_id in (0, 1):
        folder = f"{ROOT}/consumequeue/topic/{queue_id}"
        for name in disk.list(folder)[:-1]:
            disk.remove(f"{folder}/{name}")
    store = open_store(disk, flush="async")
    assert [(d.start, d.end) for d in store.report.damage] == [(places[hole], places[lost.stop])]
    assert [found.max for _, _, found in store.queues()] == [COUNT // 2, COUNT // 2]
    for number in range(COUNT):
        got = store.get_messages("topic", number % 2, number // 2, max_count=1)
        bodies = [record.decode(data).stored_body for data in got.records]
        assert (bodies == [b"body %d" % number * 10]) == (number not in lost), number
    store.close()
    assert list(check.check(disk, ROOT)) == []


def test_what_was_torn_is_cut_and_counted() -> None:
    """And it is zero afterwards."""
    disk, store = filled(8)
    last = max(offset for offset, _ in store.records())
    overwrite(log_files(disk), last + 100, bytes(30))
    end = store.end
    disk = disk.kill()
    again = open_store(disk)
    assert again.end == last
    assert again.report.bytes_cut == end - last
    segment = log_files(disk).segment(last)
    assert not any(segment.view[last - segment.start :])
    assert "checksum" in again.report.why or "lengths" in again.report.why
    assert again.queue_range("topic", 1).max == 3
    assert again.append(new("topic", 1)).queue_offset == 3


def test_an_index_of_a_longer_log_is_made_again() -> None:
    """Its entries may name what was there before."""
    disk, store = filled(COUNT)
    store.close()
    _remove_note(disk)
    files = disk.list(f"{ROOT}/commitlog")
    disk.remove(f"{ROOT}/commitlog/{files[-1]}")
    store = open_store(disk)
    count = len(list(store.records()))
    assert store.report.index_entries_rebuilt == count
    store.append(new("topic", 0, b"more", name="NEW"))
    store.write()
    store.sync()
    (found,) = store.find("topic", "NEW").offsets
    assert found in (store.report.end, int(files[-1]))


@pytest.mark.parametrize("more", [_remove_note, lambda _disk: None])
def test_an_index_whose_last_record_is_gone_is_made_again(
    more: Callable[[SimulatedDisk], None],
) -> None:
    """Its entry would lead to the record that takes its place."""
    disk, store = filled(COUNT)
    *_, (last, data) = store.records()
    size = len(data)
    store.close()
    more(disk)
    overwrite(log_files(disk), last, bytes(size))
    store = open_store(disk)
    assert (store.report.end, store.report.index_entries_rebuilt) == (last, COUNT - 1)
    store.append(new("topic", 0, b"more", name="NEW"))
    store.write()
    store.sync()
    assert store.find("topic", "NEW").offsets == [last]
    assert store.find("topic", f"N{COUNT - 1}").offsets == []


def test_a_file_that_fails_after_it_was_thrown_away_ends_the_recovery() -> None:
    """It is not thrown away for ever; the next recovery may have more luck."""
    disk = _left(clean=False)
    (name, *_) = disk.list(f"{ROOT}/consumequeue/topic/0")
    path = f"{ROOT}/consumequeue/topic/0/{name}"
    failed = 0

    def before(call: str, at: str) -> None:
        nonlocal failed
        if at == path and call in ("read", "write"):
            failed += 1
            assert failed < 5
            raise DiskFailed(f"{call} {path}: Input/output error", path)

    disk.before = before
    with pytest.raises(DiskFailed):
        open_store(disk)
    disk.before = None
    store = open_store(disk.kill())
    _whole(store)
    assert store.report.made_again == [path]


def test_a_queue_that_is_gone_is_missed_however_old_its_messages_are() -> None:
    """The table of queues says that it was there, though it was killed with one message in it."""
    disk = SimulatedDisk()
    clock = FakeClock()
    store = open_store(disk, clock=clock)
    store.append(new("old", 0))
    fill(store, clock, 2 * COUNT)
    maintain(store)
    found = disk.kill()
    found.remove_tree(f"{ROOT}/consumequeue/old")
    again = open_store(found)
    assert (again.report.start > 0, again.report.queues_rebuilt) == (True, ["old/0"])
    assert again.get_messages("old", 0, 0).count == 1


def test_a_queue_that_lost_its_last_file_after_a_stop_is_missed_however_old_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of queues says up to where it went."""
    nothing = dict.fromkeys(range_check.COMPARED_BYTES, 0)
    monkeypatch.setattr(range_check, "COMPARED_BYTES", nothing)
    disk = SimulatedDisk()
    clock = FakeClock()
    store = open_store(disk, clock=clock)
    for _ in range(12):
        store.append(new("old", 0))
    fill(store, clock, 2 * COUNT).close()
    folder = f"{ROOT}/consumequeue/old/0"
    disk.remove(f"{folder}/{disk.list(folder)[-1]}")
    again = open_store(disk)
    assert (again.report.clean, again.report.queues_rebuilt) == (True, ["old/0"])
    assert again.get_messages("old", 0, 10).count == 2


def test_a_log_without_files_has_no_queues() -> None:
    """Nor an index; and the offsets begin again."""
    disk, store = filled(COUNT)
    store.close()
    disk.remove_tree(f"{ROOT}/commitlog")
    store = open_store(disk)
    assert store.end == 0
    assert all(found.min == found.max for _, _, found in store.queues())
    assert store.find("topic", "N1").offsets == []


def test_after_a_failed_sync_the_young_part_is_written_again() -> None:
    """The cache may hold what the disk does not, and would not write it another time."""
    for seed in range(40):
        disk, store = filled(4)
        store.append(new("topic", 0, b"doubtful"))
        store.write()
        disk.fail("sync")
        with pytest.raises(StoreFailed):
            store.sync()
        disk = disk.kill()
        again = open_store(disk)
        assert again.end == store.written
        assert b"failed" not in read_file(disk, f"{ROOT}/abort")
        found = open_store(disk.crash(Random(seed).randrange))
        assert found.end == again.end
        assert found.queue_range("topic", 0).max == 3


def test_the_doubt_outlives_a_recovery_that_failed() -> None:
    """The note is there until the log was written again."""
    disk, store = filled(4)
    disk.fail("sync")
    store.append(new())
    store.write()
    with pytest.raises(StoreFailed):
        store.sync()
    disk = disk.kill()
    calls = disk.calls["rename"]
    disk.fail("sync", 3)
    with pytest.raises(DiskFailed):
        open_store(disk)
    assert disk.calls["rename"] > calls
    assert b"failed" in read_file(disk, f"{ROOT}/abort")


@pytest.mark.parametrize("part", ["consumequeue", "index"])
def test_a_sync_of_queues_or_index_that_fails_in_a_recovery_leaves_doubt(part: str) -> None:
    """The next one must not take what the system gives back for what the disk has."""
    disk = _left(clean=False)
    synced: list[str] = []

    def fail(call: str, path: str) -> None:
        if call.startswith("sync"):
            if f"{ROOT}/commitlog" in synced and path.startswith(f"{ROOT}/{part}"):
                disk.fail(call)
            synced.append(path)

    disk.before = fail
    with pytest.raises(DiskFailed):
        open_store(disk)
    disk.before = None
    assert b"failed" in read_file(disk, f"{ROOT}/abort")
    disk = disk.kill()
    _whole(open_store(disk))
    assert b"failed" not in read_file(disk, f"{ROOT}/abort")


def test_store_times_go_on_from_the_last_record() -> None:
    """A clock that was set back in between does not lead the log back."""
    disk, store = filled(4)
    store.close()
    again = open_store(disk, clock=FakeClock(5))
    assert again.append(new()).stored_at_ms == 1_700_000_003_000


def test_the_checkpoint_names_the_last_record() -> None:
    """Times of what is durable, and its start as the confirmed offset."""
    disk = _left(clean=False)
    store = open_store(disk)
    saved = checkpoint.load(disk, f"{ROOT}/checkpoint")
    assert saved.log_at_ms == saved.queues_at_ms == store.report.last_stored_at_ms
    assert saved.confirmed_offset == store.report.last_record


def test_the_abort_file_begins_with_the_process_id() -> None:
    """`abort` holds the process id first, as RocketMQ writes it."""
    disk, _ = filled(0)
    layout = StoreLayout(ROOT)
    recovery.mark_open(disk, layout, 4711)
    assert read_file(disk, layout.abort) == b"4711 sprocket\n"


def test_a_recovery_of_what_rocketmq_left_that_is_cut_off_does_not_make_its_checkpoint_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Units that the checkpoint ran ahead of are put by the next one, wherever that began."""
    nothing = dict.fromkeys(range_check.COMPARED_BYTES, 0)
    monkeypatch.setattr(range_check, "COMPARED_BYTES", nothing)
    disk, store = filled(COUNT)
    clock = FakeClock(record.decode(list(store.records())[-1][1]).stored_at_ms)
    store.close()
    store = open_store(disk, clock=clock)
    for _ in range(2):
        store.append(new("other", name="OTHER"))
    for number in range(5):
        store.write()
        clock.advance(2000)
        store.append(new("last", name=f"L{number}"))
    store.write()
    store.sync()
    maintain(store)
    disk = disk.kill()
    disk.remove(f"{ROOT}/abort")
    disk.open(f"{ROOT}/abort", write=True, create=True).write([b"4711"], 0)
    disk.remove(f"{ROOT}/config/queues.json")
    lost = disk.open(f"{ROOT}/consumequeue/other/0/{0:020d}", write=True)
    lost.write([bytes(20)], 20)
    cut_off: list[SimulatedDisk] = []
    again = disk.kill()
    again.before = lambda call, _path: cut_off.append(again.kill()) if call in CHANGES else None
    open_store(again)
    assert len(cut_off) > 10
    for number, found in enumerate(cut_off):
        store = open_store(found)
        assert store.queue_range("other", 0).max == 2, f"cut off at change {number}"


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_what_a_recovery_repaired_is_reported_although_it_was_cut_off(is_power_lost: bool) -> None:
    """Damage that is padded, and a place that was put right."""
    disk = _left(clean=True)
    distrust(disk, ROOT)
    log = log_files(disk)
    places = [offset for offset, _data in open_store(disk.kill()).records()]
    overwrite(log, places[3] + 30, b"\xff\xff")
    overwrite(log, places[9] + 40, (77).to_bytes(8, "big", signed=True))
    for segment in log.segments:
        segment.file.sync()
    disk.remove(f"{ROOT}/config/recovery.json")
    disk.sync_folder(f"{ROOT}/config")
    whole = open_store(disk.kill()).report
    assert len(whole.damage) == len(whole.misplaced) == 1
    cut_off: list[SimulatedDisk] = []
    again = disk.kill()

    def cut(call: str, _path: str) -> None:
        if call in CHANGES:
            cut_off.append(again.crash(lambda _: 0) if is_power_lost else again.kill())

    again.before = cut
    open_store(again)
    assert len(cut_off) > 10
    for number, found in enumerate(cut_off):
        was_told = found.exists(f"{ROOT}/config/recovery.json")
        report = open_store(found).report
        told = report.damage, report.misplaced
        assert was_told or told == (whole.damage, whole.misplaced), f"cut off at change {number}"
        assert not found.exists(f"{ROOT}/config/mended.json")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_wrong_bit_in_a_queue_changes_nothing_of_the_log(is_first: bool) -> None:
    """The first or last unit of its newest file then leads to no record, or to another one."""
    disk = SimulatedDisk()
    store = open_store(disk)
    for number in range(COUNT):
        store.append(new("topic", 0, b"body %d" % number))
    store.write()
    store.sync()
    store.dispatch()
    before = _records(store)
    store.close()
    folder = f"{ROOT}/consumequeue/topic/0"
    path = f"{folder}/{max(disk.list(folder))}"
    data = read_file(disk, path)
    at = 0 if is_first else (len(data.rstrip(b"\0")) - 1) // UNIT_BYTES * UNIT_BYTES
    for bit in [*range(0, 40, 8), *range(40, 64), *range(80, 96)]:  # of place and size
        left = disk.kill()
        byte = at + bit // 8
        left.open(path, write=True).write([bytes((data[byte] ^ 1 << bit % 8,))], byte)
        store = open_store(left)
        assert (store.report.damage, store.report.misplaced) == ([], []), bit
        assert _records(store) == before, bit
        units = [unit[1] for at in range(COUNT) for unit in store.units("topic", 0, at, 1)]
        assert units == [place for place, _ in store.records()], bit


def _records(store: Store) -> list[bytes]:
    return [bytes(stored) for _, stored in store.records()]
