"""A message that the broker has, as the protocol gives it to clients.

Its body is unpacked, whatever its producer packed it with: some clients can unpack one method only.

Source: RocketMQ `GrpcConverter.buildMessage`.
"""

import hashlib
from typing import Final

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.grpc.message_in import (
    BORN_HOST,
    MESSAGE_GROUP,
    TRACE_CONTEXT,
    Encoding,
    type_of,
)
from sprocket.rocketmq.codec.grpc.messages import (
    DeadLetterQueue,
    Digest,
    Message,
    SystemProperties,
)
from sprocket.rocketmq.codec.grpc.resource_names import resource
from sprocket.rocketmq.codec.grpc.times import duration, timestamp
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import StoredMessage

_MD5: Final = 2
_DEAD_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
_DEAD_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"


def message(stored: StoredMessage, topic: str) -> Message:
    """Return a message as clients get it, without what its receipt says.

    Args:
        stored: As it lies in the log.
        topic: The topic that its consumer asked for; it may lie in a retry topic.

    """
    found, body = stored.properties, _body(stored)
    said = SystemProperties(
        message_id=stored.message_id,
        keys=stored.keys,
        body_digest=Digest(type=_MD5, checksum=_md5(body)),
        body_encoding=Encoding.IDENTITY,
        message_type=type_of(found),
        born_timestamp=timestamp(stored.born_at_ms),
        born_host=found.get(BORN_HOST) or _host(stored.born_host),
        store_timestamp=timestamp(stored.stored_at_ms),
        store_host=_host(stored.store_host),
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
    )
    if stored.tags:
        said.tag = stored.tags
    if MESSAGE_GROUP in found:
        said.message_group = found[MESSAGE_GROUP]
    if TRACE_CONTEXT in found:
        said.trace_context = found[TRACE_CONTEXT]
    due = found.get(properties.TIMER_DELIVER_MS, "")
    if due.isdecimal() and due.isascii():
        said.delivery_timestamp.CopyFrom(timestamp(int(due)))
    if _DEAD_TOPIC in found:
        said.dead_letter_queue.CopyFrom(
            DeadLetterQueue(topic=found[_DEAD_TOPIC], message_id=found.get(_DEAD_ID, ""))
        )
    kept = {name: value for name, value in found.items() if name not in properties.RESERVED}
    return Message(topic=resource(topic), user_properties=kept, system_properties=said, body=body)


def received(stored: StoredMessage, topic: str, receipt: str, invisible_ms: int) -> Message:
    """Return a message as its consumer gets it. Arguments as for `message`."""
    made = message(stored, topic)
    made.system_properties.receipt_handle = receipt
    made.system_properties.invisible_duration.CopyFrom(duration(invisible_ms))
    return made


def _body(stored: StoredMessage) -> bytes:
    """Return a body as its producer was given it; as it lies there if it cannot be unpacked."""
    try:
        return stored.body
    except WireError:
        return stored.stored_body


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _host(address: str) -> str:
    """Return an address without its port."""
    return address.rpartition(":")[0].strip("[]")
