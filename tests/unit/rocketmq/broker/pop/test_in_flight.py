"""What was popped survives the end of a process: settled stays so, and the rest comes again."""

import random

import pytest

from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFull, ForeignStore, WireError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.pop import InFlight, Pop, PopId, PoppedQueue
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

KEY = PoppedQueue("t", "g", 0)
OTHER = PoppedQueue("t", "g", 1)
NAMED = PoppedQueue("%RETRY%g+t", "g", 0)


def fresh() -> SimulatedDisk:
    """Return a disk with an empty store folder."""
    disk = SimulatedDisk()
    disk.make_folder("/s/config")
    return disk


def opened(disk: SimulatedDisk, log_end: int = 0) -> tuple[InFlight, ConsumerOffsets]:
    """Open both tables on a disk."""
    place = Place(disk, "/s", FakeClock())
    offsets = ConsumerOffsets(place)
    return InFlight(place, offsets, log_end), offsets


def test_a_group_goes_on_behind_what_it_popped() -> None:
    """What is committed is where the oldest pop begins that is not settled."""
    pops, offsets = opened(fresh())
    assert pops.next_offset(KEY) is None
    first = pops.add(KEY, PopId(5, 1_000), [5, 6, 9], 60_000)
    second = pops.add(KEY, PopId(10, 1_001), [10], 60_000)
    assert (pops.next_offset(KEY), pops.count(KEY), first.due_at_ms) == (11, 4, 61_000)
    assert pops.settle(KEY, second.id, [10]) == [10]
    assert offsets.get("g", "t", 0) == 5
    assert pops.settle(KEY, first.id, [9, 6]) == [9, 6]
    assert pops.settle(KEY, first.id, [6, 7, 99]) == [], "twice, or of no pop"
    assert (first.open_offsets, pops.count(KEY)) == ([5], 1)
    assert pops.settle(KEY, first.id, [5]) == [5]
    assert (offsets.get("g", "t", 0), len(pops), pops.next_offset(KEY)) == (11, 0, None)
    assert not pops.settle(KEY, first.id, [5])


def test_after_a_kill_copies_count_if_the_log_has_them() -> None:
    """Those that it does not have never come to count, however long it becomes."""
    disk = fresh()
    pops, _ = opened(disk)
    first = pops.add(KEY, PopId(5, 1_000), [5, 6, 9], 60_000)
    pops.note_copies(KEY, first.id, [6, 9], 700)
    assert first.open_offsets == [5, 6, 9], "not before they are stored"
    pops.settle(KEY, first.id, [5])
    with_copies, offsets = opened(disk.kill(), 700)
    assert (len(with_copies), offsets.get("g", "t", 0)) == (0, 10)
    killed = disk.kill()
    for log_end in (699, 5_000):
        without, offsets = opened(killed, log_end)
        assert [pop.open_offsets for _, pop in without.take_due(90_000, 9)] == [[6, 9]], log_end
        killed = killed.kill()


def test_copies_that_were_refused_do_not_count() -> None:
    """Their messages are open, however long the log is."""
    disk = fresh()
    pops, _ = opened(disk)
    first = pops.add(KEY, PopId(5, 1_000), [5, 6], 60_000)
    pops.note_copies(KEY, first.id, [5, 6], 700)
    pops.note_copies(KEY, first.id, [5, 6], 0)
    again, _ = opened(disk.kill(), 5_000)
    assert [pop.open_offsets for _, pop in again.take_due(90_000, 9)] == [[5, 6]]


def test_what_is_due_is_given_once() -> None:
    """The earliest first, and only if something of it is open."""
    pops, _ = opened(fresh())
    late = pops.add(KEY, PopId(1, 0), [1], 500)
    early = pops.add(OTHER, PopId(1, 0), [1, 2], 100)
    done = pops.add(NAMED, PopId(7, 0), [7], 50)
    pops.settle(NAMED, done.id, [7])
    assert pops.take_due(49, 10) == []
    assert pops.take_due(1_000, 1) == [(OTHER, early)]
    assert pops.take_due(1_000, 10) == [(KEY, late)]
    assert pops.take_due(1_000, 10) == []
    pops.put_back(KEY, late, 2_000)
    assert pops.take_due(1_999, 10) == []
    assert pops.take_due(2_000, 10) == [(KEY, late)]


