"""Some messages of a queue with all that columns are made of, each part found once.

A message whose term has not the form of nearly all is read by itself, and written again in that
form; so every column is made in one way.
"""

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import message_term
from sprocket.rabbitmq.codec.amqp import AmqpError
from sprocket.rabbitmq.codec.amqp import properties as properties_codec
from sprocket.rabbitmq.codec.columns import (
    Ints,
    ListSpans,
    Mask,
    Octets,
    PropertySpans,
    Spans,
    TermSpans,
    message_terms,
    property_spans,
)
from sprocket.rabbitmq.model.message import AMQP_0_9_1, ID_BYTES
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.reading import IndexRows
from sprocket.spark.arrow import numbers, text
from sprocket.spark.rabbitmq.headers import Headers
from sprocket.spark.rabbitmq.stored_terms import FoundTerms, cut_out


class MessageRows:
    """Some messages of a queue.

    Args:
        queue: Which queue.
        rows: What its index says.
        which: Which of its rows, ascending.
        states: Of each of these, the number of its state.
        found: The terms of each of these; None if no column needs them.
    """

    def __init__(
        self,
        queue: QueueName,
        rows: IndexRows,
        which: Ints,
        states: Ints,
        found: FoundTerms | None,
    ) -> None:
        self.queue = queue
        self.states = states
        self.index = rows
        self.which = which
        self.faults: dict[int, str] = {}
        """Why a message, or its properties, cannot be read: by the number of the row."""
        self._terms: Any = None
        if found is not None:
            self.faults.update(found.faults)
            self._terms = found.terms
            self._read_odd()
            self._compare_ids()
            bad = np.flatnonzero(self.has_message & ~self.properties.is_good)
            for row in bad.tolist():
                self.faults[row] = self._why(row)

    def __len__(self) -> int:
        return len(self.which)

    @cached_property
    def octets(self) -> Octets:
        """The bytes of all terms, in which spans are."""
        data = self._terms.buffers()[2]
        return np.frombuffer(data if data is not None else b"", np.uint8)

    @cached_property
    def spans(self) -> TermSpans:
        """The parts of all messages."""
        return message_terms(self.octets, self._pieces)

    @cached_property
    def properties(self) -> PropertySpans:
        """The properties of all messages."""
        return property_spans(self.octets, self.spans.properties)

    @cached_property
    def headers(self) -> Headers:
        """The headers of all messages."""
        values = self.properties.values["headers"]
        return Headers(self.octets, values.of(self.has_headers), self.has_headers)

    @cached_property
    def has_message(self) -> Mask:
        """Which rows have a message that can be read."""
        return self.spans.is_plain.copy()

    @cached_property
    def has_properties(self) -> Mask:
        """Which rows have a message whose properties can be read."""
        return self.has_message & self.properties.is_good

    @property
    def has_headers(self) -> Mask:
        """Which rows have headers, if only an empty table."""
        found: Mask = self.has_properties & self.properties.is_there["headers"]
        return found

    def binary(self, spans: Spans, is_known: Mask) -> Any:
        """Return bytes of the messages, null where not known."""
        return known(self.cut(spans), is_known)

    def text(self, spans: Spans, is_known: Mask) -> Any:
        """Return texts of the messages, null where not known."""
        return known(text(self.cut(spans)), is_known)

    def cut(self, spans: Spans) -> Any:
        """Return bytes of the messages."""
        return cut_out(self.octets, spans.starts, spans.ends)

    def lists(self, spans: ListSpans) -> Any:
        """Return lists of bytes."""
        return pa.ListArray.from_arrays(_offsets(spans.counts), self.cut(spans.items))

    def bodies(self) -> Any:
        """Return the bodies, whose fragments are put together; null where there is no message."""
        fragments = self.spans.fragments
        if (fragments.counts == 1).all():
            return self.binary(fragments.items, self.has_message)
        joined = pc.binary_join(self.lists(fragments), b"")
        return known(joined, self.has_message)

    @property
    def _pieces(self) -> Spans:
        places = np.frombuffer(self._terms.buffers()[1], np.int32, len(self._terms) + 1)
        return Spans(places[:-1].astype(np.int64), places[1:].astype(np.int64))

    def _read_odd(self) -> None:
        """Write messages of another form in the plain one."""
        pieces = self._pieces
        odd = np.flatnonzero(~self.spans.is_plain & (pieces.ends > pieces.starts))
        if not len(odd):
            return
        plain: list[bytes] = []
        for row in odd.tolist():
            try:
                plain.append(_in_plain_form(self._terms[row].as_py()))
            except (CorruptRecord, AmqpError) as error:
                self.faults[row] = str(error)
                plain.append(b"")
        order = np.arange(len(self))
        order[odd] = len(self) + np.arange(len(odd))
        every = pa.concat_arrays([self._terms, pa.array(plain, pa.binary())])
        self._terms = every.take(numbers(order, pa.int64()))
        del self.octets, self.spans

    def _compare_ids(self) -> None:
        """Take note of messages that are not the ones that the index names."""
        expected = self.index.message_ids[self.which]
        starts = np.where(self.has_message, self.spans.ids.starts, 0)
        if not self.has_message.any():
            return
        found = self.octets[
            np.minimum(starts[:, None] + np.arange(ID_BYTES), max(len(self.octets) - 1, 0))
        ]
        is_other = (found != expected).any(axis=1) & expected.any(axis=1) & self.has_message
        for row in np.flatnonzero(is_other).tolist():
            ids = expected[row].tobytes().hex(), found[row].tobytes().hex()
            self.faults[row] = f"expected {ids[0]}, found {ids[1]}"
        self.has_message[is_other] = False

    def _why(self, row: int) -> str:
        """Say what is wrong with malformed properties."""
        spans = self.spans.properties
        try:
            properties_codec.decode(self.octets[spans.starts[row] : spans.ends[row]].tobytes())
        except AmqpError as error:
            return str(error)
        return "malformed properties"


def known(array: Any, is_known: Mask) -> Any:
    """Return an array with nulls where its value is not known."""
    if is_known.all():
        return array
    return pc.if_else(pa.array(is_known), array, pa.scalar(None, array.type))


def _offsets(counts: Ints) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return numbers(offsets, pa.int32())


def _in_plain_form(term: bytes) -> bytes:
    """Return a message as nearly all are stored: properties as bytes, the body in one piece."""
    message = message_term.decode(term)
    properties = message.properties
    if not isinstance(properties, bytes):
        properties = properties_codec.encode(properties)
    return message_term.encode(
        msgspec.structs.replace(message, properties=properties, protocol=AMQP_0_9_1)
    )
