"""What a consumer is told beside the message that was published."""

from typing import Final

import msgspec

from sprocket.base.errors import WireError
from sprocket.rabbitmq.broker.queues import headers as queue_headers
from sprocket.rabbitmq.broker.queues.levels import QueueEntry
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind
from sprocket.rabbitmq.model.message import BasicMessage

DELIVERY_COUNT: Final = "x-delivery-count"


def message_of(entry: QueueEntry) -> BasicMessage:
    """Return what is delivered for an entry.

    It is the message as it is stored, but one that came back to a queue that counts that has the
    header `x-delivery-count`, which says how often.
    """
    message = entry.message
    if not entry.return_count:
        return message
    held = message.properties
    try:
        known = properties.decode(held) if isinstance(held, bytes) else held
    except WireError:
        return message  # it was stored by somebody who let that through
    headers = NO_FIELDS if known.headers is None else known.headers
    count = Field(FieldKind.LONG, entry.return_count)
    counted = queue_headers.put(headers, DELIVERY_COUNT, count)
    changed = msgspec.structs.replace(known, headers=counted)
    return msgspec.structs.replace(message, properties=changed)
