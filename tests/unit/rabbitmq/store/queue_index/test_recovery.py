"""Recovery of queues' indexes: a real RabbitMQ's folders, and each kind of damage by itself."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.disk import steps
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.queue_index import (
    IndexLimits,
    IndexRecovery,
    QueueIndex,
    RecoveredIndex,
)
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.testing.disk import SimulatedDisk

PATHS = VhostLayout("/v")
Q = PATHS.queue("Q")
ENTRY_COUNT = 4


def record(seq_id: int, *, is_persistent: bool = True, is_stored: bool = False) -> bytes:
    """Return a publish record."""
    term = b"" if is_stored else b"\x83 message %d d\0\4true" % seq_id
    return index.publish(seq_id, b"%16d" % seq_id, 0, 9, term, is_persistent=is_persistent)


def segment(relative_id: int, number: int = 0) -> bytes:
    """Return a publish record of a segment."""
    return index.segment_publish(relative_id, record(number * ENTRY_COUNT + relative_id))


def disk_with(journal: bytes = b"", **segments: bytes) -> SimulatedDisk:
    """Return a disk with a queue's files; segments are named `s0`, `s1` and so on."""
    disk = SimulatedDisk()
    disk.make_folder(Q.root)
    files = {Q.journal: journal} | {Q.segment(int(n[1:])): data for n, data in segments.items()}
    for path, data in files.items():
        file = disk.open(path, write=True, create=True)
        file.write([data], 0)
        file.sync()
    disk.sync_folder(Q.root)
    return disk


def recover(
    disk: SimulatedDisk, has_stored: Callable[[bytes], bool] = lambda _: True
) -> RecoveredIndex:
    """Recover the queue."""
    contents = read_log(disk, PATHS.root)
    recovery = IndexRecovery(disk, PATHS, ENTRY_COUNT, contents, ["Q"])
    return recovery.run(has_stored)["Q"]


def left(disk: SimulatedDisk, found: RecoveredIndex) -> list[int]:
    """Return the sequence ids that the queue has after recovery; all count as delivered."""
    log = WriteAheadLog(disk, PATHS.root, 1000, 99)
    mine = QueueIndex(disk, Q, log, Origin("Q"), IndexLimits(ENTRY_COUNT), found.segments)
    entries = [
        one
        for number in sorted(found.segments)
        for one in steps.run(mine.segment_steps(number)).between(0, 1 << 62)
    ]
    assert all(one.is_delivered for one in entries)
    assert len(entries) == found.message_count
    for one in entries:
        assert one.record == index.decode_publish(record(one.seq_id), 0, is_segment=False)
    return [one.seq_id for one in entries]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "01-journal-only",
        "02-segments-16384",
        "03-store-fanout",
        "04-dirty-kill9",
        "06-segments-2048-default",
        "07-journal-over-segment",
        "09-journal-count",
    ],
)
def test_what_a_real_one_left_is_all_there(case: str) -> None:
    """As many messages in each queue as a client got, nothing damaged, and again the same."""
    recorded = RecordedVhosts(case)
    disk = recorded.in_memory()
    for (vhost, name), messages in recorded.messages.items():
        paths = VhostLayout(f"/vhosts/{layout.vhost_folder(vhost)}")
        config = disk.contents()[paths.config]
        count = int(config.split(b"count, ")[1].split(b"}")[0])
        folder = layout.queue_folder(QueueName(vhost, name))
        for _ in range(2):
            contents = read_log(disk, paths.root)
            recovery = IndexRecovery(disk, paths, count, contents, [folder])
            stored = sum(1 for _ in recovery.stored_ids())
            found = recovery.run(lambda _: True)[folder]
            assert (found.message_count, found.lost_count) == (len(messages), 0)
            assert found.damage == []
            assert stored == sum(one["body_len"] + 150 >= 4096 for one in messages)
            assert disk.contents().get(paths.queue(folder).journal, b"") == b""


def test_a_journal_alone() -> None:
    """Its messages come into segments, as RabbitMQ writes them; what is acknowledged does not."""
    journal = record(0) + index.deliver(0) + record(5) + index.deliver(5) + record(6)
    disk = disk_with(journal + index.ack(0))
    found = recover(disk)
    assert left(disk, found) == [5, 6]
    expected = segment(2, 1) + index.segment_mark(2) + segment(1, 1) + index.segment_mark(1)
    assert disk.contents()[Q.segment(1)] == expected
    assert disk.contents().keys().isdisjoint([Q.segment(0), Q.journal])


def test_a_journal_that_repeats_its_segment() -> None:
    """As after a crash between the append and the cut: nothing is doubled, no ack forgotten."""
    both = segment(0) + index.segment_mark(0) + segment(1) + index.segment_mark(1)
    journal = record(0) + index.deliver(0) + record(1) + index.deliver(1) + index.ack(1)
    disk = disk_with(journal, s0=both)
    assert left(disk, recover(disk)) == [0]
    assert disk.contents()[Q.segment(0)] == both + index.segment_mark(1)


