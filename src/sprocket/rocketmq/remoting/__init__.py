"""Connections that speak RocketMQ's remoting, for servers and clients alike.

A `Connection` makes commands of a peer's bytes. A `Channel` has the requests of this side that wait
on one for their answers. A `Dispatcher` has a row for each code that may be asked for, and answers.
"""

from sprocket.rocketmq.remoting.channel import (
    Channel,
    Channels,
    Connect,
    OnRequest,
    open_channel,
    split_address,
)
from sprocket.rocketmq.remoting.connection import Connection
from sprocket.rocketmq.remoting.dispatch import (
    Answer,
    Body,
    Dispatcher,
    Request,
    Row,
    answer,
    body,
    busy,
    encoded,
    failed,
    row,
    sliced_row,
)

__all__ = [
    "Answer",
    "Body",
    "Channel",
    "Channels",
    "Connect",
    "Connection",
    "Dispatcher",
    "OnRequest",
    "Request",
    "Row",
    "answer",
    "body",
    "busy",
    "encoded",
    "failed",
    "open_channel",
    "row",
    "sliced_row",
    "split_address",
]
