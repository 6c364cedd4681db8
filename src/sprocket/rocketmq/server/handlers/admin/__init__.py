"""Requests about topics, about the broker itself, and about what its users may do."""

from sprocket.rocketmq.server.handlers.admin.replicas import replica_status
from sprocket.rocketmq.server.handlers.admin.rights import RightsHandlers
from sprocket.rocketmq.server.handlers.admin.runtime_info import RuntimeInfo, WaitingRequests
from sprocket.rocketmq.server.handlers.admin.sets import EpochHandlers, SetHandlers
from sprocket.rocketmq.server.handlers.admin.status import StatusHandlers
from sprocket.rocketmq.server.handlers.admin.timers import TimerHandlers
from sprocket.rocketmq.server.handlers.admin.topics import TopicHandlers

__all__ = [
    "EpochHandlers",
    "RightsHandlers",
    "RuntimeInfo",
    "SetHandlers",
    "StatusHandlers",
    "TimerHandlers",
    "TopicHandlers",
    "WaitingRequests",
    "replica_status",
]
