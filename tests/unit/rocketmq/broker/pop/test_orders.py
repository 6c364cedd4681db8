"""What groups have in order: the next messages come when it is settled, also after any kill."""

import random
from collections.abc import Sequence

import pytest

from sprocket.base.clock import LogClock
from sprocket.base.disk import read_file, replace_file
from sprocket.base.errors import DiskFull
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.pop import Orders, PopAttempt, PoppedQueue
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.errors import Refused
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

KEY = PoppedQueue("t", "g", 0)
OTHER = PoppedQueue("t", "g", 1)
NAMED = PoppedQueue("u", "g", 0)
FILE = "/s/config/consumerOrderInfo.json"
ONE = PopAttempt("one", 1_000)
TWO = PopAttempt("two", 1_000)
NAMELESS = PopAttempt(None, 1_000)


class Lab:
    """Both tables on a disk, with a clock."""

    def __init__(self, disk: SimulatedDisk | None = None, clock: FakeClock | None = None) -> None:
        if disk is None:
            disk = SimulatedDisk()
            disk.make_folder("/s/config")
        self.disk = disk
        self.clock = clock or FakeClock()
        place = Place(disk, "/s", self.clock)
        self.offsets = ConsumerOffsets(place)
        self.log_clock = LogClock(self.clock)
        self.orders = Orders(place, self.offsets, self.log_clock)

    def killed(self) -> "Lab":
        """Return what the next process opens after a kill now."""
        return Lab(self.disk.kill(), self.clock)

    def pop(self, offsets: Sequence[int], attempt: PopAttempt = ONE, key: PoppedQueue = KEY) -> int:
        """Pop messages now, and return the time."""
        self.clock.advance(1)
        at_ms = self.log_clock.now_ms()
        self.orders.add(key, offsets, at_ms, attempt)
        return at_ms

    def committed(self, key: PoppedQueue = KEY) -> int | None:
        """Return where the group goes on."""
        return self.offsets.get(key.group, key.topic, key.queue_id)


def test_the_next_come_when_all_is_settled() -> None:
    """Or when the time of what is not is over; the group goes on at the first that is open."""
    lab = Lab()
    assert lab.orders.blocked_ms(KEY, TWO) == 0
    at_ms = lab.pop([5, 6, 9])
    assert (lab.orders.blocked_ms(KEY, TWO), lab.orders.blocked_ms(OTHER, TWO)) == (1_000, 0)
    assert lab.orders.acknowledge(KEY, at_ms, 6)
    assert (lab.committed(), lab.orders.settled(KEY)) == (5, {6})
    lab.clock.advance(400)
    assert lab.orders.blocked_ms(KEY, TWO) == 600
    assert lab.orders.acknowledge(KEY, at_ms, 5)
    assert (lab.committed(), lab.orders.blocked_ms(KEY, TWO)) == (9, 600)
    assert lab.orders.acknowledge(KEY, at_ms, 9)
    assert (lab.committed(), lab.orders.blocked_ms(KEY, TWO)) == (10, 0)


def test_the_same_attempt_is_never_closed_out() -> None:
    """Its answer was lost; an attempt without a name is another one each time."""
    lab = Lab()
    lab.pop([1])
    assert lab.orders.blocked_ms(KEY, ONE) == 0
    lab.pop([1], NAMELESS)
    assert lab.orders.blocked_ms(KEY, NAMELESS) == 1_000


def test_what_is_settled_behind_an_open_one_stays_so() -> None:
    """However often that one comes again."""
    lab = Lab()
    at_ms = lab.pop([0, 1, 2])
    assert lab.orders.acknowledge(KEY, at_ms, 1)
    for _ in range(3):
        lab.clock.advance(2_000)
        assert lab.orders.settled(KEY) == {1}
        at_ms = lab.pop([0, 1, 2, 3], TWO)
    assert lab.orders.acknowledge(KEY, at_ms, 0)
    assert lab.committed() == 2


def test_how_often_a_message_came_is_counted() -> None:
    """Not if the same attempt asks again, nor of messages that are new."""
    lab = Lab()
    counts = []
    for attempt, offsets in ((ONE, [0, 1]), (ONE, [0, 1]), (TWO, [0, 1, 2]), (ONE, [0, 1, 2, 3])):
        pop = lab.orders.add(KEY, offsets, lab.log_clock.now_ms(), attempt)
        counts.append(pop.counts)
        lab.clock.advance(2_000)
    assert counts == [None, {}, {0: 1, 1: 1}, {0: 2, 1: 2, 2: 1}]


