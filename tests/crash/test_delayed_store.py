"""Delayed messages: power may go, or the process be killed, at any call to the disk.

A message that was durable is either in its queue or waits, never both, never neither; those that
wait are in the order in which they are due; what an exchange kept that was dropped does not come
back. One seed a run; `CRASH_SEED` and `CRASH_RUNS` choose others.
"""

import os
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.rabbit_vhosts import ROOT, Q, opened

from sprocket.base.disk import Call, StepsTo, steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.store.delayed import check_run
from sprocket.rabbitmq.store.layout import DELAYED_RUN, VhostLayout
from sprocket.testing.disk import CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "40"))
RUNS_NIGHT = int(os.environ.get("CRASH_RUNS", "5000"))
EXCHANGES = "x", "y"


class PowerLoss(BaseException):
    """The moment at which everything stops."""


class BrokenPromise(AssertionError):
    """Something that was promised is not so."""


@dataclass
class Model:
    """What was done, over all lives.

    Attributes:
        due: Each message that was ever added: when it is due, and its exchange.
        durable: Those that were there at a commit.
        routed: Those that were put into the queue.
        dropped: Those whose exchange was dropped,
        void: and those for which that was durable.
        now: Of the clock.
        number: Of the next message.
    """

    due: dict[int, tuple[int, str]] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    routed: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    void: set[int] = field(default_factory=set)
    now: int = 1
    number: int = 0


def message(number: int) -> BasicMessage:
    """Return the message with a number; some are large."""
    body = b"%d " % number * (1 + number % 7 * 9)
    return BasicMessage(
        b"%016d" % number, "/", "x", ("k",), b"\x10\0\2", (body,), is_persistent=True
    )


def number_of(found: BasicMessage) -> int:
    """Return a message's number; it is the one that was added."""
    number = int(found.id)
    if found != message(number):
        raise BrokenPromise(f"message {number} is another one")
    return number


class Life:
    """One process's life, from opening to its end."""

    def __init__(self, disk: SimulatedDisk, model: Model) -> None:
        self.store = opened(disk)
        self.delayed = self.store.delayed
        self.queue = self.store.queue(Q)
        self.model = model
        self._disk = disk
        self._works: list[tuple[StepsTo[object], list[Call | None]]] = []
        self._taking = self._is_busy = False
        report = self.store.report
        if any("sprocket.delayed" in one for one in report.damage):
            raise BrokenPromise(f"{report.damage}")
        self.queued = [number_of(one.message) for one in steps.run(self.queue.read(0, 1 << 40))]
        model.now = max(model.now, self.delayed.at_us)
        self._settle()

    def _settle(self) -> None:
        """Compare what is there with what must be, and go on from there."""
        model, queued = self.model, set(self.queued)
        if len(queued) < len(self.queued):
            raise BrokenPromise(f"twice in the queue: {self.queued}")
        waiting = self._waiting()
        if both := waiting & queued:
            raise BrokenPromise(f"in the queue and waiting: {both}")
        if back := waiting & model.void:
            raise BrokenPromise(f"dropped and back: {back}")
        if lost := model.durable - model.dropped - waiting - queued:
            raise BrokenPromise(f"lost: {lost}")
        if self.delayed.count != len(waiting):
            raise BrokenPromise(f"{self.delayed.counts}, but {len(waiting)} wait")
        model.due = {number: model.due[number] for number in waiting | queued}
        model.durable, model.routed, model.dropped = waiting | queued, queued, set()

    def _waiting(self) -> set[int]:
        """Return what waits, by another store on a copy of the disk."""
        copy = self._disk.kill()
        other = opened(copy)
        found: list[int] = []
        while some := steps.run(other.delayed.take_steps(1 << 50, 5)):
            found += [number_of(one.message) for one in some]
            other.delayed.done(1 << 51)
        due = [self.model.due[one][0] for one in found]
        if due != sorted(due):
            raise BrokenPromise(f"out of order: {found}")
        other.close()
        if len(set(found)) < len(found):
            raise BrokenPromise(f"twice: {found}")
        return set(found)

    def step(self, random: Random) -> None:
        """Do something."""
        model = self.model
        match random.choices(
            ("add", "commit", "take", "flush", "merge", "go on", "time", "drop"),
            (12, 4, 5, 2, 2, 20, 3, 0.2),
        )[0]:
            case "add":
                exchange = random.choice(EXCHANGES)
                due = model.now + random.choice([1, 3, 3, 40, 1000])
                self.delayed.add(exchange, message(model.number), due, model.now)
                model.due[model.number] = due, exchange
                model.number += 1
            case "commit":
                self.store.log.commit()
                self.note_durable()
            case "take" if not self._taking:
                self._taking = True
                self._begin(self._take_steps())
            case "flush" if not self._is_busy:
                # The owner asks for it now and then, whether it is due or not.
                self._is_busy = True
                self._begin(self._upkeep_steps(self.delayed.flush_steps()))
            case "merge" if not self._is_busy:
                self._is_busy = True
                self._begin(self._upkeep_steps(self.delayed.merge_steps()))
            case "go on":
                self.go_on(random)
            case "time":
                model.now += random.choice([1, 5, 50])
            case "drop":
                exchange = random.choice(EXCHANGES)
                self.delayed.drop(exchange, model.now)
                model.dropped |= {n for n, (_, name) in model.due.items() if name == exchange}

    def _upkeep_steps(self, work: StepsTo[object]) -> Generator[Call, Any, None]:
        try:
            yield from work
        finally:
            self._is_busy = False

    def _take_steps(self) -> Generator[Call, Any, None]:
        now = self.model.now
        found = yield from self.delayed.take_steps(now, 3)
        for one in found:
            number = number_of(one.message)
            if self.model.due[number][0] > now:
                raise BrokenPromise(f"early: {number}")
            self.queue.publish(
                self.queue.next_seq_id, [one.message], expires_at_us=None, is_delivered=False
            )
            self.model.routed.add(number)
        self.delayed.done(self.model.now)
        self._taking = False

    def note_durable(self) -> None:
        """Note that all that was done is durable."""
        model = self.model
        model.durable |= model.due.keys()
        model.void |= model.dropped - model.routed

    def _begin(self, work: StepsTo[object]) -> None:
        self._works.append((work, [None]))

    def go_on(self, random: Random) -> None:
        """Do one step of something that is under way."""
        if not self._works:
            return
        work, waiting = one = random.choice(self._works)
        try:
            result = waiting[0]() if waiting[0] is not None else None
            waiting[0] = work.send(result)
        except StopIteration:
            self._works.remove(one)

    def close(self, random: Random) -> None:
        """Stop cleanly."""
        while self._works:
            self.go_on(random)
        steps.run(self.store.close_steps())
        self.note_durable()


