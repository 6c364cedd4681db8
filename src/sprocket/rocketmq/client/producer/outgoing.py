"""Messages made ready to send: checked, with an id, packed, their properties encoded."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.errors import InvalidMessage, MethodMissing
from sprocket.base.units import KIB
from sprocket.rocketmq.client.producer.place import Place
from sprocket.rocketmq.client.producer.validation import check_message
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.codec.record import UniqueIds, batch, properties
from sprocket.rocketmq.model.internal import (
    FORBIDDEN_TO_SEND,
    NAME,
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
)
from sprocket.rocketmq.model.message import Message, compression_flag
from sprocket.rocketmq.model.route import MessageQueue

GROUP_BYTES_MAX = 255

BATCH_MESSAGES_MAX = 1024
"""Messages in one request; its answer holds a list of as many ids."""

_PART_BYTES = 150
"""What a batch adds to a message: sizes, checksum and flag, its unique key, and names."""
_GIVEN_AS_FIELDS = {
    properties.TAGS: "tag",
    properties.KEYS: "keys",
    properties.DELAY: "delay_level",
}
TIMERS = frozenset(
    (
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
        recall_handle: What `Producer.recall` takes a message back by that waits for its time; None
            if it does not, or is one of a batch.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus
    recall_handle: str | None = None


Reply: TypeAlias = asyncio.Future[SendResult] | asyncio.Future[list[SendResult]]


class PackedBatch(Struct, frozen=True, gc=False):
    """Messages of one topic whose batch body their sender has made itself.

    Attributes:
        topic: Where they go.
        body: What `codec.record.batch.join` would make of them; each has a UNIQ_KEY of its own.
        first_key: The UNIQ_KEY of the first, by which errors and the result name the batch.
    """

    topic: str
    body: bytes
    first_key: str


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
        sent_at: When the last try went out, on the monotonic clock.
        stored: What a broker said that stored it, but not as safely as it should.
        is_reply: Whether it answers a request and goes to the one client that waits for it.
        place: How its queue is decided; None for any queue.
        ended: Called with `reply` once it is known; with None where nobody replies.

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
    sent_at: float = 0.0
    stored: SendResult | None = None
    is_reply: bool = False
    place: Place | None = None
    ended: "Callable[[Reply | None], None] | None" = None

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
    if not isinstance(group, str) or not NAME.fullmatch(group) or len(group) > GROUP_BYTES_MAX:
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
    if not NAME.fullmatch(topic) or len(topic) > TOPIC_CHARACTERS_MAX:
        raise InvalidMessage(
            f"topic {topic!r}: expected 1 to {TOPIC_CHARACTERS_MAX} letters, digits or %|_-"
        )
    if topic in FORBIDDEN_TO_SEND:
        raise InvalidMessage(f"topic {topic} belongs to the broker; send to one of your own")
    return topic


def prepare(
    message: Message, ids: UniqueIds, born_at_ms: int, settings: ProducerSettings
) -> Outgoing:
    """Make one message ready.

    Raises:
        InvalidMessage: A rule of `Validators` or of the property format is broken.
    """
    body = check_message(message, settings.delay_level_max)
    check_topic(message.topic)
    # Without a body it deletes its key, in a compaction topic; brokers refuse it elsewhere.
    if (not body and not message.keys) or len(body) > settings.body_bytes_max:
        raise InvalidMessage(
            f"message to {message.topic} has a body of {len(body)} bytes;"
            f" expected 1 to {settings.body_bytes_max} (setting body_bytes_max)"
        )
    encoded, unique_key, is_delayed = _properties(message, ids)
    sys_flag = 0
    if len(body) >= settings.compress_bytes_min:
        method = Method(settings.compress_method.upper())
        try:
            packed = compression.compress(method, body, level=settings.compress_level)
        except MethodMissing as error:
            raise InvalidMessage(
                f"compress_method = {settings.compress_method!r}: {error}"
            ) from error
        if len(packed) < len(body):
            body, sys_flag = packed, compression_flag(method)
    one = Outgoing(
        message.topic,
        body,
        encoded,
        message.flag,
        sys_flag,
        born_at_ms,
        (unique_key,),
        False,
        is_delayed or sys_flag != 0 or message.topic.startswith(RETRY_PREFIX),
    )
    if message.properties:
        one.is_reply = message.properties.get(properties.MSG_TYPE) == properties.REPLY
        one.is_alone |= one.is_reply or properties.TRAN_MSG in message.properties
    return one


def prepare_batch(
    messages: Sequence[Message], ids: UniqueIds, born_at_ms: int, settings: ProducerSettings
) -> Outgoing:
    """Make messages ready that go into one queue, one after the other, or not at all.

    Raises:
        InvalidMessage: There is none, they differ in topic, one is delayed or goes to a retry
            topic, or together they exceed the setting `body_bytes_max`.
    """
    if isinstance(messages, Message) or not messages:
        raise InvalidMessage("a batch is a list of at least one message")
    parts, keys = [], []
    topic = ""
    for message in messages:
        body = check_message(message, settings.delay_level_max)
        topic = topic or check_topic(message.topic)
        if message.topic != topic:
            raise InvalidMessage(f"a batch has one topic, not {topic} and {message.topic}")
        if not body:
            raise InvalidMessage(f"a message of a batch to {topic} has an empty body")
        encoded, unique_key, is_delayed = _properties(message, ids)
        if is_delayed or topic.startswith(RETRY_PREFIX):
            raise InvalidMessage("a delayed message, or one to a retry topic, cannot be batched")
        parts.append((message.flag, body, encoded))
        keys.append(unique_key)
    joined = batch.join(parts)
    if len(joined) > settings.body_bytes_max:
        raise InvalidMessage(
            f"a batch of {len(parts)} messages has {len(joined)} bytes;"
            f" split it to at most {settings.body_bytes_max} (setting body_bytes_max)"
        )
    return Outgoing(topic, joined, b"", 0, 0, born_at_ms, tuple(keys), True, True)


def prepare_packed(packed: PackedBatch, born_at_ms: int, settings: ProducerSettings) -> Outgoing:
    """Make a batch ready that is a body already.

    Raises:
        InvalidMessage: Its topic is not a user's, or it is empty or exceeds `body_bytes_max`.
    """
    topic = check_topic(packed.topic)
    if not packed.body or len(packed.body) > settings.body_bytes_max:
        raise InvalidMessage(
            f"a batch to {topic} has {len(packed.body)} bytes;"
            f" expected 1 to {settings.body_bytes_max} (setting body_bytes_max)"
        )
    ids = (packed.first_key,)
    return Outgoing(topic, packed.body, b"", 0, 0, born_at_ms, ids, True, True)


def split_batch(
    messages: Iterable[Message], *, bytes_max: int = 128 * KIB
) -> Iterator[list[Message]]:
    """Cut many messages into lists that `send_batch` takes, in their order.

        for part in split_batch(messages):
            await producer.send_batch(part)

    A list ends where the topic changes, and where its messages would take more than `bytes_max`
    bytes together; one that is longer by itself makes a list of its own. At most 1,024 messages go
    into one.
    """
    part: list[Message] = []
    size = 0
    for message in messages:
        own_size = _size_in_batch(message)
        is_full = size + own_size > bytes_max or len(part) == BATCH_MESSAGES_MAX
        if part and (is_full or message.topic != part[0].topic):
            yield part
            part, size = [], 0
        part.append(message)
        size += own_size
    if part:
        yield part


def _size_in_batch(message: Message) -> int:
    """Return about how many bytes a message takes in a batch; rather too many than too few."""
    pairs = sum(4 * (len(name) + len(value)) + 2 for name, value in message.properties.items())
    keys = sum(4 * len(key) + 1 for key in message.keys)
    return len(message.body) + pairs + keys + 4 * len(message.tag) + _PART_BYTES


def _properties(message: Message, ids: UniqueIds) -> tuple[bytes, str, bool]:
    """Return the encoded properties, the unique key, and whether delivery is to be delayed."""
    own = message.properties
    unique_key = own.get(properties.UNIQ_KEY) or ids.next()
    pairs = {properties.UNIQ_KEY: unique_key}
    if message.tag:
        pairs[properties.TAGS] = message.tag
    if message.keys:
        pairs[properties.KEYS] = " ".join(message.keys)
    is_delayed = False
    if message.delay_level:
        pairs[properties.DELAY] = str(message.delay_level)
        is_delayed = True
    elif message.delay_ms:
        pairs[properties.TIMER_DELAY_MS] = str(message.delay_ms)
        is_delayed = True
    elif message.deliver_at_ms:
        pairs[properties.TIMER_DELIVER_MS] = str(message.deliver_at_ms)
        is_delayed = True
    if own:
        for name, field in _GIVEN_AS_FIELDS.items():
            if name in own:
                raise InvalidMessage(f"give property {name} as Message({field}=…)")
        pairs |= own
        is_delayed = is_delayed or not TIMERS.isdisjoint(own)
    encoded = properties.encode(pairs)
    if len(encoded) > properties.PROPERTIES_BYTES_MAX:
        raise InvalidMessage(
            f"{len(encoded)} bytes of properties; the format holds"
            f" {properties.PROPERTIES_BYTES_MAX}"
        )
    return encoded, unique_key, is_delayed
