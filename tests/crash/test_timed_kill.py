"""Timed messages under `kill -9`: each that was stored comes once, never early.

Producers send to a broker that is killed at any moment, and take some messages back. What was
stored shows in the topic where messages wait: a producer that got no answer sends once more, and
that one comes as well. SPROCKET_KILL_ROUNDS sets how many kills, SPROCKET_KILL_SEED what producers
do.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests import repetition
from tests.interop import peers
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import Message, Producer, ProducerSettings, Puller
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.message import StoredMessage

SEED = int(os.environ.get("SPROCKET_KILL_SEED", "3"))
TOPIC = "Reminders"
SENDERS = 4
DELAYS_MS = (1, 300, 900, 1500, 4000)
TAKEN_BACK_MS = 4000
"""Of those that are due so late some are taken back."""
OPTIONS = [
    part
    for setting in ("log.segment_bytes=262144", "queue.units_per_file=500", "timers.roll_slots=3")
    for part in ("--set", setting)
]
SETTINGS = ProducerSettings(timeout_ms=1000)


class Sent:
    """What producers know of their messages."""

    def __init__(self) -> None:
        self.rng = random.Random(SEED)
        self.acked: set[str] = set()
        self.wanted_back: set[str] = set()
        self.taken_back: set[str] = set()

    async def send_for_ever(self, producer: Producer) -> None:
        """Send, and take every fifth back that waits for long."""
        while True:
            delay_ms = self.rng.choice(DELAYS_MS)
            with suppress(ClientError):
                sent = await producer.send(Message(TOPIC, b"x", delay_ms=delay_ms))
                self.acked.add(sent.message_id)
                if delay_ms == TAKEN_BACK_MS and self.rng.random() < 0.2:
                    self.wanted_back.add(sent.message_id)
                    await producer.recall(sent.recall_handle or "")
                    self.taken_back.add(sent.message_id)


async def _round(broker: peers.Sprocket, sent: Sent) -> None:
    """Send until the broker is killed."""
    async with Producer(broker.nameserver, settings=SETTINGS) as producer:
        senders = [asyncio.create_task(sent.send_for_ever(producer)) for _ in range(SENDERS)]
        await asyncio.sleep(sent.rng.uniform(0.1, 1.5))
        await asyncio.to_thread(broker.kill)
        for one in senders:
            one.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _all(puller: Puller, topic: str) -> AsyncIterator[StoredMessage]:
    """Give what a topic has."""
    for queue in await puller.queues(topic):
        offset, end = await puller.min_offset(queue), await puller.max_offset(queue)
        while offset < end:
            found = await puller.pull(queue, offset)
            for one in record.decode_all(found.body):
                yield one
            offset = found.next_offset


async def _waited(puller: Puller) -> Counter[str]:
    """Return how often each message was stored, by its unique key."""
    return Counter(
        [
            one.unique_key or ""
            async for one in _all(puller, TIMER_TOPIC)
            if properties.TIMER_DEL_UNIQKEY not in one.properties
            and properties.TIMER_ROLL_TIMES not in one.properties
        ]
    )


async def _came(broker: peers.Sprocket) -> tuple[Counter[str], list[StoredMessage]]:
    """Wait until what was stored has come; return how often it was, and what has come."""
    async with (
        Producer(broker.nameserver) as producer,
        Puller(broker.nameserver, group="reader") as puller,
    ):
        last = await producer.send(Message(TOPIC, b"last", delay_ms=DELAYS_MS[-1]))
        async with asyncio.timeout(LONG_SECONDS):
            while True:
                came = [one async for one in _all(puller, TOPIC)]
                if any(one.unique_key == last.message_id for one in came):
                    return await _waited(puller), came
                await asyncio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", repetition.times("SPROCKET_KILL_ROUNDS", by_day=1, by_night=30))
def test_timed_messages_survive_kill(rounds: int, tmp_path: Path) -> None:
    """None is missing, double or early; those that were taken back do not come."""
    print(f"SPROCKET_KILL_SEED={SEED}")
    sent = Sent()
    broker = peers.Sprocket(tmp_path, tmp_path / "store", OPTIONS)
    with broker:
        for turn in range(rounds):
            asyncio.run(_round(broker, sent))
            broker.start()
            print(f"  kill {turn}: {len(sent.acked):,} messages", flush=True)
        waited, came = asyncio.run(_came(broker))
    assert sent.acked - set(waited) == set()
    seen = Counter(one.unique_key or "" for one in came)
    expected = {key: count for key, count in waited.items() if key not in sent.wanted_back}
    assert {key: seen[key] for key in expected} == expected
    assert {key for key in sent.taken_back if seen[key] >= waited[key]} == set()
    # What is written together has one store time, that of the first record.
    given = [one.properties for one in came]
    assert min(int(one["TIMER_DEQUEUE_MS"]) - int(one["TIMER_OUT_MS"]) for one in given) >= 0
