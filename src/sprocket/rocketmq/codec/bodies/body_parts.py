"""What bodies of requests and answers have in common: one writer, one reader, shared pieces."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.model.group import TAG, Subscription
from sprocket.rocketmq.model.route import MessageQueue

TOLERANT_BYTES_MAX = 512 * KIB
"""Largest body of a client that is read if it is not strict JSON; that takes 0.2 s."""

encode = msgspec.json.Encoder(order="sorted").encode
"""Write a value as compact JSON, members in the order of their names, as RocketMQ does."""


PIECE_BYTES = 16 * KIB
"""How long a piece of a long body is at least, but for the last; some 0.5 ms of work."""


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces of a body to larger ones, each a fair bit of work.

    An empty one ends what is joined: it says that much was done though little was written.
    """
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES or not piece:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)


def read_object(data: bytes, what: str) -> dict[Any, Any]:
    """Read a body that must be an object."""
    return _object(fastjson.read(data, bytes_max=TOLERANT_BYTES_MAX), what)


def read_answer(data: bytes, what: str) -> dict[Any, Any]:
    """Read the body of an answer, which may be long: its sender was asked. Raises WireError."""
    return _object(fastjson.read_large(data), what)


def _object(body: Any, what: str) -> dict[Any, Any]:
    if not isinstance(body, dict):
        raise WireError(f"the body of {what} is no JSON object")
    return body


def queue_table_json(table: Mapping[MessageQueue, Any]) -> msgspec.Raw:
    """Return a map whose keys are queues, written as objects: what every Java client expects."""
    return raw_object(
        encode(message_queue_json(queue)) + b":" + encode(value) for queue, value in table.items()
    )


def queue_table(value: Any, name: str) -> dict[MessageQueue, dict[Any, Any]]:
    """Read a map from queues to objects. Raises WireError naming `name`."""
    return {
        message_queue(key): values.mapping(one, name)
        for key, one in values.mapping(value, name).items()
    }


def raw_object(entries: Iterable[bytes]) -> msgspec.Raw:
    """Return an object with entries as they are, for keys that JSON does not have."""
    return msgspec.Raw(b"{" + b",".join(entries) + b"}")


def texts(value: Any, name: str) -> list[str]:
    """Read a list of texts. Raises WireError naming `name`."""
    return [values.text(one) for one in values.sequence(value, name)]


def required(members: Mapping[Any, Any], name: str, what: str) -> Any:
    """Return a member that must be there and not null. Raises WireError naming `what`."""
    value = members.get(name)
    if value is None:
        raise WireError(f"{what} without {name}")
    return value


def message_queue_json(queue: MessageQueue) -> dict[str, str | int]:
    """Return a queue as JSON has it."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def message_queues(value: Any, name: str) -> list[MessageQueue]:
    """Read a list of queues. Raises WireError naming `name`."""
    return [message_queue(one) for one in values.sequence(value, name)]


def message_queue(value: Any) -> MessageQueue:
    """Read one queue. Raises WireError."""
    members = values.mapping(value, "a message queue")
    return MessageQueue(
        values.text(members.get("topic")),
        values.text(members.get("brokerName")),
        values.member(members, "queueId", 0),
    )


def subscription_json(subscription: Subscription) -> dict[str, Any]:
    """Return a subscription as JSON has it."""
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.tags or ()),
        "expressionType": subscription.type,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": subscription.tag_names,
        "topic": subscription.topic,
    }


def subscription(members: Mapping[Any, Any]) -> Subscription:
    """Read a subscription; tags are worked out from the text, as not every client sends them."""
    kind = members.get("expressionType")
    return Subscription.parse(
        values.text(members.get("topic")),
        values.text(members.get("subString")),
        type=values.text(kind) if kind else TAG,
        version=values.member(members, "subVersion", 0),
    )
