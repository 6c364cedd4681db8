"""A message as a listener gets it."""

from collections.abc import Mapping

from msgspec import Struct

from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.route import MessageQueue


class ReceivedMessage(Struct, eq=False, gc=False):
    """A message that was pulled from a queue.

    Attributes:
        stored: The record, whole; its fields say more than the properties below.
        queue: Where it was pulled from.
        redeliveries: How often this consumer has handed it out again after a failure.
    """

    stored: StoredMessage
    queue: MessageQueue
    redeliveries: int = 0

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes back from the group's retry topic."""
        topic = self.stored.topic
        if topic.startswith(RETRY_PREFIX):
            return self.stored.properties.get("RETRY_TOPIC", topic)
        return topic

    @property
    def body(self) -> bytes:
        """The body as it was sent; unpacked at every call if the producer packed it.

        Raises:
            WireError: The packed bytes are damaged.
        """
        return self.stored.body

    @property
    def tag(self) -> str:
        """The tag, empty if there is none."""
        return self.stored.tags

    @property
    def keys(self) -> tuple[str, ...]:
        """What the producer gave as keys."""
        return self.stored.keys

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties: the producer's, and those that its client and the broker added."""
        return self.stored.properties

    @property
    def message_id(self) -> str:
        """The producer's unique key: equal for two records of one message that was sent twice."""
        return self.stored.message_id

    @property
    def queue_offset(self) -> int:
        """Its number in its queue, from 0."""
        return self.stored.queue_offset

    @property
    def born_at_ms(self) -> int:
        """Wall time at which it was sent, by the producer's clock."""
        return self.stored.born_at_ms

    @property
    def stored_at_ms(self) -> int:
        """Wall time at which the broker stored it."""
        return self.stored.stored_at_ms

    @property
    def reconsume_times(self) -> int:
        """How often it has been delivered before."""
        return self.stored.reconsume_times + self.redeliveries
