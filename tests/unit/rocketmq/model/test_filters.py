"""What a consumer wants, as it is asked of units and of properties."""

import pytest

from sprocket.rocketmq.model import filters
from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.model.hashes import hash32

WANTED = filters.parse("b || a")


def test_an_expression_is_tags_and_their_hashes() -> None:
    """The hashes are what queue units hold."""
    assert TagFilter(("a", "b"), frozenset({hash32("a"), hash32("b")})) == WANTED
    assert filters.parse("*") is None


@pytest.mark.parametrize(
    ("code", "passes"), [(97, True), (98, True), (99, False), ((1 << 40) + 97, True), (0, False)]
)
def test_a_unit_passes_by_the_low_bits_of_its_code(code: int, passes: bool) -> None:
    """32 of them, as Java casts it."""
    assert WANTED is not None
    assert WANTED.by_unit(code) == passes


def test_a_negative_hash_is_found_in_a_unit_of_64_bits() -> None:
    """Whether its sign was extended or not."""
    (code,) = TagFilter(codes=frozenset({-1})).codes
    assert TagFilter(codes=frozenset({code})).by_unit((1 << 32) - 1)
    assert TagFilter(codes=frozenset({code})).by_unit(-1)


def test_one_of_some_messages_is_enough() -> None:
    """So that a pull that waits is woken."""
    assert WANTED is not None
    assert WANTED.by_hashes([1, 98])
    assert not WANTED.by_hashes([1, 2])


def test_properties_decide_where_two_tags_have_one_hash() -> None:
    """A unit of `BB` passes a filter for `Aa`; its properties do not."""
    wanted = filters.parse("Aa")
    assert wanted is not None
    assert wanted.by_unit(hash32("BB"))
    assert not wanted.by_properties({"TAGS": "BB"})
    assert wanted.by_properties({"TAGS": "Aa"})
    assert not wanted.by_properties({})
