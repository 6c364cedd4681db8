"""What is due at the end of a turn, and work that takes several."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.timers import FakeTimers

from sprocket.runtime.turns import QUEUE_WORK, SHARE_WORK, TURN_WORK, WORK_PER_SECOND, Turns
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


def test_time_counts_where_there_is_no_other_measure() -> None:
    """As much as work that takes as long."""
    turns = Turns(FakeTimers(FakeClock()), whole_work=WORK_PER_SECOND // 100)
    turns.count_time(0.009)
    assert not turns.is_over
    turns.count_time(0.001)
    assert turns.is_over


def test_work_is_driven_to_its_end_with_others_in_between() -> None:
    """At once as far as it goes, then a part in each turn."""
    timers = FakeTimers(FakeClock())
    turns = Turns(timers)
    said: list[str] = []

    def work(name: str, parts: int) -> Iterator[None]:
        for number in range(parts):
            said.append(f"{name}{number}")
            turns.work_left -= TURN_WORK
            yield

    turns.drive(work("a", 2), lambda: said.append("a is done"))
    turns.drive(work("b", 1), lambda: said.append("b is done"))
    turns.drive(iter(()), lambda: said.append("c is done"))
    assert said == ["a0", "b0", "c is done"]
    timers.turn()
    assert said[3:] == ["a1"]
    timers.drain()
    assert said[4:] == ["b is done", "a is done"]
    assert turns.is_idle


@pytest.mark.parametrize("is_late", [False, True])
def test_a_failure_of_driven_work_is_told_to_who_wants_it(is_late: bool) -> None:
    """Who does not want it has it raised; nobody is told that the work is done."""
    timers = FakeTimers(FakeClock())
    turns = Turns(timers)
    said: list[str] = []

    def work() -> Iterator[None]:
        if is_late:
            yield
        raise ValueError("planted")

    turns.drive(work(), lambda: said.append("done"), lambda error: said.append(str(error)))
    timers.drain()
    assert said == ["planted"]
    if not is_late:
        with pytest.raises(ValueError, match="planted"):
            turns.drive(work(), lambda: said.append("done"))


def test_a_coroutine_waits_for_the_end_of_work() -> None:
    """It has what the work raises; one that waits no more leaves the work alone."""

    async def main() -> list[str]:
        turns = Turns(asyncio.get_running_loop())
        said: list[str] = []

        def work(*, fails: bool) -> Iterator[None]:
            said.append("begun")
            yield
            said.append("ended")
            if fails:
                raise ValueError("planted")

        await turns.finish(work(fails=False))
        with pytest.raises(ValueError, match="planted"):
            await turns.finish(work(fails=True))
        for fails in (False, True):
            waiting = asyncio.ensure_future(turns.finish(work(fails=fails)))
            await asyncio.sleep(0)
            waiting.cancel()
            while not (waiting.done() and turns.is_idle):
                await asyncio.sleep(0)
            assert waiting.cancelled()
        return said

    assert asyncio.run(main()) == ["begun", "ended"] * 4


def test_a_coroutine_lets_all_have_their_turn() -> None:
    """Those that were marked before, and what they mark; one that is cancelled harms nobody."""

    async def main() -> list[str]:
        turns = Turns(asyncio.get_running_loop())
        said: list[str] = []
        turns.mark(Calls(lambda: turns.mark(Calls(lambda: said.append("queue")))))
        turns.mark_last(Calls(lambda: said.append("channel")))
        waiting = asyncio.ensure_future(turns.pass_turn())
        await turns.pass_turn()
        said.append("passed")
        waiting.cancel()
        await turns.pass_turn()
        assert turns.is_idle
        return said

    assert asyncio.run(main()) == ["queue", "channel", "passed"]
