"""The tree of errors."""

import inspect

from sprocket.base import errors
from sprocket.base.errors import (
    BrokerRefused,
    OffsetTooLarge,
    OffsetTooSmall,
    SprocketError,
)


def test_every_error_is_one_of_ours_and_in_the_tree() -> None:
    """Each class is a `SprocketError`, and the drawing at the head names it."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert classes
    for kind in classes:
        assert issubclass(kind, SprocketError)
        assert kind.__name__ in (errors.__doc__ or "")


def test_offsets_are_told() -> None:
    """Who asked for the wrong offset learns which are right."""
    small, large = OffsetTooSmall(3, 10), OffsetTooLarge(30, 20)
    assert (small.wanted, small.lowest) == (3, 10)
    assert (large.wanted, large.highest) == (30, 20)
    assert str(small) == "offset 3 was cleaned away, the lowest kept is 10"
    assert str(large) == "offset 30 is past the end 20"


def test_refusals_carry_their_code() -> None:
    """What the broker answered, with a word where it said none."""
    refused, silent = BrokerRefused(17, "no such topic"), BrokerRefused(1, "")
    assert (refused.code, refused.remark) == (17, "no such topic")
    assert str(refused) == "no such topic (code 17)"
    assert str(silent) == "no remark (code 1)"
