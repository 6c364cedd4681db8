"""The store of delayed messages: taken in order, kept over every end, damage passed over."""

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest
from tests.rabbit_vhosts import PATHS, ROOT, close, flip, message, opened

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed, DiskFull, StoreFailed
from sprocket.rabbitmq.settings import VhostStoreSettings
from sprocket.rabbitmq.store.delayed import DelayedMessage, DelayedStore
from sprocket.rabbitmq.store.recovery import dry_run
from sprocket.rabbitmq.store.repair import VhostRule, check_vhost
from sprocket.rabbitmq.store.vhost import VhostStore
from sprocket.testing.disk import SimulatedDisk

LAYOUT = PATHS.delayed
FAR = 1 << 50


def add(store: VhostStore, *numbers: int, exchange: str = "x", size: int = 20) -> None:
    """Keep messages that are due at a thousand times their numbers, and write them."""
    for number in numbers:
        store.delayed.add(exchange, message(number, size), 1000 * number, 1)
    store.log.write()


def take(delayed: DelayedStore, now_us: int = FAR, count: int = 1000) -> list[int]:
    """Take what is due, and be done with it; return the numbers."""
    found: list[int] = []
    while some := taken(delayed, now_us, count):
        delayed.done(now_us)
        for one in some:
            assert one.message == message(int(one.message.id), one.message.body_size)
            found.append(int(one.message.id))
    return found


def taken(delayed: DelayedStore, now_us: int, count: int) -> list[DelayedMessage]:
    """Take some, at the second attempt if what comes first cannot be read."""
    try:
        return steps.run(delayed.take_steps(now_us, count))
    except DiskFailed:
        return steps.run(delayed.take_steps(now_us, count))


def flush(store: VhostStore) -> None:
    """Bring what is in memory into a run."""
    steps.run(store.delayed.flush_steps())


def runs(disk: SimulatedDisk) -> list[str]:
    """Return the names of all runs."""
    if not disk.is_folder(LAYOUT.root):
        return []
    return [name for name in disk.list(LAYOUT.root) if name.endswith(".run")]


def test_what_was_taken_before_its_exchange_was_dropped_is_counted_no_more() -> None:
    """What the exchange keeps afterwards is counted, now and after a crash, and can be dropped."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2)
    assert len(taken(store.delayed, FAR, 1000)) == 2
    store.delayed.drop("x", 1)
    store.delayed.add("x", message(3), 2 * FAR, 1)
    store.delayed.add("x", message(4), 2 * FAR, 1)
    store.delayed.done(FAR)
    store.log.commit()
    assert store.delayed.counts == {"x": 2}
    other = opened(disk.kill())
    assert other.delayed.counts == {"x": 2}
    other.delayed.drop("x", FAR)
    assert take(other.delayed, 4 * FAR) == []


def test_messages_of_memory_and_runs_come_in_one_order() -> None:
    """Wherever they are, and whenever they were added."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 5, 1, 9)
    flush(store)
    add(store, 4, 8)
    flush(store)
    add(store, 2, 7)
    assert store.delayed.next_due_us == 1000
    assert take(store.delayed, 4999) == [1, 2, 4]
    assert store.delayed.next_due_us == 5000
    assert store.delayed.counts == {"x": 4}
    assert take(store.delayed) == [5, 7, 8, 9]
    assert store.delayed.next_due_us is None
    assert not store.delayed.counts


def test_what_is_added_while_a_run_is_written_is_not_lost() -> None:
    """Nor what is taken then: the run has it, and it does not come again."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    store.log.commit()
    work = store.delayed.flush_steps()
    for number in range(4, 8):
        next(work)()
        add(store, number)
        assert take(store.delayed, 1000 * (number - 3), 1) == [number - 3]
    steps.run(work)
    store.log.commit()
    again = opened(disk.crash(lambda _: 0))
    assert again.delayed.counts == {"x": 3}
    assert take(again.delayed) == take(store.delayed) == [5, 6, 7]


def test_many_runs_become_few() -> None:
    """And none when all was taken; what an exchange kept that is gone does not count."""
    disk = SimulatedDisk()
    store = opened(disk)
    for start in range(16):
        add(store, *range(100 + start, 300, 16))
        add(store, 1000 + start, exchange="y")
        flush(store)
    assert len(runs(disk)) == 16
    store.delayed.drop("y", 1)
    assert take(store.delayed, 150_000) == [*range(100, 151)]
    while steps.run(store.delayed.merge_steps()):
        pass
    assert len(runs(disk)) < 8
    store.log.commit()
    again = opened(disk.crash(lambda _: 0))
    assert take(again.delayed) == take(store.delayed) == [*range(151, 300)]
    while steps.run(again.delayed.merge_steps()):
        pass
    assert again.delayed.next_due_us is None


def test_a_clean_stop_leaves_everything_in_files() -> None:
    """The next start is a clean one, and goes on with numbers, times and counts."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2)
    add(store, 3, exchange="y")
    take(store.delayed, 1000)
    store.delayed.note_clock(-77, 5000)
    close(store)
    again = opened(disk)
    assert (again.report.clean_stop, again.report.delayed) == (True, 2)
    assert again.delayed.counts == {"x": 1, "y": 1}
    assert (again.delayed.ahead_us, again.delayed.at_us) == (-77, 5000)
    add(again, 4)
    assert take(again.delayed) == [2, 3, 4]


