"""Sending messages: from what a user gives to the answer of a broker.

`Producer` is the face; `outgoing` makes a message ready, `send_lanes` keep the order of those
that wait, `send_request` speaks with the broker, `broker_faults` avoids one that fails.
"""

from sprocket.rocketmq.client.producer.outgoing import (
    PackedBatch,
    SendResult,
    SendStatus,
    check_group,
    check_topic,
    split_batch,
)
from sprocket.rocketmq.client.producer.place import Selector, queue_of_key
from sprocket.rocketmq.client.producer.producer import Producer
from sprocket.rocketmq.client.producer.requests import reply_to

__all__ = [
    "PackedBatch",
    "Producer",
    "Selector",
    "SendResult",
    "SendStatus",
    "check_group",
    "check_topic",
    "queue_of_key",
    "reply_to",
    "split_batch",
]
