"""Sizes."""

from sprocket.base import units


def test_each_size_is_1024_of_the_one_below() -> None:
    """Each is 1024 of the one below."""
    assert (units.KIB, units.MIB, units.GIB) == (1 << 10, 1 << 20, 1 << 30)
