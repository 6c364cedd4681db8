"""Old files go, oldest first and never the newest; nobody who still reads one notices."""

import errno
from datetime import datetime

import pytest
from tests.stores import clean, filled, maintain, new, open_store

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.retention import SpaceLimits, local_hour, used_percent
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

AT_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
NOW = local_hour(AT_MS)
SEGMENT = 4096


def _store(count: int = 100) -> tuple[SimulatedDisk, Store, FakeClock]:
    """Return a store of several log, queue and index files, all written at the clock's start."""
    clock = FakeClock()
    disk = SimulatedDisk()
    disk.now_ms = AT_MS
    store = open_store(disk, clock=clock)
    for number in range(count):
        store.append(new("topic", number % 2, b"body %d" % number * 10, name=f"N{number}"))
        store.write()
        store.sync()
        store.dispatch()
        store.dispatch_index()
    maintain(store)
    return disk, store, clock


def _log_files(disk: SimulatedDisk) -> int:
    return len(disk.list("/store/commitlog"))


def test_expired_files_go_in_their_hours() -> None:
    """Not an hour too soon, not in another hour; the newest stays however old."""
    disk, store, clock = _store()
    count = _log_files(disk)
    assert count > 4
    settings = RetentionSettings(keep_hours=24, clean_hours=(NOW, (NOW + 1) % 24))
    clock.advance(HOUR_MS)
    assert clean(store, settings) == 0
    clock.advance(25 * HOUR_MS)  # two hours past the hour of writing
    assert clean(store, settings) == 0
    assert clean(store, settings, at_once=True) == SEGMENT * (count - 1)
    assert _log_files(disk) == 1
    again, other, later = _store()
    later.advance(24 * HOUR_MS - 1)
    assert clean(other, settings) == 0
    later.advance(1)
    assert clean(other, settings) > 0
    assert _log_files(again) == 1


def _mixed(count: int = 120) -> tuple[SimulatedDisk, Store, FakeClock, int]:
    """Return a store in which only the third log file has a message of `kept`, and where it is."""
    disk, store, clock = _store(0)
    place = -1
    for number in range(count):
        topic = "kept" if place < 0 and store.end >= 2 * SEGMENT else "topic"
        appended = store.append(new(topic, 0, b"body %d" % number * 10, name=f"N{number}"))
        store.write()
        store.sync()
        store.dispatch()
        if topic == "kept":
            place = appended.physical_offset
    maintain(store)
    assert 2 * SEGMENT <= place < 3 * SEGMENT
    return disk, store, clock, place


def test_what_a_topic_reserves_stays_for_its_time() -> None:
    """It went with the rest after `keep_hours`. The files before it go, those behind it stay."""
    _, store, clock, place = _mixed()
    settings = RetentionSettings(keep_hours=24)
    reserved = {"kept": 48, "unknown": 1_000, "topic": 24}
    clock.advance(24 * HOUR_MS)
    assert clean(store, settings, reserved, at_once=True) == 2 * SEGMENT
    assert record.decode(store.record_at(place)).topic == "kept"
    clock.advance(24 * HOUR_MS - 1)
    assert clean(store, settings, reserved, at_once=True) == 2 * SEGMENT
    clock.advance(1)
    assert clean(store, settings, reserved, at_once=True) > 3 * SEGMENT


def test_a_reserved_topic_without_messages_keeps_nothing() -> None:
    """Nor one whose messages are all in files that stay anyway, or went long ago."""
    _, store, clock, _ = _mixed()
    settings = RetentionSettings(keep_hours=24)
    clock.advance(24 * HOUR_MS)
    assert clean(store, settings, {"unknown": 1_000}, at_once=True) > 3 * SEGMENT
    reserved = {"kept": 1_000}
    assert clean(store, settings, reserved, at_once=True) == store.first


def test_a_disk_that_is_very_full_takes_reserved_files_too() -> None:
    """As it takes those that are not expired: a broker that can store nothing serves nobody."""
    disk, store, _, _ = _mixed()
    disk.__class__ = _Shrinking
    disk.used = 0.89
    assert clean(store, RetentionSettings(clean_hours=()), {"kept": 1_000}) == 4 * SEGMENT


def test_a_shorter_time_than_that_of_the_files_deletes_nothing() -> None:
    """Topics share their files, and other messages lie behind them."""
    _, store, clock, _ = _mixed()
    clock.advance(23 * HOUR_MS)
    assert clean(store, RetentionSettings(keep_hours=24), {"kept": 1}, at_once=True) == 0


