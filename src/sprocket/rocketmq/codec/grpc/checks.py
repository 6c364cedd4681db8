"""What a name, a message and a time must be like, as RocketMQ's proxy checks them.

The texts are the proxy's, so that what people find about them on the web is true here.

Source: RocketMQ `GrpcValidator`, `SendMessageActivity`, `Validators`.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import (
    NAME,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TOPIC_CHARACTERS_MAX,
    is_internal_group,
)

BODY_BYTES_MAX: Final = 4 * MIB
PROPERTIES_BYTES_MAX: Final = 16 * KIB
"""What the properties of a message may have together, with its tag and its keys."""
PROPERTIES_MAX: Final = 128
GROUP_BYTES_MAX: Final = 64
"""A message group must be shorter."""
DELAY_MS_MAX: Final = 24 * 3_600_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
RECOVERY_SECONDS_MAX: Final = 3_600
CONSUMER_GROUP_CHARACTERS_MAX: Final = 255
NAMES_REMEMBERED: Final = 1_024
"""Names of topics, and of groups, that are known to be right: to look again costs 1 µs a call."""


class MessageLimits(Struct, frozen=True):
    """What is checked of a message that has a setting.

    Attributes:
        body_bytes_max: The largest body.
        now_ms: Gives the time, since 1970.
    """

    body_bytes_max: int
    now_ms: Callable[[], int]


@lru_cache(NAMES_REMEMBERED)
def check_topic(name: str) -> None:
    """Refuse a topic that no client may name. Raises Declined: ILLEGAL_TOPIC."""
    _check_name(name, "topic", TOPIC_CHARACTERS_MAX, Code.ILLEGAL_TOPIC)
    if name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX):
        raise Declined(Code.ILLEGAL_TOPIC, "cannot access system topic")


@lru_cache(NAMES_REMEMBERED)
def check_group(name: str) -> None:
    """Refuse a group that no client may name. Raises Declined: ILLEGAL_CONSUMER_GROUP."""
    _check_name(name, "group", CONSUMER_GROUP_CHARACTERS_MAX, Code.ILLEGAL_CONSUMER_GROUP)
    if is_internal_group(name):
        raise Declined(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")


def _check_name(name: str, kind: str, characters_max: int, code: Code) -> None:
    if not name.strip():
        raise Declined(code, f"the specified {kind} is blank")
    if len(name) > characters_max:
        raise Declined(
            code, f"the specified {kind} is longer than {kind} max length: {characters_max}"
        )
    if not NAME.fullmatch(name):
        raise Declined(
            code,
            f"the specified {kind}[{name}] contains illegal characters, allowing only "
            "^[%|a-zA-Z0-9_-]+$",
        )


def check_invisible(ms: int, ms_min: int) -> None:
    """Refuse a time for which a message is to be invisible. Raises Declined."""
    if ms < ms_min:
        raise Declined(
            Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {ms_min}"
        )
    if ms > INVISIBLE_MS_MAX:
        raise Declined(
            Code.ILLEGAL_INVISIBLE_TIME,
            f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}",
        )


def check_body(size: int, limits: MessageLimits) -> None:
    """Refuse a body that is too large, or empty. Raises Declined."""
    if size > limits.body_bytes_max:
        raise Declined(
            Code.MESSAGE_BODY_TOO_LARGE,
            f"message body cannot exceed the max {limits.body_bytes_max}",
        )
    if not size:
        raise Declined(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")


def check_properties(given: Mapping[str, str], tag: str, keys: Iterable[str]) -> None:
    """Refuse names, values, tags and keys that a message may not have, and too many of them.

    Raises:
        Declined: With the code of what is wrong.
    """
    if len(given) > PROPERTIES_MAX:
        raise Declined(
            Code.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {PROPERTIES_MAX}"
        )
    size = 0
    for name, value in given.items():
        if name in properties.RESERVED:
            raise Declined(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        for text, what in ((name, "key"), (value, "value")):
            if _has_control(text):
                raise Declined(
                    Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                    f"the {what} of property cannot contain control character",
                )
            size += len(text.encode())
    check_tag(tag)
    size += len(tag.encode())
    for key in keys:
        if key and not key.strip():
            raise Declined(
                Code.ILLEGAL_MESSAGE_KEY, "key cannot be the char sequence of whitespace"
            )
        if _has_control(key):
            raise Declined(Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character")
        size += len(key.encode())
    if size > PROPERTIES_BYTES_MAX:
        raise Declined(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the total size of user property is too large, max is {PROPERTIES_BYTES_MAX}",
        )


def check_tag(tag: str) -> None:
    """Refuse a tag that no message may have. Raises Declined: ILLEGAL_MESSAGE_TAG."""
    if not tag:
        return
    if not tag.strip():
        raise Declined(Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace")
    if "|" in tag:
        raise Declined(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    if _has_control(tag):
        raise Declined(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character")


def check_message_id(text: str) -> None:
    """Refuse an id that no message may have. Raises Declined: ILLEGAL_MESSAGE_ID."""
    if not text.strip():
        raise Declined(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if _has_control(text):
        raise Declined(Code.ILLEGAL_MESSAGE_ID, "message id cannot contain control character")


def check_text(text: str, what: str) -> None:
    """Refuse what would be taken for further properties. Raises Declined: BAD_REQUEST."""
    if _has_control(text):
        raise Declined(Code.BAD_REQUEST, f"{what} cannot contain control character")


def check_due(at_ms: int, limits: MessageLimits) -> None:
    """Refuse a time of delivery that is too far ahead. Raises Declined: ILLEGAL_DELIVERY_TIME."""
    if at_ms - limits.now_ms() > DELAY_MS_MAX:
        raise Declined(
            Code.ILLEGAL_DELIVERY_TIME,
            f"the max delay time of message is too large, max is {DELAY_MS_MAX}",
        )


def check_recovery(seconds: int) -> None:
    """Refuse a transaction that is to be asked about too late. Raises Declined: BAD_REQUEST."""
    if seconds > RECOVERY_SECONDS_MAX:
        raise Declined(
            Code.BAD_REQUEST,
            "the max transaction recovery time of message is too large, max is "
            f"{RECOVERY_SECONDS_MAX}",
        )


def check_message_group(group: str) -> None:
    """Refuse a name of messages in order that is none. Raises Declined: ILLEGAL_MESSAGE_GROUP."""
    if not group.strip():
        raise Declined(
            Code.ILLEGAL_MESSAGE_GROUP, "message group cannot be the char sequence of whitespace"
        )
    if len(group.encode()) >= GROUP_BYTES_MAX:
        raise Declined(
            Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {GROUP_BYTES_MAX}"
        )
    if _has_control(group):
        raise Declined(Code.ILLEGAL_MESSAGE_GROUP, "message group cannot contain control character")


def _has_control(text: str) -> bool:
    """Tell whether a text has a character that does not print, which separates properties."""
    if text.isprintable():
        return False
    return any(unicodedata.category(char) == "Cc" for char in text)
