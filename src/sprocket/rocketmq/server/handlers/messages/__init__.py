"""Requests that store messages or read them: sends, replies, what comes back, pulls, queries."""

from sprocket.rocketmq.server.handlers.messages.pull import PullHandlers
from sprocket.rocketmq.server.handlers.messages.queries import QueryHandlers
from sprocket.rocketmq.server.handlers.messages.replies import ReplyHandlers
from sprocket.rocketmq.server.handlers.messages.send import RetryHandlers, SendHandlers

__all__ = ["PullHandlers", "QueryHandlers", "ReplyHandlers", "RetryHandlers", "SendHandlers"]
