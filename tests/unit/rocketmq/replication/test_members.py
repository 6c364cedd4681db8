"""Members of a set follow whoever is the master, by epochs, and nothing acknowledged is lost."""

import pytest
from tests.bulk_reads import received
from tests.members import Member
from tests.replicas import assert_same, log_of
from tests.stores import SMALL, clean, maintain

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.replication import PART_BYTES_MAX
from sprocket.rocketmq.codec.switch_frames import (
    EpochPart,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from sprocket.rocketmq.errors import EpochOver, LogsDiffer
from sprocket.rocketmq.model.epochs import NO_EPOCH, Epoch, Epochs
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.replication import EpochSpeech, MustCut
from sprocket.rocketmq.settings import RetentionSettings


def master_of(number: int, epoch: int, *sizes: int) -> Member:
    """Return a master with messages."""
    found = Member(number)
    found.open_master(epoch)
    found.add(*sizes)
    return found


def test_an_empty_slave_gets_all_and_its_epochs() -> None:
    """Several files, several epochs, each noted before a byte of it is reported."""
    master = master_of(1, 2, *[300] * 20)
    master.open_master(5)
    master.add(*[300] * 20)
    slave = Member(2)
    slave.follow(master)
    assert_same(master.store, slave.store)
    assert slave.epochs.epochs == master.epochs.epochs
    master.add(10, 700, 20)
    slave.take_all()
    assert_same(master.store, slave.store)
    (known,) = master.slaves.all
    assert (known.acknowledged, known.replica_id) == (master.store.written, slave.replica_id)
    assert slave.errors == []


@pytest.mark.parametrize("step", [331, pytest.param(1, marks=pytest.mark.nightly)])
def test_the_link_is_cut_at_every_byte(step: int) -> None:
    """Also at the ends of epochs and files; each time the next link goes on."""
    master = master_of(1, 1, 200, 1500, 1900)
    master.open_master(2)
    master.add(1, 1700, 300)
    master.open_master(3)
    master.add(2000, 1800)
    whole = Member(2)
    whole.link(master)
    size = 0
    while taken := whole.take(100):
        size += taken
    assert_same(master.store, whole.store)
    for place in range(0, size, step):
        slave = Member(3)
        slave.link(master)
        slave.take(place)
        slave.follow(master)
        assert_same(master.store, slave.store)
        assert slave.epochs.epochs == master.epochs.epochs
        assert (slave.errors, slave.cuts) == ([], [])
        slave.close()


def test_frames_name_epochs_and_never_span_two() -> None:
    """Nor two files; and what is confirmed."""
    master = master_of(1, 1, *[300] * 10)
    first_end = int(master.store.end)
    master.open_master(4)
    master.add(*[300] * 10)
    slave = Member(2)
    slave.link(master)
    reader = slave.log.reader()
    said, *parts = reader.receive(bytes(slave.wire.sent))
    assert isinstance(said, MasterHandshake)
    assert parts == []
    slave.take_all()
    slave.link(master)
    slave.take()
    master.add(5)
    found = [one for one in reader.receive(bytes(slave.wire.sent)) if isinstance(one, EpochPart)]
    assert {one.epoch for one in found} == {Epoch(4, first_end)}
    assert found[-1].confirmed == master.store.written
    fresh = Member(3)
    fresh.link(master)
    fresh.take(len(bytes(fresh.wire.sent)))
    sent = [bytes([one]) for one in fresh.wire.sent]  # byte by byte, so that no parts are joined
    found = [one for one in received(reader, sent) if isinstance(one, EpochPart)]
    assert b"".join(one.data for one in found) == log_of(master.store)
    for one in found:
        assert one.epoch == master.epochs.epochs.at(one.start)
        assert one.epoch == master.epochs.epochs.at(one.end - 1)
        segment = SMALL.log.segment_bytes
        assert one.start // segment == (one.end - 1) // segment
        assert len(one.data) <= 512


def test_a_log_that_goes_on_otherwise_is_cut() -> None:
    """What it has beyond the common point is saved, and it follows."""
    old = master_of(1, 1, 100, 100)
    new = Member(2)
    new.follow(old)
    common = int(old.store.end)
    old.add(700, 800, 900)
    tail = log_of(old.store)[common:]
    new.open_master(2)
    new.add(50)
    old.open_slave()
    old.link(new)
    old.take_all()
    assert old.log.must_cut == MustCut(at=common, epoch=1, master_epoch=2)
    assert old.asked == [old.log.must_cut]
    assert isinstance(old.errors[-1], LogsDiffer)
    old.follow(new)
    assert_same(new.store, old.store)
    (cut,) = old.cuts
    assert (cut.at, cut.end, cut.records) == (common, common + len(tail), 3)
    assert str(old.epochs.epochs) == f"[1@0, 2@{common}]"


def test_a_log_without_anything_in_common_is_emptied() -> None:
    """Its epochs are others, though their numbers are the same."""
    master = master_of(1, 2, 100)
    other = master_of(2, 1, 100, 100)
    other.open_slave()
    other.link(master)
    other.take_all()
    assert other.log.must_cut == MustCut(at=0, epoch=NO_EPOCH, master_epoch=2)
    other.follow(master)
    assert_same(master.store, other.store)


def test_an_epoch_without_bytes_is_forgotten() -> None:
    """A master that wrote nothing does not keep its log from following an older epoch's bytes."""
    first = master_of(1, 1, 100)
    second, third = Member(2), Member(3)
    second.follow(first)
    third.follow(first)
    first.add(100)
    third.take_all()
    second.open_master(2)  # and writes nothing
    third.open_master(3)
    third.add(100)
    second.open_slave()
    second.follow(third)
    assert_same(third.store, second.store)
    assert second.cuts == []
    assert second.epochs.epochs == third.epochs.epochs


def test_a_master_whose_epoch_is_over_is_not_followed() -> None:
    """Whoever has promised a later one says so: that one learns it; a link in use ends."""
    old, new, slave = master_of(1, 1, 100), Member(2), Member(3)
    new.follow(old)
    slave.follow(old)
    new.open_master(2)
    slave.follow(new)
    slave.link(old)
    assert old.outrun == [2]
    assert not slave.wire.is_open
    slave.link(new)
    slave.take_all()
    slave.epochs.promise(3)
    slave.flush()
    new.add(100)
    slave.take_all()
    assert isinstance(slave.errors[-1], EpochOver)
    old.open_slave()
    old.link(new)
    assert old.log.report() == b""


def test_a_promise_outlives_a_cut_and_a_crash() -> None:
    """So a member that lost its last epoch does not go back to one before it."""
    first = master_of(1, 1, 100)
    second = Member(2)
    second.follow(first)
    second.open_master(3)
    second.add(100)
    third = Member(3)
    third.follow(first)
    third.open_master(5)
    third.add(10)
    second.open_slave()
    second.link(third)
    second.take_all()
    second.cut()
    second.close(crash=lambda _: 0)
    second.open_slave()
    assert second.epochs.promised >= 3
    second.link(first)
    assert first.outrun[-1] >= 3


def test_a_report_of_another_epoch_ends_the_link() -> None:
    """And counts for nothing."""
    master = master_of(1, 4, 100)
    speech = EpochSpeech(master.store, master.epochs.epochs, lambda: 0, master.outrun.append)
    hello = SlaveHandshake(broker_id=2, incarnation=b"i" * 16, epoch=3, end=0)
    greeted = speech.hear(hello, None)
    assert (greeted.asked, greeted.end) == (-1, -1)
    for report, error, why in (
        (SlaveReport(0, 3), WireError, "for epoch 3, which is over"),
        (SlaveReport(0), WireError, "for epoch -1"),
        (SlaveReport(0, 5), EpochOver, "promised epoch 5"),
        (SlaveReport(1 << 40, 4), LogsDiffer, "ahead of this master"),
    ):
        with pytest.raises(error, match=why):
            speech.hear(report, greeted)
    assert master.outrun == [5]
    for frame, before, why in (
        (hello, greeted, "says twice who it is"),
        (SlaveReport(0, 4), None, "before it has said who it is"),
        (SlaveHandshake(broker_id=2), None, "one of RocketMQ's own"),
    ):
        with pytest.raises(WireError, match=why):
            speech.hear(frame, before)
    later = SlaveHandshake(broker_id=2, incarnation=b"i" * 16, epoch=9, end=0)
    with pytest.raises(EpochOver):
        speech.hear(later, None)


def greeted(slave: Member, *epochs: Epoch, end: int = 1000) -> None:
    """Have a slave hear a master's handshake."""
    slave.log.begin(lambda _: None)
    slave.log.take(MasterHandshake(end, epochs[-1].number, Epochs.of(epochs)))


def test_parts_that_do_not_fit_end_the_link() -> None:
    """In another epoch than the master has there, or one that begins in a record."""
    master = master_of(1, 1, 100)
    master.open_master(2)
    master.add(100)
    data = log_of(master.store)
    first, second = master.epochs.epochs.entries
    slave = Member(2)
    with pytest.raises(WireError, match="before its epochs"):
        slave.log.take(EpochPart(0, first, 0, data))
    greeted(slave, first, second, end=len(data))
    with pytest.raises(WireError, match="twice"):
        slave.log.take(MasterHandshake(0, 2, Epochs.of([second])))
    for wrong in (second, Epoch(3, 0), Epoch(1, 5)):
        with pytest.raises(WireError, match="as of epoch"):
            slave.log.take(EpochPart(0, wrong, 0, data[:10]))
    slave.log.take(EpochPart(0, first, 0, data[:50]))
    slave.log.take(EpochPart(50, first, 7, b""))
    assert slave.log.confirmed == 7
    with pytest.raises(WireError, match="expected the log from 50 on"):
        slave.log.take(EpochPart(60, first, 0, data[60:70]))
    broken = Member(3)
    greeted(broken, Epoch(1, 0), Epoch(2, 60), end=len(data))
    broken.log.take(EpochPart(0, Epoch(1, 0), 0, data[:60]))
    with pytest.raises(WireError, match="begins in a record"):
        broken.log.take(EpochPart(60, Epoch(2, 60), 0, data[60:90]))


def test_a_master_that_has_cleaned() -> None:
    """An empty slave begins where it does; one that lacks what is gone is told."""
    master, late = master_of(1, 1, 200), Member(3)
    late.follow(master)
    late.cut_link()
    master.add(*[700] * 12)
    master.clock.advance(1000 * 3600 * 1000)
    maintain(master.store)
    clean(master.store, RetentionSettings(keep_hours=1), at_once=True)
    assert master.store.first > 0
    slave = Member(2)
    slave.follow(master)
    assert_same(master.store, slave.store)
    slave.open_slave()
    master.add(100)
    slave.follow(master)
    assert_same(master.store, slave.store)
    late.link(master)
    late.take_all()
    assert isinstance(late.errors[-1], LogsDiffer)
    assert late.log.must_cut is None


def test_only_those_that_are_named_count() -> None:
    """Each of them, in the sync set or about to be; with none of them the master is enough."""
    master, one, two = master_of(1, 1, 100), Member(2), Member(3)
    assert master.slaves.confirmed == master.store.written
    one.follow(master)
    two.follow(master)
    before = int(master.store.written)
    master.require([one])
    master.add(100)
    two.take_all()
    assert master.slaves.confirmed == before
    assert [s.replica_id for s in master.slaves.in_sync()] == [one.replica_id]
    one.take_all()
    assert master.slaves.confirmed == master.store.written
    master.require([one, two])
    master.add(100)
    one.take_all()
    one.cut_link()
    two.take_all()
    assert master.slaves.confirmed < master.store.written
    one.link(master)
    one.take_all()
    assert master.slaves.confirmed == master.store.written


def test_nothing_is_confirmed_while_it_is_held_or_with_too_few() -> None:
    """Senders wait, or are told; consumers see nothing that another master could take back."""
    master, one = master_of(1, 1, 100), Member(2)
    one.follow(master)
    before = int(master.store.written)
    master.require([one], is_held=True)
    master.add(100)
    one.take_all()
    assert master.slaves.confirmed == before
    assert not master.slaves.are_missing
    master.require([one])
    assert master.slaves.confirmed == master.store.written
    master.require([one], count_min=3)
    assert master.slaves.are_missing
    master.add(100)
    one.take_all()
    assert master.slaves.confirmed < master.store.written < ANYWHERE
    master.store.dispatch()
    assert sum(bounds.max for _, _, bounds in master.store.queues()) == 2


def test_a_slave_shows_what_is_confirmed() -> None:
    """What the master may have to take back is in its log, and not in its queues."""
    master, one, two = master_of(1, 1, 100), Member(2), Member(3)
    one.follow(master)
    master.require([two])
    master.add(100)
    one.take_all()
    assert one.store.written == master.store.written
    one.store.dispatch()
    assert sum(bounds.max for _, _, bounds in one.store.queues()) == 1
    assert one.log.confirmed < PART_BYTES_MAX
