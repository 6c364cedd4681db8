"""What is due at the end of a turn, and reads that wait for each other."""

from collections.abc import Callable
from functools import partial

from tests.rabbit_queues import HeldReads
from tests.timers import FakeTimers

from sprocket.base.disk import Steps
from sprocket.rabbitmq.broker.queues import QUEUE_WORK, SHARE_WORK, TURN_WORK, FewReads, Turns
from sprocket.testing.clock import FakeClock


class Calls:
    """Does something when it has its turn."""

    def __init__(self, does: Callable[[], object]) -> None:
        self.does = does

    def turn(self) -> None:
        """Do it."""
        self.does()


def test_queues_come_before_those_who_tell_clients() -> None:
    """And what they cause comes in the same turn, up to a limit; nobody is called unasked."""
    timers = FakeTimers(FakeClock())
    said: list[str] = []
    turns = Turns(timers)

    def again() -> None:
        said.append("queue")
        if said.count("queue") < 6:
            turns.mark(Calls(again))

    turns.mark_last(Calls(lambda: said.append("channel")))
    turns.mark(Calls(again))
    timers.turn()
    assert said == [*["queue"] * 4, "channel"]
    timers.drain()
    assert said[5:] == ["queue", "queue"]


def test_a_turn_ends_when_enough_was_done() -> None:
    """The next one begins with the queues that are left; a channel comes when its queues have."""
    timers = FakeTimers(FakeClock())
    said: list[str] = []
    turns = Turns(timers)

    def work(name: str, count: int) -> None:
        said.append(name)
        turns.work_left -= count

    for number in range(5):
        turns.mark(Calls(partial(work, f"queue {number}", QUEUE_WORK // 2)))
    turns.mark_last(Calls(partial(work, "channel", 0)))
    turns.later(partial(work, "client", TURN_WORK))
    turns.later(partial(work, "other client", 1))
    timers.turn()
    assert said == ["queue 0", "queue 1", "client"]
    assert turns.is_over
    turns.mark(Calls(partial(work, "late", QUEUE_WORK)))
    turns.mark_last(Calls(partial(work, "late channel", 0)))
    timers.turn()
    assert said[3:] == ["queue 2", "queue 3", "other client"]
    timers.turn()
    assert said[6:] == ["queue 4", "late", "channel", "late channel"]
    assert turns.is_idle
    assert not turns.is_over


def test_nobody_who_was_cut_short_is_kept_waiting_by_another() -> None:
    """Who is cut short again gets behind all others, so that each has a share in turn."""
    timers = FakeTimers(FakeClock())
    said: list[str] = []
    turns = Turns(timers)

    def client(name: str, left: int) -> None:
        share = turns.share()
        while left and share.has_room():
            turns.work_left -= 1
            left -= 1
        said.append(f"{name} {left}")
        if left:
            turns.later(partial(client, name, left))

    turns.later(partial(client, "large", 3 * SHARE_WORK))
    turns.later(partial(client, "small", 1))
    timers.drain()
    assert [one.split()[0] for one in said] == ["large", "small", "large", "large"]


def test_what_is_done_without_anybody_marked_ends_a_turn_as_well() -> None:
    """And who looks at it then goes on in the next one."""
    timers = FakeTimers(FakeClock())
    turns = Turns(timers)
    turns.work_left -= TURN_WORK
    assert turns.is_over
    said: list[str] = []
    turns.later(lambda: said.append("on"))
    timers.turn()
    assert said == ["on"]
    assert not turns.is_over


def test_one_that_fails_takes_nobody_its_turn() -> None:
    """It is a bug, and said; others go on, and so does the next turn."""
    timers = FakeTimers(FakeClock())
    said: list[int] = []
    turns = Turns(timers)
    for does in (lambda: 1 // 0, lambda: said.append(1)):
        turns.mark(Calls(does))
    timers.drain()
    turns.mark(Calls(lambda: said.append(2)))
    timers.drain()
    assert said == [1, 2]


def test_a_few_reads_are_out_at_a_time() -> None:
    """Others begin when those have ended, in order, however many there are."""
    reads = HeldReads()
    reads.is_holding = True
    few = FewReads(reads, at_once=2)
    began: list[int] = []
    ended: list[BaseException | None] = []

    def work(number: int) -> Steps:
        began.append(number)
        yield from ()

    for number in range(5000):
        few.drive(work(number), ended.append)
    assert len(reads.held) == 2
    first, done = reads.held.pop(0)
    first.close()
    done(ValueError("failed"))
    assert len(reads.held) == 2
    reads.is_holding = False
    reads.go_on()
    assert began == list(range(1, 5000))
    assert len(ended) == 5000
    assert sum(error is not None for error in ended) == 1