def test_a_full_disk_needs_no_hour() -> None:
    """But only what is expired goes then."""
    disk, store, clock = _store()
    settings = RetentionSettings(keep_hours=24, clean_hours=())
    disk.used = 0.76
    assert clean(store, settings) == 0
    clock.advance(24 * HOUR_MS)
    disk.used = 0.75
    assert clean(store, settings) == 0
    disk.used = 0.751
    assert clean(store, settings) > 0


def test_a_round_takes_so_many_files() -> None:
    """The next one goes on."""
    disk, store, clock = _store()
    count = _log_files(disk)
    clock.advance(100 * HOUR_MS)
    settings = RetentionSettings(round_files_max=2)
    assert clean(store, settings, at_once=True) == 2 * SEGMENT
    assert clean(store, settings, at_once=True) == min(4, count - 1) * SEGMENT


class _Shrinking(SimulatedDisk):
    """A disk on which each removed log file frees a hundredth."""

    def remove(self, path: str) -> None:
        super().remove(path)
        if "commitlog" in path:
            self.used -= 0.01


def test_a_very_full_disk_loses_what_it_must_and_no_more() -> None:
    """Files that are not expired go one after the other until the limit is kept."""
    disk, store, _ = _store()
    disk.__class__ = _Shrinking
    disk.used = 0.88
    assert clean(store, RetentionSettings(force=False, clean_hours=())) == 0
    assert clean(store, RetentionSettings(clean_hours=())) == 3 * SEGMENT
    assert disk.used == pytest.approx(0.85)
    assert clean(store, RetentionSettings(clean_hours=())) == 3 * SEGMENT


def test_above_the_limit_appends_are_refused_until_there_is_room() -> None:
    """Reads go on; between the two limits it stays as it was."""
    disk, store, _ = _store(20)
    settings = RetentionSettings(force=False)
    for used, is_refusing in ((0.9, False), (0.91, True), (0.86, True), (0.85, False)):
        disk.used = used
        clean(store, settings)
        if is_refusing:
            with pytest.raises(DiskFull, match="91 % full, more than 90 %"):
                store.append(new())
            assert store.get_messages("topic", 0, 0).status is GetStatus.FOUND
        else:
            store.append(new())
            store.write()


def test_queues_and_index_follow() -> None:
    """What points before the log's beginning is gone, and the minimum says so."""
    disk, store, clock = _store(200)
    files = [len(disk.list(f"/store/{p}")) for p in ("consumequeue/topic/0", "index")]
    assert min(files) > 3
    clock.advance(100 * HOUR_MS)
    first = clean(store, RetentionSettings(round_files_max=6), at_once=True)
    assert first == 6 * SEGMENT
    left = [len(disk.list(f"/store/{p}")) for p in ("consumequeue/topic/0", "index")]
    assert all(now < before for now, before in zip(left, files, strict=True))
    for queue_id in (0, 1):
        found = store.queue_range("topic", queue_id)
        assert 0 < found.min < found.max == 100
        assert store.get_messages("topic", queue_id, 0).status is GetStatus.OFFSET_TOO_SMALL
        got = store.get_messages("topic", queue_id, found.min, max_count=1)
        assert record.decode(got.records[0]).physical_offset >= first
    assert store.find("topic", "N0").offsets == []
    assert len(store.find("topic", "N199").offsets) == 1
    ranges = list(store.queues())
    store.close()
    again = open_store(disk)
    assert list(again.queues()) == ranges
    assert again.append(new("topic", 0)).queue_offset == 100


def test_a_queue_whose_messages_are_all_gone_goes_on_counting() -> None:
    """Its newest file stays and says where."""
    clock = FakeClock()
    disk = SimulatedDisk()
    store = open_store(disk, clock=clock)
    for _ in range(25):
        store.append(new("old", 0))
    while store.end < 3 * SEGMENT:
        store.append(new("young", 0, bytes(1000)))
    store.write()
    store.sync()
    clock.advance(100 * HOUR_MS)
    maintain(store)
    clean(store, RetentionSettings(), at_once=True)
    assert store.queue_range("old", 0) == (25, 25)
    assert len(disk.list("/store/consumequeue/old/0")) == 1
    for found in (disk.kill(), disk.crash(lambda _: 0)):
        assert open_store(found).append(new("old", 0)).queue_offset == 25


