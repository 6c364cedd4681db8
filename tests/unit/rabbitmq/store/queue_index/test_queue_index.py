"""One queue's index: slots, reading at any moment, flushes that fail, clean stops."""

import errno
from itertools import count, product
from random import Random

import pytest

from sprocket.base.disk import steps
from sprocket.base.errors import CorruptRecord, StoreError
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.queue_index import (
    IndexLimits,
    IndexRecovery,
    KnownSegment,
    QueueIndex,
    close_steps,
    flush_steps,
    sums,
)
from sprocket.rabbitmq.store.queue_index.slots import TRANSITIONS, Slot, SlotEvent, after
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.testing.disk import SimulatedDisk

PATHS = VhostLayout("/v")
Q = PATHS.queue("Q")
LIMITS = IndexLimits(entry_count=4, journal_records_max=10)


def record(seq_id: int) -> bytes:
    """Return a publish record."""
    return index.publish(seq_id, b"%16d" % seq_id, 0, 9, b"\x83 d\0\4true", is_persistent=True)


class Life:
    """An index and its log."""

    def __init__(
        self, disk: SimulatedDisk, segments: dict[int, KnownSegment] | None = None
    ) -> None:
        disk.make_folder(PATHS.queues)
        self.disk = disk
        self.log = WriteAheadLog(disk, PATHS.root, 1 << 12)
        self.index = QueueIndex(disk, Q, self.log, Origin("Q"), LIMITS, segments or {})

    def publish(self, *seq_ids: int) -> None:
        """Publish messages one by one."""
        for seq_id in seq_ids:
            self.index.publish_all(seq_id, [record(seq_id)])

    def read(self, start: int = 0, end: int = 100) -> list[int]:
        """Return the sequence ids that the queue has."""
        found: list[int] = []
        for number in self.index.numbers(start, end):
            some = steps.run(self.index.segment_steps(number))
            found += [one.seq_id for one in some.between(start, end)]
        return found

    def flush(self) -> None:
        """Flush."""
        steps.run(flush_steps(self.log, [self.index]))


def test_slots_change_as_the_table_says() -> None:
    """Any other pair is an error that names the message."""
    for slot, event in product(Slot, SlotEvent):
        if (slot, event) in TRANSITIONS:
            assert after(slot, event, 7) == TRANSITIONS[slot, event]
        else:
            with pytest.raises(CorruptRecord, match=f"message 7: {event.name} cannot"):
                after(slot, event, 7)


def test_many_are_published_as_each_by_itself() -> None:
    """Over several segments: the same log, the same slots, the same counts."""
    one, many = Life(SimulatedDisk()), Life(SimulatedDisk())
    for first, end in ((2, 5), (5, 6), (9, 18)):
        one.publish(*range(first, end))
        many.index.publish_all(first, [record(seq_id) for seq_id in range(first, end)])
    for life in (one, many):
        life.index.ack([3, 5, 17])
        with pytest.raises(CorruptRecord, match="message 4: ACK cannot follow ACKED_ONLY"):
            life.index.ack([4, 4, 4, 9])
        life.log.commit()
    assert many.read() == one.read() == [2, *range(9, 17)]
    assert many.index.unacked == one.index.unacked
    assert (many.index.dirty_count, many.index.journal_bytes) == (
        one.index.dirty_count,
        one.index.journal_bytes,
    )
    tails = [read_log(life.disk, PATHS.root).tails["Q"].records for life in (one, many)]
    assert b"".join(tails[0]) == b"".join(tails[1])
    pairs = [record(seq_id) + index.deliver(seq_id) for seq_id in (2, 3, 4, 5, *range(9, 18))]
    assert b"".join(tails[0]).startswith(b"".join(pairs))


