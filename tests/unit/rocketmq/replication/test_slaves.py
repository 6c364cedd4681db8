"""A master sends what slaves take, and says how far enough of them are."""

from typing import Any

import pytest
from tests.replicas import Master, Wire, log_of

from sprocket.base.errors import DiskBusy
from sprocket.rocketmq.codec.replication import FROM_FIRST, PartReader, ReplicaPart
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.replication import slaves


def join(master: Master, asked: int) -> Wire:
    """Have a slave come that asks for the log from a place on."""
    wire = Wire()
    say(master, wire, asked)
    return wire


def say(master: Master, wire: Wire, end: int) -> None:
    """Have a slave report."""
    peer: Any = wire
    master.slaves.on_frame(peer, end)
    master.timers.drain()


def parts(wire: Wire) -> list[ReplicaPart]:
    """Return what a slave was sent since the last call."""
    data = bytes(wire.sent)
    wire.sent.clear()
    found: list[ReplicaPart] = []
    while data:  # one by one, as a reader joins them
        size = 12 + int.from_bytes(data[8:12], "big")
        found += PartReader().receive(data[:size])
        data = data[size:]
    return found


def test_parts_lie_in_one_file_and_have_a_size_at_most() -> None:
    """Together they are the log, and each byte is sent once."""
    master = Master(part_bytes=512)
    master.add(*[700] * 12)
    wire = join(master, FROM_FIRST)
    found = parts(wire)
    assert b"".join(part.data for part in found) == log_of(master.store)
    segment = master.store.geometry.log.segment_bytes
    for part in found:
        assert 0 < len(part.data) <= 512
        assert part.start // segment == (part.end - 1) // segment
    master.add(1)
    (more,) = parts(wire)
    assert more.start == found[-1].end


def test_a_slave_that_does_not_take_more_is_sent_no_more() -> None:
    """It goes on where it was; others are not held up."""
    master = Master()
    master.add(100)
    slow, quick = join(master, FROM_FIRST), join(master, FROM_FIRST)
    first = parts(slow)
    parts(quick)
    slow.is_ready = False
    master.add(100)
    master.add(100)
    assert parts(slow) == []
    assert len(parts(quick)) == 2
    slow.become_ready()
    master.timers.drain()
    (rest,) = parts(slow)
    assert (rest.start, rest.end) == (first[-1].end, master.store.written)


def test_heartbeats_and_silence() -> None:
    """A slave hears something every five seconds, and is gone after twenty without a word."""
    master = Master()
    master.add(100)
    wire = join(master, FROM_FIRST)
    parts(wire)
    for _ in range(3):
        master.timers.advance(6000)
        assert parts(wire) == [ReplicaPart(int(master.store.written), b"")]
        say(master, wire, int(master.store.written))
    for _ in range(20):
        assert wire.is_open
        master.timers.advance(1000)
    master.timers.advance(1000)
    assert not wire.is_open
    assert master.slaves.all == []


def test_nobody_is_waited_for_in_an_asynchronous_pair() -> None:
    """Slaves or not."""
    master = Master()
    master.add(100)
    join(master, FROM_FIRST)
    assert master.slaves.confirmed == ANYWHERE
    assert not master.slaves.are_missing


def test_what_is_confirmed_ends_where_a_write_ended() -> None:
    """Slaves of RocketMQ report ends inside of records; consumers must not see half of one."""
    master = Master(role="sync_master")
    assert master.slaves.are_missing
    wire = join(master, FROM_FIRST)
    assert not master.slaves.are_missing
    ends = []
    for _ in range(3):
        master.add(100)
        ends.append(master.store.written)
    for reported, confirmed in (
        (ends[0] - 1, 0),
        (ends[0], ends[0]),
        (ends[2] - 1, ends[1]),
        (ends[2], ends[2]),
    ):
        say(master, wire, int(reported))
        assert master.slaves.confirmed == confirmed
        master.store.dispatch()
        assert sum(found.max for _, _, found in master.store.queues()) == [0, *ends].index(
            confirmed
        )


def test_enough_of_several_slaves() -> None:
    """Two of three machines, or all that follow closely."""
    for all_in_sync in (False, True):
        master = Master(role="sync_master", all_in_sync=all_in_sync)
        quick, slow = join(master, FROM_FIRST), join(master, FROM_FIRST)
        master.add(100)
        end = int(master.store.written)
        say(master, quick, end)
        assert master.slaves.confirmed == (0 if all_in_sync else end)
        say(master, slow, end)
        assert master.slaves.confirmed == end


