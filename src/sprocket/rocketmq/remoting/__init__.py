"""Connections that speak RocketMQ's remoting, for servers and clients alike.

A `Connection` makes commands of a peer's bytes. A `Channel` has the requests of this side that wait
on one for their answers.
"""

from sprocket.rocketmq.remoting.channel import (
    Channel,
    Channels,
    Connect,
    MakeRequest,
    OnRequest,
    open_channel,
    split_address,
)
from sprocket.rocketmq.remoting.connection import Connection

__all__ = [
    "Channel",
    "Channels",
    "Connect",
    "Connection",
    "MakeRequest",
    "OnRequest",
    "open_channel",
    "split_address",
]