def test_messages_are_there_at_each_step_of_a_flush() -> None:
    """From the slots, from those that are being flushed, from the segments."""
    life = Life(SimulatedDisk())
    life.publish(0, 1, 2, 5)
    life.flush()
    life.publish(6, 9)
    life.index.ack([1, 6])
    flushing = flush_steps(life.log, [life.index])
    call = next(flushing)
    expected = [0, 2, 5, 9]
    while True:
        assert life.read() == expected
        if 10 not in expected:
            life.publish(10)
            life.index.ack([9])
            expected = [0, 2, 5, 10]
        try:
            call = flushing.send(call())
        except StopIteration:
            break
    assert life.read() == expected
    assert life.read(1, 6) == [2, 5]
    assert life.index.unacked == {0: 2, 1: 1, 2: 1}
    life.flush()
    assert life.read() == expected


def test_a_flush_is_due_by_the_count_of_records() -> None:
    """Those that cancel out count, too."""
    life = Life(SimulatedDisk())
    life.publish(0, 1, 2)
    life.index.ack([0, 1, 2])
    life.publish(3)
    assert (life.index.dirty_count, life.index.is_flush_due) == (11, True)
    life.flush()
    assert (life.index.dirty_count, life.index.is_flush_due, life.index.journal_bytes) == (
        0,
        False,
        0,
    )


