"""The hashes equal what Java computes."""

import pytest

from sprocket.rocketmq.model.hashes import abs_hash, cached_hash32, hash32


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("AaAa", 2_031_744),
        ("BBBB", 2_031_744),
        ("polygenelubricants", -(1 << 31)),
        ("ü", 252),
        ("😀", 1_772_899),
    ],
)
def test_hash32_is_javas(text: str, value: int) -> None:
    """Over UTF-16 units, wrapped to 32 bits with a sign; values as `String.hashCode` gives them."""
    assert hash32(text) == cached_hash32(text) == value


@pytest.mark.parametrize(
    ("value", "absolute"),
    [(0, 0), (5, 5), (-5, 5), (-(1 << 31), 0), ((1 << 31) - 1, (1 << 31) - 1)],
)
def test_the_number_without_a_counterpart_becomes_zero(value: int, absolute: int) -> None:
    """The one number without a counterpart becomes 0."""
    assert abs_hash(value) == absolute
