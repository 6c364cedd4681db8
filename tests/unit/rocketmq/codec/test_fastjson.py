"""JSON in RocketMQ's dialect: what it writes comes back byte for byte, oddities are understood."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded import Recorded

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import fastjson


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
            again = fastjson.write(value, int_keys_unquoted=True, pretty=True)
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
def test_tolerant_reading(text: str | bytes, expected: Any) -> None:
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
    assert text == fastjson.write(value)


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


def test_writing_compact_and_quoted() -> None:
    """Members that are None are left out; integer keys are quoted unless asked for."""
    value = {"a": None, "b": {0: 1.0, 1: True}, "c": "é/\n\x01", "d": (1, "x"), "e": {}}
    quoted = '{"b":{"0":1.0,"1":true},"c":"é/\\n\\u0001","d":[1,"x"],"e":{}}'
    assert quoted.encode() == fastjson.write(value)
    bare = quoted.replace('"0"', "0").replace('"1"', "1")
    assert bare.encode() == fastjson.write(value, int_keys_unquoted=True)


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
@given(values.filter(lambda value: not has_reference(value)), st.booleans())
def test_what_is_written_is_read_back(value: Any, pretty: bool) -> None:
    """Any value comes back, integer keys included."""
    text = fastjson.write(value, int_keys_unquoted=True, pretty=pretty)
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
