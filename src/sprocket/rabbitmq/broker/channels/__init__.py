"""Channels: what a client publishes, has, and is told, by values.

A `BrokerChannel` knows delivery tags, prefetch limits, confirms and transactions; the queues know
the messages.
"""

from sprocket.rabbitmq.broker.channels.channel import (
    DELIVER_MAX,
    BrokerChannel,
    ChannelClient,
    Got,
    MessageTaker,
    Publication,
)
from sprocket.rabbitmq.broker.channels.confirms import Confirmation
from sprocket.rabbitmq.broker.channels.direct_replies import REPLY_TO, DirectReplies

__all__ = [
    "DELIVER_MAX",
    "REPLY_TO",
    "BrokerChannel",
    "ChannelClient",
    "Confirmation",
    "DirectReplies",
    "Got",
    "MessageTaker",
    "Publication",
]
