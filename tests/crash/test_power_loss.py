"""Power may go at any moment: nothing acknowledged is lost and the store agrees with itself.

One seed per run; a failing one is printed and replayed with `CRASH_SEED=… CRASH_RUNS=1`. More runs:
a larger `CRASH_RUNS`. What the suite finds when something is taken out of the code is in
`test_planted`.
"""

import os
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeAlias

import pytest
from tests.crash.driver import GEOMETRY, ROOT, History, Life, Lost, check
from tests.stores import new, open_store, overwrite

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import DiskFailed, StoreError, StoreFailed
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.recovery import checkpoint as checkpoints
from sprocket.testing.disk import BLOCK, CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "10"))
PARTS = 4
RUNS_NIGHT = int(os.environ.get("CRASH_RUNS", "200"))
STATES_MIN = 1_000
STATES_MIN_NIGHT = 20_000
State: TypeAlias = tuple[SimulatedDisk, History]
NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Density:
    """How close to each other crashes are.

    Attributes:
        chance: Of a crash before a call that changes the disk.
        states_max: Crashes of one life that are looked at.
        lives: How often the store is opened, to go on with.
        steps_max: Operations of one life.
        again: Crashes in a row, each in the recovery from the one before or soon after it.
    """

    chance: float = 0.06
    states_max: int = 30
    lives: int = 2
    steps_max: int = 60
    again: int = 1


USUAL = Density()
DENSE = Density(chance=0.3, states_max=5, lives=6, steps_max=10, again=3)


@dataclass
class Heat:
    """How many of the coming calls are dangerous: the power goes at every other one of them."""

    calls: int = 0


def run(seed: int, heat: Heat | None = None, density: Density = USUAL) -> int:
    """Run one seed; return how many crash states were checked.

    Raises:
        Lost: With the seed and the number of the crash.
    """
    random = Random(seed)
    disk = SimulatedDisk()
    history = History()
    now_ms = NOW_MS
    states = 0
    heat = heat or Heat()
    for life_number in range(density.lives):
        taken: list[State] = []
        killed: list[State] = []
        disk.before = partial(_maybe_crash, (disk, history), random, taken, killed, heat, density)
        try:
            life = Life(disk, history, random, now_ms)
            for _ in range(random.randrange(min(5, density.steps_max // 2), density.steps_max)):
                life.step()
        except StoreError:
            pass  # a fault hit what cannot go on; the power goes next
        disk.before = None
        taken.append((disk.crash(random.randrange), history.copy()))
        now_ms += 60_000
        for number, (found, known) in enumerate(taken):
            at = f"seed {seed}, life {life_number}, crash {number}"
            states += check_again(found, known, random, now_ms, at, density.again)
        if killed and random.random() < 0.5:  # the process died in the middle of a call
            disk, history = random.choice(killed)
        else:
            disk = disk.crash(random.randrange)
    return states


def _maybe_crash(
    state: State,
    random: Random,
    taken: list[State],
    killed: list[State],
    heat: Heat,
    density: Density,
    call: str,
    _path: str,
) -> None:
    if call not in CHANGES:
        return
    disk, history = state
    chance, limit = (0.5, 60) if heat.calls else (density.chance, density.states_max)
    heat.calls = max(0, heat.calls - 1)
    if random.random() < chance and len(taken) < limit:
        taken.append((disk.crash(random.randrange), history.copy()))
    if random.random() < (0.05 if call == "sync_folder" else 0.01):
        killed.append((disk.kill(), history.copy()))


def check_again(
    found: SimulatedDisk, history: History, random: Random, now_ms: int, at: str, times: int = 1
) -> int:
    """Check a crash state, and one that another crash left in the middle of its recovery.

    Args:
        found: The crash state.
        history: What was sent and acknowledged before; it goes on here.
        random: Decides when the other crash comes.
        now_ms: When the store is opened.
        at: Says which state it is.
        times: Crashes in a row, after this one.

    Returns:
        How many states were checked.
    """
    disk = found.kill()
    again: list[SimulatedDisk] = []

    def crash(call: str, _path: str) -> None:
        if not again and call in CHANGES and random.random() < 0.05:
            again.append(disk.crash(random.randrange))

    if times:
        disk.before = crash
    try:
        check(disk, history, now_ms, deep=times != 0)
    except Lost as error:
        raise Lost(f"CRASH_SEED={at}: {error}") from error
    if not again:
        return 1
    return 1 + check_again(again[0], history, random, now_ms + 60_000, f"{at}, again", times - 1)


def run_seeds(count: int, first: int = SEED, density: Density = USUAL) -> int:
    """Run some seeds; return how many crash states were checked."""
    return sum(run(seed, density=density) for seed in range(first, first + count))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_acknowledged_is_lost(part: int) -> None:
    """At least 1,000 crash states in all parts, each opened and checked whole."""
    first = SEED + part * RUNS
    states = run_seeds(RUNS, first)
    print(f"{states} crash states, seeds {first} to {first + RUNS - 1}")
    assert states >= STATES_MIN / PARTS or "CRASH_RUNS" in os.environ


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_one_crash_follows_the_other() -> None:
    """A crash after every few operations and in recovery, some in a row."""
    states = run_seeds(RUNS, SEED, DENSE)
    print(f"{states} crash states, seeds {SEED} to {SEED + RUNS - 1}")
    assert states >= 250 or "CRASH_RUNS" in os.environ


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_acknowledged_is_lost_in_a_night(part: int) -> None:
    """At least 20,000 crash states in all parts."""
    first = SEED + 1_000_000 + part * RUNS_NIGHT
    states = run_seeds(RUNS_NIGHT, first)
    print(f"{states} crash states, seeds {first} to {first + RUNS_NIGHT - 1}")
    assert states >= STATES_MIN_NIGHT / PARTS or RUNS_NIGHT < 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2, 3))]
)
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
        files = SegmentFiles(disk, f"{ROOT}/commitlog", GEOMETRY.log.segment_bytes)
        files.load()
        segment = files.segment(place)
        byte = segment.view[at - segment.start]
        overwrite(files, at, bytes([byte ^ random.randrange(1, 256)]))
        history.acknowledged = {
            key: value for key, value in history.acknowledged.items() if value[1] != place
        }
        try:
            check(disk.kill(), history, NOW_MS + 60_000, invented=place)
        except Lost as error:
            raise Lost(f"seed {seed}, byte {at} of the record at {place}: {error}") from error


@pytest.mark.parametrize(("stored_count", "nth"), [(1, 1), (6, 2)])
def test_what_a_failed_write_left_does_not_come_back(stored_count: int, nth: int) -> None:
    """Though all of it was in the files, one of them or two, and power goes after the next write.

    Each message fills a block: the next ones take the places of the first ones that were refused,
    and behind these there would be the others.
    """
    empty = open_store(SimulatedDisk())
    empty.append(new(body=b""))
    disk = SimulatedDisk()
    store = open_store(disk)

    def put(text: bytes, count: int) -> None:
        for number in range(count):
            body = b"%b %d" % (text, number)
            store.append(new(body=body.ljust(BLOCK - empty.end)))
        store.write()

    put(b"stored", stored_count)
    store.sync()
    disk.fail("write", nth, kept=1)
    with pytest.raises(DiskFailed):
        put(b"refused", 4)
    put(b"later", 2)
    for seed in range(60):
        again = open_store(disk.crash(Random(seed).randrange))
        kinds = [record.decode(data).body.split()[0] for _, data in again.records()]
        assert kinds[:stored_count] == [b"stored"] * stored_count
        assert b"refused" not in kinds


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
