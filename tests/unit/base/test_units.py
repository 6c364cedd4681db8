"""Kinds of integers and sizes."""

from sprocket.base import units


def test_sizes() -> None:
    """Each is 1024 of the one below."""
    assert (units.KIB, units.MIB, units.GIB) == (1 << 10, 1 << 20, 1 << 30)


def test_offsets_are_plain_integers() -> None:
    """The kinds exist for the type checker only and cost nothing."""
    assert type(units.PhysicalOffset(7)) is int
    assert type(units.QueueOffset(7)) is int
