"""Kinds of offsets."""

from sprocket.rocketmq.model import offsets


def test_offsets_are_plain_integers() -> None:
    """The kinds exist for the type checker only and cost nothing."""
    assert type(offsets.PhysicalOffset(7)) is int
    assert type(offsets.QueueOffset(7)) is int
