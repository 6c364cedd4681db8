"""Checks what users give to a producer before anything is done with it.

A wrong type or number is an `InvalidMessage` at once, with what to write instead. Otherwise it
would only be noticed where a request is made of many messages, and the caller would not learn of
it.

Source: RocketMQ `Validators.checkMessage`, and the sizes of the fields in a record.
"""

from collections.abc import Sequence

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue

TIMEOUT_MS_MAX = 2**31 - 1
"""Nearly 25 days: what brokers and clients hold a wait in."""
_FLAG_MAX = 2**31 - 1
_TIME_MS_MAX = 2**53
"""Beyond any time; RocketMQ reads integers of 64 bits."""


def check_message(message: Message, delay_level_max: int) -> bytes:
    """Check the type and range of every field of a message; return its body.

    The body is copied if it is of a kind that can change.

    Raises:
        InvalidMessage: A field is of another type than `Message` says, or out of range.
    """
    if not isinstance(message, Message):
        raise InvalidMessage(f"{_seen(message)} is not a message; write Message(topic, body)")
    if not isinstance(message.topic, str):
        raise _wrong("topic", message.topic, "text")
    if not isinstance(message.tag, str):
        raise _wrong("tag", message.tag, "text")
    keys = message.keys
    if not isinstance(keys, (list, tuple)) and (
        isinstance(keys, (str, bytes)) or not isinstance(keys, Sequence)
    ):
        raise _wrong("keys", keys, "a list of words, such as keys=['order-7']")
    for key in keys:
        if not isinstance(key, str) or not key or " " in key:
            raise _wrong("keys", key, "words without blanks, as text")
    if not isinstance(message.properties, dict):
        raise _wrong("properties", message.properties, "a dict of texts")
    if message.properties:
        for name, value in message.properties.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise _wrong(f"properties[{name!r}]", value, "text, such as str(value)")
    if not isinstance(message.flag, int) or not -_FLAG_MAX - 1 <= message.flag <= _FLAG_MAX:
        raise _wrong("flag", message.flag, "an integer of 32 bits")
    level = message.delay_level
    if not isinstance(level, int) or not 0 <= level <= delay_level_max:
        raise _wrong(
            "delay_level",
            level,
            f"0, or a level from 1 to {delay_level_max} (setting delay_level_max)",
        )
    if message.delay_ms or message.deliver_at_ms:
        _check_times(message)
    return _body(message.body)


def _check_times(message: Message) -> None:
    for name, time in (("delay_ms", message.delay_ms), ("deliver_at_ms", message.deliver_at_ms)):
        if not isinstance(time, int) or not 0 <= time <= _TIME_MS_MAX:
            raise _wrong(name, time, "whole milliseconds, 0 or more")
    if (message.delay_level, message.delay_ms, message.deliver_at_ms).count(0) < 2:
        raise InvalidMessage("give one of delay_level, delay_ms and deliver_at_ms")


def check_timeout(timeout_ms: int) -> int:
    """Return a wait in milliseconds if it is one.

    Raises:
        InvalidMessage: It is not an integer from 1 to `TIMEOUT_MS_MAX`.
    """
    if not isinstance(timeout_ms, int) or not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise _wrong("timeout_ms", timeout_ms, f"milliseconds, 1 to {TIMEOUT_MS_MAX:,}")
    return timeout_ms


def check_handle(handle: str) -> str:
    """Return what a message is to be taken back by, if it is text.

    Raises:
        InvalidMessage: It is something else, such as the None of a message that does not wait.
    """
    if not isinstance(handle, str):
        raise _wrong("handle", handle, "SendResult.recall_handle of a message that waits")
    return handle


def check_place(sharding_key: str | None, queue: MessageQueue | None, selector: object) -> None:
    """Check the types of what decides the queue of a message.

    Raises:
        InvalidMessage: One is of another type, or there are two of them.
    """
    if sharding_key is not None and not isinstance(sharding_key, str):
        raise _wrong("sharding_key", sharding_key, "text, such as str(key)")
    if queue is not None and not isinstance(queue, MessageQueue):
        raise _wrong("queue", queue, "a MessageQueue, such as SendResult.queue")
    if selector is not None and not callable(selector):
        raise _wrong("selector", selector, "a function of queues and message")
    if (sharding_key, queue, selector).count(None) < 2:
        raise InvalidMessage("give one of sharding_key, queue and selector")


def _body(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, str):
        raise _wrong("body", body, "bytes; write body=text.encode()")
    if isinstance(body, (dict, list, tuple, int, float)):
        raise _wrong("body", body, "bytes; write body=json.dumps(value).encode()")
    raise _wrong("body", body, "bytes")


def _wrong(name: str, value: object, expected: str) -> InvalidMessage:
    return InvalidMessage(f"{name} is {_seen(value)}; expected {expected}")


def _seen(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"
