"""Connections that speak RocketMQ's remoting, for servers and clients alike.

A `Connection` makes commands of a peer's bytes. A `Dispatcher` has a function for each code that is
asked, and sends the answers.
"""

from sprocket.rocketmq.remoting.connection import Connection
from sprocket.rocketmq.remoting.dispatch import (
    Answer,
    Dispatcher,
    Handler,
    answer,
    answering,
    busy,
    encoded,
    failed,
)

__all__ = [
    "Answer",
    "Connection",
    "Dispatcher",
    "Handler",
    "answer",
    "answering",
    "busy",
    "encoded",
    "failed",
]
