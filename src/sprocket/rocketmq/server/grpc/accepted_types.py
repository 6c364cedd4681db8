"""Which kinds of messages a topic takes, as its attribute `message.type` says.

Source: RocketMQ `TopicMessageType`, `RouteActivity.parseTopicMessageType`.
"""

from collections.abc import Sequence
from typing import Final

from sprocket.rocketmq.broker.topics import attributes
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.model.topic import TopicConfig

ANY: Final[Sequence[MessageType]] = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)
"""A topic takes all of them that does not say, as those do that clients of remoting have made. At
RocketMQ's proxy it takes normal ones alone."""


_BY_NAME: Final = {one.name: (one,) for one in ANY}


def accepted_types(topic: TopicConfig) -> Sequence[MessageType]:
    """Return the kinds that a topic takes."""
    return _BY_NAME.get(topic.attributes.get(attributes.MESSAGE_TYPE, ""), ANY)
