"""A compaction topic keeps the last message of each key, and a store with one is a store."""

from dataclasses import replace
from itertools import chain, combinations, product

import pytest
from msgspec import structs
from tests.compacted import (
    KEYS_BYTES,
    LAYOUT,
    TOPIC,
    clean_log,
    compact,
    follow,
    opened,
    put,
    put_all,
    stepwise,
    table,
    view,
    write_topics,
)
from tests.stores import ROOT, SMALL, new, open_parts

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import DiskFailed, DiskFull, StoreError
from sprocket.rocketmq.geometry import CompactionGeometry
from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.message import INNER_BATCH
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

UNITS = CompactionGeometry.small().units_bytes // 46 - 1
"""Records of a file, of small ones."""


def filled(count: int = 40, keys: int = 3) -> tuple[SimulatedDisk, Store]:
    """Return a store with messages of a few keys, all copied."""
    disk = SimulatedDisk()
    store = opened(disk, clock=FakeClock())
    for number in range(count):
        put(store, f"k{number % keys}", b"value %d" % number)
    follow(store)
    return disk, store


def read_only(disk: SimulatedDisk) -> Store:
    """Open a store for reading."""
    return Store.open_read_only(disk, LAYOUT.root)


def last_values(count: int = 40, keys: int = 3) -> dict[str, bytes]:
    """Return what `filled` leaves."""
    return {f"k{number % keys}": b"value %d" % number for number in range(count)}


def kept_files(disk: SimulatedDisk) -> list[str]:
    """Return the names of the files of records."""
    return list(disk.sizes(f"{LAYOUT.compaction_log}/{TOPIC}/0"))


