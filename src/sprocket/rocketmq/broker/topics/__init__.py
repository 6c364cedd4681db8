"""The topics that a broker serves: their settings, and how new ones come about.

`Topics` keeps them in `config/topics.json` and a journal; `attributes` changes RocketMQ 5's named
settings.
"""

from sprocket.rocketmq.broker.topics import attributes
from sprocket.rocketmq.broker.topics.in_store import topics_in
from sprocket.rocketmq.broker.topics.topics import Topics, check_name
from sprocket.rocketmq.model.internal import FORBIDDEN_TO_SEND

__all__ = [
    "FORBIDDEN_TO_SEND",
    "Topics",
    "attributes",
    "check_name",
    "topics_in",
]
