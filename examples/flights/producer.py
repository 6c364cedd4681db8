"""The replay: every flight goes into the topic, in time order, through the Python client."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from examples.flights.source import TOPIC, Event
from sprocket.rocketmq.client import Admin, Message, Producer, SendResult

QUEUES = 8
UNANSWERED_MAX = 8_000
TIMEOUT_MS = 60_000
"""Longer than a broker needs to come back; until then the client keeps trying by itself."""


async def make_topic(nameserver: str) -> None:
    """Create the topic, so that readers find it before the first message is there."""
    async with Admin(nameserver) as admin:
        await admin.create_topic(TOPIC, queues=QUEUES)


async def replay(
    nameserver: str, events: Sequence[Event], acknowledged: Callable[[int], None]
) -> float:
    """Send every event and wait until each is acknowledged.

    Args:
        nameserver: Address of the NameServer.
        events: In time order; those of one plane stay in that order, as they share a queue.
        acknowledged: Called with how many events the broker has stored since the last call.

    Returns:
        Seconds from the first send to the last acknowledgement.

    Raises:
        ClientError: An event was not acknowledged within `TIMEOUT_MS`.
    """
    began = time.monotonic()
    async with Producer(nameserver, group="flights-replay") as producer:
        pending: deque[asyncio.Future[SendResult]] = deque()
        try:
            for event in events:
                keys = [event.tail] if event.tail else []
                message = Message(TOPIC, event.body, tag=event.carrier, keys=keys)
                pending.append(
                    producer.send_soon(message, sharding_key=event.shard, timeout_ms=TIMEOUT_MS)
                )
                if len(pending) >= UNANSWERED_MAX:
                    acknowledged(await settle(pending, UNANSWERED_MAX // 8))
            while pending:
                acknowledged(await settle(pending, UNANSWERED_MAX // 8))
        finally:
            for sent in pending:  # after Ctrl-C nobody asks for them any more
                sent.cancel()
    return time.monotonic() - began


async def settle(pending: deque[asyncio.Future[SendResult]], count: int) -> int:
    """Wait for the `count` oldest sends, and return how many those were."""
    count = min(count, len(pending))
    for _ in range(count):
        await pending[0]
        pending.popleft()
    return count
