"""Timed messages come at the millisecond that they say, once, whatever happens to the clock."""

import errno
from collections import Counter
from pathlib import Path

import pytest
from tests.recorded import Recorded
from tests.stores import new
from tests.timed import ROLL_MS, Timing

from sprocket.base.disk import RealDisk, read_file
from sprocket.base.errors import DiskFull
from sprocket.rocketmq.broker.timers.due_deliveries import DELIVER_BATCH
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.timer import timer_counts
from sprocket.testing.clock import FakeClock

HOUR = 3_600_000


def waiting(timing: Timing) -> dict[str, int]:
    """Return how many messages wait, by topic."""
    return {topic: one.count for topic, one in timing.timed.counts().topics.items()}


def test_a_message_comes_at_its_millisecond() -> None:
    """Not a millisecond earlier, and not at the whole second."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=4321)
    timing.advance(4320)
    assert timing.bodies() == []
    timing.advance(20)
    (message,) = timing.messages()
    found = message.properties
    assert message.stored_at_ms - timing.acked[b"a"] in range(11)
    assert found["TIMER_OUT_MS"] == str(timing.acked[b"a"])
    assert int(found["TIMER_ENQUEUE_MS"]) % 1000 == 0
    assert int(found["TIMER_DEQUEUE_MS"]) in range(timing.acked[b"a"], timing.acked[b"a"] + 11)
    assert (found["REAL_TOPIC"], found["REAL_QID"], message.queue_id) == ("T", "1", 1)
    assert message.prepared_transaction_offset == timing.messages(TIMER_TOPIC, 0)[0].physical_offset


@pytest.mark.parametrize("delay_ms", [1, 15, 400, 999, 1000, 1001, 2500])
def test_short_waits_are_kept_as_well(delay_ms: int) -> None:
    """Into a slot that is being delivered."""
    timing = Timing().start()
    timing.advance(2300)
    timing.send(b"a", delay_ms=delay_ms)
    timing.advance(delay_ms + 40, step_ms=1)
    (message,) = timing.messages()
    assert message.stored_at_ms - timing.acked[b"a"] in range(31)


def test_messages_come_in_the_order_of_their_times() -> None:
    """Those of the same time in the order in which they were sent."""
    timing = Timing().start()
    delays = [3000, 2000, 2500, 2000, 3000, 60_000, 2999]
    for number, delay in enumerate(delays):
        timing.send(b"%d" % number, delay_ms=delay)
    timing.advance(61_000)
    order = sorted(range(len(delays)), key=lambda number: (delays[number], number))
    assert timing.bodies() == [b"%d" % number for number in order]


def test_what_is_due_already_comes_at_once() -> None:
    """As of a store that was down for long; it says so as RocketMQ's does."""
    timing = Timing()
    timing.send(b"a", b"b", delay_ms=5000)
    timing.clock.advance(100 * HOUR)
    timing.start()
    timing.advance(100)
    assert timing.bodies() == [b"a", b"b"]
    assert timing.messages()[0].properties["TIMER_ENQUEUE_MS"] == str(2**63 - 1)


def test_many_that_are_due_together_all_come() -> None:
    """In batches."""
    timing = Timing(segment_bytes=1 << 20).start()
    count = 10 * DELIVER_BATCH + 1
    timing.send(*[b"%d" % number for number in range(count)], delay_ms=1500)
    timing.advance(2000)
    assert timing.bodies() == [b"%d" % number for number in range(count)]


def test_what_waits_longer_than_the_window_comes_into_the_topic_again() -> None:
    """And to its place at its time."""
    timing = Timing().start()
    delays = [ROLL_MS, ROLL_MS + 1234, 3 * ROLL_MS + 77]
    for number, delay in enumerate(delays):
        timing.send(b"%d" % number, delay_ms=delay)
    timing.advance(3 * ROLL_MS + 200)
    assert [message.stored_body for message in timing.messages()] == [b"0", b"1", b"2"]
    for message, times in zip(timing.messages(), ("1", "1", "3"), strict=True):
        assert message.stored_at_ms - timing.acked[message.stored_body] in range(21)
        assert message.properties["TIMER_ROLL_TIMES"] == times


def test_a_message_that_is_taken_back_does_not_come() -> None:
    """Others of its slot do."""
    timing = Timing().start()
    for body in (b"a", b"b", b"c"):
        timing.send(body, delay_ms=5000)
    timing.send(b"d", delay_ms=300)
    timing.advance(100)
    timing.take_back(b"b", timing.acked[b"b"])
    timing.take_back(b"c", timing.acked[b"c"], topic="other")
    timing.take_back(b"d", timing.acked[b"d"])
    timing.advance(4000)
    timing.take_back(b"a", timing.acked[b"a"])
    timing.advance(2000)
    assert timing.bodies() == [b"c"]


