"""Erlang's terms: the bytes that servers write, their limits, and bytes that are not a term."""

import math
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sprocket.base.errors import CorruptRecord, StoreError
from sprocket.rabbitmq.codec import terms
from sprocket.rabbitmq.codec.terms import Atom, Pid, Reference, Term, TermMap, Utf8Atom

WRITTEN: list[tuple[str, Term]] = [
    ("8361ff", 255),
    ("836200000100", 256),
    ("8362ffffffff", -1),
    ("836280000000", -(1 << 31)),
    ("836e040000000080", 1 << 31),
    ("836e040101000080", -(1 << 31) - 1),
    ("836e0800ffffffffffffffff", (1 << 64) - 1),
    ("83463ff8000000000000", 1.5),
    ("8364000474727565", Atom("true")),
    ("83770474727565", Utf8Atom("true")),
    ("8368026101610a", (1, 10)),
    ("836a", []),
    ("836b0002010a", [1, 10]),
    ("836c00000002620000010061016a", [256, 1]),
    ("836d00000003616263", b"abc"),
    ("83740000000161016102", TermMap(((1, 2),))),
    ("83586400016e000102030405060708090a0b", Pid(Atom("n"), bytes(range(12)))),
    ("835a00016400016e0000000700000008", Reference(Atom("n"), 7, b"\0\0\0\x08")),
]


@pytest.mark.parametrize(("data", "term"), WRITTEN)
def test_terms_are_as_erlang_writes_them(data: str, term: Term) -> None:
    """In both directions, and an atom keeps the form that it had."""
    decoded = terms.decode(bytes.fromhex(data))
    assert (decoded, type(decoded)) == (term, type(term))
    assert terms.encode(term).hex() == data


def test_forms_that_only_others_write_are_read() -> None:
    """Old and long atoms, large tuples, lists of small numbers that are not a string."""
    assert terms.decode(b"\x83s\x01x") == Atom("x")
    assert terms.decode(b"\x83v\0\x02\xc3\xa9") == Utf8Atom("é")
    assert terms.decode(b"\x83i\0\0\0\x01j") == ([],)
    assert terms.decode(b"\x83l\0\0\0\x01a\x07j") == [7]


def test_long_values_take_the_long_forms() -> None:
    """A tuple of 256, a list of 65,536 small numbers, an atom of 256 bytes."""
    wide = (0,) * 256
    assert terms.encode(wide)[:6] == b"\x83i\0\0\x01\0"
    many: Term = [0] * 65536
    assert terms.encode(many)[:6] == b"\x83l\0\x01\0\0"
    long = Utf8Atom("é" * 128)
    assert terms.encode(long)[:4] == b"\x83v\x01\0"
    for term in (wide, many, long):
        assert terms.decode(terms.encode(term)) == term


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "a term begins with 83, found nothing"),
        (b"\x82a\x01", "a term begins with 83, found 82"),
        (b"\x83", "a term ends inside a value"),
        (b"\x83a", "a term ends inside a value"),
        (b"\x83a\x01\x02", "1 bytes behind a term"),
        (b"\x83P\0\0\0\0", "no term has the tag 80"),
        (b"\x83m\0\0\0\x02a", "a term ends inside a value"),
        (b"\x83l\xff\xff\xff\xffa\x01", "a term ends inside a value"),
        (b"\x83l\0\0\0\x01a\x01a\x02", "a list does not end with an empty one"),
        (b"\x83n\x01\x02\x05", "the sign of a number is 0 or 1, found 2"),
        (b"\x83F" + struct.pack(">d", math.inf), "Erlang has no float inf"),
        (b"\x83w\x01\xff", "the text of an atom is not UTF-8"),
        (b"\x83X" * 3, "the name of a node is not an atom"),
        (b"\x83" + b"h\x01" * 300 + b"j", "nested more than 256 deep"),
    ],
)
def test_what_is_no_term_is_told(data: bytes, told: str) -> None:
    """One error of the store, whose text says what is wrong."""
    with pytest.raises(CorruptRecord, match=told):
        terms.decode(data)


def test_as_deep_as_allowed() -> None:
    """Both directions go down to the limit."""
    term: Term = []
    for _ in range(terms.DEPTH_MAX):
        term = (term,)
    assert terms.decode(terms.encode(term)) == term


def test_a_float_that_erlang_does_not_have_is_not_written() -> None:
    """RabbitMQ could not read it again."""
    with pytest.raises(StoreError, match="no float nan"):
        terms.encode([math.nan])


@pytest.mark.parametrize("tag", [b"i", b"l", b"t"])
def test_a_count_makes_nothing_that_is_not_there(tag: bytes) -> None:
    """Four bytes that say four thousand million take no memory."""
    with pytest.raises(CorruptRecord):
        terms.decode(b"\x83" + tag + b"\xff\xff\xff\xff" + bytes(100))


leaves: st.SearchStrategy[Term] = st.one_of(
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=20),
    st.text("abcé", max_size=9).map(Atom),
    st.text("abcé€", max_size=9).map(Utf8Atom),
)
any_term: st.SearchStrategy[Term] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.integers(0, 255), max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(st.tuples(inner, inner), max_size=2).map(lambda found: TermMap(tuple(found))),
    ),
    max_leaves=12,
)


def with_forms(term: Term) -> object:
    """Show floats by their bits and atoms with their form, so that comparing sees them."""
    match term:
        case float():
            return struct.pack(">d", term)
        case Atom():
            return type(term), str(term)
        case list() | tuple():
            return [type(term), *map(with_forms, term)]
        case TermMap():
            return [(with_forms(name), with_forms(value)) for name, value in term.pairs]
    return term


@given(any_term)
@example(-0.0)
def test_a_term_comes_back_as_it_was(term: Term) -> None:
    """Decoding what was encoded, and encoding that again."""
    data = terms.encode(term)
    again = terms.decode(data)
    assert with_forms(again) == with_forms(term)
    assert terms.encode(again) == data


@given(any_term, st.data())
def test_any_bytes_give_a_term_or_an_error_of_the_store(term: Term, draw: st.DataObject) -> None:
    """However a term was cut and changed."""
    data = bytearray(terms.encode(term))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    cut = draw.draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))
    try:
        found = terms.decode(bytes(data[:cut]))
    except CorruptRecord:
        return
    terms.encode(found)
