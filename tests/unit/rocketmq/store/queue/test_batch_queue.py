"""Batch queues: bytes, lookups by offset and time, cuts, loss, and gaps that need no fillers."""

import errno
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rocketmq.store.queue.given import FOLDER, SMALL, oldest

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import (
    CorruptRecord,
    DiskFull,
    ForeignStore,
    OffsetTooLarge,
    OffsetTooSmall,
)
from sprocket.rocketmq.codec.record import Entry, Extra
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import BatchQueue, FileQueues, LastUnit, OtherKinds
from sprocket.testing.disk import SimulatedDisk

BATCHES = "/store/batchconsumequeue"
FIRST = f"{BATCHES}/B/0/{0:020d}"


def entry(number: int, first: int, count: int, *, topic: str = "B") -> Entry:
    """Return the entry of the `number`th record, which holds `count` messages from `first` on."""
    extra = Extra(count=count) if count > 1 else None
    return Entry(topic, 0, first, 100 * number, 100, 7, 1000 + 10 * number, extra=extra)


def batches(*counts: int) -> list[Entry]:
    """Return the entries of records that hold so many messages each."""
    firsts = [0, *accumulate(counts)]
    return [entry(n, firsts[n], count) for n, count in enumerate(counts)]


def opened(disk: SimulatedDisk, *, clean: bool = True) -> FileQueues:
    """Return the queues on a disk; those of topic B are batch queues."""
    disk.make_folder("/store")
    others = OtherKinds("/store/consumequeue_ext", BATCHES, batch_topics={"B"})
    queues = FileQueues(disk, FOLDER, SMALL, others=others)
    queues.load(clean=clean)
    return queues


def only(queues: FileQueues) -> BatchQueue:
    """Return the queue B/0."""
    queue = queues.by_key.get(("B", 0))
    assert isinstance(queue, BatchQueue)
    return queue


def units(queue: BatchQueue) -> list[tuple[int, int, int]]:
    """Return first offset, place and count of every unit, read file by file."""
    found = []
    offset: int = queue.min_offset
    while offset < queue.max_offset:
        for first, place, _size, _code, count in queue.units(offset, 100):
            found.append((first, place, count))
            offset = first + count
    return found


def expected(entries: list[Entry]) -> list[tuple[int, int, int]]:
    """Return the same of entries."""
    return [(e.queue_offset, e.physical_offset, e.next_offset - e.queue_offset) for e in entries]


@pytest.fixture
def disk() -> SimulatedDisk:
    """Give an empty disk."""
    found = SimulatedDisk()
    found.make_folder("/store")
    return found


def test_units_have_rocketmqs_bytes(disk: SimulatedDisk) -> None:
    """Place, size, code, store time, first offset, count, −1, 0; zeros behind them."""
    queues = opened(disk)
    assert queues.put_round(batches(3, 1)) == 2
    data = read_file(disk, FIRST)
    assert len(data) == 46 * SMALL.batch_units_per_file
    assert data[46:92].hex() == (
        "0000000000000064" + "00000064" + "0000000000000007" + "00000000000003f2"
        "0000000000000003" + "0001" + "ffffffff" + "00000000"
    )
    assert data[92:] == bytes(len(data) - 92)
    queue = queues.by_key["B", 0]
    assert (queue.min_offset, queue.max_offset, queues.end) == (0, 4, 200)
    assert queues.last == (100, 100, 7)


def test_only_topics_of_batches_have_them(disk: SimulatedDisk) -> None:
    """A queue on the disk must be of its topic's kind; its folder makes a topic one."""
    queues = opened(disk)
    queues.put_round([*batches(2), entry(1, 0, 1, topic="T")])
    assert disk.exists(f"{FOLDER}/T/0")
    assert not disk.exists(f"{FOLDER}/B")
    others = OtherKinds("/store/consumequeue_ext", BATCHES)
    FileQueues(disk, FOLDER, SMALL, others=others).load()
    assert others.batch_topics == {"B"}
    wrong = OtherKinds("/store/consumequeue_ext", BATCHES, batch_topics={"T"})
    with pytest.raises(ForeignStore, match="consumequeue/T/0: expected"):
        FileQueues(disk, FOLDER, SMALL, others=wrong).load()


