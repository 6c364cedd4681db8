"""What filters let through at the unit and at the record."""

import pytest

from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.store.queue import ExtendedUnit
from sprocket.rocketmq.store.read.filters import PropertyFilter, TagFilter


@pytest.mark.parametrize(
    ("code", "codes", "passes"),
    [
        (7, {7}, True),
        (8, {7}, False),
        ((1 << 40) + 7, {7}, True),
        ((1 << 32) - 1, {-1}, True),
        (-(1 << 31), {-(1 << 31)}, True),
        (None, {7}, True),
        (0, set(), False),
    ],
)
def test_tags_are_compared_by_their_low_32_bits(
    code: int | None, codes: set[int], passes: bool
) -> None:
    """An unknown code passes: the consumer compares the tag itself."""
    wanted = TagFilter(frozenset(codes))
    assert passes == wanted.by_unit(code, None)
    assert not wanted.needs_properties
    assert wanted.by_record({})


def test_bits_save_a_look_at_the_record() -> None:
    """Where there are none, of another size, or older ones, nothing is left out."""
    bloom = Bloom()
    wanted = PropertyFilter(
        lambda properties: properties.get("a") == "1",
        positions=(3, 50),
        bit_map_bytes=bloom.map_bytes,
        since_ms=1000,
    )
    matches, misses = bloom.bit_map([(3, 50), (7,)]), bloom.bit_map([(3,), (7,)])
    assert wanted.by_unit(0, ExtendedUnit(0, 1000, matches))
    assert not wanted.by_unit(0, ExtendedUnit(0, 1000, misses))
    assert wanted.by_unit(0, ExtendedUnit(0, 999, misses))
    assert wanted.by_unit(0, ExtendedUnit(0, 1000, misses + b"\0"))
    assert wanted.by_unit(0, ExtendedUnit(0, 1000, b""))
    assert wanted.by_unit(None, None)
    assert PropertyFilter(lambda _: True).by_unit(0, ExtendedUnit(0, 1000, misses))


def test_the_record_decides() -> None:
    """The expression is asked for the properties."""
    wanted = PropertyFilter(lambda properties: properties.get("a") == "1")
    assert wanted.needs_properties
    assert [wanted.by_record({"a": "1"}), wanted.by_record({})] == [True, False]
