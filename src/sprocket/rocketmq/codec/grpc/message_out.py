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
from sprocket.rocketmq.codec.grpc.messages import Message, ReceiveMessageResponse, Resource
from sprocket.rocketmq.codec.grpc.resource_names import resource
from sprocket.rocketmq.codec.grpc.times import set_duration, set_timestamp
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
    made = Message()
    _fill(made, stored, resource(topic))
    return made


def received(stored: StoredMessage, topic: Resource, receipt: str, invisible_ms: int) -> bytes:
    """Return the part of the answer to a receive that gives a message, encoded.

    Args:
        stored: As it lies in the log.
        topic: The topic that its consumer asked for.
        receipt: The handle by which its consumer names it.
        invisible_ms: For how long nobody else gets it.
    """
    answer = ReceiveMessageResponse()
    made = answer.message
    _fill(made, stored, topic)
    said = made.system_properties
    said.receipt_handle = receipt
    set_duration(said.invisible_duration, invisible_ms)
    return answer.SerializeToString()


def _fill(made: Message, stored: StoredMessage, topic: Resource) -> None:
    """Say all of a stored message.

    Field by field, as messages that are made beside it would be copied into it, the body too.
    """
    found, body = stored.properties, _body(stored)
    made.topic.CopyFrom(topic)
    made.body = body
    for name in found.keys() - properties.RESERVED:
        made.user_properties[name] = found[name]
    said = made.system_properties
    said.message_id = stored.message_id
    digest = said.body_digest
    digest.type, digest.checksum = _MD5, _md5(body)
    said.body_encoding = Encoding.IDENTITY
    said.message_type = type_of(found)
    set_timestamp(said.born_timestamp, stored.born_at_ms)
    said.born_host = found.get(BORN_HOST) or _host(stored.born_host)
    set_timestamp(said.store_timestamp, stored.stored_at_ms)
    said.store_host = _host(stored.store_host)
    said.queue_id = stored.queue_id
    said.queue_offset = stored.queue_offset
    said.delivery_attempt = stored.reconsume_times + 1
    if stored.keys:
        said.keys.extend(stored.keys)
    if stored.tags:
        said.tag = stored.tags
    if MESSAGE_GROUP in found:
        said.message_group = found[MESSAGE_GROUP]
    if TRACE_CONTEXT in found:
        said.trace_context = found[TRACE_CONTEXT]
    due = found.get(properties.TIMER_DELIVER_MS, "")
    if due.isdecimal() and due.isascii():
        set_timestamp(said.delivery_timestamp, int(due))
    if _DEAD_TOPIC in found:
        dead = said.dead_letter_queue
        dead.topic, dead.message_id = found[_DEAD_TOPIC], found.get(_DEAD_ID, "")


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