def test_what_is_not_of_the_last_pop_does_nothing() -> None:
    """An acknowledgement that is late or repeated; one of another message is refused."""
    lab = Lab()
    assert not lab.orders.acknowledge(KEY, 7, 3)
    first = lab.pop([0, 1])
    lab.clock.advance(2_000)
    second = lab.pop([0, 1], TWO)
    assert not lab.orders.acknowledge(KEY, first, 0)
    assert lab.committed() is None
    assert lab.orders.acknowledge(KEY, second, 0)
    assert not lab.orders.acknowledge(KEY, second, 0)
    assert lab.orders.acknowledge(KEY, second, 1)
    with pytest.raises(Refused, match="offset 2"):
        lab.orders.acknowledge(KEY, second, 2)


def test_when_a_message_comes_again_may_be_changed() -> None:
    """Later or sooner, of each message by itself, whatever becomes of the wall clock."""
    lab = Lab()
    at_ms = lab.pop([0, 1])
    lab.clock.advance(300)
    assert lab.orders.change_invisible(KEY, at_ms, 0, 5_000) == 5_300
    assert lab.orders.blocked_ms(KEY, TWO) == 5_000
    assert lab.orders.change_invisible(KEY, at_ms, 0, 10) == 310
    assert lab.orders.blocked_ms(KEY, TWO) == 700, "the other one"
    lab.clock.step_wall(3_600_000)
    assert lab.orders.blocked_ms(KEY, TWO) == 700
    assert lab.orders.change_invisible(KEY, at_ms, 1, 900) == 1_200
    lab.clock.step_wall(-7_200_000)
    assert lab.orders.blocked_ms(KEY, TWO) == 900
    assert lab.orders.change_invisible(KEY, at_ms - 1, 1, 9_000) is not None, "of another pop"
    assert lab.orders.blocked_ms(KEY, TWO) == 900
    assert lab.orders.acknowledge(KEY, at_ms, 0)
    assert lab.orders.change_invisible(KEY, at_ms, 0, 9_000) is None, "it is committed"


def test_a_queue_is_free_in_time_after_the_clock_was_set_back() -> None:
    """Whether messages were taken before that, or after."""
    lab = Lab()
    lab.pop([0, 1])
    lab.clock.step_wall(-3_600_000)
    lab.pop([0], key=OTHER)
    lab.clock.advance(900)
    assert lab.orders.take_free(9) == []
    lab.clock.advance(200)
    assert {*lab.orders.take_free(9)} == {KEY, OTHER}


def test_whoever_waits_is_told_when_a_queue_is_free() -> None:
    """Once, when the last open message comes again; not of what is settled."""
    lab = Lab()
    at_ms = lab.pop([0, 1])
    settled = lab.pop([0], key=OTHER)
    assert lab.orders.acknowledge(OTHER, settled, 0)
    lab.orders.change_invisible(KEY, at_ms, 1, 1_500)
    lab.clock.advance(1_100)
    assert lab.orders.take_free(9) == []
    lab.clock.advance(500)
    assert lab.orders.take_free(9) == [KEY]
    assert lab.orders.take_free(9) == []
    lab.orders.change_invisible(KEY, at_ms, 0, 5_000)
    lab.orders.change_invisible(KEY, at_ms, 0, 100)
    again = lab.killed()
    again.clock.advance(200)
    assert again.orders.take_free(9) == [KEY]
    assert again.orders.take_free(9) == []


def test_what_is_forgotten_closes_nothing() -> None:
    """By queue, topic or group, also after a kill."""
    lab = Lab()
    for key in (KEY, OTHER, NAMED):
        lab.pop([1], key=key)
    lab.orders.forget(KEY)
    lab.orders.forget_all(topic="u")
    for now in (lab, lab.killed()):
        assert [now.orders.blocked_ms(key, TWO) > 0 for key in (KEY, OTHER, NAMED)] == [
            *(False, True, False)
        ]
    lab.orders.forget_all(group="g")
    assert len(lab.orders) == 0


def test_a_full_disk_changes_nothing() -> None:
    """The pop is not noted, so that it must not be answered; nor an acknowledgement."""
    lab = Lab()
    at_ms = lab.pop([0, 1])
    lab.disk.is_full = True
    with pytest.raises(DiskFull):
        lab.pop([0, 1], TWO)
    for offset in (1, 0):
        with pytest.raises(DiskFull):
            lab.orders.acknowledge(KEY, at_ms, offset)
    assert lab.orders.blocked_ms(KEY, TWO) > 0


