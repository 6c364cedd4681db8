"""Sending messages: from what a user gives to the answer of a broker.

`Producer` and `TransactionProducer` are the faces; `outgoing` makes a message ready, `send_lanes`
keep the order of those that wait, `send_request` speaks with the broker, `broker_faults` avoids one
that fails, `transaction_checks` answers what brokers ask, `send_traces` notes what became of each.
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
from sprocket.rocketmq.client.producer.producer import Producer, begin_traces
from sprocket.rocketmq.client.producer.requests import reply_to
from sprocket.rocketmq.client.producer.transaction_checks import Check, state_of
from sprocket.rocketmq.client.producer.transactions import (
    Transaction,
    TransactionProducer,
    TransactionResult,
)

__all__ = [
    "Check",
    "PackedBatch",
    "Producer",
    "Selector",
    "SendResult",
    "SendStatus",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "begin_traces",
    "check_group",
    "check_topic",
    "queue_of_key",
    "reply_to",
    "split_batch",
    "state_of",
]
