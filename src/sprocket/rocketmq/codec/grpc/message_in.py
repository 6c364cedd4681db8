"""A message that a client sends, as the broker's services take it.

Source: RocketMQ `SendMessageActivity.buildMessageProperty`, `SendMessageActivity.buildSysFlag`.
"""

import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.rocketmq.codec.grpc.messages import Message
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.grpc.times import ms_of
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import (
    TRANSACTION_PREPARED,
    ProducedMessage,
    SendRequest,
    compression_flag,
)

MESSAGE_GROUP: Final = "__SHARDINGKEY"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
BORN_HOST: Final = "__BORNHOST"
RECONSUME_TIME: Final = "RECONSUME_TIME"
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS


class MessageType(IntEnum):
    """Of what kind a message is."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class Encoding(IntEnum):
    """How a body is packed."""

    UNSPECIFIED = 0
    IDENTITY = 1
    GZIP = 2


def type_of(found: Mapping[str, str]) -> MessageType:
    """Return of what kind a message is, by its properties."""
    if properties.TRAN_MSG in found:
        return MessageType.TRANSACTION
    timed = (properties.DELAY, properties.TIMER_DELIVER_MS, properties.TIMER_DELAY_SEC)
    if any(name in found for name in timed):
        return MessageType.DELAY
    return MessageType.FIFO if MESSAGE_GROUP in found else MessageType.NORMAL


def type_said(message: Message) -> MessageType:
    """Return of what kind a message is that was sent; its fields decide, as in the proxy."""
    said = message.system_properties
    if said.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if said.HasField("delivery_timestamp"):
        return MessageType.DELAY
    return MessageType.FIFO if said.HasField("message_group") else MessageType.NORMAL


def send_request(
    message: Message, topic: str, queue_id: int, address: str, body_bytes_max: int
) -> SendRequest:
    """Return what the broker is to store.

    Args:
        message: One that was checked.
        topic: Its name at the broker.
        queue_id: Where it goes.
        address: Of its client, `ip:port` or `[ip]:port`.
        body_bytes_max: The largest body, unpacked.

    Raises:
        Declined: Its body is not packed as it says, or is too large.
    """
    said = message.system_properties
    sys_flag, body = 0, message.body
    if said.body_encoding == Encoding.GZIP:
        body = repacked(body, body_bytes_max)
        sys_flag = compression_flag(Method.ZLIB)
    if said.message_type == MessageType.TRANSACTION:
        sys_flag |= TRANSACTION_PREPARED
    produced = ProducedMessage(
        topic=topic,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=ms_of(said.born_timestamp),
        flag=0,
        producer_group=topic,
        properties=_properties(message, topic, address),
    )
    return SendRequest(produced, body, address)


def _properties(message: Message, topic: str, address: str) -> str:
    """Return the property string of a message."""
    said = message.system_properties
    parts = [f"{properties.UNIQ_KEY}\x01{said.message_id}\x02"]
    parts += [f"{name}\x01{value}\x02" for name, value in message.user_properties.items()]
    if said.tag:
        parts.append(f"{properties.TAGS}\x01{said.tag}\x02")
    if said.keys:
        parts.append(f"{properties.KEYS}\x01{' '.join(said.keys)}\x02")
    parts.append(f"{RECONSUME_TIME}\x01{said.delivery_attempt}\x02")
    parts.append(f"{properties.PRODUCER_GROUP}\x01{topic}\x02")
    if said.message_group:
        parts.append(f"{MESSAGE_GROUP}\x01{said.message_group}\x02")
    if said.trace_context:
        parts.append(f"{TRACE_CONTEXT}\x01{said.trace_context}\x02")
    parts.append(f"{BORN_HOST}\x01{said.born_host or address.rpartition(':')[0]}\x02")
    parts.append(f"{properties.BORN_TIMESTAMP}\x01{ms_of(said.born_timestamp)}\x02")
    if said.HasField("delivery_timestamp"):
        due_at_ms = ms_of(said.delivery_timestamp)
        parts.append(f"{properties.TIMER_DELIVER_MS}\x01{due_at_ms}\x02")
    if said.message_type == MessageType.TRANSACTION:
        parts.append(f"{properties.TRAN_MSG}\x01true\x02")
        seconds = said.orphaned_transaction_recovery_duration.seconds
        if seconds:
            parts.append(f"{properties.CHECK_IMMUNITY_SECONDS}\x01{seconds}\x02")
    return "".join(parts)


def repacked(body: bytes, bytes_max: int) -> bytes:
    """Return a body packed by gzip as the broker's other clients can read it.

    RocketMQ stores it as it came, and its remoting clients cannot unpack it.

    Raises:
        Declined: It is not gzip, or too large.
    """
    unpacker = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        plain = unpacker.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise Declined(Code.MESSAGE_CORRUPTED, f"the body is not gzip: {error}") from error
    if len(plain) > bytes_max:
        raise Declined(
            Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {bytes_max}"
        )
    if not unpacker.eof:
        raise Declined(Code.MESSAGE_CORRUPTED, "the body of gzip ends too soon")
    return compression.compress(Method.ZLIB, plain)
