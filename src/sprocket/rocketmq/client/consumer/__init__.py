"""Receiving messages: which queues are ours, what was pulled, what is done.

`PushConsumer`, `LitePullConsumer` and `Puller` are the faces. The first two say what they want in a
`plan`, which every part of them gets; `core` puts the parts together. Rooms: `queues` that
`rebalance` gives a member, and `delivery` of their messages.
"""

from sprocket.rocketmq.client.consumer.delivery import DeadLetter, DeliverLater
from sprocket.rocketmq.client.consumer.lite_pull import LitePullConsumer
from sprocket.rocketmq.client.consumer.plan import (
    ConsumerOptions,
    OnRebalance,
    PushOptions,
    Start,
)
from sprocket.rocketmq.client.consumer.puller import Puller, SliceAnswer
from sprocket.rocketmq.client.consumer.push import PushConsumer
from sprocket.rocketmq.client.consumer.rebalance import Strategy, averagely
from sprocket.rocketmq.client.consumer.subscriptions import check_tags, checked

__all__ = [
    "ConsumerOptions",
    "DeadLetter",
    "DeliverLater",
    "LitePullConsumer",
    "OnRebalance",
    "Puller",
    "PushConsumer",
    "PushOptions",
    "SliceAnswer",
    "Start",
    "Strategy",
    "averagely",
    "check_tags",
    "checked",
]
