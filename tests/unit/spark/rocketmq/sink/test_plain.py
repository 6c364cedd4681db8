"""Columns in each of Arrow's forms: all of them are the same messages."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.spark.rocketmq.sink.test_rows import encode, options, rows_of

from sprocket.base.errors import InvalidMessage
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.rocketmq.sink.plain import plain
from sprocket.spark.rocketmq.sink.rows import SINK_COLUMNS, Encoded

TEXTS: dict[str, list[str | None]] = {
    "body": ["body", "ä", "c"],
    "topic": ["orders", "wide", "orders"],
    "tags": ["A", None, ""],
    "keys": ["a b", None, ""],
    "shardingKey": ["k1", None, "k2"],
    "brokerName": ["b", None, "a"],
    "msgId": ["M1", None, "M3"],
    "own": ["1", "2", "3"],
}
"""Three values of each column of texts; `own` is the one that `keyColumn` names."""
WORDS = [["a", "b"], None, [], ["ä"]]
PAIRS = [[("p", "1"), ("q", "2")], None, [], [("ä", "ö")]]
WHOLE = {"queueId": [1, None, 0], "delayLevel": [0, None, 3], "flag": [7, None, -1], "sysFlag": [0]}


def texts(values: list[Any], kind: Any = None) -> Iterator[Any]:
    """Give texts, or words of lists, in each form that Arrow has for them."""
    data = pa.array(values, kind or pa.string())
    is_text = pa.types.is_string(data.type)
    for other in (
        (pa.string(), pa.large_string(), pa.string_view())
        if is_text
        else (pa.binary(), pa.large_binary(), pa.binary_view())
    ):
        yield data.cast(other)
    for value_kind in (pa.string(), pa.large_string()) if is_text else (pa.binary(),):
        yield data.cast(value_kind).dictionary_encode()


def sliced(array: Any) -> Iterator[Any]:
    """Give an array, and the same as a part of a longer one, before and behind it."""
    yield array
    yield pa.concat_arrays([array, array, array]).slice(len(array), len(array))


def lists() -> Iterator[Any]:
    """Give lists of words in each form, with words that may be null and that may not."""
    flat = [word for words in WORDS for word in words or ()]
    offsets, mask = [0, 2, 2, 2, 3], pa.array([words is None for words in WORDS])
    for words in texts(flat):
        for nullable in (True, False):
            field = pa.field("element", words.type, nullable=nullable)
            yield pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), words, type=pa.list_(field), mask=mask
            )
            yield pa.LargeListArray.from_arrays(
                pa.array(offsets, pa.int64()), words, type=pa.large_list(field), mask=mask
            )
            sizes = pa.array(np.diff(offsets), pa.int32())
            yield pa.ListViewArray.from_arrays(
                pa.array(offsets[:-1], pa.int32()),
                sizes,
                words,
                type=pa.list_view(field),
                mask=mask,
            )
            yield pa.LargeListViewArray.from_arrays(
                pa.array(offsets[:-1], pa.int64()),
                sizes.cast(pa.int64()),
                words,
                type=pa.large_list_view(field),
                mask=mask,
            )


def maps() -> Iterator[Any]:
    """Give maps in each form, with values that may be null and that may not."""
    pairs = [pair for some in PAIRS for pair in some or ()]
    offsets, mask = pa.array([0, 2, 2, 2, 3], pa.int32()), pa.array([p is None for p in PAIRS])
    for names, values in zip(
        texts([name for name, _ in pairs]), texts([value for _, value in pairs]), strict=True
    ):
        for nullable in (True, False):
            kind = pa.map_(names.type, pa.field("value", values.type, nullable=nullable))
            yield pa.MapArray.from_arrays(offsets, names, values, type=kind, mask=mask)


def alike(found: Encoded, wanted: Encoded) -> bool:
    """Tell whether two are the same messages."""
    return (
        found.frames.to_pylist() == wanted.frames.to_pylist()
        and [found.targets[one] for one in found.target.tolist()]
        == [wanted.targets[one] for one in wanted.target.tolist()]
        and found.is_alone.tolist() == wanted.is_alone.tolist()
    )


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    """Of every column that is text, and of bodies and keys that are bytes."""
    beside: dict[str, Any] = {"queueId": [1, 0, 0]} if name == "brokerName" else {}
    chosen = options(**{"topic": "wide"} if name == "brokerName" else {})
    if name == "topic":
        chosen = read_sink({"nameServer": "n:1"})
    if name == "own":
        chosen = options(keyColumn="own")
    values = TEXTS[name]
    if name == "brokerName":
        values = ["b", "a", "b"]
    wanted = encode(rows_of(**{name: pa.array(values)}, **beside), chosen)
    kinds = [pa.string(), pa.binary()] if name in ("body", "own") else [pa.string()]
    forms = 0
    for kind in kinds:
        for form in texts(values, kind):
            for column in sliced(form):
                assert alike(encode(rows_of(**{name: column}, **beside), chosen), wanted), column
                forms += 1
    assert forms == 10 if len(kinds) == 1 else 18


def test_bytes_of_one_width() -> None:
    """As digests have them; they need not be text."""
    values = [b"\xff\x01", b"\xfe\x02"]
    wanted = encode(rows_of(body=values, own=pa.array(values)), options(keyColumn="own"))
    for column in sliced(pa.array(values, pa.binary(2))):
        assert alike(encode(rows_of(body=column, own=column), options(keyColumn="own")), wanted)


def test_lists_of_words() -> None:
    """With null and empty ones between."""
    wanted = encode(rows_of(keys=["a b", None, None, "ä"]))
    for form in lists():
        for column in sliced(form):
            assert alike(encode(rows_of(keys=column)), wanted), column.type
    pair = pa.array([["a", "b"], None, ["c", "d"]], pa.list_(pa.string(), 2))
    for column in sliced(pair):
        assert alike(encode(rows_of(keys=column)), encode(rows_of(keys=["a b", None, "c d"])))


def test_a_word_that_is_refused_is_named_by_its_row() -> None:
    """Whatever lies before it in the buffers."""
    words = pa.array([["x"], ["a"], None, ["b", "c d"]], pa.list_(pa.string()))
    for form in (words, words.cast(pa.large_list(pa.string()))):
        with pytest.raises(InvalidMessage, match="row 2, column 'keys': has a word"):
            encode(rows_of(keys=form.slice(1)))


def test_maps() -> None:
    """With null and empty ones between."""
    wanted = encode(rows_of(properties=pa.array(PAIRS, pa.map_(pa.string(), pa.string()))))
    for form in maps():
        for column in sliced(form):
            assert alike(encode(rows_of(properties=column)), wanted), column.type


def test_what_lies_under_null_is_not_sent() -> None:
    """Arrow lets a list or map that is null have values; nobody is to see them."""
    offsets, mask = pa.array([0, 1, 2], pa.int32()), pa.array([True, False])
    names, values = pa.array(["hidden", "b"]), pa.array(["1", "2"])
    column = pa.MapArray.from_arrays(offsets, names, values, mask=mask)
    assert plain(column).to_pylist() == [None, [("b", "2")]]
    wanted = encode(rows_of(properties=pa.array([None, [("b", "2")]], column.type)))
    assert alike(encode(rows_of(properties=column)), wanted)
    column = pa.ListArray.from_arrays(offsets, names, mask=mask)
    assert alike(encode(rows_of(keys=column)), encode(rows_of(keys=[None, "b"])))


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name: str) -> None:
    """Of each width."""
    values = WHOLE[name]
    wanted = encode(rows_of(**{name: pa.array(values, pa.int64())}))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        data = pa.array(values, kind)
        for form in (data, data.dictionary_encode()):
            for column in sliced(form):
                assert alike(encode(rows_of(**{name: column})), wanted), column.type


def test_times() -> None:
    """Of each unit; a number is of milliseconds."""
    at = [1_700_000_000_000, None]
    wanted = encode(rows_of(deliverAt=pa.array(at, pa.int64())))
    times = pa.array(at, pa.timestamp("ms", "UTC"))
    for unit in ("s", "ms", "us", "ns"):
        for zone in ("UTC", "Europe/Berlin"):
            for column in sliced(times.cast(pa.timestamp(unit, zone))):
                assert alike(encode(rows_of(deliverAt=column)), wanted), column.type


def test_every_column_is_tried() -> None:
    """In one of the tests above."""
    assert {*TEXTS, *WHOLE, "properties", "deliverAt"} - {"own"} == set(SINK_COLUMNS)
