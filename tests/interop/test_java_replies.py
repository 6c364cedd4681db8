"""Our client and the official Java clients answer each other by request and reply.

Against `sprocket up`, or the real RocketMQ if SPROCKET_INTEROP_BROKER=rocketmq.
"""

import asyncio
from collections.abc import Callable

import pytest
from tests.interop import link, peers
from tests.interop.java_client import JavaClient

from sprocket.rocketmq.client import (
    Client,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    reply_to,
)
from sprocket.runtime import driver

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-java-replies"),
]

COUNT = 5
REQUEST_MS = 60_000
"""The Java half may be starting yet."""


@pytest.fixture
def java(java_of: Callable[[str], JavaClient]) -> JavaClient:
    """Return the Java client 4.9.8; 5.3.3 may give an awaited request up whatever the broker is."""
    return java_of("4.9.8")


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: peers.Broker) -> str:
    """Return a topic of the test's own, with one queue."""
    name = str(request.node.name)
    with link.Link(broker.address) as connection:
        link.create_topic(connection, name, 1)
    return name


def test_java_asks_and_python_replies(java: JavaClient, broker: peers.Broker, topic: str) -> None:
    """Every request gets its own reply, with the tag and the property that we gave it."""

    async def main() -> list[str]:
        asked: list[str] = []
        async with Client(broker.nameserver) as client, Producer(client) as producer:

            async def listener(messages: list[ReceivedMessage]) -> None:
                for one in messages:
                    asked.append(one.body.decode())
                    body = b"Python replies to " + one.body
                    properties = {"mood": "good"}
                    await producer.send(reply_to(one, body, tag="T", own_properties=properties))

            async with PushConsumer(
                client, group=topic, listener=listener, start="first"
            ) as consumer:
                await consumer.subscribe(topic)
                while half.child.poll() is None:
                    await asyncio.sleep(0.05)
        return asked

    half = java.start_asking(broker.nameserver, topic, COUNT)
    try:
        asked = driver.run(main())
        replies = half.finish()
    finally:
        half.kill()
    questions = [f"Java asks {number}" for number in range(COUNT)]
    assert questions == asked
    assert [
        {"body": f"Python replies to {text}", "tag": "T", "mood": "good"} for text in questions
    ] == replies


def test_python_asks_and_java_replies(java: JavaClient, broker: peers.Broker, topic: str) -> None:
    """All ask at once, so that a reply to another's request would be seen."""

    async def main() -> list[bytes]:
        async with Producer(broker.nameserver) as producer:
            replies = await asyncio.gather(
                *[
                    producer.request(Message(topic, b"Python asks %d" % n), timeout_ms=REQUEST_MS)
                    for n in range(COUNT)
                ]
            )
        return [reply.body for reply in replies]

    half = java.start_answering(broker.nameserver, topic, COUNT)
    try:
        replies = driver.run(main())
        asked = half.finish()
    finally:
        half.kill()
    assert [b"Java replies to Python asks %d" % number for number in range(COUNT)] == replies
    assert len(asked) == COUNT
    assert all("CORRELATION_ID" in one["properties"] for one in asked)