def test_a_message_is_found_in_its_batch(disk: SimulatedDisk) -> None:
    """Any of its offsets leads to the unit, over the borders of files."""
    queues = opened(disk)
    entries = batches(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9)
    queues.put_round(entries)
    queue = only(queues)
    for one in entries:
        for offset in range(one.queue_offset, one.next_offset):
            assert queue.first_of(offset) == one.queue_offset
            assert queue.unit(offset) == (one.physical_offset, 100, 7)
            assert queue.stored_at_ms(offset) == one.stored_at_ms
            assert queue.units(offset, 1)[0][0] == one.queue_offset
    assert units(queue) == expected(entries)
    assert len(list(queue.units(0, 100))) == SMALL.batch_units_per_file
    for outside in (queue.max_offset, queue.max_offset + 5):
        with pytest.raises(OffsetTooLarge):
            queue.units(outside, 1)
    assert queue.extended(-(1 << 63)) is None
    assert queue.after_unreadable(5) == 6


def test_what_is_there_is_not_put_again(disk: SimulatedDisk) -> None:
    """Putting any part of the log again changes nothing."""
    queues = opened(disk)
    entries = batches(2, 3, 1, 1, 4)
    queues.put_round(entries)
    before = read_file(disk, FIRST)
    assert queues.put_round(entries[1:]) == 0
    assert read_file(disk, FIRST) == before
    assert units(only(opened(disk))) == expected(entries)


def test_a_gap_is_an_error_unless_it_is_known(disk: SimulatedDisk) -> None:
    """What is lost has no unit; offsets in between lead to the unit before."""
    queues = opened(disk)
    queues.put_round(batches(2))
    with pytest.raises(CorruptRecord, match="B/0 ends at 2"):
        queues.put_round([entry(1, 5, 2)])
    assert queues.fill_to("B", 0, 5) == 3
    assert queues.fill_to("B", 0, 5) == queues.fill_to("B", 9, 5) == 0
    queues.put_round([entry(1, 5, 2)])
    assert units(only(opened(disk))) == [(0, 0, 2), (5, 100, 2)]
    assert only(queues).first_of(3) == 0


def test_a_queue_may_begin_anywhere(disk: SimulatedDisk) -> None:
    """Offsets say nothing about places."""
    queues = opened(disk)
    queues.put_round([entry(0, 1000, 2)])
    queue = only(opened(disk))
    assert (queue.min_offset, queue.max_offset) == (1000, 1002)
    with pytest.raises(OffsetTooSmall):
        queue.units(999, 1)
    queues.begin("B", 1, 50)
    assert (queues.by_key["B", 1].max_offset, queues.by_key["B", 1].end) == (50, -1)
    with pytest.raises(CorruptRecord):
        queues.put_round([Entry("B", 1, 51, 500, 100, 0, 0)])


@pytest.mark.parametrize("keep", [0, 1, 5, 6, 7, 12, 20])
def test_a_cut_takes_what_lies_behind(disk: SimulatedDisk, keep: int) -> None:
    """Units are zeroed and files deleted; put again all is as it was."""
    entries = batches(*range(1, 21))
    queues = opened(disk)
    queues.put_round(entries)
    names = disk.list(f"{BATCHES}/B/0")
    before = [read_file(disk, f"{BATCHES}/B/0/{name}") for name in names]
    lasts = queues.truncate(PhysicalOffset(100 * keep))
    if keep < 20:
        assert lasts["B", 0] == LastUnit(210, 1900)
    queue = only(queues)
    assert units(queue) == expected(entries[:keep])
    assert queue.end == (100 * keep if keep else -1)
    assert only(opened(disk)).max_offset == (entries[keep - 1].next_offset if keep else 0)
    queues.put_round(entries)
    assert before == [read_file(disk, f"{BATCHES}/B/0/{name}") for name in names]


