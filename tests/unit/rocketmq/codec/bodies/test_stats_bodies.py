"""Figures, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import Rate, ReplicaStatus, SlaveStatus, StatsData


def test_rates_are_read_back() -> None:
    """By the minute, hour and day."""
    stats = StatsData(
        minute=Rate(sum=6, tps=0.1, average=1.5), hour=Rate(sum=7, tps=0.2, average=2), day=Rate()
    )
    data = bodies.encode(stats)
    assert b'"statsMinute":{"avgpt":1.5,"sum":6,"tps":0.1}' in data
    assert bodies.decode(StatsData, data) == stats


def test_replicas_are_read_back() -> None:
    """A master with and without slaves."""
    slave = SlaveStatus(
        address="h:1",
        acknowledged_offset=5,
        lag_bytes=6,
        is_in_sync=True,
        bytes_per_second=7,
        transfer_offset=8,
    )
    for status in (
        ReplicaStatus(log_end=11, is_master=True, slaves=[]),
        ReplicaStatus(log_end=11, is_master=True, slaves=[slave]),
    ):
        data = bodies.encode(status)
        assert bodies.decode(ReplicaStatus, data) == status
    assert b'"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":11}' in data


def test_what_cannot_be_read_is_named() -> None:
    """A rate that is no number."""
    with pytest.raises(WireError, match="tps"):
        bodies.decode(StatsData, b'{"statsDay":{"tps":"x"}}')
