"""Requests about topics and about the broker itself.

Each class has a table: a row for each code, with the header and the function that answers.
"""

from sprocket.rocketmq.server.handlers.admin.status import StatusHandlers
from sprocket.rocketmq.server.handlers.admin.topics import TopicHandlers

__all__ = ["StatusHandlers", "TopicHandlers"]
