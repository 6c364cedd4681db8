"""Consumers that pop under `kill -9`: no message is lost, none comes that was acknowledged.

SPROCKET_POP_KILLS sets how many kills, SPROCKET_KILL_SEED what producers and poppers do.
"""

import asyncio
import os
import random
from functools import partial
from pathlib import Path

import pytest
from tests import repetition
from tests.crash import popping
from tests.interop import link, peers
from tests.waits import LONG_SECONDS

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
POPPERS, PRODUCERS = 16, 2
OPTIONS = [
    part
    for setting in ("log.segment_bytes=262144", "queue.units_per_file=500")
    for part in ("--set", setting)
]


async def _round(broker: peers.Sprocket, ledger: popping.Ledger, rng: random.Random) -> None:
    """Send, pop and acknowledge until the broker is killed."""
    popper = popping.Popper(ledger, rng, leaves=0.2)
    work = [popper.work] * POPPERS
    work += [partial(popping.produce, ledger=ledger, rng=rng)] * PRODUCERS
    async with asyncio.TaskGroup() as group:
        for one in work:
            group.create_task(popping.until_gone(broker.address, one))
        await asyncio.sleep(rng.uniform(0.2, 1.5))
        await asyncio.to_thread(broker.kill)


async def _drain(broker: peers.Sprocket, ledger: popping.Ledger, rng: random.Random) -> None:
    """Pop and acknowledge until all that was stored is done."""
    popper = popping.Popper(ledger, rng, leaves=0.0)

    async def until_done(line: popping.Line) -> None:
        while ledger.missing and not ledger.wrong:
            await popper.step(line)

    async with asyncio.timeout(3 * LONG_SECONDS), asyncio.TaskGroup() as group:
        for _ in range(POPPERS):
            group.create_task(popping.until_gone(broker.address, until_done))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_POP_KILLS", by_day=2, by_night=10))
def test_pops_survive_kill(rounds: int, tmp_path: Path) -> None:
    """What was acknowledged is done; what was not comes again, as one delivery more."""
    print(f"SPROCKET_KILL_SEED={SEED}")
    rng = random.Random(SEED)
    ledger = popping.Ledger()
    broker = peers.Sprocket(tmp_path, tmp_path / "store", OPTIONS)
    with broker:
        with link.Link(broker.address) as connection:
            link.create_topic(connection, popping.TOPIC, popping.QUEUES)
        for turn in range(rounds):
            asyncio.run(_round(broker, ledger, rng))
            assert ledger.wrong == []
            broker.start()
            print(
                f"  kill {turn}: {len(ledger.answered):,} messages stored of {ledger.sent:,} sent, "
                f"{len(ledger.done):,} acknowledged in {ledger.pops:,} pops",
                flush=True,
            )
        asyncio.run(_drain(broker, ledger, rng))
    assert ledger.wrong == []
    assert ledger.missing == set()
