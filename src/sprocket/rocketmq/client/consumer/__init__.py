"""Receiving messages: which queues are ours, what was pulled, what is done.

`PushConsumer`, `LitePullConsumer` and `Puller` are the faces. `assignment` holds the queues that
`rebalance` gives a member, `process_queue` what was pulled and is not done, `offsets` how far a
group is.
"""

from sprocket.rocketmq.client.consumer import lite_pull, puller, push
from sprocket.rocketmq.client.consumer.assignment import Start
from sprocket.rocketmq.client.consumer.group_membership import OnRebalance
from sprocket.rocketmq.client.consumer.listener import DeadLetter, DeliverLater
from sprocket.rocketmq.client.consumer.lite_pull import LitePullConsumer, OnTopicChange
from sprocket.rocketmq.client.consumer.puller import Puller
from sprocket.rocketmq.client.consumer.push import PushConsumer
from sprocket.rocketmq.client.consumer.rebalance import Strategy, averagely

__all__ = [
    "DeadLetter",
    "DeliverLater",
    "LitePullConsumer",
    "OnRebalance",
    "OnTopicChange",
    "Puller",
    "PushConsumer",
    "Start",
    "Strategy",
    "averagely",
    "lite_pull",
    "puller",
    "push",
]