def test_what_is_forgotten_comes_no_more() -> None:
    """By queue, topic or group."""
    disk = fresh()
    pops, _ = opened(disk)
    for key in (KEY, OTHER, NAMED):
        pops.add(key, PopId(1, 0), [1], 100)
    pops.forget(KEY)
    assert [*opened(disk.kill())[0].queues()] == [OTHER, NAMED]
    assert pops.next_offset(KEY) is None
    pops.forget_all(topic="t")
    assert [*pops.queues()] == [NAMED]
    pops.forget_all(group="g")
    assert pops.take_due(1_000, 10) == []


def test_a_full_disk_changes_nothing() -> None:
    """The pop is not noted, so that it must not be answered."""
    disk = fresh()
    pops, _ = opened(disk)
    disk.is_full = True
    with pytest.raises(DiskFull):
        pops.add(KEY, PopId(1, 0), [1], 100)
    assert len(pops) == 0


def story(seed: int, disk: SimulatedDisk) -> tuple[SimulatedDisk, dict[PoppedQueue, set[int]]]:
    """Pop and settle at random, with kills; return the disk and what must be open."""
    draw = random.Random(seed)
    pops, offsets = opened(disk)
    ends = dict.fromkeys((KEY, OTHER, NAMED), 0)
    open_now: dict[PoppedQueue, set[int]] = {key: set() for key in ends}
    ids: list[tuple[PoppedQueue, PopId, list[int]]] = []
    for step in range(draw.randrange(120)):
        key = draw.choice([*ends])
        match draw.randrange(10):
            case 0:
                disk = disk.kill()
                pops, offsets = opened(disk)
            case 1:
                pops.table.flush()
                offsets.table.flush()
            case 2 | 3 | 4:
                start = pops.next_offset(key)
                if start is None:
                    start = offsets.get(key.group, key.topic, key.queue_id) or 0
                assert start == ends[key]
                got = sorted(draw.sample(range(start, start + 40), draw.randint(1, 32)))
                pop = pops.add(key, PopId(start, step), got, draw.randrange(100))
                ends[key] = pop.end
                open_now[key] |= set(got)
                ids.append((key, pop.id, got))
            case _ if ids:
                key, of, got = draw.choice(ids)
                chosen = draw.sample(got, draw.randint(1, len(got)))
                found = pops.settle(key, of, chosen)
                assert set(found) == set(chosen) & open_now[key]
                open_now[key] -= set(chosen)
    return disk.kill(), open_now


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_lost_or_comes_again(seed: int) -> None:
    """After any story with kills, all that is open is due once, and nothing else is."""
    disk, expected = story(seed, fresh())
    pops, _ = opened(disk)
    found: dict[PoppedQueue, set[int]] = {key: set() for key in expected}
    for key, pop in pops.take_due(1 << 40, 1 << 20):
        offsets = set(pop.open_offsets)
        assert not offsets & found[key], "in two pops"
        found[key] |= offsets
    assert found == expected


@pytest.mark.parametrize(("old", "new"), [(b"60000", b"60001"), (b"t@g", b"u@g"), (b"4]", b"5]")])
def test_a_flipped_digit_of_the_file_is_found(old: bytes, new: bytes) -> None:
    """The backup counts then; if both are damaged the start is refused."""
    disk = fresh()
    pops, _ = opened(disk)
    pops.add(KEY, PopId(5, 1_000), [5, 6, 9], 60_000)
    pops.table.flush()
    path = "/s/config/sprocketPops.json"
    wrong = read_file(disk, path).replace(old, new, 1)
    assert wrong != read_file(disk, path)
    replace_file(disk, path, wrong)
    found, _ = opened(disk.kill())
    assert [(key, pop.open_offsets) for key, pop in found.take_due(1 << 40, 9)] == [
        (KEY, [5, 6, 9])
    ]
    replace_file(disk, f"{path}.bak", wrong)
    with pytest.raises(ForeignStore):
        opened(disk.kill())


