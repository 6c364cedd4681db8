"""Queues' indexes and store: power may go, or the process be killed, at any call to the disk.

Nothing that was synced is lost, no ack that was synced is forgotten, and what comes back is what
was published. One seed a run; `CRASH_SEED` and `CRASH_RUNS` choose others.
"""

import copy
import os
from functools import partial
from random import Random

import pytest
from tests.crash.queue_index_driver import QUEUES, IndexLife, LostMessage, QueueHistory

from sprocket.base.errors import StoreError
from sprocket.testing.disk import CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "60"))
RUNS_NIGHT = int(os.environ.get("CRASH_RUNS", "5000"))


class PowerLoss(BaseException):
    """The moment at which everything stops."""


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
    histories = {name: QueueHistory() for name in QUEUES}
    terms: dict[bytes, bytes] = {}
    crashes = 0
    for _ in range(8):
        before = copy.deepcopy(histories)
        countdown = [random.choice([3, 10, 40, 1000])]
        disk.before = partial(lose_power, countdown)
        life = None
        try:
            life = IndexLife(disk, histories, terms)
            for _ in range(random.choice([5, 30, 80])):
                life.step(random)
                if random.random() < 0.03:
                    countdown[0] = random.randint(1, 8)
            if random.random() < 0.5:
                countdown[0] = random.choice([1000, random.randint(1, 25)])
                life.close()
        except PowerLoss:
            crashes += 1
            if life is None:
                histories = before  # recovery was cut short
        disk.before = None
        disk = disk.kill() if random.random() < 0.4 else disk.crash(random.randrange)
    IndexLife(disk, histories, terms)
    return crashes


def run_seeds(seeds: range) -> int:
    """Run some seeds; name the one that fails."""
    crashes = 0
    for seed in seeds:
        try:
            crashes += run(seed)
        except (LostMessage, StoreError) as error:
            raise AssertionError(f"CRASH_SEED={seed} CRASH_RUNS=1: {error}") from error
    return crashes


@pytest.mark.slow
def test_nothing_synced_is_lost() -> None:
    """Whatever happens in between, recovery itself included."""
    assert run_seeds(range(SEED, SEED + RUNS)) > RUNS


@pytest.mark.nightly
def test_nothing_synced_is_lost_in_many_runs() -> None:
    """The same, for much longer."""
    assert run_seeds(range(SEED, SEED + RUNS_NIGHT)) > RUNS_NIGHT
