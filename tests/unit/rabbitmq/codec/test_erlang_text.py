"""Values are printed as Erlang's `~p` prints them."""

import pytest
from tests.field_tables import field

from sprocket.rabbitmq.codec import erlang_text
from sprocket.rabbitmq.model.fields import ScaledInteger


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (True, "true"),
        (None, "undefined"),
        ("text", '<<"text">>'),
        ("", "<<>>"),
        ("\x00", "<<0>>"),
        ({"a": [1, "two"]}, '[{<<"a">>,array,[{signedint,1},{longstr,<<"two">>}]}]'),
        ([None, 2.5], "[{void,undefined},{double,2.5}]"),
        ([], "[]"),
    ],
)
def test_typed_values(value: object, text: str) -> None:
    """With their types inside of tables and arrays."""
    assert erlang_text.value_text(field(value).value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (1000.0, "1.0e3"),
        (-1000.0, "-1.0e3"),
        (1234.5, "1234.5"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00012, "1.2e-4"),
        (12000.0, "1.2e4"),
        (1e22, "1.0e22"),
        (1.25e-7, "1.25e-7"),
        (123456789.0, "123456789.0"),
    ],
)
def test_numbers_with_a_point(value: float, text: str) -> None:
    """In the shorter notation; these were printed by Erlang/OTP 25."""
    assert erlang_text.value_text(value) == text


def test_decimals() -> None:
    """A pair of scale and digits."""
    assert erlang_text.value_text(ScaledInteger(2, 314)) == "{2,314}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"k": 5, "j": "x"}, '[{<<"k">>,5},{<<"j">>,<<"x">>}]'),
        ([1, [2.5], {}], "[1,[2.5],[]]"),
        (None, "null"),
        (False, "false"),
    ],
)
def test_values_that_were_json(value: object, text: str) -> None:
    """Objects are lists of pairs."""
    assert erlang_text.json_text(value) == text
