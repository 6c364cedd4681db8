"""Channels: what a client publishes, has, and is told, by values.

A `BrokerChannel` knows delivery tags, prefetch limits, confirms and transactions; the queues know
the messages.
"""

from sprocket.rabbitmq.broker.channels.channel import (
    DELIVER_MAX,
    REMOVAL_WORK,
    BrokerChannel,
    ChannelClient,
    ChannelState,
    Got,
    MessageTaker,
    Publication,
)
from sprocket.rabbitmq.broker.channels.confirms import Confirmation
from sprocket.rabbitmq.broker.channels.direct_replies import REPLY_TO, DirectReplies
from sprocket.rabbitmq.broker.channels.unacked import ConsumedQueue

__all__ = [
    "DELIVER_MAX",
    "REMOVAL_WORK",
    "REPLY_TO",
    "BrokerChannel",
    "ChannelClient",
    "ChannelState",
    "Confirmation",
    "ConsumedQueue",
    "DirectReplies",
    "Got",
    "MessageTaker",
    "Publication",
]
