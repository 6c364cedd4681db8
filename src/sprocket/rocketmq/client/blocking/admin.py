"""Looking after topics, and looking into them, from programs without an event loop."""

from collections.abc import Sequence
from typing import Any

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client import admin as _admin
from sprocket.rocketmq.client.blocking.portal import Blocking
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec.bodies import ClusterInfo
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute


class Admin(Blocking):
    """Creates topics and answers questions; see `client.Admin`."""

    def __init__(
        self, nameservers: str | Sequence[str], *, client: ClientSettings | None = None
    ) -> None:
        super().__init__()
        self._client: _admin.Admin = _admin.Admin(nameservers, client=client)

    def create_topic(self, name: str, queues: int = 4, **options: Any) -> None:
        """Create a topic on every broker and wait for its route."""
        self._call(self._client.create_topic, name, queues, **options)

    def route(self, topic: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic."""
        found: TopicRoute = self._call(self._client.route, topic)
        return found

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        found: list[MessageQueue] = self._call(self._client.queues, topic)
        return found

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        found: list[str] = self._call(self._client.topics)
        return found

    def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses."""
        found: ClusterInfo = self._call(self._client.cluster)
        return found

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._call(self._client.max_offset, queue))

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._call(self._client.min_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._call(self._client.offset_by_time, queue, at_ms))

    def query_by_key(self, topic: str, key: str, **options: Any) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key."""
        found: list[ReceivedMessage] = self._call(self._client.query_by_key, topic, key, **options)
        return found

    def view(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None."""
        found: ReceivedMessage | None = self._call(self._client.view, message_id, topic)
        return found
