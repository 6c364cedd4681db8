"""A message, as it was published and as it is stored."""

from msgspec import Struct

from sprocket.rabbitmq.model.properties import BasicProperties

ID_BYTES = 16
AMQP_0_9_1 = "rabbit_framing_amqp_0_9_1"
"""What RabbitMQ calls the protocol of nearly all messages."""


class BasicMessage(Struct, frozen=True, gc=False):
    """One message, shared by all queues that it was routed to.

    When it expires is not known here: each queue has its own rules for that.
    """

    id: bytes
    """16 bytes that no other message of the node has; not the property `message-id`."""
    vhost: str
    exchange: str
    """Where it was published to; empty for the default exchange."""
    routing_keys: tuple[str, ...]
    """The one it was published with, then those of the headers `CC` and `BCC`."""
    properties: bytes | BasicProperties
    """Flags and values exactly as they came; typed values if the broker changed any."""
    fragments: tuple[bytes, ...]
    """The body, as it was divided into frames; none for an empty one."""
    is_persistent: bool
    """Whether it was published with delivery mode 2."""
    protocol: str = AMQP_0_9_1
    """What it came by; of no meaning where the properties are typed values."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return self.fragments[0] if len(self.fragments) == 1 else b"".join(self.fragments)

    @property
    def body_size(self) -> int:
        """The length of the body in bytes."""
        return sum(map(len, self.fragments))
