"""Clients of gRPC under `kill -9`: no message is lost, none comes that was acknowledged.

SPROCKET_GRPC_KILLS sets how many kills, SPROCKET_KILL_SEED what producers and consumers do.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest
from tests import repetition
from tests.crash import grpc_popping
from tests.crash.grpc_popping import Worker
from tests.crash.popping import Ledger
from tests.crash.test_pop_kill import OPTIONS
from tests.grpc_client import GrpcClient
from tests.interop import link, peers
from tests.waits import LONG_SECONDS

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
CONSUMERS, PRODUCERS = 12, 4
SHORT = [
    part
    for setting in ("grpc.invisible_ms_min=0", "grpc.poll_ms_min=0")
    for part in ("--set", setting)
]
"""Invisible times and polls as short as those of the other storm."""


async def _round(broker: peers.Sprocket, address: str, ledger: Ledger, rng: random.Random) -> None:
    """Send, receive and acknowledge until the broker is killed."""
    worker = Worker(ledger, rng, leaves=0.2)
    work = [worker.consume] * CONSUMERS + [worker.produce] * PRODUCERS
    async with asyncio.TaskGroup() as group:
        for number, one in enumerate(work):
            group.create_task(grpc_popping.until_gone(address, f"c{number}", one))
        await asyncio.sleep(rng.uniform(0.3, 1.5))
        await asyncio.to_thread(broker.kill)


async def _drain(address: str, ledger: Ledger, rng: random.Random) -> None:
    """Receive and acknowledge until all that was stored is done."""
    worker = Worker(ledger, rng, leaves=0.0)

    async def until_done(client: GrpcClient) -> None:
        while ledger.missing and not ledger.wrong:
            await worker.step(client)

    async with asyncio.timeout(3 * LONG_SECONDS), asyncio.TaskGroup() as group:
        for number in range(CONSUMERS):
            group.create_task(grpc_popping.until_gone(address, f"c{number}", until_done))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_GRPC_KILLS", by_day=1, by_night=10))
def test_grpc_survives_kill(rounds: int, tmp_path: Path) -> None:
    """What was answered is stored, and what was acknowledged is done."""
    print(f"SPROCKET_KILL_SEED={SEED}")
    rng = random.Random(SEED)
    ledger = Ledger()
    port = peers.free_port()
    address = f"127.0.0.1:{port}"
    options = [*OPTIONS, "--grpc-port", str(port), *SHORT]
    broker = peers.Sprocket(tmp_path, tmp_path / "store", options)
    with broker:
        with link.Link(broker.address) as connection:
            link.create_topic(connection, grpc_popping.TOPIC, grpc_popping.QUEUES)
        for turn in range(rounds):
            asyncio.run(_round(broker, address, ledger, rng))
            assert ledger.wrong == []
            broker.start()
            print(
                f"  kill {turn}: {len(ledger.answered):,} messages stored of {ledger.sent:,} sent, "
                f"{len(ledger.done):,} acknowledged in {ledger.pops:,} receives",
                flush=True,
            )
        asyncio.run(_drain(address, ledger, rng))
    assert ledger.wrong == []
    assert ledger.missing == set()
