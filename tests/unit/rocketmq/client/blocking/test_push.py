"""The blocking consumer stores what its listener has done."""

from queue import SimpleQueue
from typing import Any

from sprocket.rocketmq.client.blocking import Producer, PushConsumer
from sprocket.rocketmq.client.received import ReceivedMessage
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
        assert got.get(timeout=10) == b"0"
        assert consumer.queues[:1] == [world.queue(0)]
        consumer.unsubscribe("t")
    assert world.cluster.committed["g", "t", 0] == 1
