"""A message's way in: the checks in RocketMQ's order, the queue, the record.

Source: RocketMQ `SendMessageProcessor`, `AbstractSendMessageProcessor.msgCheck`.

Properties of nearly all messages can be stored as they came, with the broker's own behind them.
Checking many strings together costs a fifth of checking each, so that a record takes 0.9 µs among
32 and not 2.4 (docs/decisions/0038-fast-ways.md). The joint check counts, so what one
string lacks could be made good by another; therefore what must be true of each string is also
checked in each.

Unlike RocketMQ 5.3.3, the parts of a batch keep their own `UNIQ_KEY` (there the batch's own key
replaces them all, and no part can be found by its key).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from sprocket.base.errors import WireError
from sprocket.rocketmq.broker.messages.diverters import Diverter, InboundMessage
from sprocket.rocketmq.broker.messages.half_messages import hide, is_transactional
from sprocket.rocketmq.broker.messages.waits import EXAMINED, Waits
from sprocket.rocketmq.broker.topics import FORBIDDEN_TO_SEND, Topics, check_name
from sprocket.rocketmq.codec.record import COUNT_MAX, batch, batch_rows, parse_host, properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX
from sprocket.rocketmq.model.message import (
    BORN_HOST_V6,
    INNER_BATCH,
    NEED_UNWRAP,
    STORE_HOST_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Column,
    NewBatch,
    NewHalf,
    NewRecord,
    ProducedMessage,
    SendRequest,
)
from sprocket.rocketmq.model.topic import UNIT, UNIT_SUBSCRIPTION, TopicConfig

REGION = "DefaultRegion"
"""RocketMQ's default; clients copy it into traces."""


_REWRITTEN = frozenset(
    {
        properties.MSG_REGION,
        properties.TRACE_ON,
        properties.CLUSTER,
        properties.POP_CK,
        properties.CRC32,
    }
)
"""What no record takes over from its sender."""

SPECIAL = _REWRITTEN | EXAMINED | {properties.TRAN_MSG}
"""What asks for a further look; most messages have none of it."""

_UNIQUE_NAME = f"{properties.UNIQ_KEY}\x01"
"""How the unique key begins, if it is the first property."""

_UNIQUE = f"\x02{_UNIQUE_NAME}"
"""How it begins behind others."""

_MARKS = ("\x01\x02", *[f"\x02{name}\x01" for name in sorted(SPECIAL)])
"""What shows an empty value or a special name in property strings that are joined."""


_TRANSACTIONAL = f"\x02{properties.TRAN_MSG}\x01true\x02"
_SAID_OF_HALVES = [
    f"\x02{name}\x01"
    for name in (
        *(properties.REAL_TOPIC, properties.REAL_QID, properties.TRANSACTION_ID),
        *(properties.TRANSACTION_CHECK_TIMES, properties.TRAN_PREPARED_QUEUE_OFFSET),
        properties.CHECK_IMMUNITY_SECONDS,
    )
]
"""What the broker says of half messages itself, and what would make one unlike others."""
_GROUP = f"\x02{properties.PRODUCER_GROUP}\x01"

_NOT_SHARED = _REWRITTEN | {properties.UNIQ_KEY}
"""What the parts of a batch do not get from it."""

KNOWN_FORMS_MAX = 64
"""Forms of properties that are remembered, one of each length."""

_UNIQUE_CHARACTERS = len(_UNIQUE)
_SPECIAL_FLAGS = TRANSACTION_MASK | INNER_BATCH
_CLEARED_FLAGS = ~(BORN_HOST_V6 | STORE_HOST_V6)
"""The hosts say what they are; a client that sets these bits would break the record."""


