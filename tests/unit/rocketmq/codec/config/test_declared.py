"""Structs as JSON, both ways."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import pytest
from msgspec import Struct, field

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import AS_GIVEN, REQUIRED, UNREAD, As, OneOf, by_name, declared
from sprocket.rocketmq.model.route import MessageQueue


class Inner(Struct, frozen=True, kw_only=True):
    """What may lie in a body."""

    name: str
    size: int = field(name="sizeOf", default=5)


class Outer(Struct, frozen=True, kw_only=True, rename="camel"):
    """One field of each kind."""

    written: ClassVar[Mapping[str, object]] = {
        "constant": {},
        "lengthOf": lambda one: len(one.some_text),
    }
    what: ClassVar = "an outer"
    some_text: Annotated[str, REQUIRED] = "x"
    number: int = 7
    rate: float = 0.5
    flag: bool = False
    absent: str | None = None
    kind: Annotated[str, OneOf(("A", "B"))] = "A"
    only_out: Annotated[int, UNREAD] = 1
    halved: Annotated[int, As(int, lambda n: n // 2, lambda n: n * 2)] = 8
    by_queue: Mapping[MessageQueue, int] = field(default_factory=dict)
    by_number: Mapping[int, str] = field(default_factory=dict)
    by_text: Mapping[str, int] = field(default_factory=lambda: {"d": 1})
    given: Annotated[Mapping[str, int], AS_GIVEN] = field(default_factory=dict)
    named: Annotated[Sequence[Inner], by_name(Inner)] = ()
    inner: Inner = Inner(name="i")


FULL = Outer(
    some_text="é\x7f",
    absent="",
    kind="B",
    by_queue={MessageQueue("t", "b", 3): 1},
    by_number={10: "x", 2: "y"},
    by_text={"b": 1, "a": 2},
    given={"b": 1, "a": 2},
    named=[Inner(name="n"), Inner(name="m", size=6)],
)
TEXT = (
    r'{"absent":"","byNumber":{2:"y",10:"x"},"byQueue":{{"brokerName":"b","queueId":3,"topic":"t"}'
    r':1},"byText":{"a":2,"b":1},"constant":{},"flag":false,"given":{"b":1,"a":2},"halved":4,'
    r'"inner":{"name":"i","sizeOf":5},"kind":"B","lengthOf":2,"named":{"m":{"name":"m","sizeOf":6},'
    r'"n":{"name":"n","sizeOf":5}},"number":7,"onlyOut":1,"rate":0.5,"someText":"é\u007F"}'
)


def test_members_are_written_in_the_order_of_their_names() -> None:
    """At once and in pieces; integer keys bare, or in quotes for who reads strict JSON."""
    assert declared.encode(FULL).decode() == TEXT
    assert b"".join(declared.encode_pieces(FULL)).decode() == TEXT
    quoted = TEXT.replace("{2:", '{"2":').replace(",10:", ',"10":')
    assert declared.encode(FULL, quoted=True).decode() == quoted
    assert '"absent"' not in declared.encode(Outer()).decode()


def test_what_is_written_is_read() -> None:
    """But for lists by name, which come in the order of the text."""
    found = declared.decode(Outer, declared.encode(FULL))
    assert sorted(one.name for one in found.named) == ["m", "n"]
    assert [*found.named] == [FULL.named[1], FULL.named[0]]
    assert (found.absent, found.kind, found.halved) == ("", "B", 8)
    assert (found.by_queue, found.by_number) == (FULL.by_queue, FULL.by_number)


@pytest.mark.parametrize(
    ("members", "attribute", "value"),
    [
        ("", "number", 7),
        ('"number":null', "number", 7),
        ('"number":"12"', "number", 12),
        ('"number":0', "number", 0),
        ('"rate":"1.5"', "rate", 1.5),
        ('"flag":"TRUE"', "flag", True),
        ('"kind":1', "kind", "B"),
        ('"kind":"other"', "kind", "A"),
        ('"onlyOut":5', "only_out", 1),
        ('"byText":{}', "by_text", {"d": 1}),
        ('"byNumber":{"3":4}', "by_number", {3: "4"}),
        ('"named":{"k":{}}', "named", [Inner(name="k")]),
        ('"inner":{}', "inner", Inner(name="")),
    ],
)
def test_members_are_read_as_tolerantly_as_values(
    members: str, attribute: str, value: object
) -> None:
    """Absent, null and empty ones take the default."""
    text = f'{{"someText":"x"{"," if members else ""}{members}}}'
    found = declared.decode_request(Outer, text.encode())
    assert value == getattr(found, attribute)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "an outer without someText"),
        ("[]", "the body of an outer is not a JSON object"),
        ('{"someText":"x","number":"y"}', "number is not a number"),
        ('{"someText":"x","kind":2}', "kind is 2, expected 0 to 1"),
        ('{"someText":"x","inner":[]}', "inner is a list, expected an object"),
        ('{"someText":"x","named":[]}', "named is a list, expected an object"),
        ('{"someText":"x","byNumber":{"z":"a"}}', "byNumber is not a number"),
    ],
)
def test_what_does_not_fit_is_named(text: str, why: str) -> None:
    """By its member."""
    with pytest.raises(WireError, match=why):
        declared.decode(Outer, text.encode())


def test_a_default_may_be_said_by_who_reads() -> None:
    """It counts for what is absent, and for a text that is empty."""
    assert declared.read(Inner, {"name": ""}, "x", name="n") == Inner(name="n")
    assert declared.read(Inner, {"sizeOf": 0}, "x", name="n", size=9) == Inner(name="n", size=0)
    assert declared.read(Inner, None, "x", size=9) == Inner(name="", size=9)


def test_files_have_the_members_in_order_and_maps_as_they_are() -> None:
    """Those that are None are left out."""
    found = declared.plain(Outer(by_text={"b": 1, "a": 2}, named=(Inner(name="n"),)))
    assert list(found) == sorted(found)
    assert list(found["byText"]) == ["b", "a"]
    assert "absent" not in found
    assert found["named"] == [{"name": "n", "sizeOf": 5}]


def test_long_bodies_come_in_pieces_of_some_size() -> None:
    """However small their entries are; an empty piece says that work was done."""
    table = Outer(by_number=dict.fromkeys(range(2000), "x" * 50))
    pieces = list(declared.encode_pieces(table))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * declared.PIECE_BYTES
    assert b"".join(pieces) == declared.encode(table)
    assert list(declared.coalesced([b"a", b"b", b"", b"c"])) == [b"ab", b"c"]


def test_an_object_is_asked_for() -> None:
    """The error names what was to be read."""
    assert declared.read_request(b'{"a":1}', "x") == {"a": 1}
    with pytest.raises(WireError, match="the body of a route is not a JSON object"):
        declared.read_answer(b"1", "a route")
    with pytest.raises(TypeError):
        declared.encode(Outer(by_text={"a": object()}))  # type: ignore[dict-item]