def test_a_segment_without_messages_goes() -> None:
    """At the next flush, wherever it is."""
    life = Life(SimulatedDisk())
    life.publish(*range(12))
    life.flush()
    life.index.ack([4, 5, 6, 7])
    life.flush()
    assert sorted(life.index.unacked) == [0, 2]
    assert life.disk.list(Q.root) == ["0.idx", "0.sums", "2.idx", "2.sums"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_whatever_call_fails_a_flush_loses_nothing(code: int) -> None:
    """Tried again it goes on; only a failed sync of the log ends all."""
    for nth in count(1):
        disk = SimulatedDisk()
        life = Life(disk)
        life.publish(0, 1, 4)
        life.flush()
        life.publish(2, 5)
        life.index.ack([0, 1, 2, 5])
        life.publish(8)
        disk.fail("any", nth, code)
        before = disk.calls["any"]
        try:
            life.flush()
        except StoreError:
            if life.log.failure is None:
                assert life.index.is_flushing
                assert life.read() == [4, 8]
                life.flush()
        else:
            if disk.calls["any"] - before < nth:  # what failed else, the next batch of the log says
                assert nth >= 10
                break
        if life.log.failure is None:
            assert life.read() == [4, 8]
            assert disk.list(Q.root) == ["1.idx", "1.sums", "2.idx", "2.sums"]
        found = IndexRecovery(
            disk, PATHS, LIMITS.entry_count, read_log(disk, PATHS.root), ["Q"]
        ).run(lambda _: False)["Q"]
        assert Life(disk, found.segments).read() == [4, 8]


def test_a_clean_stop_and_the_next_start() -> None:
    """The journal has what was not flushed; the first flush after that empties it."""
    life = Life(SimulatedDisk())
    life.publish(0, 1)
    life.flush()
    life.publish(2)
    life.index.ack([0])
    steps.run(close_steps(life.log, PATHS, [life.index]))
    journal = life.disk.contents()[Q.journal]
    assert journal == record(2) + index.deliver(2) + index.ack(0)
    unacked = life.index.unacked
    size = life.disk.size(Q.segment(0))
    life = Life(life.disk.crash(lambda _: 0), {0: KnownSegment(unacked[0], size)})
    life.index.origin.journal_bytes = len(journal)
    life.index.replay_journal(journal)
    assert (life.read(), life.index.dirty_count) == ([1, 2], 3)
    life.index.ack([1])
    steps.run(close_steps(life.log, PATHS, [life.index]))
    assert life.disk.contents()[Q.journal] == journal + index.ack(1)
    life = Life(life.disk, {0: KnownSegment(1, size)})
    life.index.origin.journal_bytes = len(journal + index.ack(1))
    life.index.replay_journal(journal + index.ack(1))
    life.flush()
    assert (Q.journal in life.disk.contents(), life.read()) == (False, [2])


def test_only_segments_with_what_is_asked_for_are_read() -> None:
    """Whether there are few of them or many."""
    life = Life(SimulatedDisk())
    life.publish(0, 5, 9, 13, 17, 21)
    for start, end, expected in ((4, 12, [1, 2]), (5, 13, [1, 2, 3]), (0, 4, [0]), (3, 5, [0, 1])):
        assert life.index.numbers(start, end) == expected
    assert life.index.numbers(8, 4000) == [2, 3, 4, 5]
    few = Life(SimulatedDisk())
    few.publish(0, 9)
    assert few.index.numbers(0, 8) == [0]
    assert few.index.numbers(4, 9) == [2]


def test_a_stop_that_failed_may_be_tried_again() -> None:
    """After more has happened; the journal has what the last one found, and no more."""
    for nth in count(1):
        disk = SimulatedDisk()
        life = Life(disk)
        life.publish(0, 1)
        life.flush()
        life.publish(2, 3, 5)
        before = disk.calls["any"]
        disk.fail("any", nth)
        try:
            steps.run(close_steps(life.log, PATHS, [life.index]))
        except StoreError:
            if life.log.failure is not None:
                continue
        else:
            if disk.calls["any"] - before < nth:
                break
            continue  # a stop can do without that call
        life.flush()
        life.publish(6)
        steps.run(close_steps(life.log, PATHS, [life.index]))
        journal = disk.contents()[Q.journal]
        assert journal == record(6) + index.deliver(6)
        checked = index.check_index(journal, sums.read(disk, Q.journal), is_segment=False)
        assert (checked.findings, checked.damaged, checked.covered) == ((), (), len(journal))
    assert nth > 8


def test_a_journal_that_is_cut_was_no_clean_stop() -> None:
    """So who opens it recovers."""
    life = Life(SimulatedDisk())
    with pytest.raises(CorruptRecord, match="goes on beyond the end"):
        life.index.replay_journal(record(0)[:-1])


def test_a_queue_that_is_removed_begins_anew() -> None:
    """Nothing of it comes back, though the log has it."""
    life = Life(SimulatedDisk())
    life.publish(0, 1, 2)
    life.flush()
    life.publish(3)
    life.index.forget()
    life.flush()
    assert life.index.is_empty
    life.index.remove_folder()
    assert not life.disk.exists(Q.root)
    life.publish(0)
    life.log.commit()
    found = IndexRecovery(
        life.disk, PATHS, LIMITS.entry_count, read_log(life.disk, PATHS.root), ["Q"]
    ).run(lambda _: False)["Q"]
    assert found.message_count == 1


def test_a_dead_segment_goes_before_the_journal_that_has_its_acks() -> None:
    """Wherever a crash comes in the first flush after a clean stop, no message comes back."""
    for nth in count(1):
        life = Life(SimulatedDisk())
        life.publish(0, 1, 4)
        life.flush()
        life.index.ack([0, 1])
        steps.run(close_steps(life.log, PATHS, [life.index]))
        known = {
            0: KnownSegment(0, life.disk.size(Q.segment(0))),
            1: KnownSegment(1, life.disk.size(Q.segment(1))),
        }
        life = Life(life.disk, known)
        life.index.origin.journal_bytes = life.disk.size(Q.journal)
        life.index.replay_journal(life.disk.contents()[Q.journal])
        life.publish(5)
        life.disk.fail("any", nth)
        before = life.disk.calls["any"]
        try:
            life.flush()
        except StoreError:
            is_done = False
        else:
            is_done = life.disk.calls["any"] - before < nth
        ends = [life.disk.crash(Random(seed).randrange) for seed in range(6)]
        for disk in (life.disk.kill(), *ends):
            found = IndexRecovery(
                disk, PATHS, LIMITS.entry_count, read_log(disk, PATHS.root), ["Q"]
            ).run(lambda _: False)["Q"]
            assert set(Life(disk, found.segments).read()) <= {4, 5}
        if is_done:
            break
    assert nth > 8