class _KnownForm(NamedTuple):
    """What is added to each property string of a form.

    Attributes:
        form: Of batches that were looked at.
        shared: What each of them had for all its parts.
        added: What is added to each part.
    """

    form: batch_rows.Form
    shared: Mapping[str, str]
    added: bytes


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the broker adds to every message.

    Attributes:
        store_host: The address that clients reach it at, as records hold it.
        cluster: Its cluster's name.
        new_unique_key: Gives a message without `UNIQ_KEY` one.
    """

    store_host: bytes
    cluster: str
    new_unique_key: Callable[[], str]


class Sender:
    """Turns send requests into records.

    Args:
        topics: Where topics are looked up and made.
        waits: Say whether a message is to wait; a batch may not.
        diverters: Who may send messages elsewhere, in RocketMQ's order.
        stamp: What each message gets.
        below: `below(n)` picks a queue from 0 to n − 1 for who leaves it to us.
    """

    def __init__(
        self,
        topics: Topics,
        waits: Waits,
        diverters: Sequence[Diverter],
        stamp: Stamp,
        *,
        below: Callable[[int], int] = random.randrange,
    ) -> None:
        self.knows = topics.knows
        """Whether a topic is there already."""
        self._topics = topics
        self._waits = waits
        self._diverters = diverters
        self._hides = hide in diverters
        self._store_host = stamp.store_host
        self._new_unique_key = stamp.new_unique_key
        self._below = below
        added = {
            properties.MSG_REGION: REGION,
            properties.TRACE_ON: "true",
            properties.CLUSTER: stamp.cluster,
        }
        self._suffix = properties.encode(added).decode()
        self._batch_suffix = BatchSuffix(self._suffix)

    def records(self, requests: Sequence[SendRequest]) -> list[NewRecord | Exception]:
        """Return the record of each message, ready to be appended, or why there is none.

        Most messages have nothing that asks for a closer look, which is seen for all at once; what
        becomes of them here reads as what `record` would make.
        """
        texts = [request.message.properties for request in requests]
        closed = "\x02" + "".join(texts)
        all_ascii, has_halves = closed.isascii(), self._hides and _TRANSACTIONAL in closed
        all_plain = not [text for text in texts if text[-1:] != "\x02"] and (
            are_plain_halves(closed, len(texts)) if has_halves else are_plain(closed, len(texts))
        )
        queues: dict[str, int] = {}
        suffix, store_host = self._suffix, self._store_host
        made: list[NewRecord | Exception] = []
        for request, text in zip(requests, texts, strict=True):
            message, body = request.message, request.body
            topic, queue_id = message.topic, message.queue_id
            plain_queues = queues.get(topic)
            if plain_queues is None:
                plain_queues = queues[topic] = self._plain_queues(topic)
            sys_flag = message.sys_flag
            is_half = has_halves and _TRANSACTIONAL in f"\x02{text}"
            key_at = text.rfind(_UNIQUE) + _UNIQUE_CHARACTERS
            if (
                0 <= queue_id < plain_queues
                and body
                and not sys_flag & (INNER_BATCH if is_half else _SPECIAL_FLAGS)
                and (all_ascii or text.isascii())
                and (all_plain or _is_plain(text, is_half=is_half))
                and (key_at >= _UNIQUE_CHARACTERS or text.startswith(_UNIQUE_NAME))
                and not (is_half and message.reconsume_times)
            ):
                key = text[key_at : text.find("\x02", key_at)]
                if is_half:
                    made.append(self._half(request, key))
                    continue
                made.append(
                    NewRecord(
                        topic,
                        queue_id,
                        body,
                        (text + suffix).encode(),
                        parse_host(request.address),
                        store_host,
                        message.flag,
                        sys_flag & _CLEARED_FLAGS,
                        message.born_timestamp,
                        message.reconsume_times,
                        0,
                        key,
                    )
                )
            else:
                made.append(self._any_record(request))
        return made

    def _half(self, request: SendRequest, key: str) -> NewHalf:
        """Return the record of a half message that has nothing else to be looked at.

        Args:
            request: What is sent.
            key: Its unique key.
        """
        message = request.message
        topic, queue_id, closed = message.topic, message.queue_id, f"\x02{message.properties}"
        group_at = closed.rfind(_GROUP) + len(_GROUP)
        has_group = group_at >= len(_GROUP)
        group = closed[group_at : closed.find("\x02", group_at)] if has_group else ""
        real = f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02"
        text = f"{message.properties}{real}__transactionId__\x01{key}\x02{self._suffix}"
        return NewHalf(
            HALF_TOPIC,
            0,
            request.body,
            text.encode(),
            parse_host(request.address),
            self._store_host,
            message.flag,
            message.sys_flag & _CLEARED_FLAGS & ~TRANSACTION_MASK,
            message.born_timestamp,
            0,
            0,
            key,
            real_topic=topic,
            real_queue_id=queue_id,
            group=group,
        )

    def _plain_queues(self, name: str) -> int:
        """Return to how many queues of a topic plain messages may go; 0 if more is to be seen."""
        topic = self._topics.get(name)
        if topic is None or topic.is_compacted or name[0] == "%" or name in FORBIDDEN_TO_SEND:
            return 0
        return 0 if topic.order and not self._topics.is_writable else topic.write_queues

    def _any_record(self, request: SendRequest) -> NewRecord | Exception:
        try:
            return self.record(request)
        except Exception as error:
            return error

    def record(self, request: SendRequest) -> NewRecord:
        """Return the record of one message, ready to be appended.

        Raises:
            Refused: A check failed.
        """
        message, body = request.message, request.body
        topic, queue_id = self._place(message)
        if not body and not topic.is_compacted:  # there it deletes what its key had
            raise Refused(Refusal.OTHER, "the message has no body")
        found = properties.decode(message.properties)
        way = InboundMessage(message, message.topic, queue_id, found, message.sys_flag)
        for divert in self._diverters:
            divert(way)
        _check_key(topic, found)
        if way.sys_flag & _SPECIAL_FLAGS:
            _check_flags(way.sys_flag)
        stored = self._properties(found, {})
        unique_key = found[properties.UNIQ_KEY]
        if not unique_key.isascii():
            unique_key = unique_key.encode("utf-8", "replace").decode()
        return structs.replace(
            self._bare(request, way.queue_id, unique_key),
            topic=way.topic,
            body=body,
            properties=stored,
            sys_flag=way.sys_flag & _CLEARED_FLAGS,
        )

    def _bare(self, request: SendRequest, queue_id: int, unique_key: str) -> NewRecord:
        """Return what a request says of its record, or of each of them: no body, no properties."""
        message = request.message
        return NewRecord(
            message.topic,
            queue_id,
            b"",
            b"",
            parse_host(request.address),
            self._store_host,
            message.flag,
            message.sys_flag & _CLEARED_FLAGS,
            message.born_timestamp,
            message.reconsume_times,
            0,
            unique_key,
        )

    def batch(self, request: SendRequest) -> NewBatch | NewRecord:
        """Return the messages of a batch, ready to be appended.

        They are one record if the topic has queues of batches and the batch has a key of its own.

        Raises:
            Refused: A check failed, or the batch cannot be taken apart.
        """
        message, body = request.message, request.body
        topic, queue_id = self._place(message)
        if topic.name.startswith(RETRY_PREFIX):
            raise _illegal("a batch may not be sent to a retry topic")
        if message.sys_flag & _SPECIAL_FLAGS:
            raise _illegal("a batch may be neither transactional nor an inner one")
        shared = properties.decode(message.properties)
        is_inner = topic.takes_batches and properties.UNIQ_KEY in shared
        if is_inner:
            shared.pop(properties.INNER_NUM, None)  # counted here, whatever the sender says
        self._refuse_unsupported_in_batch(shared)
        size = len(message.properties.encode()) + len(self._suffix)
        if size > properties.PROPERTIES_BYTES_MAX:
            raise Refused(Refusal.OTHER, "the batch's properties are too long")
        try:
            parts = batch.split(body)
        except WireError as error:
            raise Refused(Refusal.OTHER, str(error)) from error
        if not parts.bodies:
            raise Refused(Refusal.OTHER, "the batch is empty")
        unique_key = shared.get(properties.UNIQ_KEY, "")
        record = self._bare(request, queue_id, unique_key)
        if is_inner:
            _check_key(topic, shared)
            record = structs.replace(record, body=body)
            return self._inner_batch(record, len(parts.bodies), shared)
        if not _NOT_SHARED.isdisjoint(shared):
            shared = {name: value for name, value in shared.items() if name not in _NOT_SHARED}
        flags, bodies, texts = parts
        added = self._batch_suffix.added(texts, shared)
        if added is None or topic.is_compacted:
            added = b""
            texts = [self._properties_of_part(topic, text, shared) for text in texts]
        return NewBatch(structs.replace(record, flag=0), flags, bodies, texts, added)

    def _inner_batch(self, record: NewRecord, count: int, shared: dict[str, str]) -> NewRecord:
        """Return a batch as one record: its body as it came, with the properties of the batch."""
        if count > COUNT_MAX:
            raise _illegal(f"a batch of {count} messages, {COUNT_MAX} may be")
        said = shared | {properties.INNER_NUM: str(count)}
        return structs.replace(
            record,
            properties=self._properties(said, {}),
            sys_flag=record.sys_flag | INNER_BATCH | NEED_UNWRAP,
        )

    def _properties_of_part(
        self, topic: TopicConfig, given: bytes, shared: Mapping[str, str]
    ) -> bytes:
        """Return the properties to store of any part of a batch."""
        found = properties.decode(given)
        self._refuse_unsupported_in_batch(found)
        _check_key(topic, found)
        return self._properties(found, shared)

    def _properties(self, found: dict[str, str], shared: Mapping[str, str]) -> bytes:
        """Return the properties of a record, whatever they are.

        Pairs that came under names of their own, each closed, read as they came.

        Args:
            found: Those of the message; gets a unique key if there is none, and `shared`.
            shared: Those of its batch.
        """
        if properties.UNIQ_KEY not in found:
            found[properties.UNIQ_KEY] = self._new_unique_key()
        found.update(shared)
        kept = [f"{name}\x01{value}\x02" for name, value in found.items() if name not in _REWRITTEN]
        return ("".join(kept) + self._suffix).encode("utf-8", "replace")

    def _place(self, message: ProducedMessage) -> tuple[TopicConfig, int]:
        """Return topic and queue that the request names, checked, the topic made if it is new."""
        topic = self._topics.get(message.topic)
        if topic is not None and topic.order:
            self._topics.check_writable()
        if topic is None:
            topic = self._make_topic(message)
        elif topic.name in FORBIDDEN_TO_SEND:
            raise _forbidden(topic.name)
        queue_id = message.queue_id
        if queue_id >= topic.write_queues and queue_id >= topic.read_queues:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"queueId[{queue_id}] is illegal, topic {topic.name} has "
                f"{topic.read_queues} read and {topic.write_queues} write queues",
            )
        if queue_id < 0:
            queue_id = self._below(topic.write_queues) if topic.write_queues > 0 else 0
        return topic, queue_id

    def _make_topic(self, message: ProducedMessage) -> TopicConfig:
        name = message.topic
        check_name(name)
        if name in FORBIDDEN_TO_SEND:
            raise _forbidden(name)
        template, queues = message.default_topic, message.default_topic_queue_nums
        if template is None or queues is None:
            what = "defaultTopic" if template is None else "defaultTopicQueueNums"
            raise Refused(
                Refusal.OTHER, f"topic {name} is not there, and {what} does not say how to make it"
            )
        is_unit = bool(message.unit_mode)
        is_retry = name.startswith(RETRY_PREFIX)
        sys_flag = (UNIT_SUBSCRIPTION if is_retry else UNIT) if is_unit else 0
        try:
            return self._topics.make_for_send(name, template, queues, sys_flag)
        except Refused:
            if is_retry or name.startswith(DEAD_LETTER_PREFIX):
                return self._topics.make_internal(name, 1, sys_flag=sys_flag)
            raise

    def _refuse_unsupported_in_batch(self, found: dict[str, str]) -> None:
        if is_transactional(found):
            raise _illegal("a batch may not be transactional")
        if self._waits.asked_for(found):
            raise _illegal("a batch may not be delayed")


def are_plain(closed: str, count: int) -> bool:
    """Say whether property strings can be added to as they are, except for what each must have.

    There are as many pairs as ends, and as many unique keys as strings; none has an empty value or
    a name of `SPECIAL`.

    Args:
        closed: 0x02 and the strings, each of which is to end in 0x02.
        count: How many they are.
    """
    if not closed.count(_UNIQUE) == closed.count(_UNIQUE_NAME) == count:
        return False
    if closed.count("\x01") + 1 != closed.count("\x02"):
        return False
    for mark in _MARKS:  # noqa: SIM110 - a generator would cost half as much again
        if mark in closed:
            return False
    return True


def are_plain_halves(closed: str, count: int) -> bool:
    """Say the same of strings of which some belong to transactions, as that of half messages.

    Args:
        closed: See `are_plain`.
        count: See there.
    """
    for mark in _SAID_OF_HALVES:
        if mark in closed:
            return False
    return are_plain(closed.replace(_TRANSACTIONAL, "\x02"), count)


def _is_plain(text: str, *, is_half: bool) -> bool:
    """Say whether one property string is plain; see `are_plain`."""
    look = are_plain_halves if is_half else are_plain
    return text[-1:] == "\x02" and look(f"\x02{text}", 1)


class BatchSuffix:
    """Says what to add to the properties of each part of a batch.

    The batches of a producer mostly have the form of those before, for which it is known: to see
    that takes a third of looking at the properties again.

    Args:
        suffix: The broker's own properties.
    """

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self.known: dict[int, _KnownForm] = {}
        """Forms that were looked at, by the length of their strings."""

    def added(self, texts: Sequence[bytes], shared: Mapping[str, str]) -> bytes | None:
        """Return what to add to each of some properties; see `added_to_each`."""
        if not isinstance(texts, Column) or len(texts) < batch_rows.ROWS_MIN:
            return added_to_each(texts, shared, self._suffix)
        known = self.known.get(texts.width)
        if known is not None and known.shared == shared and known.form.fits(texts):
            return known.added
        form = batch_rows.Form.of(texts[0], shared)
        if form is None or not form.fits(texts):
            return added_to_each(texts, shared, self._suffix)
        added = added_to_each([texts[0]], shared, self._suffix)  # what holds for it holds for all
        if added is not None:
            if len(self.known) >= KNOWN_FORMS_MAX:
                self.known.clear()
            self.known[texts.width] = _KnownForm(form, shared, added)
        return added


def added_to_each(texts: Sequence[bytes], shared: Mapping[str, str], suffix: str) -> bytes | None:
    """Return what to add to the properties of each part of a batch; None if one is not plain.

    Args:
        texts: Properties of each.
        shared: Those of the batch, which each is to have.
        suffix: The broker's own.
    """
    try:
        closed = "\x02" + b"".join(texts).decode()
    except UnicodeDecodeError:
        return None
    key = _UNIQUE_NAME.encode()
    if [text for text in texts if text[-1:] != b"\x02" or key not in text]:
        return None
    if not are_plain(closed, len(texts)):
        return None
    for name, value in shared.items():
        if f"\x02{name}\x01" not in closed:
            suffix = f"{name}\x01{value}\x02{suffix}"
        elif not _each_has(texts, closed, name, value):
            return None
    return suffix.encode("utf-8", "replace")


def _each_has(texts: Sequence[bytes], closed: str, name: str, value: str) -> bool:
    """Say whether each of some property strings has a pair once, and no other of its name.

    Args:
        texts: The strings.
        closed: See `are_plain`.
        name: The pair's.
        value: The pair's.
    """
    start, pair = f"{name}\x01", f"{name}\x01{value}\x02".encode("utf-8", "replace")
    if not closed.count(f"\x02{start}") == closed.count(start) == len(texts):
        return False
    return not [text for text in texts if pair not in text]


def _check_key(topic: TopicConfig, found: dict[str, str]) -> None:
    """Refuse what compaction could not keep, in RocketMQ's words."""
    if topic.is_compacted and not found.get(properties.KEYS, "").strip():
        raise _illegal("Required message key is missing")


def _check_flags(sys_flag: int) -> None:
    if sys_flag & INNER_BATCH:
        raise _illegal("a single message is not an inner batch, though its flags say so")
    if sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
        raise _illegal("the message's flags say that it is transactional, its properties do not")


def _illegal(why: str) -> Refused:
    return Refused(Refusal.ILLEGAL_MESSAGE, why)


def _forbidden(topic: str) -> Refused:
    return Refused(Refusal.NO_PERMISSION, f"topic [{topic}] may not be sent to")
