"""A slave gets all of its master's log, whatever happens to the link, and nothing of another's."""

from random import Random

import pytest
from tests.replicas import Follower, Master, assert_same, log_of
from tests.stores import SMALL, clean, maintain

from sprocket.base.errors import ForeignStore, WireError
from sprocket.rocketmq.codec.record_layout import MAGIC_BLANK
from sprocket.rocketmq.codec.replication import FROM_FIRST, FROM_LAST_FILE, ReplicaPart
from sprocket.rocketmq.errors import LogsDiffer
from sprocket.rocketmq.settings import RetentionSettings

SEGMENT = SMALL.log.segment_bytes


def test_an_empty_slave_gets_all_and_what_comes() -> None:
    """Several files; queues are made by itself."""
    master, slave = Master(), Follower()
    master.add(*[300] * 30)
    slave.link(master)
    slave.take_all(master, 100)
    assert_same(master.store, slave.store)
    master.add(10, 700, 20)
    slave.take_all(master)
    assert_same(master.store, slave.store)
    (known,) = master.slaves.all
    assert known.acknowledged == master.store.written == slave.replica.safe_end
    assert slave.errors == []


@pytest.mark.parametrize("step", [449, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_link_is_cut_at_every_byte(step: int) -> None:
    """Of a short history with the ends of two files; each time the next link goes on."""
    master = Master()
    sizes = [200, 1500, 1900, 1, 1700, 300, 2000, 1800]
    master.add(*sizes)
    whole = Follower()
    whole.link(master)
    sent = len(whole.wire.sent)
    assert master.store.written > 2 * SEGMENT
    for place in range(0, sent, step):
        slave = Follower()
        slave.link(master)
        slave.take(master, place)
        at = slave.store.end
        slave.cut()
        slave.link(master)
        slave.take_all(master, 1000)
        assert_same(master.store, slave.store)
        assert slave.store.end >= at
        assert slave.errors == []
        slave.store.close()


NIGHT = [pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 400)]


@pytest.mark.parametrize("seed", [*range(4), *NIGHT])
def test_cuts_and_restarts_at_random(seed: int) -> None:
    """Also of the slave's process, with what it had not synced lost in any way."""
    random = Random(seed)
    master, slave = Master(), Follower()
    for _ in range(12):
        master.add(*[random.randrange(1, 900) for _ in range(random.randrange(5))])
        slave.link(master)
        for _ in range(random.randrange(12)):
            size = random.choice([1, 11, 12, 13, random.randrange(1, 2000)])
            slave.take(master, size, syncs=random.random() < 0.5)
        slave.cut()
        if random.random() < 0.5:
            reported, disk = slave.reported, slave.disk.crash(random.randrange)
            slave = Follower(disk)
            at = slave.store.written
            is_blank = log_of(master.store)[at + 4 : at + 8] == MAGIC_BLANK.to_bytes(4, "big")
            assert at >= reported or is_blank
            assert log_of(slave.store) == log_of(master.store)[: slave.store.written]
    slave.link(master)
    slave.take_all(master)
    assert_same(master.store, slave.store)
    assert slave.errors == []


def test_a_slave_of_another_log_is_told_and_not_changed() -> None:
    """The last record is compared, so one log that is as long is found out too."""
    master, other = Master(), Master()
    other.clock.advance(5)
    master.add(100, 100, 100)
    other.add(100, 100)
    slave = Follower()
    slave.link(other)
    slave.take_all(other)
    before = log_of(slave.store)
    slave.link(master)
    slave.take_all(master)
    (error,) = slave.errors
    assert isinstance(error, LogsDiffer)
    assert "another record" in str(error)
    assert log_of(slave.store) == before


def test_a_slave_that_is_ahead_is_told() -> None:
    """By a master of ours, that closes, and by one that only has nothing to send."""
    master, other = Master(), Master()
    master.add(100)
    other.add(100, 100, 100)
    slave = Follower()
    slave.link(other)
    slave.take_all(other)
    slave.link(master)
    assert not slave.wire.is_open
    asked = slave.replica.begin(lambda _: None)
    slave.replica.take(ReplicaPart(asked, b""))  # it may be slow
    with pytest.raises(LogsDiffer, match="its log ends before this one"):
        slave.replica.take(ReplicaPart(asked, b""))


def test_a_master_that_has_cleaned() -> None:
    """An empty slave begins where it does; one that lacks what is gone is told."""
    master, late = Master(), Follower()
    master.add(200)
    late.link(master)
    late.take_all(master)
    late.cut()
    master.add(*[700] * 12)
    master.clock.advance(1000 * 3600 * 1000)
    maintain(master.store)
    clean(master.store, RetentionSettings(keep_hours=1), at_once=True)
    assert master.store.first > SEGMENT
    late.link(master)
    late.take_all(master)
    assert [type(error) for error in late.errors] == [LogsDiffer]
    with pytest.raises(LogsDiffer, match="an empty folder gets all"):
        late.replica.begin(lambda _: None, int(master.store.first))
    for first in (None, int(master.store.first)):
        slave = Follower()
        slave.link(master, first)
        slave.take_all(master)
        assert_same(master.store, slave.store)
        slave.store.close()
        again = Follower(slave.disk)
        master.add(100)
        again.link(master, first)
        again.take_all(master)
        assert_same(master.store, again.store)
        assert again.errors == []


def test_a_master_that_begins_at_byte_1() -> None:
    """RocketMQ's sends just what was asked for; byte 0 is known."""
    master = Master()
    master.add(100, 200)
    data = log_of(master.store)
    slave = Follower()
    assert slave.replica.begin(lambda _: None) == FROM_FIRST
    slave.replica.take(ReplicaPart(FROM_FIRST, b""))  # a heartbeat
    slave.replica.take(ReplicaPart(FROM_FIRST, data[1:150]))
    slave.replica.take(ReplicaPart(150, data[150:]))
    slave.flush()
    assert_same(master.store, slave.store)


def test_a_slave_of_rocketmq_that_is_empty_gets_the_last_file() -> None:
    """As it asks, with 0."""
    master, slave = Master(), Follower()
    master.add(*[700] * 6)
    master.slaves.on_report(slave.wire, FROM_LAST_FILE)  # type: ignore[arg-type]
    assert slave.wire.sent[:8] == (master.store.last_file).to_bytes(8, "big")
    assert master.store.last_file > 0


def test_files_of_another_size_are_refused() -> None:
    """Nothing is taken."""
    slave = Follower()
    slave.replica.begin(lambda _: None, SEGMENT + 8)
    with pytest.raises(ForeignStore, match=r"log\.segment_bytes"):
        slave.replica.take(ReplicaPart(SEGMENT + 8, b"x" * 100))
    assert slave.store.end == 0


def test_parts_without_an_order_end_the_link() -> None:
    """One that is missing, one that comes again."""
    master, slave = Master(), Follower()
    master.add(100, 100)
    data = log_of(master.store)
    slave.replica.begin(lambda _: None)
    slave.replica.take(ReplicaPart(0, data[:50]))
    for start in (0, 49, 51):
        with pytest.raises(WireError, match="expected the log from 50 on"):
            slave.replica.take(ReplicaPart(start, data[start:]))


def test_what_cannot_be_stored_ends_the_link() -> None:
    """The next one begins at the end that there is."""
    master, slave = Master(), Follower()
    master.add(100)
    slave.link(master)
    slave.take_all(master)
    told: list[object] = []
    slave.replica.begin(told.append)
    slave.replica.take(ReplicaPart(0, log_of(master.store)))
    master.add(100, 100)
    data = log_of(master.store)[slave.store.end :]
    slave.disk.fail("write")
    slave.replica.take(ReplicaPart(int(slave.store.end), data))
    with pytest.raises(Exception, match="write"):
        slave.store.write()
    waiting, slave.waiting = slave.waiting, []
    for done in waiting:
        done(WireError("disk"))  # type: ignore[arg-type]
    with pytest.raises(WireError, match="disk"):
        slave.replica.take(ReplicaPart(0, b""))
    slave.link(master)
    slave.take_all(master)
    assert_same(master.store, slave.store)
