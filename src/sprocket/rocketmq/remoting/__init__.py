"""Connections that speak RocketMQ's remoting, for servers and clients alike.

A `Connection` makes commands of a peer's bytes. A `Dispatcher` has a row for each code that may be
asked for, and sends the answers.
"""

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
    "Connection",
    "Dispatcher",
    "Request",
    "Row",
    "answer",
    "body",
    "busy",
    "encoded",
    "failed",
    "row",
    "sliced_row",
]