def test_nothing_goes_that_the_queues_do_not_have_durably() -> None:
    """However full the disk is."""
    disk = SimulatedDisk()
    store = open_store(disk, flush="async")
    while store.end < 3 * SEGMENT:
        store.append(new(body=bytes(500)))
    store.write()
    disk.used = 0.99
    assert clean(store, RetentionSettings()) == 0
    store.sync()
    assert clean(store, RetentionSettings()) == 0
    store.dispatch()
    assert clean(store, RetentionSettings()) == 0
    maintain(store)
    assert clean(store, RetentionSettings()) == 3 * SEGMENT


def test_readers_keep_what_they_have() -> None:
    """Views of a deleted file stay as they were."""
    _, store, clock = _store()
    got = store.get_messages("topic", 0, 0)
    before = [bytes(data) for data in got.records]
    clock.advance(100 * HOUR_MS)
    assert clean(store, RetentionSettings(), at_once=True) > 0
    assert [bytes(data) for data in got.records] == before


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", ["remove", "sync_folder"])
def test_a_round_that_failed_is_made_again(call: str, number: int) -> None:
    """Whichever deletion fails, the store is whole and the rest goes later."""
    nth = 1
    while True:
        disk, store, clock = _store()
        clock.advance(100 * HOUR_MS)
        disk.fail(call, nth, number)
        try:
            clean(store, RetentionSettings(), at_once=True)
        except (DiskFailed, DiskFull):
            left = open_store(disk.kill())
            assert left.queue_range("topic", 0).max == 50
            clean(store, RetentionSettings(), at_once=True)
            assert _log_files(disk) == 1
            assert list(store.queues()) == list(open_store(disk.kill()).queues())
        else:
            assert nth > 4
            return
        nth += 1


def test_maintaining_and_cleaning_take_turns() -> None:
    """One would delete what the other one syncs."""
    _, store, clock = _store()
    clock.advance(100 * HOUR_MS)
    cleaning = store.clean_steps(RetentionSettings(), at_once=True)
    assert steps.advance(cleaning) is not None
    with pytest.raises(AssertionError):
        maintain(store)
    cleaning.close()
    maintain(store)


def test_a_store_that_is_read_or_has_failed_deletes_nothing() -> None:
    """It is not its own."""
    disk, store = filled(40)
    reader = Store.open_read_only(disk, "/store")
    disk.used = 0.99
    assert clean(reader, RetentionSettings()) == 0
    store.append(new())
    store.write()
    disk.fail("sync")
    with pytest.raises(Exception, match="sync"):
        store.sync()
    assert clean(store, RetentionSettings()) == 0


def test_limits_are_moved_into_their_ranges() -> None:
    """RocketMQ's: 10 to 95, 30 to 85, 35 to 90."""
    low = RetentionSettings(clean_percent=1, force_percent=1, refuse_percent=1)
    high = RetentionSettings(clean_percent=100, force_percent=100, refuse_percent=100)
    assert SpaceLimits.of(low) == SpaceLimits(10, 30, 35)
    assert SpaceLimits.of(high) == SpaceLimits(95, 85, 90)
    assert SpaceLimits.of(RetentionSettings()) == SpaceLimits(75, 85, 90)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (RetentionSettings(), []),
        (RetentionSettings(refuse_percent=89, force_percent=80), []),
        (
            RetentionSettings(clean_percent=20, force_percent=30, refuse_percent=5),
            ["refuse_percent is 35, which is as near to 5 as it may be"],
        ),
        (RetentionSettings(clean_percent=80, force_percent=70), ["clean_percent (80) is above"]),
        (RetentionSettings(clean_percent=80, force_percent=70, force=False), []),
        (RetentionSettings(force_percent=80, refuse_percent=80), ["(80) is not below refuse"]),
    ],
)
def test_what_limits_make_of_settings_is_told(settings: RetentionSettings, said: list[str]) -> None:
    """Those that are moved, and those that contradict each other."""
    told = SpaceLimits.of(settings).told(settings)
    assert len(told) == len(said)
    assert all(part in text for part, text in zip(said, told, strict=True))


@pytest.mark.parametrize(
    ("ratio", "percent"), [(0.0, 0), (0.001, 1), (0.29, 29), (0.9, 90), (0.9001, 91), (1.0, 100)]
)
def test_percents_are_rounded_up(ratio: float, percent: int) -> None:
    """Whatever the binary fractions say."""
    disk = SimulatedDisk()
    disk.used = ratio
    assert used_percent(disk, "/") == percent


def test_hours_are_local() -> None:
    """As the machine's clock shows them."""
    assert local_hour(AT_MS) == datetime.fromtimestamp(AT_MS / 1000).astimezone().hour
