"""Handing messages to the user, and what becomes of them.

A `Listener` is called for all queues at once or for each in order, or a loop stands in for it
(`Handover`); a `PollBuffer` waits to be asked. What failed is sent back.
"""

from sprocket.rocketmq.client.consumer.delivery.consume import (
    ConcurrentConsumption,
    ListenerCalls,
    OrderlyConsumption,
)
from sprocket.rocketmq.client.consumer.delivery.consume_spans import ConsumeSpans
from sprocket.rocketmq.client.consumer.delivery.consume_traces import ConsumeTraces
from sprocket.rocketmq.client.consumer.delivery.handover import Handover
from sprocket.rocketmq.client.consumer.delivery.listener import DeadLetter, DeliverLater, call
from sprocket.rocketmq.client.consumer.delivery.poll_buffer import PollBuffer
from sprocket.rocketmq.client.consumer.delivery.send_back import SendBack

__all__ = [
    "ConcurrentConsumption",
    "ConsumeSpans",
    "ConsumeTraces",
    "DeadLetter",
    "DeliverLater",
    "Handover",
    "ListenerCalls",
    "OrderlyConsumption",
    "PollBuffer",
    "SendBack",
    "call",
]
