"""Requests that store messages or read them: sends, transactions, replies, pulls, queries."""

from sprocket.rocketmq.server.handlers.messages.pop import PopHandlers
from sprocket.rocketmq.server.handlers.messages.pull import PullHandlers
from sprocket.rocketmq.server.handlers.messages.queries import QueryHandlers
from sprocket.rocketmq.server.handlers.messages.recalls import RecallHandlers
from sprocket.rocketmq.server.handlers.messages.replies import ReplyHandlers
from sprocket.rocketmq.server.handlers.messages.send import RetryHandlers, SendHandlers
from sprocket.rocketmq.server.handlers.messages.transactions import (
    TransactionHandlers,
    ask_producer,
)

__all__ = [
    "PopHandlers",
    "PullHandlers",
    "QueryHandlers",
    "RecallHandlers",
    "ReplyHandlers",
    "RetryHandlers",
    "SendHandlers",
    "TransactionHandlers",
    "ask_producer",
]