def lose_power(countdown: list[int], call: str, _path: str) -> None:
    """Count down the calls that change the disk, and stop before the last of them."""
    if call in CHANGES:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise PowerLoss


def run(seed: int) -> int:
    """Live some lives with one seed; return how many ended in a crash."""
    random = Random(seed)
    disk = SimulatedDisk()
    model = Model()
    crashes = 0
    for _ in range(6):
        countdown = [random.choice([3, 10, 40, 1000])]
        disk.before = partial(lose_power, countdown)
        try:
            life = Life(disk, model)
            for _ in range(random.choice([5, 40, 250])):
                life.step(random)
                if random.random() < 0.02:
                    countdown[0] = random.randint(1, 8)
            if random.random() < 0.5:
                countdown[0] = random.choice([1000, random.randint(1, 40)])
                life.close(random)
        except PowerLoss:
            crashes += 1
        disk.before = None
        disk = disk.kill() if random.random() < 0.4 else disk.crash(random.randrange)
    life = Life(disk, model)
    life.close(random)
    root = VhostLayout(ROOT).delayed.root
    for name in disk.list(root) if disk.is_folder(root) else ():
        if name.endswith(DELAYED_RUN):
            assert check_run(disk, f"{root}/{name}") == []
    return crashes


def run_seeds(seeds: range) -> int:
    """Run some seeds; name the one that fails."""
    crashes = 0
    for seed in seeds:
        try:
            crashes += run(seed)
        except (BrokenPromise, StoreError) as error:
            raise AssertionError(f"CRASH_SEED={seed} CRASH_RUNS=1: {error}") from error
    return crashes


@pytest.mark.slow
def test_no_delayed_message_is_lost_or_comes_twice() -> None:
    """Whatever happens in between, recovery itself included."""
    assert run_seeds(range(SEED, SEED + RUNS)) > RUNS


@pytest.mark.nightly
def test_no_delayed_message_is_lost_or_comes_twice_in_many_runs() -> None:
    """The same, for much longer."""
    assert run_seeds(range(SEED, SEED + RUNS_NIGHT)) > RUNS_NIGHT
