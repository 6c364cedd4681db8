"""The blocking consumer stores what its listener has done."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.client import ReceivedMessage
from sprocket.rocketmq.client.blocking import Producer, PushConsumer
from sprocket.rocketmq.model.message import Message


def test_it_receives_until_it_has_enough(world: Any, names: str) -> None:
    """What was received is committed at the close, and nothing of a topic it left."""
    world.cluster.topics["t"] = 1
    with Producer(names) as sender:
        sender.send(Message("t", b"0"))
    got: SimpleQueue[bytes] = SimpleQueue()

    def listener(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            got.put(message.body)

    with PushConsumer(names, group="g", listener=listener, start="first") as consumer:
        consumer.subscribe("t")
        assert got.get(timeout=LONG_SECONDS) == b"0"
        assert consumer.queues[:1] == [world.queue(0)]
        consumer.unsubscribe("t")
    assert world.cluster.committed["g", "t", 0] == 1


def test_a_loop_receives_until_it_is_left(world: Any, names: str) -> None:
    """What it says of each message counts, and what it was left with is not done."""
    world.cluster.topics["t"] = 1
    with Producer(names) as sender:
        for number in range(4):
            sender.send(Message("t", b"%d" % number))
    consumer = PushConsumer(names, group="g", start="first")
    with pytest.raises(NotConnected):
        next(iter(consumer))
    with consumer:
        consumer.subscribe("t")
        for message in consumer:
            if message.body == b"1":
                consumer.done(message)
            if message.body == b"3":
                break
    assert world.cluster.committed["g", "t", 0] == 3


def test_a_loop_ends_when_another_thread_closes(world: Any, names: str) -> None:
    """At once; and while it is suspended nothing comes."""
    world.cluster.topics["t"] = 1
    consumer = PushConsumer(names, group="g", start="first")
    closing = threading.Timer(0.05, consumer.close)
    with consumer:
        consumer.subscribe("t")
        consumer.suspend()
        consumer.resume()
        consumer.suspend()
        with Producer(names) as sender:
            sender.send(Message("t", b"0"))
        closing.start()
        assert list(consumer) == []
    closing.join()


def test_it_subscribes_before_it_is_open(world: Any, names: str) -> None:
    """And may be asked from within the loop for the queues that it reads."""
    world.cluster.topics["t"] = 1
    seen: SimpleQueue[Any] = SimpleQueue()
    consumer = PushConsumer(
        names, group="g", start="first", on_rebalance=lambda _: seen.put(consumer.queues)
    )
    consumer.subscribe("t")
    consumer.subscribe("other")
    consumer.unsubscribe("other")
    with consumer:
        while world.queue(0) not in seen.get(timeout=LONG_SECONDS):
            pass  # the group's retry topic is shared out too
