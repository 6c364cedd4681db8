"""Figures, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import stats_bodies
from sprocket.rocketmq.codec.bodies.stats_bodies import Rate, ReplicaStatus, SlaveStatus, StatsData


def test_rates_are_read_back() -> None:
    """By the minute, hour and day."""
    stats = StatsData(
        minute=Rate(sum=6, tps=0.1, average=1.5), hour=Rate(sum=7, tps=0.2, average=2), day=Rate()
    )
    data = stats_bodies.encode_stats(stats)
    assert b'"statsMinute":{"avgpt":1.5,"sum":6,"tps":0.1}' in data
    assert stats_bodies.decode_stats(data) == stats


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
    for status in (ReplicaStatus(log_end=11, slaves=[]), ReplicaStatus(log_end=11, slaves=[slave])):
        data = stats_bodies.encode_replica_status(status)
        assert stats_bodies.decode_replica_status(data) == status
    assert b'"inSyncSlaveNums":1,"master":true,"masterCommitLogMaxOffset":11}' in data


def test_what_cannot_be_read_is_named() -> None:
    """A rate that is no number."""
    with pytest.raises(WireError, match="tps"):
        stats_bodies.decode_stats(b'{"statsDay":{"tps":"x"}}')
