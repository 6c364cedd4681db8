"""Looking after a cluster, from programs without an event loop."""

from typing import Self, Unpack

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client import admin as _admin
from sprocket.rocketmq.client.admin import FOREVER_MS
from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.blocking.subjects import (
    BlockingBrokerAdmin,
    BlockingGroupAdmin,
    BlockingMessageAdmin,
    BlockingNameServerAdmin,
    BlockingOffsetAdmin,
    BlockingTopicAdmin,
)
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec.bodies import ClusterInfo
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ, WRITE
from sprocket.rocketmq.store_settings import FOUND_MESSAGES_MAX


class BlockingAdmin:
    """Creates topics and groups, watches them, finds messages; see `client.Admin`."""

    def __init__(self, where: Where, **options: Unpack[ClientOptions]) -> None:
        self._run = Runner("admin", where, lambda at: _admin.Admin(at, **options))
        self.topic = BlockingTopicAdmin(self._run)
        self.group = BlockingGroupAdmin(self._run)
        self.broker = BlockingBrokerAdmin(self._run)
        self.nameserver = BlockingNameServerAdmin(self._run)
        self.message = BlockingMessageAdmin(self._run)
        self.offset = BlockingOffsetAdmin(self._run)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._run.start()

    def close(self) -> None:
        """End as the awaited client does; may be called again."""
        self._run.close()

    def create_topic(self, name: str, queues: int = 4, *, perm: int = READ | WRITE) -> None:
        """Create a topic on every broker, or change the one that exists; see `topic.create`."""
        self._run.call(self._run.client.create_topic, name, queues, perm=perm)

    def route(self, topic: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic."""
        return self._run.call(self._run.client.route, topic)

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        return self._run.call(self._run.client.queues, topic)

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return self._run.call(self._run.client.topics)

    def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses."""
        return self._run.call(self._run.client.cluster)

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._run.call(self._run.client.max_offset, queue))

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._run.call(self._run.client.min_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._run.call(self._run.client.offset_by_time, queue, at_ms))

    def query_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = FOUND_MESSAGES_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key, oldest first; see `message.by_key`."""
        return self._run.call(
            self._run.client.query_by_key,
            topic,
            key,
            count_max=count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def view(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None."""
        return self._run.call(self._run.client.view, message_id, topic)
