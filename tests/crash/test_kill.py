"""What was acknowledged is there after `kill -9` under load, and consumers go on from it.

Replay with the seed that is printed: SPROCKET_KILL_SEED=… (the draws are the same; the moment of a
kill is a time, so what the broker was doing then is not). SPROCKET_KILL_ROUNDS sets how many kills.
"""

import os
import random
from pathlib import Path

import pytest
from tests import repetition
from tests.crash import killing
from tests.interop import peers

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
ROUNDS_PER_LIFE = 5

SMALL_FILES = (
    "log.segment_bytes=262144",
    "queue.units_per_file=500",
    "index.slots=1000",
    "index.units=4000",
)
"""Files of all kinds fill up and roll within a round."""

KILL_AGAIN = 0.3
"""The share of restarts that are killed too, before or while they recover."""


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_KILL_ROUNDS", by_day=2, by_night=20))
def test_acknowledged_survives_kill(rounds: int, tmp_path: Path) -> None:
    """A store is killed up to five times under load and keeps all it acknowledged in its life."""
    for life, first in enumerate(range(0, rounds, ROUNDS_PER_LIFE)):
        folder = tmp_path / str(life)
        folder.mkdir()
        _live(life, min(ROUNDS_PER_LIFE, rounds - first), folder)


def _live(life: int, rounds: int, folder: Path) -> None:
    """Kill one store so many times."""
    rng = random.Random(f"{SEED} {life}")
    print(f"SPROCKET_KILL_SEED={SEED}, life {life}")
    options = [part for setting in SMALL_FILES for part in ("--set", setting)]
    broker = peers.Sprocket(folder, folder / "store", options)
    ledger = killing.Ledger()
    with broker:
        killing.prepare(broker.address)
        for turn in range(rounds):
            plan = killing.Plan.draw(rng)
            answers = killing.Load(broker.address, ledger, plan, rng).run(broker.kill)
            if rng.random() < KILL_AGAIN:
                broker.launch()
                peers.pause(rng.uniform(0.0, 0.8))
                broker.kill()
            broker.start()
            ends = killing.check(broker.address, ledger, rng)
            killing.check_goes_on(broker.nameserver, ledger, ends)
            print(
                f"  kill {turn}: {plan}, {answers:,} answers; {sum(ends.values()):,} stored of "
                f"{len(ledger.sent):,} sent, {len(ledger.acknowledged):,} acknowledged"
            )
