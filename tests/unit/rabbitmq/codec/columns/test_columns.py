"""Columns against the functions that read a single one, whatever the bytes."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import tables_of
from tests.strategies import damages

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import message_term
from sprocket.rabbitmq.codec.amqp import AmqpError
from sprocket.rabbitmq.codec.amqp import properties as properties_codec
from sprocket.rabbitmq.codec.amqp import tables as tables_codec
from sprocket.rabbitmq.codec.columns import (
    ListSpans,
    Octets,
    Spans,
    header_entries,
    message_terms,
    property_spans,
    store_entries,
)
from sprocket.rabbitmq.codec.store import StoreEntry, entries
from sprocket.rabbitmq.model.message import AMQP_0_9_1, BasicMessage
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.model.properties import BasicProperties

pytestmark = pytest.mark.slow
TEXTS = st.text(max_size=4)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=st.none() | TEXTS,
    headers=st.none() | tables_of(),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    reply_to=st.none() | TEXTS,
    expiration=st.none() | TEXTS,
    timestamp=st.none() | st.integers(0, (1 << 63) - 1),
    type=st.none() | TEXTS,
    cluster_id=st.none() | TEXTS,
)
MESSAGES = st.builds(
    BasicMessage,
    id=st.binary(min_size=16, max_size=16),
    vhost=TEXTS,
    exchange=TEXTS,
    routing_keys=st.lists(TEXTS, max_size=3).map(tuple),
    properties=PROPERTIES.map(properties_codec.encode) | st.just(BasicProperties(priority=3)),
    fragments=st.lists(st.binary(max_size=9), max_size=3).map(tuple),
    is_persistent=st.booleans(),
)


def laid_out(pieces: Sequence[bytes]) -> tuple[Octets, Spans]:
    """Return pieces in one buffer, and where each is."""
    ends = np.cumsum([len(one) for one in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)]
    return np.frombuffer(b"".join(pieces), np.uint8), Spans(starts, ends)


def cut(octets: Octets, spans: Spans, row: int) -> bytes:
    """Return the bytes of one row."""
    return octets[spans.starts[row] : spans.ends[row]].tobytes()


def cut_list(octets: Octets, lists: ListSpans, row: int) -> list[bytes]:
    """Return the list of one row."""
    first = int(lists.counts[:row].sum())
    stop = first + int(lists.counts[row])
    return [cut(octets, lists.items, number) for number in range(first, stop)]


@st.composite
def perhaps_damaged(draw: st.DrawFn, pieces: st.SearchStrategy[bytes]) -> bytes:
    """Return a piece as it is, or with some damage."""
    piece = draw(pieces)
    return draw(damages(piece)) if piece and draw(st.booleans()) else piece


@given(st.lists(perhaps_damaged(MESSAGES.map(message_term.encode)), max_size=4))
def test_terms(stored: list[bytes]) -> None:
    """Those that are plain have the parts of the message; of sound ones only few are not."""
    octets, pieces = laid_out(stored)
    found = message_terms(octets, pieces)
    for row, term in enumerate(stored):
        try:
            message = message_term.decode(term)
        except CorruptRecord:
            assert not found.is_plain[row]
            continue
        is_usual = isinstance(message.properties, bytes) and message.protocol == AMQP_0_9_1
        if is_usual and message_term.encode(message) == term:
            assert found.is_plain[row]
        if not found.is_plain[row]:
            continue
        assert cut(octets, found.ids, row) == message.id
        assert cut(octets, found.exchanges, row) == name_bytes(message.exchange)
        assert cut_list(octets, found.routing_keys, row) == [
            name_bytes(key) for key in message.routing_keys
        ]
        assert cut(octets, found.properties, row) == message.properties
        assert tuple(cut_list(octets, found.fragments, row)) == message.fragments


@given(st.lists(perhaps_damaged(PROPERTIES.map(properties_codec.encode)), max_size=4))
def test_properties(stored: list[bytes]) -> None:
    """All that can be read are read, and have the same values."""
    octets, pieces = laid_out(stored)
    found = property_spans(octets, pieces)
    for row, one in enumerate(stored):
        try:
            told = properties_codec.decode(one)
        except AmqpError:
            if found.is_good[row]:  # then it is inside of the headers
                headers = cut(octets, found.values["headers"], row)
                assert found.is_there["headers"][row]
                assert header_fails(headers)
            continue
        assert found.is_good[row]
        for name in ("content_type", "reply_to", "expiration", "type", "cluster_id"):
            value = getattr(told, name)
            assert found.is_there[name][row] == (value is not None)
            assert cut(octets, found.values[name], row) == name_bytes(value or "")
        for name in ("delivery_mode", "priority", "timestamp"):
            value = getattr(told, name)
            assert found.is_there[name][row] == (value is not None)
            if value is None or value < 1 << 63:
                assert found.numbers(octets, name)[row] == (value or 0)
        assert found.is_there["headers"][row] == (told.headers is not None)


def header_fails(data: bytes) -> bool:
    """Say whether a table cannot be read."""
    try:
        tables_codec.decode_table(data, 0, len(data))
    except AmqpError:
        return True
    return False


@given(
    st.lists(
        perhaps_damaged(tables_of().map(lambda table: tables_codec.encode_table(table)[4:])),
        max_size=4,
    )
)
def test_headers(stored: list[bytes]) -> None:
    """Names, types and values of each entry are those of the table."""
    octets, pieces = laid_out(stored)
    found = header_entries(octets, pieces)
    for row, one in enumerate(stored):
        if header_fails(one):
            continue
        assert found.is_good[row]
        table = tables_codec.decode_table(one, 0, len(one))
        numbers = np.flatnonzero(found.rows == row).tolist()
        assert len(numbers) == len(table)
        for number, (name, field) in zip(numbers, table, strict=True):
            assert cut(octets, found.names, number) == name_bytes(name)
            assert chr(found.signs[number]) == field.kind.value
            entry = cut(octets, found.entries, number)
            assert tables_codec.decode_table(entry, 0, len(entry)).entries == ((name, field),)
            if isinstance(field.value, bytes):
                assert cut(octets, found.values, number) == field.value


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_a_file_of_the_store(messages: list[BasicMessage], data: st.DataObject) -> None:
    """Its entries are those that a scan finds, sound or not."""
    file = b"".join(
        part for one in messages for part in entries.entry(one.id, message_term.encode(one))
    )
    if data.draw(st.booleans()):
        file = data.draw(damages(file))

    def read(position: int, size: int) -> bytes:
        return file[position : position + size]

    found = store_entries(read, len(file))
    scanned = [one for one in entries.scan(read, len(file)) if isinstance(one, StoreEntry)]
    assert found.positions.tolist() == [one.position for one in scanned]
    assert found.sizes.tolist() == [one.size for one in scanned]
    assert [one.tobytes() for one in found.ids] == [one.id for one in scanned]
