"""Figures, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.model.stats import StatsData


def test_what_cannot_be_read_is_named() -> None:
    """A rate that is not a number."""
    with pytest.raises(WireError, match="tps"):
        bodies.decode(StatsData, b'{"statsDay":{"tps":"x"}}')
