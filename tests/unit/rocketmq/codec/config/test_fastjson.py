"""JSON in RocketMQ's dialect: what it writes comes back byte for byte, oddities are understood."""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.recorded import Recorded

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import fastjson


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01-basic", "08-consumers", "10b-cq-ext-sql", "12a-config-json"])
def test_config_files_of_rocketmq_come_back_byte_for_byte(name: str, tmp_path: Path) -> None:
    """Reading and writing each of its JSON files changes nothing."""
    root = Recorded(name).unpack(tmp_path)
    read = 0
    for folder, _, names in os.walk(f"{root}/config"):
        for path in [Path(folder, file) for file in names if ".json" in file]:
            content = path.read_bytes()
            if not content:
                continue
            value = fastjson.read(content)
            again = fastjson.write(value)
            assert content == again, path.name
            read += 1
    assert read >= 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ('{0:"x",1:"y"}', {0: "x", 1: "y"}),
        ("{-3:4}", {-3: 4}),
        ("{name:'it',b:\"c\",}", {"name": "it", "b": "c"}),
        ("[1,,2,]", [1, 2]),
        ("{,'a':1}", {"a": 1}),
        ("// why\n{/* * */'a':1L}", {"a": 1}),
        ("{1.5:2.50}", {"1.5": 2.5}),
        ('{"a":[{"b":1},{"$ref":"$.a[0]"}]}', {"a": [{"b": 1}, {"b": 1}]}),
        ('{"a":[1],"b":[{"$ref":"$.a"}],"c":{"$ref":"$.b"}}', {"a": [1], "b": [[1]], "c": [[1]]}),
        ('{"\\u00e9\\x41\\/":"\\ud83d"}', {"éA/": "\ud83d"}),
        ("{true:false,null:null}", {"true": False, "null": None}),
        (" [ -1.5e3 , 1E2 ] \0", [-1500.0, 100.0]),
        ("{10:{1:2}}", {10: {1: 2}}),
        ('"only"', "only"),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        ("{%RETRY%g@x:1}", WireError),
        ("{a.b-c:1}", {"a.b-c": 1}),
    ],
)
def test_each_oddity_is_read_as_fastjson_does(text: str | bytes, expected: Any) -> None:
    """Each oddity of the dialect gives the value that fastjson makes of it."""
    if expected is WireError:
        with pytest.raises(WireError):
            fastjson.read(text)
    else:
        assert expected == fastjson.read(text)


def test_objects_as_keys() -> None:
    """A map by message queue is read into hashable keys and written back the same."""
    text = b'{"t":{{"brokerName":"b","queueId":0,"topic":"T"}:5,{"queueId":1,"topic":"T"}:6}}'
    value = fastjson.read(text)
    key = fastjson.ObjectKey(brokerName="b", topic="T", queueId=0)
    assert value["t"][key] == 5
    written = fastjson.write(value)
    assert b'\n\t"t":{{\n\t\t\t"brokerName":"b",\n' in written
    assert fastjson.read(written) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1",
        '{"a"}',
        '{"a":}',
        "{]",
        '"open',
        "nul",
        "1 2",
        "{1}",
        "[1 2]",
        '{"a":1 "b":2}',
        "[1}",
        "[" * 70 + "]" * 70,
        "{a:" * 70 + "1" + "}" * 70,
        "[" * 100_000,
        "{" * 100_000,
        "9" * 5000 + "x",
        "[" + "9" * 5000 + ",]",
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":"$.b"}}',
        '{"a":[{"$ref":"$.a"}]}',
        '{"a":{"$ref":".."}}',
        '{"c":{"$ref":"$.b"},"b":[{"$ref":"$.c"}]}',
        "/* open",
        "{'a':1}/",
    ],
)
def test_what_is_no_value_is_a_wire_error(text: str) -> None:
    """Broken, too deep or circular texts are refused, whatever reads them."""
    with pytest.raises(WireError):
        fastjson.read(text)


def test_references_cannot_stand_for_too_much() -> None:
    """A short text cannot make a value that takes for ever to go through."""
    big = json.dumps([0] * 10_000)
    references = ",".join(['{"$ref":"$.a"}'] * 200)
    with pytest.raises(WireError, match="too many"):
        fastjson.read(f'{{"a":{big},"b":[{references}]}}')


def test_long_texts_must_be_strict() -> None:
    """The slow reader is not given more than its limit."""
    with pytest.raises(WireError, match="strict"):
        fastjson.read("[1," * 10, bytes_max=10)


def test_writing_as_rocketmqs_files_are() -> None:
    """Members that are None are left out; plain lists and integer keys stay on their line."""
    value = {"a": None, "b": {0: 1.0, 1: True}, "c": "é/\n\x01", "d": (1, "x"), "e": {}}
    b, c = "{0:1.0,1:true\n\t}", '"é/\\n\\u0001"'
    expected = f'{{\n\t"b":{b},\n\t"c":{c},\n\t"d":[1,"x"],\n\t"e":{{}}\n}}'
    assert fastjson.write(value).decode() == expected
    assert fastjson.write([[1], {}]) == b"[\n\t[1],\n\t{}\n]"


plain = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text()
values = st.recursive(
    plain | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.dictionaries(st.integers(-(1 << 31), (1 << 31) - 1), inner, max_size=4)
    ),
    max_leaves=20,
)


