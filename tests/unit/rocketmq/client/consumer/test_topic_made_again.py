"""A topic is deleted and made again while consumers of every kind run, at a broker of ours."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import (
    Admin,
    ConsumerSettings,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from sprocket.testing.local_broker import LocalBroker


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["push", "orderly", "broadcast"])
def test_its_first_messages_are_received(kind: str, tmp_path: Path) -> None:
    """However far the consumers had come with the one before."""
    options: dict[str, Any] = {} if kind == "push" else {kind: True}
    if kind == "broadcast":
        options["settings"] = ConsumerSettings(broadcast_folder=str(tmp_path))

    async def main() -> list[bytes]:
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def listener(messages: list[ReceivedMessage]) -> None:
            for one in messages:
                await got.put(one.body)

        async def send(producer: Producer, *bodies: bytes) -> list[bytes]:
            for body in bodies:
                await producer.send(Message("t", body))
            async with asyncio.timeout(LONG_SECONDS):
                return sorted([await got.get() for _ in bodies])

        async with (
            LocalBroker() as broker,
            Producer(broker.nameserver, group="p") as producer,
            Admin(broker.nameserver) as admin,
        ):
            await admin.create_topic("t", queues=1)
            async with PushConsumer(
                broker.nameserver, group="c", listener=listener, start="first", **options
            ) as consumer:
                await consumer.subscribe("t")
                received = await send(producer, *(b"old %d" % n for n in range(5)))
                await admin.topic.delete("t")
                await admin.create_topic("t", queues=1)
                return received + await send(producer, b"new 0", b"new 1")

    assert asyncio.run(main()) == [b"old %d" % n for n in range(5)] + [b"new 0", b"new 1"]
