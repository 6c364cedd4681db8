"""What only few records contain, and what changes their queue units.

A record usually has one unit in its own queue with the hash of its tag. Three kinds differ: an
inner batch takes as many offsets as it has messages; a delayed message has the time of its delivery
in place of the hash; a record for light queues also has a unit in each of them. The properties and
the system flag say all this, as the broker left them when it appended the record.

Source: RocketMQ `CommitLog.checkMessageAndReturnSize`, `ConsumeQueue.multiDispatchLmqQueue`.
"""

from msgspec import Struct

from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import (
    LIGHT_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
)
from sprocket.rocketmq.model.message import INNER_BATCH

COUNT_MAX = 32_767
"""Most messages in an inner batch: a unit counts them in an i16."""

MARK = ord("%")
"""Looked for first: one byte is found ten times as fast as a name, and few properties hold it."""

_NEVER_LIGHT = (RETRY_PREFIX, SYSTEM_PREFIX, SCHEDULE_TOPIC)
"""Records of topics that begin so stand in no light queue."""


class Extra(Struct, frozen=True, gc=False):
    """What decides about a record's units beside topic, queue, place and tag.

    Attributes:
        count: Messages in an inner batch, which takes so many places in its queue; else 1.
        light: Names of light queues that it stands in as well, each with its offset there.
        delay_level: In `SCHEDULE_TOPIC`, the level that says how long it waits; 0 for none.
        bit_map: Which registered subscriptions it passes, see `bloom`; empty if nobody looked.
    """

    count: int = 1
    light: tuple[tuple[str, int], ...] = ()
    delay_level: int = 0
    bit_map: bytes = b""


_NOTHING = Extra()


def find(topic: str, sys_flag: int, pairs: bytes) -> Extra | None:
    """Return what is extra about a record, None if nothing is.

    `pairs` is 0x02 and the property string.
    """
    if not (sys_flag & INNER_BATCH or MARK in pairs or topic == SCHEDULE_TOPIC):
        return None
    count = level = 0
    if sys_flag & INNER_BATCH:
        count = _number(properties.value_of(pairs, b"\x02INNER_NUM\x01"), COUNT_MAX, 0)
    if topic == SCHEDULE_TOPIC:
        level = _number(properties.value_of(pairs, b"\x02DELAY\x01"), (1 << 31) - 1, 0)
    found = Extra(count or 1, _light(topic, pairs), level)
    return None if found == _NOTHING else found


def light_names(topic: str, pairs: bytes) -> list[str]:
    """Return which queues a record is to stand in beside its own, as it says; see `find`."""
    if topic.startswith(_NEVER_LIGHT):
        return []
    text = properties.value_of(pairs, b"\x02INNER_MULTI_DISPATCH\x01")
    return text.split(",") if text else []


def _light(topic: str, pairs: bytes) -> tuple[tuple[str, int], ...]:
    """Return light queues and offsets; lists of different length are not lists."""
    names = light_names(topic, pairs)
    if not names:
        return ()
    text = properties.value_of(pairs, b"\x02INNER_MULTI_QUEUE_OFFSET\x01")
    offsets = (text or "").split(",")
    if len(names) != len(offsets):
        return ()
    numbers = [_number(offset, (1 << 63) - 1, -1) for offset in offsets]
    placed = zip(names, numbers, strict=True)
    return tuple([(name, offset) for name, offset in placed if is_light(name) and offset >= 0])


def is_light(name: str) -> bool:
    """Say whether a light queue can have this name: it is a folder's."""
    return name.startswith(LIGHT_PREFIX) and "/" not in name and "\0" not in name


def _number(text: str | None, high: int, default: int) -> int:
    """Return a decimal number from 0 to `high`; `default` if the text is not one."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 20):
        return default
    number = int(text)
    return number if number <= high else default
