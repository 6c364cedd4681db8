"""The properties of many messages: where the values of each lie. See `codec.amqp.properties`."""

from dataclasses import dataclass

import numpy as np

from sprocket.rabbitmq.codec.columns.cursor import Cursor, Ints, Mask, Octets, Spans

_SIZES = {
    "content_type": ">u1",
    "content_encoding": ">u1",
    "headers": ">u4",
    "delivery_mode": 1,
    "priority": 1,
    "correlation_id": ">u1",
    "reply_to": ">u1",
    "expiration": ">u1",
    "message_id": ">u1",
    "timestamp": 8,
    "type": ">u1",
    "user_id": ">u1",
    "app_id": ">u1",
    "cluster_id": ">u1",
}
"""In the order of their flags: bytes of the value, or how its length before it is written."""
_FIRST_FLAG = 1 << 15


@dataclass(frozen=True, slots=True)
class PropertySpans:
    """Where the values of properties are. Those of malformed properties are void.

    Attributes:
        is_good: Which properties are whole and have nothing after them.
        is_there: By property, which messages have it.
        values: By property, its bytes; none where it is not there.
    """

    is_good: Mask
    is_there: dict[str, Mask]
    values: dict[str, Spans]

    def numbers(self, octets: Octets, name: str) -> Ints:
        """Return the values of a number; 0 where it is not there."""
        values = self.values[name]
        found = np.zeros(len(values), np.int64)
        rows = np.flatnonzero(values.ends > values.starts)
        size = _SIZES[name]
        found[rows] = Cursor(octets, values).number(f">u{size}", rows)
        return found


def property_spans(octets: Octets, properties: Spans) -> PropertySpans:
    """Follow properties, flags and values, each in its own range of a buffer."""
    cursor = Cursor(octets, properties)
    flags = cursor.number(">u2", cursor.every)
    is_there: dict[str, Mask] = {}
    values: dict[str, Spans] = {}
    flag = _FIRST_FLAG
    for name, size in _SIZES.items():
        is_set = flags & flag != 0
        flag >>= 1
        rows = np.flatnonzero(is_set)
        starts = cursor.at.copy()
        ends = starts.copy()
        if len(rows):
            sizes = cursor.number(size, rows) if isinstance(size, str) else np.full(len(rows), size)
            found = cursor.span(sizes, rows)
            starts[rows], ends[rows] = found.starts, found.ends
        is_there[name], values[name] = is_set, Spans(starts, ends)
    return PropertySpans(cursor.is_good & cursor.is_at_end, is_there, values)