def test_a_round_leaves_the_last_message_of_each_key() -> None:
    """In all files but the last, at their own offsets, in order."""
    _, store = filled()
    before = view(store)
    assert len(before) == 40
    compact(store)
    after = view(store)
    assert table(after) == last_values()
    old = [one for one in before if one[0] < 40 // UNITS * UNITS]
    newest = {key: offset for offset, key, _ in old}
    kept = [one for one in old if one[0] == newest[one[1]]]
    assert after == kept + [one for one in before if one[0] >= 40 // UNITS * UNITS]


def test_messages_are_read_before_they_are_copied() -> None:
    """What is not copied comes from the queue, and nothing twice."""
    _, store = filled()
    compact(store)
    put(store, "k0", b"new")
    assert view(store)[-1] == (40, "k0", b"new")
    assert [offset for offset, _, _ in view(store, offset=39)] == [39, 40]


def test_a_message_without_a_body_deletes_its_key() -> None:
    """It is seen until a round drops it with all that it deleted."""
    disk = SimulatedDisk()
    store = opened(disk)
    put_all(store, [("a", b"1"), ("b", b"1"), ("a", b"")])
    put_all(store, [("b", b"%d" % number) for number in range(2 * UNITS)])
    follow(store)
    assert (2, "a", b"") in view(store)
    compact(store)
    assert [key for _, key, _ in view(store) if key == "a"] == []


def test_a_deletion_may_be_the_last_that_a_round_looks_at() -> None:
    """It goes as any other."""
    store = opened(SimulatedDisk())
    others = [("b", b"%d" % number) for number in range(UNITS - 2)]
    put_all(store, [("a", b"1"), *others, ("a", b""), ("b", b"in the next file")])
    follow(store)
    compact(store)
    assert {key for _, key, _ in view(store)} == {"b"}


def test_only_what_the_disk_has_of_the_log_is_copied() -> None:
    """Else the copy could have what a crash takes from the log."""
    disk = SimulatedDisk()
    store = opened(disk, flush="async")
    put(store, "a", b"1")
    follow(store)
    (name,) = kept_files(disk)
    records = disk.open(f"{LAYOUT.compaction_log}/{TOPIC}/0/{name}")
    copied = records.data_end()
    store.append(new(TOPIC, 0, b"2", keys=("b",)))
    store.write()
    store.dispatch()
    follow(store)
    assert (records.data_end(), store.is_synced) == (copied, False)
    store.sync()
    follow(store)
    assert records.data_end() > copied


def test_values_outlive_the_log() -> None:
    """When the log is cleaned only the copies have them; also after a stop and after a kill."""
    disk, store = filled(60)
    compact(store)
    clean_log(store)
    assert store.first > 0
    assert store.queue_range(TOPIC, 0).min == view(store)[0][0] < 60
    assert table(view(store)) == last_values(60)
    store.close()
    store = opened(disk)
    assert table(view(store)) == last_values(60)
    store = opened(disk.kill())
    assert table(view(store)) == last_values(60)


def test_the_last_copy_outlives_a_crash() -> None:
    """Without a checksum of its own a record needs its unit, and that ends in zeros."""
    disk = SimulatedDisk()
    store = opened(disk, crc_tail=False)
    put_all(store, [(f"k{number}", b"value") for number in range(5)])
    follow(store)
    copied = store.written
    for _ in range(40):
        store.append(new("other", 0, bytes(300)))
    store.write()
    store.sync()
    store.dispatch()
    follow(store)
    clean_log(store)
    assert store.first > copied
    store = opened(disk.crash(lambda _: 0), crc_tail=False)
    assert table(view(store)) == {f"k{number}": b"value" for number in range(5)}


def test_what_is_not_copied_holds_the_log() -> None:
    """However old it is, from the first such message on."""
    disk = SimulatedDisk()
    write_topics(disk, TOPIC)
    parts = open_parts(disk)
    store, queues = Store(parts), parts.parts.queues
    assert parts.parts.compactions.safe_end(queues) > 1 << 60
    put(store, "k", b"1")
    assert parts.parts.compactions.safe_end(queues) == 0
    follow(store)
    second = store.end
    put(store, "k", b"2")
    put(store, "k", b"3")
    assert parts.parts.compactions.safe_end(queues) == second
    follow(store)
    assert parts.parts.compactions.safe_end(queues) > 1 << 60


def test_a_topic_whose_queue_begins_late_is_copied_from_there() -> None:
    """As one that was made when compaction was off."""
    disk = SimulatedDisk()
    store = opened(disk, compact=False)
    for number in range(60):
        put(store, f"k{number}", b"%d" % number * 50)
    follow(store)
    clean_log(store)
    first = store.queue_range(TOPIC, 0).min
    assert 0 < first < 60
    assert store.get_messages(TOPIC, 0, 0).status is GetStatus.OFFSET_TOO_SMALL
    store.close()
    store = opened(disk)
    assert [offset for offset, _, _ in view(store)] == list(range(first, 60))
    follow(store)
    clean_log(store)
    assert [offset for offset, _, _ in view(store)] == list(range(first, 60))


def test_statuses_are_those_of_compaction() -> None:
    """No offset is too small; behind the end it is the first one if that is 0, else the end."""
    _, store = filled()
    assert store.get_messages(TOPIC, 0, 1000).status is GetStatus.OFFSET_OVERFLOW_BADLY
    assert store.get_messages(TOPIC, 0, 1000).next_offset == 0
    compact(store)
    clean_log(store)
    low = view(store)[0][0]
    assert low > 0
    assert store.get_messages(TOPIC, 0, 0).status is GetStatus.FOUND
    assert store.get_messages(TOPIC, 0, 1000).next_offset == 40
    assert store.get_messages(TOPIC, 0, 40).status is GetStatus.OFFSET_OVERFLOW_ONE
    got = store.get_messages(TOPIC, 0, low + 1, max_count=2)
    assert (got.min_offset, got.max_offset, got.count) == (low, 40, 2)
    assert store.get_messages(TOPIC, 5, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE


def test_filters_are_respected() -> None:
    """By tag, as elsewhere; a reader gets on over what does not pass."""
    _, store = filled()
    compact(store)
    assert view(store, wanted=filters.parse("other")) == []
    assert view(store, wanted=filters.parse("other || T")) == view(store)


@pytest.mark.parametrize("bytes_max", [100, 500, 4000])
def test_answers_have_their_limits(bytes_max: int) -> None:
    """Whatever they are, all comes in the end."""
    _, store = filled()
    compact(store)
    assert view(store, max_bytes=bytes_max, max_count=3) == view(store)


def test_times_lead_to_what_is_kept() -> None:
    """Also to what the log has no more."""
    disk = SimulatedDisk()
    clock = FakeClock(1_000_000)
    store = opened(disk, clock=clock)
    for number in range(60):
        clock.advance(1000)
        put(store, f"k{number % 40}", b"%d" % number * 20)
    follow(store)
    compact(store)
    clean_log(store)
    first = view(store)[0][0]
    at_ms = store.stored_at_ms(TOPIC, 0, first)
    assert at_ms == 1_000_000 + 1000 * (first + 1)
    assert store.offset_by_time(TOPIC, 0, 0, Boundary.LOWER) <= first
    assert store.offset_by_time(TOPIC, 0, at_ms, Boundary.UPPER) == first
    assert store.offset_by_time(TOPIC, 0, at_ms + 59_000, Boundary.LOWER) == 60


def test_a_deleted_topic_begins_anew() -> None:
    """Nothing of the old one comes back, whatever the offsets."""
    disk, store = filled()
    compact(store)
    steps.run(store.delete_topic_steps(TOPIC, lambda: None))
    assert not disk.is_folder(f"{LAYOUT.compaction_log}/{TOPIC}")
    store.take_compaction(TOPIC)
    put(store, "k0", b"again")
    follow(store)
    assert view(store) == [(0, "k0", b"again")]
    store = opened(disk.kill())
    assert view(store) == [(0, "k0", b"again")]


def test_what_another_broker_left_of_a_deleted_topic_is_removed() -> None:
    """RocketMQ deletes queues alone."""
    disk, store = filled()
    store.close()
    left = {path: data for path, data in disk.contents().items() if "/compaction" in path}
    fresh = SimulatedDisk()
    store = opened(fresh)
    put(store, "k0", b"another")
    store.close()
    for path, data in left.items():
        fresh.make_folder(path.rpartition("/")[0])
        file = fresh.open(path, write=True, create=True)
        file.write([data], 0)
        file.close()
    store = opened(fresh)
    assert view(store) == [(0, "k0", b"another")]
    follow(store)
    assert view(store) == [(0, "k0", b"another")]


def test_a_round_goes_on_beside_everything_else() -> None:
    """New messages, cleaning and reads between any two of its steps."""
    disk, store = filled(60)
    expected = last_values(60)
    for number, _ in enumerate(stepwise(store.compact_steps(KEYS_BYTES))):
        put(store, f"n{number}", b"new")
        expected[f"n{number}"] = b"new"
        follow(store)
        clean_log(store)
        assert table(view(store)) == expected
    compact(store)
    assert table(view(store)) == expected
    store.close()
    assert table(view(opened(disk))) == expected


def test_a_topic_may_go_in_the_middle_of_a_round() -> None:
    """The round ends, whatever it was about to do."""
    _, store = filled(60)
    count = len(list(stepwise(store.compact_steps(KEYS_BYTES))))
    for stop in range(count + 1):
        _, store = filled(60)
        done = stepwise(store.compact_steps(KEYS_BYTES))
        for _ in range(stop):
            next(done)
        steps.run(store.delete_topic_steps(TOPIC, lambda: None))
        list(done)
        store.take_compaction(TOPIC)
        put(store, "k", b"again")
        follow(store)
        assert view(store) == [(0, "k", b"again")]


def test_views_outlive_a_round() -> None:
    """Somebody may still send them."""
    _, store = filled()
    got = store.get_messages(TOPIC, 0, 0)
    before = [bytes(one) for one in got.records]
    compact(store)
    clean_log(store)
    assert [bytes(one) for one in got.records] == before


def test_rounds_give_room_back() -> None:
    """However many values there were, about as many files are left as the last ones need."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(30 * UNITS):
        put(store, f"k{number % 3}", b"%d" % number)
        if number % UNITS == 0:
            follow(store)
            compact(store)
    assert len(kept_files(disk)) <= 3
    assert len(view(store)) < 3 * UNITS


def test_with_little_memory_it_takes_several_rounds() -> None:
    """Each gets as far as its keys fit, and loses nothing."""
    disk = SimulatedDisk()
    store = opened(disk)
    expected = {}
    for number in range(400):
        key, body = f"k{number % 150}", b"%d" % number
        put(store, key, body)
        expected[key] = body
    follow(store)
    sizes = []
    for _ in range(8):
        compact(store, 1)
        assert table(view(store)) == expected
        sizes.append(len(view(store)))
        put(store, "more", b"x")
        expected["more"] = b"x"
        follow(store)
    assert sizes[-1] < 180


def test_queues_are_compacted_each_by_itself() -> None:
    """The same key may be in several."""
    _, store = filled()
    for number in range(20):
        put(store, "k0", b"other %d" % number, queue_id=3)
    follow(store)
    compact(store)
    assert table(view(store)) == last_values()
    assert table(view(store, queue_id=3)) == {"k0": b"other 19"}


def test_inner_batches_are_values() -> None:
    """One that is kept has all its offsets."""
    disk = SimulatedDisk()
    store = opened(disk)
    store.take_batches(TOPIC)
    for number in range(20):
        one = new(TOPIC, 0, b"frames %d" % number, keys=("k",), sys_flag=INNER_BATCH)
        store.append(structs.replace(one, properties=one.properties + b"INNER_NUM\x013\x02"))
        store.write()
        store.sync()
    follow(store)
    compact(store)
    found = view(store)
    assert found[-1] == (57, "k", b"frames 19")
    assert store.queue_range(TOPIC, 0).max == 60
    assert store.get_messages(TOPIC, 0, 58).count == 3


def test_large_messages_end_a_file_early() -> None:
    """As the log does."""
    disk = SimulatedDisk()
    store = opened(disk)
    sizes = [2048, 2048, 10, 2000, 2048, 1, 500]
    for number, size in enumerate(sizes):
        put(store, f"k{number}", bytes([number]) * size)
    follow(store)
    assert [(key, len(body)) for _, key, body in view(store)] == [
        (f"k{number}", size) for number, size in enumerate(sizes)
    ]
    assert len(kept_files(disk)) > 2
    compact(store)
    assert len(view(store)) == len(sizes)


def test_without_the_setting_such_a_topic_is_like_others() -> None:
    """Nothing is copied."""
    disk = SimulatedDisk()
    store = opened(disk, compact=False)
    put(store, "k", b"1")
    follow(store)
    compact(store)
    store.take_compaction(TOPIC)
    assert not disk.exists(LAYOUT.compaction)


def test_who_only_reads_sees_the_same() -> None:
    """And changes nothing, also of a store that was killed in a swap."""
    disk, store = filled(60)
    states = [disk.kill(), *(disk.kill() for _ in stepwise(store.compact_steps(KEYS_BYTES)))]
    for state in states:
        before = state.contents()
        reader = Store.open_read_only(state, LAYOUT.root)
        assert table(view(reader)) == last_values(60)
        reader.close()
        assert state.contents() == before


def test_old_files_do_not_count_once_one_of_them_is_gone() -> None:
    """Which of them a power cut in a swap leaves is not certain; one may have what was deleted."""
    disk = SimulatedDisk()
    store = opened(disk)
    put_all(store, [(f"k{number % 3}", b"%d" % number) for number in range(2 * UNITS)])
    put_all(store, [("k0", b""), *((f"k{number}", b"last") for number in (1, 2) * UNITS)])
    follow(store)
    old = set(kept_files(disk)[:-1])
    noted = f"{LAYOUT.compaction_log}/{TOPIC}/0/compacting/sprocket.swap"
    states = [disk.kill() for _ in stepwise(store.compact_steps(KEYS_BYTES))]
    moved = [one for one in states if one.exists(noted) and len(kept_files(one)) > len(old) + 1]
    assert moved
    lefts = chain(*(combinations(sorted(old), count) for count in range(len(old))))
    for left, opens in product(lefts, (opened, read_only)):
        state = moved[-1].kill()
        for name in old.difference(left):
            state.remove(f"{LAYOUT.compaction_log}/{TOPIC}/0/{name}")
        store = opens(state)
        assert table(view(store)) == {"k1": b"last", "k2": b"last"}, left
        store.close()


def test_positions_are_noted_as_rocketmq_does() -> None:
    """After a round, and at a stop."""
    disk, store = filled()
    compact(store)
    last = 40 // UNITS * UNITS - 1
    expected = b'{"queueOffsetMap":{"kept_0":%d}}' % last
    assert read_file(disk, LAYOUT.compaction_positions) == expected
    store.close()
    assert read_file(disk, LAYOUT.compaction_positions) == expected


def test_another_round_only_looks_at_what_is_new() -> None:
    """Without anything new it does nothing."""
    disk, store = filled()
    compact(store)
    calls = disk.calls["any"]
    compact(store)
    assert disk.calls["any"] == calls


def test_a_full_disk_leaves_all_as_it_was() -> None:
    """Copying and compacting fail, reading goes on; later both go on."""
    disk, store = filled()
    put(store, "k0", b"new")
    before = view(store)
    disk.is_full = True
    with pytest.raises(DiskFull):
        compact(store)
    with pytest.raises(StoreError):
        follow(store)
    assert view(store) == before
    disk.heal()
    follow(store)
    compact(store)
    assert table(view(store)) == {**last_values(), "k0": b"new"}


def test_messages_without_keys_are_not_kept() -> None:
    """No broker takes them, but a store may have some."""
    _, store = filled()
    put(store, "", b"keyless")
    put(store, "k", b"last")
    follow(store)
    assert [key for _, key, _ in view(store)][-2:] == ["k0", "k"]


def test_damage_in_the_log_is_not_copied() -> None:
    """What follows is."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(5):
        put(store, f"k{number}", b"value %d" % number)
    place = store.units(TOPIC, 0, 2, 1)[0][1]
    file = disk.open(f"{LAYOUT.commitlog}/{0:020}", write=True)
    file.write([b"\xff"], place + 12)
    follow(store)
    assert [key for _, key, _ in view(store)] == ["k0", "k1", "k3", "k4"]


def test_a_message_that_the_disk_does_not_read_is_not_passed_over() -> None:
    """It holds the log, and is copied when it can be read; what is before it is copied."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(5):
        put(store, f"k{number}", b"value %d" % number)
    _, place, size, *_ = store.units(TOPIC, 0, 2, 1)[0]
    path = f"{LAYOUT.commitlog}/{0:020}"
    disk.spoil(path, place, size)
    for _ in range(3):
        follow(store)
    for _ in range(40):
        put(store, "other", bytes(200))
    clean_log(store)
    assert store.first == 0
    disk.repair(path)
    follow(store)
    assert [key for _, key, _ in view(store)][:6] == ["k0", "k1", "k2", "k3", "k4", "other"]
    clean_log(store)
    assert store.first > 0
    assert len(view(store)) == 45


def test_a_message_that_the_disk_never_reads_holds_nothing_for_ever() -> None:
    """After a minute it is passed over, and said to be."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(5):
        put(store, f"k{number}", b"value %d" % number)
    _, place, size, *_ = store.units(TOPIC, 0, 2, 1)[0]
    disk.spoil(f"{LAYOUT.commitlog}/{0:020}", place, size)
    for _ in range(61):
        follow(store)
    assert [key for _, key, _ in view(store)] == ["k0", "k1", "k3", "k4"]
    store.close()


def test_a_damaged_note_of_a_swap_removes_nothing() -> None:
    """Wherever a bit of it is wrong: reads say so, and the files stay."""
    disk, store = filled(60)
    noted = f"{LAYOUT.compaction_log}/{TOPIC}/0/compacting/sprocket.swap"
    for _ in stepwise(store.compact_steps(KEYS_BYTES)):
        if disk.exists(noted):
            break
    data = read_file(disk, noted)
    for position in range(0, len(data), 7):
        other = disk.kill()
        file = other.open(noted, write=True)
        file.write([bytes([data[position] ^ 1 << position % 8])], position)
        again = opened(other)
        before = [path for path in other.contents() if "compaction/" in path]
        with pytest.raises(DiskFailed, match="is damaged"):
            view(again)
        again.close()
        left = [path for path in other.contents() if "compaction/" in path]
        assert set(before) <= {*left, LAYOUT.compaction_positions}
        other.open(noted, write=True).write([data], 0)
        assert table(view(opened(other))) == last_values(60)


def test_a_record_that_no_file_takes_holds_the_log() -> None:
    """And is read from there, with all behind it; other queues are copied as before."""
    disk = SimulatedDisk()
    write_topics(disk, TOPIC)
    small = CompactionGeometry(log_bytes=1, units_bytes=8 * 46)  # 1,840 bytes a file
    geometry = replace(SMALL, compaction=small)
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048)
    opened_parts = opening.to_write(disk, ROOT, settings, FakeClock(), geometry)
    store, parts = Store(opened_parts), opened_parts.parts
    put(store, "a", b"1")
    put(store, "b", b"2" * 2000)
    put(store, "c", b"3")
    follow(store)
    follow(store)
    put(store, "d", b"4", queue_id=1)
    follow(store)
    assert [key for _, key, _ in view(store)] == ["a", "b", "c"]
    assert 0 <= parts.compactions.safe_end(parts.queues) < store.end
    assert parts.compactions.by_key[TOPIC, 1].max_offset == 1


def test_a_table_that_is_lost_loses_no_value() -> None:
    """The folder says which topics are compacted."""
    disk, store = filled()
    compact(store)
    clean_log(store)
    store.close()
    disk.remove(LAYOUT.topics)
    store = Store.open(disk, LAYOUT.root, store.settings, FakeClock())
    assert table(view(store)) == last_values()
    assert store.compacted_topics == {TOPIC}


def test_a_new_topic_is_compacted_at_once() -> None:
    """From its first message on."""
    disk = SimulatedDisk()
    write_topics(disk)
    store = opened(disk)
    store.take_compaction(TOPIC)
    put(store, "k", b"1")
    follow(store)
    assert kept_files(disk) == [f"{0:020}"]


def test_a_failed_sync_is_made_good_by_the_next_start() -> None:
    """What the cache has and the disk does not is written again."""
    disk, store = filled(3)
    put(store, "k0", b"new")
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        follow(store)
    killed = disk.kill()
    store = opened(killed)
    follow(store)
    store = opened(killed.crash(lambda _: 0))
    assert table(view(store)) == {**last_values(3), "k0": b"new"}
