"""Sizes."""

from sprocket.base import units


def test_sizes() -> None:
    """Each is 1024 of the one below."""
    assert (units.KIB, units.MIB, units.GIB) == (1 << 10, 1 << 20, 1 << 30)
