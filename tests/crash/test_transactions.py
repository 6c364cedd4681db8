"""Transactions survive: whenever process or power goes, each ends as its producer says, once.

Producers send half messages, say how some transactions ended, and are asked about the others, on a
simulated disk. Before each call that changes the disk, copies of it are taken as a kill would leave
it, and as a loss of power may: any part of what was not synced. Each copy is opened; producers, who
remember, are asked until nothing is left to ask. Then

1. what was committed is seen once: by a word that was answered, or by one that was not;
2. what was rolled back is not seen;
3. of half messages that were answered none is missing; of the others each counts as rolled back.

A table has the steps of a transaction; every one of them is cut at each of its calls.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests import repetition
from tests.half_messages import Transacting

from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.rocketmq.model.transaction import Outcome
from sprocket.rocketmq.settings import TransactionSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

CHANGES = frozenset({"write", "sync", "rename", "resize", "create", "sync_folder", "remove"})
SETTINGS = TransactionSettings(check_count_max=50)
LOSSES_MAX = 100
"""Ways of one loss that are gone through; those are all there are, but for the longest steps."""
SEED = int(os.environ.get("CRASH_SEED", "1"))


class Producer:
    """What producers know.

    Attributes:
        outcomes: By body, how a transaction ended, once that is decided.
        acked: Bodies of half messages that were answered.
    """

    def __init__(self) -> None:
        self.outcomes: dict[bytes, Outcome] = {}
        self.acked: set[bytes] = set()


class State:
    """What a crash left, and what producers knew then."""

    def __init__(self, disk: SimulatedDisk, producer: Producer, flush: str, now_ms: int) -> None:
        self.disk = disk
        self.now_ms = now_ms
        self.outcomes = dict(producer.outcomes)
        self.acked = set(producer.acked)
        self.flush = flush

    def check(self) -> None:
        """Open it, ask until nothing is left, and compare."""
        process = Transacting(self.disk, settings=SETTINGS, clock=FakeClock(self.now_ms))
        process.produce()
        halves = {half.stored_body for half in process.messages(HALF_TOPIC, 0)}
        for _ in range(4):
            process.round()
            process.answer(lambda body: self.outcomes.get(body, Outcome.ROLLBACK))
        process.round()
        assert process.questions == []
        seen = process.visible()
        committed = {body for body, outcome in self.outcomes.items() if outcome is Outcome.COMMIT}
        doubles = {body: count for body, count in seen.items() if count > 1}
        assert doubles == {}
        assert set(seen) - committed == set()
        assert (committed & halves) - set(seen) == set()
        if self.flush == "sync":
            assert self.acked - halves == set()
        # A second process asks about nothing more.
        again = Transacting(process.stop(), settings=SETTINGS, clock=process.clock)
        again.produce()
        again.round()
        assert again.questions == []
        assert again.visible() == seen


class Life:
    """One process, its producers, and copies of its disk, each of which is opened at once."""

    def __init__(self, flush: str, crashes: Callable[[SimulatedDisk], Iterator[SimulatedDisk]]):
        self.flush = flush
        self.crashes = crashes
        self.producer = Producer()
        self.process = Transacting(flush=flush, settings=SETTINGS)
        self.process.produce()
        self.checked = 0
        """How many of those copies were opened."""

    def watch(self) -> None:
        """Take copies from now on."""
        self.process.disk.before = self._before

    def _before(self, call: str, _path: str) -> None:
        if call not in CHANGES:
            return
        before, self.process.disk.before = self.process.disk.before, None
        self.producer.acked = set(self.process.acked)
        for left in self.crashes(self.process.disk):
            State(left, self.producer, self.flush, self.process.clock.now_ms()).check()
            self.checked += 1
        self.process.disk.before = before

    def send(self, *bodies: bytes) -> None:
        """Send half messages."""
        self.process.send(*bodies)
        self.process.timers.drain()

    def end(self, outcome: Outcome, *bodies: bytes) -> None:
        """Decide about transactions, then say so."""
        for body in bodies:
            self.producer.outcomes[body] = outcome
        for body in bodies:
            self.process.end(*self.process.acked[body], outcome)
        self.process.timers.drain()

    def decide(self, outcome: Outcome, *bodies: bytes) -> None:
        """Decide, and say nothing."""
        for body in bodies:
            self.producer.outcomes[body] = outcome

    def round(self) -> None:
        """Ask about what nobody said, and answer."""
        self.process.round()
        self.process.answer(self.producer.outcomes.get)


def _sends(life: Life) -> None:
    life.watch()
    life.send(b"a", b"b")


def _commits(life: Life) -> None:
    life.send(b"a", b"b", b"c")
    life.watch()
    life.end(Outcome.COMMIT, b"a", b"b")


def _commits_and_rolls_back(life: Life) -> None:
    life.send(b"a", b"b", b"c", b"d")
    life.watch()
    life.decide(Outcome.ROLLBACK, b"b", b"d")
    life.process.end(*life.process.acked[b"b"], Outcome.ROLLBACK)
    life.end(Outcome.COMMIT, b"a", b"c")


def _asks(life: Life) -> None:
    life.send(b"a", b"b", b"c")
    life.decide(Outcome.COMMIT, b"a")
    life.watch()
    life.round()


def _asks_again(life: Life) -> None:
    life.send(b"a", b"b")
    life.round()
    life.decide(Outcome.COMMIT, b"a")
    life.watch()
    life.round()
    life.round()


def _says_late(life: Life) -> None:
    life.send(b"a", b"b")
    life.round()
    life.watch()
    life.end(Outcome.COMMIT, b"a")
    life.round()


def _stops(life: Life) -> None:
    life.send(b"a", b"b", b"c")
    life.end(Outcome.COMMIT, b"a")
    life.end(Outcome.ROLLBACK, b"c")
    life.decide(Outcome.COMMIT, b"b")
    life.watch()
    life.process.stop()


STEPS = [_sends, _commits, _commits_and_rolls_back, _asks, _asks_again, _says_late, _stops]


def a_kill(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """Give the disk as a kill leaves it."""
    yield disk.kill()


def every_loss(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """Give the disk as a loss of power may leave it: every way, as far as `crash` chooses."""
    chosen: list[tuple[int, int]] = []
    for _ in range(LOSSES_MAX):
        at = 0

        def choose(count: int) -> int:
            nonlocal at
            if at == len(chosen):
                chosen.append((0, count))
            value = chosen[at][0]
            at += 1
            return value

        yield disk.crash(choose)
        while chosen and chosen[-1][0] + 1 >= chosen[-1][1]:
            chosen.pop()
        if not chosen:
            return
        value, count = chosen[-1]
        chosen[-1] = value + 1, count


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_kill_at_each_call(step: Callable[[Life], None], flush: str) -> None:
    """Of each step."""
    life = Life(flush, a_kill)
    step(life)
    assert life.checked


@pytest.mark.slow
@pytest.mark.parametrize("step", repetition.some([one.__name__ for one in STEPS], ["_commits"]))
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_every_loss_of_power_at_each_call(step: str, flush: str) -> None:
    """Of each step, with every part of what was not synced."""
    life = Life(flush, every_loss)
    next(one for one in STEPS if one.__name__ == step)(life)
    assert life.checked


@pytest.mark.slow
@pytest.mark.parametrize("seeds", repetition.times("CRASH_RUNS", by_day=5, by_night=300))
def test_lives_of_any_kind(seeds: int) -> None:
    """Steps in any order, cut anywhere by a kill or a loss of power."""
    checked = 0
    for seed in range(SEED, SEED + seeds):
        random = Random(seed)
        left = 6

        def crashes(disk: SimulatedDisk, random: Random = random) -> Iterator[SimulatedDisk]:
            nonlocal left
            if random.random() < 0.05 and left:
                left -= 1
                yield disk.kill() if random.random() < 0.5 else disk.crash(random.randrange)

        life = Life(random.choice(["sync", "sync", "async"]), crashes)
        life.watch()
        try:
            _live(life, random)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        checked += life.checked
    assert checked > 2 * seeds


def _live(life: Life, random: Random) -> None:
    count = 0
    for _ in range(25):
        kind = random.randrange(6)
        undecided = [body for body in life.process.acked if body not in life.producer.outcomes]
        some = random.sample(undecided, min(len(undecided), random.choice((1, 2, 5))))
        outcome = random.choice(list(Outcome))
        if kind < 2:
            bodies = [b"%d" % (count + number) for number in range(random.choice((1, 3, 70)))]
            count += len(bodies)
            life.send(*bodies)
        elif kind == 2 and some:
            life.end(outcome, *some)
        elif kind == 3:
            life.decide(outcome, *some)
        elif kind == 4:
            life.round()
        else:
            life.process.timers.advance(random.choice((10, 500, 7000)))


def test_counters() -> None:
    """The comparison would see a double: two copies of one half."""
    life = Life("sync", a_kill)
    life.send(b"a")
    life.end(Outcome.COMMIT, b"a")
    half = life.process.transactions.half_at(0)
    copy = life.process.records.committed(half, half.place)
    life.process.durable.append([copy], lambda *_: None, [None])
    life.process.timers.drain()
    assert life.process.visible() == Counter({b"a": 2})