def test_what_came_into_the_topic_again_before_a_kill_comes_once() -> None:
    """Its first message goes into a later slot at the next start than all that was delivered."""
    timing = Timing(roll_ms=6_000).start()
    timing.send(b"noted", delay_ms=500)
    timing.advance(3_000, step_ms=100)
    timing.send(b"a", delay_ms=14_500)
    for _ in range(62):
        timing.timers.advance(150)  # nothing is noted meanwhile
    again = timing.killed().start()
    assert len(again.messages(TIMER_TOPIC, 0)) == 3
    for number in range(12):
        again.send(b"%d" % number, delay_ms=300)
        again.advance(1_000, step_ms=100)
    assert again.seen()[b"a"] == 1


def test_no_copy_bears_a_time_before_that_of_its_delivery() -> None:
    """Also where the wall clock has gone a little slower than the monotonic one."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=1_503)
    timing.advance(1_490)
    timing.clock.step_wall(-7)
    timing.advance(60, step_ms=1)
    (found,) = timing.messages()
    assert 0 <= found.stored_at_ms - int(found.properties["TIMER_OUT_MS"]) <= 10


@pytest.mark.parametrize("step_ms", [-2 * HOUR, -7000, 7000, 2 * HOUR, 30 * 24 * HOUR])
def test_setting_the_clock_changes_no_wait(step_ms: int) -> None:
    """Of what waits, and of what comes after that."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=60_000)
    timing.send(b"b", delay_ms=20_500)
    timing.advance(1000)
    timing.clock.step_wall(step_ms)
    timing.send(b"c", delay_ms=10_250)
    timing.advance(10_240)
    assert timing.bodies() == []
    timing.advance(50)
    assert timing.bodies() == [b"c"]
    timing.advance(9_200)
    assert timing.bodies() == [b"c"]
    timing.advance(50)
    assert timing.bodies() == [b"c", b"b"]
    timing.advance(39_450)
    assert timing.bodies() == [b"c", b"b"]
    timing.advance(60)
    assert timing.bodies() == [b"c", b"b", b"a"]


def test_after_a_stop_all_goes_on() -> None:
    """Also in the middle of a slot: nothing comes twice."""
    timing = Timing().start()
    for delay in (2100, 2500, 2900, 70_000, 2 * ROLL_MS):
        timing.send(b"%d" % delay, delay_ms=delay)
    timing.advance(2600)
    again = Timing(timing.stop(), clock=timing.clock).start()
    again.advance(2 * ROLL_MS + 1000)
    assert again.bodies() == [b"2100", b"2500", b"2900", b"70000", b"%d" % (2 * ROLL_MS)]


def test_a_message_that_cannot_be_stored_is_tried_again() -> None:
    """When there is room, a second later."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=1000)
    timing.advance(500)

    def fail(call: str, path: str) -> None:
        if call == "write" and "commitlog" in path:
            raise DiskFull("no room")

    timing.disk.before = fail
    timing.advance(1000)
    assert timing.bodies() == []
    timing.disk.before = None
    timing.advance(2500)
    assert timing.bodies() == [b"a"]


def test_a_look_that_fails_is_not_the_last() -> None:
    """On a full disk the queues cannot follow the log; later all goes on by itself."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=1500)
    timing.advance(200)
    timing.disk.fail("make_folder", 1, errno.ENOSPC)
    timing.store.append(new("other"))
    timing.store.write()
    timing.advance(4000)
    assert timing.bodies() == [b"a"]
    assert timing.timers.pending_count == 1


