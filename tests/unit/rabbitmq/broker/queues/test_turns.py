"""What is due at the end of a turn, and reads that wait for each other."""

from collections.abc import Callable

from tests.rabbit_queues import HeldReads
from tests.timers import FakeTimers

from sprocket.base.disk import Steps
from sprocket.rabbitmq.broker.queues import FewReads, Turns
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
    turns = Turns(timers, lambda: said.append("ended"))

    def again() -> None:
        said.append("queue")
        if said.count("queue") < 6:
            turns.mark(Calls(again))

    turns.mark_last(Calls(lambda: said.append("channel")))
    turns.mark(Calls(again))
    timers.turn()
    assert said == [*["queue"] * 4, "channel", "ended"]
    timers.drain()
    assert said[6:] == ["queue", "queue", "ended"]


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
