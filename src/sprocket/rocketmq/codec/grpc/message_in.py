"""A message that a client sends, as the broker's services take it.

Each look at a field of a protobuf message makes an object: every field is read once, and what is
made of all of them in one pass (`checked`) says where the message goes.

Source: RocketMQ `SendMessageActivity.buildMessageProperty`, `SendMessageActivity.buildSysFlag`.
"""

import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.rocketmq.codec.grpc import checks
from sprocket.rocketmq.codec.grpc.checks import MessageLimits
from sprocket.rocketmq.codec.grpc.messages import Message
from sprocket.rocketmq.codec.grpc.plain_send import PlainSend
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.grpc.times import ms_of
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import (
    TRANSACTION_PREPARED,
    ProducedMessage,
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


class CheckedMessage(Struct, frozen=True, gc=False):
    """A message that may be stored.

    Attributes:
        topic: Its name at the broker.
        type: Of what kind it is; its fields decide, as in the proxy.
        group: The name of those that are to stay in order with it; empty if there are none.
        sys_flag: See `model.message`.
        born_at_ms: Wall time at the client.
        properties: Its property string.
        body: As it is stored.
    """

    topic: str
    type: MessageType
    group: str
    sys_flag: int
    born_at_ms: int
    properties: str
    body: bytes

    def produced(self, queue_id: int) -> ProducedMessage:
        """Return what the broker takes of it, beside its body, for one queue."""
        return ProducedMessage(
            topic=self.topic,
            queue_id=queue_id,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_at_ms,
            flag=0,
            producer_group=self.topic,
            properties=self.properties,
        )


def checked(message: Message, topic: str, address: str, limits: MessageLimits) -> CheckedMessage:
    """Return what is to be stored of a message.

    Args:
        message: As it came.
        topic: Its name at the broker.
        address: Of its client, `ip:port` or `[ip]:port`.
        limits: What it may be like.

    Raises:
        Declined: It cannot be stored; with the code of what is wrong.
    """
    body = message.body
    checks.check_body(len(body), limits)
    said, user = message.system_properties, message.user_properties
    tag, keys = said.tag, said.keys
    if user or tag or keys:
        checks.check_properties(user, tag, keys)
    message_id = said.message_id
    checks.check_message_id(message_id)
    kind, sys_flag, more = MessageType.NORMAL, 0, ""
    group = said.message_group
    if group or said.HasField("message_group"):
        checks.check_message_group(group)
        kind = MessageType.FIFO
    if said.HasField("delivery_timestamp"):
        due_at_ms = ms_of(said.delivery_timestamp)
        checks.check_due(due_at_ms, limits)
        kind, more = MessageType.DELAY, f"{properties.TIMER_DELIVER_MS}\x01{due_at_ms}\x02"
    recovery_seconds = 0
    if said.HasField("orphaned_transaction_recovery_duration"):
        recovery_seconds = said.orphaned_transaction_recovery_duration.seconds
        checks.check_recovery(recovery_seconds)
    if said.message_type == MessageType.TRANSACTION:
        kind, sys_flag = MessageType.TRANSACTION, TRANSACTION_PREPARED
        more += f"{properties.TRAN_MSG}\x01true\x02"
        if recovery_seconds:
            more += f"{properties.CHECK_IMMUNITY_SECONDS}\x01{recovery_seconds}\x02"
    if said.body_encoding == Encoding.GZIP:
        body = repacked(body, limits.body_bytes_max)
        sys_flag |= compression_flag(Method.ZLIB)
    born_at_ms = ms_of(said.born_timestamp)
    own = "".join([f"{name}\x01{value}\x02" for name, value in user.items()]) if user else ""
    if tag:
        own += f"{properties.TAGS}\x01{tag}\x02"
    if keys:
        own += f"{properties.KEYS}\x01{' '.join(keys)}\x02"
    in_order = f"{MESSAGE_GROUP}\x01{group}\x02" if group else ""
    trace = said.trace_context
    if trace:
        checks.check_text(trace, "trace context")
        in_order += f"{TRACE_CONTEXT}\x01{trace}\x02"
    host = said.born_host
    if host:
        checks.check_text(host, "born host")
    text = (
        f"{_ID}{message_id}\x02{own}{_ATTEMPT}{said.delivery_attempt}\x02{_GROUP}{topic}\x02"
        f"{in_order}{_HOST}{host or address.rpartition(':')[0]}\x02"
        f"{_BORN}{born_at_ms}\x02{more}"
    )
    return CheckedMessage(topic, kind, group, sys_flag, born_at_ms, text, body)


def produced_plain(given: PlainSend, topic: str, queue_id: int, address: str) -> ProducedMessage:
    """Return what is to be stored of the message of a plain request, as `checked` has it.

    Args:
        given: The request; its body is not looked at.
        topic: Its name at the broker.
        queue_id: The queue that it goes to.
        address: Of its client, `ip:port` or `[ip]:port`.
    """
    born_at_ms = given.born_at_ms
    host = given.born_host or address.rpartition(":")[0]
    return ProducedMessage(
        topic=topic,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=born_at_ms,
        flag=0,
        producer_group=topic,
        properties=f"{_ID}{given.message_id}\x02{_FIRST_ATTEMPT_OF}{topic}\x02"
        f"{_HOST}{host}\x02{_BORN}{born_at_ms}\x02",
    )


_ID: Final = f"{properties.UNIQ_KEY}\x01"
_ATTEMPT: Final = f"{RECONSUME_TIME}\x01"
_GROUP: Final = f"{properties.PRODUCER_GROUP}\x01"
_FIRST_ATTEMPT_OF: Final = f"{_ATTEMPT}0\x02{_GROUP}"
_HOST: Final = f"{BORN_HOST}\x01"
_BORN: Final = f"{properties.BORN_TIMESTAMP}\x01"


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