def test_what_nobody_goes_on_with_is_not_kept() -> None:
    """After a day, if it is settled."""
    lab = Lab()
    for key in (KEY, OTHER):
        lab.pop([0], key=key)
    assert lab.orders.acknowledge(KEY, lab.log_clock.now_ms() - 1, 0)
    lab.orders.table.flush()
    assert len(lab.orders) == 2
    lab.clock.advance(86_400_000)
    lab.pop([0], key=NAMED)
    lab.orders.table.flush()
    assert [key for key in (KEY, OTHER, NAMED) if lab.orders.get(key)] == [OTHER, NAMED]


def story(seed: int) -> None:
    """Pop and settle at random, with kills and flushes, beside a model."""
    draw = random.Random(seed)
    lab = Lab()
    next_offset = 0
    done: set[int] = set()
    given: list[int] = []
    popped_at_ms = 0
    for _ in range(draw.randrange(80)):
        match draw.randrange(8):
            case 0:
                lab = lab.killed()
            case 1:
                lab.orders.table.flush()
                lab.offsets.table.flush()
            case 2 | 3:
                if lab.orders.blocked_ms(KEY, TWO):
                    assert set(given) - done
                    lab.clock.advance(1_001)
                assert lab.orders.blocked_ms(KEY, TWO) == 0
                start = lab.committed() or 0
                assert start == next_offset
                read = range(start, start + draw.randint(1, 32))
                settled = lab.orders.settled(KEY)
                assert not done & (set(read) - set(settled)), "settled, and given again"
                given = [one for one in read if one not in settled] or given
                popped_at_ms = lab.pop(read, NAMELESS)
            case _ if given:
                offset = draw.choice(given)
                was_open = offset not in done
                assert lab.orders.acknowledge(KEY, popped_at_ms, offset) or not was_open
                done.add(offset)
                while next_offset in done:
                    next_offset += 1
    again = lab.killed()
    assert (again.committed() or 0) == next_offset
    assert not set(given) & done - set(again.orders.settled(KEY)) - set(range(next_offset))


@pytest.mark.parametrize("seed", range(60))
def test_nothing_that_is_settled_comes_again(seed: int) -> None:
    """After any story with kills; and nothing else is passed over."""
    story(seed)


RECORDED = b"""{
\t"table":{
\t\t"Popped@popping":{0:{
\t\t\t\t"a":"two",
\t\t\t\t"cm":1,
\t\t\t\t"i":600000,
\t\t\t\t"l":1796056971314,
\t\t\t\t"o":[
\t\t\t\t\t2,
\t\t\t\t\t1
\t\t\t\t],
\t\t\t\t"oc":{},
\t\t\t\t"popTime":1796056971277
\t\t\t}
\t\t}
\t}
}"""


def test_the_file_is_as_rocketmq_writes_it() -> None:
    """Recorded from 5.3.3: it is read, and written the same but for what is ours."""
    lab = Lab()
    replace_file(lab.disk, FILE, RECORDED)
    lab = Lab(lab.disk, lab.clock)
    pop = lab.orders.get(PoppedQueue("Popped", "popping", 0))
    assert pop is not None
    assert (pop.offsets, pop.open_offsets, pop.next_offset) == ([2, 3], [3], 3)
    lab.orders.table.flush()
    ours, theirs = (fastjson.read(data) for data in (read_file(lab.disk, FILE), RECORDED))
    assert ours["table"] == theirs["table"]
    assert list(ours["table"]["Popped@popping"][0]) == list(theirs["table"]["Popped@popping"][0])


def test_a_slave_has_the_same_in_order() -> None:
    """What groups have there, what they do not have any more, also after a kill."""
    master, slave = Lab(), Lab()
    at_ms = master.pop([5, 6, 7])
    master.pop([1], key=OTHER)
    slave.pop([9], key=NAMED)
    for _ in range(2):
        slave.orders.follow(list(master.orders.rows()))
        assert list(slave.orders.rows()) == list(master.orders.rows())
        assert list(slave.killed().orders.rows()) == list(master.orders.rows())
        master.orders.acknowledge(KEY, at_ms, 6)
        master.orders.forget(OTHER)
    assert len(slave.orders) == 1
    slave.orders.follow(list(master.orders.rows()))
    slave.orders.acknowledge(KEY, at_ms, 5)
    assert slave.committed() == 7, "what was acknowledged there counts here"
