"""Listeners that block have threads of their own."""

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.blocking import Producer, PushConsumer
from sprocket.rocketmq.model.message import Message


def test_a_listener_may_block_in_threads_of_its_own(world: Any, names: str) -> None:
    """Calls overlap, do not hold up the loop, and one that fails is repeated."""
    world.cluster.topics["t"] = 2
    with Producer(names) as sender:
        for number in range(2):
            sender.send(Message("t", b"%d" % number), queue=world.queue(number))
    got: SimpleQueue[tuple[bytes, str]] = SimpleQueue()
    both = threading.Barrier(2, timeout=LONG_SECONDS)

    def listener(messages: list[ReceivedMessage]) -> None:
        (message,) = messages
        if message.reconsume_times == 0:
            both.wait()
            if message.body == b"0":
                raise ValueError("once")
        got.put((message.body, threading.current_thread().name))

    settings = ConsumerSettings(redeliver_ms=10)
    with PushConsumer(names, group="g", listener=listener, start="first", settings=settings) as c:
        c.subscribe("t")
        seen = [got.get(timeout=LONG_SECONDS) for _ in range(2)]
        assert {body for body, _ in seen} == {b"0", b"1"}
        assert all(name.startswith("sprocket-listener") for _, name in seen)
        assert len(c.queues) == 2
        c.unsubscribe("t")
    assert world.cluster.committed["g", "t", 0] == 1


@pytest.mark.parametrize(
    "error", [StopIteration(), SystemExit(), asyncio.CancelledError()], ids=repr
)
def test_what_a_blocking_listener_raises_brings_its_message_again(
    world: Any, names: str, error: BaseException
) -> None:
    """Whatever it is: no call hangs, and none ends the consumer."""
    world.cluster.topics["t"] = 1
    with Producer(names) as sender:
        sender.send(Message("t", b"0"), queue=world.queue(0))
    got: SimpleQueue[int] = SimpleQueue()

    def listener(messages: list[ReceivedMessage]) -> None:
        (message,) = messages
        got.put(message.reconsume_times)
        if message.reconsume_times == 0:
            raise error

    settings = ConsumerSettings(redeliver_ms=10)
    with PushConsumer(names, group="g", listener=listener, start="first", settings=settings) as c:
        c.subscribe("t")
        assert [got.get(timeout=LONG_SECONDS) for _ in range(2)] == [0, 1]
