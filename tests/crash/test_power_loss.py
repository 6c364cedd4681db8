"""Power may go at any moment: nothing acknowledged is lost and the store agrees with itself.

One seed per run; a failing one is printed and replayed with `CRASH_SEED=… CRASH_RUNS=1`. More runs,
for a night: a larger `CRASH_RUNS`.
"""

import os
import re
from functools import partial
from random import Random

import pytest
from tests.crash.driver import ROOT, History, Life, Lost, check

from sprocket.base.errors import StoreError, StoreFailed, WireError
from sprocket.base.steps import Steps
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.store import checkpoint as checkpoints
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.flush import SyncJob
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.queues.files import FileQueues
from sprocket.testing.disk import CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "20"))
PARTS = 4
STATES_MIN = 2_000
STEPS = 60
LIVES = 2
NOW_MS = 1_700_000_000_000


def run(seed: int) -> int:
    """Run one seed; return how many crash states were checked.

    Raises:
        Lost: With the seed and the number of the crash.
    """
    random = Random(seed)
    disk = SimulatedDisk()
    history = History()
    now_ms = NOW_MS
    states = 0
    for life_number in range(LIVES):
        taken: list[tuple[SimulatedDisk, History]] = []
        disk.before = partial(_maybe_crash, disk, history, random, taken)
        try:
            life = Life(disk, history, random, now_ms)
            for _ in range(random.randrange(5, STEPS)):
                life.step()
        except StoreError:
            pass  # a fault hit what cannot go on; the power goes next
        disk.before = None
        taken.append((disk.crash(random.randrange), history.copy()))
        now_ms += 60_000
        for number, (found, known) in enumerate(taken):
            at = f"seed {seed}, life {life_number}, crash {number}"
            states += check_twice(found, known, random, now_ms, at)
        disk = disk.crash(random.randrange)
    return states


def _maybe_crash(
    disk: SimulatedDisk,
    history: History,
    random: Random,
    taken: list[tuple[SimulatedDisk, History]],
    call: str,
    _path: str,
) -> None:
    if call in CHANGES and random.random() < 0.06 and len(taken) < 30:
        taken.append((disk.crash(random.randrange), history.copy()))


def check_twice(
    found: SimulatedDisk, history: History, random: Random, now_ms: int, at: str
) -> int:
    """Check a crash state, and one that a second crash left in the middle of its recovery."""
    disk = found.kill()
    again: list[SimulatedDisk] = []

    def crash(call: str, _path: str) -> None:
        if not again and call in CHANGES and random.random() < 0.05:
            again.append(disk.crash(random.randrange))

    disk.before = crash
    try:
        check(disk, history, now_ms)
        disk.before = None
        for second in again:
            at += ", again"
            check(second, history, now_ms + 60_000, deep=False)
    except Lost as error:
        raise Lost(f"CRASH_SEED={at}: {error}") from error
    return 1 + len(again)


def _run_seeds(count: int, first: int = SEED) -> int:
    return sum(run(seed) for seed in range(first, first + count))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_acknowledged_is_lost(part: int) -> None:
    """At least 2,000 crash states in all parts, each opened and checked whole."""
    first = SEED + part * RUNS
    states = _run_seeds(RUNS, first)
    print(f"{states} crash states, seeds {first} to {first + RUNS - 1}")
    assert states >= STATES_MIN / PARTS or RUNS < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "call"),
    [
        (SyncJob, "run"),  # what makes the log durable
        (FileQueues, "flush_steps"),
        (Indexes, "recover"),
        (FileQueues, "truncate"),
        (CommitLog, "zero"),
    ],
)
def test_the_suite_notices_what_is_taken_out(
    owner: type, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one call planted out of the code, something acknowledged is soon found lost."""
    monkeypatch.setattr(owner, call, _no_steps if "steps" in call else lambda *_: 0)
    with pytest.raises((Lost, WireError)) as caught:
        _run_seeds(25)
    if owner is SyncJob:
        assert re.search(r"(one|two|three)/\d/\d", str(caught.value))


def _no_steps(*_: object) -> Steps:
    yield from ()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_damage_loses_only_what_it_hits(part: int) -> None:
    """One record of a killed store has wrong bytes: every other one is where it was."""
    for seed in range(part, 100, 4):
        random = Random(seed)
        disk = SimulatedDisk()
        history = History()
        life = Life(disk, history, random, NOW_MS)
        for _ in range(60):
            life.append()
            life.write()
            life.sync()
            life.clock.advance(100)
            if random.random() < 0.1:
                life.maintain()
        checkpoint = checkpoints.load(disk, f"{ROOT}/checkpoint")
        young = [
            (offset, len(data))
            for offset, data in life.store.records()
            if record.decode(data).stored_at_ms > checkpoint.safe_at_ms()
        ]
        place, size = random.choice(young)
        at = place + random.choice((0, 4, 8, 28, 90, size - 1, random.randrange(size)))
        segment = life.store._files.segment(place)
        byte = segment.view[at - segment.start]
        segment.file.write([bytes([byte ^ random.randrange(1, 256)])], at - segment.start)
        history.acknowledged = {
            key: value for key, value in history.acknowledged.items() if value[1] != place
        }
        try:
            check(disk.kill(), history, NOW_MS + 60_000, invented=place)
        except Lost as error:
            raise Lost(f"seed {seed}, byte {at} of the record at {place}: {error}") from error


def test_a_failed_sync_stops_the_store() -> None:
    """What was not synced is not acknowledged, and nothing more is taken."""
    disk = SimulatedDisk()
    life = Life(disk, History(), Random(5), NOW_MS)
    life.append()
    life.write()
    disk.fail("sync")
    life.sync()
    assert not life.history.acknowledged
    with pytest.raises(StoreFailed):
        life.append()
