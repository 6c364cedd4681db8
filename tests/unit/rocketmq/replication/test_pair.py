"""A slave gets all of its master's log, whatever happens to the link, and nothing of another's."""

from random import Random

import pytest
from tests.replicas import Follower, Master, assert_same, log_of
from tests.stores import SMALL, clean, maintain

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFull, ForeignStore, WireError
from sprocket.rocketmq.codec.record_layout import MAGIC_BLANK
from sprocket.rocketmq.codec.replication import (
    FROM_FIRST,
    FROM_LAST_FILE,
    PartReader,
    ReplicaPart,
)
from sprocket.rocketmq.errors import LogsDiffer
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.log import Tail, log_stream

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


@pytest.mark.parametrize("columns_min", [1, 1 << 30])
def test_queues_and_index_are_made_of_what_came(
    columns_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As columns or record by record, in any pieces; nothing is read from the files for it."""
    monkeypatch.setattr(log_stream, "COLUMNS_MIN", columns_min)
    monkeypatch.setattr(log_stream, "KEPT_MIN", columns_min)
    monkeypatch.setattr(Tail, "_read_file", None)
    for piece in (100, 700, 5000, None):
        master, slave = Master(), Follower()
        master.add(*[200] * 40)
        slave.link(master)
        slave.take_all(master, piece)
        slave.store.dispatch_index()
        assert slave.store.dispatched == slave.store.written == master.store.written
        for number in range(40):
            found = slave.store.find("topic", f"M{number}", max_count=2).offsets
            assert found == master.store.find("topic", f"M{number}", max_count=2).offsets
            assert len(found) == 1
        slave.cut()
        assert_same(master.store, slave.store)


@pytest.mark.parametrize("step", [449, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_link_is_cut_at_every_byte(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a short history with the ends of two files; each time the next link goes on."""
    monkeypatch.setattr(log_stream, "COLUMNS_MIN", 1)
    monkeypatch.setattr(log_stream, "KEPT_MIN", 1)
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
        slave.cut()
        slave.store.close()


NIGHT = [pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 400)]


@pytest.mark.parametrize("seed", [*range(4), *NIGHT])
def test_cuts_and_restarts_at_random(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of the slave's process, with what it had not synced lost in any way."""
    monkeypatch.setattr(log_stream, "COLUMNS_MIN", 1 if seed % 2 else 1 << 30)
    monkeypatch.setattr(log_stream, "KEPT_MIN", 1 if seed % 2 else 1 << 30)
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
    master.slaves.on_frame(slave.wire, FROM_LAST_FILE)  # type: ignore[arg-type]
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


def delete(master: Master, topic: str) -> None:
    """Delete a topic of a master."""
    steps.run(master.store.delete_topic_steps(topic, lambda: None))


@pytest.mark.parametrize("piece", [None, 200])
def test_a_topic_that_was_deleted_and_made_again(piece: int | None) -> None:
    """Its queues begin anew at the slave, too, whether it comes late or was there."""
    master, early, late = Master(), Follower(), Follower()
    master.add(*[100] * 6)
    early.link(master)
    early.take_all(master)
    delete(master, "topic")
    assert list(early.store.queues()) != []
    master.add(*[200] * 4)
    delete(master, "topic")
    master.add(*[300] * 5)
    late.link(master)
    for slave in (early, late):
        slave.take_all(master, piece)
        assert_same(master.store, slave.store)
        assert [span.max for _, _, span in slave.store.queues()] == [1, 2, 2]
        assert slave.store.deletions.pending == ("topic",)
        slave.store.close()
        again = Follower(slave.disk)
        assert list(again.store.queues()) == list(master.store.queues())


def test_a_topic_made_again_is_found_after_a_kill() -> None:
    """Before its messages were put; two in a queue are one bit from none."""
    master, slave = Master(), Follower()
    master.add(*[100] * 6)
    slave.link(master)
    slave.take_all(master)
    delete(master, "topic")
    master.add(*[200] * 3)
    for part in PartReader().receive(bytes(slave.wire.sent)):
        slave.replica.take(part)
    slave.store.write()
    slave.store.sync()
    again = Follower(slave.disk.crash(lambda _: 1))
    assert again.store.written == master.store.written
    assert list(again.store.queues()) == list(master.store.queues())


def test_a_topic_that_is_gone_is_deleted_at_its_place() -> None:
    """Not if it has messages behind it, nor before all that lies before is here."""
    master, slave = Master(), Follower()
    master.add(*[100] * 6)
    end = int(master.store.written)
    slave.link(master)
    slave.take_all(master)
    before = list(slave.store.queues())
    for place in (master.store.last_record, end + 1):
        slave.store.delete_ended_topic("topic", place)
        assert list(slave.store.queues()) == before
    slave.store.delete_ended_topic("topic", end)
    assert list(slave.store.queues()) == []
    delete(master, "topic")
    master.add(100)
    slave.take_all(master)
    assert_same(master.store, slave.store)


def test_a_full_disk_at_a_slave() -> None:
    """Links end until there is room; then it goes on where it was."""
    master, slave = Master(), Follower()
    master.add(100)
    slave.link(master)
    slave.take_all(master)
    slave.disk.used = 0.96
    slave.store.heed_space(RetentionSettings())
    master.add(100)
    slave.take_all(master)
    assert [type(error) for error in slave.errors] == [DiskFull]
    slave.link(master)
    slave.take_all(master)
    assert [type(error) for error in slave.errors] == [DiskFull] * 2
    slave.disk.used = 0.5
    slave.store.heed_space(RetentionSettings())
    slave.link(master)
    slave.take_all(master)
    assert_same(master.store, slave.store)


def test_clocks_that_are_set_back() -> None:
    """Times in the log are the master's; what is due goes by another clock."""
    master, slave = Master(), Follower()
    master.add(100)
    slave.link(master)
    slave.take_all(master)
    master.clock.step_wall(-86_400_000)
    master.add(100, 100)
    slave.take_all(master)
    slave.cut()
    master.clock.step_wall(-86_400_000)
    slave.link(master)
    master.add(100)
    slave.take_all(master)
    assert_same(master.store, slave.store)
    assert slave.errors == []


def test_a_file_that_is_full_to_its_last_byte() -> None:
    """The blank that ends it has just its eight bytes; what follows is in the next file."""
    master, probe, slave = Master(), Master(), Follower()
    probe.add(1)
    beside = int(probe.store.written) - 1
    master.add(1000, SEGMENT - 8 - 1000 - 2 * beside, 100, 100)
    assert master.store.written == SEGMENT + 2 * (beside + 100)
    slave.link(master)
    slave.take_all(master)
    assert_same(master.store, slave.store)
    slave.store.close()
    assert_same(master.store, Follower(slave.disk).store)


def test_a_slave_with_a_single_record() -> None:
    """It lies at 0, which is not to be said: it would ask for the master's last file."""
    master, slave = Master(), Follower()
    master.add(100)
    slave.link(master)
    slave.take_all(master)
    slave.cut()
    master.add(*[700] * 12)
    assert slave.replica.begin(lambda _: None) == FROM_FIRST
    slave.link(master)
    slave.take_all(master)
    assert_same(master.store, slave.store)
    assert slave.errors == []
