"""Attributes of topics, RocketMQ 5's named settings of one topic, and how they are changed.

A change is `+name=value` (add, or replace) or `-name` (remove), several joined by commas. What
kind of queues a topic has, and whether it is compacted, is fixed when it is made; the rest may be
changed later.

Source: RocketMQ `AttributeParser`, `AttributeUtil`, `TopicAttributes`.
"""

from collections.abc import Mapping

from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.topic import (
    BATCH_QUEUES,
    CLEANUP_POLICY,
    COMPACTION,
    QUEUE_TYPE,
    RESERVE_TIME,
    is_hours,
)

MESSAGE_TYPE = "message.type"

VALUES = {
    MESSAGE_TYPE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"),
    QUEUE_TYPE: ("SimpleCQ", BATCH_QUEUES),
    CLEANUP_POLICY: ("DELETE", COMPACTION),
}
"""What may be said, by name: nothing that asks for what is not there."""

CHANGEABLE = frozenset({MESSAGE_TYPE, RESERVE_TIME})
SUPPORTED = (*VALUES, RESERVE_TIME)


def parse(text: str) -> dict[str, str]:
    """Return the changes in a text by their signed names: `+name` with a value, `-name` without.

    Raises:
        Refused: OTHER; it is not of that form.
    """
    changes: dict[str, str] = {}
    for change in text.split(",") if text else ():
        name, equals, value = change.partition("=")
        sign = name[:1]
        if sign not in ("+", "-") or len(name) < 2 or (sign == "+") != bool(equals):
            raise _refused(f"attribute {change!r}: expected +name=value or -name")
        if name in changes:
            raise _refused(f"attribute {name} is named twice")
        changes[name] = value
    return changes


def altered(old: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's attributes after changes.

    Args:
        old: Those that it has; None if the topic is new.
        changes: As `parse` gives them.

    Raises:
        Refused: OTHER; an attribute is unknown, may not be changed, or a value asks
            for what is not there. INVALID_ARGUMENT for mixed message types, as in RocketMQ.
    """
    found = dict(old or {})
    names = [signed[1:] for signed in changes]
    for signed, value in changes.items():
        name = signed[1:]
        if signed[0] not in ("+", "-"):
            raise _refused(f"attribute {signed}: expected +name or -name")
        if names.count(name) > 1:
            raise _refused(f"attribute {name} is both added and removed")
        if name not in SUPPORTED:
            raise _refused(f"attribute {name} is not supported, {', '.join(SUPPORTED)} are")
        if old is not None and name not in CHANGEABLE:
            raise _refused(f"attribute {name} cannot be changed once the topic is there")
        if signed[0] == "+":
            found[name] = _checked(name, value)
        elif old is None:
            raise _refused(f"attribute {name} cannot be removed from a topic that is new")
        elif name not in found:
            raise _refused(f"attribute {name} is not there")
        else:
            del found[name]
    return found


def _checked(name: str, value: str) -> str:
    if (name, value) == (MESSAGE_TYPE, "MIXED"):
        raise Refused(Refusal.INVALID_ARGUMENT, "MIXED message type is not supported.")
    if name == RESERVE_TIME:
        if not is_hours(value):
            raise _refused(
                f"attribute {name}={value}: expected hours, or -1 for those of the broker"
            )
        return value
    if value not in VALUES[name]:
        raise _refused(f"attribute {name}={value} is not supported, {', '.join(VALUES[name])} are")
    return value


def _refused(remark: str) -> Refused:
    return Refused(Refusal.OTHER, remark)