def test_a_slave_that_is_far_behind_is_not_waited_for() -> None:
    """Consumers then see what the master has; what comes later is confirmed again."""
    master = Master(role="sync_master", gap_bytes_max=300)
    wire = join(master, FROM_FIRST)
    master.add(100)
    assert not master.slaves.are_missing
    master.add(100, 100)
    assert master.slaves.are_missing
    assert sum(found.max for _, _, found in master.store.queues()) == 3
    say(master, wire, int(master.store.written))
    assert not master.slaves.are_missing
    assert master.slaves.confirmed == master.store.written


def test_what_a_slave_says_first_is_not_believed() -> None:
    """It may have another log, and finds that out by what it is sent; then it goes."""
    master = Master(role="sync_master")
    master.add(100, 100)
    end = int(master.store.written)
    wire = join(master, end)
    assert (master.slaves.are_missing, master.slaves.confirmed) == (False, 0)
    say(master, wire, end)
    assert master.slaves.confirmed == end


def test_more_slaves_than_may_be_are_cut_off() -> None:
    """Those that are there stay; of ten thousand others nothing is left."""
    master = Master(slave_count_max=2)
    master.add(100)
    first, second = join(master, FROM_FIRST), join(master, FROM_FIRST)
    for _ in range(10_000):
        assert not join(master, FROM_FIRST).is_open
    assert (first.is_open, second.is_open, master.slaves.count) == (True, True, 2)
    first.close()
    assert join(master, FROM_FIRST).is_open


def test_a_slave_is_sent_so_much_in_a_second() -> None:
    """What is more waits, whatever comes; the clock of the machine does not matter."""
    master = Master(bytes_per_second_max=10_000)
    master.add(*[1500] * 25)
    size = int(master.store.written)
    wire = join(master, FROM_FIRST)
    got = len(log_of(master.store)[: sum(len(part.data) for part in parts(wire))])
    assert 0 < got <= 2000
    for second in range(1, 4):
        for _ in range(20):
            master.timers.advance(50)
        master.clock.step_wall(-3_600_000)
        got += sum(len(part.data) for part in parts(wire))
        assert second * 10_000 - 1000 <= got <= second * 10_000 + 3000
    while got < size:
        master.timers.advance(50)
        got += sum(len(part.data) for part in parts(wire))
    assert got == size
    assert wire.is_open


def test_a_busy_disk_is_asked_again() -> None:
    """The slave stays; what others wait for comes first."""
    master = Master()
    master.add(100)
    master.reads.busy = [DiskBusy("4 reads wait")] * 3
    wire = join(master, FROM_FIRST)
    assert parts(wire) == []
    for _ in range(3):
        master.timers.advance(50)
    assert sum(len(part.data) for part in parts(wire)) == master.store.written


def test_too_few_follow_closely() -> None:
    """The master itself counts; one that lacks too much does not."""
    master = Master(role="sync_master", in_sync_count_min=2, gap_bytes_max=300)
    assert master.slaves.are_too_few
    wire = join(master, FROM_FIRST)
    assert not master.slaves.are_too_few
    master.add(100, 100, 100)
    assert master.slaves.are_too_few
    say(master, wire, int(master.store.written))
    assert not master.slaves.are_too_few
    wire.close()
    assert master.slaves.are_too_few


def test_a_late_slave_gets_pieces_apart_while_somebody_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless it falls back; and all at once when nobody has sent anything for a while."""
    monkeypatch.setattr(slaves, "TURN_BYTES", 512)
    monkeypatch.setattr(slaves, "PACE_BYTES_MIN", 512)
    for falls_back in (False, True):
        master = Master(part_bytes=512)
        master.add(*[300] * 20)
        wire = join(master, FROM_FIRST)
        assert len(parts(wire)) == 1
        for _ in range(3):
            master.timers.advance(1)
            assert len(parts(wire)) == 1
        if falls_back:
            (slave,) = master.slaves.all
            slave.lacked = slave.lacked_before + 1
        else:
            master.clock.advance(60)
        master.timers.advance(1)
        assert master.slaves.all[0].place == master.store.written
