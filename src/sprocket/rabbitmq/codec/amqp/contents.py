"""A message as it came: its method, and the content after it."""

import msgspec

from sprocket.rabbitmq.codec.amqp.methods import BasicPublish
from sprocket.rabbitmq.codec.amqp.properties import Envelope


class SentMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that somebody publishes, all of which has come."""

    method: BasicPublish
    properties: bytes
    """Flags and values, as they came."""
    envelope: Envelope
    """What a broker looks at in them."""
    fragments: tuple[bytes, ...]
    """The body, as it came; none of them is empty."""
