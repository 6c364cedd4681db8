"""Messages made ready to send: checked, with an id, packed, their properties encoded."""

import asyncio
import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.codec import batch, compression, properties
from sprocket.rocketmq.codec.ids import UniqueIds
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue

NAME_BYTES_MAX = 127
GROUP_BYTES_MAX = 255

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_FORBIDDEN_TOPICS = frozenset(
    (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)
_GIVEN_AS_FIELDS = {properties.TAGS: "tag", properties.KEYS: "keys"}
_DELAYS = frozenset(
    (
        properties.DELAY,
        properties.TIMER_DELAY_MS,
        properties.TIMER_DELAY_SEC,
        properties.TIMER_DELIVER_MS,
    )
)


class SendStatus(IntEnum):
    """How safely the broker holds a message it has stored; the numbers are its answer codes."""

    OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class SendResult(Struct, frozen=True, gc=False):
    """What the broker says of a message it has stored.

    Attributes:
        message_id: The unique key that this client made; repeats of a message share it.
        offset_message_id: Where it lies: the broker's address and the offset in its log.
        queue: The queue it went to.
        queue_offset: Its number there, from 0.
        status: `OK`, or what did not happen in time after it was stored.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus


Reply: TypeAlias = asyncio.Future[SendResult] | asyncio.Future[list[SendResult]]


class Outgoing(Struct, eq=False, gc=False):
    """One message, or one batch that its sender wants stored together, on its way.

    Attributes:
        body: As it goes out: packed if `sys_flag` says so, the parts of a batch joined.
        properties: Encoded; empty for a batch, whose parts have their own.
        ids: Unique key of the message, or of each part of a batch.
        is_batch: Whether `body` holds the parts of a batch.
        is_alone: Whether it must not share a request with others.
        deadline: On the monotonic clock; past it the sender is told that it failed.
        reply: What the sender waits for.
        tries: Requests made so far.
        refusals: How many of them the broker answered with an error.
        last_broker: Where the last try went.
        queue: Where it is going now.
        error: What the last try met, in words.

    Thousands of these are alive at once. They hold nothing that leads back to them, so the
    garbage collector is spared the sight of them; that is a third of the cost of a send.
    """

    topic: str
    body: bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_at_ms: int
    ids: tuple[str, ...]
    is_batch: bool
    is_alone: bool
    deadline: float = 0.0
    reply: Reply | None = None
    tries: int = 0
    refusals: int = 0
    last_broker: str = ""
    queue: MessageQueue | None = None
    error: str = ""

    @property
    def wire_size(self) -> int:
        """Bytes it takes in a request, near enough for limits."""
        return len(self.body) + len(self.properties)


def check_group(group: str) -> str:
    """Return `group` if it is a legal name of a producer or consumer group.

    Raises:
        InvalidMessage: It is empty, longer than 255 characters, or has others than letters,
            digits and `%|_-`.
    """
    if not _NAME.fullmatch(group) or len(group) > GROUP_BYTES_MAX:
        raise InvalidMessage(
            f"group {group!r}: expected 1 to {GROUP_BYTES_MAX} letters, digits or %|_-"
        )
    return group


@lru_cache(maxsize=4096)
def check_topic(topic: str) -> str:
    """Return `topic` if messages may be sent to it.

    Raises:
        InvalidMessage: The name is illegal or one of those the broker keeps for itself.
    """
    if not _NAME.fullmatch(topic) or len(topic) > NAME_BYTES_MAX:
        raise InvalidMessage(
            f"topic {topic!r}: expected 1 to {NAME_BYTES_MAX} letters, digits or %|_-"
        )
    if topic in _FORBIDDEN_TOPICS:
        raise InvalidMessage(f"topic {topic} belongs to the broker; send to one of your own")
    return topic


def prepare(
    message: Message,
    ids: UniqueIds,
    born_at_ms: int,
    *,
    body_bytes_max: int,
    compress_bytes_min: int,
) -> Outgoing:
    """Make one message ready.

    Raises:
        InvalidMessage: A rule of `Validators` or of the property format is broken.
    """
    check_topic(message.topic)
    body = message.body
    if not body or len(body) > body_bytes_max:
        raise InvalidMessage(
            f"message to {message.topic} has a body of {len(body)} bytes;"
            f" expected 1 to {body_bytes_max} (setting body_bytes_max)"
        )
    encoded, unique_key, is_delayed = _properties(message, ids)
    sys_flag = 0
    if len(body) >= compress_bytes_min:
        packed, bits = compression.compress(body)
        if len(packed) < len(body):
            body, sys_flag = packed, bits
    return Outgoing(
        message.topic,
        body,
        encoded,
        message.flag,
        sys_flag,
        born_at_ms,
        (unique_key,),
        False,
        is_delayed or sys_flag != 0 or message.topic.startswith("%RETRY%"),
    )


def prepare_batch(
    messages: Sequence[Message], ids: UniqueIds, born_at_ms: int, *, body_bytes_max: int
) -> Outgoing:
    """Make messages ready that go into one queue, one behind the other, or not at all.

    Raises:
        InvalidMessage: There is none, they differ in topic, one is delayed or goes to a retry
            topic, or together they exceed `body_bytes_max` bytes.
    """
    if not messages:
        raise InvalidMessage("a batch needs at least one message")
    topic = check_topic(messages[0].topic)
    parts, keys = [], []
    for message in messages:
        if message.topic != topic:
            raise InvalidMessage(f"a batch has one topic, not {topic} and {message.topic}")
        if not message.body:
            raise InvalidMessage(f"a message of a batch to {topic} has an empty body")
        encoded, unique_key, is_delayed = _properties(message, ids)
        if is_delayed or topic.startswith("%RETRY%"):
            raise InvalidMessage("a delayed message, or one to a retry topic, cannot be batched")
        parts.append((message.flag, message.body, encoded))
        keys.append(unique_key)
    body = batch.join(parts)
    if len(body) > body_bytes_max:
        raise InvalidMessage(
            f"a batch of {len(parts)} messages has {len(body)} bytes;"
            f" split it to at most {body_bytes_max} (setting body_bytes_max)"
        )
    return Outgoing(topic, body, b"", 0, 0, born_at_ms, tuple(keys), True, True)


def _properties(message: Message, ids: UniqueIds) -> tuple[bytes, str, bool]:
    """Return the encoded properties, the unique key, and whether delivery is to be delayed."""
    own = message.properties
    unique_key = own.get(properties.UNIQ_KEY) or ids.next()
    pairs = {properties.UNIQ_KEY: unique_key}
    if message.tag:
        pairs[properties.TAGS] = message.tag
    if message.keys:
        pairs[properties.KEYS] = _keys(message.keys)
    is_delayed = False
    if own:
        for name, field in _GIVEN_AS_FIELDS.items():
            if name in own:
                raise InvalidMessage(f"give property {name} as Message({field}=…)")
        pairs |= own
        is_delayed = not _DELAYS.isdisjoint(own)
    encoded = properties.encode(pairs)
    if len(encoded) > properties.PROPERTIES_BYTES_MAX:
        raise InvalidMessage(
            f"{len(encoded)} bytes of properties; the format holds"
            f" {properties.PROPERTIES_BYTES_MAX}"
        )
    return encoded, unique_key, is_delayed


def _keys(keys: Sequence[str]) -> str:
    if isinstance(keys, str):
        raise InvalidMessage(f"keys is a list of words, not the text {keys!r}")
    for key in keys:
        if not key or " " in key:
            raise InvalidMessage(f"key {key!r}: expected a word without blanks")
    return " ".join(keys)