def test_a_message_without_a_place_to_go_is_passed_over() -> None:
    """Those after it come."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=1000, REAL_TOPIC="")
    timing.send(b"b", delay_ms=1000, REAL_TOPIC=TIMER_TOPIC)
    timing.send(b"c", delay_ms=1000, TIMER_OUT_MS="soon")
    timing.send(b"d", delay_ms=1000)
    timing.advance(1100)
    assert timing.bodies() == [b"d"]


def test_what_waits_is_counted() -> None:
    """By topic; also after a restart or a kill, when some were delivered since it was noted."""
    timing = Timing().start()
    timing.send(b"a", b"b", delay_ms=1500)
    timing.send(b"c", delay_ms=9000)
    timing.send(b"d", delay_ms=20_000, topic="U")
    timing.advance(100)
    assert waiting(timing) == {"T": 3, "U": 1}
    assert timing.timed.figures()[:3] == (0, 0, 4)
    timing.take_back(b"d", timing.acked[b"d"], topic="U")
    timing.advance(1000)
    assert timing.timed.figures().come > 0
    killed = timing.killed().start()
    killed.advance(100)
    assert waiting(killed) == {"T": 3, "U": 1}
    timing.advance(450)
    assert waiting(timing) == {"T": 1, "U": 1}
    killed = timing.killed().start()
    killed.advance(2000)
    assert waiting(killed) == {"T": 1, "U": 1}
    again = Timing(killed.stop(), clock=killed.clock).start()
    assert waiting(again) == {"T": 1, "U": 1}
    again.advance(20_000)
    assert waiting(again) == {}
    assert again.bodies() == [b"a", b"b", b"c"]


def test_rocketmqs_counts_are_read(tmp_path: Path) -> None:
    """And written byte by byte."""
    path = StoreLayout(Recorded("06-delay-timer").unpack(tmp_path)).timer_counts
    before = read_file(RealDisk(), path)
    found = timer_counts.load(RealDisk(), path)
    assert found.topics["TimerA"].count == 54
    timer_counts.save(RealDisk(), path, found)
    assert read_file(RealDisk(), path) == before


def test_the_log_is_kept_while_messages_wait() -> None:
    """As long as one may wait in the wheel, and as the delivery is late; also after a restart."""
    timing = Timing(roll_ms=7_200_000).start()
    assert timing.timed.reserve_hours() == {}
    timing.send(b"a", delay_ms=60_000)
    assert timing.timed.reserve_hours() == {TIMER_TOPIC: 4}
    timing.advance(30_000)
    assert timing.timed.reserve_hours() == {TIMER_TOPIC: 4}
    again = Timing(timing.stop(), clock=timing.clock, roll_ms=7_200_000)
    timing.clock.advance(3 * HOUR)
    assert again.timed.reserve_hours() == {TIMER_TOPIC: 7}
    again.start().advance(3000)
    assert [message.stored_body for message in again.messages()] == [b"a"]
    assert again.timed.reserve_hours() == {}


def test_a_store_without_timed_messages_has_no_files() -> None:
    """And writes nothing."""
    timing = Timing().start()
    timing.advance(5000)
    timing.stop()
    assert not timing.disk.exists("/s/timerwheel")
    assert not timing.disk.exists("/s/config/timercheck")


def test_files_that_are_lost_are_made_again() -> None:
    """What was delivered does not come again: the log tells."""
    timing = Timing().start()
    timing.send(b"a", delay_ms=1000)
    timing.send(b"b", delay_ms=5000)
    timing.advance(2000)
    disk = timing.stop()
    disk.remove_tree("/s/timerlog")
    for path in ("/s/timerwheel", "/s/config/timercheck"):
        disk.remove(path)
    again = Timing(disk, clock=timing.clock).start()
    again.advance(4000)
    assert again.bodies() == [b"a", b"b"]


def test_what_was_taken_back_does_not_come_when_files_are_lost() -> None:
    """Also if the message that takes it back is read long after it."""
    timing = Timing().start()
    timing.send(b"x", delay_ms=2000)
    many = [b"%d" % number for number in range(300)]
    timing.send(*many, delay_ms=2000)
    timing.take_back(b"x", timing.acked[b"x"])
    timing.advance(3000)
    assert timing.seen() == Counter(many)
    disk = timing.stop()
    disk.remove_tree("/s/timerlog")
    disk.remove("/s/config/timercheck")
    again = Timing(disk, clock=timing.clock).start()
    again.advance(2000)
    assert again.seen() == Counter(many)
    assert again.timed.figures().waiting == 0


def test_what_comes_at_a_slow_restart_is_late_and_not_lost() -> None:
    """A downtime longer than the wheel goes."""
    timing = Timing(slots=256).start()
    for delay in (3000, 50_000, 100_000):
        timing.send(b"%d" % delay, delay_ms=delay)
    timing.advance(1000)
    disk = timing.stop()
    timing.clock.advance(300_000)
    again = Timing(disk, clock=timing.clock)
    again.send(b"new", delay_ms=2000)
    again.start()
    again.advance(3000)
    assert again.bodies() == [b"3000", b"50000", b"100000", b"new"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["06-delay-timer", "06b-timer-kill9"])
def test_ours_goes_on_with_rocketmqs_files(name: str) -> None:
    """What waited comes once, never before the time that it asked for."""
    theirs = Recorded(name)
    stopped_ms = theirs.expected["stopped_at_ms"]
    waiting, come = {}, set()
    for line in theirs.records:
        found = line["properties"]
        if line["topic"] == "TimerA":
            come.add(line["unique_key"])
        elif line["topic"] == TIMER_TOPIC:
            asked = int(found.get("TIMER_DELIVER_MS", 0))
            asked = asked or line["born_timestamp"] + int(
                found.get("TIMER_DELAY_MS") or 1000 * int(found["TIMER_DELAY_SEC"])
            )
            waiting[line["unique_key"]] = asked, found
    deleted = {found.get("TIMER_DEL_UNIQKEY", "+").split("+")[1] for _, found in waiting.values()}
    ours = Timing(
        theirs.in_memory(),
        folder="/store",
        geometry=theirs.geometry,
        clock=FakeClock(stopped_ms),
        slots=262_144,
        roll_ms=172_800_000,
    ).start()
    for _ in range(4 * 24 * 3):
        ours.timers.advance(20 * 60_000)
        ours.timed.keep()
    messages = [
        *ours.messages("TimerA", 0),
        *ours.messages("TimerA", 1),
        *ours.messages("TimerA", 2),
    ]
    times = {message.properties["UNIQ_KEY"]: message.stored_at_ms for message in messages}
    assert len(times) == len(messages)
    wanted = (
        set(waiting) - deleted - {k for k, (_, f) in waiting.items() if "TIMER_DEL_UNIQKEY" in f}
    )
    assert wanted <= set(times)
    for key in wanted - come:
        assert times[key] >= waiting[key][0]
