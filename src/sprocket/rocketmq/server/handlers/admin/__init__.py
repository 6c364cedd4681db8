"""Requests about topics and about the broker itself.

Each class has a table of request codes, the header of each, and the function that answers.
"""

from sprocket.rocketmq.server.handlers.admin.config import ConfigHandlers
from sprocket.rocketmq.server.handlers.admin.status import StatusHandlers
from sprocket.rocketmq.server.handlers.admin.topics import TopicHandlers

__all__ = ["ConfigHandlers", "StatusHandlers", "TopicHandlers"]