def without_none(value: Any) -> Any:
    """Return a value without members that are None, which are never written."""
    if isinstance(value, dict):
        return {key: without_none(one) for key, one in value.items() if one is not None}
    return [without_none(one) for one in value] if isinstance(value, list) else value


def has_reference(value: Any) -> bool:
    """Say whether a drawn value would be taken for a reference."""
    return "$ref" in repr(value)


@pytest.mark.slow
@given(values.filter(lambda value: not has_reference(value)))
def test_what_is_written_is_read_back(value: Any) -> None:
    """Any value comes back, integer keys included."""
    text = fastjson.write(value)
    expected = without_none(value)
    assert expected == fastjson.read(text) or "\\u" in repr(expected)


@pytest.mark.slow
@given(st.text(alphabet="{}[]:,'\"\\/*$refu0123eE.-+Lt nul\n", max_size=60))
def test_any_text_gives_a_value_or_a_wire_error(text: str) -> None:
    """Nothing but WireError leaves the reader."""
    with contextlib.suppress(WireError):
        fastjson.read(text)


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_wire_error(data: bytes) -> None:
    """Nothing but WireError leaves the reader."""
    with contextlib.suppress(WireError):
        fastjson.read(data)


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(names, values, max_size=4),
    st.dictionaries(names, st.dictionaries(st.integers(-9, 10**9), st.integers()), max_size=4),
    st.booleans(),
)
def test_large_texts_are_read_as_small_ones_are(
    plain: dict[str, Any], by_number: dict[str, dict[int, int]], is_strict: bool
) -> None:
    """But for integer keys, which are texts; what looks like a key within a text stays."""
    value = {**plain, '{1:2,3:"': '\\",4:', "by number": by_number}
    strict = msgspec.json.encode(without_none(value))
    text = strict if is_strict else fastjson.write(value)
    expected = msgspec.json.decode(strict)
    assume(b'$ref"' not in text)
    assert fastjson.read_large(text) == expected
    whole = fastjson.read_large(text.replace(b":", b" : "), dict[str, Any])
    assert set(map(str, whole)) == {key.replace(":", " : ") for key in expected}


def test_large_texts_of_the_rest_of_the_dialect_are_read_too() -> None:
    """As typed as they shall be; what is not of the type is an error."""
    assert fastjson.read_large(b"{'a':{1:'5',2:6L},}", dict[str, dict[int, int]]) == {
        "a": {1: 5, 2: 6}
    }
    assert fastjson.read_large(b'{"a":[1],"b":{"$ref":"$.a"}}') == {"a": [1], "b": [1]}
    for text in (b"{", b'{"a":7}', b'{"a":{"x":1}}', b"[]", b'{"a":{1:2}'):
        with pytest.raises(WireError):
            fastjson.read_large(text, dict[str, dict[int, int]])
    with pytest.raises(WireError, match="deep"):
        fastjson.read_large(b"[" * 100 + b"]" * 100)


def as_plain(read: Callable[[str], Any], text: str) -> Any:
    """Return what is read, its keys as texts; a word if it is refused."""
    try:
        return msgspec.json.decode(msgspec.json.encode(read(text)))
    except (WireError, TypeError):  # no JSON, or a key that is an object
        return "refused"


@given(st.text(st.sampled_from('0123:,:,{}"- \t\1\0'), max_size=12))
@example("1:2,:3")
@example(":1")
@example("1:2,3")
@example("1:2\1,3:4")
@example("1:-2,-3:4}, 5:{6:7 ")
@example('0::}"')
@example("0::1,")
@example('0:1,}":2')
@example("00:0")
@example("1:2,00:0")
@example("-0:1")
def test_no_text_is_read_otherwise_because_it_is_large(inside: str) -> None:
    """Maps without quotes, keys that are missing, marks that stand for parts: all are as one."""
    text = "{0:{" + inside + "}}"
    expected = as_plain(fastjson.read, text)
    assert as_plain(lambda one: fastjson.read_large(one.encode()), text) == expected


def test_a_table_in_pieces_is_the_table_as_a_whole() -> None:
    """Whatever is in it, and nothing."""
    tables: list[dict[str, Any]] = [
        {},
        {"t": {}},
        {"a": 1, "none": None, "t": {'"': {"x": [1, 2], "y": {1: 2}}, "b": {}}, "z": "z"},
        {"t": {f"key {n}": {"value": "x" * 100} for n in range(1000)}},
    ]
    for table in tables:
        members = dict(table)
        if "t" in members:
            members["t"] = (fastjson.entry(key, one) for key, one in table["t"].items())
        pieces = list(fastjson.write_pieces(members))
        assert b"".join(pieces) == fastjson.write(table)
        assert max(map(len, pieces)) < 2 * fastjson.PIECE_BYTES
        assert all(len(piece) >= fastjson.PIECE_BYTES for piece in pieces[:-1])


def test_an_entry_of_integers_is_written_as_any_other() -> None:
    """The quick way and the slow way give the same text."""
    for numbers in ({}, {0: 5}, {7: -1, 2: 2**62, -3: 0}):
        assert fastjson.int_map_entry('k"', numbers) == fastjson.entry('k"', numbers)
