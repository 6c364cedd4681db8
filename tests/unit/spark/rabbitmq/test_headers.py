"""Headers as maps: values of every kind, names that come twice, tables that are none."""

import numpy as np

from sprocket.rabbitmq.codec.amqp import tables
from sprocket.rabbitmq.codec.columns import Spans
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger, long_string
from sprocket.spark.rabbitmq.headers import Headers

FIRST = FieldTable(
    (
        ("text", long_string("å")),
        ("bytes", Field(FieldKind.BINARY, b"\0\xff")),
        ("int", Field(FieldKind.SIGNED_INT, -7)),
        ("text", long_string("the second one")),
        ("long", Field(FieldKind.LONG, -(1 << 63))),
        ("time", Field(FieldKind.TIMESTAMP, 1_700_000_000)),
        ("yes", Field(FieldKind.BOOL, True)),
        ("no", Field(FieldKind.BOOL, False)),
        ("nothing", Field(FieldKind.VOID, None)),
        ("half", Field(FieldKind.DOUBLE, 0.5)),
        ("price", Field(FieldKind.DECIMAL, ScaledInteger(2, 5))),
        ("list", Field(FieldKind.ARRAY, (long_string("a"), Field(FieldKind.BYTE, 1)))),
        ("table", Field(FieldKind.TABLE, FieldTable((("k", Field(FieldKind.BOOL, True)),)))),
    )
)
SECOND = FieldTable((("int", Field(FieldKind.BYTE, 1)),))


def test_values_of_every_kind() -> None:
    """Each as the guide says; a message without headers has null, an empty table an empty map."""
    first, second = (tables.encode_table(one)[4:] for one in (FIRST, SECOND))
    broken_inside = second + b"\x01xF\0\0\0\x01\x09"
    broken = second[:-1]
    pieces = [first, b"", second, broken_inside, broken]
    ends = np.cumsum([len(one) for one in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    is_there = np.array([True, True, False, True, True, True])
    octets = np.frombuffer(b"".join(pieces), np.uint8)
    headers = Headers(octets, Spans(starts, ends), is_there)
    found = headers.maps()
    found.validate(full=True)
    assert found.to_pylist(maps_as_pydicts="strict") == [
        {
            "text": "å",
            "bytes": "00ff",
            "int": "-7",
            "long": "-9223372036854775808",
            "time": "1700000000",
            "yes": "true",
            "no": "false",
            "nothing": None,
            "half": "0.5",
            "price": "0.05",
            "list": '["a",1]',
            "table": '{"k":true}',
        },
        {},
        None,
        {"int": "1"},
        None,
        None,
    ]
    assert headers.faults.keys() == {4, 5}
    assert all("malformed field table" in why for why in headers.faults.values())


def test_names_that_are_shown_alike_are_one() -> None:
    """A map of Spark has each name once; the first one counts, as of equal names."""
    entries = b"\x02a\xffI\0\0\0\x01" + b"\x02a\xfeI\0\0\0\x02"
    octets = np.frombuffer(entries, np.uint8)
    spans = Spans(np.zeros(1, np.int64), np.array([len(entries)], np.int64))
    found = Headers(octets, spans, np.ones(1, np.bool_)).maps()
    assert found.to_pylist(maps_as_pydicts="strict") == [{"a\ufffd": "1"}]
