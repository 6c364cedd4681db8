"""Requests about topics and about the broker itself."""

from sprocket.rocketmq.server.handlers.admin.runtime_info import RuntimeInfo, WaitingRequests
from sprocket.rocketmq.server.handlers.admin.status import StatusHandlers
from sprocket.rocketmq.server.handlers.admin.timers import TimerHandlers
from sprocket.rocketmq.server.handlers.admin.topics import TopicHandlers

__all__ = ["RuntimeInfo", "StatusHandlers", "TimerHandlers", "TopicHandlers", "WaitingRequests"]
