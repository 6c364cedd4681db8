"""Field tables and arrays on the wire."""

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pamqp.decode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import fields, flat_tables, tables_of

from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, tables
from sprocket.rabbitmq.model.fields import (
    NO_FIELDS,
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    ScaledInteger,
    long_string,
)

EVERY_KIND: dict[str, tuple[str, FieldValue]] = {
    "t": ("01", True),
    "b": ("ff", -1),
    "B": ("ff", 255),
    "s": ("fffe", -2),
    "u": ("fffe", 65534),
    "I": ("fffffffd", -3),
    "i": ("fffffffd", 4294967293),
    "l": ("fffffffffffffffc", -4),
    "L": ("fffffffffffffffc", -4),
    "f": ("3fc00000", 1.5),
    "d": ("3ff8000000000000", 1.5),
    "D": ("0200000064", ScaledInteger(2, 100)),
    "S": ("00000002 6162", b"ab"),
    "x": ("00000002 00ff", b"\x00\xff"),
    "A": ("00000002 7401", (Field(FieldKind.BOOL, True),)),
    "F": ("00000004 016b 7401", FieldTable((("k", Field(FieldKind.BOOL, True)),))),
    "T": ("0000000065000000", 0x65000000),
    "V": ("", None),
}
"""By sign, the octets behind it and the value."""


def decoded(octets: bytes) -> FieldTable:
    """Return a table that begins with its size."""
    return tables.decode_table(octets, 4, len(octets))


@pytest.mark.parametrize("sign", EVERY_KIND)
def test_each_kind_is_read_and_written(sign: str) -> None:
    """Octet for octet, with the letter that it came with."""
    octets, value = EVERY_KIND[sign]
    entry = b"\x01k" + sign.encode() + bytes.fromhex(octets)
    data = struct.pack(">I", len(entry)) + entry
    table = decoded(data)
    assert table.entries == (("k", Field(FieldKind(sign), value)),)
    assert tables.encode_table(table) == data


def test_no_kind_is_missing() -> None:
    """The sample has them all."""
    assert set(EVERY_KIND) == {kind.value for kind in FieldKind}


@given(tables_of())
def test_any_table_comes_back(table: FieldTable) -> None:
    """Values, kinds, order and doubles; and a check has nothing to say."""
    octets = tables.encode_table(table)
    assert decoded(octets) == table
    assert tables.encode_table(decoded(octets)) == octets
    tables.check_table(octets, 4, len(octets))


@given(st.lists(fields(), max_size=5))
def test_any_array_comes_back(values: list[Field]) -> None:
    """As tables do."""
    entry = b"\x01aA" + tables.encode_array(tuple(values))
    assert tables.decode_table(entry, 0, len(entry)).get("a") == Field(
        FieldKind.ARRAY, tuple(values)
    )


@given(flat_tables())
def test_another_implementation_reads_the_same(table: FieldTable) -> None:
    """Of whom nothing here is taken: pamqp."""
    size, found = pamqp.decode.field_table(tables.encode_table(table))
    assert size == len(tables.encode_table(table))
    assert found == {name: plain(field) for name, field in table}


def plain(field: Field) -> object:
    """Return a value as pamqp gives it."""
    match field.kind, field.value:
        case FieldKind.LONG_STRING, bytes(octets):
            return octets.decode()
        case FieldKind.BINARY, bytes(octets):
            return bytearray(octets)
        case FieldKind.TIMESTAMP, int(seconds):
            return datetime.fromtimestamp(seconds, UTC)
        case FieldKind.DECIMAL, ScaledInteger(scale, unscaled):
            return Decimal(unscaled) / Decimal(10**scale)
        case _, value:
            return value


def test_the_first_of_two_values_counts() -> None:
    """Both are kept and written again."""
    table = FieldTable((("k", long_string("a")), ("k", long_string("b"))))
    again = decoded(tables.encode_table(table))
    assert again == table
    assert again.get("k") == long_string("a")


def test_a_boolean_is_any_octet_but_0() -> None:
    """It is written as 1."""
    assert decoded(bytes.fromhex("00000004 016b 7407")).get("k") == Field(FieldKind.BOOL, True)


def test_names_need_not_be_text() -> None:
    """Their octets are kept."""
    octets = bytes.fromhex("00000004 01ff 7401")
    assert tables.encode_table(decoded(octets)) == octets


MALFORMED = {
    "unknown sign": "016b 7a 00000000",
    "capital U": "016b 55 0001",
    "no sign": "016b",
    "name too long": "056b 7401",
    "value too long": "016b 53 00000005 6162",
    "no value": "016b 49",
    "short value": "016b 49 0000",
    "not a number": "016b 64 7ff8000000000000",
    "infinite": "016b 66 7f800000",
    "entry behind": "016b 7401 01",
    "inner table too long": "016b 46 00000004 7401",
    "inner array too long": "016b 41 00000003 4900",
    "size beyond everything": "016b 53 ffffffff",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_table_is_refused(what: str) -> None:
    """By reading and by checking, whatever follows it in memory.

    With the code for syntax, but for a sign that RabbitMQ has no clause for.
    """
    octets = bytes.fromhex(MALFORMED[what])
    is_sign = what in ("unknown sign", "capital U")
    code = ReplyCode.INTERNAL_ERROR if is_sign else ReplyCode.SYNTAX_ERROR
    for behind in (b"", b"\x01" * 40):
        for read in (tables.decode_table, tables.check_table):
            with pytest.raises(AmqpError, match="malformed field table") as caught:
                read(octets + behind, 0, len(octets))
            assert caught.value.code is code


def test_a_table_cannot_end_behind_what_there_is() -> None:
    """Not even if its last value would."""
    with pytest.raises(AmqpError, match="does not end with its frame"):
        tables.decode_table(bytes.fromhex("016b 53 00000005 6162"), 0, 12)


def nested(depth: int) -> bytes:
    """Return the entries of a table with so many tables in each other."""
    entries = b""
    for _ in range(depth):
        entries = b"\x00F" + struct.pack(">I", len(entries)) + entries
    return entries


def test_depth_is_limited() -> None:
    """No stack is long enough for a frame full of tables."""
    octets = nested(tables.DEPTH_MAX)
    assert tables.decode_table(octets, 0, len(octets))
    for deep in (nested(tables.DEPTH_MAX + 1), nested(15_000)):
        for read in (tables.decode_table, tables.check_table):
            with pytest.raises(AmqpError, match="nested deeper than 100"):
                read(deep, 0, len(deep))


@given(st.binary(max_size=60))
def test_a_check_says_what_reading_says(octets: bytes) -> None:
    """Both take it or neither."""
    taken = []
    for read in (tables.decode_table, tables.check_table):
        try:
            read(octets, 0, len(octets))
        except AmqpError:
            taken.append(False)
        else:
            taken.append(True)
    assert taken[0] == taken[1]


def test_nothing_is_a_table() -> None:
    """An empty one."""
    assert tables.decode_table(b"", 0, 0) == NO_FIELDS
    assert tables.encode_table(NO_FIELDS) == bytes(4)