def foreign(disk: SimulatedDisk) -> None:
    """Make the file of offsets one that RocketMQ has written."""
    path = "/s/config/consumerOffset.json"
    replace_file(disk, path, b'{"offsetTable":{"t@g":{0:9}}}')


def test_what_has_a_checkpoint_is_committed() -> None:
    """Once; what is acknowledged of it later is kept for whoever reads that checkpoint."""
    disk = fresh()
    pops, offsets = opened(disk)
    pop = pops.add(KEY, PopId(4, FakeClock().now_ms()), [5, 6, 9], 60_000, 3)
    done = pops.add(OTHER, PopId(0, 1_000), [0], 60_000)
    pops.settle(OTHER, done.id, [0])
    assert pops.unwritten() == [(KEY, pop)]
    pops.note_written(pops.unwritten())
    assert (pops.unwritten(), offsets.get("g", "t", 0)) == ([], 10)
    pops.settle(KEY, pop.id, [6])
    for now in (pops, opened(disk.kill())[0]):
        [(key, late)] = now.late_acks()
        assert (key, late.id, late.differences, late.revive_queue) == (KEY, pop.id, [2], 3)
        assert now.unwritten() == []
        assert now.take_due(1 << 41, 9)[0][1].open_offsets == [5, 9]
    pops.table.flush()
    again, offsets = opened(disk.kill())
    assert (len(again.late_acks()), offsets.get("g", "t", 0), again.next_offset(KEY)) == (1, 10, 10)
    assert again.epoch == pops.epoch


def test_a_checkpoint_that_comes_is_taken_in() -> None:
    """Without what was acknowledged; not if the pop is here, nor if it was, as the mark says."""
    disk = fresh()
    pops, _ = opened(disk)
    own = pops.add(KEY, PopId(0, 7), [0], 1_000)
    pops.note_written(pops.unwritten())
    pops.take_in(KEY, Pop(own.id, 1_000, [0]), is_known=True, grace_ms=100)
    assert pops.unwritten() == [(KEY, own)], "RocketMQ is behind its checkpoint"
    pops.settle(KEY, own.id, [0])
    pops.take_in(KEY, Pop(own.id, 1_000, [0]), is_known=True, grace_ms=100)
    assert len(pops) == 0
    other = PopId(3, 9)
    pops.note_late(KEY, Pop(other, 1_000, ()), [4])
    pops.take_in(KEY, Pop(other, 1_000, [0, 1, 2]), is_known=False, grace_ms=100)
    assert pops.take_due(1_108, 9) == []
    assert [pop.open_offsets for _, pop in pops.take_due(1_109, 9)] == [[3, 5]]
    again, _ = opened(disk.kill())
    assert [pop.open_offsets for _, pop in again.take_due(1 << 40, 9)] == [[3, 5]]


def test_what_is_in_flight_ends_when_rocketmq_was_here() -> None:
    """It is on its topic; and checkpoints of ours count from then on."""
    disk = fresh()
    pops, offsets = opened(disk)
    pops.add(KEY, PopId(0, 7), [0], 1_000)
    pops.note_late(KEY, Pop(PopId(3, 9), 1_000, ()), [3])
    pops.table.flush()
    offsets.table.flush()
    foreign(disk)
    place = Place(disk, "/s", FakeClock(1_800_000_000_000))
    offsets = ConsumerOffsets(place)
    after = InFlight(place, offsets, 0)
    assert (len(after), after.late_acks(), after.epoch == pops.epoch) == (0, [], False)
    assert len(opened(disk.kill())[0]) == 0, "also for the next process"


