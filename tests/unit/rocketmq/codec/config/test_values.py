"""Values in JSON of unknown make."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import values


def test_absent_members_have_defaults() -> None:
    """An object, an array, a number, a boolean, a text."""
    assert values.mapping(None, "m") == {}
    assert values.sequence(None, "s") == []
    assert values.boolean(None, default=True) is True
    assert values.text(None) == ""


def test_what_is_as_expected_is_returned() -> None:
    """The same object or array; a text beyond ASCII unchanged."""
    mapping, sequence = {"a": 1}, [1]
    assert values.mapping(mapping, "m") is mapping
    assert values.sequence(sequence, "s") is sequence
    assert values.text("grüße") == "grüße"


@pytest.mark.parametrize("value", [5, "5", 5.0, " 5"])
def test_numbers_in_other_forms(value: object) -> None:
    """Texts and floats that are one."""
    assert values.integer(value, "n") == 5


@pytest.mark.parametrize("value", ["x", None, [], True, 1 << 63, float("inf"), float("nan")])
def test_what_is_no_number(value: object) -> None:
    """It is named."""
    with pytest.raises(WireError, match="count"):
        values.integer(value, "count")


def test_bits_bound_a_number() -> None:
    """With sign."""
    assert values.integer(-(1 << 31), "n", bits=32) == -(1 << 31)
    with pytest.raises(WireError):
        values.integer(1 << 31, "n", bits=32)


@pytest.mark.parametrize(
    ("value", "expected"), [("True", True), ("1", False), (1, True), (0, False), ([], False)]
)
def test_booleans_in_other_forms(value: object, expected: bool) -> None:
    """Of texts only true is, of numbers only 1."""
    assert values.boolean(value, default=not expected) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, "5"), (True, "true"), (False, "false"), ({"a": [1]}, '{"a":[1]}'), ("\ud800x", "\ufffdx")],
)
def test_texts_of_other_values(value: object, expected: str) -> None:
    """As Java would print them; a lone surrogate cannot stay."""
    assert expected == values.text(value)


def test_a_value_that_has_no_text() -> None:
    """A number too long to print is refused, not raised as something else."""
    with pytest.raises(WireError):
        values.text(10**5000)


@pytest.mark.parametrize("check", [values.mapping, values.sequence])
def test_what_is_of_another_kind_is_named(check: object) -> None:
    """The text says what was expected."""
    assert callable(check)
    with pytest.raises(WireError, match="a thing is a int, expected an"):
        check(5, "a thing")


def test_a_fraction_is_a_number_or_a_text_that_is_one() -> None:
    """Numbers, texts that are one, nothing; anything else is named."""
    assert [values.fraction(one, "tps") for one in (1, 0.5, "2.5", None)] == [1.0, 0.5, 2.5, 0.0]
    with pytest.raises(WireError, match="tps"):
        values.fraction("x", "tps")