def test_the_minimum_follows_the_log(disk: SimulatedDisk) -> None:
    """To the first batch that is left; none is left: minimum is maximum."""
    entries = batches(*[3] * 20)
    queues = opened(disk)
    queues.put_round(entries)
    for first, offset in [(0, 0), (1, 3), (1000, 30), (1001, 33)]:
        queues.correct_min(PhysicalOffset(first))
        assert queues.by_key["B", 0].min_offset == offset
    steps.run(queues.clean_steps(PhysicalOffset(1300)))
    assert queues.by_key["B", 0].min_offset == 39
    assert disk.list(f"{BATCHES}/B/0") == [f"{46 * n:020d}" for n in (12, 18)]
    assert units(only(queues)) == expected(entries[13:])
    steps.run(queues.clean_steps(PhysicalOffset(9999)))
    queue = only(queues)
    assert (queue.min_offset, queue.max_offset) == (60, 60)
    queues.put_round([entry(99, 60, 2)])
    assert only(opened(disk)).max_offset == 62


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (0, b"\xff"),  # a place below 0
        (8, b"\0\0\0\0"),  # no size
        (28, b"\xff"),  # an offset below 0
        (28, bytes(8)),  # an offset that was there before
        (36, b"\0\0"),  # no messages
        (0, bytes(8)),  # a place before the one before it
    ],
)
def test_a_unit_that_cannot_be_ends_the_queue(disk: SimulatedDisk, wrong: int, text: bytes) -> None:
    """It and what follows is not part of it, and is wiped."""
    queues = opened(disk)
    queues.put_round(batches(2, 2, 2, 2))
    file = disk.open(FIRST, write=True)
    file.write([text], 2 * 46 + wrong)
    after = opened(disk, clean=False)
    assert units(only(after)) == expected(batches(2, 2))
    after.wipe_behind_ends()
    assert not any(read_file(disk, FIRST)[92:])


def test_a_failed_round_may_be_put_again(disk: SimulatedDisk) -> None:
    """Whichever write failed."""
    entries = batches(*range(1, 21))
    for nth in range(1, 5):
        failing = SimulatedDisk()
        queues = opened(failing)
        failing.fail("write", nth, errno.ENOSPC)
        with pytest.raises(DiskFull):
            queues.put_round(entries)
        queues.put_round(entries)
        assert units(only(opened(failing))) == expected(entries)
    assert not disk.exists(BATCHES)


def test_what_was_flushed_survives(disk: SimulatedDisk) -> None:
    """Also what was only found after a kill; a removed queue is gone."""
    entries = batches(1, 2, 3)
    opened(disk).put_round(entries)
    opened(disk, clean=False).flush()
    after = opened(disk.crash(oldest))
    assert units(only(after)) == expected(entries)
    after.remove("B", 0)
    assert after.by_key.get(("B", 0)) is None


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 50), max_size=40),
    st.integers(0, 1 << 32),
    st.integers(0, 40),
    st.integers(1, 9),
)
def test_a_crash_and_another_put_give_the_same_queue(
    counts: list[int], seed: int, flushed: int, size: int
) -> None:
    """Whatever is lost: cut to what was flushed and put again, it is whole."""
    disk = SimulatedDisk()
    queues = opened(disk)
    entries = batches(*counts)
    queues.put_round(entries[:flushed])
    queues.flush()
    for first in range(flushed, len(entries), size):
        queues.put_round(entries[first : first + size])
    after = opened(disk.crash(lambda count: seed % count), clean=False)
    after.truncate(PhysicalOffset(100 * min(flushed, len(entries))))
    after.wipe_behind_ends()
    after.put_round(entries)
    if entries:
        assert units(only(after)) == expected(entries)
