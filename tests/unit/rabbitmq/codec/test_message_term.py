"""Stored messages: those of a real RabbitMQ, the form that few have, bytes that are none."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.errors import CorruptRecord, StoreError
from sprocket.rabbitmq.codec import message_term, terms
from sprocket.rabbitmq.codec.terms import Atom, Term, TermMap, Utf8Atom
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.properties import BasicProperties

ID = bytes(range(16))
PLAIN = BasicMessage(ID, "/", "", ("orders",), b"\x10\0\x02", (b"hello",), is_persistent=True)
EVERY_KIND = FieldTable(
    (
        ("S", Field(FieldKind.LONG_STRING, b"text")),
        ("I", Field(FieldKind.SIGNED_INT, -2_000_000_000)),
        ("D", Field(FieldKind.DECIMAL, ScaledInteger(2, 31415))),
        ("T", Field(FieldKind.TIMESTAMP, 1_700_000_000)),
        ("F", Field(FieldKind.TABLE, FieldTable((("in", Field(FieldKind.VOID, None)),)))),
        ("A", Field(FieldKind.ARRAY, (Field(FieldKind.BOOL, True), Field(FieldKind.BYTE, -1)))),
        ("B", Field(FieldKind.UNSIGNED_BYTE, 200)),
        ("s", Field(FieldKind.SHORT, -30000)),
        ("u", Field(FieldKind.UNSIGNED_SHORT, 60000)),
        ("i", Field(FieldKind.UNSIGNED_INT, 4_000_000_000)),
        ("l", Field(FieldKind.LONG, -(1 << 63))),
        ("f", Field(FieldKind.FLOAT, 1.5)),
        ("d", Field(FieldKind.DOUBLE, 3.141592653589793)),
        ("t", Field(FieldKind.BOOL, False)),
        ("x", Field(FieldKind.BINARY, b"\0\xff")),
        ("none", Field(FieldKind.TABLE, FieldTable())),
        ("", Field(FieldKind.ARRAY, ())),
    )
)
TYPED = BasicMessage(
    ID,
    "v",
    "e",
    ("k", "cc"),
    BasicProperties(headers=EVERY_KIND, delivery_mode=2, expiration="5000", timestamp=1 << 40),
    (b"a" * 100, b"b"),
    is_persistent=False,
)


def test_the_message_of_the_format_s_description() -> None:
    """Byte by byte, as the first message of a queue `orders` was stored."""
    data = bytes.fromhex(
        "836806 64000d 62617369635f6d657373616765 6804 640008 7265736f75726365 6d000000012f"
        "640008 65786368616e6765 6d00000000 6c00000001 6d00000006 6f7264657273 6a"
        "6806 640007 636f6e74656e74 613c 640004 6e6f6e65 6d00000003 100002"
        "640019 7261626269745f6672616d696e675f616d71705f305f395f31"
        "6c00000001 6d00000005 68656c6c6f 6a"
        "6d00000010 000102030405060708090a0b0c0d0e0f 640004 74727565"
    )
    assert message_term.decode(data) == PLAIN
    assert message_term.encode(PLAIN) == data


@pytest.mark.parametrize(
    "message",
    [
        PLAIN,
        TYPED,
        BasicMessage(ID, "", "", (), b"\0\0", (), is_persistent=False),
        BasicMessage(ID, "é\udcff", "x" * 255, ("", "é"), b"", (b"",), is_persistent=True),
        BasicMessage(ID, "/", "", ("q",), b"\0\0", (b"x",), is_persistent=True, protocol="plugin"),
        BasicMessage(ID, "/", "", ("q",), BasicProperties(), (b"x",), is_persistent=True),
    ],
)
def test_a_message_comes_back_as_it_was(message: BasicMessage) -> None:
    """Empty and full, in both forms of the properties, with names that are not UTF-8."""
    data = message_term.encode(message)
    assert message_term.decode(data) == message
    assert message_term.encode(message_term.decode(data)) == data


def test_the_body_is_stored_last_fragment_first() -> None:
    """As RabbitMQ has it, and read again in order."""
    stored = message_term.encode(TYPED)
    assert stored.index(b"m\0\0\0\x01b") < stored.index(b"a" * 100)
    assert message_term.decode(stored).body == b"a" * 100 + b"b"


def newer(term: Term) -> Term:
    """Return a term as Erlang/OTP 26 writes it: with atoms in their other form."""
    match term:
        case Atom():
            return Utf8Atom(term)
        case tuple():
            return tuple(map(newer, term))
        case list():
            return [newer(one) for one in term]
    return term


MESSAGES = st.builds(
    BasicMessage,
    id=st.binary(min_size=16, max_size=16),
    vhost=st.text(max_size=5),
    exchange=st.text(max_size=5),
    routing_keys=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    properties=st.binary(max_size=30),
    fragments=st.lists(st.binary(max_size=30), max_size=3).map(tuple),
    is_persistent=st.booleans(),
)


@given(st.lists(st.one_of(st.sampled_from([PLAIN, TYPED]), MESSAGES), max_size=6), st.data())
def test_many_are_encoded_and_decoded_as_each_by_itself(
    messages: list[BasicMessage], draw: st.DataObject
) -> None:
    """Of one origin and of several, whole and changed: the same messages, and the same errors."""
    stored = message_term.encode_all(messages)
    assert stored == [message_term.encode(one) for one in messages]
    decode = message_term.MessageDecoder().decode
    for data in stored:
        changed = bytearray(data)
        place = draw.draw(st.integers(0, len(data) - 1))
        changed[place] = draw.draw(st.sampled_from([0, 1, 100, 106, 108, 109, 255, data[place]]))
        for one in (data, bytes(changed), data[:place], data):
            assert _read(decode, one) == _read(message_term.decode, one)


def _read(decode: Callable[[bytes], BasicMessage], data: bytes) -> BasicMessage | type[StoreError]:
    try:
        return decode(data)
    except StoreError as error:
        return type(error)


@given(MESSAGES)
def test_both_ways_of_decoding_agree(message: BasicMessage) -> None:
    """The quick one for the usual form, and the one through terms for any other."""
    stored = message_term.encode(message)
    other = terms.encode(newer(terms.decode(stored)))
    assert message_term.decode(stored) == message
    assert message_term.decode(other) == message
    assert terms.encode(terms.decode(stored)) == stored


@given(st.sampled_from([PLAIN, TYPED]), st.data())
def test_any_bytes_give_a_message_or_an_error_of_the_store(
    message: BasicMessage, draw: st.DataObject
) -> None:
    """However a stored message was cut and changed."""
    data = bytearray(message_term.encode(message))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    try:
        found = message_term.decode(bytes(data[:cut]))
    except CorruptRecord:
        return
    assert len(found.id) == 16


CONTENT: Term = (Atom("content"), 60, Atom("none"), b"", Atom("p"), [])
NAME: Term = (Atom("resource"), b"/", Atom("exchange"), b"")


def stored_as(content: Term, name: Term = NAME, id: Term = ID) -> bytes:  # noqa: A002
    """Return a message with a part of another form."""
    return terms.encode((Atom("basic_message"), name, [b"q"], content, id, Atom("true")))


def typed(**changed: Term) -> bytes:
    """Return a message with typed properties of any kind."""
    names = ("content_type", "content_encoding", "headers", "delivery_mode")
    values = [changed.get(name, Atom("undefined")) for name in names]
    record = (Atom("P_basic"), *values, *[Atom("undefined")] * 10)
    return stored_as((Atom("content"), 60, record, Atom("none"), Atom("none"), []))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (terms.encode(5), "expected the term of a message, found one of the type int"),
        (terms.encode((Atom("other"), 1)), "found 'other' of 2 parts"),
        (terms.encode((Atom("mc"), 1, 2, TermMap(()))), "in the form of RabbitMQ 3.13"),
        (stored_as(CONTENT, id=b"short"), "expected the term of a message"),
        (stored_as(CONTENT, name=b"amq.direct"), "expected the term of a message"),
        (
            stored_as((Atom("content"), 60, Atom("none"), Atom("none"), Atom("none"), [])),
            "has no properties",
        ),
        (
            stored_as((Atom("content"), 60, (Atom("P_basic"), 1), Atom("none"), Atom("none"), [])),
            "expected typed properties, found 'P_basic' of 2 parts",
        ),
        (typed(content_type=5), "the property content_type is not a binary: 5"),
        (typed(delivery_mode=b"2"), "the property delivery_mode is not a number: b'2'"),
        (typed(headers=5), "expected a table, found 5"),
        (typed(headers=[5]), "expected name, type and value, found 5"),
        (typed(headers=[(b"n", Atom("odd"), 1)]), "no value has the type 'odd'"),
        (typed(headers=[(b"n", Atom("long"), b"1")]), "a value of the type long is b'1'"),
        (typed(headers=[(b"n", Atom("array"), [1])]), "expected type and value, found 1"),
    ],
)
def test_what_is_no_message_is_told(data: bytes, told: str) -> None:
    """One error of the store, whose text says which part it is."""
    with pytest.raises(CorruptRecord, match=told):
        message_term.decode(data)


def test_a_dead_letter_of_a_real_server_keeps_its_types() -> None:
    """Its headers were changed by the broker, so they are stored as typed values."""
    recorded = RecordedVhosts("05-properties-ttl")
    found = []
    for path, data in recorded.files():
        at = data.find(b"\x83h\x06d\0\x0dbasic_message") if path.endswith(".idx") else -1
        while at >= 0:
            size = int.from_bytes(data[at - 4 : at], "big")
            stored = data[at : at + size]
            message = message_term.decode(stored)
            assert message_term.encode(message) == stored
            assert terms.encode(terms.decode(stored)) == stored
            if isinstance(message.properties, BasicProperties):
                found.append(message.properties)
            at = data.find(b"\x83h\x06d\0\x0dbasic_message", at + size)
    headers = found[0].headers
    assert headers is not None
    reason = headers.get("x-first-death-reason")
    assert reason == Field(FieldKind.LONG_STRING, b"expired")
