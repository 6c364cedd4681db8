"""Transactions under `kill -9`: what was committed comes once, what was rolled back never.

Producers work on a broker that is killed at any moment, and are ended with it; the next ones are
asked how the transactions of those before them ended. SPROCKET_KILL_ROUNDS sets how many kills,
SPROCKET_KILL_SEED what producers do.
"""

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests import repetition
from tests.interop import peers
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import (
    Admin,
    Message,
    ProducerSettings,
    Puller,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.codec.record import batch

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
TOPIC, GROUP = "Orders", "transactions"
SENDERS = 6
OPTIONS = [
    part
    for setting in (
        "log.segment_bytes=262144",
        "queue.units_per_file=500",
        "transactions.check_interval_ms=100",
        "transactions.timeout_ms=50",
        "transactions.check_count_max=10000",
    )
    for part in ("--set", setting)
]
SETTINGS = ProducerSettings(timeout_ms=1000)


class Database:
    """What producers know of their transactions, in this process and the next."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.outcomes: dict[str, TransactionState] = {}

    async def work(self, transaction: Transaction) -> TransactionState:
        """Do a transaction's own work, and say how it ended, or nothing, or fail."""
        await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.02)))
        ends = (TransactionState.COMMIT, TransactionState.COMMIT, TransactionState.ROLLBACK)
        outcome = self.outcomes[transaction.message_id] = self.rng.choice(ends)
        chance = self.rng.random()
        if chance < 0.1:
            raise ValueError("after the commit")
        return TransactionState.UNKNOWN if chance < 0.2 else outcome

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Say how one ended; of whoever is still at work nobody is asked."""
        return self.outcomes.get(message.message_id, TransactionState.ROLLBACK)

    @property
    def committed(self) -> set[str]:
        """The ids of messages that are to be seen."""
        return {one for one, end in self.outcomes.items() if end is TransactionState.COMMIT}


async def _send_for_ever(producer: TransactionProducer, database: Database) -> None:
    number = 0
    while True:
        number += 1
        with suppress(ClientError, ValueError):
            await producer.send(Message(TOPIC, b"%d" % number), database.work)


async def _round(broker: peers.Sprocket, database: Database) -> None:
    """Send until the broker is killed."""
    producer = TransactionProducer(
        broker.nameserver, group=GROUP, check=database.check, settings=SETTINGS
    )
    async with producer:
        senders = [asyncio.create_task(_send_for_ever(producer, database)) for _ in range(SENDERS)]
        await asyncio.sleep(database.rng.uniform(0.05, 0.6))
        await asyncio.to_thread(broker.kill)
        for one in senders:
            one.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _drained(broker: peers.Sprocket, database: Database) -> Counter[str]:
    """Let producers be asked until nothing is left to ask; return what consumers see."""
    producer = TransactionProducer(broker.nameserver, group=GROUP, check=database.check)
    async with producer, Puller(broker.nameserver, group="reader") as puller:
        async with asyncio.timeout(LONG_SECONDS):
            while await _pending(broker, puller):
                await asyncio.sleep(0.1)
        seen: Counter[str] = Counter()
        for queue in await puller.queues(TOPIC):
            offset, end = await puller.min_offset(queue), await puller.max_offset(queue)
            while offset < end:
                found = await puller.pull(queue, offset)
                seen.update(one.message_id for one in batch.decode_messages(found.body))
                offset = found.next_offset
        return seen


async def _pending(broker: peers.Sprocket, puller: Puller) -> bool:
    """Say whether halves have not ended, by the broker's own progress."""
    (queue,) = await puller.queues("RMQ_SYS_TRANS_HALF_TOPIC")
    async with Admin(broker.nameserver) as admin:
        reached = await admin.offset.committed("CID_RMQ_SYS_TRANS", queue)
    return reached != await puller.max_offset(queue)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_KILL_ROUNDS", by_day=2, by_night=30))
def test_transactions_survive_kill(rounds: int, tmp_path: Path) -> None:
    """None that was committed is missing or double, none that was rolled back is seen."""
    print(f"SPROCKET_KILL_SEED={SEED}")
    database = Database(random.Random(SEED))
    broker = peers.Sprocket(tmp_path, tmp_path / "store", OPTIONS)
    with broker:
        for turn in range(rounds):
            asyncio.run(_round(broker, database))
            broker.start()
            print(f"  kill {turn}: {len(database.outcomes):,} transactions", flush=True)
        seen = asyncio.run(_drained(broker, database))
    doubles = {one: count for one, count in seen.items() if count > 1}
    assert doubles == {}
    assert database.committed - set(seen) == set()
    assert set(seen) - database.committed == set()
