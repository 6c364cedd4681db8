"""Sending messages: from what a user gives to the answer of a broker.

`Producer` is the face; `outgoing` makes a message ready, `send_lanes` keep the order of those
that wait, `send_request` speaks with the broker, `broker_faults` avoids one that fails.
"""

from sprocket.rocketmq.client.producer.outgoing import (
    SendResult,
    SendStatus,
    check_group,
    check_topic,
    split_batch,
)
from sprocket.rocketmq.client.producer.place import Selector
from sprocket.rocketmq.client.producer.producer import Producer
from sprocket.rocketmq.client.producer.requests import reply_to

__all__ = [
    "Producer",
    "Selector",
    "SendResult",
    "SendStatus",
    "check_group",
    "check_topic",
    "reply_to",
    "split_batch",
]