@pytest.mark.parametrize("offsets", [[2], [40 + number for number in range(33)]])
def test_nothing_is_kept_of_what_no_pop_has(offsets: list[int]) -> None:
    """Messages before it, or more than a pop may have."""
    pops, _ = opened(fresh())
    pops.note_late(KEY, Pop(PopId(3, 9), 1_000, ()), offsets)
    assert pops.late_acks() == []


def test_a_group_that_was_sent_back_stays_there_after_a_kill() -> None:
    """It is not behind what it had popped before, however much of the new pops is settled."""
    disk = fresh()
    pops, offsets = opened(disk)
    pops.add(KEY, PopId(5, 1_000), [5, 6, 7, 8], 60_000)
    pops.settle(KEY, PopId(5, 1_000), [6])
    offsets.commit_aside("g", "t", 0, 2)
    pops.forget(KEY)
    disk = disk.kill()
    killed, known = opened(disk)
    assert (known.get("g", "t", 0), killed.next_offset(KEY), len(killed)) == (2, None, 0)
    again = killed.add(KEY, PopId(2, 2_000), [2, 3], 60_000)
    killed.settle(KEY, again.id, [2, 3])
    last, known = opened(disk.kill())
    assert (known.get("g", "t", 0), last.next_offset(KEY)) == (4, None)


def state(pops: InFlight, disk: SimulatedDisk) -> list[object]:
    """Return what two tables must have in common: rows, and what is open at the next start."""
    later, offsets = opened(disk.kill(), 1 << 40)
    found = [(key, pop.id, pop.open_offsets) for key, pop in later.take_due(1 << 60, 1 << 30)]
    kept = [(name, queue_id, sorted(rows)) for name, queue_id, rows in pops.rows() if rows]
    return [sorted(kept), sorted(found), offsets.of("g", "t")]


@pytest.mark.parametrize("seed", range(8))
def test_a_slave_has_the_same_in_flight(seed: int) -> None:
    """After each round, also where it opens the folder anew; whatever happened since the last."""
    rng = random.Random(seed)
    master_disk, slave_disk = fresh(), fresh()
    master, committed = opened(master_disk)
    slave, offsets = opened(slave_disk)
    made: list[tuple[PoppedQueue, Pop]] = []
    for number in range(60):
        key = rng.choice([KEY, OTHER])
        if rng.random() < 0.5:
            start = master.next_offset(key) or committed.get("g", "t", key.queue_id) or 0
            of = PopId(start, 1_000 + number)
            some = range(start, start + rng.randint(1, 4))
            made.append((key, master.add(key, of, some, 60_000, rng.randrange(8))))
        elif made:
            key, pop = rng.choice(made)
            chosen = [one for one in pop.open_offsets if rng.random() < 0.7]
            if rng.random() < 0.2:
                master.note_copies(key, pop.id, chosen, number)
            master.settle(key, pop.id, chosen)
        if rng.random() < 0.1:
            master.forget(key)
        if rng.random() < 0.3:
            for queue_id, offset in committed.of("g", "t").items():
                offsets.commit_aside("g", "t", queue_id, offset)
            slave.follow(list(master.rows()))
            assert state(slave, slave_disk)[:2] == state(master, master_disk)[:2]
        if rng.random() < 0.1:
            slave_disk = slave_disk.kill()
            slave, offsets = opened(slave_disk)


def test_rows_that_are_none_change_nothing() -> None:
    """A pop has a message at least."""
    pops, _ = opened(fresh())
    pops.add(KEY, PopId(5, 1_000), [5], 60_000)
    before = list(pops.rows())
    with pytest.raises(WireError, match="a pop of 0 messages"):
        pops.follow([("t@g", 0, []), ("t@g", 1, [(1, 2, 3, [], 0, 0, 0, 0, False, False)])])
    assert list(pops.rows()) == before
