"""Timed messages survive: each comes once, never early, whenever process or power goes.

Messages wait, come, are put back and taken back, on a simulated disk. Before each call that changes
the disk, copies of it are taken as a kill would leave it, and as a loss of power may: any part of
what was not synced. Each copy is opened, and run until nothing waits any more. Then

1. what was answered has come, unless it was taken back;
2. nothing has come before its time;
3. nothing has come twice, as far as the log knows.
"""

import os
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests import repetition
from tests.crash.test_transactions import CHANGES, a_kill, every_loss
from tests.stores import maintain
from tests.timed import Timing

from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
ROLL_MS = 6_000
LONGEST_MS = 15_000


class State:
    """What a crash left, and what was known then."""

    def __init__(self, disk: SimulatedDisk, life: "Life") -> None:
        self.disk = disk
        self.flush = life.flush
        self.now_ms = life.timing.clock.now_ms()
        self.acked = dict(life.timing.acked)
        self.due = dict(life.due)
        self.taken_back = set(life.taken_back)

    def check(self, down_ms: int = 0) -> None:
        """Open it, let everything come, and compare."""
        timing = Timing(
            self.disk, clock=FakeClock(self.now_ms + down_ms), flush=self.flush, roll_ms=ROLL_MS
        ).start()
        timing.advance(LONGEST_MS + 2000, step_ms=100)
        seen = timing.seen()
        waited = {message.stored_body for message in timing.messages(TIMER_TOPIC, 0)}
        assert {body: count for body, count in seen.items() if count > 1} == {}
        if self.flush == "sync":
            assert set(self.acked) - waited == set()
        users = {body for body in waited if not body.startswith(b"-")}
        assert users - self.taken_back - set(seen) == set()
        for message in timing.messages():
            assert message.stored_at_ms >= self.due[message.stored_body]
        again = Timing(timing.stop(), clock=timing.clock, roll_ms=ROLL_MS).start()
        again.advance(2000, step_ms=100)
        assert again.seen() == seen


class Life:
    """One process, and copies of its disk."""

    def __init__(self, flush: str, crashes: Callable[[SimulatedDisk], Iterator[SimulatedDisk]]):
        self.flush = flush
        self.crashes = crashes
        self.timing = Timing(flush=flush, roll_ms=ROLL_MS).start()
        self.due: dict[bytes, int] = {}
        self.taken_back: set[bytes] = set()
        self.states: list[State] = []

    def watch(self) -> None:
        """Take copies from now on."""
        self.timing.disk.before = self._before

    def _before(self, call: str, _path: str) -> None:
        if call not in CHANGES:
            return
        before, self.timing.disk.before = self.timing.disk.before, None
        for left in self.crashes(self.timing.disk):
            self.states.append(State(left, self))
        self.timing.disk.before = before

    def send(self, body: bytes, delay_ms: int) -> None:
        """Send a message that is to come after some time."""
        self.due[body] = self.timing.store.log_clock.now_ms() + delay_ms
        self.timing.send(body, delay_ms=delay_ms)

    def take_back(self, body: bytes) -> None:
        """Take it back."""
        self.taken_back.add(body)
        self.timing.take_back(body, self.due[body])

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.timing.advance(ms, step_ms=50)


def _comes(life: Life) -> None:
    life.watch()
    life.send(b"a", 400)
    life.send(b"b", 1700)
    life.advance(1000)


def _is_delivered(life: Life) -> None:
    for number, delay in enumerate((1600, 1601, 1700, 1900, 2300)):
        life.send(b"%d" % number, delay)
    life.advance(1400)
    life.watch()
    life.advance(800)


def _is_noted(life: Life) -> None:
    for number, delay in enumerate((1900, 1990, 2050)):
        life.send(b"%d" % number, delay)
    life.advance(1900)
    life.watch()
    life.advance(1300)


def _comes_again(life: Life) -> None:
    life.send(b"a", ROLL_MS + 1500)
    life.send(b"b", 2 * ROLL_MS + 1500)
    life.advance(2800)
    life.watch()
    life.advance(400)


def _is_taken_back(life: Life) -> None:
    life.send(b"a", 3500)
    life.send(b"b", 3500)
    life.watch()
    life.take_back(b"a")
    life.advance(200)


def _stops(life: Life) -> None:
    for number, delay in enumerate((1600, 1900, 3000)):
        life.send(b"%d" % number, delay)
    life.advance(1700)
    life.watch()
    life.timing.stop()


STEPS = [_comes, _is_delivered, _is_noted, _comes_again, _is_taken_back, _stops]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_kill_at_each_call(step: Callable[[Life], None], flush: str) -> None:
    """Of each step."""
    life = Life(flush, a_kill)
    step(life)
    assert life.states
    for state in life.states:
        state.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", repetition.some([one.__name__ for one in STEPS], ["_is_delivered"])
)
def test_every_loss_of_power_at_each_call(step: str) -> None:
    """Of each step, with every part of what was not synced."""
    life = Life("sync", every_loss)
    next(one for one in STEPS if one.__name__ == step)(life)
    assert life.states
    for state in life.states[:: max(1, len(life.states) // 150)]:
        state.check()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", repetition.times("CRASH_RUNS", by_day=5, by_night=300))
def test_lives_of_any_kind(seeds: int) -> None:
    """Steps in any order, cut anywhere by a kill or a loss of power."""
    checked = 0
    for seed in range(SEED, SEED + seeds):
        random = Random(seed)

        def crashes(disk: SimulatedDisk, random: Random = random) -> Iterator[SimulatedDisk]:
            if random.random() < 0.03:
                yield disk.kill() if random.random() < 0.5 else disk.crash(random.randrange)

        life = Life(random.choice(["sync", "sync", "async"]), crashes)
        life.watch()
        _live(life, random)
        for state in random.sample(life.states, min(6, len(life.states))):
            try:
                state.check(random.choice((0, 0, 3000, 40_000)))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}") from error
            checked += 1
    assert checked > 2 * seeds


def _live(life: Life, random: Random) -> None:
    count = 0
    for _ in range(25):
        kind = random.randrange(6)
        if kind < 3:
            for _ in range(random.choice((1, 3, 30))):
                life.send(b"%d" % count, random.choice((10, 900, 2500, 5000, LONGEST_MS - 500)))
                count += 1
        elif kind == 3 and life.due:
            body = random.choice(list(life.due))
            if life.due[body] > life.timing.store.log_clock.now_ms() + 500:
                life.take_back(body)
        elif kind == 4:
            maintain(life.timing.store)
        life.advance(random.choice((50, 500, 2000)))
