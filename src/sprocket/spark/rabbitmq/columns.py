"""The columns of the format `rabbitmq`: what each is called, says, and is made of."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.rabbitmq.codec.columns import Ints, Mask
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.store.reading import MessageState
from sprocket.spark.arrow import numbers, repeated, text
from sprocket.spark.map_json import as_json
from sprocket.spark.rabbitmq.message_rows import MessageRows, known

_TIMESTAMP = pa.timestamp("us", "UTC")
_LAST_S = 253_402_300_799
"""The end of the year 9999, the last that Spark and Python can show."""
_MICROSECONDS = 1_000_000
STATES = tuple(MessageState)


@dataclasses.dataclass(frozen=True, slots=True)
class MessageColumn:
    """A column of the source.

    Args:
        kind: Spark's name of its type.
        make: Makes it from rows.
        note: What it says, for the guide.
        needs_message: The message must be read for it; else the index of the queue is enough.
    """

    kind: str
    make: Callable[[MessageRows], Any]
    note: str
    needs_message: bool = True


def _of_index(kind: str, make: Callable[[MessageRows], Any], note: str) -> MessageColumn:
    return MessageColumn(kind, make, note, needs_message=False)


def _text(name: str, note: str) -> MessageColumn:
    """Return a column that is a property, a text."""

    def make(rows: MessageRows) -> Any:
        found = rows.properties
        return rows.text(found.values[name], rows.has_properties & found.is_there[name])

    return MessageColumn("string", make, note)


def _number(name: str, note: str) -> MessageColumn:
    """Return a column that is a property, a small number."""

    def make(rows: MessageRows) -> Any:
        values = rows.properties.numbers(rows.octets, name).astype(np.int32)
        is_known = rows.has_properties & rows.properties.is_there[name]
        return numbers(values, pa.int32(), is_known=is_known)

    return MessageColumn("int", make, note)


def name_text(name: str) -> str:
    """Return the name of a queue or a virtual host as its column has it."""
    return name_bytes(name).decode("utf-8", "replace")


def _repeated_name(name: str, count: int) -> Any:
    return repeated(name_text(name), count)


def _priorities(rows: MessageRows) -> Any:
    if rows.queue.priority is None:
        return pa.nulls(len(rows), pa.int32())
    return numbers(np.full(len(rows), rows.queue.priority, np.int32), pa.int32())


def _times_us(at_us: Ints, is_known: Mask) -> Any:
    """Return times, null where not known or where Spark could not show the year."""
    return numbers(np.where(is_known, at_us, 0), _TIMESTAMP, is_known=is_known)


def _expire(rows: MessageRows) -> Any:
    stored = rows.index.expiry_us[rows.which]
    is_known: Mask = (stored > 0) & (stored <= np.uint64(_LAST_S * _MICROSECONDS))
    return _times_us(np.where(is_known, stored, 0).astype(np.int64), is_known)


def _timestamps(rows: MessageRows) -> Any:
    seconds = rows.properties.numbers(rows.octets, "timestamp")
    is_known = rows.has_properties & rows.properties.is_there["timestamp"]
    is_known &= (seconds >= 0) & (seconds <= _LAST_S)
    return _times_us(np.where(is_known, seconds, 0) * _MICROSECONDS, is_known)


def _booleans(values: Mask) -> Any:
    return pa.array(np.ascontiguousarray(values))


def _routing_keys(rows: MessageRows) -> Any:
    lists = rows.lists(rows.spans.routing_keys)
    made = pa.ListArray.from_arrays(lists.offsets, text(lists.values))
    return known(made, rows.has_message)


def _corruption(rows: MessageRows) -> Any:
    if not rows.faults:
        return pa.nulls(len(rows), pa.string())
    return pa.array([rows.faults.get(row) for row in range(len(rows))], pa.string())


def _states(rows: MessageRows) -> Any:
    names = pa.array([state.value for state in STATES])
    return names.take(numbers(rows.states, pa.int64()))


COLUMNS: dict[str, MessageColumn] = {
    "vhost": _of_index(
        "string", lambda rows: _repeated_name(rows.queue.vhost, len(rows)), "the virtual host"
    ),
    "queue": _of_index(
        "string", lambda rows: _repeated_name(rows.queue.name, len(rows)), "the queue"
    ),
    "queuePriority": _of_index(
        "int", _priorities, "of a queue with priorities, which one; null of any other"
    ),
    "seqId": _of_index(
        "bigint",
        lambda rows: numbers(rows.index.seq_ids[rows.which], pa.int64()),
        "number within the queue, of each priority: its order",
    ),
    "state": _of_index(
        "string",
        _states,
        "`published`, `delivered` (it will be redelivered), or `acknowledged`, where its record "
        "still stands",
    ),
    "isPersistent": _of_index(
        "boolean",
        lambda rows: _booleans(rows.index.is_persistent[rows.which]),
        "false for what does not outlive a restart",
    ),
    "expiresAt": _of_index("timestamp", _expire, "when it expires; null for never"),
    "bodySize": _of_index(
        "bigint",
        lambda rows: numbers(rows.index.body_sizes[rows.which], pa.int64()),
        "bytes of the body, as the index says",
    ),
    "exchange": MessageColumn(
        "string",
        lambda rows: rows.text(rows.spans.exchanges, rows.has_message),
        "where it was published to; empty for the default exchange",
    ),
    "routingKeys": MessageColumn(
        "array<string>", _routing_keys, "the one it was published with, then `CC` and `BCC`"
    ),
    "body": MessageColumn("binary", MessageRows.bodies, "the body"),
    "contentType": _text("content_type", "property"),
    "contentEncoding": _text("content_encoding", "property"),
    "headers": MessageColumn(
        "map<string,string>",
        lambda rows: rows.headers.maps(),
        "values as text, arrays and tables as JSON; null without headers",
    ),
    "deliveryMode": _number("delivery_mode", "property; 2 for persistent"),
    "priority": _number("priority", "property"),
    "correlationId": _text("correlation_id", "property"),
    "replyTo": _text("reply_to", "property"),
    "expiration": _text("expiration", "property: milliseconds, as sent"),
    "messageId": _text("message_id", "property: what the publisher called it"),
    "timestamp": MessageColumn("timestamp", _timestamps, "property: the publisher's clock"),
    "type": _text("type", "property"),
    "userId": _text("user_id", "property"),
    "appId": _text("app_id", "property"),
    "clusterId": _text("cluster_id", "property"),
    "id": MessageColumn(
        "binary",
        lambda rows: rows.binary(rows.spans.ids, rows.has_message),
        "16 bytes that no other message of the node has; the same in all queues",
    ),
    "properties": MessageColumn(
        "binary",
        lambda rows: rows.binary(rows.spans.properties, rows.has_message),
        "flags and values of all properties, as a consumer gets them; only if it is asked for",
    ),
    "corruption": MessageColumn("string", _corruption, "what is damaged; null for sound messages"),
}

HEADERS_JSON = MessageColumn(
    "string", lambda rows: as_json(rows.headers.maps()), "with `headersFormat=json`"
)
FROM_HEADERS = "headers"
FULL = tuple(name for name in COLUMNS if name not in ("properties", "corruption"))
META = tuple(name for name in FULL if not COLUMNS[name].needs_message)
VIEWS = {"full": FULL, "meta": META}
"""Columns by `view`: everything, or what the index of a queue says."""
