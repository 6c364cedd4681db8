"""Which lane a message goes into."""

import pytest

from sprocket.base.checksum import hash32
from sprocket.rocketmq.client.topic_lanes import queue_of_key
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
