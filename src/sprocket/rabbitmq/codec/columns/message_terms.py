"""The terms of many messages: where the parts of each lie, in the form that nearly all have.

See `codec.message_term`, which reads every form, one message at a time.
"""

from dataclasses import dataclass

import numpy as np

from sprocket.rabbitmq.codec import message_term
from sprocket.rabbitmq.codec.columns.cursor import Cursor, Ints, Mask, Octets, Spans
from sprocket.rabbitmq.model.message import ID_BYTES

_ITEM_BYTES_MIN = 5
"""Of a binary in a list: its tag and its length."""


@dataclass(frozen=True, slots=True)
class ListSpans:
    """A list for each row: `counts` says how many of `items` each one has, row after row."""

    counts: Ints
    items: Spans


@dataclass(frozen=True, slots=True)
class TermSpans:
    """Where the parts of messages are. What is shown of a message that is not plain is void.

    Attributes:
        is_plain: Which messages have the plain form.
        exchanges: The names they were published to.
        routing_keys: The keys of each.
        properties: Flags and values.
        fragments: The body of each, its first fragment first.
        ids: 16 bytes each.
    """

    is_plain: Mask
    exchanges: Spans
    routing_keys: ListSpans
    properties: Spans
    fragments: ListSpans
    ids: Spans


def message_terms(octets: Octets, terms: Spans) -> TermSpans:
    """Follow terms of messages, each in its own range of a buffer."""
    cursor = Cursor(octets, terms)
    every = cursor.every
    cursor.skip(message_term.PLAIN_START, every)
    cursor.span(cursor.number(">u4", every), every)
    cursor.skip(message_term.PLAIN_EXCHANGE, every)
    exchanges = cursor.span(cursor.number(">u4", every), every)
    keys = _list(cursor)
    cursor.skip(message_term.PLAIN_CONTENT, every)
    properties = cursor.span(cursor.number(">u4", every), every)
    cursor.skip(message_term.PLAIN_PROTOCOL, every)
    fragments = _list(cursor, is_reversed=True)
    cursor.skip(message_term.PLAIN_ID, every)
    ids = cursor.span(np.full(len(every), ID_BYTES), every)
    ends = np.zeros(len(every), np.bool_)
    for form in message_term.PLAIN_PERSISTENCE:
        ends |= cursor.matches(form, every) & (cursor.left(every) == len(form))
    return TermSpans(cursor.is_good & ends, exchanges, keys, properties, fragments, ids)


def _list(cursor: Cursor, *, is_reversed: bool = False) -> ListSpans:
    """Follow a list of binaries in each term."""
    every = cursor.every
    counts = np.zeros(len(every), np.int64)
    is_list = cursor.matches(message_term.LIST, every)
    lists = every[is_list]
    cursor.skip(message_term.LIST, lists)
    counts[lists] = cursor.number(">u4", lists)
    too_many = counts * _ITEM_BYTES_MIN > cursor.left(every)
    cursor.is_good[too_many] = False
    counts[too_many] = 0
    rows: list[Ints] = []
    found: list[Spans] = []
    active = lists[counts[lists] > 0]
    number = 0
    while len(active):
        cursor.skip(message_term.BINARY, active)
        rows.append(active)
        found.append(cursor.span(cursor.number(">u4", active), active))
        counts[active[~cursor.is_good[active]]] = number + 1
        number += 1
        active = active[counts[active] > number]
    cursor.skip(b"j", every)
    if not rows:
        return ListSpans(counts, Spans(counts[:0], counts[:0]))
    numbers = np.repeat(np.arange(number), [len(some) for some in rows])
    order = np.lexsort((-numbers if is_reversed else numbers, np.concatenate(rows)))
    starts = np.concatenate([one.starts for one in found])[order]
    ends = np.concatenate([one.ends for one in found])[order]
    return ListSpans(counts, Spans(starts, ends))
