"""Definitions are read and written in RabbitMQ's JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import table, tables_of

from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec import definitions
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger


def test_arguments_have_the_types_of_rabbitmq() -> None:
    """Whole numbers are `long`, others `double`; lists are arrays, objects tables."""
    given = {"i": 1, "f": 1.5, "b": True, "s": "é", "l": [1, "x"], "o": {"k": False}}
    found = definitions.arguments_from_json(given)
    kinds = [FieldKind.LONG, FieldKind.DOUBLE, FieldKind.BOOL, FieldKind.LONG_STRING]
    assert [field.kind for _, field in found] == [*kinds, FieldKind.ARRAY, FieldKind.TABLE]
    assert definitions.arguments_to_json(found) == given


@pytest.mark.parametrize("value", [None, 1 << 63, [None], {"k": None}, float("inf")])
def test_arguments_that_cannot_be(value: object) -> None:
    """As in RabbitMQ there is no null; a number has 64 bits."""
    with pytest.raises(WireError, match="an argument cannot be"):
        definitions.arguments_from_json({"a": value})


def test_arguments_nested_too_deep() -> None:
    """One clear error, not a stack that is used up."""
    value: object = 1
    for _ in range(200):
        value = [value]
    with pytest.raises(WireError, match="nested deeper"):
        definitions.arguments_from_json({"a": value})


def test_values_that_json_has_not() -> None:
    """Bytes that are not text are told in base 64, a decimal is a number, a void is a word."""
    fields = {
        "x": Field(FieldKind.BINARY, b"\xff" * 60),
        "d": Field(FieldKind.DECIMAL, ScaledInteger(2, 314)),
        "v": Field(FieldKind.VOID, None),
    }
    found = definitions.arguments_to_json(FieldTable(tuple(fields.items())))
    first, _, second = str(found["x"]).partition("\n")
    assert (first, second) == ("Not UTF-8, base64 is: " + "/" * 76, "////")
    assert (found["d"], found["v"]) == (3.14, "undefined")


@pytest.mark.slow
@given(tables_of())
def test_any_arguments_can_be_written(arguments: FieldTable) -> None:
    """Whatever clients have sent."""
    json.dumps(definitions.arguments_to_json(arguments))


@given(st.binary(max_size=80).filter(lambda data: not data.lstrip().startswith(b"{}")))
def test_any_bytes_give_one_error(data: bytes) -> None:
    """And nothing else."""
    with pytest.raises(WireError, match="these are not definitions"):
        definitions.decode(data)


def test_an_error_says_where() -> None:
    """By the path in the file."""
    with pytest.raises(WireError, match=r"got `int` - at `\$\.queues\[0\]\.durable"):
        definitions.decode(b'{"queues":[{"vhost":"/","name":"q","durable":1,"auto_delete":false}]}')


def test_unknown_members_are_passed_over() -> None:
    """A later RabbitMQ may have more of them."""
    assert definitions.decode(b'{"new":1,"product_name":"x"}') == definitions.DefinitionsFile()


def test_arguments_of_one_name_twice() -> None:
    """The first counts."""
    twice = FieldTable((*table({"a": 1}).entries, *table({"a": 2}).entries))
    assert definitions.arguments_to_json(twice) == {"a": 1}