def test_looking_changes_nothing() -> None:
    """It says how many there are."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    flush(store)
    add(store, 4)
    take(store.delayed, 1000)
    store.log.commit()
    found = disk.kill()
    before = found.contents()
    assert dry_run(found, PATHS, 4).delayed == 3
    assert found.contents() == before


def test_a_damaged_block_is_passed_over() -> None:
    """Those around it come; the file stays, under another name."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    flush(store)
    flip(disk, LAYOUT.run(0), b"body 2 ")
    assert take(store.delayed) == [1, 3]
    assert store.delayed.counts == {}
    steps.run(store.delayed.merge_steps())
    assert runs(disk) == []
    assert b"body 3 " in disk.contents()[LAYOUT.damaged_run(0)]


def test_check_finds_what_is_damaged() -> None:
    """In every file; nothing is wrong with what a clean stop left."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    close(store)
    assert list(check_vhost(disk, ROOT)) == []
    for path, text in ((LAYOUT.run(0), b"body 2 "), (LAYOUT.manifest, b"counts")):
        flip(disk, path, text)
        (finding,) = check_vhost(disk, ROOT)
        assert (finding.rule, path in finding.found) == (VhostRule.DELAYED, True)
        flip(disk, path, bytes([text[0] ^ 1]) + text[1:])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_head_is_passed_over(number: int) -> None:
    """The next one is found; the first one's damage is known when the store is opened."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    close(store)
    path = LAYOUT.run(0)
    position = disk.contents()[path].index(b"body %d " % number)
    position = disk.contents()[path].rindex(b"SpD2", 0, position)
    file = disk.open(path, write=True)
    file.write([b"\xff"], position + 20)
    assert take(opened(disk).delayed) == [one for one in (1, 2, 3) if one != number]


def test_what_the_disk_cannot_read_is_passed_over() -> None:
    """A bad sector takes those that lie in it."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, *range(1, 10), size=900)
    close(store)
    position = disk.contents()[LAYOUT.run(0)].index(b"body 4 ")
    disk.spoil(LAYOUT.run(0), position, 1)
    found = take(opened(disk).delayed)
    assert 4 not in found
    assert {1, 2, 3, 6, 7, 8, 9} <= set(found)


@pytest.mark.parametrize("how", ["flip", "remove"])
def test_without_a_manifest_all_runs_count(how: str) -> None:
    """It is told; messages that were taken may come again, none is missing."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2, 3)
    flush(store)
    add(store, 4)
    store.log.commit()
    found = disk.kill()
    if how == "flip":
        flip(found, LAYOUT.manifest, b"counts")
    else:
        found.remove(LAYOUT.manifest)
    again = opened(found)
    assert any("made anew" in one for one in again.report.damage)
    assert take(again.delayed) == [1, 2, 3, 4]
    close(again)
    assert opened(found).report.damage == []


def test_a_run_that_is_missing_or_cut_is_told() -> None:
    """What is left comes."""
    disk = SimulatedDisk()
    store = opened(disk)
    add(store, 1, 2)
    flush(store)
    add(store, 3)
    close(store)
    disk.remove(LAYOUT.run(1))
    file = disk.open(LAYOUT.run(0), write=True)
    file.resize(file.size() - 1)
    again = opened(disk)
    assert len(again.report.damage) == 2
    assert take(again.delayed) == [1]


def fill_up(disk: SimulatedDisk, nth: int) -> None:
    """Have a disk be full from its nth call on."""
    countdown = [nth]

    def count(_call: str, _path: str) -> None:
        countdown[0] -= 1
        disk.is_full = disk.is_full or countdown[0] == 0

    disk.before = count


def fail(disk: SimulatedDisk, nth: int) -> None:
    """Have the nth call fail."""
    disk.fail("any", nth)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [fill_up, fail])
def test_a_full_or_failing_disk_loses_nothing(
    spoil: Callable[[SimulatedDisk, int], None],
) -> None:
    """From each call of a flush and of a merge on; tried again later, all is there."""
    at, has_failed = 0, True
    while has_failed:
        at += 1
        disk = SimulatedDisk()
        store = opened(disk)
        for number in range(1, 9):
            add(store, number, number + 8)
            flush(store)
        add(store, 20, 21)
        assert take(store.delayed, 3000) == [1, 2, 3]
        calls = disk.calls["any"]
        spoil(disk, at)
        for work in (store.delayed.flush_steps, store.delayed.merge_steps):
            with contextlib.suppress(DiskFull, DiskFailed, StoreFailed):
                steps.run(work())
        has_failed = disk.calls["any"] - calls >= at
        disk.is_full, disk.before = False, None
        is_taken = store.log.failure is None
        if is_taken:
            assert take(store.delayed, 4000) == [4]
            flush(store)
            steps.run(store.delayed.merge_steps())
            store.log.commit()
        again = opened(disk.kill())
        found = take(again.delayed)
        if is_taken:
            assert found == [*range(5, 17), 20, 21]
        else:  # that the first ones were taken is not durable, or it is
            assert [n for n in found if n > 3] == [*range(4, 17), 20, 21]
    assert at > 20


@pytest.mark.slow
def test_memory_does_not_grow_with_what_waits() -> None:
    """Fifteen hundred more messages, of 300 bytes each, take some files' bookkeeping."""

    def held_bytes(count: int) -> int:
        disk = SimulatedDisk()
        store = opened(disk, VhostStoreSettings(delayed_bytes_max=16_384))
        tracemalloc.start()
        try:
            for number in range(1, count):
                add(store, number * 7919 % 100_003 + 1, size=100)
                if store.delayed.is_flush_due or number == count - 1:
                    flush(store)
                    steps.run(store.delayed.merge_steps())
            filters = [tracemalloc.Filter(False, "*/testing/disk.py")]
            held = tracemalloc.take_snapshot().filter_traces(filters)
            return sum(one.size for one in held.statistics("filename"))
        finally:
            tracemalloc.stop()

    few, many = held_bytes(500), held_bytes(2000)
    assert many - few < 200_000