def test_transient_and_lost_messages_are_acknowledged() -> None:
    """The store is asked by the message's id."""
    transient = record(1, is_persistent=False)
    journal = record(0, is_stored=True) + transient + record(2, is_stored=True) + record(3)
    disk = disk_with(journal)
    found = recover(disk, lambda message_id: message_id.strip() == b"2")
    assert (found.message_count, found.lost_count) == (2, 1)


def test_a_segment_of_zeros_counts_as_missing() -> None:
    """RabbitMQ removes it, too."""
    disk = disk_with(record(1), s0=bytes(100), s7=bytes(9))
    found = recover(disk)
    assert (left(disk, found), found.damage) == ([1], [])
    assert disk.contents()[Q.segment(0)] == segment(1) + index.segment_mark(1)
    assert Q.segment(7) not in disk.contents()


def test_acks_for_what_is_gone_are_ignored() -> None:
    """And a deliver record alone, too, at which RabbitMQ would crash."""
    disk = disk_with(index.ack(0) + index.deliver(4) + index.ack(4) + index.deliver(8))
    found = recover(disk)
    assert (found.message_count, found.segments, found.damage) == (0, {}, [])


DAMAGED = {
    "a segment that ends inside a record": (
        b"",
        segment(0) + segment(1)[:-1],
        [0],
        "the last record goes on beyond the end",
    ),
    "a segment with nonsense behind": (
        b"",
        segment(0) + b"\x3f\xff",
        [0],
        "no record begins so: 2 bytes do not count",
    ),
    "an ack without a deliver": (
        record(0) + index.ack(0) + record(1),
        b"",
        [1],
        "taken for both",
    ),
    "published twice": (record(0) + record(0), b"", [0], "published again later"),
    "a relative id beyond the segment": (
        b"",
        segment(0) + segment(3) + index.segment_publish(9, record(9)),
        [0, 3],
        "a relative id of 4 or more",
    ),
    "a segment with a message acknowledged twice": (
        b"",
        segment(0) + segment(1) + 3 * index.segment_mark(1),
        [0],
        "acknowledged twice",
    ),
    "a journal that is cut": (record(0) + record(1)[:-1], b"", [0], "goes on beyond the end"),
    "zeros between the records of a journal": (
        record(0) + bytes(40) + record(1),
        b"",
        [0],
        "zeros follow",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_told_and_the_rest_is_there(what: str) -> None:
    """Nothing stops recovery; a second one finds nothing."""
    journal, data, expected, told = DAMAGED[what]
    disk = disk_with(journal, **({"s0": data} if data else {}))
    found = recover(disk)
    assert left(disk, found) == expected
    (damage,) = found.damage
    assert told in damage.what
    again = recover(disk)
    assert (left(disk, again), again.damage) == (expected, [])


JOURNAL = b"".join(record(n) + index.deliver(n) for n in range(8)) + index.ack(2) + index.ack(0)
SEGMENT = b"".join(segment(n) + index.segment_mark(n) for n in (3, 2, 1, 0)) + index.segment_mark(1)


ENDS = st.one_of(st.just(len(JOURNAL)), st.integers(0, len(JOURNAL)))
SEGMENT_ENDS = st.one_of(st.just(len(SEGMENT)), st.integers(0, len(SEGMENT)))


@given(ENDS, SEGMENT_ENDS, st.integers(0, 600))
def test_any_cut_leaves_what_is_whole(journal_end: int, segment_end: int, zeros: int) -> None:
    """A message is there if its publish record is whole in either file, and no ack is."""
    journal, data = JOURNAL[:journal_end], SEGMENT[:segment_end]
    if journal_end == len(JOURNAL):  # elsewhere they may make a record whole
        journal += bytes(zeros)
    if segment_end == len(SEGMENT):
        data += bytes(zeros)
    disk = disk_with(journal, **({"s0": data} if data else {}))
    expected = set()
    acked = set()
    for seq_id in range(8):
        if JOURNAL.index(record(seq_id)) + len(record(seq_id)) <= journal_end:
            expected.add(seq_id)
        if seq_id < 4:
            start = SEGMENT.index(segment(seq_id))
            if start + len(segment(seq_id)) <= segment_end:
                expected.add(seq_id)
    if journal_end >= len(JOURNAL) - 8:
        acked.add(2)
    if journal_end == len(JOURNAL):
        acked.add(0)
    if segment_end == len(SEGMENT):
        acked.add(1)
    assert left(disk, recover(disk)) == sorted(expected - acked)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_recovered_from(journal: bytes, data: bytes) -> None:
    """Without an error, and a second recovery finds the same."""
    disk = disk_with(journal, s0=data)
    first = recover(disk)
    again = recover(disk)
    assert (again.message_count, again.segments) == (first.message_count, first.segments)
