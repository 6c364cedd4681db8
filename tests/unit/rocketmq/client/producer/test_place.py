"""Which queue a message goes to."""

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.producer import queue_of_key
from sprocket.rocketmq.client.producer.place import Selection
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue

QUEUES = [MessageQueue("t", "b", number) for number in range(4)]


@pytest.mark.parametrize(
    ("key", "number"), [("order-1001", 3), ("order-1002", 0), ("order-1003", 1)]
)
def test_a_key_goes_where_java_sends_it(key: str, number: int) -> None:
    """The worked example of `SelectMessageQueueByHash` with four queues."""
    assert queue_of_key(key, QUEUES) == QUEUES[number]


def test_a_negative_hash_counts_as_positive() -> None:
    """Java's remainder has the sign of the hash and is then made positive."""
    key = "TopicTest#KEY1"
    assert hash32(key) == -1656969516
    for count in range(1, 5):
        assert queue_of_key(key, QUEUES[:count]).queue_id == 1656969516 % count


def test_a_selector_gets_the_queues_and_the_message() -> None:
    """What it returns is taken; another queue, or an exception, is the sender's error."""
    message = Message("t", b"\x02")
    assert Selection(lambda q, m: q[m.body[0]], message).choose(QUEUES) == QUEUES[2]
    with pytest.raises(InvalidMessage, match="not one of the queues it got"):
        Selection(lambda *_: MessageQueue("u", "b", 0), message).choose(QUEUES)
    with pytest.raises(InvalidMessage, match="failed with IndexError"):
        Selection(lambda q, _: q[9], message).choose(QUEUES)
