"""A virtual host's store: power may go, or the process be killed, at any call to the disk.

No message is lost that was synced, none comes back that was settled and synced, order and content
are what they were, and after a clean stop `check` is silent. One seed a run; `CRASH_SEED` and
`CRASH_RUNS` choose others.
"""

import copy
import os
from functools import partial
from itertools import count
from random import Random

import pytest
from tests.crash.vhost_driver import NAMES, ROOT, VHOST, BrokenPromise, QueueModel, VhostLife

from sprocket.base.disk import steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "40"))
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
    models = {name: QueueModel() for name in NAMES}
    numbers = [0]
    crashes = 0
    is_clean: bool | None = False
    for _ in range(8):
        before = copy.deepcopy(models)
        countdown = [random.choice([3, 10, 40, 1000])]
        disk.before = partial(lose_power, countdown)
        life = None
        was_clean, is_clean = is_clean, False
        try:
            life = VhostLife(disk, models, numbers, is_clean=was_clean)
            for _ in range(random.choice([5, 40, 150])):
                life.step(random)
                if random.random() < 0.02:
                    countdown[0] = random.randint(1, 8)
            if random.random() < 0.5:
                countdown[0] = random.choice([1000, random.randint(1, 40)])
                life.close()
                is_clean = True
        except PowerLoss:
            crashes += 1
            if life is None:
                models = before  # opening was cut short
                is_clean = None if was_clean is not False else False
        disk.before = None
        disk = disk.kill() if random.random() < 0.4 else disk.crash(random.randrange)
    VhostLife(disk, models, numbers, is_clean=is_clean)
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


def test_recovery_rests_on_a_log_that_is_synced() -> None:
    """A kill leaves a purge in memory only, and power goes while the next start recovers."""
    disk, name = SimulatedDisk(), NAMES[0]
    models = {name: QueueModel() for name in NAMES}
    life = VhostLife(disk, models, [0], is_clean=False)
    for seq_id, body in enumerate((b"small", b"large" * 100, b"small")):
        message = BasicMessage(
            b"%016d" % seq_id, VHOST, "", ("k",), b"\x10\0\2", (body,), is_persistent=True
        )
        life.queues[name].publish(seq_id, [message], expires_at_us=None, is_delivered=False)
    life.store.log.commit()
    life.queues[name].purge()
    life.store.log.write()
    killed = disk.kill()
    for calls in count(1):
        again = copy.deepcopy(killed)
        again.before = partial(lose_power, [calls])
        try:
            opened(again)
        except PowerLoss:
            again.before = None
            left = opened(again.crash(Random(calls).randrange)).queue(name)
            assert left.unacked_count() in (0, 3), f"power lost at call {calls}"
            continue
        break
    assert calls > 5


@pytest.mark.parametrize("acked", [[0, 1, 2], [2]])
@pytest.mark.parametrize("flushed_count", [0, 2])
def test_a_journal_that_a_flush_empties_is_not_called_damaged(
    flushed_count: int, acked: list[int]
) -> None:
    """Power goes while its file may be as long as before and have nothing in it."""
    disk, name = SimulatedDisk(), NAMES[0]
    life = VhostLife(disk, {name: QueueModel() for name in NAMES}, [0], is_clean=False)
    for seq_id in range(3):
        if seq_id == flushed_count:
            flush(life.store)
        message = BasicMessage(
            b"%016d" % seq_id, VHOST, "", ("k",), b"\x10\0\2", (b"small",), is_persistent=True
        )
        life.queues[name].publish(seq_id, [message], expires_at_us=None, is_delivered=False)
    life.close()
    stopped = disk.kill()
    for calls in count(1):
        for seed in range(20):
            disk = copy.deepcopy(stopped)
            store = opened(disk)
            store.queue(name).deliver(acked)
            store.queue(name).ack(acked)
            store.log.commit()
            disk.before = partial(lose_power, [calls])
            try:
                flush(store)
            except PowerLoss:
                disk.before = None
                left = opened(disk.crash(Random(seed).randrange))
                assert left.report.damage == [], f"power lost at call {calls}"
                assert left.queue(name).unacked_count() == 3 - len(acked)
                continue
            assert calls > 3, "nothing was flushed"
            return


def flush(store: VhostStore) -> None:
    """Flush all queues to which anything happened."""
    for now in (0, 1e9):
        steps.run(store.flush_steps(store.flush_due(now)))


def opened(disk: SimulatedDisk) -> VhostStore:
    """Open the virtual host of a disk."""
    place = VhostPlace(disk, ROOT, VHOST)
    return VhostStore.open(place, VhostStoreSettings.small(), VhostGeometry.small())


@pytest.mark.slow
def test_nothing_synced_is_lost() -> None:
    """Whatever happens in between, recovery itself included."""
    assert run_seeds(range(SEED, SEED + RUNS)) > RUNS


@pytest.mark.nightly
def test_nothing_synced_is_lost_in_many_runs() -> None:
    """The same, for much longer."""
    assert run_seeds(range(SEED, SEED + RUNS_NIGHT)) > RUNS_NIGHT
